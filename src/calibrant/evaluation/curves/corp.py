"""CORP: accuracy as the rising function of confidence that fits best, without bins to choose.

`corp` has at most some 200 cells, up to 200 distinct confidences each being one; the fit is of all of them in any case.
Columns: lower, upper (the least and greatest confidence of the cell), n, confidence (its mean), recalibrated (the mean
of the fit over the cell: neighbours of one value are a step), and band_low, band_high: where the mean of the fit over
the cell lies with probability `level` when labels are drawn from the predictions and fitted anew, cell by cell. Cells
do not depend on labels as the steps of the fit do, which is why the band is of them.

Reference: Dimitriadis, Gneiting & Jordan (2021), PNAS 118: e2016191118.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibrant.evaluation.curves.curve import KEPT, Columns, Curve, Drawn, banded, columns, pointwise
from calibrant.evaluation.curves.redrawn import grid_of, redrawn_cells
from calibrant.kernels.isotonic import rising_fit
from calibrant.predictions import Evaluated
from calibrant.registry.estimate import Settings
from calibrant.registry.kept import KeptPairs
from calibrant.registry.pairs import TopPairs


def curves(example: Evaluated) -> Iterator[Curve]:
    """That of the top label."""
    if example.task in ("classification", "judged"):
        yield Curve("corp", _accumulate)


def _accumulate(example: Evaluated) -> Drawn:
    del example
    return Drawn((KEPT, TopPairs()), KeptPairs(TopPairs()), _columns)


def _columns(state: KeptPairs, settings: Settings) -> Columns:
    runs, grid = state.runs(), grid_of(state)
    cells = grid.cells
    last = np.append(grid.first[1:], len(runs.p)) - 1
    fitted = np.add.reduceat(runs.w * rising_fit(runs.w, runs.wy), grid.first) / cells.w
    fitted = np.maximum.accumulate(np.clip(fitted, 0.0, 1.0))  # without the rounding of the means
    made = columns(
        lower=runs.p[grid.first], upper=runs.p[last], n=cells.rows, confidence=cells.p, recalibrated=fitted
    )  # fmt: skip
    drawn = redrawn_cells(state, settings)
    if drawn is None:
        return made
    return banded(made, pointwise(rising_fit(cells.w, drawn, settings.threads), settings.level))
