"""Safetensors: named arrays after a JSON header, read and written without the `safetensors` package.

The format (huggingface.co/docs/safetensors): eight bytes hold the length of the header, little-endian; the header is a
JSON object {name: {dtype, shape, data_offsets: [first, last + 1]}}, padded with spaces; the data follow, without gaps,
and offsets count from the end of the header. `__metadata__` maps text to text. A tensor cannot hold text, so text
arrays are stored there, under `calibrant`, as one JSON object {name: [text, …], "meta": text}.
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
from calibrant.predictions.files.binary import (
    MAX_ARRAYS,
    Layout,
    LazyArray,
    LazyArrays,
    PinnedFile,
    check_size,
    read_rows,
    row_blocks,
)

LONGEST_HEADER = 100_000_000
METADATA = "__metadata__"
OURS = "calibrant"
DTYPES = {
    "BOOL": "|u1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
"""The stored form of each type."""
NAMES = {np.dtype(item).newbyteorder("="): name for name, item in DTYPES.items() if name not in ("BOOL", "BF16")}
NAMES[np.dtype(np.bool_)] = "BOOL"


@dataclass(frozen=True)
class Tensor:
    """One entry of the header: the type and the position of the items."""

    dtype: str
    layout: Layout

    def values(self, items: np.ndarray) -> np.ndarray:
        """The numbers of stored items, in native byte order."""
        if self.dtype == "BOOL":
            return items != 0
        if self.dtype == "BF16":  # the upper half of a float32
            bits = items.astype(np.uint32)
            bits <<= 16
            return bits.view(np.float32)
        return items.astype(items.dtype.newbyteorder("="), copy=False)

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers in memory."""
        return self.layout.nbytes * (2 if self.dtype == "BF16" else 1)


def open_safetensors(path: Path) -> LazyArrays:
    """Open the arrays of a .safetensors file; only the header is read."""
    file = PinnedFile.of(path)
    with file.open() as stream:
        header, start = _read_header(stream, path, file.size)
    texts = _text_arrays(header.pop(METADATA, {}), path)
    tensors = {name: _tensor(name, item, path, start) for name, item in header.items()}
    end = start  # the arrays must fill the file
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].layout.offset, item[1].layout.nbytes)):
        if tensor.layout.offset != end:
            got = f"{show(name)} at byte {tensor.layout.offset} instead of {end}"
            raise _damaged(path, "data without gaps and overlaps", got)
        end += tensor.layout.nbytes
    if end != file.size:
        raise _damaged(path, f"{end} bytes, according to the header", f"{file.size}")
    for name in texts.keys() & tensors.keys():
        raise _damaged(path, "one array per name", f"{show(name)} as a tensor and as text")
    arrays = {name: _lazy_array(file, name, tensor) for name, tensor in tensors.items()}
    return arrays | {name: LazyArray.from_array(array) for name, array in texts.items()}


def _read_header(stream: IO[bytes], path: Path, size: int) -> tuple[dict[str, Any], int]:
    """The header, and the offset of the data."""
    length = int.from_bytes(stream.read(8), "little")
    if size < 8 or length > min(size - 8, LONGEST_HEADER):
        got = f"{size} bytes" + (f" with a header of {length} bytes" if size >= 8 else "")
        raise _damaged(path, "a safetensors file: header length, header, data", got)
    content = b""
    while len(content) < length and (part := stream.read(length - len(content))):  # unbuffered reads may be short
        content += part
    try:
        header = json.loads(content.decode(), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "a JSON header", f"an unreadable one ({plain(str(error), 100)})") from error
    if not isinstance(header, dict) or len(header) > MAX_ARRAYS:
        got = f"{len(header)}" if isinstance(header, dict) else "a header that is no JSON object"
        raise _damaged(path, f"a header of at most {MAX_ARRAYS} arrays", got)
    return header, 8 + length


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    items = dict(pairs)
    if len(items) < len(pairs):
        raise ValueError("a name occurs twice")
    return items


