"""Selective prediction: accuracy after rejecting the least confident rows, and risk against coverage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calibrant.registry.lookup import on_axis
from calibrant.reporting.charts.line_charts import MIN_POINTS, column_lines_chart
from calibrant.reporting.document import Block, Figure, Section
from calibrant.reporting.estimates import estimate_table
from calibrant.reporting.report_data import ReportData, Subject, curve_options

LEAD = "If the model abstains on its least confident predictions, how accurate are the others?"
REJECTION = (
    "The least confident rows are rejected first. A line that rises steeply means that the model can identify its "
    "errors; the dashed line is rejection at random. Models can be compared by this chart."
)
RISK = (
    "Error rate of the most confident rows against their share (coverage). The area under the curve is aurc; e_aurc is "
    "its excess over a perfect ordering."
)
THRESHOLDS = (
    "Accuracy of the rows above a confidence threshold, and their share. Not for comparing models: the same threshold "
    "keeps different shares of rows, and rescaling confidence moves a model along the axis. Compare models by "
    "rejection instead, which keeps the same share for all."
)
ORDERS = {"confidence": "confidence", "entropy": "entropy", "mutual_information": "mutual information"}
RETAINED = (("accuracy", "accuracy of retained rows"), ("share", "share of retained rows"))


def section(report: ReportData) -> Section | None:
    """A panel for each input that has one of the curves."""
    panels = report.panels(_blocks)
    return Section("selective", "Selective prediction", panels, LEAD) if panels else None


def _blocks(subject: Subject) -> list[Block]:
    """The figures, and a table below them."""
    figures = list(_figures(subject))
    table = estimate_table(subject.metrics_view, on_axis("error detection"), "Selective prediction metrics")
    return [*figures, *table] if figures else []


def _figures(subject: Subject) -> Iterator[Figure]:
    """The curves that have enough points to be lines."""
    rejection: dict[str, Sequence[float]] = {}
    for name, curve in subject.curves.items():
        kind, options = curve_options(name)
        score = options.get("score", "confidence")
        if kind == "rejection" and score in ORDERS and len(curve["rejected"]) >= MIN_POINTS:
            known = rejection.setdefault("x", curve["rejected"])
            rejection |= {score: curve["accuracy"]} if known == curve["rejected"] else {}
    if rejection:
        lines = tuple((score, ORDERS[score]) for score in ORDERS if score in rejection)
        yield Figure(
            key="rejection",
            title="Accuracy after rejection",
            chart=column_lines_chart("share of rows rejected", "accuracy", lines, start=True),
            data={(): rejection},
            heads={"x": "share of rows rejected"} | {score: f"accuracy, by {shown}" for score, shown in lines},
            description="Accuracy of the retained rows against the share of rejected rows, least confident first",
            caption=REJECTION,
        )
    risk = subject.curves.get("risk_coverage", {})
    if len(risk.get("coverage", ())) >= MIN_POINTS:
        titles, also = (
            ("coverage: share of retained rows", "risk: error rate"),
            (("threshold", "confidence threshold"),),
        )
        yield Figure(
            key="risk-coverage",
            title="Risk–coverage curve",
            chart=column_lines_chart(*titles, (("risk", "risk"),), also=also),
            data={(): {"x": risk["coverage"], "risk": risk["risk"], "threshold": risk["threshold"]}},
            heads={"x": "coverage", "risk": "risk", "threshold": "confidence threshold"},
            description="Error rate of the most confident rows against their share",
            caption=RISK,
        )
    curve = subject.curves.get("accuracy_confidence", {})
    if len(curve.get("threshold", ())) >= MIN_POINTS:
        yield Figure(
            key="accuracy-confidence",
            title="Accuracy above a confidence threshold",
            chart=column_lines_chart("confidence threshold", "share", RETAINED, also=(("n__i", "rows"),)),
            data={(): {"x": curve["threshold"]} | {name: curve[name] for name in ("accuracy", "share", "n")}},
            heads={"x": "confidence threshold"} | dict(RETAINED) | {"n": "rows"},
            description="Accuracy and share of the rows above each confidence threshold",
            caption=THRESHOLDS,
        )
