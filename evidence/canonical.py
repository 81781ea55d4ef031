"""Errors of the whole distribution: level and power of their tests, unbiasedness of SKCE, coverage of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import calibrant as cal
from evidence.models import MODELS, Model
from evidence.simulation import Draw, covered, rejected, simulate

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
    found = simulate(draw, n, specs, simulations, seed=seed, resamples=400)
    return f"| {name} | {n} | " + " | ".join(f"{rejected(found[spec]):.3f}" for spec in specs) + " |"


def level_table(simulations: int, sizes: Sequence[int] = SIZES) -> list[str]:
    """How often p < 0.05 of models that are calibrated: one time in twenty."""
    lines = []
    for place, model in enumerate(CALIBRATED):
        lines += [_rejections(model.name, model.predictions, n, CLASS_SPECS, simulations, 80 + place) for n in sizes]
    return _table("model", CLASS_SPECS, lines)


def power_table(simulations: int, sizes: Sequence[int] = SIZES) -> list[str]:
    """How often p < 0.05 of models that are not."""
    lines = []
    for place, model in enumerate(OFF):
        lines += [_rejections(model.name, model.predictions, n, CLASS_SPECS, simulations, 90 + place) for n in sizes]
    return _table("model", CLASS_SPECS, lines)


def regression_table(simulations: int, sizes: Sequence[int] = SIZES) -> list[str]:
    """How often p < 0.05 of Gaussian predictions."""
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


def _truth(draw: Draw, spec: str, seed: int) -> float:
    """From twenty thousand rows, twice."""
    rng = np.random.default_rng([7, seed])
    whole = f"{spec[:-1]},rows={LARGE})" if spec.endswith(")") else f"{spec}(rows={LARGE})"
    return float(np.mean([next(iter(cal.measure(draw(LARGE, rng), [whole]).values())) for _ in range(2)]))
