"""Named arrays in a file or folder, whose shapes can be asked for before anything is loaded."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from io import BufferedReader
from pathlib import Path

import numpy as np

from calibrant.errors import CalibrantError, FileError, plain
from calibrant.predictions.files.npy import read_body, read_header
from calibrant.predictions.files.raw import CHUNK, Layout, row_blocks, stream_blocks

MOST_ARRAYS = 10_000


@dataclass(frozen=True)
class Entry:
    """One array: its shape and size in bytes are known, its values come on demand, whole or some rows at a time."""

    shape: tuple[int, ...]
    nbytes: int
    load: Callable[[], np.ndarray]
    blocks: Callable[[int, int], Iterator[np.ndarray]]
    """blocks(axis, rows): successive blocks of that many rows along an axis, the last one shorter."""

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> Entry:
        """The same array with each of its blocks changed, its shape staying what it is."""

        def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
            return (change(block) for block in self.blocks(axis, rows))

        return Entry(self.shape, self.nbytes, lambda: change(self.load()), blocks)


Store = dict[str, Entry]


def in_memory(arrays: dict[str, np.ndarray]) -> Store:
    """Arrays that are there already."""
    return {key: of_array(array) for key, array in arrays.items()}


def of_array(array: np.ndarray) -> Entry:
    """An array that is there already."""
    return Entry(array.shape, array.nbytes, lambda: array, partial(_slices, array))


def _slices(array: np.ndarray, axis: int, rows: int) -> Iterator[np.ndarray]:
    for start in range(0, array.shape[axis], rows):
        yield array[(slice(None),) * axis + (slice(start, start + rows),)]


def npz_store(path: Path, stream: BufferedReader) -> Store:
    """The arrays of an open .npz archive, each bounded by its own header while it is unpacked.

    The archive is opened once: whatever takes its name meanwhile, all arrays come from the same file.
    """
    try:
        archive = zipfile.ZipFile(stream)
        members = [item for item in archive.infolist() if item.filename.endswith(".npy")]
        if len(members) > MOST_ARRAYS:
            raise FileError(
                str(path),
                expected=f"at most {MOST_ARRAYS} arrays",
                came=f"the archive has {len(members)}",
                do="store columns as arrays, not rows",
            )
        return {item.filename[:-4]: _npz_entry(path, archive, item) for item in members}
    except CalibrantError:
        raise
    except Exception as error:
        raise _unreadable(path, error) from error


def _npz_entry(path: Path, archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> Entry:
    """One array of an archive. Blocks are unpacked as they come; members, which lie apart, into a file of their own."""
    where = f"{path.name}: {item.filename[:-4]}"
    with archive.open(item) as stream:
        header = read_header(stream, where, item.file_size)

    def load() -> np.ndarray:
        with _guarded(path), archive.open(item) as stream:
            fresh = read_header(stream, where, item.file_size)
            return read_body(stream, fresh, where)

    def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
        with _guarded(path):
            if header.fortran or header.runs(axis)[0] > 1:
                yield from _spilled_blocks(archive, item, header, axis, rows, where)
            else:
                inside = replace(header, shape=header.shape[axis:])
                with archive.open(item) as stream:
                    for block in stream_blocks(stream, inside, rows, where):
                        yield block.reshape(*header.shape[:axis], *block.shape)

    return Entry(header.shape, header.nbytes, load, blocks)


def _spilled_blocks(
    archive: zipfile.ZipFile, item: zipfile.ZipInfo, layout: Layout, axis: int, rows: int, where: str
) -> Iterator[np.ndarray]:
    """Blocks of an array whose rows are not one after the other in the archive: it is unpacked once, to a file."""
    with ExitStack() as stack:
        try:
            spill = stack.enter_context(tempfile.TemporaryFile())
            with archive.open(item) as packed:
                shutil.copyfileobj(packed, spill, CHUNK)
        except OSError as error:
            raise FileError(
                where,
                expected=f"{item.file_size / 2**30:.1f} GiB of room in the temporary folder, to unpack it",
                came=plain(error.strerror or str(error)),
                do="set TMPDIR to a larger disk, or keep the arrays in a folder of .npy",
            ) from error
        yield from row_blocks(lambda: nullcontext(spill), layout, axis, rows, where)


@contextmanager
def _guarded(path: Path) -> Iterator[None]:
    try:
        yield
    except CalibrantError:
        raise
    except Exception as error:
        raise _unreadable(path, error) from error


def folder_store(path: Path) -> Store:
    """The .npy files of a folder."""
    files = sorted(path.glob("*.npy"))
    if not files:
        raise FileError(
            str(path),
            expected="a folder of .npy files",
            came="it holds none",
            do="name a file, or write arrays into it with numpy.save",
        )
    return {file.stem: _npy_entry(file) for file in files}


def _npy_entry(file: Path) -> Entry:
    def load() -> np.ndarray:
        with file.open("rb") as stream:
            return read_body(stream, read_header(stream, str(file), file.stat().st_size), str(file))

    with file.open("rb") as stream:
        header = read_header(stream, str(file), file.stat().st_size)

    def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
        return row_blocks(lambda: file.open("rb", buffering=0), header, axis, rows, str(file))

    return Entry(header.shape, header.nbytes, load, blocks)


def digest(stream: BufferedReader) -> str:
    """SHA-256 of an open file."""
    stream.seek(0)
    return hashlib.file_digest(stream, "sha256").hexdigest()


def _unreadable(path: Path, error: Exception) -> FileError:
    reason = plain(str(error) or type(error).__name__, 100)
    return FileError(
        str(path),
        expected="a NumPy archive (.npz)",
        came=f"it cannot be read ({reason})",
        do="write it again with numpy.savez; it may be truncated or damaged",
    )
