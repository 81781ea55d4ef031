"""What is drawn of an input: which curves all rows have, which each group has, and along which column functions are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from calibrant.evaluation.choosing import MOST_KEPT, Input
from calibrant.evaluation.curves import Curve, chosen
from calibrant.evaluation.curves.choosing import MOST_BESIDE
from calibrant.evaluation.curves.functions import (
    NAME,
    USUAL,
    Chosen,
    can_be_drawn,
    chosen_along,
    is_numbers,
    only_column,
)
from calibrant.evaluation.grouping import Grouping
from calibrant.evaluation.parts import Wanted
from calibrant.predictions.files.stream import Stream

OF_GROUPS = ("reliability", "pit")
"""Curves that groups have."""
MOST_GROUPS = 60
"""Groups of a column up to which they have curves."""


def with_curves(wanted: Wanted, source: Input, along: str | None, named: bool) -> tuple[Wanted, dict[str, str]]:
    """With the curves that there can be beside these metrics, named or not, and why there are not more.

    along: the column that functions are drawn along, where it was named.
    """
    curves, without = chosen(source.example, source.n, wanted.specs, wanted.extras(wanted.specs), named)
    groupings = [replace(item, curves=_of_groups(wanted, source, item, named)) for item in wanted.groupings]
    made, reason = _functions(source, along)
    without |= {NAME: reason} if reason else {}
    return replace(wanted, curves=curves, groupings=groupings, along=made), without


def _of_groups(wanted: Wanted, source: Input, grouping: Grouping, named: bool) -> tuple[Curve, ...]:
    if not grouping.intervals or len(grouping.names) > MOST_GROUPS:
        return ()
    found, _ = chosen(source.example, source.n, grouping.specs, wanted.extras(grouping.specs), named)
    return tuple(curve for curve in found if curve.name in OF_GROUPS)


def _functions(source: Input, named: str | None) -> tuple[Chosen | None, str | None]:
    """The rows at which functions are drawn, or why they are not; neither of predictions that are none."""
    if not can_be_drawn(source.example):
        return None, "it needs several Gaussian members" if named else None
    if named is None and source.n > MOST_KEPT:
        return None, "of millions of rows only the main curve is made, unless along= names a column"
    found = _column(source) if named is None else (named, source.column(named))
    if found is None:
        return None, "it needs a column x, or one column of many numbers, or along= that names it"
    weights = source.weights() if isinstance(source, Stream) else source.weights
    made = chosen_along(*found, weights)
    return made, None if made else "no row has a finite number in its column"


def _column(source: Input) -> tuple[str, np.ndarray] | None:
    """The column that functions are drawn along where none is named."""
    usual = _columns(source, [USUAL])
    if USUAL in usual and is_numbers(usual[USUAL]):
        return USUAL, usual[USUAL]
    known = _columns(source, source.columns) if source.n <= MOST_BESIDE else {}
    name = only_column(known)
    return None if name is None else (name, known[name])


def _columns(source: Input, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Columns whole; those that there are not, or that cannot be read, are left out."""
    if isinstance(source, Stream):
        return source.picked(names, np.arange(source.n))
    return {name: source.columns[name] for name in names if name in source.columns}
