"""How often intervals of regression scores and calibration errors contain the truth; null levels; the fair CRPS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

import calibrant as cal
from evidence.simulation import above, covered, null_bands_only, rejected, simulate, width

METRICS = ("crps", "nll", "mse")
TRUTH_ROWS = 2_000_000


@dataclass(frozen=True)
class NumberModel:
    """Outcomes y = 2x + s·e with s log-normal; the model knows x and s, and says N(2x, (width·s)²) or what differs."""

    name: str
    width: float = 1.0
    shift: float = 0.0
    """By how many standard deviations outcomes are higher than is said."""
    freedom: float = np.inf
    """Degrees of freedom of the noise e, scaled to variance 1 where it has one; ∞ is normal."""
    members: int = 1
    samples: int = 0

    def draw(self, n: int, rng: np.random.Generator) -> cal.Regression:
        """Predictions and outcomes of n rows."""
        centre, scale = 2 * rng.standard_normal(n), np.exp(0.5 * rng.standard_normal(n))
        noise = rng.standard_normal(n)
        if np.isfinite(self.freedom):
            noise = rng.standard_t(self.freedom, n) * np.sqrt((self.freedom - 2) / self.freedom)
        y, std = centre + scale * (noise + self.shift), self.width * scale
        if self.samples:
            return cal.Regression.from_samples(centre + std * rng.standard_normal((self.samples, n)), y)
        if self.members > 1:
            shifts = 0.5 * scale * rng.standard_normal((self.members, n))
            return cal.Regression.from_gaussian(centre + shifts, np.broadcast_to(std, shifts.shape), y)
        return cal.Regression.from_gaussian(centre, std, y)


MODELS = (
    NumberModel("Gaussian, right"),
    NumberModel("Gaussian, over-confident (σ halved)", width=0.5),
    NumberModel("Gaussian, noise of t with 5 degrees", freedom=5.0),
    NumberModel("mixture of 5 members", members=5),
    NumberModel("20 samples, right", samples=20),
)


def coverage_table(simulations: int, sizes: tuple[int, ...] = (200, 2000)) -> list[str]:
    """Coverage of 95 % intervals of CRPS, NLL and MSE."""
    lines = ["| model | n | CRPS | NLL | MSE |", "| --- | ---: | ---: | ---: | ---: |"]
    for place, model in enumerate(MODELS):
        metrics = [m for m in METRICS if not (model.samples and m == "nll")]
        truth = _truth(model, metrics, np.random.default_rng(place))
        for n in sizes:
            rng = np.random.default_rng(1000 * place + n)
            hits = dict.fromkeys(METRICS, 0)
            for _ in range(simulations):
                result = cal.evaluate(model.draw(n, rng), metrics, curves=False)
                for m in metrics:
                    hits[m] += result[m].low <= truth[m] <= result[m].high
            shares = [f"{hits[m] / simulations:.3f}" if m in metrics else "" for m in METRICS]
            lines.append(f"| {model.name} | {n} | " + " | ".join(shares) + " |")
    return lines


def _truth(model: NumberModel, metrics: list[str], rng: np.random.Generator) -> dict[str, float]:
    """Population values, from many rows."""
    blocks = TRUTH_ROWS // 100_000
    values = [cal.measure(model.draw(100_000, rng), metrics) for _ in range(blocks)]
    return {m: float(np.mean([value[m] for value in values])) for m in metrics}


def fair_table(rows: int = 400_000, sizes: tuple[int, ...] = (2, 5, 20, 100)) -> list[str]:
    """Mean CRPS of S draws of a standard normal, whose own CRPS of its own outcomes is 1/√π."""
    lines = ["| draws S | fair | standard error | not fair | 1/√π·(1 + 1/S) |", "| ---: | ---: | ---: | ---: | ---: |"]
    rng = np.random.default_rng(0)
    for count in sizes:
        draws = rng.standard_normal((count, rows), np.float32)
        predictions = cal.Regression.from_samples(draws, rng.standard_normal(rows))
        fair = cal.score_rows(predictions, "crps")["crps"]
        plain = cal.measure(predictions, ["crps(fair=false)"])["crps(fair=false)"]
        error = fair.std() / np.sqrt(rows)
        lines.append(
            f"| {count} | {fair.mean():.5f} | {error:.5f} | {plain:.5f} | {(1 + 1 / count) / np.sqrt(np.pi):.5f} |"
        )
    return lines


# ------------------------------------------------------------------------------- errors over levels
LEVELS = ("mace", "rmsce", "mace(coverage=central)", "rmsce(coverage=central)")
OFF = (
    NumberModel("right"),
    NumberModel("σ a tenth too small", width=0.9),
    NumberModel("σ halved", width=0.5),
    NumberModel("σ a fifth too large", width=1.2),
    NumberModel("mean off by 0.1 σ", shift=0.1),
    NumberModel("mean off by 0.5 σ", shift=0.5),
)
NULL = (*LEVELS, "ence", "se_var_ratio", "picp")
TESTS = ("pit_uniformity", *(f"pit_uniformity(test={test})" for test in ("cvm", "ad", "chi2")))


def levels_truth(model: NumberModel, metric: str) -> float:
    """The population value: of normal outcomes P(F < p) = Φ(width·z − shift), z the quantile at p."""
    p = np.arange(1, 100) / 100
    z = ndtri((1 + p) / 2 if "central" in metric else p)
    gap = ndtr(model.width * z - model.shift) - p
    if "central" in metric:
        gap -= ndtr(-model.width * z - model.shift)
    return float(np.abs(gap).sum() / 100 if metric.startswith("mace") else np.sqrt((gap**2).sum() / 100))


def levels_table(simulations: int, sizes: tuple[int, ...] = (200, 2000), resamples: int = 300) -> list[str]:
    """Coverage (mean width) of 95 % intervals of errors over levels. That of `calibration_error` is `rmsce`'s."""
    lines = [
        "| model | n | " + " | ".join(f"`{m}`" for m in LEVELS) + " |",
        "| --- |" + " ---: |" * (len(LEVELS) + 1),
    ]
    for place, model in enumerate(OFF):
        truths = {m: levels_truth(model, m) for m in LEVELS}
        for n in sizes:
            found = simulate(model.draw, n, LEVELS, simulations, seed=5000 + place, resamples=resamples)
            told = [f"{covered(found[m], truths[m]):.3f} ({width(found[m]):.3f})" for m in LEVELS]
            lines.append(f"| {model.name} | {n} | " + " | ".join(told) + " |")
    return lines


def levels_null_table(simulations: int, sizes: tuple[int, ...] = (50, 1000), resamples: int = 200) -> list[str]:
    """Shares of right predictions above the null band, and of p < 0.05."""
    models = (NumberModel("Gaussian"), NumberModel("9 samples", samples=9))
    lines = [
        "| metric | " + " | ".join(f"{model.name}, n = {n}" for model in models for n in sizes) + " |",
        "| --- |" + " ---: |" * (len(models) * len(sizes)),
    ]
    told: dict[str, list[str]] = {m: [] for m in (*NULL, *TESTS)}
    for place, model in enumerate(models):
        metrics = (*LEVELS, *TESTS) if model.samples else tuple(told)
        for n in sizes:
            with null_bands_only():
                found = simulate(model.draw, n, metrics, simulations, seed=7000 + place, resamples=resamples)
            for m, cells in told.items():
                cells.append(f"{above(found[m]):.3f}, {rejected(found[m]):.3f}" if m in found else "")
    return lines + [f"| `{m}` | " + " | ".join(cells) + " |" for m, cells in told.items()]
