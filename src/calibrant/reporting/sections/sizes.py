"""How the size of the test set and the options of an error change the answer: values against the number of rows
(Gruber & Buettner 2022, figures 1 and 3), and ranks of models under many settings (Ashukha et al. 2020, figure 7)."""

from __future__ import annotations

from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.size_curves import Sizes
from calibrant.evaluation.tables import size_table
from calibrant.reporting.document import Block, Fold, Heading, Panel, Section, Shown, Text
from calibrant.reporting.gathering import Gathered
from calibrant.reporting.naming import short
from calibrant.reporting.sections.flips import flips_blocks
from calibrant.reporting.sections.size_figures import size_figures

LEAD = "Would the answer be another with other rows, bins or thresholds?"


def section(gathered: Gathered) -> Section | None:
    """Sizes of each input in its panel, or, of one alone or of pairs, outside; then rank flips."""
    found = [(evaluation, item) for evaluation in gathered.evaluations for item in evaluation.sizes]
    blocks: list[Block] = []
    for evaluation, item in found:
        place = _subject(gathered, evaluation, item) if len(found) > 1 and item.after is None else None
        made = _blocks(item, headed=place is None and len(found) > 1)
        blocks += made if place is None else [Panel(place, tuple(made))]
    blocks += [block for evaluation in gathered.evaluations for block in flips_blocks(evaluation)]
    return Section("sizes", "How options and sizes change the answer", tuple(blocks), LEAD) if blocks else None


def _subject(gathered: Gathered, evaluation: Evaluation, item: Sizes) -> int | None:
    """The place of the input that sizes are of; None where there is none of this evaluation and name."""
    for k, subject in enumerate(gathered.subjects):
        if any(found.evaluation is evaluation and found.result.input == item.input for found in subject.every):
            return k
    return None


def _blocks(item: Sizes, *, headed: bool) -> list[Block]:
    """What it says in words, its charts, and its table."""
    blocks: list[Block] = [Heading(_title(item))] if headed else []
    reading = item.reading()
    blocks += [Text((f"{reading[0].upper()}{reading[1:]}.",))] if reading else []
    blocks += size_figures(item)
    return [*blocks, Fold("Table by number of rows", (Shown(size_table(item)),))]


def _title(item: Sizes) -> str:
    return short(item.input) if item.after is None else f"{short(item.input)} before, {short(item.after)} after"
