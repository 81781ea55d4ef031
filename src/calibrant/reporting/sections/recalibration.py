"""What a recalibration gained: proper scores with paired intervals, errors and curves before and after, and the fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from calibrant.evaluation.gains import Improvement
from calibrant.evaluation.improvement_tables import BETTER, UNCHANGED, WORSE, WORST, reading, verdict
from calibrant.evaluation.recalibration_tables import recalibration_tables
from calibrant.evaluation.result import Evaluation
from calibrant.reporting.document import Block, Figure, Heading, Points, Section, Shown, Text
from calibrant.reporting.gathering import Gathered
from calibrant.reporting.sections.recalibration_figures import by_size, curves, gains, joined

LEAD = "Can the probabilities be mended after the fact, and what does it gain?"
FIT = (
    "fit-not-converged", "fit-at-bound", "fit-made-worse", "fit-did-not-move", "impossible-labels-left-out",
    "candidate-failed", "close-choice", "scored-on-fitted-rows", "no-labels",
)  # fmt: skip
"""Notes of an evaluation that are about its fit."""


def section(gathered: Gathered) -> Section | None:
    """Every recalibration after another."""
    found = [e for e in gathered.evaluations if e.improvement is not None or e.recalibration is not None]
    if not found:
        return None
    blocks: list[Block] = []
    for place, evaluation in enumerate(found):
        blocks += [Heading(_called(evaluation))] if len(found) > 1 else []
        blocks += _blocks(evaluation, f"-{place + 1}" * (len(found) > 1))
    return Section("recalibration", "Recalibration", tuple(blocks), LEAD)


def _called(evaluation: Evaluation) -> str:
    found, facts = evaluation.improvement, evaluation.recalibration or {}
    return f"{found.before} → {found.after}" if found else str(facts.get("title", "Recalibration"))


def _blocks(evaluation: Evaluation, suffix: str) -> list[Block]:
    points = [*_gained(evaluation), *_fit(evaluation)]
    out: list[Block] = [Points(tuple(points))] if points else []
    out += [replace(figure, key=figure.key + suffix) for figure in _figures(evaluation)]
    facts = evaluation.recalibration
    classes = any("classes" in item for item in evaluation.inputs)
    out += [Text((_described(facts, classes),))] if facts else []
    return out + [Shown(table) for table in recalibration_tables(evaluation)]


def _figures(evaluation: Evaluation) -> list[Figure]:
    """None where all is as it was."""
    found = evaluation.improvement
    if found is not None and all(verdict(gain) == UNCHANGED for gain in found.gains.values()):
        return []
    made = (gains(evaluation), joined(evaluation), *curves(evaluation), *by_size(evaluation))
    return [figure for figure in made if figure is not None]


# -------------------------------------------------------------------------------------------------------- words
def _gained(evaluation: Evaluation) -> list[tuple[str, str, str]]:
    """What the gains say, what may be concluded from them, and how sizes would have misled."""
    found = evaluation.improvement
    if found is None:
        return []
    first, *others = reading(found)
    out = [(_tone(found), "What was gained", first)]
    out += [("neutral", "What may be concluded", line) for line in others]
    sizes = [item.reading() for item in evaluation.sizes if item.after is not None]
    return out + [("neutral", "By the size of the test set", line) for line in sizes if line]


def _tone(found: Improvement) -> str:
    said = {verdict(gain) for gain in found.gains.values()}
    if said & {WORSE, WORST}:
        return "bad"
    return "good" if BETTER in said else "neutral"


def _fit(evaluation: Evaluation) -> list[tuple[str, str, str]]:
    """What should be known of the fit before its gain is believed."""
    facts = evaluation.recalibration
    told = {code for fit in (facts or {}).get("fits", ()) for code, _ in fit.get("said", ())}
    notes = [note for note in evaluation.warnings if note.code in FIT or note.code in told]
    return [("warn", "About the fit", note.message) for note in notes]


def _described(facts: Mapping[str, Any], classes: bool) -> str:
    """The method in a sentence."""
    count = facts["n_parameters"]
    said = f"{facts['title']} ({facts['method']})"
    if count:
        said += f", {count} number{'s' * (count != 1)} fitted by {facts['loss']} on {facts['fitted_on']}"
        said += "" if facts["converged"] else "; the fit did not settle"
    if classes:
        keeps = facts["accuracy_preserving"]
        said += "; predicted classes stay as they are" if keeps else "; predicted classes may change"
    said += "; no two predictions become one (injective)." if facts["injective"] else "; not known to be injective."
    return f"{said} {facts['reference'] or ''}".rstrip()
