"""Calibration errors of one probability: coverage of intervals, null bands, and what is said to be detectable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from scipy.stats import beta

import calibrant as cal
from evidence.classes import PERFECT
from evidence.classes import truth as class_truth
from evidence.known import KNOWN, Known, weighted_outcomes
from evidence.models import Model, draw_labels
from evidence.simulation import (
    Draw,
    Numbers,
    above,
    covered,
    null_bands_only,
    rejected,
    simulate,
    width,
)

SIZES = (500, 2000, 10_000)
BINNED = ("ece", "tce", "ece(binning=mass)")
CUMULATED = ("ks", "mmce")
SMOOTHED = ("smooth_ece", "ici")
QUANTILES = 100_000
"""Equally likely confidences that stand for all of them in a population."""

NULL_MAIN = ("ece", "mce", "tce", "ks", "mmce", "hosmer_lemeshow", "o_e", "spiegelhalter_z")
NULL_MORE = ("sweep_ece", "slope", "intercept", "smooth_ece", "ici")
NULL_FEW = ("kde_tce",)


# ------------------------------------------------------------------------------------- coverage
@cache
def both_outcomes(model: Known) -> cal.Judged:
    """A population: equally likely confidences, each with both outcomes, weighted by their chances."""
    c = 0.3 + 0.7 * beta(2.5, 1.2).ppf((np.arange(QUANTILES) + 0.5) / QUANTILES)
    return weighted_outcomes(c, model.chance(c))


def truth(model: Known, metric: str) -> float:
    """The population value of the same functional."""
    return max(float(cal.measure(both_outcomes(model), [metric])[metric]), 0.0)


def coverage_table(
    metrics: Sequence[str], simulations: int, sizes: Sequence[int] = SIZES, resamples: int = 400
) -> list[str]:
    """Coverage (mean width) of the intervals for every model of known chance."""
    lines = [
        "| model | n | " + " | ".join(f"`{m}`" for m in metrics) + " |",
        "| --- |" + " ---: |" * (len(metrics) + 1),
    ]
    for place, model in enumerate(KNOWN):
        truths = {m: truth(model, m) if place else 0.0 for m in metrics}
        for n in sizes:
            found = simulate(model.draw, n, metrics, simulations, seed=place, resamples=resamples)
            shown = [f"{covered(found[m], truths[m]):.3f} ({width(found[m]):.3f})" for m in metrics]
            lines.append(f"| {model.name} | {n} | " + " | ".join(shown) + " |")
    return lines


# ------------------------------------------------------------------------------------- null bands
def null_table(tiers: Sequence[tuple[Sequence[str], int]], sizes: Sequence[int] = SIZES, seed: int = 50) -> list[str]:
    """How often a perfect model lies above its null band, and has p < 0.05."""
    lines = ["| metric | simulations | " + " | ".join(f"n = {n}" for n in sizes) + " |"]
    lines += ["| --- |" + " ---: |" * (len(sizes) + 1)]
    for metrics, simulations in tiers:
        with null_bands_only():
            found = [simulate(KNOWN[0].draw, n, metrics, simulations, seed=seed, resamples=1000) for n in sizes]
        lines += [null_line(metric, simulations, [numbers[metric] for numbers in found]) for metric in metrics]
    return lines


def null_line(metric: str, simulations: int, found: Sequence[Numbers]) -> str:
    """One metric at every size."""
    shares = [f"{above(numbers):.3f}, {rejected(numbers):.3f}" for numbers in found]
    return f"| `{metric}` | {simulations} | " + " | ".join(shares) + " |"


# ------------------------------------------------------------------------------------ detectable
class Shifted(Known):
    """Over-confident by the same amount everywhere."""

    def __init__(self, gap: float) -> None:
        """Right with probability c − gap."""
        super().__init__("shifted", lambda c: c - gap)


class TwoClasses:
    """P(class 1) uniform between 0.2 and 0.8; it comes true with probability p − gap."""

    def __init__(self, gap: float) -> None:
        """The gap."""
        self.gap = gap

    def draw(self, n: int, rng: np.random.Generator) -> cal.Classification:
        """What it says, and what came true."""
        p = 0.2 + 0.6 * rng.random(n)
        said, law = (np.stack([1 - x, x], axis=1) for x in (p, p - self.gap))
        return cal.Classification.from_probs(said, draw_labels(law, rng))


def detectable_table(simulations: int, sizes: Sequence[int] = SIZES) -> list[str]:
    """How often a model that is off by the reported `detectable` lies above the null band: four times in five."""
    lines = ["| metric | model | " + " | ".join(f"n = {n}" for n in sizes) + " |"]
    lines += ["| --- | --- |" + " ---: |" * len(sizes)]
    for metric in ("ece", "tce", "ks"):
        shares = [_power(metric, n, simulations, KNOWN[0].draw, lambda d: Shifted(d).draw) for n in sizes]
        lines.append(f"| `{metric}` | the same gap everywhere | " + " | ".join(shares) + " |")
    root = np.sqrt(2.0)  # both classes count, and cwce is the root of the sum of both squares
    shares = [_power("cwce", n, simulations, TwoClasses(0.0).draw, lambda d: TwoClasses(d / root).draw) for n in sizes]
    lines.append("| `cwce` | two classes, the same gap everywhere | " + " | ".join(shares) + " |")
    shares = [_power("cwce", n, simulations, PERFECT.predictions, lambda d: _sharpened(d).predictions) for n in sizes]
    lines.append("| `cwce` | ten classes, T·z with this error | " + " | ".join(shares) + " |")
    return lines


def _power(metric: str, n: int, simulations: int, perfect: Draw, off: Callable[[float], Draw]) -> str:
    """Mean detectable error of a perfect model, and how often one that is off by it is found out."""
    found = simulate(perfect, n, [metric], 20, seed=70, resamples=1000)[metric]
    gap = float(np.mean(found["detectable"]))
    with null_bands_only():
        share = above(simulate(off(gap), n, [metric], simulations, seed=71, resamples=1000)[metric])
    return f"{gap:.3f}: {share:.3f}"


def _sharpened(error: float) -> Model:
    """The model of ten classes whose population cwce is this error, by bisection of its temperature."""
    low, high = 1.0, 4.0
    for _ in range(14):
        middle = (low + high) / 2
        found = class_truth(Model("", temperature=middle), rows=20_000)["cwce"]
        low, high = (middle, high) if found < error else (low, middle)
    return Model("sharpened", temperature=(low + high) / 2)
