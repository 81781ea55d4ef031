"""Images and labels of a data set by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calibrant.data.catalogue import dataset_named
from calibrant.data.folder import data_folder, read_arrays
from calibrant.errors import FileError, MissingExtra, UsageError, check_choice, show

PARTS = ("train", "test")
DIGITS_TRAIN = 1297


def images(
    name: str = "digits", part: str = "train", folder: str | Path | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, H, W) or (N, H, W, C) as uint8, and labels (N,), of the part "train" or "test".

    Examples
    --------
    >>> from calibrant.data import images
    >>> x, y = images("digits", "test")
    >>> x.shape, x.dtype, y.shape
    ((500, 8, 8), dtype('uint8'), (500,))
    """
    check_choice("part", part, PARTS)
    if name == "digits":
        return _digits(part)
    dataset = dataset_named(name)
    if not dataset.files or "images" not in dataset.files[0].arrays:
        raise UsageError("data set", expected="one of images", got=show(name), hint="for example cifar10")
    chosen = [stored for stored in dataset.files if f"_{part}" in stored.path]
    if not chosen:
        raise UsageError("part", expected=f"a part of {name}", got=show(part), hint="use part='test'")
    base = data_folder(folder)
    parts = []
    for stored in chosen:
        if not (base / stored.path).is_file():
            hint = f"run calibrant data prepare {name}"
            raise FileError(str(base / stored.path), expected=name, got="no such file", hint=hint)
        arrays = read_arrays(base / stored.path)
        if any(each not in arrays or arrays[each].shape != shape for each, shape in stored.arrays.items()):
            got, hint = "arrays of other names or shapes", f"run calibrant data prepare {name}"
            raise FileError(str(base / stored.path), expected=name, got=got, hint=hint)
        parts.append((arrays["images"], arrays["labels"].astype(np.int64)))
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def _digits(part: str) -> tuple[np.ndarray, np.ndarray]:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        hint = "run pip install 'calibrant[sklearn]'"
        raise MissingExtra("digits", expected="scikit-learn", got="no such module", hint=hint) from error
    bunch = load_digits()
    chosen = slice(DIGITS_TRAIN) if part == "train" else slice(DIGITS_TRAIN, None)
    return (bunch.images[chosen] * (255 / 16)).astype(np.uint8), bunch.target[chosen].astype(np.int64)


def cifar10c(corruption: str, severity: int, folder: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The published CIFAR-10-C: images (10000, 32, 32, 3) of a corruption and severity, and labels."""
    base = data_folder(folder) / "CIFAR-10-C"
    check_choice("severity", str(severity), [str(each) for each in range(1, 6)], hint="use severity=3")
    rows = slice(10_000 * (severity - 1), 10_000 * severity)
    arrays = []
    for name, shape in ((corruption, (50_000, 32, 32, 3)), ("labels", (50_000,))):
        path = base / f"{name}.npy"
        try:
            stored = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            hint = dataset_named("cifar10c").obtain
            raise FileError(str(path), expected="a file of CIFAR-10-C", got=type(error).__name__, hint=hint) from error
        if stored.shape != shape or stored.dtype != np.uint8:
            got, hint = f"{stored.dtype} of shape {stored.shape}", dataset_named("cifar10c").obtain
            raise FileError(str(path), expected=f"uint8 of shape {shape}", got=got, hint=hint)
        arrays.append(np.array(stored[rows]))
    return arrays[0], arrays[1].astype(np.int64)
