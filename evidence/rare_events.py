"""Coverage of 95% intervals where events are rare, scores tied or units unequal.

    python -m evidence.rare_events [N [PROCESSES]]

Every population is stated below with its truth, in closed form or by quadrature; N (1000) data sets are drawn of each.
`rare_events_before.csv` has the coverage of the intervals of the first version, by 200 data sets of the same draws.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr, expit
from scipy.stats import norm

import calibrant as cal

BEFORE = Path(__file__).with_name("rare_events_before.csv")
GRID = (np.arange(400_000) + 0.5) / 400_000


class Case(NamedTuple):
    """A population: its name, how a data set is drawn, the truths by metric, and the column of units."""

    name: str
    draw: Callable[[np.random.Generator], Any]
    truths: dict[str, float]
    units: str | None = None


def ranked(n: int, share: float, apart: float) -> Case:
    """Binary: scores N(0, 1) of negatives and N(apart, 1) of positives."""
    t = np.linspace(-9.0, 9.0 + apart, 400_001)
    found, false = share * norm.sf(t - apart), (1.0 - share) * norm.sf(t)
    average = float(np.trapezoid(found / (found + false) * norm.pdf(t - apart), t))

    def draw(rng: np.random.Generator) -> cal.Classification:
        y = rng.random(n) < share
        return cal.Classification.from_probs(expit(rng.standard_normal(n) + apart * y), y.astype(int))

    truths = {"roc_auc": float(norm.cdf(apart / np.sqrt(2.0))), "average_precision": average}
    return Case(f"{share:.1%} positives, {apart} apart, n = {n}", draw, truths)


def selective(n: int, risk: float, tied: float = 0.0, sure: float = 0.0) -> Case:
    """Judged: a share `tied` has confidence 1 and errors `sure`; of the others, errors rise to 2·risk."""

    def errors(x: np.ndarray) -> np.ndarray:
        return np.where(x < tied, sure, 2.0 * risk * (x - tied) / (1.0 - tied))

    so_far = errors(GRID).cumsum() / np.arange(1, len(GRID) + 1)
    total = float(so_far[-1])
    aurc = float(so_far.mean())

    def draw(rng: np.random.Generator) -> cal.Judged:
        x = rng.random(n)
        return cal.Judged.from_confidence(np.where(x < tied, 1.0, 1.0 - 0.5 * x), rng.random(n) >= errors(x))

    truths = {"aurc": aurc, "e_aurc": aurc - total - (1.0 - total) * float(np.log1p(-total))}
    name = f"{total:.1%} errors, n = {n}" + f", {tied:.0%} of confidences 1" * (tied > 0.0)
    return Case(name, draw, truths)


def five_confidences(n: int = 600, gap: float = 0.05) -> Case:
    """Five confidences, off by the gap to either side in turn."""
    said = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
    chance = said + gap * np.array([1, -1, 1, -1, 1])

    def draw(rng: np.random.Generator) -> cal.Judged:
        k = rng.integers(0, 5, n)
        return cal.Judged.from_confidence(said[k], rng.random(n) < chance[k])

    return Case(f"five confidences, off by ±{gap}, n = {n}", draw, {"ece": gap})


def in_units(kind: str, units: int) -> Case:
    """Judged: rows of a unit share confidence c in (½, 1) and outcome, right with c − 0.08."""
    c = 0.5 + 0.5 * GRID
    nll = -((c - 0.08) * np.log(c) + (1.08 - c) * np.log1p(-c))

    def draw(rng: np.random.Generator) -> cal.Judged:
        drawn = rng.integers(1, 9, units) if kind == "1 to 8" else np.ceil(rng.pareto(1.2, units) + 1.0)
        who = np.repeat(np.arange(units), np.minimum(drawn, 3000).astype(int))
        said = 0.5 + 0.5 * rng.random(units)
        right = rng.random(units) < said - 0.08
        return cal.Judged.from_confidence(said[who], right[who], columns={"unit": who})

    truths = {"nll": float(nll.mean()), "accuracy": float(c.mean()) - 0.08, "ece": 0.08}
    return Case(f"{units} units of {kind} rows", draw, truths, "unit")


def detected(inside: int, outside: int, apart: float = 1.5) -> Case:
    """Scores N(0, 1) in-distribution and N(apart, 1) OOD."""

    def draw(rng: np.random.Generator) -> cal.Detection:
        return cal.Detection.from_scores(rng.standard_normal(inside), apart + rng.standard_normal(outside))

    return Case(f"{inside} in-distribution, {outside} OOD", draw, {"fpr95": float(norm.sf(apart - norm.ppf(0.95)))})


def calibrated(n: int, centre: float) -> Case:
    """Binary, logits N(centre, 1) and calibrated: the temperature of CLL is 1 in truth."""
    p = expit(centre + norm.ppf(GRID))

    def draw(rng: np.random.Generator) -> cal.Classification:
        q = expit(centre + rng.standard_normal(n))
        return cal.Classification.from_probs(q, (rng.random(n) < q).astype(int))

    return Case(f"{p.mean():.1%} positives, n = {n}", draw, {"cll": -float((entr(p) + entr(1.0 - p)).mean())})


CASES = (
    ranked(1000, 0.011, 0.5), ranked(1000, 0.011, 1.5), ranked(1000, 0.011, 2.5), ranked(1000, 0.1, 1.5),
    ranked(1000, 0.5, 1.5), selective(1000, 0.011), selective(1000, 0.1), selective(500, 0.4),
    selective(600, 0.2, 0.7, 0.02), selective(600, 0.3, 0.7, 0.005), five_confidences(),
    in_units("1 to 8", 60), in_units("Pareto", 100), detected(1000, 40), detected(1000, 100), detected(1000, 1000),
    calibrated(1000, -5.0), calibrated(1000, -2.5),
)  # fmt: skip


def intervals_of(case: Case, predictions: Any, seed: int) -> dict[str, tuple[float, float]]:
    """The ends of the interval of every metric of the case."""
    if "cll" in case.truths:
        found = cal.comparison.cll(predictions, seed=seed)
        return {"cll": (found.low, found.high)}
    result = cal.evaluate(
        predictions, list(case.truths), units=case.units, seed=seed, resamples=500, curves=False, threads=1
    )
    return {metric: (result[metric].low, result[metric].high) for metric in case.truths}


def rows_of(place: int, repeats: int) -> list[str]:
    """Share of intervals with the truth, and of those that lie above and below it; widths are medians."""
    case, rng, ends = CASES[place], np.random.default_rng([9, place]), []
    with BEFORE.open(encoding="utf-8") as file:
        before = {(row["population"], row["metric"]): row["coverage"] for row in csv.DictReader(file)}
    for seed in range(repeats):
        ends.append(intervals_of(case, case.draw(rng), seed))
    lines = []
    for metric, truth in case.truths.items():
        low, high = np.array([found[metric] for found in ends]).T
        low, high = low[~np.isnan(low)], high[~np.isnan(high)]
        above, below = float((low > truth).mean()), float((high < truth).mean())
        shares = f"{1.0 - above - below:.3f} | {above:.3f} | {below:.3f} | {np.median(high - low):.4f}"
        lines.append(f"| {case.name} | `{metric}` | {truth:.4f} | {before.get((case.name, metric), '–')} | {shares} |")
    return lines


def table(repeats: int, processes: int = 1) -> list[str]:
    """The rows of every population, each simulated by one process."""
    heads = "| population | metric | truth | before | coverage | above | below | width |"
    lines = [heads, "| --- | --- " + "| ---: " * 6 + "|"]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for rows in pool.map(rows_of, range(len(CASES)), repeat(repeats)):
            lines += rows
    return lines


if __name__ == "__main__":
    print("\n".join(table(*(int(text) for text in sys.argv[1:] or ["1000"]))))
