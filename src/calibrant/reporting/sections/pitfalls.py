"""Warnings of all evaluations, and gates with their outcomes."""

from __future__ import annotations

from calibrant.comparison.pitfalls import PITFALLS
from calibrant.errors import plain
from calibrant.predictions.base import Note
from calibrant.reporting.document import Block, Details, Heading, Points, Section
from calibrant.reporting.report_data import ReportData

MAX_OPEN = 12
"""Statements that are not collapsed."""


def section(report: ReportData) -> Section | None:
    """Distinct warnings and gates of all evaluations."""
    notes = list(dict.fromkeys(note for evaluation in report.evaluations for note in evaluation.warnings))
    gates = list(dict.fromkeys(gate for evaluation in report.evaluations for gate in evaluation.gates))
    if not notes and not gates:
        return None
    title = "Warnings and gates" if notes and gates else "Warnings" if notes else "Gates"
    blocks: list[Block] = []
    if gates:
        failed = sum(not gate.passed for gate in gates)
        outcome = f"{failed} of {len(gates)} gates failed" if failed else f"All {len(gates)} gates passed"
        if len(gates) == 1:
            outcome = "The gate failed" if failed else "The gate passed"
        items = []
        for gate in gates:
            tone = "bad" if not gate.passed else "warn" if gate.undecided else "good"
            word = "Failed" if not gate.passed else "Passed, but not significantly" if gate.undecided else "Passed"
            items.append((tone, f"{word}: {gate.kind.replace('_', ' ')} {gate.gate}", gate.reason))
        blocks += [Heading(outcome), *_collapsed(items, "gates")]
    if notes:
        texts = (f"{plain(note.message, 1500).rstrip('.')}. {note.reference}".strip() for note in notes)
        items = [("warn", note_title(note), text) for note, text in zip(notes, texts, strict=True)]
        blocks += [*([Heading("Warnings")] if gates else []), *_collapsed(items, "warnings")]
    return Section("pitfalls", title, tuple(blocks), "Read these before using the numbers.")


def _collapsed(items: list[tuple[str, str, str]], noun: str) -> list[Block]:
    first, rest = Points(tuple(items[:MAX_OPEN])), tuple(items[MAX_OPEN:])
    return [first, Details(f"{len(rest)} more {noun}", (Points(rest),))] if rest else [first]


def note_title(note: Note) -> str:
    """The title of a warning."""
    return PITFALLS[note.code].title if note.code in PITFALLS else note.code.replace("-", " ").capitalize()
