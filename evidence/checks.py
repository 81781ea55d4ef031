"""Posterior predictive checks where the truth is known: data from one member, data from the averaged prediction.

A *member* of the ensembles here is as sure of everything, or as unsure, wherever one asks: members differ in what all
rows have in common. Data of one member are then far from the averaged prediction, as the Bayesian reading expects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax, ndtri, softmax
from scipy.stats import kstest

import calibrant as cal
from calibrant.results.check import BAYESIAN, BOTH, EXACT, INDEPENDENT, LOWER, Check
from evidence.models import draw_labels
from evidence.simulation import rejected, simulate

DRAWS = 119
"""With 119 replicates a two-sided p-value of a continuous statistic is below 0.05 in exactly 5 % of data sets."""
ROWS = 100
SURPRISED = 0.05
"""A check is surprised where its two-sided p-value is below."""


# ------------------------------------------------------------------------------------------------ ensembles
@dataclass(frozen=True)
class Classes:
    """M members with logits s_m·z + noise: shared z with standard deviation `scale`, and a sharpness s_m for each.

    log s_m are normal quantiles times `spread`; `noise` is the standard deviation of what members have of their own.
    """

    members: int = 10
    classes: int = 4
    scale: float = 1.5
    spread: float = 0.3
    noise: float = 0.0

    def logits(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Logits (M, n, C) of new rows."""
        sharpness = np.exp(self.spread * normal_quantiles(self.members))
        shared = self.scale * rng.standard_normal((n, self.classes))
        logits = sharpness[:, None, None] * shared
        return logits + self.noise * rng.standard_normal(logits.shape) if self.noise else logits


def normal_quantiles(count: int) -> np.ndarray:
    """So many equally likely values of a standard normal."""
    return np.asarray(ndtri((np.arange(count) + 0.5) / count))


def by_member(logits: np.ndarray, rng: np.random.Generator) -> cal.Classification:
    """Labels that one member drew, each as likely as the other."""
    p = softmax(logits[rng.integers(len(logits))].astype(np.float64), axis=-1)
    return cal.Classification.from_logits(logits, draw_labels(p, rng))


def by_average(logits: np.ndarray, rng: np.random.Generator) -> cal.Classification:
    """Labels drawn from the averaged prediction."""
    p = softmax(logits.astype(np.float64), axis=-1).mean(axis=0)
    return cal.Classification.from_logits(logits, draw_labels(p, rng))


# --------------------------------------------------------------------- data sets, of ensembles that stay the same
Data = Callable[[np.random.Generator], Any]
Checks = Sequence[Mapping[str, Check]]


def classes(rows: int = ROWS, members: int = 5) -> Data:
    """A classification, labels from one member."""
    made = Classes(members, spread=0.4, noise=0.5).logits(rows, np.random.default_rng(1))
    return lambda rng: by_member(made, rng)


def judged(rows: int = ROWS, members: int = 5) -> Data:
    """Judged answers, right as often as one member says."""
    made = Classes(members, 2, spread=0.4, noise=0.5).logits(rows, np.random.default_rng(2))
    confidence = np.exp(log_softmax(made, axis=-1)[..., 0])

    def draw(rng: np.random.Generator) -> cal.Judged:
        chance = confidence[rng.integers(members)]
        return cal.Judged.from_confidence(confidence, rng.random(rows) < chance)

    return draw


def gaussians(rows: int = ROWS, members: int = 5) -> Data:
    """A mixture of Gaussians, outcomes from one of them."""
    rng = np.random.default_rng(3)
    mean = rng.standard_normal(rows) + 0.3 * normal_quantiles(members)[:, None]
    mean = mean + 0.5 * rng.standard_normal((members, rows))
    std = np.exp(0.3 * rng.standard_normal((members, 1)) + 0.3 * rng.standard_normal(rows))

    def draw(rng: np.random.Generator) -> cal.Regression:
        m = rng.integers(members)
        return cal.Regression.from_gaussian(mean, std, mean[m] + std[m] * rng.standard_normal(rows))

    return draw


