"""The rows with the largest losses: what was predicted there, and the observed outcome.

The loss of a row is the first metric with the role `row_loss` that applies and that the metrics read anyway: −log
p(label), also of judged answers and of densities at y; the CRPS; the pinball loss. With soft labels it is the
expectation. If metrics are named that read none of these, there are no worst rows: nothing is computed for their sake.
Larger losses come first, infinite ones before all others, equal ones in the order of the rows. Rows of zero weight are
left out.

During the pass, a partial sort of some rows at a time finds those that may stay, and only these are described. Ids and
columns are looked up in the end, for an input in files block by block and only up to `MAX_KEPT_ROWS` rows. Text may
hold anything, and is stored as plain text of at most 200 characters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import plain
from calibrant.kernels.regression_rows import PIT
from calibrant.kernels.rows import PROBS, rows_of
from calibrant.pipeline.select_metrics import MAX_KEPT_ROWS, Input
from calibrant.predictions import Classification, Detection, Evaluable, Judged, Regression
from calibrant.predictions.files.stream import Stream
from calibrant.predictions.regression import central_levels, level_index
from calibrant.registry import lookup
from calibrant.registry.estimate import NOT_FINITE
from calibrant.registry.metric import Spec
from calibrant.scores.regression import MEDIAN
from calibrant.scores.uncertainty import mutual_information

MAX_WORST_ROWS = 10_000
SORTED_ROWS = 1 << 16
"""Rows that are sorted at a time."""
TOP_CLASSES, DIGITS = 3, 6
"""Classes that are listed for a row, and the digits of their probabilities."""
MAX_COLUMNS = 12
MAX_TEXT = 200
MAX_INTEGER = 1 << 53
"""Larger integers are written as text: not every reader of JSON keeps their digits."""
JsonRow = dict[str, Any]


@dataclass(frozen=True)
class Loss:
    """The loss that ranks rows: its spec, and its value (N,) from a record."""

    text: str
    of: Callable[[Any], np.ndarray]


def loss_of(example: Evaluable, specs: Iterable[Spec], columns: frozenset[Hashable]) -> Loss | None:
    """The loss that the pass computes anyway for these metrics, which require these columns; None if there is none."""
    if isinstance(example, Detection) or not example.has_labels:
        return None
    one_number = isinstance(example, Judged) or (isinstance(example, Classification) and example.scores.shape[2] == 1)
    losses = lookup.with_role("row_loss")
    if one_number and not any(spec.metric.name == losses[0] for spec in specs):
        return None  # the logarithm would be computed for its sake alone
    for text in losses:
        spec = lookup.parse(text)
        applies = spec.metric.unsupported_reason(spec, example) is None
        if applies and spec.metric.required_columns(spec, example) <= columns:
            accumulator: Any = spec.metric.accumulate(spec, example)
            return Loss(text, accumulator.score)
    return None


class WorstRows:
    """The rows with the largest losses among those added."""

    def __init__(self, max_rows: int, loss: Loss) -> None:
        self.max_rows, self.loss = max_rows, loss
        self.losses, self.rows = np.empty(0), np.empty(0, np.int64)
        self.descriptions: dict[int, JsonRow] = {}
        """What was predicted, by row."""

    def add(self, block: Evaluable, rows: Any, start: int) -> None:
        """Add the record of a block whose first row is row `start` of the input."""
        loss = self.loss.of(rows)
        before = set(self.descriptions)
        for first in range(0, len(loss), SORTED_ROWS):  # once there are enough rows, few of the next ones are sorted
            part = slice(first, first + SORTED_ROWS)
            place = first + self._candidates(loss[part], None if rows.weights is None else rows.weights[part])
            self._keep(loss[place], start + place)
        new = np.array(sorted(set(self.rows.tolist()) - before), np.int64)
        if new.size:
            chosen = block[new - start]
            if isinstance(chosen, Judged):
                described = _as_rows({"confidence": rows_of(chosen).confidence, "correct": chosen.correct})
            elif isinstance(chosen, Regression):
                described = _describe_regression(chosen)
            else:
                described = _describe_classes(chosen)  # type: ignore[arg-type]
            self.descriptions |= dict(zip(new.tolist(), described, strict=True))

    def _candidates(self, loss: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Places of rows that may stay: the largest losses, none below those that are kept; no NaN."""
        large = loss >= (self.losses[-1] if len(self.losses) == self.max_rows else -np.inf)
        place = np.flatnonzero(large if weights is None else large & (weights > 0))
        if len(place) <= self.max_rows:
            return place
        rank = len(place) - self.max_rows
        least = np.partition(loss[place], rank)[rank]
        above = place[loss[place] > least]
        ties = place[loss[place] == least][: self.max_rows - len(above)]
        return np.concatenate([above, ties])

    def _keep(self, loss: np.ndarray, rows: np.ndarray) -> None:
        losses, rows = np.concatenate([self.losses, loss]), np.concatenate([self.rows, rows])
        order = np.lexsort((rows, -losses))[: self.max_rows]
        self.losses, self.rows = losses[order], rows[order]
        self.descriptions = {row: self.descriptions[row] for row in self.rows.tolist() if row in self.descriptions}

    def merge(self, other: WorstRows) -> None:
        """Add the rows of another state."""
        descriptions = self.descriptions | other.descriptions
        self._keep(other.losses, other.rows)
        self.descriptions = {row: descriptions[row] for row in self.rows.tolist()}

    def to_json(self, source: Input, first: Iterable[str]) -> tuple[JsonRow, ...]:
        """The rows, the worst first, each with its id and at most `MAX_COLUMNS` columns, those named `first` first."""
        rising = np.sort(self.rows)
        names = list(dict.fromkeys([*(name for name in first if name in source.columns), *source.columns]))
        wanted = ["ids", *names[:MAX_COLUMNS]]
        columns: dict[str, np.ndarray] = {}
        if not isinstance(source, Stream):
            arrays = {**source.columns, **({} if source.info.ids is None else {"ids": source.info.ids})}
            columns = {name: arrays[name][rising] for name in wanted if name in arrays}
        elif rising.size and source.n <= MAX_KEPT_ROWS:
            columns = source.read_rows(wanted, rising)
        ids = columns.pop("ids", None)
        place = {row: k for k, row in enumerate(rising.tolist())}
        out = []
        for value, row in zip(self.losses.tolist(), self.rows.tolist(), strict=True):
            loss: JsonRow = {"loss": value + 0.0}  # no −0
            if not math.isfinite(value):
                loss = {"loss": None, "status": next(status for status, odd in NOT_FINITE.items() if odd == value)}
            k = place[row]
            row_id = {} if ids is None else {"id": as_json(ids[k])}
            values = {plain(name, MAX_TEXT): as_json(column[k]) for name, column in columns.items()}
            out.append(
                {"row": row} | row_id | loss | self.descriptions[row] | ({"columns": values} if values else {})
            )  # fmt: skip
        return tuple(out)


