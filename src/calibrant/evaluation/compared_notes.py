"""What a comparison notes beside pitfalls: how predictions were read, and where temperatures could not be told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.comparison.result import Comparison
from calibrant.evaluation.comparing import Models, Scored
from calibrant.evaluation.evaluate import score_rows
from calibrant.predictions.base import Note
from calibrant.recalibration.one_temperature import BOUND

LEAST = 1.0 / BOUND
GUO, OVADIA = "Guo et al. (2017), ICML", "Ovadia et al. (2019), NeurIPS 32"


def input_notes(models: Models) -> list[Note]:
    """What reading the predictions has to say, by model."""
    return [
        replace(note, message=note.message if note.message.startswith(f"{name}:") else f"{name}: {note.message}")
        for name, model in models.items()
        for note in model.notes()
    ]


def fit_notes(comparison: Comparison, scored: Scored) -> list[Note]:
    """Temperatures that end at their bound, which then decides; cells of a shift without a clean temperature."""
    out = [note for name in scored.calibrated for note in _at_bound(scored, name)]
    cells = comparison.shifted
    if cells and all(cell.clean != cell.clean for cell in cells):
        said = "there are no rows of severity 0 and no clean predictions (--clean, clean=): likelihood under shift has "
        out.append(Note("no-clean-rows", f"{said}the temperature of the same rows only", OVADIA))
    return out


def _at_bound(scored: Scored, name: str) -> list[Note]:
    found = scored.calibrated[name].temperatures
    low, high = int((found == LEAST).sum()), int((found == BOUND).sum())
    if not low + high:
        return []
    ends = "1/64 or 64" if low and high else "64" if high else "1/64"
    said = f"{name}: in {low + high} of {found.size} fits the temperature ends at {ends}"
    return [Note("temperature-at-bound", f"{said}{_why(scored, name)}", GUO)]


def _why(scored: Scored, name: str) -> str:
    """What the rows say that temperatures were fitted on: impossible labels, halves without an error, or neither."""
    rows = scored.models[name] if scored.clean is None else scored.clean[name]
    nll, hits = score_rows(rows, "nll,accuracy", threads=scored.asked.threads).values()
    half = np.zeros((1, rows.n)) if scored.splits is None else scored.splits.half
    decides = "that bound decides the calibrated likelihood"
    if impossible := int(np.isposinf(nll).sum()):
        labels = f"{impossible} labels of {rows.n} have" if impossible > 1 else f"a label of {rows.n} has"
        return f", and {decides}: {labels} probability 0, which no temperature mends; hold no class impossible"
    at = np.argwhere(scored.calibrated[name].temperatures == LEAST)
    right = len(at) and all((hits[half[repeat] == part] == 1.0).all() for repeat, part in at)
    reason = " (every row that it is fitted on is right)" * bool(right)
    return f"{reason}, and {decides}: give more rows, or a temperature of other rows"
