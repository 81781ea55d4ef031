"""`prepare`: a data set in the local layout, from its published files or from a folder that has it, verified.

Downloaded files stay in `.sources` of the folder, so that a later call has nothing to download. Files of the layout are
written atomically, after their sources are verified.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from calibrant.data import sources
from calibrant.data.catalogue import Dataset, Stored, dataset_named
from calibrant.data.folder import VARIABLE, read_arrays
from calibrant.data.transfer import Progress, download
from calibrant.errors import FileError, UsageError
from calibrant.predictions.files.write import atomic_write

SOURCES = ".sources"
CIFAR10 = tuple(
    f"cifar-10-batches-bin/{part}.bin" for part in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")
)
CIFAR100 = ("cifar-100-binary/train.bin", "cifar-100-binary/test.bin")
Converter = Callable[[list[Path]], list[sources.Arrays]]


def _idx_pairs(paths: list[Path]) -> list[sources.Arrays]:
    arrays = [sources.idx(path) for path in paths]
    return [{"images": arrays[k], "labels": arrays[k + 1]} for k in (0, 2)]


def _newsgroups(paths: list[Path]) -> list[sources.Arrays]:
    posts = sources.newsgroups(paths[0])
    return [posts["train"], posts["test"]]


CONVERTERS: dict[str, Converter] = {
    "cifar10": lambda paths: sources.cifar_binary(paths[0], CIFAR10, 1),
    "cifar100": lambda paths: sources.cifar_binary(paths[0], CIFAR100, 2),
    "mnist": _idx_pairs,
    "fashion_mnist": _idx_pairs,
    "svhn": lambda paths: [sources.svhn(path) for path in paths],
    "newsgroups": _newsgroups,
    "lm1b": lambda paths: [sources.billion_words(paths[0])],
}
"""From the published files of a data set, in their order, to the arrays of its files of the layout, in theirs."""


def present(dataset: Dataset, folder: Path | None) -> bool:
    """Whether all files of a data set are there; their contents are not read."""
    return folder is not None and all((folder / stored.path).is_file() for stored in dataset.files)


def prepare(name: str, folder: Path, *, progress: Progress | None = None) -> list[Path]:
    """Make the files of a data set, and verify those that are there; returns their paths."""
    dataset = dataset_named(name)
    absent = [stored for stored in dataset.files if not (folder / stored.path).is_file()]
    for stored in dataset.files:
        if stored not in absent:
            verify(folder / stored.path, stored)
    if absent:
        if not dataset.sources:
            hint = f"copy it there: {dataset.obtain}"
            raise FileError(str(folder / absent[0].path), expected=f"{name}", got="no such file", hint=hint)
        paths = [
            download(each.url, folder / SOURCES / each.name, each.sha256, size=each.size, progress=progress)
            for each in dataset.sources
        ]
        for stored, arrays in zip(dataset.files, CONVERTERS[name](paths), strict=True):
            if stored in absent:
                check_arrays(f"{name}: {stored.path}", arrays, stored)
                path = folder / stored.path
                path.parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(path) as stream:
                    np.savez_compressed(stream, allow_pickle=False, **arrays)
    if not dataset.files and name != "digits":
        raise UsageError(name, expected="a data set that can be prepared", got="one to copy", hint=dataset.obtain)
    return [folder / stored.path for stored in dataset.files]


def verify(path: Path, stored: Stored) -> None:
    """Raise `FileError` unless a file has the arrays of the data set."""
    check_arrays(str(path), read_arrays(path), stored)


def check_arrays(subject: str, arrays: sources.Arrays, stored: Stored) -> None:
    """Compare names, shapes and, where it is known, the checksum of arrays with those of the data set."""
    hint = f"delete it and run calibrant data prepare again, or export {VARIABLE}=FOLDER"
    for name, shape in stored.arrays.items():
        if name not in arrays:
            raise FileError(subject, expected=f"the array {name}", got=", ".join(arrays) or "no arrays", hint=hint)
        seen = arrays[name].shape
        if len(seen) != len(shape) or any(want not in (None, have) for want, have in zip(shape, seen, strict=True)):
            wanted = " × ".join("any" if each is None else f"{each}" for each in shape)
            raise FileError(subject, expected=f"{name} of {wanted}", got=" × ".join(map(str, seen)), hint=hint)
    if stored.contents is not None and contents_sha256(arrays, tuple(stored.arrays)) != stored.contents:
        got = f"arrays with another SHA-256 than {stored.contents[:12]}…"
        raise FileError(subject, expected="the published data", got=got, hint=hint)


def contents_sha256(arrays: sources.Arrays, names: tuple[str, ...]) -> str:
    """SHA-256 of names, dtypes, shapes and values of arrays."""
    digest = hashlib.sha256()
    for name in names:
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
