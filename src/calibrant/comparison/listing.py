"""Names in a line: of many the first few, of long ones the ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NAMED = 4
"""Names that a note lists."""
LONGEST = 40


def shown(name: object) -> str:
    """A name without its middle, where it is long."""
    text = str(name)
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}…{text[1 - LONGEST // 2 :]}"


def listed(names: Iterable[object], most: int = NAMED) -> str:
    """a, b and c; of many the first few and how many more there are."""
    texts = [shown(name) for name in names]
    more = len(texts) - most
    if more > 0:
        return f"{', '.join(texts[:most])} and {more} more"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def by_number(numbers: Mapping[str, int]) -> str:
    """Models by a number of theirs: "1: a, b; 8: 16 models"."""
    of: dict[int, list[str]] = {}
    for name, number in numbers.items():
        of.setdefault(number, []).append(shown(name))
    texts = [f"{k}: {', '.join(of[k]) if len(of[k]) <= 2 else f'{len(of[k])} models'}" for k in sorted(of)]
    more = len(texts) - NAMED
    return "; ".join(texts) if more <= 0 else f"{'; '.join(texts[:NAMED])} and {more} more"
