"""Rows in groups: by the values of a column, by ranges of them, or by type and severity of shift."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from calibrant.errors import UsageError, show, whole_number
from calibrant.evaluation.curves import Curve
from calibrant.evaluation.shift import severities_of
from calibrant.predictions.base import groups_of
from calibrant.registry.metric import Spec

MOST_GROUPS = 1000


class Columned(Protocol):
    """What has a name and columns."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def column(self, name: str) -> np.ndarray:
        """A column by name."""
        ...


@dataclass(frozen=True)
class Grouping:
    """The groups of one column: their names, and the group of each row."""

    by: str
    names: list[Any]
    place: np.ndarray
    specs: list[Spec] = field(default_factory=list)
    """What is wanted of each group."""
    intervals: bool = True
    curves: tuple[Curve, ...] = ()
    """The curves that each group has."""

    @property
    def given_outcome(self) -> bool:
        """Whether groups are of what came true: no model is calibrated within them."""
        return self.by.partition(":")[0] in ("labels", "y")


def grouping_of(source: Columned, column: str, specs: list[Spec]) -> Grouping:
    """The groups of COLUMN, or of COLUMN:BINS ranges of it."""
    name, _, bins = column.partition(":")
    if bins and whole_number(bins) is None:
        raise UsageError("by", expected="COLUMN or COLUMN:BINS", came=f"got {show(column)}", do="BINS is a number")
    values = source.column(name)
    count = len(np.unique(values))
    if (min(int(bins), count) if bins else count) > MOST_GROUPS:
        raise UsageError(
            f"by {show(name)}",
            expected=f"at most {MOST_GROUPS} groups",
            came=f"the column has {count} values" + (f" in {bins} ranges" if bins else ""),
            do=f"cut it into ranges with {name}:10",
        )
    return Grouping(column, *groups_of(values, name, int(bins) if bins else None), specs)


def shifted_cells(source: Columned, columns: tuple[str, str], specs: list[Spec]) -> Grouping:
    """Every type of shift at every severity; clean rows are one cell, whatever their type is called."""
    for column in columns:
        _check_column(source, column, columns)
    severity = severities_of(source.column(columns[1]), columns[1])
    kind = np.where(severity == 0, "clean", source.column(columns[0]).astype(str))
    codes = [np.unique(column, return_inverse=True)[1].ravel() for column in (severity, kind)]
    both = codes[0] * (int(codes[1].max()) + 1) + codes[1]
    _, first, place = np.unique(both, return_index=True, return_inverse=True)
    names = [(str(kind[k]), float(severity[k])) for k in first]
    if len(names) > MOST_GROUPS:
        said = f"at most {MOST_GROUPS} types and severities together"
        raise UsageError("shift", expected=said, came=f"there are {len(names)}", do="name other columns")
    return Grouping(",".join(columns), names, place.ravel(), specs, intervals=False)


def _check_column(source: Columned, column: str, columns: tuple[str, str]) -> None:
    try:
        source.column(column)
    except UsageError as error:
        raise UsageError(
            f"{source.name}: shift",
            expected=f"columns {show(columns[0])} and {show(columns[1])}, or both in the meta of every input",
            came=f"there is no {show(column)}",
            do="add them to the rows; clean rows have severity 0",
        ) from error


def group_name(example: Any, column: str, value: Any) -> Any:
    """The class's name for a label or predicted class; text for what JSON has no number for."""
    names = getattr(example, "class_names", None)
    if column in ("labels", "predicted") and names and isinstance(value, int):
        return names[value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
