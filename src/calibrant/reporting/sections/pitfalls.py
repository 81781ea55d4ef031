"""Pitfalls that were noticed, and gates that were set, with what became of them."""

from __future__ import annotations

from calibrant.comparison.pitfalls import PITFALLS
from calibrant.errors import plain
from calibrant.evaluation.gate_records import GateResult
from calibrant.predictions.base import Note
from calibrant.reporting.document import Block, Fold, Heading, Points, Section
from calibrant.reporting.gathering import Gathered

MOST_OPEN = 12
"""Statements that are shown without being opened."""


def section(gathered: Gathered) -> Section | None:
    """Warnings of all evaluations, each once, and all gates."""
    notes = list(dict.fromkeys(note for evaluation in gathered.evaluations for note in evaluation.warnings))
    gates = list(dict.fromkeys(gate for evaluation in gathered.evaluations for gate in evaluation.gates))
    if not notes and not gates:
        return None
    title = "Pitfalls and gates" if notes and gates else "Pitfalls" if notes else "Gates"
    blocks: list[Block] = []
    if gates:
        blocks += [Heading(_counted(gates)), *_folded([_gate(gate) for gate in gates], "gates")]
    if notes:
        blocks += [*([Heading("Noticed")] if gates else []), *_folded([_note(note) for note in notes], "pitfalls")]
    return Section("pitfalls", title, tuple(blocks), "What should be known before these numbers are used.")


def _folded(items: list[tuple[str, str, str]], what: str) -> list[Block]:
    first, rest = Points(tuple(items[:MOST_OPEN])), tuple(items[MOST_OPEN:])
    return [first, Fold(f"{len(rest)} more {what}", (Points(rest),))] if rest else [first]


def _note(note: Note) -> tuple[str, str, str]:
    message = plain(note.message, 1500).rstrip(".")
    title = PITFALLS[note.code].title if note.code in PITFALLS else note.code.replace("-", " ").capitalize()
    return "warn", title, f"{message}. {note.reference}".strip()


def _gate(gate: GateResult) -> tuple[str, str, str]:
    """Passed or failed, in words."""
    tone = "bad" if not gate.passed else "warn" if gate.undecided else "good"
    word = "Failed" if not gate.passed else "Passed, but the rows cannot tell" if gate.undecided else "Passed"
    kind = "fail on" if gate.kind == "fail_on" else gate.kind
    return tone, f"{word}: {kind} {gate.gate}", gate.reason


def _counted(gates: list[GateResult]) -> str:
    failed = sum(not gate.passed for gate in gates)
    said = f"{failed} of {len(gates)} gates failed" if failed else f"All {len(gates)} gates passed"
    return said if len(gates) > 1 else "The gate failed" if failed else "The gate passed"
