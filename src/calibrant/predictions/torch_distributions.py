"""torch.distributions as numbers, without importing torch: the distribution brings it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from calibrant.errors import ShapeError, UsageError
from calibrant.predictions.arrays import as_floats


def normal_of(distribution: Any) -> tuple[np.ndarray, np.ndarray]:
    """Location and scale of a Normal, alone or inside Independent."""
    base = getattr(distribution, "base_dist", distribution)
    plain = type(distribution).__name__ in ("Normal", "Independent") and type(base).__name__ == "Normal"
    if not plain:
        raise UsageError(
            "from_torch",
            expected="a torch Normal, or samples=S to take any distribution by its draws",
            came=f"got {type(distribution).__name__}",
            do="pass samples=1000",
        )
    shape = tuple(base.batch_shape)
    return as_floats(base.loc.expand(shape), "loc"), as_floats(base.scale.expand(shape), "scale")


def draws_of(distribution: Any, samples: int, seed: int) -> np.ndarray:
    """`samples` draws (S, N) of each member of a distribution over N rows; torch's own random state stays as it was."""
    if not hasattr(distribution, "sample"):
        raise UsageError(
            "from_torch",
            expected="a torch distribution",
            came=f"got {type(distribution).__name__}",
            do="draws themselves go to from_samples",
        )
    if samples != int(samples) or samples < 1:
        said = "at least one draw, and a whole number of them"
        raise UsageError("from_torch", expected=said, came=f"samples is {samples}", do="1000 is usual")
    torch = sys.modules["torch"]
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        drawn = as_floats(distribution.sample((int(samples),)), "samples")
    if drawn.ndim not in (2, 3):
        raise ShapeError(
            "from_torch",
            expected="a distribution over (N,) rows, or (M, N) for members",
            came=f"one draw has shape {drawn.shape[1:]}",
            do="flatten its batch",
        )
    return drawn.reshape(-1, drawn.shape[-1])
