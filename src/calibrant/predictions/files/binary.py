"""Arrays in files, of known shape before they are read, whole or in blocks of rows; never memory-mapped.

Of arrays stored as plain bytes, one of shape (…, N, …) in C order is `lead` runs of N rows of `tail` items each; in
Fortran order it is the transpose of such an array.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from calibrant.errors import CalibrantError, FileError, parse_count, plain

MAX_ARRAYS = 10_000
"""The maximum number of arrays or columns of a file."""
DAMAGED = "the file is truncated or damaged; write it again"


# ------------------------------------------------------------------------------------------- memory
def memory_limit() -> int:
    """Bytes that may be read into memory: `CALIBRANT_MAX_BYTES`, or three quarters of the RAM."""
    limit = parse_count(os.environ.get("CALIBRANT_MAX_BYTES", ""))
    if limit is not None:
        return limit
    if not hasattr(os, "sysconf"):
        return 16 << 30
    return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES")) * 3 // 4


def check_size(nbytes: int, where: str) -> None:
    """Raise `FileError` for arrays that do not fit into memory."""
    if nbytes > memory_limit():
        expected = f"at most {memory_limit() / 2**30:.1f} GiB in memory"
        hint = "read it in blocks with calibrant.scan or --blocks, or raise CALIBRANT_MAX_BYTES"
        raise FileError(where, expected=expected, got=f"{nbytes / 2**30:.1f} GiB after unpacking", hint=hint)


# --------------------------------------------------------------------------------------------- files
@dataclass(frozen=True)
class PinnedFile:
    """A file that is opened several times and must not change in between."""

    path: Path
    stamp: tuple[int, ...]

    @classmethod
    def of(cls, path: Path) -> PinnedFile:
        """Pin the file that is at this path now."""
        with path.open("rb", buffering=0) as stream:
            return cls(path, _stamp(stream))

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.stamp[2]

    def open(self) -> IO[bytes]:
        """Open the file unbuffered; raise `FileError` if it has changed since."""
        stream = self.path.open("rb", buffering=0)
        if _stamp(stream) == self.stamp:
            return stream
        stream.close()
        got, hint = "a file that was overwritten", "run the command again when the file is complete"
        raise FileError(str(self.path), expected="a file that does not change while it is read", got=got, hint=hint)


def _stamp(stream: IO[bytes]) -> tuple[int, ...]:
    status = os.fstat(stream.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def report_unreadable(path: Path, expected: str, hint: str) -> Iterator[None]:
    """Convert any library error about a damaged file to `FileError`; system errors pass."""
    try:
        yield
    except CalibrantError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        reason = plain(str(error) or type(error).__name__, 100)
        raise FileError(str(path), expected=expected, got=f"an unreadable one ({reason})", hint=hint) from error


# -------------------------------------------------------------------------------------------- arrays
@dataclass(frozen=True)
class LazyArray:
    """An array of known shape and size in bytes; its values are read on demand, whole or in blocks of rows."""

    shape: tuple[int, ...]
    nbytes: int
    load: Callable[[], np.ndarray]
    blocks: Callable[[int, int], Iterator[np.ndarray]]
    """blocks(axis, rows): successive blocks of that many rows along an axis; the last may be shorter."""

    @classmethod
    def from_array(cls, array: np.ndarray) -> LazyArray:
        """Wrap an array that is in memory."""

        def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
            for start in range(0, array.shape[axis], rows):
                yield array[(slice(None),) * axis + (slice(start, start + rows),)]

        return cls(array.shape, array.nbytes, lambda: array, blocks)

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> LazyArray:
        """Apply a function to every block as it is read; it must keep the shape."""

        def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
            return (function(block) for block in self.blocks(axis, rows))

        return LazyArray(self.shape, self.nbytes, lambda: function(self.load()), blocks)

    def map_whole(self, function: Callable[[np.ndarray], np.ndarray]) -> LazyArray:
        """Apply a function to the whole array before its first use, if it is used; it must keep the shape."""
        array = self.load()

        def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
            return LazyArray.from_array(function(array)).blocks(axis, rows)

        return LazyArray(array.shape, array.nbytes, lambda: function(array), blocks)


LazyArrays = dict[str, LazyArray]


@dataclass(frozen=True)
class Layout:
    """How an array is stored: shape, dtype, memory order, and the offset of its first byte."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool = False
    offset: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all items."""
        return math.prod(self.shape) * self.dtype.itemsize

    def runs(self, axis: int) -> tuple[int, int, int]:
        """(lead, N, bytes of a row) with rows along the axis, in C order."""
        tail = math.prod(self.shape[axis + 1 :]) * self.dtype.itemsize
        return math.prod(self.shape[:axis]), self.shape[axis], tail


def read_rows(stream: IO[bytes], layout: Layout, axis: int, start: int, stop: int, where: str) -> np.ndarray:
    """Read rows start … stop along an axis from a seekable stream."""
    if layout.fortran:
        transposed = replace(layout, shape=layout.shape[::-1], fortran=False)
        return read_rows(stream, transposed, len(layout.shape) - 1 - axis, start, stop, where).T
    lead, n, tail = layout.runs(axis)
    out = np.empty((*layout.shape[:axis], stop - start, *layout.shape[axis + 1 :]), layout.dtype)
    view = bytes_view(out).reshape(lead, -1)
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
            raise FileError(where, expected=f"{view.size} bytes", got=f"only {done}", hint=DAMAGED)
        done += count


def row_blocks(
    open_stream: Callable[[], AbstractContextManager[IO[bytes]]], layout: Layout, axis: int, rows: int, where: str
) -> Iterator[np.ndarray]:
    """Yield successive blocks of rows along an axis; the seekable stream is opened once."""
    with open_stream() as stream:
        for start in range(0, layout.shape[axis], rows):
            yield read_rows(stream, layout, axis, start, min(start + rows, layout.shape[axis]), where)


def stream_blocks(stream: IO[bytes], layout: Layout, rows: int, where: str) -> Iterator[np.ndarray]:
    """Yield successive blocks of contiguous rows from a stream that cannot seek."""
    fill(stream, np.empty(layout.offset, np.uint8), where)
    for start in range(0, layout.shape[0], rows):
        out = np.empty((min(rows, layout.shape[0] - start), *layout.shape[1:]), layout.dtype)
        fill(stream, bytes_view(out), where)
        check_text(out, where)
        yield out


def bytes_view(array: np.ndarray) -> np.ndarray:
    """View a contiguous array as bytes."""
    return array.reshape(-1).view(np.uint8) if array.nbytes else np.empty(0, np.uint8)


def check_text(array: np.ndarray, where: str) -> None:
    """Raise `FileError` for code points beyond Unicode, which a damaged file may contain."""
    if array.dtype.kind != "U" or not array.size:
        return
    points = array.reshape(-1).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    if (points > 0x10FFFF).any():
        raise FileError(where, expected="text", got="code points that are not Unicode characters", hint=DAMAGED)
