"""Write Parquet and Arrow IPC files from the arrays of the file format; see `arrow` for their layout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from calibrant.errors import MissingExtra, UsageError, show
from calibrant.predictions.arrays import CONSTANTS
from calibrant.predictions.files.arrow_columns import axis_of

OURS = b"calibrant"
GROUP_BYTES = 64 << 20
"""Bytes of one row group."""


def need_pyarrow(subject: str) -> None:
    """Raise `MissingExtra` if pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        hint = "run pip install 'calibrant[arrow]'"
        raise MissingExtra(subject, expected="pyarrow", got="no such module", hint=hint) from error


def write_parquet(arrays: dict[str, np.ndarray], stream: IO[bytes]) -> None:
    """Write a Parquet file.

    Non-nullable fields are read 1.5 times as fast. Scores seldom repeat, so dictionary encoding is off for them.
    """
    need_pyarrow("Parquet")
    from pyarrow import parquet

    moved, schema = _table(arrays)
    repeated = [name for name, array in moved.items() if array.ndim == 1 and array.dtype.kind in "iuU"] or False
    with parquet.ParquetWriter(
        stream, schema, compression="snappy", use_dictionary=repeated, write_statistics=repeated
    ) as writer:
        for batch in _batches(moved, schema):
            writer.write_batch(batch, row_group_size=len(batch))


def write_arrow(arrays: dict[str, np.ndarray], stream: IO[bytes]) -> None:
    """Write an uncompressed Arrow IPC file."""
    need_pyarrow("Arrow")
    from pyarrow import ipc

    moved, schema = _table(arrays)
    with ipc.new_file(stream, schema) as writer:
        for batch in _batches(moved, schema):
            writer.write_batch(batch)


def _table(arrays: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], Any]:
    """The arrays with rows, rows first, and the schema, which holds the arrays without rows."""
    import pyarrow

    by_row = {name: array for name, array in arrays.items() if name not in CONSTANTS}
    counts = {name: array.shape[axis_of(name, array.ndim)] if array.ndim else 0 for name, array in by_row.items()}
    n = next(iter(counts.values()), 0)
    for name, array in by_row.items():
        is_text = array.dtype.kind == "U" and array.ndim == 1
        is_numbers = array.dtype.kind in "biuf" and array.dtype.itemsize <= 8 and 1 <= array.ndim <= 3
        if not (is_text or is_numbers) or counts[name] != n or (n and not array.size):
            got, hint = f"{array.dtype} of shape {array.shape}", "convert it with .astype('float64'), or drop it"
            expected = f"numbers of at most 64 bits or text, in each of {n} rows"
            raise UsageError(f"column {show(name)}", expected=expected, got=got, hint=hint)
    moved = {name: np.moveaxis(array, axis_of(name, array.ndim), 0) for name, array in by_row.items()}
    fields = [pyarrow.field(name, _type(array), nullable=False) for name, array in moved.items()]
    constants = {name: arrays[name].tolist() for name in CONSTANTS if name in arrays}
    return moved, pyarrow.schema(fields, {OURS: json.dumps(constants)} if constants else None)


def _type(array: np.ndarray) -> Any:
    import pyarrow

    if array.dtype.kind == "U":
        return pyarrow.string()
    kind = pyarrow.from_numpy_dtype(array.dtype.newbyteorder("="))
    for length in array.shape[:0:-1]:
        kind = pyarrow.list_(pyarrow.field("element", kind, nullable=False), length)
    return kind


def _batches(moved: dict[str, np.ndarray], schema: Any) -> Iterator[Any]:
    """Record batches of some rows each, so that members are moved into the rows without a copy of everything."""
    import pyarrow

    n = max((len(array) for array in moved.values()), default=0)
    rows = max(1, GROUP_BYTES * n // max(1, sum(array.nbytes for array in moved.values())))
    for start in range(0, n, rows):
        parts = [moved[field.name][start : start + rows] for field in schema]
        columns = [_column(part, field.type) for part, field in zip(parts, schema, strict=True)]
        yield pyarrow.record_batch(columns, schema=schema)


def _column(part: np.ndarray, kind: Any) -> Any:
    import pyarrow

    kinds = [kind]
    while pyarrow.types.is_fixed_size_list(kinds[-1]):
        kinds.append(kinds[-1].value_type)
    if part.dtype.kind == "U":
        return pyarrow.array(part.tolist(), kind)  # an array of text would be cut at null characters
    flat = np.ascontiguousarray(part, part.dtype.newbyteorder("=")).reshape(-1)
    array = pyarrow.array(flat, kinds.pop())
    while kinds:
        array = pyarrow.FixedSizeListArray.from_arrays(array, type=kinds.pop())
    return array
