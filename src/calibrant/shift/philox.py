"""Random fields as a function of (seed, purpose, row): the same whatever the batch, and on any device.

Words come from Philox4x32-10 in 64-bit integer arithmetic, which NumPy and PyTorch share: the key is the seed, the
counter (block, row, purpose, upper half of the row). The purpose is a checksum of a text such as
"gaussian_noise/3/noise". The four words of a counter are the values block, block + Q, block + 2Q, block + 3Q of a field
of 4Q values.

Reference: Salmon, Moraes, Dror & Shaw (2011), "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import MAX_SEED, check_range
from calibrant.shift.backend import Array, Backend

MASK = 0xFFFFFFFF
M0, M1 = 0xD2511F53, 0xCD9E8D57
W0, W1 = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10


@dataclass(frozen=True)
class Draws:
    """Random numbers of rows first … first + n − 1 for one shift; `scope` is its name and severity."""

    arrays: Backend
    seed: int
    scope: str
    first: int
    n: int

    def words(self, field: str, count: int) -> Array:
        """32-bit words (n, count) as 64-bit integers."""
        xp = self.arrays.xp
        blocks = -(-count // 4)
        rows = np.arange(self.first, self.first + self.n, dtype=np.int64)[:, None]
        block = self.arrays.put(np.arange(blocks, dtype=np.int64)[None, :])
        low, high = self.arrays.put(rows & MASK), self.arrays.put(rows >> 32)
        purpose = zlib.crc32(f"{self.scope}/{field}".encode())
        words = philox(block, low, self.arrays.put([[purpose]], "int64"), high, self.seed & MASK, self.seed >> 32)
        return xp.concatenate(words, 1)[:, :count]

    def uniform(self, field: str, *shape: int, low: float = 0.0, high: float = 1.0) -> Array:
        """Uniform numbers (n, *shape) in (low, high), in float64: low + (high − low)(word + ½)/2³²."""
        unit = (self.arrays.cast(self.words(field, math.prod(shape)), "float64") + 0.5) * 2.0**-32
        scaled = unit if (low, high) == (0.0, 1.0) else low + (high - low) * unit
        return scaled.reshape(self.n, *shape)

    def normal(self, field: str, *shape: int) -> Array:
        """Standard normal numbers (n, *shape) by inversion, in float32."""
        quantiles = self.arrays.normal_quantile(self.uniform(field, *shape))
        return self.arrays.cast(quantiles, "float32")

    def integers(self, field: str, count: int, *shape: int) -> Array:
        """Integers (n, *shape) from 0 to count − 1: the upper bits of word·count."""
        return ((self.words(field, math.prod(shape)) * count) >> 32).reshape(self.n, *shape)


def philox(c0: Array, c1: Array, c2: Array, c3: Array, k0: int, k1: int) -> tuple[Array, Array, Array, Array]:
    """Four words per counter; the words of a counter are integer arrays that broadcast against each other.

    Products overflow into the sign of 64-bit integers, so that a shift to the right needs a mask.
    """
    for _ in range(ROUNDS):
        a, b = c0 * M0, c2 * M1
        c0, c1, c2, c3 = ((b >> 32) & MASK) ^ (c1 ^ k0), b & MASK, ((a >> 32) & MASK) ^ (c3 ^ k1), a & MASK
        k0, k1 = (k0 + W0) & MASK, (k1 + W1) & MASK
    return c0, c1, c2, c3


def draws(arrays: Backend, seed: Any, scope: str, first: Any, n: int) -> Draws:
    """The random numbers of a shift, with seed and first row validated."""
    seed = check_range("seed", seed, 0, MAX_SEED, integer=True, hint="use seed=0")
    first = check_range("first", first, 0, 2**63 - 1 - n, integer=True, hint="use first=0")
    return Draws(arrays, seed, scope, first, n)
