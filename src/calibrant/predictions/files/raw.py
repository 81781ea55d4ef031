"""Arrays that lie plainly in a file: read whole, or some rows at a time, never mapped (a mapped page counts as memory).

An array of shape (…, N, …) in C order is `lead` runs of N rows of `tail` items each; in Fortran order it is the
transpose of such an array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np

from calibrant.errors import FileError

CHUNK = 1 << 20


@dataclass(frozen=True)
class Layout:
    """Where the items of an array lie: shape, type, order, and the place of the first byte."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool = False
    offset: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all items."""
        return math.prod(self.shape) * self.dtype.itemsize

    def transposed(self) -> Layout:
        """The same bytes as an array in C order."""
        return replace(self, shape=self.shape[::-1], fortran=False)

    def runs(self, axis: int) -> tuple[int, int, int]:
        """(lead, N, bytes of a row) with rows along the axis, in C order."""
        tail = math.prod(self.shape[axis + 1 :]) * self.dtype.itemsize
        return math.prod(self.shape[:axis]), self.shape[axis], tail


def read_rows(stream: IO[bytes], layout: Layout, axis: int, start: int, stop: int, where: str) -> np.ndarray:
    """Rows start … stop along an axis, from a stream that can seek."""
    if layout.fortran:
        return read_rows(stream, layout.transposed(), len(layout.shape) - 1 - axis, start, stop, where).T
    lead, n, tail = layout.runs(axis)
    out = np.empty((*layout.shape[:axis], stop - start, *layout.shape[axis + 1 :]), layout.dtype)
    view = _bytes_of(out).reshape(lead, -1)
    for run in range(lead):
        stream.seek(layout.offset + (run * n + start) * tail)
        fill(stream, view[run], where)
    check_text(out, where)
    return out


def fill(stream: IO[bytes], view: np.ndarray, where: str) -> None:
    """Fill a view of bytes from a stream, to its last byte."""
    done = 0
    while done < view.size:
        count = stream.readinto(view[done:].data)  # type: ignore[attr-defined]
        if not count:
            raise FileError(
                where,
                expected=f"{view.size} bytes",
                came=f"only {done} came",
                do="the file is truncated or damaged: write it again",
            )
        done += count


def row_blocks(
    open_stream: Callable[[], AbstractContextManager[IO[bytes]]], layout: Layout, axis: int, rows: int, where: str
) -> Iterator[np.ndarray]:
    """Successive blocks of rows along an axis; the stream is opened once and can seek."""
    with open_stream() as stream:
        for start in range(0, layout.shape[axis], rows):
            yield read_rows(stream, layout, axis, start, min(start + rows, layout.shape[axis]), where)


def stream_blocks(stream: IO[bytes], layout: Layout, rows: int, where: str) -> Iterator[np.ndarray]:
    """Successive blocks of rows that are one after the other in a stream that only runs forward."""
    fill(stream, np.empty(layout.offset, np.uint8), where)
    for start in range(0, layout.shape[0], rows):
        out = np.empty((min(rows, layout.shape[0] - start), *layout.shape[1:]), layout.dtype)
        fill(stream, _bytes_of(out), where)
        check_text(out, where)
        yield out


def _bytes_of(out: np.ndarray) -> np.ndarray:
    return out.reshape(-1).view(np.uint8) if out.nbytes else np.empty(0, np.uint8)


def check_text(array: np.ndarray, where: str) -> None:
    """Strings are kept as code points, which a damaged file may hold of any size."""
    if array.dtype.kind != "U" or not array.size:
        return
    points = array.reshape(-1).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    if (points > 0x10FFFF).any():
        raise FileError(
            where, expected="text", came="it holds what is no character", do="the file is damaged: write it again"
        )
