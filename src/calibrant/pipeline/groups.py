"""Rows in groups: by the values of a column, by ranges of them, or by type and severity of shift."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from calibrant.errors import UsageError, parse_count, show
from calibrant.pipeline.curves.base import Curve
from calibrant.predictions import Regression
from calibrant.predictions.base import group_rows
from calibrant.registry.metric import Spec
from calibrant.results.shift import severities_of

MAX_GROUPS = 1000


class HasColumns(Protocol):
    """Anything with a name and columns: predictions, streams."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    @property
    def example(self) -> Any:
        """Predictions of its kind."""
        ...

    def column(self, name: str) -> np.ndarray:
        """A column by name."""
        ...


@dataclass(frozen=True)
class Grouping:
    """The groups of one column: their names, and the group of each row."""

    by: str
    """As the user wrote it: COLUMN or COLUMN:BINS."""
    names: list[Any]
    place: np.ndarray
    """The group of each row, by number."""
    specs: list[Spec] = field(default_factory=list)
    """The metrics of each group."""
    intervals: bool = True
    curves: tuple[Curve, ...] = ()
    """The curves of each group."""
    by_outcome: bool = False
    """Whether rows are grouped by the observed outcome: within such groups no model is calibrated."""

    @property
    def column(self) -> str:
        """The column without the number of ranges."""
        return self.by.partition(":")[0]


def group_by_column(source: HasColumns, column: str, specs: list[Spec]) -> Grouping:
    """The groups of COLUMN, or of COLUMN:BINS ranges of it."""
    name, _, bins = column.partition(":")
    if bins and parse_count(bins) is None:
        raise UsageError("by", expected="COLUMN or COLUMN:BINS", got=show(column), hint=f"write {name}:10")
    values = source.column(name)
    count = len(np.unique(values))
    if (min(int(bins), count) if bins else count) > MAX_GROUPS:
        got = f"the column has {count} values" + (f" in {bins} ranges" if bins else "")
        hint = f"cut it into ranges with {name}:10"
        raise UsageError(f"by {show(name)}", expected=f"at most {MAX_GROUPS} groups", got=got, hint=hint)
    outcome = "y" if isinstance(source.example, Regression) else "labels"
    return Grouping(column, *group_rows(values, name, int(bins) if bins else None), specs, by_outcome=name == outcome)


def group_by_shift(source: HasColumns, columns: tuple[str, str], specs: list[Spec]) -> Grouping:
    """One group for each type of shift at each severity; clean rows are one group, whatever their type is called."""
    for column in columns:
        try:
            source.column(column)
        except UsageError as error:
            expected = f"columns {show(columns[0])} and {show(columns[1])}, or both in the meta of every input"
            got, hint = f"no column {show(column)}", "add them to the rows; clean rows have severity 0"
            raise UsageError(f"{source.name}: shift", expected=expected, got=got, hint=hint) from error
    severity = severities_of(source.column(columns[1]), columns[1])
    kind = np.where(severity == 0, "clean", source.column(columns[0]).astype(str))
    codes = [np.unique(column, return_inverse=True)[1].ravel() for column in (severity, kind)]
    both = codes[0] * (int(codes[1].max()) + 1) + codes[1]
    _, first, place = np.unique(both, return_index=True, return_inverse=True)
    names = [(str(kind[k]), float(severity[k])) for k in first]
    if len(names) > MAX_GROUPS:
        expected = f"at most {MAX_GROUPS} combinations of type and severity"
        raise UsageError("shift", expected=expected, got=f"{len(names)}", hint="name other columns")
    return Grouping(",".join(columns), names, place.ravel(), specs, intervals=False)


def group_name(example: Any, column: str, value: Any) -> Any:
    """The name of the class for a label or predicted class; text for numbers that JSON does not have."""
    names = getattr(example, "class_names", None)
    if column in ("labels", "predicted") and names and isinstance(value, int):
        return names[value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
