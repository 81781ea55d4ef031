"""Names in a sentence: the first few of many, the ends of long ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

NAMED = 4
"""Names that a note lists."""
LONGEST = 28


def shown(name: object) -> str:
    """A name, without its middle if it is long."""
    text = str(name)
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}…{text[1 - LONGEST // 2 :]}"


def listed(names: Iterable[object], most: int = NAMED, whole: bool = False) -> str:
    """a, b and c; of many, the first few and the number of others. whole: do not shorten long names."""
    texts = [str(name) if whole else shown(name) for name in names]
    more = len(texts) - most
    if more > 0:
        return f"{', '.join(texts[:most])} and {more} more"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def by_number(numbers: Mapping[str, int]) -> str:
    """Models grouped by a number: "1: 16 models; 8: a, b"."""
    groups: dict[int, list[str]] = {}
    for name, number in numbers.items():
        groups.setdefault(number, []).append(shown(name))
    most = 2 if len(groups) <= 2 else 1
    texts = [
        f"{k}: {', '.join(groups[k]) if len(groups[k]) <= most else f'{len(groups[k])} models'}" for k in sorted(groups)
    ]
    more = len(texts) - NAMED
    return "; ".join(texts) if more <= 0 else f"{'; '.join(texts[:NAMED])} and {more} more"
