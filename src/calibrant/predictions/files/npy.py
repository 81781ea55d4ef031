"""One .npy stream, never trusted: no pickles, and a header that must agree with the bytes that follow."""

from __future__ import annotations

import io
import math
import os
import warnings
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from calibrant.errors import FileError, plain, show, whole_number
from calibrant.predictions.files.raw import Layout, check_text, fill

LONGEST_HEADER = 10_000


def memory_limit() -> int:
    """The most bytes one array may unpack to: `CALIBRANT_MAX_BYTES`, or three quarters of the memory."""
    wanted = whole_number(os.environ.get("CALIBRANT_MAX_BYTES", ""))
    if wanted is not None:
        return wanted
    if not hasattr(os, "sysconf"):
        return 16 << 30
    return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES")) * 3 // 4


def read_header(stream: IO[bytes], where: str, available: int) -> Layout:
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
    layout = Layout(shape, dtype, fortran, content.tell())
    _check(layout, where, available)
    return layout


def _check(layout: Layout, where: str, available: int) -> None:
    if layout.dtype.hasobject or layout.dtype.kind not in "biufUS":
        raise FileError(
            where,
            expected="an array of numbers or text",
            came=f"its items are {show(layout.dtype)}",
            do="save it as a numeric or string array (pickled objects are never loaded)",
        )
    if layout.nbytes != available - layout.offset:
        raise FileError(
            where,
            expected=f"{layout.nbytes} bytes after the header, for shape {layout.shape}",
            came=f"there are {available - layout.offset}",
            do="the file is truncated or damaged: write it again",
        )


def check_size(nbytes: int, where: str) -> None:
    """Refuse to unpack what would not fit into memory."""
    if nbytes > memory_limit():
        raise FileError(
            where,
            expected=f"at most {memory_limit() / 2**30:.1f} GiB, three quarters of this machine's memory",
            came=f"it unpacks to {nbytes / 2**30:.1f} GiB",
            do="read it block by block with calibrant.scan, split it, or set CALIBRANT_MAX_BYTES if it is meant",
        )


def read_body(stream: IO[bytes], layout: Layout, where: str) -> np.ndarray:
    """Read exactly the bytes that the header promised, from where the stream stands."""
    check_size(layout.nbytes, where)
    flat = np.empty(math.prod(layout.shape), layout.dtype)
    fill(stream, flat.view(np.uint8) if layout.nbytes else np.empty(0, np.uint8), where)
    if stream.read(1):
        raise FileError(
            where,
            expected=f"{layout.nbytes} bytes after the header",
            came="more follow",
            do="the file is truncated or damaged: write it again",
        )
    check_text(flat, where)
    return flat.reshape(layout.shape, order="F" if layout.fortran else "C")


def _short(error: Exception) -> str:
    return plain(str(error) or type(error).__name__, 80)
