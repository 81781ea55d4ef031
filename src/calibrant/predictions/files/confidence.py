"""Confidences as they are found in tables and logs: percentages, gaps and impossible values.

Nothing is converted or left out unless it is asked for, and what is left out is counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from calibrant.errors import FileError, UsageError, show
from calibrant.predictions.base import Note
from calibrant.predictions.files.tables import ColumnOptions


def confidence_scale(options: ColumnOptions) -> float:
    """The number by which confidences are divided; 1 unless the user says otherwise."""
    text = options.confidence_scale
    if text is None:
        return 1.0
    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not 0.0 < scale < math.inf:
        hint = "use --confidence-scale 100 for percent"
        raise UsageError("--confidence-scale", expected="a positive number", got=show(text), hint=hint)
    return scale


def usable_confidence(
    given: Iterable[Any], options: ColumnOptions, where: str, dropped: Counter[str], among: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Confidences as numbers from 0 to 1, and which rows have one.

    Without `drop_missing` a row without a usable confidence is an error; with it such rows are counted in `dropped`.
    """
    scale = confidence_scale(options)
    texts: list[tuple[int, Any]] = []
    values = np.empty(len(given := list(given)))
    for row, item in enumerate(given):
        values[row] = math.nan
        if item is None or isinstance(item, bool):
            continue
        if isinstance(item, str):
            text = item.strip()
            if text.lower() in ("", "nan", "none", "null", "na", "n/a"):
                continue
            try:
                values[row] = float(text.removesuffix("%") if scale == 100.0 else text)
            except ValueError:
                texts.append((row, item))
        elif isinstance(item, int | float | np.integer | np.floating):
            values[row] = float(item)
        else:
            texts.append((row, item))
    considered = np.ones(len(values), bool) if among is None else among
    words = [pair for pair in texts if considered[pair[0]]]
    if words:
        row, item = words[0]
        hint = "use --confidence-scale 100 for percent, or name a column of numbers with --confidence"
        got = f"row {row}: {show(item)} ({len(words)} such rows)"
        raise FileError(f"{where}: confidence", expected="numbers", got=got, hint=hint)
    values /= scale
    missing = considered & np.isnan(values)
    outside = considered & ((values < 0.0) | (values > 1.0))
    if not options.drop_missing:
        if missing.any():
            got = f"none in {int(missing.sum())} of {int(considered.sum())} rows, first in row {int(missing.argmax())}"
            hint = "add --drop-missing to leave these rows out, or --confidence none for the accuracy alone"
            raise FileError(f"{where}: confidence", expected="one in every row", got=got, hint=hint)
        if outside.any():
            row = int(outside.argmax())
            got = f"row {row}: {values[row] * scale:g} ({int(outside.sum())} such rows)"
            expected = f"numbers from 0 to {scale:g}"
            hint = "add --confidence-scale 100 if they are percent, or --drop-missing to leave such rows out"
            raise FileError(f"{where}: confidence", expected=expected, got=got, hint=hint)
    if missing.any():
        dropped["without a confidence"] += int(missing.sum())
    if outside.any():
        largest = values[outside][np.argmax(np.abs(values[outside]))] * scale
        dropped[f"with a confidence outside 0 to {scale:g} (such as {largest:g})"] += int(outside.sum())
    return values, considered & ~missing & ~outside


def dropped_note(where: str, total: int, dropped: Counter[str]) -> Note:
    """The note on rows that were left out, with the reasons."""
    reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
    return Note("dropped-rows", f"{where}: {sum(dropped.values())} of {total} rows dropped: {reasons}")