def _tensor(name: str, item: Any, path: Path, start: int) -> Tensor:
    try:
        dtype, shape, (first, last) = item["dtype"], item["shape"], item["data_offsets"]
        sound = isinstance(dtype, str) and isinstance(shape, list) and len(shape) <= 32
        sound = sound and all(type(number) is int and number >= 0 for number in (*shape, first, last))
        sound = sound and math.prod(max(number, 1) for number in shape) < 1 << 56
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise _damaged(path, f"dtype, shape and data_offsets of {show(name)}", show(item))
    if dtype not in DTYPES:
        hint = "save it as F32 with tensor.float()"
        raise FileError(f"{path}: {name}", expected=f"one of the types {', '.join(DTYPES)}", got=show(dtype), hint=hint)
    layout = Layout(tuple(shape), np.dtype(DTYPES[dtype]), offset=start + first)
    if layout.nbytes != last - first:
        got = f"offsets {first} and {last}"
        raise _damaged(path, f"{layout.nbytes} bytes for {show(name)} of shape {layout.shape}", got)
    return Tensor(dtype, layout)


def _lazy_array(file: PinnedFile, name: str, tensor: Tensor) -> LazyArray:
    where, layout = f"{file.path}: {name}", tensor.layout

    def load() -> np.ndarray:
        check_size(tensor.nbytes, where)
        flat = Layout((math.prod(layout.shape),), layout.dtype, offset=layout.offset)
        with file.open() as stream:
            return tensor.values(read_rows(stream, flat, 0, 0, flat.shape[0], where)).reshape(layout.shape)

    def blocks(axis: int, rows: int) -> Iterator[np.ndarray]:
        return map(tensor.values, row_blocks(file.open, layout, axis, rows, where))

    return LazyArray(layout.shape, tensor.nbytes, load, blocks)


def _text_arrays(metadata: Any, path: Path) -> dict[str, np.ndarray]:
    """The text arrays that `write_safetensors` stores in the metadata."""
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise _damaged(path, f"{METADATA} that maps text to text", "other values")
    arrays: dict[str, np.ndarray] = {}
    try:
        for name, value in json.loads(metadata.get(OURS, "{}"), object_pairs_hook=_distinct).items():
            texts = [value] if isinstance(value, str) else value
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise ValueError(f"{show(value)} is not text")
            check_size(4 * len(texts) * max(map(len, texts), default=0), str(path))
            arrays[name] = np.array(value, np.str_)
    except CalibrantError:
        raise
    except (ValueError, AttributeError, RecursionError) as error:
        expected = f"text arrays under {show(OURS)} in {METADATA}"
        raise _damaged(path, expected, f"unreadable ones ({plain(str(error), 60)})") from error
    return arrays


def write_safetensors(arrays: dict[str, np.ndarray], stream: IO[bytes]) -> None:
    """Write named arrays; the `safetensors` package can read them, with text arrays in the metadata.

    Arrays with larger items come first, so that each offset is a multiple of the item size.
    """
    texts = {name: array.tolist() for name, array in arrays.items() if array.dtype.kind == "U"}
    numbers = [name for name in arrays if name not in texts]
    tensors = {name: arrays[name] for name in sorted(numbers, key=lambda name: (-arrays[name].dtype.itemsize, name))}
    header: dict[str, Any] = {METADATA: {OURS: json.dumps(texts)}} if texts else {}
    offset = 0
    for name, array in tensors.items():
        dtype = NAMES.get(array.dtype.newbyteorder("="))
        if dtype is None or name == METADATA:
            expected = f"numbers of 8 to 64 bits, booleans or text, under a name other than {METADATA}"
            hint = "convert it with .astype('float64'), or rename it"
            raise UsageError("safetensors", expected=expected, got=f"{show(name)} in {array.dtype}", hint=hint)
        offsets = [offset, offset + array.nbytes]
        header |= {name: {"dtype": dtype, "shape": list(array.shape), "data_offsets": offsets}}
        offset += array.nbytes
    content = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    content += b" " * (-len(content) % 8)
    if len(content) > LONGEST_HEADER:
        expected, hint = f"at most {LONGEST_HEADER // 10**6} MB of text", "write .npz or .parquet, or drop the ids"
        raise UsageError("safetensors", expected=expected, got=f"{len(content) // 10**6} MB", hint=hint)
    stream.write(len(content).to_bytes(8, "little") + content)
    for array in tensors.values():
        flat = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1)
        stream.write((flat.view(np.uint8) if flat.size else np.empty(0, np.uint8)).data)


def _damaged(path: Path, expected: str, got: str) -> FileError:
    hint = "the file is truncated or damaged; write it again with safetensors.numpy.save_file"
    return FileError(str(path), expected=expected, got=got, hint=hint)
