"""Pitfalls of comparisons, found automatically where the data show them.

Each rule is a function of a `Setup` that yields notes: a code of `PITFALLS`, one line with the problem and the remedy,
and a reference. Rules use registry metadata and the predictions themselves; some also need the `Comparison`.
`guard_sets` compares several data sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from calibrant.comparison.pitfalls import members, rows, scores
from calibrant.comparison.pitfalls.rows import guard_sets
from calibrant.comparison.pitfalls.setup import PITFALLS, Pitfall, Setup
from calibrant.predictions.base import Note

__all__ = ["PITFALLS", "RULES", "Pitfall", "Setup", "guard", "guard_sets"]

Rule = Callable[[Setup], Iterator[Note]]
RULES: tuple[Rule, ...] = (*scores.RULES, *rows.RULES, *members.RULES)


def guard(setup: Setup) -> tuple[Note, ...]:
    """Every pitfall of a comparison, each note once, in the order of `PITFALLS`."""
    notes = [note for rule in RULES for note in rule(setup)]
    return tuple(sorted(dict.fromkeys(notes), key=lambda note: list(PITFALLS).index(note.code)))
