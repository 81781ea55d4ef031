"""Names from data as charts and controls show them: plain, short, and no two of them alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from calibrant.registry import find, metrics
from calibrant.reporting.naming import LONG, distinct, short

NAMED = 6
"""Lines that have a colour of their own where there are more than colours."""
COLOURS = 7
OTHERS = "others"
BETTER = {"lower": " (lower is better)", "higher": " (higher is better)"}


def labels(names: Iterable[str], width: int = LONG, taken: Iterable[str] = ()) -> dict[str, str]:
    """A short label for every name; those that would be alike get a number."""
    every = list(dict.fromkeys(names))
    return dict(zip(every, distinct(every, width, taken), strict=True))


def numbered(numbers: Mapping[str, int], width: int = LONG) -> dict[str, str]:
    """The labels of models after their numbers, which tell apart those that are short alike."""
    return {name: f"{k} {short(name, width)}" for name, k in numbers.items()}


def coloured(every: Sequence[str]) -> dict[str, str]:
    """What each line is called in the legend: its label, or, of more lines than colours, the later ones together."""
    most = len(every) if len(every) <= COLOURS else NAMED
    return {label: label if k < most else OTHERS for k, label in enumerate(every)}


def directed(spec: str) -> str:
    """A metric as a control names it, with its better end."""
    name = spec.partition("(")[0]
    return spec + (BETTER.get(find(name).direction, "") if name in metrics() else "")


def first_of(most: int, count: int, what: str) -> str:
    """What is said where not all are drawn; nothing where all are."""
    return f" Drawn are the first {most} of {count} {what}." if count > most else ""
