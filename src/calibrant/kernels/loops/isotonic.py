"""Isotonic regression of many outcomes on the same cells: neighbours that would fall are pooled."""

import numpy as np

from calibrant.kernels.jit import kernel


@kernel()
def pool(weights, sums, start, stop):
    """Replace the sums (R, K) of replicates start … stop by the means of the rising fit of sums/weights."""
    size = weights.size
    total, mass = np.empty(size), np.empty(size)
    last = np.empty(size, np.int64)
    for r in range(start, stop):
        blocks = 0
        for k in range(size):
            total[blocks], mass[blocks], last[blocks] = sums[r, k], weights[k], k
            blocks += 1
            while blocks > 1 and total[blocks - 2] * mass[blocks - 1] >= total[blocks - 1] * mass[blocks - 2]:
                total[blocks - 2] += total[blocks - 1]
                mass[blocks - 2] += mass[blocks - 1]
                last[blocks - 2] = last[blocks - 1]
                blocks -= 1
        first = 0
        for b in range(blocks):
            mean = total[b] / mass[b]
            for k in range(first, last[b] + 1):
                sums[r, k] = mean
            first = last[b] + 1


@kernel()
def near_runs(x, share, out):
    """Replace sorted x by the first of its run: values that exceed it by no more than a share of themselves."""
    first = x[0]
    for i in range(x.size):
        if x[i] - first > share * x[i]:
            first = x[i]
        out[i] = first
