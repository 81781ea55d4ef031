"""Counter-based random numbers: the same for one thread or two, one block or seven, one machine or many."""

from __future__ import annotations

import numpy as np

from calibrant.errors import UsageError
from calibrant.kernels.loops import philox as loops


def key_of(seed: int) -> tuple[np.uint32, np.uint32]:
    """The two words of the key for a seed of 0 … 2⁶⁴ − 1."""
    if not 0 <= seed < 1 << 64:
        raise UsageError(
            "seed", expected="a whole number from 0 to 2^64 - 1", got=f"{seed}", hint="choose a seed in that range"
        )
    return np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32)


def words(seed: int, purpose: int, replicate: int, n: int, start: int = 0) -> np.ndarray:
    """The 32-bit words of rows start … start + n for one purpose and replicate."""
    k0, k1 = key_of(seed)
    first, last = start // 4, (start + n + 3) // 4
    lanes = np.empty((4, last - first), np.uint32)
    loops.fill_words(k0, k1, np.uint32(purpose), np.uint32(replicate), np.int64(first), *lanes)
    return lanes.T.reshape(-1)[start - 4 * first : start - 4 * first + n]


def uniforms(seed: int, purpose: int, replicate: int, n: int, start: int = 0) -> np.ndarray:
    """Numbers in (0, 1) with 32 random bits: (word + ½)·2⁻³²."""
    return (words(seed, purpose, replicate, n, start) + 0.5) * 2.0**-32


def uniform_table(seed: int, purpose: int, replicates: int, n: int) -> np.ndarray:
    """The uniform numbers (replicates, n) of all replicates."""
    out = np.empty((replicates, n))
    loops.fill_uniforms(*key_of(seed), np.uint32(purpose), out)
    return out


def normals(seed: int, purpose: int, replicates: int, n: int) -> np.ndarray:
    """Standard normal numbers (replicates, n), by inversion."""
    from scipy.special import ndtri

    return ndtri(uniform_table(seed, purpose, replicates, n))
