"""The hot loops, compiled by Numba. Nothing here checks its arguments: `calibrant.kernels` does."""
