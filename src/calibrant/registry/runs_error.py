"""Errors without bins of their own: functions of the runs of equal p, with null band, p-value and interval."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.calibration.inversion import detectable, union_of_inversions
from calibrant.calibration.norms import Statistic
from calibrant.calibration.runs import Runs
from calibrant.intervals import NONE, Interval
from calibrant.kernels.philox import normals
from calibrant.kernels.resampling import DETECTABLE
from calibrant.registry.binned_error import null_band
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.kept import KeptPairs, kept
from calibrant.registry.pairs import Pairs
from calibrant.registry.sharing import Reduced

COARSE = 30
"""Cells of equal mass along which an interval looks for gaps."""
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
        found = value(state) if value else float(of_runs(*_parts(state.runs())))
        if not settings.intervals or not np.isfinite(found):
            return Estimate.of(found, state.n)
        null, alike = _null(state, settings, many)
        if not interval:
            return Estimate.of(found, state.n, NONE, settings, (0.0, top), **null)
        if null:
            null["detectable"] = _detectable(state.runs().joined(COARSE), settings, coarse)
        span = _interval(state, settings, coarse, alike <= null["null_high"] if null else None)
        return Estimate.of(found, state.n, span, settings, (0.0, top), **null)

    return kept(pairs, reduce)


def _parts(runs: Runs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return runs.p, runs.w, runs.wy


def _null(state: KeptPairs, settings: Settings, of_many: OfRuns) -> tuple[dict[str, float], float]:
    """Band and p-value, and the value as redrawn outcomes are reckoned: of joined runs, on the same grid."""
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


def _detectable(cells: Runs, settings: Settings, of_many: OfRuns) -> float:
    statistic = _of_gaps(cells.p, cells.w, of_many)
    noise = normals(settings.seed, DETECTABLE, settings.resamples, len(cells.p)) * np.sqrt(cells.variance) / cells.mass
    upper = float(np.quantile(statistic(noise), 0.5 + settings.level / 2))
    return detectable(noise, cells.w / cells.mass, statistic, upper)


def _interval(state: KeptPairs, settings: Settings, of_many: OfRuns, null_holds: bool | None) -> Interval:
    binned = state.mass_bins(COARSE, True)
    table = binned.table()
    covariance = binned.covariance(table)
    if covariance is None:
        return NONE
    held = table.w > 0  # a cell of weights too small to be summed beside the others has none
    covariance = covariance[held] if covariance.ndim == 1 else covariance[np.ix_(held, held)]
    statistic = _of_gaps(table.wp[held] / table.w[held], table.w[held], of_many)
    return union_of_inversions(
        table.signed[held], table.share[held], covariance, statistic,
        level=settings.level, draws=settings.resamples, seed=settings.seed, null_holds=null_holds,
        also=(table.share[held],),
    )  # fmt: skip
