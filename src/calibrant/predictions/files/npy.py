"""One .npy stream, never trusted: no pickles, and a header that must agree with the bytes that follow."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from calibrant.errors import FileError, plain, show

CHUNK = 1 << 20


@dataclass(frozen=True)
class Header:
    """What a .npy stream says of itself."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes that must follow the header."""
        return math.prod(self.shape) * self.dtype.itemsize


def memory_limit() -> int:
    """The most bytes one array may unpack to: `CALIBRANT_MAX_BYTES`, or three quarters of the memory."""
    wanted = os.environ.get("CALIBRANT_MAX_BYTES", "")
    if wanted.isdigit():
        return int(wanted)
    if not hasattr(os, "sysconf"):
        return 16 << 30
    return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES")) * 3 // 4


def read_header(stream: IO[bytes], where: str, available: int) -> Header:
    """Read and check the header; `available` is the length of the whole stream in bytes."""
    readers: dict[tuple[int, int], Any] = {
        (1, 0): npy_format.read_array_header_1_0,
        (2, 0): npy_format.read_array_header_2_0,
    }
    try:
        version = npy_format.read_magic(stream)
        shape, fortran, dtype = readers[version](stream)
    except Exception as error:
        raise FileError(
            where, expected="a NumPy array (.npy)", came=f"its header is unreadable ({_short(error)})",
            do="write it again with numpy.save",
        ) from error  # fmt: skip
    header = Header(shape, dtype, fortran, stream.tell())
    _check(header, where, available)
    return header


def _check(header: Header, where: str, available: int) -> None:
    if header.dtype.hasobject or header.dtype.kind not in "biufUS":
        raise FileError(
            where,
            expected="an array of numbers or text",
            came=f"its items are {show(header.dtype)}",
            do="save it as a numeric or string array (pickled objects are never loaded)",
        )
    if header.nbytes > memory_limit():
        raise FileError(
            where,
            expected=f"at most {memory_limit() / 2**30:.1f} GiB, three quarters of this machine's memory",
            came=f"it unpacks to {header.nbytes / 2**30:.1f} GiB",
            do="split it, or set CALIBRANT_MAX_BYTES if it is meant",
        )
    if header.nbytes != available - header.offset:
        raise FileError(
            where,
            expected=f"{header.nbytes} bytes after the header, for shape {header.shape}",
            came=f"there are {available - header.offset}",
            do="the file is truncated or damaged: write it again",
        )


def read_body(stream: IO[bytes], header: Header, where: str) -> np.ndarray:
    """Read exactly the bytes that the header promised."""
    flat = np.empty(math.prod(header.shape), header.dtype)
    view = flat.view(np.uint8) if header.nbytes else np.empty(0, np.uint8)
    done = 0
    while done < header.nbytes:
        part = stream.read(min(CHUNK, header.nbytes - done))
        if not part:
            break
        view[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)
    if done != header.nbytes or stream.read(1):
        raise FileError(
            where,
            expected=f"{header.nbytes} bytes after the header",
            came="more follow" if done == header.nbytes else f"only {done} came",
            do="the file is truncated or damaged: write it again",
        )
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


def _short(error: Exception) -> str:
    return plain(str(error) or type(error).__name__, 80)
