"""Entries of the registry: whether predicted intervals and variances are as wide as they should be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from calibrant.calibration.binning import assign
from calibrant.calibration.regression import error_of_bins, redrawn_error_of_bins
from calibrant.intervals import NONE
from calibrant.kernels.exact import GroupSums
from calibrant.kernels.regression_rows import PIT, RegressionRows
from calibrant.predictions import Regression
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.metrics.regression import ends_of, lacks_levels, lacks_variance, quantile_columns
from calibrant.registry.state.accumulators import KeptColumns, Mean, Reduced, Share, counting
from calibrant.registry.state.binned_state import null_band
from calibrant.registry.state.pairs import INFINITE
from calibrant.scores import regression

NUMBERS = frozenset({"regression"})
LEVEL = Option("level", 0.95, "nominal coverage of the interval", at_least=0.000001, at_most=0.999999)
PEARCE = "Pearce, Brintrup, Zaki & Neely (2018), ICML 35: 4075-4084"
spread_metric = partial(
    Metric, family="regression calibration", axis="coverage and width", direction="none", limits=(0.0, INFINITE),
    tasks=NUMBERS, cost="linear", merge="exact",
)  # fmt: skip
"""The defaults of an entry of this file."""
Law = Callable[[float, int, float], tuple[float, float, float]]
"""Both ends of the null band and the two-sided p-value of a mean over so many rows, at a level."""


# --------------------------------------------------------------------------- means of a known law
@dataclass
class KnownMean(Mean):
    """A mean whose law is known where the predictions are right."""

    law: Law | None = None

    def result(self, settings: Settings) -> Estimate:
        """The mean and its interval; with band and p-value where each row counts once and stands for itself."""
        estimate = super().result(settings)
        alike = (1, 0) not in self.moments.sums and self.moments.by_unit is None
        if self.law is None or not settings.intervals or not alike or not math.isfinite(estimate.value):
            return estimate
        low, high, p_value = self.law(estimate.value, estimate.n, settings.level)
        return replace(estimate, null_low=low, null_high=high, p_value=p_value)


@dataclass
class KnownShare(KnownMean, Share):
    """A share whose law is known where the predictions are right."""


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
def _lacks_ends(spec: Spec, predictions: Regression) -> str | None:
    return lacks_levels(predictions, ends_of(spec))


def _picp(spec: Spec, predictions: Regression) -> KnownShare:
    level = float(spec["level"])
    if predictions.kind == "gaussian":
        law = partial(binomial_law, chance=level)
        return KnownShare(partial(regression.within_by_pit, level=level), (0.0, 1.0), law=law)
    return KnownShare(partial(regression.within, level=level), (0.0, 1.0))


PICP = spread_metric(
    name="picp",
    aliases=("coverage",),
    title="Prediction interval coverage",
    definition="share of rows with (1 − level)/2 ≤ F(y) ≤ (1 + level)/2; of samples and quantiles, with y between the "
    "ends of the central interval, which count as inside. It should equal the level.",
    reference=f"{PEARCE}; Gopal (2021), section 2.3.1",
    limits=(0.0, 1.0),
    needs=frozenset({"labels"}),
    bias="Unbiased. Correct coverage over all rows does not imply correct coverage in any group. Ends from S samples "
    "are order statistics, between which ⌈S(1 + level)/2⌉ − ⌈S(1 − level)/2⌉ of S + 1 places lie: calibrated samples "
    "cover less than the level (0.90 for S = 20 at 0.95, 0.94 for 100), so they have no band.",
    surprise=("intervals cover less than expected", "intervals cover more than expected"),
    relevant_error=0.05,
    roles={"default": 16, "main": 14, "recalibration": 7, "check": 2, "verdict_coverage": 1},
    interval="Wilson",
    options=(LEVEL,),
    required_columns=lambda spec, predictions: (
        frozenset({PIT}) if predictions.kind == "gaussian" else quantile_columns(ends_of(spec))
    ),
    refuses=_lacks_ends,
    short_pass=True,
    accumulate=_picp,
)
WIDTH = spread_metric(
    name="width",
    title="Width of prediction intervals",
    definition="mean u − l of the central interval [l, u] with coverage level, in the units of y.",
    reference=PEARCE,
    limits=(-INFINITE, INFINITE),
    comparable=False,
    pitfall="spread-alone",
    bias="Unbiased. Narrower is better only among models of equal coverage: read it together with `picp`, or use "
    "`interval_score`, which combines both. With few samples intervals are too narrow.",
    roles={"default": 17, "main": 15, "recalibration": 8, "shift_uncertainty": 2},
    interval="studentised",
    options=(LEVEL,),
    required_columns=lambda spec, predictions: quantile_columns(ends_of(spec)),
    refuses=_lacks_ends,
    short_pass=True,
    accumulate=lambda spec, predictions: Mean(partial(regression.width, level=float(spec["level"]))),
)


# --------------------------------------------------------------------------------------- variances
SHARPNESS = spread_metric(
    name="sharpness",
    title="Sharpness",
    definition="(mean σ²)^½, σ² the variance of the predictive distribution (of a mixture: of the whole; of samples: "
    "unbiased).",
    reference="Gneiting, Balabdaoui & Raftery (2007), JRSS B 69: 243-268; Kuleshov, Fenner & Ermon (2018), ICML 35: "
    "2796-2804",
    needs=frozenset({"mean"}),
    comparable=False,
    pitfall="spread-alone",
    bias="Consistent; biased by the root only, O(1/n). It ignores the outcomes: sharper is better only among "
    "calibrated models.",
    roles={"main": 24, "shift_uncertainty": 3},
    interval="studentised, then the root",
    refuses=lacks_variance,
    accumulate=lambda spec, predictions: Mean(
        regression.variance, (0.0, INFINITE), transform=lambda value: math.sqrt(max(value, 0.0))
    ),
)
SE_VAR_RATIO = spread_metric(
    name="se_var_ratio",
    title="Squared error over variance",
    definition="mean (mean − y)²/σ², 1 if variances are calibrated, above 1 if they are too small.",
    reference="Gruber & Buettner (2022), NeurIPS 35, table 2",
    needs=frozenset({"labels", "mean"}),
    bias="Unbiased. Rows of small variance dominate, and a miss with variance 0 makes it infinite. For S normal "
    "samples the calibrated value is not 1 but (1 + 1/S)·(S − 1)/(S − 3). The band is that of a Gaussian, "
    "χ² with n degrees over n.",
    roles={"recalibration": 9},
    interval="studentised",
    refuses=lacks_variance,
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


ENCE = spread_metric(
    name="ence",
    title="Expected normalised calibration error",
    definition="mean over bins b of |RMSE_b − RMV_b|/RMV_b, with RMSE_b the root mean squared error of the mean and "
    "RMV_b the root mean predicted variance of bins of equal mass along σ, ties in σ together.",
    reference="Levi, Gispan, Giladi & Fetaya (2022), Sensors 22: 5540",
    axis="distribution",
    direction="lower",
    needs=frozenset({"labels", "mean"}),
    comparable=False,
    bias="Biased upwards, most for calibrated variances, by about (B/(πn))^½ for Gaussians: see the null band, which "
    "single Gaussians have. With few samples it is far from 0 even if calibrated, because sample variances vary and "
    "sort the rows.",
    cost="sort",
    merge="rows",
    options=(Option("bins", 15, "number of bins", at_least=1, at_most=1000),),
    refuses=lacks_variance,
    has_null_band=True,
    accumulate=lambda spec, predictions: Reduced(
        "variances", KeptVariances(normal=_one_gaussian(predictions)), partial(_ence, bins=int(spec["bins"]))
    ),
)
METRICS = (PICP, WIDTH, SHARPNESS, SE_VAR_RATIO, ENCE)
