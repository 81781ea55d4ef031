"""Level and power of `cutoff_error`, `two_bin_error` and `utility_error`: `python -m evidence.cutoff_and_two_bins`.

Confidences are Beta(2, 1.5). Under calibration P(correct) = p; the alternatives are p − 0.05 everywhere, and a
sinusoid, p + 0.1 sin(4πp), whose gaps have both signs. A model is accused where its error lies above the band, which is
the upper half of a two-sided test at 5%: the share among calibrated models should be 2.5%, and twice that is the level.
"""

from __future__ import annotations

import sys

import numpy as np

import calibrant as cal

SPECS = ("ks", "cutoff_error", "two_bin_error", "utility_error")


def accused(kind: str, n: int, runs: int) -> dict[str, float]:
    """The share of data sets in which each error lies above its band."""
    counts = dict.fromkeys(SPECS, 0)
    for seed in range(runs):
        rng = np.random.default_rng((seed, n))
        p = rng.beta(2, 1.5, n)
        chance = {"calibrated": p, "shifted": p - 0.05, "sinusoid": p + 0.1 * np.sin(4 * np.pi * p)}[kind]
        predictions = cal.Judged.from_confidence(p, rng.random(n) < np.clip(chance, 0, 1))
        result = cal.evaluate(predictions, ",".join(SPECS), curves=False, resamples=400, seed=seed).results[0]
        for spec in SPECS:
            counts[spec] += result.metrics[spec].value > result.metrics[spec].null_high
    return {spec: count / runs for spec, count in counts.items()}


def main(runs: int) -> None:
    """Print the table in Markdown."""
    print("| model | n | " + " | ".join(f"`{spec}`" for spec in SPECS) + " |")
    print("| --- " * (2 + len(SPECS)) + "|")
    for kind, n, count in (
        ("calibrated", 200, runs),
        ("calibrated", 1000, runs),
        ("shifted", 1000, 200),
        ("sinusoid", 1000, 200),
    ):
        shares = accused(kind, n, count)
        print(f"| {kind} | {n} | " + " | ".join(f"{100 * shares[spec]:.1f}%" for spec in SPECS) + " |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
