"""Figures 3, 4, 5 and 10 of the paper, from predictions along a grid and from checks; of the first seed.

Here are the numbers that are drawn; `charts` says how. Functions of the independent reading have a member of its own at
every x, which is why they are noisy: the paper's point.

Reference: Gopal (2021), section 4.1 and appendix H.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.bench.gopal import charts
from calibrant.bench.gopal.data import GRID, TRAIN, draw, removed, truth
from calibrant.bench.gopal.readings import BAYESIAN, DROPOUT, ENSEMBLE, INDEPENDENT, MASKS, MODELS, READINGS, SETS
from calibrant.bench.gopal.running import FORMS
from calibrant.bench.gopal.table import Table1
from calibrant.bench.recipes import Progress
from calibrant.predictions.regression import Regression
from calibrant.reporting.document import Columns, Document, Figure, Section
from calibrant.reporting.figures import write_figures

Along = Mapping[str, Regression]
"""Predictions along the grid, by model."""
SEED = 0
"""The seed whose figures are drawn."""
FUNCTIONS, POINTS = 10, 1000
"""Functions and training rows that are drawn."""
QUARTILES = ("q05", "q25", "q50", "q75", "q95")
SPREADS = 2.0
"""Standard deviations on either side of the mean."""


def draw_figures(table: Table1, along: Along, folder: Path, progress: Progress | None = None) -> list[Path]:
    """Every figure in every form, and its numbers."""
    made = (means(table, along), functions(table, along), boxes(table), uncertainty(table, along))
    return write_figures(Document(table.title, (Section("figure", "", made),)), folder, FORMS, progress)


def _figure(table: Table1, number: str, title: str, signs: str, chart: Mapping[str, Any], data: Columns) -> Figure:
    """A figure, above which stand what its signs mean and by which settings it was made."""
    below = [f"{table.title}, seed {SEED}", signs]
    above = {"text": f"Figure {number}: {title}", "subtitle": below, "anchor": "start"}
    heads = {name: name for name in data}
    return Figure(number, title, {**chart, "title": above}, {(): data}, heads, f"{title}; {signs}")


def _stacked(parts: list[Mapping[str, Any]]) -> Columns:
    """Rows of parts under each other: arrays (n,), or a value for all rows of a part."""
    names = dict.fromkeys(name for part in parts for name in part)
    out: dict[str, list[Any]] = {name: [] for name in names}
    for part in parts:
        n = max(len(value) for value in part.values() if isinstance(value, np.ndarray))
        for name in names:
            value = part.get(name)
            out[name] += value.tolist() if isinstance(value, np.ndarray) else [value] * n
    return out


# ---------------------------------------------------------------------------------------- figures 3 and 4
def means(table: Table1, along: Along) -> Figure:
    """Figure 3: training rows, and the mean of each model over x."""
    rows = draw(SEED, TRAIN, table.plan.rows)
    few = min(POINTS, table.plan.rows)
    parts: list[Mapping[str, Any]] = [{"line": charts.ROWS, "x": rows.x[:few], "y": rows.y[:few]}]
    parts += [{"line": MODELS[model], "x": GRID, "y": mean_of(along[model])} for model in MODELS]
    parts.append({"line": charts.TRUTH, "x": GRID, "y": truth(GRID)})
    signs = f"{few} of {table.plan.rows} training rows as points; the shaded region has none"
    chart = charts.means_chart(tuple(MODELS.values()))
    return _figure(table, "3", "training rows and means", signs, chart, _stacked(parts))


def functions(table: Table1, along: Along) -> Figure:
    """Figure 4: mean functions of members where there are no training rows, and the truth."""
    inside = removed(GRID)
    x = GRID[inside]
    parts: list[Mapping[str, Any]] = []
    for reading, drawn in readings_along(along).items():
        parts += [{"panel": reading, "function": f"{k + 1}", "x": x, "y": y[inside]} for k, y in enumerate(drawn)]
        parts.append({"panel": reading, "function": charts.TRUTH, "x": x, "y": truth(x)})
    chart = charts.functions_chart(tuple(READINGS))
    signs = f"{FUNCTIONS} functions of each reading; dashed: the truth"
    return _figure(table, "4", "mean functions where there are no training rows", signs, chart, _stacked(parts))


def readings_along(along: Along) -> dict[str, np.ndarray]:
    """Functions (K, x) that each reading draws: those of members, or at every x that of another member."""
    drawn = {model: predictions_mean(along[model]) for model in MODELS}
    every = drawn[ENSEMBLE]
    rng = np.random.default_rng([SEED, 4])
    members = rng.integers(0, len(every), (FUNCTIONS, every.shape[1]))
    noisy = np.take_along_axis(every, members, axis=0)
    return {INDEPENDENT: noisy, BAYESIAN: every[:FUNCTIONS], MASKS: drawn[DROPOUT][:FUNCTIONS]}


def predictions_mean(predictions: Regression) -> np.ndarray:
    """Means of members (M, x)."""
    return np.asarray(predictions.mean)


def mean_of(predictions: Regression) -> np.ndarray:
    """The mean of all members."""
    return predictions_mean(predictions).mean(axis=0)


def total_std(predictions: Regression) -> np.ndarray:
    """√(mean_m σ_m² + var_m μ_m): what is random in y, and what is not known of the model."""
    aleatoric = (np.asarray(predictions.std) ** 2).mean(axis=0)
    return np.sqrt(aleatoric + predictions_mean(predictions).var(axis=0))


# --------------------------------------------------------------------------------------- figures 5 and 10
def boxes(table: Table1) -> Figure:
    """Figure 5: what each reading expects of calibration error, and what was observed."""
    parts: list[Mapping[str, Any]] = []
    for letter, (where, name) in zip("ab", SETS.items(), strict=True):
        for reading in READINGS:
            check = table.seeds[SEED][reading, where]
            numbers = {key: np.array([getattr(check, key)]) for key in (*QUARTILES, "observed")}
            parts.append({"panel": f"({letter}) {name}", "reading": reading, **numbers})
    data = _stacked(parts)
    chart = charts.boxes_chart(tuple(dict.fromkeys(data["panel"])), tuple(READINGS))
    signs = "box: 25 to 75 % of replicates; whiskers: 5 to 95 %; red cross: observed"
    return _figure(table, "5", "checks of calibration error", signs, chart, data)


def uncertainty(table: Table1, along: Along) -> Figure:
    """Figure 10: the sum of both uncertainties as a band, beside functions of members."""
    parts: list[Mapping[str, Any]] = []
    for model, name in MODELS.items():
        mean, far = mean_of(along[model]), SPREADS * total_std(along[model])
        panel = f"(a) {name}, total uncertainty"
        parts.append({"panel": panel, "function": "mean", "x": GRID, "y": mean, "low": mean - far, "high": mean + far})
        panel = f"(b) {name}, functions"
        drawn = predictions_mean(along[model])[:FUNCTIONS]
        parts += [{"panel": panel, "function": f"{k + 1}", "x": GRID, "y": y} for k, y in enumerate(drawn)]
    panels = tuple(dict.fromkeys(part["panel"] for part in parts))
    parts += [{"panel": panel, "function": charts.TRUTH, "x": GRID, "y": truth(GRID)} for panel in panels]
    signs = "band: two standard deviations on either side; dashed: the truth"
    return _figure(
        table, "10", "total uncertainty, and functions", signs, charts.uncertainty_chart(panels), _stacked(parts)
    )
