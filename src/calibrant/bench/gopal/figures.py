"""Figures 3, 4, 5 and 10 of the paper for the first seed, from predictions along a grid and from checks.

Functions of the independent reading use a random member at every x, which makes them noisy: the paper's point. Charts
are Altair specifications without data, in the style of reports.

Reference: Gopal (2021), section 4.1 and appendix H.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.bench.gopal.data import GRID, HIGH, LOW, TRAIN, draw, removed, truth
from calibrant.bench.gopal.paper import BAYESIAN, DROPOUT, ENSEMBLE, INDEPENDENT, MASKS, MODELS, READINGS, SETS
from calibrant.bench.gopal.runner import FORMS
from calibrant.bench.gopal.table import Table1
from calibrant.bench.papers import Progress
from calibrant.predictions.regression import Regression
from calibrant.reporting.charts.base import DATA, altair, base, chart
from calibrant.reporting.charts.palette import BLUE, GREY, INK, LINE, SERIES, SOFT
from calibrant.reporting.document import Columns, Document, Figure, Section
from calibrant.reporting.figures import write_figures

Along = Mapping[str, Regression]
"""Predictions along the grid, by model."""
SEED = 0
"""The seed of the figures."""
FUNCTIONS, POINTS = 10, 1000
"""The number of functions, and of training rows, in a figure."""
QUARTILES = ("q05", "q25", "q50", "q75", "q95")
BAND_STDS = 2.0
"""Half the width of the band, in standard deviations."""
ROWS, TRUTH = "training rows", "truth"
RED = "#c00000"
PANEL, HIGH_PANEL, BOX = 250, 240, 34
"""Pixels: width and height of a panel, width of a box."""
DECADES = [10.0**k for k in range(-6, 4)]
CROSS = "M-1,-1L1,1M-1,1L1,-1"


def draw_figures(table: Table1, along: Along, folder: Path, progress: Progress | None = None) -> list[Path]:
    """Write every figure in every format, and its data."""
    figures = (means(table, along), functions(table, along), boxes(table), uncertainty(table, along))
    return write_figures(Document(table.title, (Section("figure", "", figures),)), folder, FORMS, progress)


def _figure(table: Table1, number: str, title: str, legend: str, chart: Mapping[str, Any], data: Columns) -> Figure:
    """A figure with a title, the settings, and a legend in words."""
    subtitle = [f"{table.title}, seed {SEED}", legend]
    heading = {"text": f"Figure {number}: {title}", "subtitle": subtitle, "anchor": "start"}
    heads = {name: name for name in data}
    return Figure(number, title, {**chart, "title": heading}, {(): data}, heads, f"{title}; {legend}")


def _stacked(parts: list[Mapping[str, Any]]) -> Columns:
    """Concatenate parts: columns are arrays (n,), or one value for all rows of a part."""
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
    """Figure 3: training rows, and the mean of each model as a function of x."""
    rows = draw(SEED, TRAIN, table.plan.rows)
    few = min(POINTS, table.plan.rows)
    parts: list[Mapping[str, Any]] = [{"line": ROWS, "x": rows.x[:few], "y": rows.y[:few]}]
    parts += [{"line": MODELS[model], "x": GRID, "y": mean_of(along[model])} for model in MODELS]
    parts.append({"line": TRUTH, "x": GRID, "y": truth(GRID)})
    legend = f"{few} of {table.plan.rows} training rows as points; the shaded region has none"
    chart = _means_chart(tuple(MODELS.values()))
    return _figure(table, "3", "training rows and means", legend, chart, _stacked(parts))


def functions(table: Table1, along: Along) -> Figure:
    """Figure 4: mean functions of members in the region without training rows, and the truth."""
    inside = removed(GRID)
    x = GRID[inside]
    parts: list[Mapping[str, Any]] = []
    for reading, drawn in readings_along(along).items():
        parts += [{"panel": reading, "function": f"{k + 1}", "x": x, "y": y[inside]} for k, y in enumerate(drawn)]
        parts.append({"panel": reading, "function": TRUTH, "x": x, "y": truth(x)})
    chart = _functions_chart(tuple(READINGS))
    legend = f"{FUNCTIONS} functions of each reading; dashed: the truth"
    return _figure(table, "4", "mean functions where there are no training rows", legend, chart, _stacked(parts))


def readings_along(along: Along) -> dict[str, np.ndarray]:
    """Functions (K, x) of each reading: those of members, or with a random member at every x."""
    means = {model: np.asarray(along[model].mean) for model in MODELS}
    every = means[ENSEMBLE]
    rng = np.random.default_rng([SEED, 4])
    members = rng.integers(0, len(every), (FUNCTIONS, every.shape[1]))
    noisy = np.take_along_axis(every, members, axis=0)
    return {INDEPENDENT: noisy, BAYESIAN: every[:FUNCTIONS], MASKS: means[DROPOUT][:FUNCTIONS]}


def mean_of(predictions: Regression) -> np.ndarray:
    """The mean of all members."""
    return np.asarray(predictions.mean).mean(axis=0)


def total_std(predictions: Regression) -> np.ndarray:
    """√(mean_m σ_m² + var_m μ_m): aleatoric and epistemic uncertainty together."""
    aleatoric = (np.asarray(predictions.std) ** 2).mean(axis=0)
    return np.sqrt(aleatoric + np.asarray(predictions.mean).var(axis=0))


# --------------------------------------------------------------------------------------- figures 5 and 10
def boxes(table: Table1) -> Figure:
    """Figure 5: the replicated calibration error of each reading, and the observed one."""
    parts: list[Mapping[str, Any]] = []
    for letter, (where, name) in zip("ab", SETS.items(), strict=True):
        for reading in READINGS:
            check = table.seeds[SEED][reading, where]
            numbers = {key: np.array([getattr(check, key)]) for key in (*QUARTILES, "observed")}
            parts.append({"panel": f"({letter}) {name}", "reading": reading, **numbers})
    data = _stacked(parts)
    chart = _boxes_chart(tuple(dict.fromkeys(data["panel"])), tuple(READINGS))
    legend = "box: 25% to 75% of replicates; whiskers: 5% to 95%; red cross: observed"
    return _figure(table, "5", "checks of calibration error", legend, chart, data)


def uncertainty(table: Table1, along: Along) -> Figure:
    """Figure 10: total uncertainty as a band, and functions of members."""
    parts: list[Mapping[str, Any]] = []
    for model, name in MODELS.items():
        mean, half = mean_of(along[model]), BAND_STDS * total_std(along[model])
        low, high = mean - half, mean + half
        panel = f"(a) {name}, total uncertainty"
        parts.append({"panel": panel, "function": "mean", "x": GRID, "y": mean, "low": low, "high": high})
        panel = f"(b) {name}, functions"
        lines = np.asarray(along[model].mean)[:FUNCTIONS]
        parts += [{"panel": panel, "function": f"{k + 1}", "x": GRID, "y": y} for k, y in enumerate(lines)]
    panels = tuple(dict.fromkeys(part["panel"] for part in parts))
    parts += [{"panel": panel, "function": TRUTH, "x": GRID, "y": truth(GRID)} for panel in panels]
    legend = "band: mean ± two standard deviations; dashed: the truth"
    return _figure(table, "10", "total uncertainty, and functions", legend, _uncertainty_chart(panels), _stacked(parts))


# --------------------------------------------------------------------------------------------------- charts
def _x() -> Any:
    alt = altair()
    return alt.X("x:Q", scale=alt.Scale(nice=False, zero=False), axis=alt.Axis(title="x", tickCount=6))


def _y(field: str = "y") -> Any:
    alt = altair()
    return alt.Y(f"{field}:Q", scale=alt.Scale(zero=False), axis=alt.Axis(title="y", tickCount=6))


def _truth() -> Any:
    """The true mean, drawn on top."""
    line = _panel().transform_filter(f"datum.function === '{TRUTH}'")
    return line.mark_line(color=INK, strokeWidth=2, strokeDash=[5, 3]).encode(x=_x(), y=_y())


def _panel() -> Any:
    """A layer without data of its own, so that it inherits the rows of its panel."""
    return altair().Chart()


def _faceted(layers: list[Any], panels: tuple[str, ...], columns: int) -> Any:
    alt = altair()
    layered = alt.layer(*layers, data=alt.NamedData(DATA)).properties(width=PANEL, height=HIGH_PANEL)
    head = alt.Header(title=None, labelColor=INK, labelFontSize=12, labelLimit=PANEL)
    return layered.facet(facet=alt.Facet("panel:N", sort=list(panels), header=head), columns=columns)


@chart
def _means_chart(models: tuple[str, ...]) -> Any:
    """Figure 3: rows as points, means as lines; the region without training rows is shaded."""
    alt = altair()
    region = alt.Chart(alt.InlineData([{"from": LOW, "to": HIGH}]))
    shaded = region.mark_rect(color=LINE, opacity=0.6).encode(x="from:Q", x2="to:Q")
    points = base().transform_filter(f"datum.line === '{ROWS}'").mark_circle(color=GREY, size=12, opacity=0.45)
    names = [*models, TRUTH]
    colours = alt.Scale(domain=names, range=[*SERIES[: len(models)], INK])
    dashes = alt.Scale(domain=names, range=[[1, 0], [7, 3], [2, 3]])
    lines = base().transform_filter(f"datum.line !== '{ROWS}'").mark_line(strokeWidth=2)
    means = lines.encode(
        x=_x(), y=_y(), color=alt.Color("line:N", scale=colours, legend=alt.Legend(title=None)),
        strokeDash=alt.StrokeDash("line:N", scale=dashes, legend=alt.Legend(title=None)),
    )  # fmt: skip
    return alt.layer(shaded, points.encode(x=_x(), y=_y()), means).properties(width=560, height=320)


@chart
def _functions_chart(panels: tuple[str, ...]) -> Any:
    """Figure 4: one thin line per function, one panel per reading."""
    thin = _panel().transform_filter(f"datum.function !== '{TRUTH}'").mark_line(color=BLUE, strokeWidth=1, opacity=0.6)
    layers = [thin.encode(x=_x(), y=_y(), detail="function:N"), _truth()]
    return _faceted(layers, panels, len(panels))


@chart
def _uncertainty_chart(panels: tuple[str, ...]) -> Any:
    """Figure 10: bands and functions side by side, one row per model."""
    band = _panel().transform_filter("isValid(datum.low)").mark_area(color=BLUE, opacity=0.25)
    thin = _panel().transform_filter(f"datum.function !== '{TRUTH}'").mark_line(color=BLUE, strokeWidth=1, opacity=0.7)
    layers = [
        band.encode(x=_x(), y=_y("low"), y2="high:Q"),
        thin.encode(x=_x(), y=_y(), detail="function:N"),
        _truth(),
    ]
    return _faceted(layers, panels, 2)


@chart
def _boxes_chart(panels: tuple[str, ...], readings: tuple[str, ...]) -> Any:
    """Figure 5: box 25% to 75%, whiskers 5% to 95%, a red cross at the observed value, on a log axis."""
    alt = altair()
    axis = alt.Axis(title=None, labelAngle=0, labelExpr="split(datum.label, ' ')", grid=False)
    x = alt.X("reading:N", sort=list(readings), axis=axis)

    def y(field: str) -> Any:
        ticks = alt.Axis(title="calibration error", values=DECADES, format="~g")
        return alt.Y(f"{field}:Q", scale=alt.Scale(type="log"), axis=ticks)

    whiskers = _panel().mark_rule(color=SOFT, strokeWidth=1.5).encode(x=x, y=y("q05"), y2="q95:Q")
    ends = [_panel().mark_tick(color=SOFT, thickness=1.5, size=BOX / 2).encode(x=x, y=y(end)) for end in ("q05", "q95")]
    box = _panel().mark_bar(color=BLUE, fillOpacity=0.35, stroke=BLUE, size=BOX).encode(x=x, y=y("q25"), y2="q75:Q")
    median = _panel().mark_tick(color=INK, thickness=2, size=BOX).encode(x=x, y=y("q50"))
    cross = _panel().mark_point(shape=CROSS, color=RED, size=90, strokeWidth=3, opacity=1).encode(x=x, y=y("observed"))
    facets = _faceted([whiskers, *ends, box, median, cross], panels, len(panels))
    return facets.resolve_scale(y="independent")