def as_json(value: Any) -> Any:
    """A value of any type as JSON can hold it: a number, a boolean, null, or plain text."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64):
        return int(value) if abs(int(value)) <= MAX_INTEGER else str(value)
    if isinstance(value, float | np.floating):
        number = float(str(value)) if getattr(value, "itemsize", 8) < 8 else float(value)  # 0.1 in any precision
        return number if math.isfinite(number) else str(number)
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return plain(text, MAX_TEXT)


# ---------------------------------------------------------------------------------- descriptions of rows
def _as_rows(columns: dict[str, np.ndarray | None]) -> list[JsonRow]:
    """Columns as a dictionary for each row; numbers that are not finite are left out."""
    lists = {name: column.tolist() for name, column in columns.items() if column is not None}
    rows = (dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True))
    return [{name: x for name, x in row.items() if not isinstance(x, float) or math.isfinite(x)} for row in rows]


def _describe_classes(rows: Classification) -> list[JsonRow]:
    record = rows_of(rows, frozenset({PROBS}), threads=1)
    uncertainties = _as_rows(
        {
            "confidence": record.confidence,
            "entropy": record.entropy,
            "mutual_information": mutual_information(record) if rows.members > 1 else None,
        }
    )
    names = rows.class_names

    def name(k: int) -> str | int:
        return k if names is None else plain(names[k], MAX_TEXT)

    labels = [{}] * rows.n if rows.labels is None else [{"label": name(k)} for k in rows.labels.tolist()]
    tops = _top_classes(record.extras[PROBS], record.predicted)
    return [
        label | {"predicted": name(k)} | numbers | {"top": [[name(c), round(p, DIGITS)] for c, p in top]}
        for label, k, numbers, top in zip(labels, record.predicted.tolist(), uncertainties, tops, strict=True)
    ]


def _top_classes(probs: np.ndarray, predicted: np.ndarray) -> list[list[tuple[int, float]]]:
    """The most probable classes of each row with their probabilities, the predicted one first."""
    remaining, row = np.array(probs, np.float64), np.arange(len(probs))
    columns, place = [], predicted
    for _ in range(min(TOP_CLASSES, probs.shape[1])):
        columns.append(list(zip(place.tolist(), remaining[row, place].tolist(), strict=True)))
        remaining[row, place] = -1.0
        place = remaining.argmax(axis=1)
    return [list(row) for row in zip(*columns, strict=True)]


def _describe_regression(rows: Regression) -> list[JsonRow]:
    if rows.levels is not None and rows.quantiles is not None:  # the median, and the interval of the metric `width`
        levels = {"median": MEDIAN} | dict(zip(("low", "high"), central_levels(rows.levels) or (), strict=False))
        place = {name: level_index(rows.levels, level) for name, level in levels.items()}
        values: dict[str, np.ndarray | None] = {"y": rows.y}
        values |= {name: rows.quantiles[:, k].astype(np.float64) for name, k in place.items() if k is not None}
        return _as_rows(values)
    record = rows_of(rows, frozenset({PIT}), threads=1)
    with np.errstate(invalid="ignore"):
        std = np.sqrt(record.variance)
    return _as_rows({"y": record.y, "mean": record.mean, "std": std, "pit": record.pit})
