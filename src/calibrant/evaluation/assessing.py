"""All that is usually asked of predictions, in one go: metrics and curves, checks, and a comparison of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from calibrant.errors import CalibrantError, UsageError
from calibrant.evaluation.check import check
from calibrant.evaluation.choosing import Input
from calibrant.evaluation.compare import compare
from calibrant.evaluation.evaluate import Progress, evaluate, inputs_of
from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.shift import COLUMNS
from calibrant.predictions.base import Note
from calibrant.predictions.files.stream import Stream

MOST_READ = 1 << 32
"""Bytes of inputs in files that are read at once to be compared."""


def assess(
    predictions: Input | Mapping[str, Input] | Iterable[Input],
    *,
    by: Iterable[str] = (),
    units: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[Evaluation, ...]:
    """An evaluation, the checks of what can be checked, and, of several models of the same rows, a comparison.

    Where all inputs have the columns `shift` and `severity`, both are summarised under shift too. What cannot be
    checked or compared is left out, and a note of the evaluation says why.
    """
    inputs = inputs_of(predictions, "report")
    shift = all(set(COLUMNS) <= set(item.example.columns) for item in inputs)
    how: dict[str, Any] = {"seed": seed, "threads": threads, "progress": progress}
    main = evaluate(inputs, by=list(by), units=units, shift=shift, level=level, resamples=resamples, **how)
    more: list[Evaluation] = []
    notes: list[Note] = []
    for item in inputs:
        _try(lambda item=item: check(item, shift=shift, **how), "not-checked", item.name, more, notes)
    if len(inputs) > 1:
        compared = {"units": units, "level": level, "resamples": 2 * resamples, "shift": shift, **how}
        _try(lambda: _compared(inputs, compared), "not-compared", "these inputs", more, notes)
    return replace(main, warnings=(*main.warnings, *notes)), *more


def _compared(inputs: list[Input], how: dict[str, Any]) -> Evaluation:
    size = sum(item.nbytes for item in inputs if isinstance(item, Stream))
    if size > MOST_READ:
        raise UsageError(
            "compare",
            expected=f"at most {MOST_READ >> 30} GiB to be held in memory",
            came=f"these take {size / 2**30:.1f} GiB",
            do="run `calibrant compare` where there is memory, and report its --json",
        )
    return compare({item.name: item.read() if isinstance(item, Stream) else item for item in inputs}, **how)


def _try(make: Any, code: str, name: str, found: list[Evaluation], notes: list[Note]) -> None:
    """Add what can be made, or a note of why it cannot."""
    try:
        found.append(make())
    except CalibrantError as error:
        notes.append(Note(code, f"{name}: {code.replace('-', ' ')}: {error}"))
