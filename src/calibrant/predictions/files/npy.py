"""One .npy stream, never trusted: no pickles, and a header that must agree with the bytes that follow."""

from __future__ import annotations

import io
import math
import os
import warnings
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from calibrant.errors import FileError, plain, show, whole_number

CHUNK = 1 << 20
LONGEST_HEADER = 10_000


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
    wanted = whole_number(os.environ.get("CALIBRANT_MAX_BYTES", ""))
    if wanted is not None:
        return wanted
    if not hasattr(os, "sysconf"):
        return 16 << 30
    return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES")) * 3 // 4


def read_header(stream: IO[bytes], where: str, available: int) -> Header:
    """Read and check the header; `available` is the length of the whole stream in bytes."""
    readers: dict[bytes, Any] = {
        b"\x01\x00": npy_format.read_array_header_1_0,
        b"\x02\x00": npy_format.read_array_header_2_0,
    }
    try:
        start = stream.read(8)
        reader = readers[start[6:]]
        size = stream.read(4 if start[6:] == b"\x02\x00" else 2)
        length = int.from_bytes(size, "little")
        if length > LONGEST_HEADER:
            raise ValueError(f"{length} bytes long")
        content = io.BytesIO(start + size + stream.read(length))
        npy_format.read_magic(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, fortran, dtype = reader(content)
        if (
            min(shape, default=0) < 0
            or len(shape) > 32
            or math.prod(max(k, 1) for k in shape) >> 56
            or not dtype.itemsize
        ):
            raise ValueError(f"shape {shape} of {dtype}")
    except Exception as error:
        raise FileError(
            where, expected="a NumPy array (.npy)", came=f"its header is unreadable ({_short(error)})",
            do="write it again with numpy.save",
        ) from error  # fmt: skip
    header = Header(shape, dtype, fortran, content.tell())
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
    _check_text(flat, where)
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


def _check_text(flat: np.ndarray, where: str) -> None:
    """Strings are kept as code points, which a damaged file may hold of any size."""
    if flat.dtype.kind != "U":
        return
    points = flat.view(np.dtype(np.uint32).newbyteorder(flat.dtype.byteorder))
    if (points > 0x10FFFF).any():
        raise FileError(
            where, expected="text", came="it holds what is no character", do="the file is damaged: write it again"
        )


def _short(error: Exception) -> str:
    return plain(str(error) or type(error).__name__, 80)
