"""The rows that cost most: the largest losses of an input, with what was predicted there and what came true.

The loss of a row is the first of `LOSSES` that its predictions have and that the metrics read anyway: −log p(label),
the same of a judged answer or of a density at y; the CRPS; the pinball loss. With soft labels it is expected under
them. Where metrics are named that read none of these there are no worst rows: nothing is computed for their sake.
Larger losses come first, infinite ones before all others, equal ones in the order of the rows. Rows of no weight are
left out.

While rows go by, a partial sort of some at a time finds those that may stay, and only of these is anything told. Ids
and columns are looked up in the end, see `beside`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant import registry
from calibrant.errors import UsageError, plain
from calibrant.evaluation.beside import LONGEST
from calibrant.kernels.regression_rows import PIT
from calibrant.kernels.rows import PROBS, rows_of
from calibrant.predictions import Classification, Detection, Evaluated, Judged, Regression
from calibrant.predictions.base import check_rows
from calibrant.predictions.regression import central_levels, level_index
from calibrant.registry.estimate import NOT_FINITE
from calibrant.registry.metric import Spec
from calibrant.scores.regression import MEDIAN
from calibrant.scores.uncertainty import mutual_information

LOSSES = ("nll", "crps", "crps(fair=false)", "pinball")
MOST = 10_000
"""Rows that can be asked for."""
STRETCH = 1 << 16
"""Rows that are sorted at a time."""
TOP, DIGITS = 3, 6
"""Classes that are told of a row, and the digits of their probabilities."""
Told = dict[str, Any]


@dataclass(frozen=True)
class Loss:
    """The loss that ranks rows: its spec, and its value (N,) from a record."""

    text: str
    of: Callable[[Any], np.ndarray]


def check_counts(rows: int, block_rows: int | None) -> int:
    """The number of rows that was asked for; what cannot be is refused, and so are blocks of no rows."""
    check_rows(block_rows)
    if not 0 <= rows <= MOST or rows != int(rows):
        said = f"a whole number from 0 to {MOST}"
        raise UsageError("rows", expected=said, came=f"got {rows}", do="score_rows gives the losses of all")
    return int(rows)


def loss_of(example: Evaluated, specs: Iterable[Spec], asked: frozenset[Hashable]) -> Loss | None:
    """The loss that the pass for these metrics, which ask this of it, has anyway; None where it has none."""
    if isinstance(example, Detection) or not example.has_labels:
        return None
    one_number = isinstance(example, Judged) or (isinstance(example, Classification) and example.scores.shape[2] == 1)
    if one_number and not any(spec.metric.name == "nll" for spec in specs):
        return None  # the logarithm would be all that is made of every row
    for text in LOSSES:
        spec = registry.parse(text)
        if spec.metric.lacks(spec, example) is None and spec.metric.wanted(spec, example) <= asked:
            accumulator: Any = spec.metric.accumulate(spec, example)
            return Loss(text, accumulator.score)
    return None


class WorstRows:
    """At most so many rows of those seen."""

    def __init__(self, most: int, loss: Loss) -> None:
        """No rows yet."""
        self.most, self.by = most, loss
        self.loss, self.row = np.empty(0), np.empty(0, np.int64)
        self.told: dict[int, Told] = {}

    def add(self, block: Evaluated, rows: Any, start: int) -> None:
        """Take in the record of a block whose first row is row `start` of all."""
        loss = self.by.of(rows)
        before = set(self.told)
        for first in range(0, len(loss), STRETCH):  # once enough are kept, few of a stretch are looked at
            part = slice(first, first + STRETCH)
            place = first + self._candidates(loss[part], None if rows.weights is None else rows.weights[part])
            self._keep(loss[place], start + place)
        new = np.array(sorted(set(self.row.tolist()) - before), np.int64)
        if new.size:
            self.told |= dict(zip(new.tolist(), _told(block[new - start]), strict=True))

    def _candidates(self, loss: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Places of some rows that may stay: their largest losses, none below those that are kept; no NaN."""
        known = loss >= (self.loss[-1] if len(self.loss) == self.most else -np.inf)
        place = np.flatnonzero(known if weights is None else known & (weights > 0))
        if len(place) <= self.most:
            return place
        rank = len(place) - self.most
        least = np.partition(loss[place], rank)[rank]
        above = place[loss[place] > least]
        ties = place[loss[place] == least][: self.most - len(above)]
        return np.concatenate([above, ties])

    def _keep(self, loss: np.ndarray, row: np.ndarray) -> None:
        loss, row = np.concatenate([self.loss, loss]), np.concatenate([self.row, row])
        order = np.lexsort((row, -loss))[: self.most]
        self.loss, self.row = loss[order], row[order]
        self.told = {number: self.told[number] for number in self.row.tolist() if number in self.told}

    def merge(self, other: WorstRows) -> None:
        """Take in what another has seen."""
        told = self.told | other.told
        self._keep(other.loss, other.row)
        self.told = {number: told[number] for number in self.row.tolist()}

    def rows(self, beside: Callable[[np.ndarray], list[tuple[Told, Told]]]) -> tuple[Told, ...]:
        """Everything that is told of them, the worst first; beside: what stands before and after it, of rising rows."""
        rising = np.sort(self.row)
        known = dict(zip(rising.tolist(), beside(rising), strict=True)) if rising.size else {}
        out = []
        for loss, row in zip(self.loss.tolist(), self.row.tolist(), strict=True):
            before, after = known[row]
            out.append({"row": row} | before | _loss(loss) | self.told[row] | after)
        return tuple(out)


