"""The answer: does the model know what it does not know, in plain words with the numbers that carry it."""

from __future__ import annotations

from collections.abc import Iterable

from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.verdict import InputVerdict, Point
from calibrant.reporting.document import Block, Fold, Heading, Panel, Points, Section
from calibrant.reporting.gathering import Gathered, Subject

MOST = 12
"""Inputs whose answers stand in the open; of more, below a fold."""


def section(gathered: Gathered) -> Section | None:
    """The answers of all inputs, what was found of them together, and the points of the chosen one."""
    every = [_said(gathered, subject) for subject in gathered.subjects]
    blocks: list[Block] = []
    if len(gathered.subjects) > 1:
        blocks += _answers(gathered, every)
    together = _together(gathered)
    blocks += [Heading("Together"), Points(together)] if together else []
    for k, found in enumerate(every):
        if found:
            name = [Heading(f"{gathered.subjects[k].name}: {found[0].headline}")] if gathered.several else []
            blocks.append(Panel(k, (*name, _points(found))))
    lead = "Does the model know what it does not know?"
    return Section("verdict", "Verdict", tuple(blocks), lead) if blocks else None


def _answers(gathered: Gathered, every: list[list[InputVerdict]]) -> list[Block]:
    """One line for each input."""
    said = zip(gathered.subjects, every, strict=True)
    lines = Points(tuple((found[0].tone, subject.name, found[0].headline) for subject, found in said if found))
    if len(lines.items) > MOST:
        return [Fold(f"The answers of {len(lines.items)} inputs", (lines,))]
    return [lines] if lines.items else []


def headline(gathered: Gathered) -> tuple[str, str]:
    """The answer in one line, and its tone: of the one input, of the models that are compared, or of most inputs."""
    if len(gathered.subjects) == 1 and (said := _said(gathered, gathered.subjects[0])):
        return said[0].headline, said[0].tone
    names = {subject.name for subject in gathered.subjects}
    known = sorted(gathered.evaluations, key=lambda evaluation: _weight(evaluation, names))
    found = gathered.verdicts[id(known[-1])]
    return found.headline, found.tone


def _weight(evaluation: Evaluation, names: set[str]) -> tuple[bool, bool, int]:
    """What an evaluation says of the whole: a comparison of all inputs most, then one with the most metrics."""
    compared = evaluation.comparison is not None and names <= {item["name"] for item in evaluation.inputs}
    metrics = sum(len(result.metrics) for result in evaluation.results) if evaluation.comparison is None else 0
    return compared, evaluation.recalibration is None, metrics


def _said(gathered: Gathered, subject: Subject) -> list[InputVerdict]:
    """What is said of one input: by its metrics, then by its checks."""
    known = [found for found in (subject.scored, subject.checked) if found is not None]
    return [gathered.said[id(found.evaluation)][found.result.input] for found in known]


def _points(found: list[InputVerdict]) -> Points:
    """Those of its metrics, then those of its checks."""
    return Points(tuple(_items(point for item in found for point in item.points)))


def _together(gathered: Gathered) -> tuple[tuple[str, str, str], ...]:
    """What was found of several inputs at once: comparisons, gains, shift and gates; notes have their own section."""
    points = [point for found in gathered.verdicts.values() for point in found.points]
    return tuple(_items(point for point in points if point.topic != "notes"))


def _items(points: Iterable[Point]) -> list[tuple[str, str, str]]:
    """Each statement once."""
    return list(dict.fromkeys((point.tone, point.topic.capitalize(), _sentence(point.text)) for point in points))


def _sentence(text: str) -> str:
    """With a capital, unless it begins with a name."""
    return text if text.partition(" ")[0].endswith(":") else text[:1].upper() + text[1:]
