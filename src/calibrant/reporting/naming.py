"""Names from data as a chart or a list of choices takes them: short, plain, and no two the same."""

from __future__ import annotations

from collections.abc import Iterable

from calibrant.errors import plain
from calibrant.evaluation.rendering import elide

LONGEST = 48
READ = 10_000
"""Characters of a name that are looked at: names differ at their ends."""


def distinct(names: Iterable[object], most: int = LONGEST) -> list[str]:
    """Each name at most so wide, without its middle where it is longer; a number behind those that would be equal."""
    out: list[str] = []
    taken: set[str] = set()
    for name in names:
        short = elide(plain(str(name), READ), most) or "unnamed"
        unique, k = short, 1
        while unique in taken:
            k += 1
            unique = f"{short} ({k})"
        taken.add(unique)
        out.append(unique)
    return out
