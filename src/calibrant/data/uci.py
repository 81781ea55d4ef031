"""UCI regression data sets, with the splits of Gal & Ghahramani (2016)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calibrant.data.folder import data_folder, read_arrays
from calibrant.errors import UsageError, did_you_mean, show


@dataclass(frozen=True)
class Splits:
    """Rows x (N, d) and y (N,), and the indices of training and test rows of each split."""

    name: str
    x: np.ndarray
    y: np.ndarray
    train: np.ndarray
    test: np.ndarray


def uci(name: str, folder: str | Path | None = None) -> Splits:
    """Load a data set by name."""
    base = data_folder(folder) / "uci_regression"
    known = [path.stem for path in base.glob("*.npz")]
    if name not in known:
        raise UsageError("data set", expected="a known regression set", got=show(name), hint=did_you_mean(name, known))
    stored = read_arrays(base / f"{name}.npz")
    rows = [stored[key].astype(np.int64) for key in ("index_train", "index_test")]
    return Splits(name, stored["X"].astype(np.float32), stored["y"], *rows)