def _loss(value: float) -> Told:
    """The loss as in the estimates of a file."""
    if math.isfinite(value):
        return {"loss": value + 0.0}  # no −0
    return {"loss": None, "status": next(status for status, odd in NOT_FINITE.items() if odd == value)}


# -------------------------------------------------------------------------------------------- what is told
def _told(rows: Evaluated) -> list[Told]:
    """What is told of each of a few rows."""
    if isinstance(rows, Judged):
        return _of_judged(rows)
    return _of_numbers(rows) if isinstance(rows, Regression) else _of_classes(rows)  # type: ignore[arg-type]


def _listed(columns: dict[str, np.ndarray | None]) -> list[Told]:
    """Columns as a dictionary for each row; numbers that are not finite are left out."""
    known = {name: column.tolist() for name, column in columns.items() if column is not None}
    rows = (dict(zip(known, values, strict=True)) for values in zip(*known.values(), strict=True))
    return [{name: x for name, x in row.items() if not isinstance(x, float) or math.isfinite(x)} for row in rows]


def _of_judged(rows: Judged) -> list[Told]:
    return _listed({"confidence": rows_of(rows).confidence, "correct": rows.correct})


def _of_classes(rows: Classification) -> list[Told]:
    record = rows_of(rows, frozenset({PROBS}), threads=1)
    numbers = {
        "confidence": record.confidence,
        "entropy": record.entropy,
        "mutual_information": mutual_information(record) if rows.members > 1 else None,
    }
    names = rows.class_names

    def name(k: int) -> str | int:
        return k if names is None else plain(names[k], LONGEST)

    labels = [{}] * rows.n if rows.labels is None else [{"label": name(k)} for k in rows.labels.tolist()]
    out = []
    tops = _top(record.extras[PROBS], record.predicted)
    for label, k, found, top in zip(labels, record.predicted.tolist(), _listed(numbers), tops, strict=True):
        out.append(label | {"predicted": name(k)} | found | {"top": [[name(c), round(p, DIGITS)] for c, p in top]})
    return out


def _top(probs: np.ndarray, predicted: np.ndarray) -> list[list[tuple[int, float]]]:
    """The most probable classes of each row with their probabilities, the predicted one first."""
    left, row = np.array(probs, np.float64), np.arange(len(probs))
    chosen, place = [], predicted
    for _ in range(min(TOP, probs.shape[1])):
        chosen.append(list(zip(place.tolist(), left[row, place].tolist(), strict=True)))
        left[row, place] = -1.0
        place = left.argmax(axis=1)
    return [list(row) for row in zip(*chosen, strict=True)]


def _of_numbers(rows: Regression) -> list[Told]:
    if rows.levels is not None and rows.quantiles is not None:
        return _listed({"y": rows.y} | _of_quantiles(rows.quantiles, rows.levels))
    record = rows_of(rows, frozenset({PIT}), threads=1)
    with np.errstate(invalid="ignore"):
        spread = np.sqrt(record.variance)
    return _listed({"y": record.y, "mean": record.mean, "std": spread, "pit": record.pit})


def _of_quantiles(values: np.ndarray, levels: np.ndarray) -> dict[str, np.ndarray | None]:
    """The median, and the ends of the interval that `width` is of; where their levels were given."""
    wanted = {"median": MEDIAN} | dict(zip(("low", "high"), central_levels(levels) or (), strict=False))
    place = {name: level_index(levels, level) for name, level in wanted.items()}
    return {name: values[:, k].astype(np.float64) for name, k in place.items() if k is not None}
