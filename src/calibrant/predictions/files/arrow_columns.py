"""Arrow columns as arrays: the types that can be read, and the conversion of pieces of a column to blocks of rows.

A column of N rows holds one number, boolean or text per row, or a list of K numbers, or a list of M lists of C numbers.
Pieces have the rows first, (n, …); blocks have them on the axis of the file format.
Reference: the Arrow columnar format (arrow.apache.org/docs/format/Columnar.html).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from calibrant.errors import FileError, show
from calibrant.predictions.arrays import row_axis
from calibrant.predictions.files.binary import check_size

NUMBERS = {
    "bool": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8,
    "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "halffloat": np.float16, "float": np.float32,
    "double": np.float64,
}  # fmt: skip
TEXTS = ("string", "large_string", "string_view")
TEXT_BYTES = 64
"""Assumed size of a text before it is read."""


def axis_of(key: str, ndim: int) -> int:
    """The axis of the rows in the array; in the file, members are inside the row."""
    return 1 if ndim == 3 else row_axis(key, ndim)


class Piece(Protocol):
    """Some rows of a column: an array, or rows that are still in a file."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> Any: ...


@dataclass(frozen=True)
class Column:
    """A readable column: its rows, the type of its items, and the lengths of its lists, outer ones first."""

    where: str
    name: str
    key: str
    rows: int
    dtype: np.dtype[Any]
    lengths: tuple[int | None, ...] = ()
    """None for lists of any length, until the first row is read."""

    @property
    def axis(self) -> int:
        """The axis of the rows in the array."""
        return axis_of(self.key, len(self.lengths) + 1)

    @property
    def inside(self) -> tuple[int, ...]:
        """The shape of one row."""
        return tuple(length or 0 for length in self.lengths)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.shape_of(self.rows) if self.rows else (0,)

    def shape_of(self, rows: int) -> tuple[int, ...]:
        """The shape of a block of rows."""
        return (*self.inside[: self.axis], rows, *self.inside[self.axis :])

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.inside) * (self.dtype.itemsize or TEXT_BYTES)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows; an estimate for text."""
        return self.rows * self.row_bytes

    def with_lengths(self, lengths: tuple[int, ...]) -> Column:
        """The same with the unknown lengths of lists filled in."""
        return replace(
            self, lengths=tuple(a if a is not None else b for a, b in zip(self.lengths, lengths, strict=True))
        )

    def error(self, expected: str, got: str, hint: str) -> FileError:
        """A `FileError` about this column."""
        return FileError(f"{self.where}: column {show(self.name)}", expected=expected, got=got, hint=hint)


def column_of(where: str, name: str, key: str, rows: int, kind: Any) -> Column | None:
    """The column of an Arrow type, or None if that type cannot be read."""
    from pyarrow import types

    lengths: list[int | None] = []
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        lengths.append(kind.list_size if types.is_fixed_size_list(kind) else None)
        kind = kind.value_type
    if types.is_dictionary(kind) and not lengths:
        kind = kind.value_type
    if str(kind) in TEXTS and not lengths:
        return Column(where, name, key, rows, np.dtype(np.str_))
    if str(kind) in NUMBERS and len(lengths) <= 2:
        return Column(where, name, key, rows, np.dtype(NUMBERS[str(kind)]), tuple(lengths))
    return None


def first_lengths(array: Any, column: Column) -> tuple[int, ...]:
    """The lengths of the lists in the first row."""
    lengths: list[int] = []
    array = array.slice(0, 1)
    for _ in column.lengths:
        _refuse_nulls(array, column, 0, 1)
        values = array.flatten()
        lengths.append(len(values))
        array = values.slice(0, 1)
    return tuple(lengths)


def values_of(array: Any, column: Column, first: int) -> np.ndarray:
    """The rows of an Arrow array as NumPy, without a copy if possible; `first` is the index of its first row."""
    shape, inside = [len(array)], 1
    for length in column.inside:
        _refuse_nulls(array, column, first, inside)
        _refuse_ragged(array, column, first, inside, length)
        array = array.flatten()
        shape.append(length)
        inside *= length
    if str(array.type) in ("float", "double") and array.null_count:
        array = array.fill_null(math.nan)  # pandas writes NaN as null
    _refuse_nulls(array, column, first, inside)
    return _flat(array, column).reshape(shape)


def _flat(array: Any, column: Column) -> np.ndarray:
    """An Arrow array of plain values, without nulls."""
    if hasattr(array, "dictionary"):
        values = _flat(array.dictionary, column)
        check_size(len(array) * values.itemsize, column.where)
        return values[array.indices.to_numpy()]
    if str(array.type) in TEXTS:
        from pyarrow import compute

        longest = compute.max(compute.utf8_length(array)).as_py() or 0
        check_size(4 * len(array) * longest, column.where)
        return np.array(array.to_pylist(), np.str_)
    if str(array.type) == "bool" or not len(array):
        return np.array(array.to_numpy(zero_copy_only=False), column.dtype)
    # Unlike `to_numpy`, the buffer gives a writable array: compiled kernels distinguish the two.
    start = array.offset * column.dtype.itemsize
    return np.frombuffer(array.buffers()[1], column.dtype, len(array), start)


def _refuse_nulls(array: Any, column: Column, first: int, inside: int) -> None:
    if hasattr(array, "dictionary") and array.dictionary.null_count:
        array = array.dictionary_decode()
    if array.null_count:
        index = int(np.argmin(array.is_valid().to_numpy(zero_copy_only=False)))
        got = f"null in row {first + index // inside}"
        raise column.error("a value in every row", got, "fill it in, or drop the row or the column")


def _refuse_ragged(array: Any, column: Column, first: int, inside: int, length: int) -> None:
    from pyarrow import types

    if types.is_fixed_size_list(array.type):
        if array.type.list_size == length:
            return
        lengths = np.full(len(array), array.type.list_size)
    else:
        lengths = np.diff(array.offsets.to_numpy())
    differs = lengths != length
    if differs.any():
        index = int(np.argmax(differs))
        got = f"a list of {int(lengths[index])} in row {first + index // inside}"
        raise column.error(f"lists of {length} in every row", got, "pad or split the column")


def blocks_of(pieces: Iterable[Piece], column: Column, rows: int) -> Iterator[np.ndarray]:
    """Blocks of exactly `rows` rows, except the last, from pieces of any length.

    A piece that is exactly one block is not copied; other pieces are copied once.
    """
    source = iter(pieces)
    piece: Piece = np.empty(0)
    at = 0
    for start in range(0, column.rows, rows):
        count, done = min(rows, column.rows - start), 0
        out: np.ndarray | None = None
        while done < count:
            if at == len(piece):
                following = next(source, None)
                if following is None:
                    hint = "the file is truncated or damaged; write it again"
                    raise column.error(f"{column.rows} rows", "fewer", hint)
                piece, at = following, 0
                continue
            part = piece[at : at + count - done]
            at += len(part)
            if len(part) == count and column.axis == 0 and part.flags.writeable:
                out = part
            else:
                if out is None or (out.dtype.kind == "U" and out.dtype.itemsize < part.dtype.itemsize):
                    shape = column.shape_of(count)  # a longer text needs a wider array
                    check_size(math.prod(shape) * part.dtype.itemsize, column.where)
                    out = np.empty(shape, part.dtype) if out is None else out.astype(part.dtype)
                np.moveaxis(out, column.axis, 0)[done : done + len(part)] = part
            done += len(part)
        if out is not None:
            yield out
