"""Errors without bins: functions of the runs of equal p, with null band, p-value and interval."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.calibration.inversion import detectable, union_of_inversions
from calibrant.calibration.norms import Statistic
from calibrant.intervals import NONE, Interval
from calibrant.kernels.philox import normals
from calibrant.kernels.resampling import DETECTABLE
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.state.accumulators import Reduced
from calibrant.registry.state.binned_state import null_band
from calibrant.registry.state.pairs import KeptPairs, Pairs, kept

COARSE = 30
"""Cells of equal mass for the gaps of an interval."""
OfRuns = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""f(p, w, wy), with one outcome or many."""


def runs_error(
    pairs: Pairs,
    of_runs: OfRuns,
    *,
    of_many: OfRuns | None = None,
    of_coarse: OfRuns | None = None,
    value: Callable[[KeptPairs], float] | None = None,
    interval: bool = True,
    top: float = 1.0,
) -> Reduced:
    """The accumulator of an error.

    `of_many` is a quicker form for redrawn outcomes, `of_coarse` one for the few cells of an interval, `value` a
    quicker way to the value itself.
    """
    many = of_many or of_runs
    coarse = of_coarse or many

    def reduce(state: KeptPairs, settings: Settings) -> Estimate:
        runs = state.runs
        observed = value(state) if value else float(of_runs(runs().p, runs().w, runs().wy))
        if not settings.intervals or not np.isfinite(observed):
            return Estimate.of(observed, state.n)
        null, alike = _null(state, settings, many)
        if not interval:
            return Estimate.of(observed, state.n, NONE, settings, (0.0, top), **null)
        if null:
            cells = state.runs().joined(COARSE)
            statistic = _of_gaps(cells.p, cells.w, coarse)
            noise = normals(settings.seed, DETECTABLE, settings.resamples, len(cells.p))
            noise = noise * np.sqrt(cells.variance) / cells.mass
            upper = float(np.quantile(statistic(noise), 0.5 + settings.level / 2))
            null["detectable"] = detectable(noise, cells.w / cells.mass, statistic, upper)
        span = _interval(state, settings, coarse, alike <= null["null_high"] if null else None)
        return Estimate.of(observed, state.n, span, settings, (0.0, top), **null)

    return kept(pairs, reduce)


def _null(state: KeptPairs, settings: Settings, of_many: OfRuns) -> tuple[dict[str, float], float]:
    """Band and p-value, and the observed value computed like the redrawn ones: on joined runs and the same grid."""
    redrawn = state.redrawn(settings)
    if redrawn is None:
        return {}, np.nan
    cells, wy = redrawn
    drawn = of_many(cells.p, cells.w, wy)
    drawn = drawn[np.isfinite(drawn)]
    alike = float(of_many(cells.p, cells.w, cells.wy))
    return (null_band(drawn, alike, settings) if len(drawn) else {}), alike


def _of_gaps(p: np.ndarray, w: np.ndarray, of_many: OfRuns) -> Statistic:
    """The same function, of gaps that are weighted by the share of their cell."""
    mass = float(w.sum())
    return lambda signed: of_many(p, w, w * p + signed * mass)


def _interval(state: KeptPairs, settings: Settings, of_many: OfRuns, null_holds: bool | None) -> Interval:
    binned = state.mass_bins(COARSE, True)
    table = binned.table()
    covariance = binned.covariance(table)
    if covariance is None:
        return NONE
    filled = table.w > 0  # weights too small to add to the others sum to 0
    covariance = covariance[filled] if covariance.ndim == 1 else covariance[np.ix_(filled, filled)]
    statistic = _of_gaps(table.wp[filled] / table.w[filled], table.w[filled], of_many)
    return union_of_inversions(
        table.signed[filled], table.share[filled], covariance, statistic,
        level=settings.level, draws=settings.resamples, seed=settings.seed, null_holds=null_holds,
        also=(table.share[filled],),
    )  # fmt: skip
