"""What every kind of prediction shares: rows with ids, weights and columns, slicing, and where they came from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from calibrant.errors import ShapeError, UsageError, ValuesError, did_you_mean, plain, show
from calibrant.predictions.arrays import as_column, as_weights, unit_of

RESERVED = [
    "logits",
    "log_probs",
    "probs",
    "labels",
    "classes",
    "member_names",
    "ids",
    "weights",
    "label_probs",
    "meta",
    "confidence",
    "correct",
    "y",
    "mean",
    "std",
    "var",
    "samples",
    "quantiles",
    "levels",
]


@dataclass(frozen=True)
class Note:
    """Something the user should know of, as it stands in `warnings` of an evaluation."""

    code: str
    message: str
    reference: str = ""


@dataclass(frozen=True)
class RowInfo:
    """What is known of the rows beside the predictions."""

    n: int
    ids: np.ndarray | None = None
    weights: np.ndarray | None = None
    weight_unit: float = 1.0
    """A power of two by which weights are divided before they are summed, the same for every slice."""
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    name: str = "predictions"
    sha256: str | None = None
    notes: tuple[Note, ...] = ()
    origin: str = ""
    """Where rows were read, to be said with what is refused in them."""
    first_row: int = 0
    """The place of the first of them there."""

    @classmethod
    def build(
        cls,
        n: int,
        *,
        ids: Any = None,
        weights: Any = None,
        columns: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        name: str = "predictions",
    ) -> RowInfo:
        """Check what was given against the number of rows."""
        columns = dict(columns or {})
        for key in columns:
            if key in RESERVED:
                raise UsageError(
                    "columns",
                    expected="names that have no meaning of their own",
                    came=f"{show(key)} is reserved",
                    do="pass it as the argument of that name, or rename the column",
                )
        weights = None if weights is None else as_weights(weights, n)
        return cls(
            n=n,
            ids=None if ids is None else as_column(ids, "ids", n),
            weights=weights,
            weight_unit=1.0 if weights is None else unit_of(weights),
            columns={k: as_column(v, f"column {show(k)}", n) for k, v in columns.items()},
            meta=_as_meta(meta or {}),
            name=name,
        )

    def select(self, rows: np.ndarray) -> RowInfo:
        """The same for some of the rows; where they lie is known of those that follow one another."""
        follow = bool((np.diff(rows) == 1).all())
        return replace(
            self,
            n=len(rows),
            origin=self.origin if follow else "",
            first_row=self.first_row + int(rows[0]) if follow else 0,
            ids=None if self.ids is None else self.ids[rows],
            weights=None if self.weights is None else self.weights[rows],
            columns={key: column[rows] for key, column in self.columns.items()},
        )


def _as_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What JSON can carry; numbers that are not finite become null."""
    try:
        return json.loads(json.dumps(dict(meta)), parse_constant=lambda name: None)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValuesError(
            "meta", expected="what JSON can carry", came=plain(str(error), 100), do="use text, numbers, lists and dicts"
        ) from error


