"""Members of a regression as functions of a column: models drawn from the distribution of models, and their mixture.

`functions`: at most 120 rows, spread evenly by their rank along the column: x, y (where there are outcomes), mean (of
the mixture), low and high (the central 95 % interval of the mixture, by its exact quantiles), member_1 … member_12 (the
means of the first members). Gopal (2021), figure 10b: "samples drawn from models drawn from the model distribution".

It is along the column that was named, else along the column `x`, else along the only column of numbers that has at
least 20 distinct values; it is looked for where there are at most 65 536 rows. Rows without a finite number there, and
rows of no weight, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from calibrant.errors import UsageError, show
from calibrant.evaluation.curves.curve import Columns
from calibrant.kernels.regression import mixture_quantiles
from calibrant.predictions import Evaluated, Regression
from calibrant.predictions.arrays import mean_over_members
from calibrant.scores.regression import interval_ends

NAME = "functions"
ROWS, MEMBERS = 120, 12
FEWEST = 20
"""Distinct values of a column that functions are drawn along without its being named."""
LEVEL = 0.95
USUAL = "x"
"""The column that they are drawn along where none is named."""


@dataclass(frozen=True)
class Chosen:
    """The rows at which functions are drawn, rising, and what the column says there."""

    column: str
    rows: np.ndarray
    x: np.ndarray


def can_be_drawn(example: Evaluated) -> bool:
    """Whether these are members whose means are functions."""
    return isinstance(example, Regression) and example.kind == "gaussian" and example.members > 1


def only_column(columns: Mapping[str, np.ndarray]) -> str | None:
    """The only column of numbers with many distinct values; None where there is none, or several."""
    found = [
        name
        for name, values in columns.items()
        if is_numbers(values) and len(np.unique(values[np.isfinite(values)])) >= FEWEST
    ]
    return found[0] if len(found) == 1 else None


def is_numbers(values: np.ndarray) -> bool:
    """Whether a column holds numbers."""
    return values.dtype.kind in "iuf"


def chosen_along(name: str, values: np.ndarray, weights: np.ndarray | None) -> Chosen | None:
    """The rows at even ranks of the column, equal values in their order; None where no row has a number there."""
    if not is_numbers(values):
        raise UsageError(
            "along", expected="a column of numbers", came=f"{show(name)} holds {values.dtype}", do="name another"
        )
    x = values.astype(np.float64)
    known = np.flatnonzero(np.isfinite(x) if weights is None else np.isfinite(x) & (weights > 0))
    if not known.size:
        return None
    ranked = known[np.argsort(x[known], kind="stable")]
    count = min(ROWS, len(ranked))
    place = np.arange(count) * (len(ranked) - 1) // max(count - 1, 1)
    rows = np.sort(ranked[place])
    return Chosen(name, rows, x[rows])


@dataclass
class Functions:
    """What the members say at the chosen rows that were seen."""

    chosen: Chosen
    seen: dict[int, dict[str, float]] = field(default_factory=dict)
    """Columns of the curve by the number of a row."""

    def add(self, block: Regression, start: int) -> None:
        """Take in the chosen rows of a block whose first row is row `start` of all."""
        first, last = np.searchsorted(self.chosen.rows, (start, start + block.n))
        numbers, x = self.chosen.rows[first:last], self.chosen.x[first:last]
        if not numbers.size or block.mean is None or block.std is None:
            return
        mean, std = (part[:, numbers - start].astype(np.float64) for part in (block.mean, block.std))
        low, high = mixture_quantiles(mean, std, np.array(interval_ends(LEVEL)), threads=1)
        made = {"x": x} | ({} if block.y is None else {"y": block.y[numbers - start].astype(np.float64)})
        made |= {"mean": mean_over_members(mean), "low": low, "high": high}
        made |= {f"member_{k + 1}": member for k, member in enumerate(mean[:MEMBERS])}
        columns = [column.tolist() for column in made.values()]
        for number, values in zip(numbers.tolist(), zip(*columns, strict=True), strict=True):
            self.seen[number] = dict(zip(made, values, strict=True))

    def merge(self, other: Functions) -> None:
        """Take in what another has seen."""
        self.seen |= other.seen

    def columns(self) -> dict[str, Columns]:
        """The curve by its name, its rows rising along the column; none where a number is beyond floats."""
        order = np.lexsort((self.chosen.rows, self.chosen.x))
        rows = [self.seen[number] for number in self.chosen.rows[order].tolist()]
        if not all(math.isfinite(value) for row in rows for value in row.values()):
            return {}
        return {NAME: {name: [row[name] for row in rows] for name in rows[0]}}
