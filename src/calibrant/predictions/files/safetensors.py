"""Safetensors: named arrays behind a header in JSON, read and written without the library of that name.

The format (huggingface.co/docs/safetensors): eight bytes hold the length of the header, little-endian; the header is a
JSON object {name: {dtype, shape, data_offsets: [first, last + 1]}}, padded with spaces; the data follow, without gaps,
and offsets count from the end of the header. `__metadata__` maps text to text. A tensor cannot hold text, so arrays of
text stand there, under `calibrant`, as one JSON object {name: [text, …], "meta": text}.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from calibrant.errors import CalibrantError, FileError, UsageError, plain, show
from calibrant.predictions.files.npy import check_size
from calibrant.predictions.files.pinned import Pinned
from calibrant.predictions.files.raw import Layout, read_rows, row_blocks
from calibrant.predictions.files.stores import MOST_ARRAYS, Entry, Store, of_array

LONGEST_HEADER = 100_000_000
METADATA = "__metadata__"
OURS = "calibrant"
DTYPES = {
    "BOOL": "|u1",
    "U8": "|u1",
    "I8": "|i1",
    "U16": "<u2",
    "I16": "<i2",
    "U32": "<u4",
    "I32": "<i4",
    "U64": "<u8",
    "I64": "<i8",
    "F16": "<f2",
    "BF16": "<u2",
    "F32": "<f4",
    "F64": "<f8",
}
"""How the items of each type lie in the file."""
NAMES = {np.dtype(item).newbyteorder("="): name for name, item in DTYPES.items() if name not in ("BOOL", "BF16")}
NAMES[np.dtype(np.bool_)] = "BOOL"


@dataclass(frozen=True)
class Tensor:
    """One line of the header: the type, and where the items lie in the file."""

    dtype: str
    layout: Layout

    def values(self, items: np.ndarray) -> np.ndarray:
        """The numbers that the stored items stand for, in the byte order of this machine."""
        if self.dtype == "BOOL":
            return items != 0
        if self.dtype == "BF16":  # the upper half of a float32
            bits = items.astype(np.uint32)
            bits <<= 16
            return bits.view(np.float32)
        return items.astype(items.dtype.newbyteorder("="), copy=False)

    @property
    def nbytes(self) -> int:
        """Bytes of those numbers."""
        return self.layout.nbytes * (2 if self.dtype == "BF16" else 1)


def safetensors_store(path: Path) -> Store:
    """The arrays of a .safetensors file; of the file itself only the header is read here."""
    file = Pinned.of(path)
    with file.open() as stream:
        header, start = _header(stream, path, file.size)
    texts = _texts(header.pop(METADATA, {}), path)
    tensors = {name: _tensor(name, item, path, start) for name, item in header.items()}
    _check_places(tensors, path, start, file.size)
    for name in texts.keys() & tensors.keys():
        raise _damaged(path, "one array of each name", f"{show(name)} is a tensor and a text")
    made = {name: _entry(file, name, tensor) for name, tensor in tensors.items()}
    return made | {name: of_array(array) for name, array in texts.items()}


def _header(stream: IO[bytes], path: Path, size: int) -> tuple[dict[str, Any], int]:
    """The header, and where the data begin."""
    length = int.from_bytes(stream.read(8), "little")
    if size < 8 or length > min(size - 8, LONGEST_HEADER):
        came = f"it is {size} bytes long and names a header of {length}" if size >= 8 else f"it has {size} bytes"
        raise _damaged(path, "a safetensors file: the length of a header, the header, the data", came)
    try:
        header = json.loads(_exactly(stream, length).decode(), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "a header in JSON", f"it is unreadable ({plain(str(error), 100)})") from error
    if not isinstance(header, dict) or len(header) > MOST_ARRAYS:
        came = f"it names {len(header)}" if isinstance(header, dict) else "it is no JSON object"
        raise _damaged(path, f"a header that names at most {MOST_ARRAYS} arrays", came)
    return header, 8 + length


def _exactly(stream: IO[bytes], length: int) -> bytes:
    """An unbuffered stream may give less than it is asked for."""
    parts = []
    while length and (part := stream.read(length)):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands twice")
    return made


def _tensor(name: str, item: Any, path: Path, start: int) -> Tensor:
    try:
        dtype, shape, (first, last) = item["dtype"], item["shape"], item["data_offsets"]
        sound = isinstance(dtype, str) and isinstance(shape, list) and len(shape) <= 32
        sound = sound and all(type(number) is int and number >= 0 for number in (*shape, first, last))
        sound = sound and math.prod(max(number, 1) for number in shape) < 1 << 56
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise _damaged(path, f"dtype, shape and data_offsets of {show(name)}", f"its header is {show(item)}")
    if dtype not in DTYPES:
        raise FileError(
            f"{path}: {name}",
            expected=f"numbers of one of the types {', '.join(DTYPES)}",
            came=f"its items are {show(dtype)}",
            do="save it as F32, for instance with tensor.float()",
        )
    layout = Layout(tuple(shape), np.dtype(DTYPES[dtype]), offset=start + first)
    if layout.nbytes != last - first:
        came = f"its offsets are {first} and {last}"
        raise _damaged(path, f"{layout.nbytes} bytes for {show(name)} of shape {layout.shape}", came)
    return Tensor(dtype, layout)


def _check_places(tensors: dict[str, Tensor], path: Path, start: int, size: int) -> None:
    """The data of all arrays fill the file, without gaps and without overlap."""
    place = start
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].layout.offset, item[1].layout.nbytes)):
        if tensor.layout.offset != place:
            came = f"{show(name)} begins at byte {tensor.layout.offset} instead of {place}"
            raise _damaged(path, "data without gaps and overlaps", came)
        place += tensor.layout.nbytes
    if place != size:
        raise _damaged(path, f"{place} bytes, as the header says", f"the file has {size}")


def _entry(file: Pinned, name: str, tensor: Tensor) -> Entry:
    where, layout = f"{file.path}: {name}", tensor.layout

    def load() -> np.ndarray:
        check_size(tensor.nbytes, where)
        flat = Layout((math.prod(layout.shape),), layout.dtype, offset=layout.offset)
        with file.open() as stream:
            return tensor.values(read_rows(stream, flat, 0, 0, flat.shape[0], where)).reshape(layout.shape)

    def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
        return map(tensor.values, row_blocks(file.open, layout, axis, rows, where))

    return Entry(layout.shape, tensor.nbytes, load, blocks)


def _texts(metadata: Any, path: Path) -> dict[str, np.ndarray]:
    """The arrays of text that `write_safetensors` put beside the tensors."""
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise _damaged(path, f"{METADATA} from text to text", "it holds something else")
    try:
        texts = json.loads(metadata.get(OURS, "{}"), object_pairs_hook=_distinct)
        return {name: _text(value, path) for name, value in texts.items()}
    except CalibrantError:
        raise
    except (ValueError, AttributeError, RecursionError) as error:
        expected = f"arrays of text under {show(OURS)} in {METADATA}"
        raise _damaged(path, expected, f"they are unreadable ({plain(str(error), 60)})") from error


def _text(value: Any, path: Path) -> np.ndarray:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"not text but {show(value)}")
    check_size(4 * len(texts) * max(map(len, texts), default=0), str(path))
    return np.array(value, np.str_)


def write_safetensors(arrays: dict[str, np.ndarray], stream: IO[bytes]) -> None:
    """Write named arrays; the library reads them, and finds the texts in the metadata.

    Larger items come first, so that each array lies on a multiple of its item size.
    """
    texts = {name: array.tolist() for name, array in arrays.items() if array.dtype.kind == "U"}
    numbers = [name for name in arrays if name not in texts]
    tensors = {name: arrays[name] for name in sorted(numbers, key=lambda name: (-arrays[name].dtype.itemsize, name))}
    header = _written_header(tensors, texts)
    if len(header) > LONGEST_HEADER:
        raise UsageError(
            "safetensors",
            expected=f"at most {LONGEST_HEADER // 10**6} MB of text, which stands in the header",
            came=f"there are {len(header) // 10**6} MB",
            do="write .npz or .parquet, or leave the ids out",
        )
    stream.write(len(header).to_bytes(8, "little") + header)
    for array in tensors.values():
        stream.write(_little(array).data)


def _written_header(tensors: dict[str, np.ndarray], texts: dict[str, Any]) -> bytes:
    header: dict[str, Any] = {METADATA: {OURS: json.dumps(texts)}} if texts else {}
    place = 0
    for name, array in tensors.items():
        offsets = [place, place + array.nbytes]
        header |= {name: {"dtype": _type_name(name, array), "shape": list(array.shape), "data_offsets": offsets}}
        place += array.nbytes
    content = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return content + b" " * (-len(content) % 8)


def _type_name(name: str, array: np.ndarray) -> str:
    found = NAMES.get(array.dtype.newbyteorder("="))
    if found is None or name == METADATA:
        raise UsageError(
            "safetensors",
            expected=f"numbers of 8 to 64 bits, booleans or text, under a name other than {METADATA}",
            came=f"{show(name)} holds {show(array.dtype)}",
            do="convert it, for instance to float64, or rename it",
        )
    return found


def _little(array: np.ndarray) -> np.ndarray:
    """The items in C order, little-endian, as bytes."""
    flat = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1)
    return flat.view(np.uint8) if flat.size else np.empty(0, np.uint8)


def _damaged(path: Path, expected: str, came: str) -> FileError:
    return FileError(
        str(path),
        expected=expected,
        came=came,
        do="the file is truncated or damaged: write it again, for instance with safetensors.numpy.save_file",
    )
