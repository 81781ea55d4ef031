"""Philox4x32-10: random numbers as a function of a counter and a key, never of who asked before.

Reference: Salmon, Moraes, Dror & Shaw (2011), "Parallel random numbers: as easy as 1, 2, 3". The rounds are written
out and inlined (a tuple that is returned stops the vectors): a loop or a call costs eight times as much.

A 32-bit word belongs to (seed, purpose, replicate, row): key = seed, counter = (row // 4, replicate, purpose, 0), word
row mod 4 of the four.
"""

import numpy as np

from calibrant.kernels.jit import kernel

u4 = np.uint32
u8 = np.uint64
M0, M1 = u8(0xD2511F53), u8(0xCD9E8D57)
W0, W1 = u4(0x9E3779B9), u4(0xBB67AE85)


@kernel(inline="always")
def _round(c0, c1, c2, c3, k0, k1):
    a = M0 * u8(c0)
    b = M1 * u8(c2)
    return u4(b >> u8(32)) ^ c1 ^ k0, u4(b), u4(a >> u8(32)) ^ c3 ^ k1, u4(a)


@kernel(inline="always")
def philox(c0, c1, c2, c3, k0, k1):
    """Four random words for a counter of four words and a key of two."""
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, u4(k0 + W0), u4(k1 + W1))
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, u4(k0 + u4(2) * W0), u4(k1 + u4(2) * W1))
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, u4(k0 + u4(3) * W0), u4(k1 + u4(3) * W1))
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, u4(k0 + u4(4) * W0), u4(k1 + u4(4) * W1))
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, u4(k0 + u4(5) * W0), u4(k1 + u4(5) * W1))
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, u4(k0 + u4(6) * W0), u4(k1 + u4(6) * W1))
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, u4(k0 + u4(7) * W0), u4(k1 + u4(7) * W1))
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, u4(k0 + u4(8) * W0), u4(k1 + u4(8) * W1))
    return _round(c0, c1, c2, c3, u4(k0 + u4(9) * W0), u4(k1 + u4(9) * W1))


@kernel()
def fill_words(k0, k1, purpose, replicate, first, a, b, c, d):
    """The words of rows 4·(first + q) + 0 … 3 into a[q] … d[q]: four arrays keep the stores in vectors."""
    for q in range(a.size):
        a[q], b[q], c[q], d[q] = philox(u4(first + q), replicate, purpose, u4(0), k0, k1)


@kernel()
def fill_uniforms(k0, k1, purpose, out):
    """(word + ½)·2⁻³² of every row (columns) in every replicate (rows)."""
    for r in range(out.shape[0]):
        for q in range((out.shape[1] + 3) // 4):
            a, b, c, d = philox(u4(q), u4(r), purpose, u4(0), k0, k1)
            for lane in range(min(4, out.shape[1] - 4 * q)):
                word = a if lane == 0 else (b if lane == 1 else (c if lane == 2 else d))
                out[r, 4 * q + lane] = (word + 0.5) * 2.3283064365386963e-10
