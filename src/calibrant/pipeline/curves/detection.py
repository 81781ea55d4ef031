"""Detection: the distribution of the score among inside and outside rows.

`scores`: the share of inside and of outside rows in each of 50 ranges of the score, from its lowest to its highest
value: lower, upper, inside, outside.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibrant.kernels.binary_rows import DetectionRows
from calibrant.pipeline.curves.base import Columns, Curve, CurveState
from calibrant.predictions import Evaluable
from calibrant.registry.estimate import Settings

BINS = 50


def curves(example: Evaluable) -> Iterator[Curve]:
    """The histograms of both sides."""
    yield Curve("scores", lambda example: CurveState(("scores",), Scores(), _columns), needs=frozenset())


class Scores:
    """The scores of all rows, because their range is known only in the end."""

    def __init__(self) -> None:
        self.parts: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = []

    def add(self, rows: DetectionRows, spread: bool = True) -> None:
        """Add rows."""
        self.parts.append((rows.score, rows.outside, rows.weights))

    def merge(self, other: Scores) -> None:
        """Add the rows of another state."""
        self.parts += other.parts


def _columns(state: Scores, settings: Settings) -> Columns:
    """Both histograms; no columns if no score is finite."""
    score, outside = (np.concatenate([part[k] for part in state.parts]) for k in (0, 1))
    weights = [part[2] for part in state.parts]
    w = np.ones(len(score)) if weights[0] is None else np.concatenate([x for x in weights if x is not None])
    finite = np.isfinite(score)
    if not finite.any():
        return {}
    low, high = float(score[finite].min()), float(score[finite].max())
    share = np.arange(BINS + 1) / BINS
    edges = low * (1.0 - share) + (high if high > low else low + 1.0) * share  # high − low may overflow
    place = np.clip(np.searchsorted(edges, score, side="right") - 1, 0, BINS - 1)
    order = np.lexsort((w, place))  # sums then do not depend on the order of rows
    curve: Columns = {"lower": edges[:-1].tolist(), "upper": edges[1:].tolist()}
    for name, side in (("inside", outside[order] == 0), ("outside", outside[order] == 1)):
        mass = np.bincount(place[order][side], w[order][side], BINS)
        curve[name] = (mass / mass.sum()).tolist() if mass.sum() > 0 else mass.tolist()
    return curve
