"""Names from data as a chart or a list of choices takes them: short, plain, and no two the same."""

from __future__ import annotations

from collections.abc import Iterable

from calibrant.errors import plain
from calibrant.evaluation.rendering import elide

LONG, LONGEST = 40, 48
"""Characters that a name has at most in a chart, and in a list of choices."""


def short(name: object, most: int = LONG) -> str:
    """A name on one line, at most so wide, without its middle where it is longer: names differ at their ends."""
    text = str(name)
    return elide(plain(text, max(len(text), 1)), most) or "unnamed"


def distinct(names: Iterable[object], most: int = LONGEST, taken: Iterable[str] = ()) -> list[str]:
    """Each name so short; a number behind those that would be equal to another or to one that is taken."""
    out: list[str] = []
    known = set(taken)
    for name in names:
        first = short(name, most)
        unique, k = first, 1
        while unique in known:
            k += 1
            unique = f"{first} ({k})"
        known.add(unique)
        out.append(unique)
    return out
