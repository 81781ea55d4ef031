"""Rankings and risk-coverage areas of rows that are sorted already, and rankings under Poisson resampling."""

import math

import numpy as np

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.resampling import draw_weights, scratch_of

SLACK = 1e-12
"""How far rounding of weighted sums may push a share that equals the wanted one; a row of a billion weighs more."""

SERIES_FROM = 16.0
"""From here five terms of the series of the harmonic numbers leave less than a rounding error."""


# ------------------------------------------------------------------------------------------ rankings
@kernel()
def detection(score, outside, tied, weights, level, out):
    """The six scores of rows sorted by falling score; tied[i]: row i + 1 has the same score."""
    all_out = all_in = 0.0
    for i in range(outside.size):  # in the order of the sums below, so that the last of them are these to the bit
        mass = weights[i] if outside[i] else 0.0
        all_out += mass
        all_in += weights[i] - mass
    if not (all_out > 0.0 and all_in > 0.0):
        out[:] = np.nan
        return
    seen_out = seen_in = run_out = run_in = 0.0
    pairs = precision = area = 0.0
    apart, false, found = 0.0, 1.0, False  # the largest TPR − FPR; the FPR at the level
    for i in range(outside.size):
        mass = weights[i] if outside[i] else 0.0
        run_out += mass
        run_in += weights[i] - mass
        seen_out += mass
        seen_in += weights[i] - mass
        if tied[i]:
            continue
        pairs += run_in * (seen_out - 0.5 * run_out)
        if run_out > 0.0:
            precision += run_out * (seen_out / (seen_out + seen_in))
        gap = seen_out / all_out - seen_in / all_in
        apart = max(apart, gap)
        if not found and seen_out >= (level - SLACK) * all_out:
            found = True
            false = seen_in / all_in
        if gap != 0.0 and i + 1 < outside.size:
            area += abs(gap) * (score[i] - score[i + 1])
        run_out = run_in = 0.0
    out[0] = pairs / (all_out * all_in)
    out[1] = precision / all_out
    out[3] = 0.5 + 0.5 * apart
    out[4] = false
    out[5] = area
    seen = seen_in = run_in = precision = 0.0
    for i in range(outside.size - 1, -1, -1):
        mass = 0.0 if outside[i] else weights[i]
        seen += weights[i]
        seen_in += mass
        run_in += mass
        if (i == 0 or not tied[i - 1]) and run_in > 0.0:
            precision += run_in * (seen_in / seen)
            run_in = 0.0
    out[2] = precision / all_in


@kernel()
def detection_replicates(
    k0, k1, purpose, weights, unit, n_units, score, outside, tied, level, out, start, stop
):  # fmt: skip
    """The six scores of Poisson-resampled units, into out[r]."""
    scratch, drawn = scratch_of(n_units), np.empty(weights.size)
    for r in range(start, stop):
        draw_weights(k0, k1, purpose, r, scratch, weights, unit, drawn)
        detection(score, outside, tied, drawn, level, out[r])


# ------------------------------------------------------------------------------------------ selective prediction
@kernel()
def _tail(x):
    """What harmonic(x) − γ adds to log(x + ½), for x from SERIES_FROM on."""
    y = 1.0 / ((x + 0.5) * (x + 0.5))
    return y * (1 / 24 + y * (-7 / 960 + y * (31 / 8064 + y * (-127 / 30720 + y * (511 / 67584)))))


@kernel()
def harmonic_step(a, b):
    """H(b) − H(a) of the harmonic numbers H(x) = ψ(x + 1) + γ, for 0 ≤ a ≤ b; 1/(a + 1) + … + 1/b for whole ones."""
    if b - a == 1.0:
        return 1.0 / b
    total = 0.0
    while a < SERIES_FROM:
        a += 1.0
        total += 1.0 / a
    while b < SERIES_FROM:
        b += 1.0
        total -= 1.0 / b
    return total + (math.log1p((b - a) / (a + 0.5)) + (_tail(b) - _tail(a)))


@kernel()
def risk_areas(error, tied, mass):
    """Mean error rate of the rows so far, over whole rows and over mass, for rows sorted by rising uncertainty.

    Of a run of equal uncertainties with mean error m that lifts the mass from a to b, the expected error so far at
    mass x is E + (x − a)m: the sum and the integral of its ratio to x are (b − a)m + (E − am)·(H(b) − H(a) or log b/a).
    """
    before = wrong = run = run_wrong = 0.0
    steps = area = 0.0
    for i in range(mass.size):
        run += mass[i]
        run_wrong += mass[i] * error[i]
        if tied[i] or not run > 0.0:
            continue
        excess = wrong - before * (run_wrong / run)
        after = before + run
        if excess == 0.0:  # the first run, and as long as all are right
            steps += run_wrong
            area += run_wrong
        else:
            steps += run_wrong + excess * harmonic_step(before, after)
            area += run_wrong + excess * math.log1p(run / before)
        before = after
        wrong += run_wrong
        run = run_wrong = 0.0
    if not before > 0.0:
        return np.nan, np.nan
    return steps / before, area / before


@kernel()
def selective(error, tied, rank, levels, mass, out):
    """AURC, its excess over the best order and the area above the rejection curve; error[i] = levels[rank[i]]."""
    held = np.zeros(levels.size)
    for i in range(mass.size):
        held[rank[i]] += mass[i]
    best, _ = risk_areas(levels, np.zeros(levels.size, np.bool_), held)
    steps, area = risk_areas(error, tied, mass)
    out[0] = steps
    out[1] = 0.0 if steps < best else steps - best  # less than nothing is rounding
    out[2] = area
