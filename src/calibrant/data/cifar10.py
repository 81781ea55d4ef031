"""CIFAR-10 (Krizhevsky 2009): 50 000 training and 10 000 test images of ten classes, bytes (N, 3, 32, 32)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calibrant.data.folder import data_folder, read_arrays
from calibrant.errors import UsageError, did_you_mean, show

PARTS = {"train": [f"cifar10_train_{k}.npz" for k in range(1, 6)], "test": ["cifar10_test.npz"]}


def cifar10(part: str = "train", folder: str | Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of the part "train" or "test"."""
    if part not in PARTS:
        raise UsageError("part", expected="'train' or 'test'", got=show(part), hint=did_you_mean(str(part), PARTS))
    base = data_folder(folder) / "cifar10"
    stored = [read_arrays(base / name) for name in PARTS[part]]
    images = np.concatenate([each["images"] for each in stored]).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(images), np.concatenate([each["labels"] for each in stored]).astype(np.int64)
