"""How often conformal intervals and sets hold what came true, over fresh held-out and new rows."""

from __future__ import annotations

import math
import warnings

import numpy as np
from scipy.special import ndtri

import calibrant as cal
from calibrant.conformal import conformal
from calibrant.conformal.lookup import METHODS

LEVEL = 0.9
NEW = 200
"""New rows for each set of held-out ones."""
SIZES = (15, 100, 1000)
CUTS = np.array([0.05, 0.5, 0.95])


def classes(n: int, rng: np.random.Generator) -> cal.Classification:
    """Ten classes; the model sees the logits through noise and is too sure of itself."""
    truth = 1.5 * rng.standard_normal((n, 10))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return cal.Classification.from_logits(1.7 * (truth + 0.5 * rng.standard_normal(truth.shape)), labels)


def numbers(n: int, rng: np.random.Generator, *, cuts: bool) -> cal.Regression:
    """Outcomes with noise of t with 4 degrees; the model is shifted, with 0.7 of the right spread."""
    mean, std = rng.standard_normal(n), np.exp(0.5 * rng.standard_normal(n))
    y = mean + 0.3 + std * rng.standard_t(4, n)
    if cuts:
        return cal.Regression.from_quantiles(mean[:, None] + 0.7 * std[:, None] * ndtri(CUTS), CUTS, y)
    return cal.Regression.from_gaussian(mean, 0.7 * std, y)


def shares(method: str, n: int, repeats: int, *, randomised: bool = True) -> np.ndarray:
    """The coverage of new rows in each repeat."""
    rng = np.random.default_rng([n, list(METHODS).index(method)])
    out = np.empty(repeats)
    for k in range(repeats):
        total = n + NEW
        rows = classes(total, rng) if method in ("lac", "aps", "raps") else numbers(total, rng, cuts=method == "cqr")
        options = {"seed": k, "randomised": randomised} if method in ("aps", "raps") else {}
        made = conformal(method, LEVEL, **options).fit(rows[:n])
        out[k] = made.predict(rows[n:]).coverage
    return out


def coverage_table(repeats: int) -> list[str]:
    """Mean coverage beside what the theorem allows, in per cent; outside of it by three standard errors is marked."""
    heads = " | ".join(f"n = {n}: {100 * LEVEL:g} to {100 * (LEVEL + 1 / (n + 1)):.2f}" for n in SIZES)
    lines = [f"| method | {heads} |", "| --- |" + " ---: |" * len(SIZES)]
    rows = [*((name, True) for name in METHODS), ("aps", False), ("raps", False)]
    for method, randomised in rows:
        found = [shares(method, n, repeats, randomised=randomised) for n in SIZES]
        cells = [_cell(share, n) for share, n in zip(found, SIZES, strict=True)]
        lines.append(f"| `{method}`{'' if randomised else ', deterministic'} | " + " | ".join(cells) + " |")
    return lines


def _cell(share: np.ndarray, n: int) -> str:
    mean, error = share.mean(), share.std(ddof=1) / math.sqrt(len(share))
    inside = LEVEL - 3 * error <= mean <= LEVEL + 1 / (n + 1) + 3 * error
    return f"{100 * mean:.2f} ± {100 * error:.2f}" + ("" if inside else " (outside)")


if __name__ == "__main__":
    warnings.simplefilter("error")
    print("\n".join(coverage_table(1000)))
