"""Entries of the registry: scores of regression."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from functools import partial

import numpy as np

from calibrant.kernels.regression_rows import CRPS, PIT, RegressionRows, quantile_key
from calibrant.predictions import Regression
from calibrant.predictions.regression import format_levels, level_index
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.state.accumulators import Mean
from calibrant.registry.state.null_mean import NullMean
from calibrant.registry.state.pairs import INFINITE
from calibrant.scores import regression

NUMBERS = frozenset({"regression"})
LABELS = frozenset({"labels"})
GNEITING = "Gneiting & Raftery (2007), JASA 102: 359-378"
regression_score = partial(
    Metric, family="regression scores", axis="scores", direction="lower", limits=(0.0, INFINITE), tasks=NUMBERS,
    cost="linear", merge="exact", interval="studentised",
)  # fmt: skip
"""The defaults of an entry of this file."""


def lacks_levels(predictions: Regression, levels: tuple[float, ...]) -> str | None:
    """Why quantile predictions cannot give quantiles at these levels."""
    if predictions.levels is None:
        return None
    missing = [level for level in levels if level_index(predictions.levels, level) is None]
    if not missing:
        return None
    return f"it needs the level {missing[0]:g}, and there are {format_levels(predictions.levels)}"


def quantile_columns(levels: Iterable[float]) -> frozenset[Hashable]:
    """The columns with the quantiles at these levels."""
    return frozenset(quantile_key(level) for level in levels)


MSE = regression_score(
    name="mse",
    label="MSE",
    title="Mean squared error",
    definition="mean (mean − y)², with the mean of the predictive distribution. root=true takes its root.",
    reference="Gneiting (2011), JASA 106: 746-762",
    needs=frozenset({"labels", "mean"}),
    bias="Unbiased. It scores the mean alone, not the uncertainty. The mean of S samples adds its own variance/S.",
    surprise=("errors are smaller than expected", "errors are larger than expected"),
    roles={
        "default": 10,
        "main": 9,
        "group": 10,
        "group_column": 2,
        "comparison": 4,
        "recalibration": 1,
        "check": 3,
        "shift_trend": 3,
    },
    interval="studentised; then the root, with root=true",
    options=(Option("root", False, "take the root (RMSE)"),),
    accumulate=lambda spec, predictions: Mean(
        regression.squared_error,
        (0.0, INFINITE),
        transform=(lambda value: math.sqrt(max(value, 0.0))) if spec["root"] else float,
    ),
)


def _median(spec: Spec) -> tuple[float, ...]:
    return (regression.MEDIAN,) if spec["point"] == "median" else ()


def _lacks_point(spec: Spec, predictions: Regression) -> str | None:
    if predictions.kind == "quantiles" and spec["point"] == "mean":
        return "it needs a mean"
    return lacks_levels(predictions, _median(spec))


MAE = regression_score(
    name="mae",
    label="MAE",
    title="Mean absolute error",
    definition="mean |median − y|, with the median of the predictive distribution, for which this error is "
    "consistent. point=mean uses the mean, as most libraries do; for one Gaussian they are the same.",
    reference="Gneiting (2011), JASA 106: 746-762",
    needs=LABELS,
    bias="Unbiased. It scores the median alone, not the uncertainty.",
    roles={"default": 11, "main": 10, "group": 11, "group_column": 3},
    options=(Option("point", "median", "the point prediction", choices=("median", "mean")),),
    required_columns=lambda spec, predictions: quantile_columns(_median(spec)),
    refuses=_lacks_point,
    accumulate=lambda spec, predictions: Mean(
        lambda rows: regression.absolute_error(rows, str(spec["point"])), (0.0, INFINITE)
    ),
)


def one_sample(predictions: Regression) -> bool:
    """Whether there is only one sample a row, which has no variance."""
    return predictions.samples is not None and len(predictions.samples) < 2


def lacks_variance(spec: Spec, predictions: Regression) -> str | None:
    """Why these predictions have no variance, or None."""
    return "it needs two samples or more" if one_sample(predictions) else None


DSS = regression_score(
    name="dss",
    label="DSS",
    title="Dawid-Sebastiani score",
    definition="mean (mean − y)²/σ² + log σ², with mean and variance of the predictive distribution (of a mixture: of "
    "the whole; of samples: unbiased variance). Twice the Gaussian NLL less log 2π.",
    reference="Dawid & Sebastiani (1999), Annals of Statistics 27: 65-81",
    limits=(-INFINITE, INFINITE),
    needs=frozenset({"labels", "mean"}),
    proper=True,
    divergence="the divergence of the Dawid-Sebastiani score",
    bias="Proper; strictly so among distributions that differ in mean or variance. With few samples it is biased "
    "upwards, and infinite if they are all equal and miss.",
    roles={"sample_size_reference": 2, "group": 13, "comparison": 3, "recalibration": 2, "regression_sample_size": 1},
    refuses=lacks_variance,
    accumulate=lambda spec, predictions: Mean(regression.dss),
)


CRPS_METRIC = regression_score(
    name="crps",
    label="CRPS",
    title="Continuous ranked probability score",
    definition="mean E|X − y| − ½E|X − X'|, in the units of y. Gaussians and mixtures in closed form. Samples: fair, "
    "with |X − X'| over pairs of different draws, so that its expectation is that of the distribution they are drawn "
    "from; fair=false is the score of the empirical distribution itself.",
    reference=f"{GNEITING}; Grimit et al. (2006), QJRMS 132: 2925-2942, for mixtures; Ferro (2014), QJRMS 140: "
    "1917-1923, for the fair form",
    limits=(-INFINITE, INFINITE),
    needs=frozenset({"labels", "distribution"}),
    proper=True,
    divergence="the divergence of the CRPS",
    bias="Unbiased. fair=false favours few, narrow samples; the fair form can be negative in single rows.",
    surprise=("the score is better than expected", "the score is worse than expected"),
    roles={
        "default": 12,
        "main": 11,
        "group": 12,
        "group_column": 5,
        "row_loss": 2,
        "row_loss(fair=false)": 3,
        "comparison": 2,
        "recalibration": 4,
        "regression_sample_size": 2,
        "check": 5,
    },
    options=(Option("fair", True, "of samples: whether pairs are of different draws"),),
    required_columns=lambda spec, predictions: frozenset({CRPS}),
    refuses=lambda spec, predictions: (
        "it needs two samples or more (fair=false does not)" if spec["fair"] and one_sample(predictions) else None
    ),
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


PINBALL = regression_score(
    name="pinball",
    title="Pinball loss",
    definition="mean (τ − 1{y < q})·(y − q) over rows and levels τ, q the quantile at τ: the levels of quantile "
    "predictions, else 19 equally spaced ones, 0.05 to 0.95. level= selects one level, levels= a number of equally "
    "spaced ones. Over many levels it tends to half the CRPS. Quantiles of samples: the ⌈Sτ⌉-th smallest.",
    reference="Koenker & Bassett (1978), Econometrica 46: 33-50; Gneiting & Raftery (2007), section 6.2",
    needs=LABELS,
    proper=True,
    divergence="the divergence of the pinball loss",
    bias="Unbiased; comparable only at the same levels.",
    roles={
        "default": 13,
        "group": 14,
        "row_loss": 4,
        "recalibration(levels=19)": 5,
        "quantile_score": 1,
        "quantile_score(levels=19)": 2,
        "quantile_score(levels=9)": 3,
        "quantile_score(levels=3)": 4,
        "quantile_score(level=0.5)": 5,
    },
    options=(
        Option("levels", 0, "number of equally spaced levels; 0: those given, or 19", at_least=0, at_most=999),
        Option("level", 0.0, "one level; 0: several", at_least=0.0, at_most=0.999999),
    ),
    required_columns=lambda spec, predictions: quantile_columns(_pinball_levels(spec, predictions)),
    refuses=_lacks_pinball_levels,
    accumulate=lambda spec, predictions: Mean(
        partial(regression.pinball, levels=_pinball_levels(spec, predictions)), (0.0, INFINITE)
    ),
)


def ends_of(spec: Spec) -> tuple[float, float]:
    """The levels between which the central interval of a spec lies."""
    return regression.interval_ends(float(spec["level"]))


INTERVAL_SCORE = regression_score(
    name="interval_score",
    title="Interval score",
    definition="mean u − l + 2/α·((l − y)₊ + (y − u)₊) of the central interval [l, u] with coverage 1 − α = level: "
    "its width, plus a penalty for each miss.",
    reference=f"{GNEITING}, section 6.2; Winkler (1972), JASA 67: 187-191",
    limits=(-INFINITE, INFINITE),
    needs=LABELS,
    proper=True,
    bias="Unbiased; comparable only at the same level. Quantiles that cross can make the width of a row negative.",
    roles={"default": 14, "main": 12, "group": 15, "group_column": 6},
    options=(Option("level", 0.95, "nominal coverage of the interval", at_least=0.000001, at_most=0.999999),),
    required_columns=lambda spec, predictions: quantile_columns(ends_of(spec)),
    refuses=lambda spec, predictions: lacks_levels(predictions, ends_of(spec)),
    accumulate=lambda spec, predictions: Mean(
        lambda rows: regression.interval_score(rows, float(spec["level"])),
        (-INFINITE if predictions.kind == "quantiles" else 0.0, INFINITE),
    ),
)


def _pit(spec: Spec, predictions: Regression) -> NullMean:
    """The mean of n uniform numbers has variance 1/(12n); of S samples, y has S + 1 equally probable places."""
    del spec
    places = math.inf if predictions.samples is None else len(predictions.samples) + 1
    variance = (1.0 - 1.0 / places**2) / 12.0

    def moments(rows: RegressionRows) -> tuple[np.ndarray, np.ndarray]:
        return np.full(rows.n, variance), np.zeros(rows.n)

    return NullMean(regression.pit, (0.0, 1.0), moments_if_right=moments, expected=0.5)


PIT_MEAN = regression_score(
    name="pit",
    label="PIT",
    title="Probability integral transform",
    definition="mean F(y), F the predictive distribution function (of a mixture: the mean of its members'). ½ if the "
    "model is unbiased; the values of rows are uniform if it is calibrated. Samples: the middle "
    "of y's place among them, (below + ½ ties + ½)/(S + 1).",
    reference="Dawid (1984), JRSS A 147: 278-292; Gneiting, Balabdaoui & Raftery (2007), JRSS B 69: 243-268",
    axis="coverage and width",
    direction="none",
    limits=(0.0, 1.0),
    needs=frozenset({"labels", "distribution"}),
    bias="Unbiased. A mean of ½ does not show calibration: look at the histogram.",
    expected=0.5,
    relevant_error=0.02,
    roles={"group": 16, "group_column": 7, "test_regression": 1},
    required_columns=lambda spec, predictions: frozenset({PIT}),
    short_pass=True,
    accumulate=_pit,
)


variance_part = partial(
    regression_score, axis="uncertainty", direction="none",
    reference="Depeweg et al. (2018), ICML 35: 1184-1193; Kendall & Gal (2017), NeurIPS 30",
)  # fmt: skip
METRICS = (
    MSE,
    MAE,
    DSS,
    CRPS_METRIC,
    PINBALL,
    INTERVAL_SCORE,
    PIT_MEAN,
    variance_part(
        name="aleatoric_variance",
        title="Aleatoric variance",
        definition="Mean over rows and members of σ²: the uncertainty within members.",
        needs=frozenset({"density"}),
        accumulate=lambda spec, predictions: Mean(regression.aleatoric_variance, (0.0, INFINITE)),
    ),
    variance_part(
        name="epistemic_variance",
        roles={"default": 15},
        title="Epistemic variance",
        definition="Mean over rows of the variance of the members' means: their disagreement.",
        needs=frozenset({"density", "members"}),
        accumulate=lambda spec, predictions: Mean(regression.epistemic_variance, (0.0, INFINITE)),
    ),
)
