"""Errors of the whole distribution: level and power of their tests, unbiasedness of SKCE, coverage of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import softmax

import calibrant as cal
from evidence.models import MODELS, Model, draw_labels
from evidence.simulation import Draw, Numbers, covered, simulate

CLASS_SPECS = ("skce", "skce(form=biased)", "skce(form=block)", "ce")
NUMBER_SPECS = ("skce", "skce(form=biased)", "skce(form=block)")
CALIBRATED = (MODELS[0], MODELS[3], Model("calibrated, two classes", spread=1.0, classes=2))
OFF = (
    MODELS[1],
    MODELS[2],
    MODELS[4],
    Model("over-confident, two classes", spread=1.0, classes=2, temperature=1.7),
)
SIZES = (100, 500)
LARGE = 20_000
WIDTH = 0.5
"""A bandwidth that does not change with the rows, where values are compared with a truth."""


@dataclass(frozen=True)
class Gaussians:
    """y ~ N(μ, σ²); the model says N(μ + shift, (ratio·σ)²)."""

    name: str
    ratio: float = 1.0
    shift: float = 0.0

    def draw(self, n: int, rng: np.random.Generator) -> cal.Regression:
        """What it says, and what came true."""
        mean, std = rng.standard_normal(n), 0.5 + rng.random(n)
        y = mean + std * rng.standard_normal(n)
        return cal.Regression.from_gaussian(mean + self.shift, self.ratio * std, y=y)


REGRESSIONS = (
    Gaussians("calibrated"),
    Gaussians("σ too small by a fifth", ratio=0.8),
    Gaussians("σ too large by a quarter", ratio=1.25),
    Gaussians("mean off by 0.3", shift=0.3),
)


def _table(first: str, specs: Sequence[str], lines: list[str]) -> list[str]:
    head = f"| {first} | n | " + " | ".join(f"`{spec}`" for spec in specs) + " |"
    return [head, "| --- |" + " ---: |" * (len(specs) + 1), *lines]


def _rejections(name: str, draw: Draw, n: int, specs: Sequence[str], simulations: int, seed: int) -> str:
    found = simulate(draw, n, specs, simulations, seed=seed, resamples=199)
    return f"| {name} | {n} | " + " | ".join(f"{_rejected(found[spec]):.3f}" for spec in specs) + " |"


def _rejected(numbers: Numbers) -> float:
    """Share of p-values of at most 0.05, which 199 redrawn sets of labels reach in one case of twenty."""
    return float(np.mean(numbers["p_value"] <= 0.05 + 1e-12))


def level_table(simulations: int, sizes: Sequence[int] = SIZES) -> list[str]:
    """How often p ≤ 0.05 of models that are calibrated: one time in twenty."""
    lines = []
    for place, model in enumerate(CALIBRATED):
        lines += [_rejections(model.name, model.predictions, n, CLASS_SPECS, simulations, 80 + place) for n in sizes]
    return _table("model", CLASS_SPECS, lines)


def power_table(simulations: int, sizes: Sequence[int] = SIZES) -> list[str]:
    """How often p ≤ 0.05 of models that are not."""
    lines = []
    for place, model in enumerate(OFF):
        lines += [_rejections(model.name, model.predictions, n, CLASS_SPECS, simulations, 90 + place) for n in sizes]
    return _table("model", CLASS_SPECS, lines)


def regression_table(simulations: int, sizes: Sequence[int] = SIZES) -> list[str]:
    """How often p ≤ 0.05 of Gaussian predictions."""
    lines = []
    for place, model in enumerate(REGRESSIONS):
        lines += [_rejections(model.name, model.draw, n, NUMBER_SPECS, simulations, 95 + place) for n in sizes]
    return _table("model", NUMBER_SPECS, lines)


def unbiased_table(simulations: int, n: int = 50) -> list[str]:
    """Mean of SKCE over simulations beside the truth, and coverage of its interval."""
    models: list[tuple[str, Draw]] = [(m.name, m.predictions) for m in (*CALIBRATED, *OFF)]
    models += [(f"regression, {m.name}", m.draw) for m in REGRESSIONS]
    lines = [
        "| model | truth | mean of SKCE | standard error | mean of the biased form | coverage, n = 50 | n = 500 |",
        "| --- |" + " ---: |" * 6,
    ]
    for place, (name, draw) in enumerate(models):
        calibrated = "calibrated" in name
        options = "" if "regression" in name else f"bandwidth={WIDTH:g}"
        spec, biased = f"skce({options})" if options else "skce", f"skce(form=biased,{options})".replace(",)", ")")
        truth = 0.0 if calibrated else _truth(draw, spec, place)
        found = simulate(draw, n, (spec, biased), simulations, seed=100 + place, resamples=20)
        larger = simulate(draw, 500, (spec,), max(simulations // 5, 10), seed=120 + place, resamples=20)[spec]
        values = found[spec]["value"]
        numbers = (truth, values.mean(), values.std(ddof=1) / np.sqrt(simulations), found[biased]["value"].mean())
        shares = f"{covered(found[spec], truth):.3f} | {covered(larger, truth):.3f}"
        lines.append(f"| {name} | " + " | ".join(f"{x:.5f}" for x in numbers) + f" | {shares} |")
    return lines


@dataclass(frozen=True)
class Favouring:
    """Says softmax(z), while the first class has `lift` more in the law: wrong in another way than its confidence."""

    name: str
    lift: float
    classes: int = 3
    every: int = 1000
    """Which other classes have it too."""

    def laws(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """What it says, and what is true."""
        z = Model("", spread=1.5, classes=self.classes).logits(n, rng)
        return softmax(z, axis=1), softmax(z + self.lift * (np.arange(self.classes) % self.every == 0), axis=1)


@dataclass(frozen=True)
class Tempered:
    """Says softmax(T·z) where softmax(z) is true."""

    name: str
    temperature: float
    classes: int = 3

    def laws(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """What it says, and what is true."""
        z = Model("", spread=1.5, classes=self.classes).logits(n, rng)
        return softmax(self.temperature * z, axis=1), softmax(z, axis=1)


TEMPERED = tuple(
    Tempered(f"{name}, {classes} classes", temperature, classes)
    for classes in (2, 3, 10)
    for name, temperature in (("calibrated", 1.0), ("over-confident", 1.7), ("under-confident", 0.6))
)
FAVOURING = (
    Favouring("one of three classes too rarely expected", 0.7),
    Favouring("one of ten, likewise", 1.5, 10),
    Favouring("every second of ten, likewise", 2.0, 10, 2),
)


def coverage_table(simulations: int, n: int = 500) -> list[str]:
    """How often the interval of the canonical error holds the truth, which is known row by row."""
    specs = ("ce", "ce(p=2)")
    lines = ["| model | truth | mean | `ce` | truth | mean | `ce(p=2)` |", "| --- |" + " ---: |" * 6]
    for place, model in enumerate((*TEMPERED, *FAVOURING)):
        found = simulate(partial(_drawn, model), n, specs, simulations, seed=140 + place, resamples=200)
        said, law = model.laws(LARGE, np.random.default_rng([8, place]))
        cells = []
        for spec, order in zip(specs, (1, 2), strict=True):
            truth = float(np.mean(np.sum(np.abs(said - law) ** order, axis=1)) ** (1 / order))
            held, wide = covered(found[spec], truth), np.nanmean(found[spec]["high"] - found[spec]["low"])
            cells += [f"{truth:.3f}", f"{found[spec]['value'].mean():.3f}", f"{held:.3f} ({wide:.3f})"]
        lines.append(f"| {model.name} | " + " | ".join(cells) + " |")
    return lines


def _drawn(model: Tempered | Favouring, n: int, rng: np.random.Generator) -> cal.Classification:
    said, law = model.laws(n, rng)
    return cal.Classification.from_probs(said, draw_labels(law, rng))


def _truth(draw: Draw, spec: str, seed: int) -> float:
    """From twenty thousand rows, twice."""
    rng = np.random.default_rng([7, seed])
    whole = f"{spec[:-1]},rows={LARGE})" if spec.endswith(")") else f"{spec}(rows={LARGE})"
    return float(np.mean([next(iter(cal.measure(draw(LARGE, rng), [whole]).values())) for _ in range(2)]))
