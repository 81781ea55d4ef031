"""How often the e-value of calibrated streams ever reaches 20, and how soon that of others does."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit

from calibrant.calibration.evalue import LogRatios, log_e_path
from evidence.models import MODELS

Forecasts = Callable[[int, np.random.Generator], np.ndarray]
ROWS, LONGEST, AT_A_TIME = 10_000, 20_000, 1000
LOOKS = (100, 1000, ROWS)
REACHED = math.log(20.0)
CONFIDENT = (19.0, 1.0)
"""Of a beta law with mean 0.95."""
WRONG = (("b = 0.5", 0.0, 0.5), ("b = 0.8", 0.0, 0.8), ("b = 0.9", 0.0, 0.9), ("a = 0.2", 0.2, 1.0))


def uniform(n: int, rng: np.random.Generator) -> np.ndarray:
    """p uniform."""
    return rng.random(n)


def confident(n: int, rng: np.random.Generator) -> np.ndarray:
    """p near 0.95, and below 1, to which a beta draw may round."""
    return np.minimum(rng.beta(*CONFIDENT, n), 1.0 - 2.0**-53)


def of_forecasts(forecasts: Forecasts, a: float = 0.0, b: float = 1.0) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """Draws of p and y with logit P(y = 1) = a + b·logit p."""

    def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        p = forecasts(n, rng)
        chance = p if (a, b) == (0.0, 1.0) else expit(a + b * logit(p))
        return p, rng.random(n) < chance

    return draw


def top_label(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Confidence and hit of the calibrated softmax model of accuracy 0.81."""
    p, labels = MODELS[3].draw(n, rng)
    return p.max(axis=1), p.argmax(axis=1) == labels


def null_table(streams: int) -> list[str]:
    """Share of calibrated streams whose e-value has reached 20 by some row."""
    lines = [f"| forecasts | {' | '.join(f'by row {n}' for n in LOOKS)} |", "| --- | ---: | ---: | ---: |"]
    designs = (
        ("p uniform", of_forecasts(uniform)),
        ("p near 0.95", of_forecasts(confident)),
        ("top label of ten classes", top_label),
    )
    for seed, (name, draw) in enumerate(designs):
        rng = np.random.default_rng([700, seed])
        ever = np.zeros((streams, len(LOOKS)), bool)
        for k in range(streams):
            path = log_e_path(*draw(ROWS, rng))
            ever[k] = [path[:look].max() >= REACHED for look in LOOKS]
        lines.append(f"| {name} | {' | '.join(f'{100 * share:.2f} %' for share in ever.mean(axis=0))} |")
    return lines


def power_table(streams: int) -> list[str]:
    """Median number of rows until the e-value reaches 20."""
    lines = ["| truth: logit P(y = 1) = a + b·logit p | p uniform | p near 0.95 |", "| --- | ---: | ---: |"]
    for seed, (name, a, b) in enumerate(WRONG):
        cells = []
        for forecasts in (uniform, confident):
            rng = np.random.default_rng([701, seed])
            draw = of_forecasts(forecasts, a, b)
            cells.append(_median(np.array([_crossing(draw, rng) for _ in range(streams)])))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _crossing(draw: Callable[..., tuple[np.ndarray, np.ndarray]], rng: np.random.Generator) -> float:
    """The row at which the e-value reaches 20, infinite if it has not by the last."""
    state = LogRatios()
    while state.n < LONGEST:
        over = np.flatnonzero(log_e_path(*draw(AT_A_TIME, rng), state) >= REACHED)
        if over.size:
            return float(state.n - AT_A_TIME + over[0] + 1)
    return math.inf


def _median(rows: np.ndarray) -> str:
    middle = float(np.sort(rows)[len(rows) // 2])
    return f"{middle:.0f}" if math.isfinite(middle) else f"over {LONGEST}"