def samples(rows: int = ROWS, count: int = DRAWS) -> Data:
    """S joint draws of all rows, and outcomes that are one more of them."""
    slope = np.random.default_rng(4).standard_normal(rows)

    def draw(rng: np.random.Generator) -> cal.Regression:
        shift, tilt, size = 0.3 * rng.standard_normal((3, count + 1, 1))
        drawn = shift + (1.0 + tilt) * slope + np.exp(size) * rng.standard_normal((count + 1, rows))
        return cal.Regression.from_samples(drawn[1:], drawn[0])

    return draw


CLASS_STATISTICS = (
    "accuracy", "ece", "ece(binning=mass)", "ece(norm=l2)", "mce", "tce", "nll", "brier", "class_frequency(of=0)",
    "confusion(true=0,predicted=1)", "entropy",
)  # fmt: skip
ANY_STATISTICS = ("cwce", "ks", "top_k(k=2)")
"""Of those that are computed anew on each set of labels."""
JUDGED_STATISTICS = ("accuracy", "ece", "nll", "brier")
GAUSSIAN_STATISTICS = (
    "calibration_error", "picp", "mse", "nll", "crps", "mean", "min", "max", "quantile(level=0.9)", "mace",
)  # fmt: skip
SAMPLE_STATISTICS = ("calibration_error", "picp", "mse", "crps", "mean", "min", "max")
EXACT_CLASSES = ("accuracy", "ece", "nll", "brier", "class_frequency(of=0)", "confusion(true=0,predicted=1)")
EXACT_GAUSSIANS = ("picp", "mse", "mean")
SAMPLED = (
    ("classes", classes, CLASS_STATISTICS, 3),
    ("classes", classes, ANY_STATISTICS, 1),
    ("judged", judged, JUDGED_STATISTICS, 3),
    ("Gaussians", gaussians, GAUSSIAN_STATISTICS, 3),
    ("samples", samples, SAMPLE_STATISTICS, 1),
)
"""Predictions, statistics, and how many times as many data sets there are."""
COMPUTED = (
    ("classes", classes, EXACT_CLASSES, 1),
    ("judged", judged, JUDGED_STATISTICS, 1),
    ("Gaussians", gaussians, EXACT_GAUSSIANS, 1),
)


# ----------------------------------------------------------------------------------------------- uniformity
def checked(
    draw: Data, statistics: Sequence[str], count: int, *, seed: int, reading: str = BAYESIAN, draws: int | str = DRAWS
) -> Iterator[Any]:
    """The results of so many data sets, each with a seed of its own."""
    rng = np.random.default_rng([800, seed])
    for place in range(count):
        found = cal.check(draw(rng), statistics, members=reading, draws=draws, seed=10**6 * seed + place, threads=1)
        yield found.results[0]


def uniformity(found: Checks, statistic: str) -> tuple[float, float]:
    """The Kolmogorov-Smirnov p-value of `randomised` against uniform, and the share of surprised checks."""
    p = kstest([checks[statistic].randomised for checks in found], "uniform").pvalue
    return float(p), float(np.mean([checks[statistic].two_sided < SURPRISED for checks in found]))


def uniform_table(
    count: int, designs: Sequence[Any] = SAMPLED, draws: int | str = DRAWS, first_seed: int = 0
) -> list[str]:
    """Data from a random member, read as Bayesian: every statistic's p-value is uniform."""
    lines = ["| predictions | statistic | data sets | KS p | two-sided p < 0.05 |", "| --- | --- |" + " ---: |" * 3]
    for seed, (name, design, statistics, times) in enumerate(designs, first_seed):
        found = [result.checks for result in checked(design(), statistics, times * count, seed=seed, draws=draws)]
        for statistic in statistics:
            p, share = uniformity(found, statistic)
            lines.append(f"| {name} | `{statistic}` | {len(found)} | {p:.3f} | {100 * share:.1f} % |")
    return lines


