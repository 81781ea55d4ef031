"""Mean estimates against the number of rows, of models whose calibration is known (after Gruber & Buettner 2022).

The figure is docs/figures/bias.svg. Labels are drawn from softmax(z) with logistic-normal logits z of ten classes, and
the model says softmax(T·z): perfect for T = 1, mediocre for 1.3, bad for 2.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.special import softmax

import calibrant as cal
from evidence import classes, drawing
from evidence.known import weighted_outcomes
from evidence.models import Model

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "bias.svg"
METRICS = (
    "ece",
    "tce",
    "tce(binning=mass,debias=true)",
    "sweep_ece",
    "kde_tce",
    "ks",
    "smooth_ece",
    "cwce",
    "rbs",
)
MODELS = (
    Model("perfect", lift=10.0),
    Model("mediocre", lift=10.0, temperature=1.3),
    Model("bad", lift=10.0, temperature=2.0),
)
COLOURS = {"perfect": "#0072B2", "mediocre": "#D55E00", "bad": "#009E73"}
SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
FINE = "ece(bins=300,binning=mass{})"
SAME = {
    "tce(binning=mass,debias=true)": "tce(binning=mass)",
    "sweep_ece": FINE.format(""),
    "kde_tce": FINE.format(",norm=l2"),
}
"""What stands for the limit of an estimate: without noise there is nothing to debias, and bins may be fine."""
Curves = dict[tuple[str, str], list[float]]


def repeats(n: int, rows: int) -> int:
    """Simulations of n rows when about so many rows are drawn in all."""
    return int(np.clip(rows // n, 20, 400))


def curves(rows: int, sizes: tuple[int, ...] = SIZES) -> Curves:
    """Mean estimates of every (metric, model) at each size."""
    found: Curves = {(metric, model.name): [] for metric in METRICS for model in MODELS}
    for place, model in enumerate(MODELS):
        for n in sizes:
            rng = np.random.default_rng([place, n])
            values = [cal.measure(model.predictions(n, rng), METRICS) for _ in range(repeats(n, rows))]
            for metric in METRICS:
                found[metric, model.name].append(float(np.mean([value[metric] for value in values])))
    return found


def limits(rows: int = 200_000) -> dict[tuple[str, str], float]:
    """Population values: every label replaced by its law."""
    found = {}
    for model in MODELS:
        z = model.logits(rows, np.random.default_rng(8))
        law, said = softmax(z, axis=1), softmax(model.temperature * z, axis=1)
        each, top = np.arange(rows), said.argmax(axis=1)
        both = weighted_outcomes(said[each, top], law[each, top])
        wanted = {m: SAME.get(m, m) for m in METRICS if m not in ("cwce", "rbs")}
        values = cal.measure(both, sorted(set(wanted.values())))
        squares = (said**2).sum(axis=1) - 2 * (law * said).sum(axis=1) + 1
        found |= {(m, model.name): max(float(values[spec]), 0.0) for m, spec in wanted.items()}
        found["cwce", model.name] = classes.truth(model)["cwce"]
        found["rbs", model.name] = float(np.sqrt(squares.mean()))
    return found


def table(
    found: Curves, known: dict[tuple[str, str], float], shown: tuple[int, ...] = (100, 1000, 10_000)
) -> list[str]:
    """Means at a few sizes beside the population value."""
    lines = ["| metric | model | " + " | ".join(f"n = {n}" for n in shown) + " | population |"]
    lines += ["| --- | --- |" + " ---: |" * (len(shown) + 1)]
    places = [SIZES.index(n) for n in shown]
    for metric in METRICS:
        for model in MODELS:
            means = " | ".join(f"{found[metric, model.name][place]:.4f}" for place in places)
            lines.append(f"| `{metric}` | {model.name} | {means} | {known[metric, model.name]:.4f} |")
    return lines


def figure(found: Curves, known: dict[tuple[str, str], float], path: Path = FIGURE) -> None:
    """One panel a metric: solid means, dashed population values."""
    drawn, panels = drawing.panels(3, 3, (8.4, 6.6), sharex=True)
    for panel, metric in zip(panels.flat, METRICS, strict=True):
        _panel(panel, metric, found, known)
    for panel in panels[-1]:
        panel.set_xlabel("rows n")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    drawing.save(drawn, path)


def _panel(panel, metric: str, found: Curves, known: dict[tuple[str, str], float]) -> None:
    """One metric."""
    for model, marker in zip(MODELS, "osD", strict=True):
        colour = COLOURS[model.name]
        panel.plot(SIZES, found[metric, model.name], color=colour, marker=marker, ms=3, lw=1.4, label=model.name)
        panel.axhline(known[metric, model.name], color=colour, ls="--", lw=0.9)
    panel.plot([], [], color="0.4", ls="--", lw=0.9, label="population value")
    top = max(max(found[metric, model.name] + [known[metric, model.name]]) for model in MODELS)
    panel.set(title=metric, ylim=(0, 1.08 * top))
    drawing.over_rows(panel)


def table_and_figure(rows: int, path: Path = FIGURE) -> list[str]:
    """Draw the figure, and give the table."""
    found, known = curves(rows), limits()
    figure(found, known, path)
    return table(found, known)


if __name__ == "__main__":
    print("\n".join(table_and_figure(rows=200_000)))
