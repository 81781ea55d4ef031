"""Many quantiles of equally weighted mixtures of normals, a row at a time; the lanes of a vector are levels.

F, its density and its slope are computed at W points that lie evenly over all quantiles that are wanted. Between two
of them F is nearly the polynomial of degree five that has the same values and derivatives at both; where it takes a
level is a first guess of the quantile, and one of Halley's steps on F itself, for all levels at once, the second. A row
with a level whose step is not small after a few is left to the solver that takes each level for itself.
"""

import numpy as np

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.floats import exp2_64
from calibrant.kernels.loops.normal import END, ROOT, K, between, near_mills

HALF_LOG2_E = 0.7213475204444817
W = 32
"""Points, and levels in a tile."""

CLOSE = 1e-4
"""A step of this many of the smallest σ is the last: the error left is its third power times at most 1e3."""

PATIENCE = 4
POLISH = 4
# Places in the lanes of a tile.
X, TOTAL, DENSITY, SLOPE = 0, W, 2 * W, 3 * W
LANES = 4 * W


@kernel(fastmath={"contract"})
def _curve(lanes, mu, inverse, ratio):
    """F, and its first two derivatives in units of the smallest σ, at the points X; ratio = unit/σ."""
    for j in range(W):
        lanes[TOTAL + j] = lanes[DENSITY + j] = lanes[SLOPE + j] = 0.0
    for m in range(mu.size):
        centre, stretch, share = mu[m], inverse[m], ratio[m]
        for j in range(W):
            z = (lanes[X + j] - centre) * stretch
            x = abs(z)
            x = END if x > END else x
            e = exp2_64(-HALF_LOG2_E * x * x)
            h = e * near_mills((x - K) / (x + K))
            lanes[TOTAL + j] += h if z < 0.0 else 2.0 - h
            lanes[DENSITY + j] += e * share
            lanes[SLOPE + j] -= (x if z > 0.0 else -x) * e * share * share
    for j in range(W):
        lanes[TOTAL + j] *= 0.5 / mu.size
        lanes[DENSITY + j] *= ROOT / mu.size
        lanes[SLOPE + j] *= ROOT / mu.size


@kernel()
def _limits(mu, sd, lowest, highest):
    """Where the quantiles of the lowest and the highest level can lie, and the smallest σ."""
    low, high, least = np.inf, -np.inf, np.inf
    for m in range(mu.size):
        low = min(low, mu[m] + sd[m] * lowest)
        high = max(high, mu[m] + sd[m] * highest)
        least = min(least, sd[m])
    return low, high, least


@kernel()
def _fit(points, g, p, step, terms, j):
    """The polynomial less p between the points g and g + 1, so many units apart, and a first place from 0 to 1."""
    a0, b0 = points[TOTAL + g], points[TOTAL + g + 1]
    a1, b1 = points[DENSITY + g] * step, points[DENSITY + g + 1] * step
    a2, b2 = 0.5 * points[SLOPE + g] * step * step, 0.5 * points[SLOPE + g + 1] * step * step
    rise = b0 - a0
    terms[j] = between((p - a0) / rise, 0.0, 1.0)
    terms[W + j], terms[2 * W + j], terms[3 * W + j] = a0 - p, a1, a2
    terms[4 * W + j] = 10.0 * rise - 6.0 * a1 - 4.0 * b1 - 3.0 * a2 + b2
    terms[5 * W + j] = -15.0 * rise + 8.0 * a1 + 7.0 * b1 + 3.0 * a2 - 2.0 * b2
    terms[6 * W + j] = 6.0 * rise - 3.0 * a1 - 3.0 * b1 - a2 + b2


@kernel(fastmath={"contract"})
def _solve(terms):
    """Newton's steps on the polynomials of a tile, to the places where they are 0."""
    for _ in range(POLISH):
        for j in range(W):
            t, a1, a2 = terms[j], terms[2 * W + j], terms[3 * W + j]
            c3, c4, c5 = terms[4 * W + j], terms[5 * W + j], terms[6 * W + j]
            value = ((((c5 * t + c4) * t + c3) * t + a2) * t + a1) * t + terms[W + j]
            slope = (((5.0 * c5 * t + 4.0 * c4) * t + 3.0 * c3) * t + 2.0 * a2) * t + a1
            t -= value / slope if slope > 0.0 else 0.0
            t = 0.0 if t < 0.0 else t
            terms[j] = 1.0 if t > 1.0 else t


@kernel()
def _guess(levels, low, high, unit, mu, inverse, ratio, points, terms, guesses):
    """A first guess of every quantile."""
    width = (high - low) / (W - 1)
    for j in range(W):
        points[X + j] = low + j * width
    _curve(points, mu, inverse, ratio)
    g = 0
    for first in range(0, levels.size, W):
        count = min(W, levels.size - first)
        for j in range(count):
            while g < W - 2 and points[TOTAL + g + 1] <= levels[first + j]:
                g += 1
            guesses[first + j] = points[X + g]
            _fit(points, g, levels[first + j], width / unit, terms, j)
        _solve(terms)
        for j in range(count):
            guesses[first + j] += width * terms[j]


@kernel()
def level_quantiles(mean, std, levels, scores, out, done):
    """Quantiles (n, L) at rising levels of the mixtures of rows (n, M); done[i]: those of row i are good."""
    members = mean.shape[1]
    lanes, terms = np.empty(LANES), np.zeros(7 * W)
    inverse, ratio = np.empty(members), np.empty(members)
    for i in range(mean.shape[0]):
        mu, sd, guesses = mean[i], std[i], out[i]
        low, high, unit = _limits(mu, sd, scores[0], scores[-1])
        for m in range(members):
            inverse[m] = 1.0 / sd[m]
            ratio[m] = unit / sd[m]
        _guess(levels, low, high, unit, mu, inverse, ratio, lanes, terms, guesses)
        done[i] = True
        for first in range(0, levels.size, W):
            for attempt in range(PATIENCE):
                for j in range(W):
                    lanes[X + j] = between(guesses[min(first + j, levels.size - 1)], low, high)
                _curve(lanes, mu, inverse, ratio)
                longest = 0.0  # of Halley's steps from the guesses of a tile, in units
                for j in range(min(W, levels.size - first)):
                    f = lanes[DENSITY + j]
                    newton = (levels[first + j] - lanes[TOTAL + j]) / f
                    u = newton / between(1.0 + 0.5 * newton * lanes[SLOPE + j] / f, 0.5, 2.0)
                    guesses[first + j] = lanes[X + j] + u * unit
                    longest = max(longest, abs(u)) if u == u else np.inf
                if longest < CLOSE:
                    break
                if attempt == PATIENCE - 1:
                    done[i] = False
            if not done[i]:
                break
