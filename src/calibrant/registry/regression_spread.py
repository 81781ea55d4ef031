"""Entries of the registry: whether predicted intervals and variances are as wide as they should be."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from calibrant.calibration.binning import assign
from calibrant.calibration.regression import error_of_bins, redrawn_error_of_bins
from calibrant.intervals import NONE
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.regression_rows import PIT, RegressionRows, quantile_key
from calibrant.predictions import Regression
from calibrant.registry.accumulators import Mean, Share, counting
from calibrant.registry.binned_error import null_band
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.kept_columns import KeptColumns
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.pairs import INFINITE
from calibrant.registry.regression import lacks_levels, one_sample
from calibrant.registry.sharing import Reduced
from calibrant.scores import regression

NUMBERS = frozenset({"regression"})
LEVEL = Option("level", 0.95, "what the interval should hold", at_least=0.000001, at_most=0.999999)
PEARCE = "Pearce, Brintrup, Zaki & Neely (2018), ICML 35: 4075-4084"
Law = Callable[[float, int, float], tuple[float, float, float]]
"""Both ends of the null band and the two-sided p-value of a mean over so many rows, at a level."""


# --------------------------------------------------------------------------- means of a known law
def _known(estimate: Estimate, mean: Mean, law: Law | None, settings: Settings) -> Estimate:
    """With band and p-value, where each row counts once and stands for itself."""
    alike = (1, 0) not in mean.moments.sums and mean.moments.by_unit is None
    if law is None or not settings.intervals or not alike or not math.isfinite(estimate.value):
        return estimate
    low, high, p_value = law(estimate.value, estimate.n, settings.level)
    return replace(estimate, null_low=low, null_high=high, p_value=p_value)


@dataclass
class KnownMean(Mean):
    """A mean whose law is known where the predictions are right."""

    law: Law | None = None

    def result(self, settings: Settings) -> Estimate:
        """The mean, its interval, and its band."""
        return _known(super().result(settings), self, self.law, settings)


@dataclass
class KnownShare(Share):
    """A share whose law is known where the predictions are right."""

    law: Law | None = None

    def result(self, settings: Settings) -> Estimate:
        """The share, its interval, and its band."""
        return _known(super().result(settings), self, self.law, settings)


def binomial_law(value: float, n: int, level: float, chance: float) -> tuple[float, float, float]:
    """Of the share of n rows that come true with this chance each."""
    from scipy.special import bdtr, bdtrc

    def quantile(share: float) -> float:
        low, high = -1, n
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if bdtr(middle, n, chance) >= share else (middle, high)
        return high / n

    count = round(value * n)
    tail = min(float(bdtr(count, n, chance)), float(bdtrc(count - 1, n, chance)) if count else 1.0)
    return quantile(0.5 - level / 2), quantile(0.5 + level / 2), min(1.0, 2.0 * tail)


def chi_squared_law(value: float, n: int, level: float) -> tuple[float, float, float]:
    """Of the mean of n squares of standard normal numbers."""
    from scipy.special import gammainc, gammaincc, gammaincinv

    half = n / 2.0
    tail = min(float(gammainc(half, half * value)), float(gammaincc(half, half * value)))
    low, high = (float(gammaincinv(half, 0.5 + side * level / 2)) / half for side in (-1, 1))
    return low, high, min(1.0, 2.0 * tail)


# ------------------------------------------------------------------------------- central intervals
def _ends(spec: Spec) -> frozenset[Hashable]:
    return frozenset(quantile_key(end) for end in regression.interval_ends(float(spec["level"])))


def _lacks_ends(spec: Spec, predictions: Regression) -> str | None:
    return lacks_levels(predictions, regression.interval_ends(float(spec["level"])))


def _picp(spec: Spec, predictions: Regression) -> KnownShare:
    level = float(spec["level"])
    if predictions.kind == "gaussian":
        law = partial(binomial_law, chance=level)
        return KnownShare(partial(regression.within_by_pit, level=level), (0.0, 1.0), law=law)
    return KnownShare(partial(regression.within, level=level), (0.0, 1.0))


PICP = Metric(
    name="picp",
    title="Prediction interval coverage",
    definition="share of rows with (1 − level)/2 ≤ F(y) ≤ (1 + level)/2; of samples and quantiles, with y between the "
    "ends of the central interval, which count as inside. It should be the level.",
    reference=f"{PEARCE}; Gopal (2021), section 2.3.1",
    direction="none",
    limits=(0.0, 1.0),
    needs=frozenset({"labels"}),
    tasks=NUMBERS,
    bias="Unbiased. The right share over all rows does not show the right share anywhere. Ends from S samples are "
    "order statistics, between which ⌈S(1 + level)/2⌉ − ⌈S(1 − level)/2⌉ of S + 1 places lie: right samples cover "
    "less than the level (0.90 for S = 20 at 0.95, 0.94 for 100), so they have no band.",
    cost="linear",
    merge="exact",
    interval="Wilson",
    options=(LEVEL,),
    wanted=lambda spec, predictions: frozenset({PIT}) if predictions.kind == "gaussian" else _ends(spec),
    refuses=_lacks_ends,
    light=True,
    accumulate=_picp,
)
WIDTH = Metric(
    name="width",
    title="Width of prediction intervals",
    definition="mean u − l of the central interval [l, u] that is to hold a share of level, in the units of y.",
    reference=PEARCE,
    direction="none",
    limits=(-INFINITE, INFINITE),
    tasks=NUMBERS,
    comparable=False,
    pitfall="spread-alone",
    bias="Unbiased. Narrower is better only among models that cover alike: read it beside `picp`, or take "
    "`interval_score`, which weighs both. Ends from few samples are too near each other.",
    cost="linear",
    merge="exact",
    interval="studentised",
    options=(LEVEL,),
    wanted=lambda spec, predictions: _ends(spec),
    refuses=_lacks_ends,
    light=True,
    accumulate=lambda spec, predictions: Mean(partial(regression.width, level=float(spec["level"]))),
)


# --------------------------------------------------------------------------------------- variances
def _lacks_variance(spec: Spec, predictions: Regression) -> str | None:
    return "it needs two samples or more" if one_sample(predictions) else None


SHARPNESS = Metric(
    name="sharpness",
    title="Sharpness",
    definition="(mean σ²)^½, σ² the variance of the predictive distribution (of a mixture: of the whole; of samples: "
    "unbiased).",
    reference="Gneiting, Balabdaoui & Raftery (2007), JRSS B 69: 243-268; Kuleshov, Fenner & Ermon (2018), ICML 35: "
    "2796-2804",
    direction="none",
    limits=(0.0, INFINITE),
    needs=frozenset({"mean"}),
    tasks=NUMBERS,
    comparable=False,
    pitfall="spread-alone",
    bias="Consistent; biased by the root only, O(1/n). It says nothing of what came true: sharper is better only "
    "among calibrated models.",
    cost="linear",
    merge="exact",
    interval="studentised, then the root",
    refuses=_lacks_variance,
    accumulate=lambda spec, predictions: Mean(
        regression.variance, (0.0, INFINITE), transform=lambda value: math.sqrt(max(value, 0.0))
    ),
)
SE_VAR_RATIO = Metric(
    name="se_var_ratio",
    title="Squared error over variance",
    definition="mean (mean − y)²/σ², 1 where variances are right: above, they are too small.",
    reference="Gruber & Buettner (2022), NeurIPS 35, table 2",
    direction="none",
    limits=(0.0, INFINITE),
    needs=frozenset({"labels", "mean"}),
    tasks=NUMBERS,
    bias="Unbiased. Rows of a small variance weigh most, and one that misses with none makes it infinite. Of S samples "
    "1 is not the right value: of normal ones (1 + 1/S)·(S − 1)/(S − 3) is. The band is that of a Gaussian, "
    "χ² with n degrees over n.",
    cost="linear",
    merge="exact",
    interval="studentised",
    refuses=_lacks_variance,
    accumulate=lambda spec, predictions: KnownMean(
        regression.error_to_variance, (0.0, INFINITE), law=chi_squared_law if _one_gaussian(predictions) else None
    ),
)


def _one_gaussian(predictions: Regression) -> bool:
    return predictions.kind == "gaussian" and predictions.members == 1


@dataclass
class KeptVariances(KeptColumns):
    """Predicted variance and squared error of every row, and its weight where rows have one."""

    normal: bool = False
    """Whether predictions are single Gaussians, so that errors can be redrawn."""

    def columns_of(self, rows: RegressionRows) -> list[np.ndarray | None]:
        """σ², (mean − y)² and the weight, of rows that count."""
        return counting(rows.weights, regression.variance(rows), regression.squared_error(rows), rows.weights)

    def bins(self, count: int) -> tuple[np.ndarray, ...]:
        """Σw, Σwσ², Σw²σ⁴ and Σw(mean − y)² of bins of equal mass along σ."""
        variance, error, *weights = self.arrays()
        w = weights[0] if weights else np.ones(len(error))
        place, _ = assign(np.sqrt(variance), count, "mass", w)
        weighted = w * variance
        found = []
        for term in (w, weighted, weighted * weighted, w * error):
            sums = GroupSums()
            sums.add(term, place)
            found.append(sums.values())
        return tuple(found)


def _ence(state: KeptVariances, settings: Settings, bins: int) -> Estimate:
    _, variance, squares, error = state.bins(bins)
    value = error_of_bins(variance, error)
    if not (settings.intervals and state.normal and math.isfinite(value)) or state.by_unit:
        return Estimate.of(value, state.n)
    freedom = variance * variance / squares
    drawn = redrawn_error_of_bins(freedom, replicates=settings.resamples, seed=settings.seed)
    return Estimate.of(value, state.n, NONE, settings, (0.0, INFINITE), **null_band(drawn, value, settings))


ENCE = Metric(
    name="ence",
    title="Expected normalised calibration error",
    definition="mean over bins b of |RMSE_b − RMV_b|/RMV_b, with RMSE_b the root mean squared error of the mean and "
    "RMV_b the root mean predicted variance of bins of equal mass along σ, equal σ staying together.",
    reference="Levi, Gispan, Giladi & Fetaya (2022), Sensors 22: 5540",
    direction="lower",
    limits=(0.0, INFINITE),
    needs=frozenset({"labels", "mean"}),
    tasks=NUMBERS,
    comparable=False,
    bias="Biased up, most where variances are right, by about (B/(πn))^½ of Gaussians: see the null band, which "
    "single Gaussians have. Of few samples it is far from 0 for right ones too, for their own variances vary and sort "
    "the rows.",
    cost="sort",
    merge="rows",
    options=(Option("bins", 15, "number of bins", at_least=1, at_most=1000),),
    refuses=_lacks_variance,
    redraws=True,
    accumulate=lambda spec, predictions: Reduced(
        "variances", KeptVariances(normal=_one_gaussian(predictions)), partial(_ence, bins=int(spec["bins"]))
    ),
)
METRICS = (PICP, WIDTH, SHARPNESS, SE_VAR_RATIO, ENCE)
