"""How often intervals of detection and of selective prediction contain the truth."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

import calibrant as cal
from evidence.calibration import both_outcomes
from evidence.known import KNOWN
from evidence.simulation import Draw, covered, simulate, width

DETECTION = ("auroc", "aupr_out", "aupr_in", "detection_accuracy", "fpr95", "wasserstein")
SELECTIVE = (
    "aurc",
    "avu_auc(score=max_probability)",
    "avu_auc(score=max_probability,thresholds=fixed)",
    "avu(score=max_probability,threshold=0.3)",
    "p_accurate_certain(score=max_probability,threshold=0.3)",
    "p_uncertain_inaccurate(score=max_probability,threshold=0.3)",
    "misclassification_auroc",
)
APART = 1.5
"""Distance between the means of two normal populations of scores."""


def detection_truth() -> dict[str, float]:
    """Population values for scores N(0, 1) inside and N(1.5, 1) outside, as many of either."""
    t = np.linspace(-12.0, 14.0, 200_001)
    found, false = norm.sf(t - APART), norm.sf(t)
    precision = float(np.trapezoid(found / (found + false) * norm.pdf(t - APART), t))
    values = (norm.cdf(APART / np.sqrt(2)), precision, precision, norm.cdf(APART / 2))
    at_most = norm.sf(norm.ppf(0.05, APART))
    return dict(zip(DETECTION, (*map(float, values), float(at_most), APART), strict=True))


def draw_scores(n: int, rng: np.random.Generator) -> cal.Detection:
    """n/2 scores of either side."""
    return cal.Detection.from_scores(rng.standard_normal(n // 2), APART + rng.standard_normal(n - n // 2))


def selective_truth() -> dict[str, float]:
    """Population values for the mildly over-confident model."""
    values = cal.measure(both_outcomes(KNOWN[1]), list(SELECTIVE))
    return {metric: float(values[metric]) for metric in SELECTIVE}


def coverage_table(simulations: int, n: int = 500) -> list[str]:
    """Population value, coverage and mean width of every metric."""
    lines = ["| metric | population value | coverage | mean width |", "| --- | ---: | ---: | ---: |"]
    settings: tuple[tuple[Draw, dict[str, float]], ...] = (
        (draw_scores, detection_truth()),
        (KNOWN[1].draw, selective_truth()),
    )
    for draw, truths in settings:
        found = simulate(draw, n, tuple(truths), simulations, seed=300, resamples=1000)
        for metric, value in truths.items():
            numbers = found[metric]
            lines.append(f"| `{metric}` | {value:.4f} | {covered(numbers, value):.3f} | {width(numbers):.3f} |")
    return lines
