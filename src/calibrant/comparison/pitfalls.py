"""The pitfall guard: what comparisons of models must not rest on, noticed where it can be seen.

Each rule is a function of a `Setup` that yields notes: a code of `PITFALLS`, one line that says what is wrong and what
to do instead, and a reference. Rules read the facts of the registry and the predictions themselves; those that need
results look at the `Comparison`, if there is one. `guard_sets` looks at several data sets together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from calibrant.comparison import rules_members, rules_rows, rules_scores
from calibrant.comparison.rules_sets import guard_sets
from calibrant.comparison.setup import PITFALLS, Pitfall, Setup
from calibrant.predictions.base import Note

__all__ = ["PITFALLS", "RULES", "Pitfall", "Setup", "guard", "guard_sets"]

Rule = Callable[[Setup], Iterator[Note]]
RULES: tuple[Rule, ...] = (*rules_scores.RULES, *rules_rows.RULES, *rules_members.RULES)


def guard(setup: Setup) -> tuple[Note, ...]:
    """Every pitfall that is met, each once, in the order of `PITFALLS`."""
    found = [each for rule in RULES for each in rule(setup)]
    return tuple(sorted(dict.fromkeys(found), key=lambda each: list(PITFALLS).index(each.code)))
