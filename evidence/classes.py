"""Calibration errors of every class: coverage of intervals, and null bands.

`python -m evidence.classes [N]` prints the coverage before and after cells of different classes were drawn together.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
from scipy.special import softmax

from calibrant.calibration.binning import equal_width
from calibrant.registry.state import classwise_state
from evidence.models import Model
from evidence.simulation import above, covered, null_bands_only, rejected, simulate, width

METRICS = ("cwce", "cwce(p=1)", "ace", "tace")
BINS, THRESHOLD = 15, 0.001
PERFECT = Model("perfect")
LEVELS = (("perfect", 1.0), ("mild", 1.15), ("bad", 1.7))
CELLS = tuple((classes, n) for classes, sizes in ((10, (500, 2000, 10_000)), (3, (500, 10_000)), (2, (500, 10_000)))
              for n in sizes)  # fmt: skip
TOGETHER = ((3, 1000), (3, 8000), (3, 60_000), (10, 10_000))


def truth(model: Model, rows: int = 400_000) -> dict[str, float]:
    """Population values of the same functionals: every label replaced by its law."""
    z = model.logits(rows, np.random.default_rng(9))
    law, said = softmax(z, axis=1), softmax(model.temperature * z, axis=1)
    if model.temperature == 1.0:
        return dict.fromkeys(METRICS, 0.0)
    square = absolute = ace = tace = 0.0
    for p, chance in zip(said.T, law.T, strict=True):
        bins, gap = equal_width(np.ascontiguousarray(p), BINS), (chance - p) / rows
        share, signed = np.bincount(bins, minlength=BINS) / rows, np.bincount(bins, gap, BINS)
        filled = share > 0
        square += float((signed[filled] ** 2 / share[filled]).sum())
        absolute += float(np.abs(signed).sum())
        order = np.argsort(p)
        ace += _of_equal_counts(gap[order])
        tace += _of_equal_counts(gap[order[p[order] > THRESHOLD]])
    values = (square**0.5, absolute, ace / model.classes, tace / model.classes)
    return dict(zip(METRICS, values, strict=True))


def _of_equal_counts(gaps: np.ndarray) -> float:
    """Σ|sum of gaps| over bins of equal counts of sorted rows."""
    return float(sum(abs(part.sum()) for part in np.array_split(gaps, BINS)))


def coverage_table(simulations: int, cells: Sequence[tuple[int, int]] = CELLS) -> list[str]:
    """Coverage (mean width) for models of ten, three and two classes."""
    lines = ["| model | classes | n | " + " | ".join(f"`{m}`" for m in METRICS) + " |", "| --- |" + " ---: |" * 6]
    for name, temperature in LEVELS:
        truths = {c: truth(Model(name, temperature=temperature, classes=c)) for c in dict.fromkeys(c for c, _ in cells)}
        for classes, n in cells:
            model = Model(name, temperature=temperature, classes=classes)
            found = simulate(model.predictions, n, METRICS, simulations, seed=100 + classes)
            shown = [f"{covered(found[m], truths[classes][m]):.3f} ({width(found[m]):.3f})" for m in METRICS]
            lines.append(f"| {name} | {classes} | {n} | " + " | ".join(shown) + " |")
    return lines


def null_table(simulations: int, sizes: Sequence[int] = (500, 2000, 10_000)) -> list[str]:
    """How often a perfect model lies above its null band, and has p < 0.05."""
    metrics = ("cwce", "sce", "ace", "tace", "uce")
    lines = ["| classes | n | " + " | ".join(f"`{m}`" for m in metrics) + " |", "| ---: | ---: |" + " ---: |" * 5]
    for classes in (10, 3, 2):
        model = Model("perfect", classes=classes)
        for n in sizes:
            with null_bands_only():
                found = simulate(model.predictions, n, metrics, simulations, seed=200 + classes, resamples=1000)
            shown = [f"{above(found[m]):.3f}, {rejected(found[m]):.3f}" for m in metrics]
            lines.append(f"| {classes} | {n} | " + " | ".join(shown) + " |")
    return lines


def together_table(simulations: int, cells: Sequence[tuple[int, int]] = TOGETHER) -> list[str]:
    """Coverage (mean width) of `cwce` of the bad model, cells of different classes independent or drawn together."""
    lines = ["| classes | n | independent (before) | drawn together (now) |", "| ---: |" + " ---: |" * 3]
    temperature = dict(LEVELS)["bad"]
    for classes, n in cells:
        model, shown = Model("bad", temperature=temperature, classes=classes), []
        target = truth(model)["cwce"]
        for most in (0, classwise_state.MOST_JOINT):
            with patch.object(classwise_state, "MOST_JOINT", most):
                found = simulate(model.predictions, n, ("cwce",), simulations, seed=300 + classes)["cwce"]
            shown.append(f"{covered(found, target):.3f} ({width(found):.4f})")
        lines.append(f"| {classes} | {n} | " + " | ".join(shown) + " |")
    return lines


if __name__ == "__main__":
    print("\n".join(together_table(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)))
