"""How often intervals of level 0.95 contain the truth."""

from __future__ import annotations

import numpy as np

import calibrant as cal
from evidence.models import Model, draw_labels

METRICS = ("nll", "brier", "accuracy")
TRUTH_ROWS = 2_000_000


def truth(model: Model, rng: np.random.Generator) -> dict[str, float]:
    """Population values, with the labels integrated out."""
    sums = dict.fromkeys(METRICS, 0.0)
    blocks = TRUTH_ROWS // 100_000
    for _ in range(blocks):
        z = model.logits(100_000, rng)
        law = np.exp(z - z.max(axis=1, keepdims=True))
        law /= law.sum(axis=1, keepdims=True)
        said = np.exp(model.temperature * (z - z.max(axis=1, keepdims=True)))
        said /= said.sum(axis=1, keepdims=True)
        rows, top = np.arange(len(z)), said.argmax(axis=1)
        sums["nll"] -= (law * np.log(said)).sum() / len(z)
        sums["brier"] += ((said**2).sum(axis=1) - 2 * (law * said).sum(axis=1) + 1).mean()
        sums["accuracy"] += law[rows, top].mean()
    return {name: value / blocks for name, value in sums.items()}


def covered(model: Model, n: int, simulations: int, metrics: tuple[str, ...], seed: int) -> dict[str, float]:
    """Share of intervals that contain the truth."""
    rng = np.random.default_rng(seed)
    values = truth(model, np.random.default_rng(seed + 1))
    hits = dict.fromkeys(metrics, 0)
    for place in range(simulations):
        predictions = cal.Classification.from_probs(*model.draw(n, rng))
        result = cal.evaluate(predictions, metrics, seed=place, resamples=500, curves=False)
        for metric in metrics:
            estimate = result[metric]
            hits[metric] += estimate.low <= values[metric] <= estimate.high
    return {metric: hits[metric] / simulations for metric in metrics}


def means_table(models: tuple[Model, ...], simulations: int, sizes: tuple[int, ...] = (200, 2000)) -> list[str]:
    """NLL, Brier and accuracy."""
    lines = ["| model | n | NLL | Brier | accuracy |", "| --- | ---: | ---: | ---: | ---: |"]
    for place, model in enumerate(models):
        for n in sizes:
            share = covered(model, n, simulations, METRICS, seed=100 * place + n)
            lines.append(f"| {model.name} | {n} | " + " | ".join(f"{share[m]:.3f}" for m in METRICS) + " |")
    return lines


def dependent_rows(units: int, repeats: int, rng: np.random.Generator) -> cal.Classification:
    """Each unit is asked `repeats` times: nearly the same prediction, and one label for all its rows."""
    z = 2.0 * rng.standard_normal((units, 10))
    labels = draw_labels(np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), rng)
    logits = np.repeat(z, repeats, axis=0) + 0.1 * rng.standard_normal((units * repeats, 10))
    who = np.repeat(np.arange(units), repeats)
    return cal.Classification.from_logits(logits, np.repeat(labels, repeats), columns={"unit": who})


def units_table(simulations: int, units: int = 200, repeats: int = 10) -> list[str]:
    """Plain intervals and intervals by unit, when rows of a unit share their label."""
    values = {m: cal.measure(dependent_rows(100_000, repeats, np.random.default_rng(1)), [m])[m] for m in METRICS}
    rng = np.random.default_rng(2)
    hits = {(name, metric): 0 for name in ("plain", "by unit") for metric in METRICS}
    for _ in range(simulations):
        predictions = dependent_rows(units, repeats, rng)
        for name, column in (("plain", None), ("by unit", "unit")):
            result = cal.evaluate(predictions, METRICS, units=column, curves=False)
            for metric in METRICS:
                hits[name, metric] += result[metric].low <= values[metric] <= result[metric].high
    lines = ["| intervals | NLL | Brier | accuracy |", "| --- | ---: | ---: | ---: |"]
    for name in ("plain", "by unit"):
        shares = " | ".join(f"{hits[name, metric] / simulations:.3f}" for metric in METRICS)
        lines.append(f"| {name} | {shares} |")
    return lines
