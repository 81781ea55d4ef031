"""Kept pairs (p, y) on a grid of cells, whose labels are redrawn once for every curve that has a band.

Cells are of about equal weight and spread, cut wherever a bin of equal mass begins; up to `EXACT` distinct p each is a
cell of its own. They depend on p and the weights, not on y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.calibration.binning import mass_cuts
from calibrant.calibration.cells import redraw
from calibrant.calibration.runs import Runs
from calibrant.registry.estimate import Settings
from calibrant.registry.kept import MOST_REDRAWN, KeptPairs

MASS_BINS = (5, 10, 15, 20, 30)
"""Numbers of bins of equal mass that there are curves of."""
EXACT, CELLS = 200, 128


@dataclass(frozen=True)
class Grid:
    """Runs of equal p joined into cells."""

    first: np.ndarray
    """The first run of each cell."""
    cells: Runs
    bins: dict[int, np.ndarray]
    """The first run of each bin of equal mass, by the number of bins that was wanted."""


def grid_of(state: KeptPairs) -> Grid:
    """The grid of all rows seen, made once."""
    return state.once("grid", lambda: _grid(state.runs()))


def _grid(runs: Runs) -> Grid:
    bins = {wanted: np.append(0, mass_cuts(runs.w, wanted) + 1) for wanted in MASS_BINS}
    if len(runs.p) <= EXACT:
        return Grid(np.arange(len(runs.p)), runs, bins)
    first = np.unique(np.concatenate([runs.first_of(CELLS), *bins.values()]))
    return Grid(first, runs.joined_at(first), bins)


def redrawn_cells(state: KeptPairs, settings: Settings) -> np.ndarray | None:
    """Σwy (R, K) of the cells when labels are redrawn; None where they cannot be, or no band is wanted."""
    if not settings.intervals or not state.binary or state.by_unit:
        return None
    return state.once(("grid", settings), lambda: _redraw(state, settings))


def _redraw(state: KeptPairs, settings: Settings) -> np.ndarray:
    cells = grid_of(state).cells
    replicates = min(settings.resamples, MOST_REDRAWN // len(cells.p))
    drawn = redraw(cells.rows, cells.p, cells.w, cells.variance, replicates=replicates, seed=settings.seed)
    return drawn if state.weighted else np.rint(drawn)
