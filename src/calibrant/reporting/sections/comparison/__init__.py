"""Model comparison: the conclusion in words, the ranking, warnings, and charts."""

from __future__ import annotations

from dataclasses import replace

from calibrant.render.comparison import comparison_tables
from calibrant.render.comparison_text import comparison_legend, comparison_lines
from calibrant.render.formatting import count
from calibrant.reporting.document import Block, Details, Heading, Points, Section, TableBlock, Text, present
from calibrant.reporting.labels import short
from calibrant.reporting.report_data import ReportData
from calibrant.reporting.sections.comparison import members, models
from calibrant.reporting.sections.pitfalls import note_title
from calibrant.results.evaluation import COMPARISON, Evaluation

LEAD = "Which model is best, by how much, and is the difference significant?"
MAX_ROWS, MAX_NOTES = 20, 6
"""Rows of the first table and warnings that are not collapsed."""
OPENINGS = ("ranked differently", "under shift", "compared with", "excluded from")
"""The starts of lines that do not start with a model."""


FIGURES = (
    models.ranks, models.pairs, models.before_after, models.probability_of_best, models.by_severity,
    models.temperatures, members.equivalents, members.equivalents_by_members, members.likelihood,
)  # fmt: skip
"""The charts, in order; each is None if there is no data for it."""


def section(report: ReportData) -> Section | None:
    """All comparisons, in order."""
    evaluations = [item for item in report.evaluations if item.kind == COMPARISON]
    blocks: list[Block] = []
    for k, evaluation in enumerate(evaluations, 1):
        if len(evaluations) > 1:
            names = [short(item.model, 30) for item in evaluation.comparison.ranking]
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            blocks += [Heading(f"Comparison {k}: {', '.join(names[:3])}{more}")]
        blocks += _blocks(evaluation)
    return Section("comparison", "Model comparison", tuple(blocks), LEAD) if blocks else None


def _blocks(evaluation: Evaluation) -> list[Block]:
    """The conclusion, ranking, legend and warnings, then figures and the other tables."""
    lines = [  # with a capital letter, unless a line starts with a name
        f"{line[0].upper() if line.startswith(OPENINGS) else line[0]}{line[1:]}."
        for line in comparison_lines(evaluation)
    ]
    first, *others = comparison_tables(replace(evaluation, flips=None))
    legend = comparison_legend(evaluation)
    blocks: list[Block] = [Text(tuple(lines))] if lines else []
    if len(first.rows) <= MAX_ROWS:
        blocks += [TableBlock(first)]
    else:
        title = f"{first.title} · the first {MAX_ROWS} of {len(first.rows)}"
        top = TableBlock(replace(first, title=title, rows=first.rows[:MAX_ROWS]))
        blocks += [top, Details(f"All {len(first.rows)} rows", (TableBlock(first),))]
    blocks += [Text((" · ".join(legend) + ".",), note=True)] if legend else []
    items = tuple(("warn", note_title(note), note.message) for note in evaluation.warnings)
    blocks += [Points(items[:MAX_NOTES])] if items else []
    more = items[MAX_NOTES:]
    blocks += [Details(count(len(more), "more warning"), (Points(more),))] if more else []
    blocks += present(figure(evaluation.comparison) for figure in FIGURES)
    tables = tuple(TableBlock(table) for table in others)
    return [*blocks, Details(f"Other tables ({len(tables)})", tables)] if tables else blocks
