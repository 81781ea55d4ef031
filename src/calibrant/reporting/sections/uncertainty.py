"""Entropy, mutual information and accuracy versus uncertainty."""

from __future__ import annotations

from collections.abc import Iterator

from calibrant.registry.lookup import on_axis
from calibrant.reporting.charts.histograms import split_histogram
from calibrant.reporting.charts.line_charts import MIN_POINTS, column_lines_chart
from calibrant.reporting.document import Block, Figure, Section
from calibrant.reporting.estimates import estimate_table
from calibrant.reporting.report_data import ReportData, Subject, curve_options

LEAD = "Is the model less certain when it is wrong, and how much of its uncertainty is epistemic?"
HISTOGRAMS = {
    "entropy": (
        "Predictive entropy",
        "entropy (nats)",
        "Distribution of uncertainty over rows. If wrong predictions have higher entropy, uncertainty identifies "
        "errors.",
    ),
    "mutual_information": (
        "Epistemic uncertainty (member disagreement)",
        "mutual information (nats)",
        "The part of the entropy that is due to disagreement of the members. More training data can reduce it.",
    ),
}
UNLABELLED = " These rows have no labels."
AVU = (
    "Rows below the threshold count as certain. AvU is the share of rows that are accurate and certain or inaccurate "
    "and uncertain. Thresholds are relative to the range of uncertainty of this model, so this chart cannot compare "
    "models."
)
LINES = {
    "avu": "AvU",
    "p_accurate_certain": "p(accurate | certain)",
    "p_uncertain_inaccurate": "p(uncertain | inaccurate)",
}
SCORES = {"entropy": "entropy", "max_probability": "1 − confidence"}


def section(report: ReportData) -> Section | None:
    """A panel for each input that has one of the curves or means."""
    panels = report.panels(_blocks)
    return Section("uncertainty", "Uncertainty", panels, LEAD) if panels else None


def _blocks(subject: Subject) -> Iterator[Block | None]:
    """Histograms, means, and the curves of all uncertainty scores."""
    for name, (title, of, caption) in HISTOGRAMS.items():
        if name in subject.curves:
            curve, key = subject.curves[name], name.replace("_", "-")
            caption += UNLABELLED * ("correct" not in curve)
            yield split_histogram(curve, ("correct", "wrong"), key=key, title=title, of=of, caption=caption)
    yield from estimate_table(subject.metrics_view, on_axis("uncertainty"), "Mean uncertainty")
    for name, curve in subject.curves.items():
        kind, options = curve_options(name)
        score = options.get("score", "entropy")
        if kind != "avu" or score not in SCORES or len(curve["t"]) < MIN_POINTS:
            continue
        lines = tuple((column, shown) for column, shown in LINES.items() if column in curve)
        also = (("uncertainty", SCORES[score]),)
        yield Figure(
            key="avu",
            title="Accuracy versus uncertainty",
            chart=column_lines_chart("relative threshold", "share", lines, also=also),
            data={(): {"x": curve["t"]} | {column: curve[column] for column, _ in (*also, *lines)}},
            heads={"x": "relative threshold", **dict(also), **dict(lines)},
            description="AvU, p(accurate | certain) and p(uncertain | inaccurate) by uncertainty threshold",
            caption=AVU,
        )
    names = on_axis("accuracy versus uncertainty")
    yield from estimate_table(subject.metrics_view, names, "Accuracy versus uncertainty")
