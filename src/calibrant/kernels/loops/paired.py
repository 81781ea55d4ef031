"""Sums of many columns under resampling of units, and under random signs of them: every column meets the same draws.

Units are taken in tiles that stay in the cache while all replicates pass over them; within a replicate they are added
in their order, so that the sums do not depend on threads, which share out replicates.
"""

import numpy as np

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.philox import fill_words, philox
from calibrant.kernels.loops.resampling import POISSON_WORDS

u4 = np.uint32
u8 = np.uint64
TILE = 128
"""Units that one call of Philox gives signs to: four words of 32 bits."""
P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10 = (u4(word) for word in POISSON_WORDS)


@kernel()
def _poisson(words, counts):
    """Poisson(1) counts by inversion; written out, for a loop over the table would stop the vectors."""
    for q in range(words.size):
        w = words[q]
        some = u4(w >= P0) + u4(w >= P1) + u4(w >= P2) + u4(w >= P3) + u4(w >= P4) + u4(w >= P5)
        counts[q] = u4(some + u4(w >= P6) + u4(w >= P7) + u4(w >= P8) + u4(w >= P9) + u4(w >= P10))


@kernel(fastmath={"contract"})
def _add(times, x, u, out, r):
    for c in range(u8(x.shape[1])):
        out[r, c] += times * x[u, c]


@kernel(fastmath={"contract"})
def _add_two(one, two, x, u, v, out, r):
    for c in range(u8(x.shape[1])):
        out[r, c] += one * x[u, c] + two * x[v, c]


@kernel()
def poisson_sums(k0, k1, purpose, x, first, out, start, stop):
    """out[r] += Σ_u count·x[u], the count of unit first + u in replicate r being Poisson(1); 4 divides `first`."""
    lanes = np.empty((4, TILE // 4), np.uint32)
    counts = np.empty((4, TILE // 4), np.uint32)
    drawn = np.empty(TILE, np.int64)
    for base in range(0, x.shape[0], TILE):
        some = min(TILE, x.shape[0] - base)
        for r in range(start, stop):
            fill_words(k0, k1, purpose, u4(r), (first + base) // 4, lanes[0], lanes[1], lanes[2], lanes[3])
            for lane in range(4):
                _poisson(lanes[lane], counts[lane])
            many = 0
            for u in range(some):
                drawn[many] = u
                many += counts[u & 3, u >> 2] > 0
            for k in range(0, many - 1, 2):
                u, v = drawn[k], drawn[k + 1]
                one, two = np.float64(counts[u & 3, u >> 2]), np.float64(counts[v & 3, v >> 2])
                _add_two(one, two, x, u8(base + u), u8(base + v), out, u8(r))
            if many & 1:
                u = drawn[many - 1]
                _add(np.float64(counts[u & 3, u >> 2]), x, u8(base + u), out, u8(r))


@kernel()
def signed_sums(k0, k1, purpose, x, first, out, start, stop):
    """out[r] += Σ_u ±x[u]: the sign of unit first + u is bit u mod 32 of word u // 32; TILE divides `first`."""
    words = np.empty(4, np.uint32)
    for base in range(0, x.shape[0], TILE):
        some = min(TILE, x.shape[0] - base)
        for r in range(start, stop):
            words[0], words[1], words[2], words[3] = philox(u4((first + base) // TILE), u4(r), purpose, u4(0), k0, k1)
            for u in range(0, some - 1, 2):
                bits = words[u >> 5] >> u4(u & 31)
                one = 1.0 - 2.0 * np.float64(bits & u4(1))
                two = 1.0 - 2.0 * np.float64((bits >> u4(1)) & u4(1))
                _add_two(one, two, x, u8(base + u), u8(base + u + 1), out, u8(r))
            if some & 1:
                last = some - 1
                sign = 1.0 - 2.0 * np.float64((words[last >> 5] >> u4(last & 31)) & u4(1))
                _add(sign, x, u8(base + last), out, u8(r))
