"""Entries of the registry: calibration of predictive distributions of a number, over levels."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from calibrant.calibration import regression
from calibrant.calibration.inversion import detectable, union_of_inversions
from calibrant.calibration.norms import Statistic
from calibrant.intervals import NONE, Interval
from calibrant.kernels.regression_rows import PIT
from calibrant.predictions import Regression
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Metric, Option, Spec
from calibrant.registry.metrics.regression import quantile_columns
from calibrant.registry.state.accumulators import Reduced
from calibrant.registry.state.binned_state import null_band
from calibrant.registry.state.level_coverage import BELOW, CENTRAL, LevelShares, central_pairs

LEVELS = 100
OPTIONS = (
    Option("levels", LEVELS, "number of levels j/B, j = 1 … B", at_least=1, at_most=1000),
    Option("coverage", BELOW, "outcomes below a quantile, or within a central interval", choices=(BELOW, CENTRAL)),
)
KULESHOV = "Kuleshov, Fenner & Ermon (2018), ICML 35: 2796-2804"
CZADO = "Czado, Gneiting & Held (2009), Biometrics 65: 1254-1261, for samples"


def error_over_levels(
    spec: Spec, predictions: Regression, statistic: Statistic, outer: Callable[[float, int], float]
) -> Reduced:
    """The accumulator of outer(statistic(p̂ − p), B), the outer function rising."""
    levels, coverage = int(spec["levels"]), str(spec["coverage"])
    state = LevelShares.of(predictions, levels, coverage)
    return Reduced(("levels", levels, coverage), state, partial(_error, statistic=statistic, outer=outer))


def _error(
    state: LevelShares, settings: Settings, statistic: Statistic, outer: Callable[[float, int], float]
) -> Estimate:
    """The error, and what calibrated predictions would give; all is found before the outer function is applied."""
    count = len(state.levels)
    found = float(statistic(state.shares() - state.levels))
    drawn = state.null(settings) if settings.intervals else None
    if drawn is None:
        return Estimate.of(outer(found, count), state.n)
    facts = state.once((statistic, settings), lambda: _facts(state, settings, statistic, drawn - state.levels))
    null, interval = facts[0].copy(), facts[1]
    null |= {key: outer(null[key], count) for key in ("null_low", "null_high", "detectable") if key in null}
    ends = Interval(outer(interval.low, count), outer(interval.high, count), interval.method)
    return Estimate.of(outer(found, count), state.n, ends, settings, (0.0, outer(1.0, count)), **null)


def _facts(
    state: LevelShares, settings: Settings, statistic: Statistic, noise: np.ndarray
) -> tuple[dict[str, float], Interval]:
    """Null band, p-value, what could be detected, and the interval, from gaps (R, B) of calibrated predictions."""
    gaps = state.shares() - state.levels
    null = null_band(statistic(noise), float(statistic(gaps)), settings)
    narrow = regression.shapes(state.levels, state.coverage)[0]
    if narrow.any():
        null["detectable"] = detectable(noise, narrow, statistic, null["null_high"])
    return null, _interval(state, gaps, statistic, settings, null["null_high"])


def _interval(state: LevelShares, gaps: np.ndarray, statistic: Statistic, settings: Settings, upper: float) -> Interval:
    """The union of test inversions along the observed gaps, those that stand out, and shapes that may be behind them.

    upper: the most that chance alone gives. A shape that leaves more than that of the gaps unexplained is left out.
    """
    if state.terms < 2:
        return NONE
    also = []
    for shape in regression.shapes(state.levels, state.coverage):
        if not shape.any():
            continue
        size = float((gaps * shape).sum() / (shape * shape).sum())
        if statistic(gaps - size * shape) <= upper:
            also.append(shape)
    variance, noise = state.errors(settings)
    return union_of_inversions(
        gaps, np.full(len(gaps), 1.0 / len(gaps)), variance, statistic,
        level=settings.level, draws=settings.resamples, seed=settings.seed,
        null_holds=bool(statistic(gaps) <= upper), also=also, noise=noise,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------- facts
def _lacks_levels(spec: Spec, predictions: Regression) -> str | None:
    if predictions.levels is None:
        return None
    if spec["levels"] != LEVELS:
        return "it takes the levels that quantiles were given at: leave levels out"
    if spec["coverage"] == CENTRAL:
        pairs = central_pairs(predictions.levels)
        if pairs is None or not len(pairs):
            return "it needs quantiles in pairs, at levels t and 1 - t, for central intervals"
    return None


def pit_columns(spec: Spec, predictions: Regression) -> frozenset[Hashable]:
    """The PIT, or every quantile that was given."""
    if predictions.levels is None:
        return frozenset({PIT})
    return quantile_columns(predictions.levels.tolist())


def _over_levels(
    definition: str, top: float, statistic: Statistic, outer: Callable[[float, int], float], **facts: Any
) -> Metric:
    return Metric(
        family="regression calibration",
        axis="distribution",
        definition=f"{definition}, p_j = j/B, p̂_j the share of rows with F(y) < p_j; coverage=central: with "
        "|2F(y) − 1| ≤ p_j. F is the predictive distribution function, of members that of the mixture. A row of "
        "samples is spread evenly over y's place among them. Quantiles are evaluated at their own levels, with y = "
        "q_j counting half, and central intervals by pairs of levels.",
        reference=f"{KULESHOV}; Gopal (2021), equation 2.4; {CZADO}",
        direction="lower",
        limits=(0.0, top),
        needs=frozenset({"labels"}),
        tasks=frozenset({"regression"}),
        comparable=False,
        bias="Biased upwards, most for calibrated predictions: see the null band. 0 does not mean that predictions "
        "are good, or calibrated in every row: errors of opposite sign cancel, and predicting the marginal "
        "distribution of y is calibrated. If members err together, their mixture need not be calibrated. "
        "Ties among samples make the band and the interval a little too wide.",
        cost="linear",
        merge="exact",
        interval="union of test inversions; none for dependent rows (units)",
        options=OPTIONS,
        required_columns=pit_columns,
        refuses=_lacks_levels,
        has_null_band=True,
        short_pass=True,
        accumulate=lambda spec, predictions: error_over_levels(spec, predictions, statistic, outer),
        **facts,
    )


RELEVANT = 0.05
"""The difference of nominal and observed shares that matters."""
CALIBRATION_ERROR = _over_levels(
    name="calibration_error",
    title="Calibration error over levels",
    definition="Σ_j (p_j − p̂_j)²",
    relevant_error=LEVELS * RELEVANT**2,
    roles={"main": 13, "check": 1, "verdict_error": 3},
    top=float("inf"),
    statistic=regression.root_mean_square,
    outer=lambda value, count: count * value * value,
)
MACE = _over_levels(
    name="mace",
    label="MACE",
    title="Mean absolute calibration error",
    definition="mean_j |p_j − p̂_j|",
    expected=0.0,
    relevant_error=RELEVANT,
    roles={
        "recalibration": 6,
        "regression_sample_size": 4,
        "verdict_error": 1,
        "shift_trend": 4,
        "test_regression": 3,
    },
    top=1.0,
    statistic=regression.mean_absolute,
    outer=lambda value, count: value,
)
RMSCE = _over_levels(
    name="rmsce",
    label="RMSCE",
    title="Root mean squared calibration error",
    definition="(mean_j (p_j − p̂_j)²)^½",
    roles={"regression_sample_size": 5, "verdict_error": 2},
    top=1.0,
    statistic=regression.root_mean_square,
    outer=lambda value, count: value,
)
METRICS = (CALIBRATION_ERROR, MACE, RMSCE)
