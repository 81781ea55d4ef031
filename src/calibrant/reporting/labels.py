"""Names from data as charts and controls show them: plain, short, and no two of them equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from calibrant.errors import plain
from calibrant.registry.lookup import metrics
from calibrant.render.table import elide
from calibrant.reporting.document import numbered

MAX_LABEL, MAX_OPTION = 40, 48
"""Maximum characters of a name in a chart, and in a list of options."""
MAX_COLOURS, COLOURED = 7, 6
"""Colours of lines, and how many lines have a colour of their own where there are more lines than colours."""
OTHERS = "others"
BETTER = {"lower": " (lower is better)", "higher": " (higher is better)"}


def short(name: object, width: int = MAX_LABEL) -> str:
    """A name on one line, without its middle where it is longer: names differ at their ends."""
    text = str(name)
    return elide(plain(text, max(len(text), 1)), width) or "unnamed"


def as_sentence(text: str) -> str:
    """Text with a capital first letter, unless it starts with a name and a colon."""
    return text if text.partition(" ")[0].endswith(":") else text[:1].upper() + text[1:]


def distinct(names: Iterable[object], width: int = MAX_OPTION, taken: Iterable[str] = ()) -> list[str]:
    """Shortened names; duplicates of another name or of one that is taken get a number."""
    return numbered((short(name, width) for name in names), taken)


def labels(names: Iterable[str], width: int = MAX_LABEL, taken: Iterable[str] = ()) -> dict[str, str]:
    """A distinct short label for every name."""
    every = list(dict.fromkeys(names))
    return dict(zip(every, distinct(every, width, taken), strict=True))


def numbered_labels(numbers: Mapping[str, int]) -> dict[str, str]:
    """Labels of models that start with their numbers, which distinguish names that are short alike."""
    return {name: f"{k} {short(name)}" for name, k in numbers.items()}


def label_with_direction(spec: str) -> str:
    """A metric and whether lower or higher is better."""
    metric = metrics().get(spec.partition("(")[0])
    return spec + (BETTER.get(metric.direction, "") if metric else "")


def first_of(limit: int, count: int, noun: str) -> str:
    """The sentence that says that only the first are shown; empty if all are."""
    return f" Shows the first {limit} of {count} {noun}." if count > limit else ""
