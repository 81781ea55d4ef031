"""What the charts of a comparison are of: the one set of rows, or each of several data sets, chosen by a control."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from calibrant.comparison.result import Comparison
from calibrant.evaluation.comparison_words import named, numbers_of
from calibrant.reporting.document import Columns, Control
from calibrant.reporting.sections.naming import labels

ALL = "all data sets"
MOST_SETS = 24
"""Data sets that a control offers."""
MOST_SCORES = 12


def scopes(comparison: Comparison, *, together: bool = False) -> dict[str, Comparison]:
    """Comparisons by what a control calls them: all data sets first, where they are wanted, then each."""
    if not comparison.datasets:
        return {"": comparison}
    called = labels(list(comparison.datasets)[:MOST_SETS], taken=(ALL,))
    each = {label: comparison.datasets[name] for name, label in called.items()}
    return ({ALL: comparison} if together else {}) | each


def model_numbers(comparison: Comparison) -> dict[str, int]:
    """The number of every model, that of the first table; models that some data sets lack come after."""
    numbers = numbers_of(comparison)
    for each in comparison.datasets.values():
        for item in each.ranking:
            numbers.setdefault(item.model, len(numbers) + 1)
    return numbers


def scored(known: Mapping[str, Comparison], scores: Callable[[Comparison], list[str]]) -> list[str]:
    """The scores that every scope has, the one that ranks first."""
    every = [scores(each) for each in known.values()]
    common = [score for score in every[0] if all(score in other for other in every)] if every else []
    ranks = next((each.rank_by for each in known.values()), "")
    return sorted(common, key=lambda score: score != ranks)[:MOST_SCORES]


def by_scope(
    known: Mapping[str, Comparison], options: Mapping[str, str], make: Callable[[Comparison, str], Columns]
) -> dict[tuple[str, ...], Columns]:
    """Columns by data set, where there are several, and by option; `options` has the keys that they are made with."""
    out: dict[tuple[str, ...], Columns] = {}
    for scope, each in known.items():
        for key, label in options.items():
            out[((scope,) if scope else ()) + ((label,) if label else ())] = make(each, key)
    return out


def controls(known: Mapping[str, Comparison], label: str, options: Mapping[str, str]) -> tuple[Control, ...]:
    """A control for the data set, where there are several, and one for the options."""
    sets = () if "" in known else (Control("data set", tuple(known)),)
    return (*sets, *((Control(label, tuple(options.values())),) if any(options.values()) else ()))


def called(scores: list[str]) -> dict[str, str]:
    """Scores as controls name them."""
    return {score: named(score) for score in scores}
