"""The verdict: is the model calibrated, in plain words with the evidence."""

from __future__ import annotations

from collections.abc import Iterable

from calibrant.render.verdicts.api import InputVerdict, Point
from calibrant.reporting.document import Block, Details, Heading, Panel, Points, Section
from calibrant.reporting.labels import as_sentence
from calibrant.reporting.report_data import ReportData, Subject
from calibrant.results.evaluation import COMPARISON, RECALIBRATION, Evaluation

MAX_OPEN = 12
"""Verdicts of inputs that are visible without opening a list."""


def section(report: ReportData) -> Section | None:
    """The verdict of every input, statements on several inputs, and the evidence for the selected input."""
    verdicts = [_input_verdicts(report, subject) for subject in report.subjects]
    several = len(report.subjects) > 1
    blocks: list[Block] = []
    if several:
        pairs = zip(report.subjects, verdicts, strict=True)
        lines = Points(tuple((known[0].tone, subject.name, known[0].headline) for subject, known in pairs if known))
        if len(lines.items) > MAX_OPEN:
            blocks += [Details(f"Verdicts of {len(lines.items)} inputs", (lines,))]
        elif lines.items:
            blocks += [lines]
    statements = (point for known in report.verdicts.values() for point in known.points)
    overall = _items(point for point in statements if point.topic != "notes")  # notes have a section of their own
    blocks += [Heading("Overall"), Points(overall)] if overall else []
    for k, known in enumerate(verdicts):
        if known:
            heading = [Heading(f"{report.subjects[k].name}: {known[0].headline}")] if several else []
            points = [point for item in known for point in (_summary(item), *item.points)][
                1:
            ]  # the first is the heading
            blocks.append(Panel(k, (*heading, Points(_items(points)))))
    lead = "Does the model know what it does not know?"
    return Section("verdict", "Verdict", tuple(blocks), lead) if blocks else None


def headline(report: ReportData) -> tuple[str, str]:
    """The verdict in one line, and its tone: of the single input, of the comparison, or of most inputs."""
    if len(report.subjects) == 1 and (known := _input_verdicts(report, report.subjects[0])):
        return known[0].headline, known[0].tone
    names = {subject.name for subject in report.subjects}

    def scope(evaluation: Evaluation) -> tuple[bool, bool, int]:
        """How much an evaluation says about all inputs: a comparison of them most, then the one with most metrics."""
        compared = evaluation.kind == COMPARISON and names <= {item["name"] for item in evaluation.inputs}
        metrics = sum(len(result.metrics) for result in evaluation.results) if evaluation.kind != COMPARISON else 0
        return compared, evaluation.kind != RECALIBRATION, metrics

    verdict = report.verdicts[id(sorted(report.evaluations, key=scope)[-1])]
    return verdict.headline, verdict.tone


def _input_verdicts(report: ReportData, subject: Subject) -> list[InputVerdict]:
    """The verdict on the metrics of an input, then the one on its checks."""
    views = [view for view in (subject.metrics_view, subject.checks_view) if view is not None]
    return [report.input_verdicts[id(view.evaluation)][view.result.input] for view in views]


def _summary(verdict: InputVerdict) -> Point:
    """The headline of a verdict on checks, which stands beside that on the metrics."""
    return Point(verdict.tone, "posterior predictive checks", verdict.headline)


def _items(points: Iterable[Point]) -> tuple[tuple[str, str, str], ...]:
    """Distinct statements as sentences, without the backticks of commands; their topics are headings."""
    texts = ((point, point.text.replace("`", "").removeprefix("next: ")) for point in points)
    return tuple(dict.fromkeys((point.tone, point.topic.capitalize(), as_sentence(text)) for point, text in texts))