def computed_table(count: int) -> list[str]:
    """The same of computed laws."""
    return uniform_table(count, COMPUTED, EXACT, first_seed=len(SAMPLED))


# ------------------------------------------------------------------------------------- one reading or the other
SIZES = (100, 500, 3000, 10_000)
STATISTICS = ("accuracy", "nll", "ece")
ENSEMBLE = Classes()


def surprise_table(count: int, sizes: Sequence[int] = SIZES) -> list[str]:
    """Share of data sets that surprise each reading, by who drew the labels."""
    lines = ["| labels from | reading | statistic | " + " | ".join(f"n = {n}" for n in sizes) + " |"]
    lines += ["| --- | --- | --- |" + " ---: |" * len(sizes)]
    for truth, name in ((by_member, "one member"), (by_average, "the average")):
        found = [by_size(truth, n, count) for n in sizes]
        for place, reading in enumerate((BAYESIAN, INDEPENDENT)):
            for statistic in STATISTICS:
                cells = " | ".join(_shares(pairs[place], statistic) for pairs in found)
                lines.append(f"| {name} | {reading} | `{statistic}` | {cells} |")
    return lines


def by_size(truth: Callable[..., Any], n: int, count: int) -> tuple[Checks, Checks]:
    """The checks of both readings, of new rows each time."""

    def draw(rng: np.random.Generator) -> cal.Classification:
        return truth(ENSEMBLE.logits(n, rng).astype(np.float32), rng)

    found = list(checked(draw, STATISTICS, count, seed=n, reading=BOTH))
    return [result.checks for result in found], [result.independent for result in found]


def _shares(found: Checks, statistic: str) -> str:
    """Share of surprised checks, and the share that is so because the value is lower than expected."""
    surprised = [checks[statistic] for checks in found if checks[statistic].two_sided < SURPRISED]
    lower = sum(check.mid_p < 0.5 for check in surprised)
    return f"{100 * len(surprised) / len(found):.0f} % ({100 * lower / len(found):.0f})"


# ----------------------------------------------------------------------------------- the example of the paper
NORMAL_MEMBERS = 200
NORMAL_SIZES = (500, 2000, 8000)
CENTRE = 0.5


def normal_table(count: int, sizes: Sequence[int] = NORMAL_SIZES) -> list[str]:
    """θ ~ N(0, 1), y ~ N(θ, 1): what calibration error says, and what the check of it says."""
    head = "| outcomes | n | median `calibration_error` | null band: p < 0.05 | Bayesian check surprised | lower |"
    lines = [head, "| --- |" + " ---: |" * 5]
    for name, centre, sd in ((f"N({CENTRE}, 1)", CENTRE, 1.0), ("N(0, 2)", 0.0, np.sqrt(2.0))):
        for n in sizes:

            def draw(rng: np.random.Generator, n: int = n, centre: float = centre, sd: float = sd) -> cal.Regression:
                mean = np.repeat(normal_quantiles(NORMAL_MEMBERS)[:, None], n, axis=1)
                return cal.Regression.from_gaussian(mean, np.ones_like(mean), centre + sd * rng.standard_normal(n))

            lines.append(_normal_line(name, n, draw, count))
    return lines


def _normal_line(name: str, n: int, draw: Data, count: int) -> str:
    metric = "calibration_error"
    numbers = simulate(lambda _, rng: draw(rng), n, [metric], count, seed=801, resamples=1000)[metric]
    found = [result.checks[metric] for result in checked(draw, [metric], count, seed=n)]
    surprised = [check for check in found if check.two_sided < SURPRISED]
    lower = sum(check.surprise() == LOWER for check in surprised)
    shares = [rejected(numbers), len(surprised) / count, lower / count]
    cells = " | ".join(f"{100 * share:.0f} %" for share in shares)
    return f"| {name} | {n} | {np.median(numbers['value']):.3f} | {cells} |"
