"""A few estimates as a table beside the figures that they belong to."""

from __future__ import annotations

import math
from collections.abc import Iterable

from calibrant.evaluation.rendering import Table
from calibrant.evaluation.wording import number, span
from calibrant.reporting.document import Block, Shown
from calibrant.reporting.estimates import called, titled
from calibrant.reporting.gathering import Found


def estimates(found: Found | None, names: Iterable[str], title: str) -> list[Block]:
    """The table of these metrics, whatever their options; nothing where the evaluation has none of them."""
    if found is None:
        return []
    known = found.result.metrics
    specs = [spec for name in names for spec in known if spec.partition("(")[0] == name]
    nulls = any(math.isfinite(known[spec].null_high) for spec in specs)
    heads = ("metric", "what it is", "value", _percent(found), *(("if calibrated",) if nulls else ()))
    rows = []
    for spec in specs:
        e = known[spec]
        row = (called(spec), titled(spec), number(e.value), span(e.low, e.high))
        rows.append((*row, *((span(e.null_low, e.null_high),) if nulls else ())))
    return [Shown(Table(title, heads, tuple(rows), left=2))] if rows else []


def _percent(found: Found) -> str:
    return f"{100 * float(found.evaluation.settings['level']):g} % interval"
