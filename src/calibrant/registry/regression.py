"""Entries of the registry: scores of regression."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

import numpy as np

from calibrant.kernels.regression_rows import CRPS, PIT, RegressionRows, quantile_key
from calibrant.predictions import Regression
from calibrant.predictions.regression import level_index, levels_text
from calibrant.registry.accumulators import Mean
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.pairs import INFINITE
from calibrant.scores import regression

NUMBERS = frozenset({"regression"})
LABELS = frozenset({"labels"})
GNEITING = "Gneiting & Raftery (2007), JASA 102: 359-378"


def lacks_levels(predictions: Regression, levels: tuple[float, ...]) -> str | None:
    """Why quantile predictions cannot give quantiles at these levels."""
    if predictions.levels is None:
        return None
    missing = [level for level in levels if level_index(predictions.levels, level) is None]
    if not missing:
        return None
    return f"it needs the level {missing[0]:g}, and there are {levels_text(predictions.levels)}"


def _quantiles(levels: tuple[float, ...]) -> frozenset[Hashable]:
    return frozenset(quantile_key(level) for level in levels)


def _root(spec: Spec, predictions: Regression) -> Mean:
    transform: Callable[[float], float] = (lambda value: math.sqrt(max(value, 0.0))) if spec["root"] else float
    return Mean(regression.squared_error, (0.0, INFINITE), transform=transform)


MSE = Metric(
    name="mse",
    title="Mean squared error",
    definition="mean (mean − y)², the mean being that of the predictive distribution. root=true takes its root.",
    reference="Gneiting (2011), JASA 106: 746-762",
    direction="lower",
    limits=(0.0, INFINITE),
    needs=frozenset({"labels", "mean"}),
    tasks=NUMBERS,
    bias="Unbiased. It judges the mean alone, not the uncertainty. The mean of S samples adds its own variance/S.",
    cost="linear",
    merge="exact",
    interval="studentised; then the root, with root=true",
    options=(Option("root", False, "the root of it (RMSE)"),),
    accumulate=_root,
)


def _median(spec: Spec) -> tuple[float, ...]:
    return (regression.MEDIAN,) if spec["point"] == "median" else ()


def _lacks_point(spec: Spec, predictions: Regression) -> str | None:
    if predictions.kind == "quantiles" and spec["point"] == "mean":
        return "it needs a mean"
    return lacks_levels(predictions, _median(spec))


MAE = Metric(
    name="mae",
    title="Mean absolute error",
    definition="mean |median − y|, the median being that of the predictive distribution, for which this error is "
    "consistent. point=mean takes the mean instead, as most libraries do; of one Gaussian they are the same.",
    reference="Gneiting (2011), JASA 106: 746-762",
    direction="lower",
    limits=(0.0, INFINITE),
    needs=LABELS,
    tasks=NUMBERS,
    bias="Unbiased. It judges the median alone, not the uncertainty.",
    cost="linear",
    merge="exact",
    interval="studentised",
    options=(Option("point", "median", "the point that is judged", choices=("median", "mean")),),
    wanted=lambda spec, predictions: _quantiles(_median(spec)),
    refuses=_lacks_point,
    accumulate=lambda spec, predictions: Mean(
        lambda rows: regression.absolute_error(rows, str(spec["point"])), (0.0, INFINITE)
    ),
)


def one_sample(predictions: Regression) -> bool:
    """Whether there is only one sample a row, which has no variance."""
    return predictions.samples is not None and len(predictions.samples) < 2


DSS = Metric(
    name="dss",
    title="Dawid-Sebastiani score",
    definition="mean (mean − y)²/σ² + log σ², with mean and variance of the predictive distribution (of a mixture: of "
    "the whole; of samples: unbiased variance). Twice the Gaussian NLL less log 2π.",
    reference="Dawid & Sebastiani (1999), Annals of Statistics 27: 65-81",
    direction="lower",
    limits=(-INFINITE, INFINITE),
    needs=frozenset({"labels", "mean"}),
    tasks=NUMBERS,
    proper=True,
    bias="Proper; strictly so among distributions that differ in mean or variance. Of few samples it is biased up, "
    "and infinite where they are all equal and miss.",
    cost="linear",
    merge="exact",
    interval="studentised",
    refuses=lambda spec, predictions: "it needs two samples or more" if one_sample(predictions) else None,
    accumulate=lambda spec, predictions: Mean(regression.dss),
)


def _lacks_pairs(spec: Spec, predictions: Regression) -> str | None:
    if spec["fair"] and one_sample(predictions):
        return "it needs two samples or more (fair=false does not)"
    return None


CRPS_METRIC = Metric(
    name="crps",
    title="Continuous ranked probability score",
    definition="mean E|X − y| − ½E|X − X'|, in the units of y. Gaussians and mixtures in closed form. Samples: fair, "
    "with |X − X'| over pairs of different draws, so that its expectation is that of the distribution they are drawn "
    "from; fair=false is the score of the empirical distribution itself.",
    reference=f"{GNEITING}; Grimit et al. (2006), QJRMS 132: 2925-2942, for mixtures; Ferro (2014), QJRMS 140: "
    "1917-1923, for the fair form",
    direction="lower",
    limits=(-INFINITE, INFINITE),
    needs=frozenset({"labels", "distribution"}),
    tasks=NUMBERS,
    proper=True,
    bias="Unbiased. fair=false favours few, narrow samples; the fair form may fall below 0 in single rows.",
    cost="linear",
    merge="exact",
    interval="studentised",
    options=(Option("fair", True, "of samples: whether pairs are of different draws"),),
    wanted=lambda spec, predictions: frozenset({CRPS}),
    refuses=_lacks_pairs,
    accumulate=lambda spec, predictions: Mean(
        lambda rows: regression.crps(rows, bool(spec["fair"])),
        (-INFINITE if predictions.kind == "samples" and spec["fair"] else 0.0, INFINITE),
    ),
)


def _pinball_levels(spec: Spec, predictions: Regression) -> tuple[float, ...]:
    if float(spec["level"]):
        return (float(spec["level"]),)
    if predictions.levels is not None and not int(spec["levels"]):
        return tuple(predictions.levels.tolist())
    count = int(spec["levels"]) or 19
    return tuple(k / (count + 1) for k in range(1, count + 1))


def _lacks_pinball_levels(spec: Spec, predictions: Regression) -> str | None:
    if spec["level"] and spec["levels"]:
        return "level and levels exclude each other"
    return lacks_levels(predictions, _pinball_levels(spec, predictions))


def _pinball(spec: Spec, predictions: Regression) -> Mean:
    levels = _pinball_levels(spec, predictions)
    return Mean(lambda rows: regression.pinball(rows, levels), (0.0, INFINITE))


PINBALL = Metric(
    name="pinball",
    title="Pinball loss",
    definition="mean (τ − 1{y < q})·(y − q) over rows and levels τ, q the quantile at τ: the levels that were given "
    "with quantiles, else 19 equally spaced ones, 0.05 to 0.95. level= takes one level, levels= so many equally spaced "
    "ones. Over many levels it tends to half the CRPS. Quantiles of samples: the ⌈Sτ⌉-th smallest.",
    reference="Koenker & Bassett (1978), Econometrica 46: 33-50; Gneiting & Raftery (2007), section 6.2",
    direction="lower",
    limits=(0.0, INFINITE),
    needs=LABELS,
    tasks=NUMBERS,
    proper=True,
    bias="Unbiased; comparable only at the same levels.",
    cost="linear",
    merge="exact",
    interval="studentised",
    options=(
        Option("levels", 0, "number of equally spaced levels; 0: those given, or 19", at_least=0, at_most=999),
        Option("level", 0.0, "one level; 0: several", at_least=0.0, at_most=0.999999),
    ),
    wanted=lambda spec, predictions: _quantiles(_pinball_levels(spec, predictions)),
    refuses=_lacks_pinball_levels,
    accumulate=_pinball,
)


def _ends(spec: Spec) -> tuple[float, float]:
    return regression.interval_ends(float(spec["level"]))


INTERVAL_SCORE = Metric(
    name="interval_score",
    title="Interval score",
    definition="mean u − l + 2/α·((l − y)₊ + (y − u)₊) of the central interval [l, u] that holds a share 1 − α = "
    "level: its width, and a fine for each miss.",
    reference=f"{GNEITING}, section 6.2; Winkler (1972), JASA 67: 187-191",
    direction="lower",
    limits=(-INFINITE, INFINITE),
    needs=LABELS,
    tasks=NUMBERS,
    proper=True,
    bias="Unbiased; comparable only at the same level. Quantiles that cross can make the width of a row negative.",
    cost="linear",
    merge="exact",
    interval="studentised",
    options=(Option("level", 0.95, "what the interval should hold", at_least=0.000001, at_most=0.999999),),
    wanted=lambda spec, predictions: _quantiles(_ends(spec)),
    refuses=lambda spec, predictions: lacks_levels(predictions, _ends(spec)),
    accumulate=lambda spec, predictions: Mean(
        lambda rows: regression.interval_score(rows, float(spec["level"])),
        (-INFINITE if predictions.kind == "quantiles" else 0.0, INFINITE),
    ),
)
PIT_MEAN = Metric(
    name="pit",
    title="Probability integral transform",
    definition="mean F(y), F the predictive distribution function (of a mixture: the mean of its members'). ½ where "
    "the model is neither too high nor too low; the values of rows are uniform where it is right. Samples: the middle "
    "of y's place among them, (below + ½ ties + ½)/(S + 1).",
    reference="Dawid (1984), JRSS A 147: 278-292; Gneiting, Balabdaoui & Raftery (2007), JRSS B 69: 243-268",
    direction="none",
    limits=(0.0, 1.0),
    needs=frozenset({"labels", "distribution"}),
    tasks=NUMBERS,
    bias="Unbiased. A mean of ½ does not show calibration: look at the histogram.",
    cost="linear",
    merge="exact",
    interval="studentised",
    wanted=lambda spec, predictions: frozenset({PIT}),
    light=True,
    accumulate=lambda spec, predictions: Mean(regression.pit, (0.0, 1.0)),
)


def _variance(
    name: str, title: str, definition: str, score: Callable[[RegressionRows], np.ndarray], needs: frozenset[str]
) -> Metric:
    return Metric(
        name=name,
        title=title,
        definition=definition,
        reference="Depeweg et al. (2018), ICML 35: 1184-1193; Kendall & Gal (2017), NeurIPS 30",
        direction="none",
        limits=(0.0, INFINITE),
        needs=needs,
        tasks=NUMBERS,
        cost="linear",
        merge="exact",
        interval="studentised",
        accumulate=lambda spec, predictions: Mean(score, (0.0, INFINITE)),
    )


METRICS = (
    MSE,
    MAE,
    DSS,
    CRPS_METRIC,
    PINBALL,
    INTERVAL_SCORE,
    PIT_MEAN,
    _variance(
        "aleatoric_variance",
        "Aleatoric variance",
        "Mean over rows and members of σ²: what would remain uncertain if the member were known.",
        regression.aleatoric_variance,
        frozenset({"density"}),
    ),
    _variance(
        "epistemic_variance",
        "Epistemic variance",
        "Mean over rows of the variance of the members' means: what they disagree on.",
        regression.epistemic_variance,
        frozenset({"density", "members"}),
    ),
)
