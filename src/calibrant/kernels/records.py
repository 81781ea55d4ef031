"""What records of rows have in common, and references to rows of a block, whose predictions a metric reads later."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np

PREDICTIONS = "predictions"
"""The column of a metric that reads full predictions of some rows; its values are a `LazyRows`."""


@dataclass(kw_only=True)
class Record:
    """What the records of n rows have for any kind of predictions; `extras` has the columns that metrics request."""

    n: int
    weights: np.ndarray | None = None
    units: np.ndarray | None = None
    deviation: float = 0.0
    extras: dict[Hashable, Any] = field(default_factory=dict)


AnyRecord = TypeVar("AnyRecord", bound=Any)


def take(record: AnyRecord, rows: np.ndarray) -> AnyRecord:
    """The record of some of the rows, without tables of sums among the extras, which describe all rows.

    Array fields have the rows on their last axis, extras on their first.
    """
    values = {item.name: getattr(record, item.name) for item in fields(record)}
    selected = {name: value[..., rows] for name, value in values.items() if isinstance(value, np.ndarray)}
    extras = {key: value[rows] for key, value in record.extras.items() if value.ndim == 1}
    return replace(record, n=len(rows), extras=extras, **selected)


@dataclass(frozen=True)
class LazyRows:
    """Rows of a block of predictions by index, without a copy."""

    block: Any
    place: np.ndarray
    first: int = 0
    """Index of the block's first row in the whole input."""

    ndim = 1

    @property
    def number(self) -> np.ndarray:
        """Index of each row in the whole input."""
        return self.first + self.place

    def __getitem__(self, rows: np.ndarray) -> LazyRows:
        return LazyRows(self.block, self.place[rows], self.first)

    def predictions(self) -> Any:
        """The predictions of these rows."""
        return self.block[self.place]
