"""Members of a regression as functions of a column: models drawn from the distribution of models, and their mixture.

`functions`: at most 120 rows, spread evenly by their rank along the column: x, y (if there are outcomes), mean (of the
mixture), low and high (the central 95% interval of the mixture, by its exact quantiles), member_1 … member_12 (the
means of the first members). Gopal (2021), figure 10b: "samples drawn from models drawn from the model distribution".

The column is the one that was named, else `x`, else the only numeric column with at least 20 distinct values, which is
looked for in up to 65,536 rows. Rows without a finite number in it, and rows of zero weight, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from calibrant.errors import UsageError, show
from calibrant.kernels.regression import mixture_quantiles
from calibrant.pipeline.curves.base import Columns
from calibrant.pipeline.select_metrics import MAX_KEPT_ROWS, Input
from calibrant.predictions import Regression
from calibrant.predictions.arrays import mean_over_members
from calibrant.predictions.files.stream import Stream
from calibrant.registry.metric import Skipped
from calibrant.scores.regression import interval_ends

NAME = "functions"
ROWS, MEMBERS = 120, 12
MIN_DISTINCT = 20
"""Distinct values of a column that is chosen without being named."""
MAX_SEARCHED_ROWS = 1 << 16
"""Rows up to which columns are searched for a suitable one."""
LEVEL = 0.95
DEFAULT_COLUMN = "x"
NEEDS_GAUSSIAN_MEMBERS = Skipped("needs_members", "it needs several Gaussian members")


@dataclass(frozen=True)
class RowsAlong:
    """The rows at which functions are plotted, rising, and the values of the column there."""

    column: str
    rows: np.ndarray
    x: np.ndarray


def select_rows_along(source: Input, named: str | None) -> tuple[RowsAlong | None, Skipped | None]:
    """The rows at which functions are plotted, or why they are not; neither if predictions have no functions."""
    example = source.example
    if not (isinstance(example, Regression) and example.kind == "gaussian" and example.members > 1):
        return None, NEEDS_GAUSSIAN_MEMBERS if named else None
    if named is None and source.n > MAX_KEPT_ROWS:
        return None, Skipped("many_rows", "above 2 million rows it is computed only if along= names a column")
    column, values = named, None
    if named is not None:
        values = source.column(named)
        if values.dtype.kind not in "iuf":
            got = f"{show(named)} holds {values.dtype}"
            raise UsageError("along", expected="a numeric column", got=got, hint="name another column")
    else:
        x = _read_columns(source, [DEFAULT_COLUMN]).get(DEFAULT_COLUMN)
        if x is not None and x.dtype.kind in "iuf":
            column, values = DEFAULT_COLUMN, x
        elif source.n <= MAX_SEARCHED_ROWS:
            suitable = {
                name: numbers
                for name, numbers in _read_columns(source, source.columns).items()
                if numbers.dtype.kind in "iuf" and len(np.unique(numbers[np.isfinite(numbers)])) >= MIN_DISTINCT
            }
            if len(suitable) == 1:
                ((column, values),) = suitable.items()
    if column is None or values is None:
        text = "it needs a column x, or exactly one numeric column with many values, or along= to name one"
        return None, Skipped("needs_column", text)
    x = values.astype(np.float64)
    weights = source.weights() if isinstance(source, Stream) else source.weights
    finite = np.flatnonzero(np.isfinite(x) if weights is None else np.isfinite(x) & (weights > 0))
    if not finite.size:
        return None, Skipped("no_finite_rows", "no row has a finite number in its column")
    ranked = finite[np.argsort(x[finite], kind="stable")]
    count = min(ROWS, len(ranked))
    rows = np.sort(ranked[np.arange(count) * (len(ranked) - 1) // max(count - 1, 1)])
    return RowsAlong(column, rows, x[rows]), None


def _read_columns(source: Input, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Whole columns, without those that do not exist or cannot be read."""
    if isinstance(source, Stream):
        return source.read_rows(names, np.arange(source.n))
    return {name: source.columns[name] for name in names if name in source.columns}


@dataclass
class MemberFunctions:
    """What the members predict at the selected rows, as far as these were read."""

    along: RowsAlong
    state: dict[int, dict[str, float]] = field(default_factory=dict)
    """Columns of the curve by the number of a row."""

    def add(self, block: Regression, start: int) -> None:
        """Add the selected rows of a block whose first row is row `start` of the input."""
        first, last = np.searchsorted(self.along.rows, (start, start + block.n))
        numbers, x = self.along.rows[first:last], self.along.x[first:last]
        if not numbers.size or block.mean is None or block.std is None:
            return
        mean, std = (part[:, numbers - start].astype(np.float64) for part in (block.mean, block.std))
        low, high = mixture_quantiles(mean, std, np.array(interval_ends(LEVEL)), threads=1)
        curve = {"x": x} | ({} if block.y is None else {"y": block.y[numbers - start].astype(np.float64)})
        curve |= {"mean": mean_over_members(mean), "low": low, "high": high}
        curve |= {f"member_{k + 1}": member for k, member in enumerate(mean[:MEMBERS])}
        columns = [column.tolist() for column in curve.values()]
        for number, values in zip(numbers.tolist(), zip(*columns, strict=True), strict=True):
            self.state[number] = dict(zip(curve, values, strict=True))

    def merge(self, other: MemberFunctions) -> None:
        """Add the rows of another state."""
        self.state |= other.state

    def columns(self) -> dict[str, Columns]:
        """The curve by its name, its rows rising along the column; none if a number overflows."""
        order = np.lexsort((self.along.rows, self.along.x))
        rows = [self.state[number] for number in self.along.rows[order].tolist()]
        if not all(math.isfinite(value) for row in rows for value in row.values()):
            return {}
        return {NAME: {name: [row[name] for row in rows] for name in rows[0]}}
