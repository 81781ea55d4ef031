"""Sums of many columns at once under Poisson resampling of units and under random signs, in blocks of units.

`fill(start, stop, block)` writes the columns of units start … stop into a block (units, columns), so that all columns
never lie in memory at one time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from calibrant.kernels.jit import over_rows
from calibrant.kernels.loops import paired as loops
from calibrant.kernels.philox import key_of
from calibrant.kernels.resampling import PAIRED, SIGNS

Fill = Callable[[int, int, np.ndarray], None]
BLOCK = 1 << 21
"""Numbers in a block: 16 MB."""
LANES = 8
"""The number of columns is rounded up to a multiple of this, which loops over vectors like."""


def poisson_sums(
    fill: Fill, units: int, columns: int, *, replicates: int, seed: int, threads: int | None = None
) -> np.ndarray:
    """(replicates, columns) Σ_u v_u·x[u]: v_u is Poisson(1) from the word of (seed, PAIRED, replicate, u)."""
    return _sums(loops.poisson_sums, PAIRED, fill, (units, columns), replicates, seed, threads)


def signed_sums(
    fill: Fill, units: int, columns: int, *, replicates: int, seed: int, threads: int | None = None
) -> np.ndarray:
    """(replicates, columns) Σ_u ±x[u]: the sign is bit u mod 32 of the word of (seed, SIGNS, replicate, u // 32)."""
    return _sums(loops.signed_sums, SIGNS, fill, (units, columns), replicates, seed, threads)


def _sums(
    loop: Callable[..., None],
    purpose: int,
    fill: Fill,
    shape: tuple[int, int],
    replicates: int,
    seed: int,
    threads: int | None,
) -> np.ndarray:
    units, columns = shape
    wide = -(-columns // LANES) * LANES
    out, key = np.zeros((replicates, wide)), key_of(seed)
    step = max(BLOCK // (wide * loops.TILE), 1) * loops.TILE
    for first in range(0, units, step):
        block = np.zeros((min(step, units - first), wide))
        fill(first, first + len(block), block)
        run = (*key, np.uint32(purpose), block, np.int64(first), out)
        over_rows(partial(loop, *run), replicates, replicates * block.size, threads)
    return out[:, :columns]
