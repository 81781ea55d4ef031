"""What all predictions share: row ids, weights and columns, slicing, groups, and the file they were read from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.errors import ShapeError, UsageError, ValuesError, check_range, did_you_mean, plain, show
from calibrant.predictions.arrays import RESERVED, as_column, as_weights, power_of_two_unit
from calibrant.records import Record

UNITS = frozenset({
    "author", "call", "chat", "child", "client", "clip", "conversation", "customer", "dialog", "dialogue", "doc",
    "document", "donor", "encounter", "episode", "eye", "family", "household", "image", "img", "individual",
    "lesion", "litter", "mouse", "page", "participant", "passage", "patient", "person", "photo", "picture",
    "prompt", "query", "question", "recording", "respondent", "scan", "scene", "sentence", "sequence", "session",
    "slide", "speaker", "specimen", "story", "student", "study", "subject", "template", "text", "thread", "track",
    "trajectory", "user", "utterance", "video", "visit", "volunteer",
})  # fmt: skip
"""Nouns of which several rows may exist, which then depend on each other."""
NUMBERED = frozenset({"cluster", "group", "item", "sample", "site", "unit"})
"""The same, if the name says that it is an identifier: `group_id`, not `group`."""
NUMBER = frozenset({
    "code", "hash", "id", "identifier", "idx", "index", "key", "name", "nr", "number", "no", "num", "pk", "ref",
    "uid", "uuid",
})  # fmt: skip
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
IDS = "ids"


@dataclass(frozen=True)
class Note(Record):
    """A remark on the predictions, listed under `warnings` of an evaluation."""

    code: str
    message: str
    reference: str = ""


@dataclass(frozen=True)
class RowInfo(Record):
    """Everything known about the rows apart from predictions and labels."""

    n: int
    ids: np.ndarray | None = None
    weights: np.ndarray | None = None
    weight_unit: float = 1.0
    """Weights are divided by this power of two before they are summed; every slice uses the same."""
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    name: str = "predictions"
    sha256: str | None = None
    notes: tuple[Note, ...] = ()
    origin: str = ""
    """The file of the rows, for error messages."""
    first_row: int = 0
    """The index of the first row in that file."""

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
        """Validate the arguments against the number of rows."""
        columns = dict(columns or {})
        for key in columns:
            if key in RESERVED:
                hint = f"pass it as {key}=…, or rename the column"
                raise UsageError("columns", expected="unreserved names", got=f"the reserved {show(key)}", hint=hint)
        try:  # numbers that are not finite become null
            meta = json.loads(json.dumps(dict(meta or {})), parse_constant=lambda name: None)
        except (TypeError, ValueError, RecursionError) as error:
            hint = "use text, numbers, lists and dicts"
            raise ValuesError("meta", expected="JSON values", got=plain(str(error), 100), hint=hint) from error
        weights = None if weights is None else as_weights(weights, n)
        return cls(
            n=n,
            ids=None if ids is None else as_column(ids, "ids", n),
            weights=weights,
            weight_unit=1.0 if weights is None else power_of_two_unit(weights),
            columns={k: as_column(v, f"column {show(k)}", n) for k, v in columns.items()},
            meta=meta,
            name=name,
        )

    def select(self, rows: np.ndarray) -> RowInfo:
        """The facts of some of the rows; consecutive rows keep their position in the file."""
        consecutive = bool((np.diff(rows) == 1).all())
        return replace(
            self,
            n=len(rows),
            origin=self.origin if consecutive else "",
            first_row=self.first_row + int(rows[0]) if consecutive else 0,
            ids=None if self.ids is None else self.ids[rows],
            weights=None if self.weights is None else self.weights[rows],
            columns={key: column[rows] for key, column in self.columns.items()},
        )


class Predictions:
    """Base class of `Classification`, `Judged`, `Regression` and `Detection`."""

    info: RowInfo
    task: str
    ROW_AXES: ClassVar[Mapping[str, int]]
    """The axis of the rows in each array."""
    MEMBER_ARRAYS: ClassVar[tuple[str, ...]] = ()
    """The arrays with members on their first axis."""
    OUTCOMES: ClassVar[tuple[str, ...]]
    """The arrays of observed outcomes."""

    def __len__(self) -> int:
        return self.info.n

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.info.n

    @property
    def members(self) -> int:
        """The number of members; 1 for a single model."""
        arrays = (getattr(self, key) for key in self.MEMBER_ARRAYS)
        return next((len(array) for array in arrays if array is not None), 1)

    @property
    def has_labels(self) -> bool:
        """Whether outcomes are present: labels (hard or soft), `correct` or `y`."""
        return any(getattr(self, key) is not None for key in self.OUTCOMES)

    @property
    def name(self) -> str:
        """The name of these predictions in results."""
        return self.info.name

    @property
    def weights(self) -> np.ndarray | None:
        """Sampling weights (N,), or None if all rows count equally."""
        return self.info.weights

    @property
    def columns(self) -> Mapping[str, np.ndarray]:
        """The (N,) columns by which rows can be grouped."""
        return self.info.columns

    @property
    def sha256(self) -> str | None:
        """SHA-256 of the file the predictions were read from."""
        return self.info.sha256

    @property
    def example(self) -> Self:
        """These predictions; a `Stream` returns its first row, in memory."""
        return self

    def blocks(self, rows: int | None = None) -> Iterator[Self]:
        """Successive blocks of `rows` rows; one block with all rows if `rows` is None."""
        check_block_rows(rows)
        if rows is None or rows >= self.n:
            yield self
            return
        for start in range(0, self.n, rows):
            yield self[start : start + rows]

    def member(self, k: int) -> Self:
        """The predictions of one member."""
        return self.subset([k])

    def subset(self, members: Iterable[int]) -> Self:
        """The predictions of some members, in the given order."""
        count, indices = self.members, [int(k) for k in members]
        for k in indices:
            if not -count <= k < count:
                expected = f"a number from 0 to {count - 1}"
                raise UsageError("member", expected=expected, got=f"{k}", hint="count members from 0")
        indices = [k % count for k in indices]
        if not indices or len(set(indices)) < len(indices):
            got = "none" if not indices else f"{show(indices)}"
            raise UsageError("subset", expected="distinct members", got=got, hint="write subset(range(5))")
        which = slice(indices[0], indices[0] + 1) if len(indices) == 1 else indices  # one member is not copied
        names = getattr(self, "member_names", None)
        changes = {} if names is None else {"member_names": tuple(names[k] for k in indices)}
        return self._replace(changes | {key: array[which] for key, array in self._arrays(self.MEMBER_ARRAYS)})

    def _arrays(self, keys: Iterable[str]) -> Iterator[tuple[str, np.ndarray]]:
        return ((key, array) for key in keys if (array := getattr(self, key)) is not None)

    def _replace(self, changes: Mapping[str, Any]) -> Self:
        return replace(self, **changes)  # type: ignore[type-var]  # subclasses are dataclasses

    def _take(self, rows: np.ndarray) -> Self:
        axes = self.ROW_AXES
        arrays = {key: array[:, rows] if axes[key] else array[rows] for key, array in self._arrays(axes)}
        return self._replace({"info": self.info.select(rows), **arrays})

    def _with_info(self, info: RowInfo) -> Self:
        return self._replace({"info": info})

    def notes(self) -> tuple[Note, ...]:
        """Remarks on these predictions that the user should see."""
        return self.info.notes

    def named(self, name: str) -> Self:
        """The same predictions under another name."""
        return self._with_info(replace(self.info, name=name))

    def with_notes(self, notes: tuple[Note, ...], sha256: str | None = None) -> Self:
        """The same predictions with more notes."""
        return self._with_info(replace(self.info, notes=self.info.notes + notes, sha256=sha256 or self.info.sha256))

    def __getitem__(self, index: Any) -> Self:
        """Select rows by a slice, a boolean mask or an array of positions."""
        if isinstance(index, tuple):
            hint = "use .member(k) for members and .column(name) for columns"
            raise ShapeError("slicing", expected="one index, over rows", got=f"{len(index)} indices", hint=hint)
        try:
            rows = np.arange(self.n)[index if np.ndim(index) or isinstance(index, slice) else [index]]
        except IndexError as error:
            expected = f"a slice, a mask of length {self.n} or positions below {self.n}"
            raise ShapeError("slicing", expected=expected, got=str(error), hint=f"select from {self.n} rows") from error
        if rows.ndim != 1:
            got = f"an index of shape {rows.shape}"
            raise ShapeError("slicing", expected="one index, over rows", got=got, hint="use index.ravel()")
        if rows.size == 0:
            raise ShapeError("slicing", expected="at least one row", got="none", hint="select at least one row")
        return self._take(rows)

    def __iter__(self) -> Iterator[Self]:
        """Iterate over single rows."""
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
            hint = did_you_mean(name, known) if known else "the predictions have no columns; pass columns={'site': …}"
            raise UsageError(f"{self.name}: column", expected="a known column", got=show(name), hint=hint)
        return known[name]

    def by(self, column: str, bins: int | None = None) -> Iterator[tuple[Any, Self]]:
        """Group the rows by the values of a column, or by `bins` quantile ranges of a numeric column."""
        names, group = group_rows(self.column(column), column, bins)
        order = np.argsort(group, kind="stable")
        rows = np.split(order, np.searchsorted(group[order], np.arange(1, len(names))))
        yield from ((name, self._take(rows_of_group)) for name, rows_of_group in zip(names, rows, strict=True))


def check_block_rows(rows: int | None) -> None:
    """Raise `UsageError` for blocks of less than one row."""
    if rows is not None:
        check_range("rows of a block", rows, 1, integer=True, hint="use blocks() without a number for the default size")


def group_rows(values: np.ndarray, column: str, bins: int | None = None) -> tuple[list[Any], np.ndarray]:
    """The names of a column's groups in order, and the group of each row.

    With `bins`, groups are ranges between quantiles; equal values stay in one range, NaN has a range of its own.
    """
    if bins is None:
        levels, group = np.unique(values, return_inverse=True)
        return levels.tolist(), group.ravel()
    subject = f"column {show(column)}"
    check_range(f"{subject}: bins", bins, 1, integer=True, hint="use 4 for quartiles")
    if values.dtype.kind not in "biuf":
        hint = "group by its values instead, without ':BINS'"
        raise UsageError(subject, expected="numbers to divide into ranges", got=f"dtype {values.dtype}", hint=hint)
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    bins = min(bins, max(known.size, 1))
    ranked = np.sort(known)
    cuts = np.unique(ranked[(known.size - 1) * np.arange(1, bins) // bins])
    group = np.searchsorted(cuts, values, side="left")
    group[values != values] = len(cuts) + 1
    filled, group = np.unique(group, return_inverse=True)
    group = group.ravel()
    names = []
    for k in range(len(filled)):
        inside = values[group == k]
        undefined = inside[0] != inside[0]
        names.append("undefined" if undefined else f"{k + 1}: {inside.min():.4g} to {inside.max():.4g}")
    return names, group


def is_unit(column: str) -> bool:
    """Whether a column is named like a unit of several rows: patient, patient_id, PromptHash, but not class."""
    words = [word.lower() for word in WORDS.findall(column)]
    nouns = [word for word in words if word not in NUMBER]
    units = UNITS | NUMBERED if len(nouns) < len(words) else UNITS
    return bool(nouns) and all(word in units or word.removesuffix("s") in units for word in nouns)


def repeated_unit(model: Any) -> tuple[str, int] | None:
    """The name and the number of distinct values of the ids, or of a column named like a unit, if some repeat.

    model: predictions in memory, or a stream.
    """
    has_ids = "ids" in model.plans[0].known if hasattr(model, "plans") else model.info.ids is not None
    for column in [*[IDS] * has_ids, *(name for name in model.columns if is_unit(name))]:
        distinct = len(np.unique(model.column(column)))
        if (column == IDS or distinct > 1) and distinct < model.n:
            return column, distinct
    return None


def unit_text(n: int, column: str, distinct: int, hint: str = "use --units {column} (units={column!r})") -> str:
    """What that means for tests and intervals, and what to do."""
    what = "distinct ids" if column == IDS else f"values of column {column!r}"
    hint = f"if rows with the same value depend on each other, {hint.format(column=column)}"
    return f"{n} rows have {distinct} {what} and are treated as independent: {hint}"