class Predictions:
    """Rows of predictions with what is known about them; `Classification`, `Judged` and `Regression` are such."""

    info: RowInfo
    task: str

    def __len__(self) -> int:
        return self.info.n

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.info.n

    @property
    def members(self) -> int:
        """The number of members; a single model is one."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """What these predictions are called in results."""
        return self.info.name

    @property
    def weights(self) -> np.ndarray | None:
        """Sampling weights (N,), or None where every row counts once."""
        return self.info.weights

    @property
    def columns(self) -> Mapping[str, np.ndarray]:
        """The (N,) columns by which rows can be sliced."""
        return self.info.columns

    @property
    def sha256(self) -> str | None:
        """SHA-256 of the file that these predictions were read from."""
        return self.info.sha256

    @property
    def example(self) -> Self:
        """Predictions of the same make in memory: these. (A stream gives its first row.)"""
        return self

    def blocks(self, rows: int | None = None) -> Iterator[Self]:
        """Successive rows, so many at a time; all of them at once without a number."""
        check_rows(rows)
        if rows is None or rows >= self.n:
            yield self
            return
        for start in range(0, self.n, rows):
            yield self[start : start + rows]

    def _member_index(self, k: int) -> int:
        if not -self.members <= k < self.members:
            raise UsageError(
                "member",
                expected=f"a number from 0 to {self.members - 1}",
                came=f"got {k}",
                do="count members from 0",
            )
        return k % self.members

    def _member_places(self, members: Iterable[int]) -> list[int]:
        found = [self._member_index(int(k)) for k in members]
        if not found or len(set(found)) < len(found):
            came = "got none" if not found else f"got {show(found)}"
            raise UsageError("subset", expected="members, each once", came=came, do="write subset(range(5))")
        return found

    def _take(self, rows: np.ndarray) -> Self:
        raise NotImplementedError

    def _with_info(self, info: RowInfo) -> Self:
        raise NotImplementedError

    def notes(self) -> tuple[Note, ...]:
        """What the user should know of these predictions."""
        return self.info.notes

    def named(self, name: str) -> Self:
        """The same predictions under another name."""
        return self._with_info(replace(self.info, name=name))

    def with_notes(self, notes: tuple[Note, ...], sha256: str | None = None) -> Self:
        """The same predictions with notes on how they were read."""
        return self._with_info(replace(self.info, notes=self.info.notes + notes, sha256=sha256 or self.info.sha256))

    def __getitem__(self, index: Any) -> Self:
        """The rows of a slice, a mask or an array of positions."""
        if isinstance(index, tuple):
            raise ShapeError(
                "slicing",
                expected="one index, over rows",
                came=f"got {len(index)} indices",
                do="use .member(k) for members and .column(name) for columns",
            )
        try:
            rows = np.arange(self.n)[index if np.ndim(index) or isinstance(index, slice) else [index]]
        except IndexError as error:
            raise ShapeError(
                "slicing",
                expected=f"a slice, a mask of length {self.n} or positions below {self.n}",
                came=str(error),
                do="index with rows that exist",
            ) from error
        if rows.ndim != 1:
            raise ShapeError(
                "slicing", expected="one index, over rows", came=f"its shape is {rows.shape}", do="ravel it"
            )
        if rows.size == 0:
            raise ShapeError(
                "slicing",
                expected="at least one row",
                came="none was selected",
                do="widen the selection",
            )
        return self._take(rows)

    def __iter__(self) -> Iterator[Self]:
        """The rows one by one."""
        return (self[row] for row in range(self.n))

    def column(self, name: str) -> np.ndarray:
        """A column, `ids`, `labels` or `y`, by name."""
        known = dict(self.columns)
        if self.info.ids is not None:
            known["ids"] = self.info.ids
        for key in ("labels", "y"):
            if getattr(self, key, None) is not None:
                known[key] = getattr(self, key)
        if name not in known:
            hint = did_you_mean(name, known) if known else "this input has none"
            raise UsageError(
                f"{self.name}: column",
                expected="a column of the input",
                came=f"there is no {show(name)}",
                do=hint,
            )
        return known[name]

    def by(self, column: str, bins: int | None = None) -> Iterator[tuple[Any, Self]]:
        """The rows of each value of a column; with `bins`, of each of that many equally filled ranges."""
        names, place = groups_of(self.column(column), column, bins)
        order = np.argsort(place, kind="stable")
        for name, rows in zip(
            names, np.split(order, np.searchsorted(place[order], np.arange(1, len(names)))), strict=True
        ):
            yield name, self._take(rows)


def check_rows(rows: int | None) -> None:
    """Refuse blocks of no rows."""
    if rows is not None and rows < 1:
        raise UsageError("rows of a block", expected="at least 1", came=f"got {rows}", do="leave it out")


def groups_of(values: np.ndarray, column: str, bins: int | None = None) -> tuple[list[Any], np.ndarray]:
    """The names of a column's groups in order, and the group of each row; with `bins`, of equally filled ranges."""
    if bins is not None:
        names, place = _ranges(values, column, bins)
        return names, place.ravel()
    levels, place = np.unique(values, return_inverse=True)
    return levels.tolist(), place.ravel()


def _ranges(values: np.ndarray, column: str, bins: int) -> tuple[list[str], np.ndarray]:
    """The names of the quantile ranges in order, and the one that each value lies in; ties stay together."""
    if bins < 1:
        raise UsageError(f"column {show(column)}", expected="at least one range", came=f"got {bins}", do="ask for 4")
    if values.dtype.kind not in "biuf":
        raise UsageError(
            f"column {show(column)}",
            expected="numbers that can be cut into ranges",
            came=f"its items are {values.dtype}",
            do="slice by its values instead, without ':BINS'",
        )
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    bins = min(bins, max(known.size, 1))
    ranked = np.sort(known)
    cuts = np.unique(ranked[(known.size - 1) * np.arange(1, bins) // bins])
    place = np.searchsorted(cuts, values, side="left")
    place[values != values] = len(cuts) + 1
    filled, place = np.unique(place, return_inverse=True)
    names = []
    for k in range(len(filled)):
        inside = values[place == k]
        undefined = inside[0] != inside[0]
        names.append("undefined" if undefined else f"{k + 1}: {inside.min():.4g} to {inside.max():.4g}")
    return names, place
