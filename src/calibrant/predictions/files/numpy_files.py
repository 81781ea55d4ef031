"""NumPy files (.npy, .npz, folders of .npy), read safely: no pickles, and headers must match the file sizes."""

from __future__ import annotations

import io
import math
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from calibrant.errors import FileError, plain, show
from calibrant.predictions.files.binary import (
    DAMAGED,
    MAX_ARRAYS,
    Layout,
    LazyArray,
    LazyArrays,
    bytes_view,
    check_size,
    check_text,
    fill,
    report_unreadable,
    row_blocks,
    stream_blocks,
)

MAX_HEADER = 10_000
COPY_BYTES = 1 << 20


# ---------------------------------------------------------------------------------------------- .npy
def read_header(stream: IO[bytes], where: str, available: int) -> Layout:
    """Read and check the header of a .npy stream that is `available` bytes long."""
    readers: dict[bytes, Any] = {
        b"\x01\x00": npy_format.read_array_header_1_0,
        b"\x02\x00": npy_format.read_array_header_2_0,
    }
    try:
        start = stream.read(8)
        reader = readers[start[6:]]
        size = stream.read(4 if start[6:] == b"\x02\x00" else 2)
        length = int.from_bytes(size, "little")
        if length > MAX_HEADER:
            raise ValueError(f"{length} bytes long")
        content = io.BytesIO(start + size + stream.read(length))
        npy_format.read_magic(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, fortran, dtype = reader(content)
        too_large = len(shape) > 32 or math.prod(max(k, 1) for k in shape) >> 56
        if min(shape, default=0) < 0 or too_large or not dtype.itemsize:
            raise ValueError(f"shape {shape} of {dtype}")
    except Exception as error:
        reason = plain(str(error) or type(error).__name__, 80)
        got, hint = f"an unreadable header ({reason})", "write it again with numpy.save"
        raise FileError(where, expected="a NumPy array (.npy)", got=got, hint=hint) from error
    layout = Layout(shape, dtype, fortran, content.tell())
    if dtype.hasobject or dtype.kind not in "biufUS":
        hint = "save it as a numeric or string array; pickled objects are never loaded"
        raise FileError(where, expected="an array of numbers or text", got=f"items of type {show(dtype)}", hint=hint)
    if layout.nbytes != available - layout.offset:
        expected = f"{layout.nbytes} bytes after the header, for shape {shape}"
        raise FileError(where, expected=expected, got=f"{available - layout.offset}", hint=DAMAGED)
    return layout


def read_body(stream: IO[bytes], layout: Layout, where: str) -> np.ndarray:
    """Read the array after its header; raise `FileError` for trailing bytes."""
    check_size(layout.nbytes, where)
    flat = np.empty(math.prod(layout.shape), layout.dtype)
    fill(stream, bytes_view(flat), where)
    if stream.read(1):
        raise FileError(where, expected=f"{layout.nbytes} bytes after the header", got="more", hint=DAMAGED)
    check_text(flat, where)
    return flat.reshape(layout.shape, order="F" if layout.fortran else "C")


def open_npy_folder(path: Path) -> LazyArrays:
    """Open the .npy files of a folder."""
    return {file.stem: _open_npy(file) for file in sorted(path.glob("*.npy"))}


def _open_npy(file: Path) -> LazyArray:
    def load() -> np.ndarray:
        with file.open("rb") as stream:
            return read_body(stream, read_header(stream, str(file), file.stat().st_size), str(file))

    with file.open("rb") as stream:
        header = read_header(stream, str(file), file.stat().st_size)

    def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
        return row_blocks(lambda: file.open("rb", buffering=0), header, axis, rows, str(file))

    return LazyArray(header.shape, header.nbytes, load, blocks)


# ---------------------------------------------------------------------------------------------- .npz
def open_npz(path: Path, stream: BufferedReader) -> LazyArrays:
    """Open the arrays of a .npz archive, all from this stream even if the file is replaced."""
    with _report_unreadable(path):
        archive = zipfile.ZipFile(stream)
        items = [item for item in archive.infolist() if item.filename.endswith(".npy")]
        if len(items) > MAX_ARRAYS:
            expected, hint = f"at most {MAX_ARRAYS} arrays", "save one array per column, not per row"
            raise FileError(str(path), expected=expected, got=f"{len(items)}", hint=hint)
        return {item.filename[:-4]: _open_member(path, archive, item) for item in items}


def _open_member(path: Path, archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> LazyArray:
    """One array of an archive; blocks of non-contiguous rows are read from a temporary file."""
    where = f"{path.name}: {item.filename[:-4]}"
    with archive.open(item) as stream:
        header = read_header(stream, where, item.file_size)

    def load() -> np.ndarray:
        with _report_unreadable(path), archive.open(item) as stream:
            return read_body(stream, read_header(stream, where, item.file_size), where)

    def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
        with _report_unreadable(path):
            if header.fortran or header.runs(axis)[0] > 1:
                yield from _blocks_through_temporary_file(archive, item, header, axis, rows, where)
            else:
                with archive.open(item) as stream:
                    for block in stream_blocks(stream, replace(header, shape=header.shape[axis:]), rows, where):
                        yield block.reshape(*header.shape[:axis], *block.shape)

    return LazyArray(header.shape, header.nbytes, load, blocks)


def _blocks_through_temporary_file(
    archive: zipfile.ZipFile, item: zipfile.ZipInfo, layout: Layout, axis: int, rows: int, where: str
) -> Iterator[np.ndarray]:
    """Blocks of an array with non-contiguous rows: it is unpacked once to a seekable file."""
    with ExitStack() as stack:
        try:
            unpacked = stack.enter_context(tempfile.TemporaryFile())
            with archive.open(item) as packed:
                shutil.copyfileobj(packed, unpacked, COPY_BYTES)
        except OSError as error:
            expected = f"{item.file_size / 2**30:.1f} GiB of free space in the temporary folder"
            hint = "set TMPDIR to a larger disk, or store the arrays in a folder of .npy files"
            raise FileError(where, expected=expected, got=plain(error.strerror or str(error)), hint=hint) from error
        yield from row_blocks(lambda: nullcontext(unpacked), layout, axis, rows, where)


def _report_unreadable(path: Path) -> Any:
    hint = "write it again with numpy.savez; it may be truncated or damaged"
    return report_unreadable(path, "a NumPy archive (.npz)", hint)
