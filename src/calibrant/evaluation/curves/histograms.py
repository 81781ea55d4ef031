"""How confident a model is, and how right where it is so confident: sums over fixed ranges.

- `confidence`: 20 bins of the confidence. lower, upper, n, correct, wrong.
- `entropy`: 20 bins from 0 to log C. The same columns.
- `mutual_information`: of M members that predict classes, 20 bins from 0 to log min(M, C), which it cannot exceed. The
  same columns.
- `accuracy_confidence`: the accuracy of the rows of at least some confidence. threshold, accuracy, n, share (of the
  weight); thresholds that no row reaches are left out. Ovadia et al. (2019), NeurIPS 32, figure 2.

n counts rows. correct and wrong are sums of weights where rows have weights, and of shares where labels are soft;
without labels they are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.calibration.binned import BinSums
from calibrant.calibration.binning import equal_width
from calibrant.evaluation.curves.curve import Columns, Curve, Drawn, columns
from calibrant.predictions import Classification, Evaluated
from calibrant.registry.accumulators import counting
from calibrant.registry.estimate import Settings
from calibrant.scores.uncertainty import mutual_information

BINS = 20
THRESHOLDS = np.append(np.arange(20) / 20, 0.99)


def curves(example: Evaluated) -> Iterator[Curve]:
    """Those that there are; histograms also without labels."""
    if example.task in ("classification", "judged"):
        yield Curve("confidence", _confidence, needs=frozenset())
        yield Curve("entropy", _entropy, needs=frozenset(), whole=True)
        if example.task == "classification" and example.members > 1:
            yield Curve("mutual_information", _information, needs=frozenset(), whole=True)
        yield Curve("accuracy_confidence", _accuracy_confidence)


@dataclass
class Counts:
    """Rows, weight, and weight of right rows, over bins."""

    place: Callable[[Any], np.ndarray]
    """The bin of each row."""
    bins: int
    sums: BinSums = field(init=False)
    known: bool = False
    """Whether there are labels."""

    def __post_init__(self) -> None:
        """No rows yet."""
        self.sums = BinSums(self.bins, spread=False)

    def add(self, rows: Any, spread: bool = True) -> None:
        """Take in more rows."""
        del spread
        self.known = rows.hit is not None
        hit = rows.hit if self.known else np.zeros(rows.n)
        hit, w, place = counting(rows.weights, hit, rows.weights, self.place(rows))
        self.sums.add(hit, hit, w, place)

    def merge(self, other: Counts) -> None:
        """Take in what another has seen."""
        self.known |= other.known
        self.sums.merge(other.sums)


def _confidence(example: Evaluated) -> Drawn:
    del example
    return _histogram("confidence", lambda rows: rows.confidence, 1.0)


def _entropy(example: Evaluated) -> Drawn:
    most = math.log(example.classes if isinstance(example, Classification) else 2)
    return _histogram("entropy", lambda rows: rows.entropy / most, most)


def _information(example: Classification) -> Drawn:
    most = math.log(min(example.members, example.classes))
    return _histogram("mutual_information", lambda rows: mutual_information(rows) / most, most)


def _histogram(name: str, share: Callable[[Any], np.ndarray], most: float) -> Drawn:
    def made(state: Counts, settings: Settings) -> Columns:
        del settings
        table = state.sums.table()
        edges = most * np.arange(BINS + 1) / BINS
        right, wrong = (table.wy, table.w - table.wy) if state.known else (None, None)
        return columns(lower=edges[:-1], upper=edges[1:], n=table.rows, correct=right, wrong=wrong)

    return Drawn(("histogram", name), Counts(lambda rows: equal_width(share(rows), BINS), BINS), made)


def _accuracy_confidence(example: Evaluated) -> Drawn:
    del example
    state = Counts(lambda rows: np.searchsorted(THRESHOLDS, rows.confidence, side="right") - 1, len(THRESHOLDS))
    return Drawn(("thresholds",), state, _above)


def _above(state: Counts, settings: Settings) -> Columns:
    del settings
    table = state.sums.table()
    rows, w, right = (x[::-1].cumsum()[::-1] for x in (table.rows, table.w, table.wy))
    some = w > 0  # weights may vanish beside others
    return columns(
        threshold=THRESHOLDS[some], accuracy=right[some] / w[some], n=rows[some], share=w[some] / w[0]
    )  # fmt: skip
