"""Writing Parquet and Arrow IPC from the arrays of the contract: see `arrow` for what stands where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from calibrant.errors import MissingExtra, UsageError, show
from calibrant.predictions.files.arrow_columns import axis_of
from calibrant.predictions.files.axes import CONSTANTS

OURS = b"calibrant"
GROUP_BYTES = 64 << 20
"""Bytes of the rows that are written together."""


def need_pyarrow(subject: str) -> None:
    """Refuse, with what to install, if the library is not there."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            subject, expected="pyarrow", came="it is not installed", do="pip install 'calibrant[arrow]'"
        ) from error


def write_parquet(arrays: dict[str, np.ndarray], stream: IO[bytes]) -> None:
    """Write a Parquet file.

    Fields that are never null are read back half as fast again. Scores seldom repeat: a dictionary of them would be
    tried and dropped.
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
    """Write an Arrow IPC file, not compressed."""
    need_pyarrow("Arrow")
    from pyarrow import ipc

    moved, schema = _table(arrays)
    with ipc.new_file(stream, schema) as writer:
        for batch in _batches(moved, schema):
            writer.write_batch(batch)


def _table(arrays: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], Any]:
    """The arrays that have rows, with the rows first, and the schema, which carries the others."""
    import pyarrow

    by_row = {name: array for name, array in arrays.items() if name not in CONSTANTS}
    n = next((_rows(name, array) for name, array in by_row.items()), 0)
    for name, array in by_row.items():
        _check_writable(name, array, n)
    moved = {name: np.moveaxis(array, axis_of(name, array.ndim), 0) for name, array in by_row.items()}
    fields = [pyarrow.field(name, _type(array), nullable=False) for name, array in moved.items()]
    constants = {name: arrays[name].tolist() for name in CONSTANTS if name in arrays}
    return moved, pyarrow.schema(fields, {OURS: json.dumps(constants)} if constants else None)


def _rows(name: str, array: np.ndarray) -> int:
    return array.shape[axis_of(name, array.ndim)] if array.ndim else 0


def _check_writable(name: str, array: np.ndarray, n: int) -> None:
    is_text = array.dtype.kind == "U" and array.ndim == 1
    is_numbers = array.dtype.kind in "biuf" and array.dtype.itemsize <= 8 and 1 <= array.ndim <= 3
    if not (is_text or is_numbers) or _rows(name, array) != n or (n and not array.size):
        raise UsageError(
            f"column {show(name)}",
            expected=f"numbers of at most 64 bits or text, in each of {n} rows",
            came=f"it is an array of {show(array.dtype)} of shape {array.shape}",
            do="convert it, for instance to float64, or leave it out",
        )


def _type(array: np.ndarray) -> Any:
    import pyarrow

    if array.dtype.kind == "U":
        return pyarrow.string()
    made = pyarrow.from_numpy_dtype(array.dtype.newbyteorder("="))
    for length in array.shape[:0:-1]:
        made = pyarrow.list_(pyarrow.field("element", made, nullable=False), length)
    return made


def _batches(moved: dict[str, np.ndarray], schema: Any) -> Iterator[Any]:
    """The rows, some at a time, so that members are brought into the rows without a second copy of all."""
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
    made = pyarrow.array(flat, kinds.pop())
    while kinds:
        made = pyarrow.FixedSizeListArray.from_arrays(made, type=kinds.pop())
    return made
