"""False alarms of checks by moments with few rows: `draws="exact"` beside 1000 replicates.

    python -m evidence.exact_few_rows [N]

Laws of NLL and Brier by moments have the right mean, variance and skewness, and an approximate form. N (1000) data sets
of three calibrated classes are drawn for each number of rows; both columns check the same ones.
"""

from __future__ import annotations

import sys

import numpy as np

import calibrant as cal

STATISTICS = ("nll", "brier")
SIZES = (8, 20, 100)


def alarms(n: int, repeats: int) -> dict[tuple[str, str], float]:
    """The share of two-sided p-values up to 0.05, by statistic and by how the law was found."""
    found = {(name, law): 0 for name in STATISTICS for law in ("exact", "sampled")}
    for seed in range(repeats):
        rng = np.random.default_rng([5, n, seed])
        p = rng.dirichlet(np.ones(3), n)
        labels = np.minimum((p.cumsum(1) < rng.random((n, 1))).sum(1), 2)
        predictions = cal.Classification.from_probs(p, labels)
        for law, draws in (("exact", "exact"), ("sampled", 1000)):
            result = cal.check(predictions, list(STATISTICS), draws=draws, seed=seed, threads=1)
            for name in STATISTICS:
                found[name, law] += result[name].two_sided <= 0.05
    return {key: count / repeats for key, count in found.items()}


def table(repeats: int) -> list[str]:
    """One row for each number of rows."""
    lines = ["| n | NLL by moments | NLL, 1000 draws | Brier by moments | Brier, 1000 draws |", "| ---: " * 5 + "|"]
    for n in SIZES:
        share = alarms(n, repeats)
        cells = " | ".join(f"{share[name, law]:.3f}" for name in STATISTICS for law in ("exact", "sampled"))
        lines.append(f"| {n} | {cells} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table(int((sys.argv[1:] or ["1000"])[0]))))
