"""Which model is best: the answer in words, the ranking, what it must not rest on, and the charts that carry it."""

from __future__ import annotations

from dataclasses import replace

from calibrant.comparison.pitfalls import PITFALLS
from calibrant.evaluation.comparison_tables import comparison_tables
from calibrant.evaluation.comparison_words import comparison_legend, comparison_lines
from calibrant.evaluation.rendering import Table
from calibrant.evaluation.result import Evaluation
from calibrant.predictions.base import Note
from calibrant.reporting.document import Block, Figure, Fold, Heading, Points, Section, Shown, Text
from calibrant.reporting.gathering import Gathered
from calibrant.reporting.naming import short
from calibrant.reporting.sections import comparison_members, comparison_models, comparison_sets, comparison_shift

LEAD = "Which of the models is best, by how much, and do these rows tell?"
MOST_ROWS = 20
"""Rows of the first table that are not folded away."""
MOST_NOTES = 6
OPENINGS = ("other orders than", "under shift", "than the baseline", "left out of")
"""How lines begin that do not begin with a name."""


def section(gathered: Gathered) -> Section | None:
    """The answer of every comparison, one after another."""
    found = [item for item in gathered.evaluations if item.comparison is not None]
    blocks: list[Block] = []
    for k, evaluation in enumerate(found, 1):
        blocks += [Heading(_title(evaluation, k))] if len(found) > 1 else []
        blocks += _blocks(evaluation)
    return Section("comparison", "Which model is best", tuple(blocks), LEAD) if blocks else None


def _title(evaluation: Evaluation, place: int) -> str:
    """What tells one comparison from another: its models."""
    names = [item.model for item in evaluation.comparison.ranking] if evaluation.comparison else []
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"Comparison {place}: {', '.join(short(name, 30) for name in names[:3])}{more}"


def _blocks(evaluation: Evaluation) -> list[Block]:
    """Words, ranking, legend and notes; then figures; all tables behind them."""
    lines = [_sentence(line) for line in comparison_lines(evaluation)]
    first, *others = comparison_tables(replace(evaluation, flips=None))
    legend = comparison_legend(evaluation)
    blocks: list[Block] = [Text(tuple(lines))] if lines else []
    blocks += _shown(first)
    blocks += [Text((" · ".join(legend) + ".",), note=True)] if legend else []
    blocks += _notes(evaluation.warnings)
    blocks += figures_of_comparison(evaluation)
    tables = tuple(Shown(table) for table in others)
    return [*blocks, Fold(f"The other tables of this comparison ({len(tables)})", tables)] if tables else blocks


def _sentence(line: str) -> str:
    """With a capital letter, unless a name comes first."""
    return f"{line[0].upper() if line.startswith(OPENINGS) else line[0]}{line[1:]}."


def figures_of_comparison(evaluation: Evaluation) -> list[Figure]:
    """Every chart that there are numbers for, in order."""
    comparison = evaluation.comparison
    if comparison is None:
        return []
    made = [
        comparison_sets.ranks(comparison),
        comparison_models.pairs(comparison),
        comparison_models.before_after(comparison),
        comparison_models.probability_of_best(comparison),
        comparison_shift.by_severity(comparison),
        comparison_shift.temperatures(comparison),
        comparison_members.on_the_pool(comparison),
        comparison_members.equivalents(comparison),
        comparison_members.likelihood(comparison),
    ]
    return [figure for figure in made if figure is not None]


def _shown(table: Table) -> list[Block]:
    """The first rows of a long table, and all of them folded away."""
    if len(table.rows) <= MOST_ROWS:
        return [Shown(table)]
    top = replace(
        table, title=f"{table.title} · the first {MOST_ROWS} of {len(table.rows)}", rows=table.rows[:MOST_ROWS]
    )
    return [Shown(top), Fold(f"All {len(table.rows)} rows", (Shown(table),))]


def _notes(notes: tuple[Note, ...]) -> list[Block]:
    """What the comparison must not rest on, below its answer."""
    items = tuple(("warn", _topic(note), note.message) for note in notes)
    first, rest = items[:MOST_NOTES], items[MOST_NOTES:]
    blocks: list[Block] = [Points(first)] if first else []
    return [*blocks, Fold(f"{len(rest)} more to be noted", (Points(rest),))] if rest else blocks


def _topic(note: Note) -> str:
    return PITFALLS[note.code].title if note.code in PITFALLS else "To be noted"
