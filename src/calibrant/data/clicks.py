"""Click logs of Criteo: the sample of 8,000 rows, and the full training file in blocks.

Numbers x become sign(x)·log(1 + |x|), missing ones 0. Tokens become buckets by the hash h·2654435761 mod 2³² of their
32 bits, scaled to the bucket count of the column; missing ones are bucket 0.

Reference: Ovadia et al. (2019), NeurIPS 32, appendix A.5. The hash is multiplicative, with 2³² over the golden ratio.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from calibrant.data.catalogue import dataset_named
from calibrant.data.folder import data_folder, read_arrays
from calibrant.data.preparation import verify
from calibrant.errors import FileError, ValuesError, check_choice, check_range, show

NUMBERS, TOKENS = 13, 26
PARTS = ("train", "dev", "test")
BUCKETS = (
    1373, 2148, 4847, 9781, 396, 28, 3591, 2798, 14, 7403, 2511, 5598, 9501, 46, 4753, 4056, 23, 3828, 5856, 12, 4226,
    23, 61, 3098, 494, 5087,
)  # fmt: skip
"""Hash buckets of each categorical feature in the paper."""


def click_rows(
    integers: np.ndarray, tokens: np.ndarray, missing: np.ndarray, buckets: Sequence[int] = BUCKETS
) -> np.ndarray:
    """Rows (N, 13 + 26) in float32: transformed numbers, then buckets."""
    if tokens.shape[1] != len(buckets):
        got, hint = f"{len(buckets)}", "pass one bucket count a column"
        raise ValuesError("buckets", expected=f"{tokens.shape[1]} counts", got=got, hint=hint)
    numbers = np.nan_to_num(np.sign(integers) * np.log1p(np.abs(integers)))
    hashed = (tokens.astype(np.uint64) * np.uint64(2654435761)) & np.uint64(0xFFFFFFFF)
    counts = np.asarray(buckets, np.uint64)
    # One bucket is for missing tokens; the others share the range of the hash.
    placed = np.where(missing, 0, 1 + (hashed * (counts - np.uint64(1)) >> np.uint64(32)).astype(np.int64))
    return np.concatenate([numbers, placed], 1).astype(np.float32)


def criteo_sample(part: str = "train", folder: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, 39) and labels of the sample's part "train" (7,200 rows), "dev" (409) or "test" (391)."""
    check_choice("part", part, PARTS)
    stored = dataset_named("criteo_sample").files[0]
    path = data_folder(folder) / stored.path
    verify(path, stored)
    arrays = read_arrays(path)
    rows = arrays["split"] == PARTS.index(part)
    x = click_rows(*(arrays[name][rows] for name in ("integer", "categorical_hash", "categorical_missing")))
    return x, arrays["label"][rows].astype(np.int64)


def criteo_blocks(path: str | Path, rows: int = 65_536) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows (n, 39) and labels (n,) of train.txt, `rows` at a time; the file is never in memory as a whole.

    A line is a label, 13 integers and 26 tokens of eight hexadecimal digits, separated by tabs; empty ones are missing.
    """
    rows = check_range("rows", rows, 1, integer=True, hint="use rows=65536")
    if not Path(path).is_file():
        hint = "download it from the page of the challenge"
        raise FileError(str(path), expected="train.txt of Criteo", got="no such file", hint=hint)
    with Path(path).open("rb") as stream:
        start = 0
        while lines := list(islice(stream, rows)):
            yield _parsed(lines, str(path), start)
            start += len(lines)


def _parsed(lines: list[bytes], path: str, start: int) -> tuple[np.ndarray, np.ndarray]:
    labels = np.empty(len(lines), np.int64)
    integers = np.full((len(lines), NUMBERS), np.nan, np.float32)
    tokens, missing = np.zeros((len(lines), TOKENS), np.uint32), np.ones((len(lines), TOKENS), bool)
    for row, line in enumerate(lines):
        fields = line.rstrip(b"\r\n").split(b"\t")
        try:
            if len(fields) != 1 + NUMBERS + TOKENS or fields[0] not in (b"0", b"1"):
                raise ValueError(f"{len(fields)} fields")
            labels[row] = int(fields[0])
            for column, text in enumerate(fields[1 : 1 + NUMBERS]):
                if text:
                    integers[row, column] = int(text)
            for column, text in enumerate(fields[1 + NUMBERS :]):
                if text:
                    tokens[row, column], missing[row, column] = int(text, 16), False
        except (ValueError, OverflowError) as error:
            got, hint = f"{show(str(error))} in row {start + row}", "use train.txt as it was published"
            raise FileError(path, expected="a label, 13 integers and 26 tokens", got=got, hint=hint) from error
    return click_rows(integers, tokens, missing), labels
