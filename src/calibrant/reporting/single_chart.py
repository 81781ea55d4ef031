"""One chart of an evaluation, by name: an Altair chart, or the same drawn by matplotlib for the charts of papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.errors import MissingExtra, UsageError, did_you_mean, show
from calibrant.reporting.charts.base import altair
from calibrant.reporting.document import Figure, figures_of, slug
from calibrant.reporting.figures import converter, full_spec
from calibrant.reporting.report import document_of
from calibrant.results.evaluation import Evaluation

NAMES = {"diagram": "reliability", "intervals": "metrics"}
"""Names that say more than the key of a figure."""
PAPER_SIZE = (3.4, 2.8)
"""Inches of a chart in one column of a paper."""
CURVES = {"reliability": "reliability", "risk_coverage": "risk_coverage", "pit": "pit", "coverage": "central_coverage"}
"""The charts that matplotlib draws too, and the curve of each."""


def charts_of(evaluation: Evaluation, result: str | None = None) -> dict[str, Figure]:
    """Every chart of one result by name; charts of several models together belong to none."""
    names = [item.input for item in evaluation.results]
    if result is not None and result not in names:
        raise UsageError("plot", expected="the name of a result", got=show(result), hint=did_you_mean(result, names))
    document = document_of([evaluation], rows=False)
    wanted = names[0] if result is None and names else result
    out: dict[str, Figure] = {}
    for _, figure, subject in figures_of(document):
        if subject is None or document.subjects[subject] == wanted:
            key = slug(figure.title) if figure.key.startswith("statistic-") else figure.key
            out.setdefault(NAMES.get(key, key.replace("-", "_")), figure)
    return out


def altair_chart(evaluation: Evaluation, name: str, result: str | None = None) -> Any:
    """The chart `name` as an Altair chart, whose `save` writes HTML, JSON, SVG, PNG and PDF."""
    altair()
    converter()
    known = charts_of(evaluation, result)
    name = name.replace("-", "_")
    if name not in known:
        hint = did_you_mean(name, known) if known else "evaluate with curves=True"
        raise UsageError("plot", expected="a chart of these results", got=show(name), hint=hint)
    return altair().Chart.from_dict(full_spec(known[name]))


def matplotlib_chart(evaluation: Evaluation, name: str, result: str | None = None, ax: Any = None) -> Any:
    """The chart `name` on matplotlib axes, new ones without `ax`; returns the axes."""
    name = name.replace("-", "_")
    if name not in CURVES:
        hint = f"{did_you_mean(name, CURVES)} all charts are there with library='altair'"
        raise UsageError("plot", expected=f"one of {', '.join(CURVES)} for matplotlib", got=show(name), hint=hint)
    known = {item.input: item for item in evaluation.results}
    if result is not None and result not in known:
        raise UsageError("plot", expected="the name of a result", got=show(result), hint=did_you_mean(result, known))
    chosen = next(iter(known.values())) if result is None else known[result]
    curve = chosen.curves.get(CURVES[name])
    if not curve:
        reason = chosen.curves_skipped.get(CURVES[name])
        got = str(reason) if reason else "none"
        hint = "evaluate with the default metrics and curves=True"
        raise UsageError("plot", expected=f"the curve {CURVES[name]}", got=got, hint=hint)
    if ax is None:
        try:
            from matplotlib.figure import Figure as MatplotlibFigure
        except ImportError as error:
            expected, hint = "matplotlib", "run `pip install matplotlib`, or use library='altair'"
            raise MissingExtra("plot", expected=expected, got="none installed", hint=hint) from error
        ax = MatplotlibFigure(figsize=PAPER_SIZE, layout="constrained").add_subplot()
    DRAWERS[name](ax, curve)
    return ax


def _reliability(ax: Any, curve: Mapping[str, Sequence[float]]) -> None:
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
    low, high = curve.get("band_low"), curve.get("band_high")
    if low is not None and high is not None and len(low):
        ax.fill_between(curve["confidence"], low, high, color="0.88", linewidth=0, label="if calibrated")
    ax.plot(curve["confidence"], curve["accuracy"], marker="o", markersize=3, linewidth=1, label="observed")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="Confidence", ylabel="Accuracy")


def _risk_coverage(ax: Any, curve: Mapping[str, Sequence[float]]) -> None:
    ax.plot(curve["coverage"], curve["risk"], linewidth=1)
    ax.set(xlim=(0, 1), ylim=(0, None), xlabel="Coverage", ylabel="Risk (error rate)")


def _pit(ax: Any, curve: Mapping[str, Sequence[float]]) -> None:
    widths = [high - low for low, high in zip(curve["lower"], curve["upper"], strict=True)]
    ax.bar(curve["lower"], curve["share"], widths, align="edge", edgecolor="white", linewidth=0.5)
    if curve.get("band_low"):
        ends = [*curve["lower"], curve["upper"][-1]]
        for name in ("band_low", "band_high"):
            ax.step(ends, [*curve[name], curve[name][-1]], where="post", color="0.4", linewidth=0.8, linestyle="--")
    ax.set(xlim=(0, 1), xlabel="PIT", ylabel="Share of rows")


def _coverage(ax: Any, curve: Mapping[str, Sequence[float]]) -> None:
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
    if curve.get("band_low"):
        ax.fill_between(curve["level"], curve["band_low"], curve["band_high"], color="0.88", linewidth=0)
    ax.plot(curve["level"], curve["observed"], linewidth=1)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="Nominal coverage", ylabel="Observed coverage")


DRAWERS = {"reliability": _reliability, "risk_coverage": _risk_coverage, "pit": _pit, "coverage": _coverage}
