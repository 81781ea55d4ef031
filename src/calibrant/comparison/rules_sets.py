"""Pitfalls of several data sets: the same rows in two of them.

Two data sets hold the same rows where a model predicts the same in both, in all rows or in at least a tenth that can be
known again (`marks`); or where both have the same ids and, of these, the same labels. Row numbers are no ids: labels
must agree in every row that has an id in both, and so many of them that labels of other rows would disagree in five.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from calibrant.comparison.alignment import truth_of
from calibrant.comparison.listing import listed, shown
from calibrant.comparison.rules_members import equal_predictions
from calibrant.comparison.setup import note
from calibrant.predictions import InMemory
from calibrant.predictions.base import Note
from calibrant.predictions.marks import marks_of, met, prediction_hashes, read_marks, row_hashes

CODE = "same-rows-twice"
SHARE = 0.1
"""The share of the smaller data set that must be in the other."""
LEAST = 5
"""Marks that must be met, and labels that should have disagreed."""
DO = "leave one of them out"


def guard_sets(sets: Mapping[str, Mapping[str, InMemory]]) -> tuple[Note, ...]:
    """The pitfalls of data sets by name, each with its models by name, that are compared together."""
    return tuple(_same_rows_twice(sets))


def _same_rows_twice(sets: Mapping[str, Mapping[str, InMemory]]) -> Iterator[Note]:
    predicted, known = [], []
    for (first, one), (second, two) in combinations(sets.items(), 2):
        common = [name for name in one if name in two]
        pair = f"{shown(first)} and {shown(second)}"
        if any(same_predictions(one[name], two[name]) for name in common):
            predicted.append(pair)
        elif any(same_cases(one[name], two[name]) for name in common[:1]):
            known.append(pair)
    if predicted:
        said = "data sets hold the same rows, which then count twice: models predict the same in"
        yield note(CODE, f"{said} {listed(predicted, 2)}; {DO}")
    if known:
        said = "data sets are of the same cases, by ids and labels, and no independent ones"
        yield note(CODE, f"{said}: {DO}, or compare them as shifts (--shift, shift=True): {listed(known, 2)}")


def same_predictions(one: InMemory, two: InMemory) -> bool:
    """Whether a model predicts the same in all rows of both, or in some that can be known again."""
    if one.n == two.n and one.task == two.task and equal_predictions(one, two) and _no_chance(one, two):
        return True
    few, many = sorted((one, two), key=lambda rows: rows.n)
    marks = read_marks(marks_of(few))
    return len(np.unique(met(marks, row_hashes(many)))) >= max(LEAST, SHARE * len(marks))


def _no_chance(one: InMemory, two: InMemory) -> bool:
    """Whether equal predictions are more than those of a constant: there are several, or labels are equal, too."""
    if len(np.unique(prediction_hashes(one))) >= LEAST:
        return True
    return one.n >= LEAST and truth_of(one) is not None and np.array_equal(truth_of(one), truth_of(two))  # type: ignore[arg-type]


def same_cases(one: InMemory, two: InMemory) -> bool:
    """Whether ids that both have are of the same cases."""
    if one.info.ids is None or two.info.ids is None:
        return False
    if (one.info.ids.dtype.kind in "OUS") != (two.info.ids.dtype.kind in "OUS"):
        return False
    common, first, second = np.intersect1d(one.info.ids, two.info.ids, return_indices=True)
    least = SHARE * min(len(np.unique(one.info.ids)), len(np.unique(two.info.ids)))
    truths = truth_of(one), truth_of(two)
    if truths[0] is None or truths[1] is None or len(common) < max(least, LEAST):
        return False
    own, other = truths[0][first], truths[1][second]
    shares = np.unique(own, return_counts=True)[1] / len(own)
    return bool(np.array_equal(own, other)) and len(own) * (1.0 - float((shares**2).sum())) >= LEAST
