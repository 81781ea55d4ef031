"""Calibrated likelihood under graded shift, with the temperature of clean rows and with that of the same rows.

On shifted rows the temperature may be that of clean ones, which is what a user has (Ovadia et al. 2019), or be fitted
anew on shifted rows by test-time cross-validation, which tells what the ranking of classes is still worth (Ashukha et
al. 2020). The difference is what miscalibration under shift costs. On clean rows both are cross-fitted.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.comparison.calibrated import Calibrated, calibrated, calibrated_by
from calibrant.comparison.records import ShiftedCll
from calibrant.comparison.splits import splits_of
from calibrant.errors import UsageError
from calibrant.evaluation.comparing import Asked, Models, of_classes
from calibrant.evaluation.evaluate import score_rows
from calibrant.evaluation.shift import COLUMNS, severities_of
from calibrant.predictions import InMemory
from calibrant.registry.accumulators import Moments


def clean_rows(models: Models, columns: tuple[str, str] | None) -> tuple[dict[str, InMemory], dict[str, InMemory]]:
    """The shifted rows of every model, and its clean rows, by severity."""
    name = (columns or COLUMNS)[1]
    shifted, clean = {}, {}
    for key, model in models.items():
        if name not in model.info.columns:
            raise UsageError(
                "temperature='clean'", expected="`clean` predictions, or a column of severities",
                came=f"{model.name} has no column '{name}'", do="give clean rows of every model, by its name",
            )  # fmt: skip
        at_zero = severities_of(model.column(name), name) == 0.0
        if not at_zero.any() or at_zero.all():
            came = f"{int(at_zero.sum())} of the {model.n} rows of {model.name} have severity 0"
            do = "give clean predictions apart"
            raise UsageError("temperature='clean'", expected="clean and shifted rows", came=came, do=do)
        shifted[key], clean[key] = model[~at_zero], model[at_zero]
    return shifted, clean


def shifted_cll(models: Models, columns: tuple[str, str], asked: Asked, clean: Models | None) -> tuple[ShiftedCll, ...]:
    """Every model at every type and severity of shift."""
    kind, severity = columns
    first = next(iter(models.values()))
    levels = severities_of(first.column(severity), severity)
    kinds = np.where(levels == 0.0, "clean", first.column(kind).astype(str))
    out = []
    for name, model in models.items():
        at_zero = model[levels == 0.0] if (levels == 0.0).any() else None
        fitted = at_zero if clean is None else clean[name]
        for level, shift in sorted({(float(s), str(k)) for s, k in zip(levels, kinds, strict=True)}):
            part = model[(levels == level) & (kinds == shift)]
            out.append(_cell(name, part, fitted, shift, level, asked))
    return tuple(out)


def _cell(name: str, part: InMemory, clean: InMemory | None, shift: str, level: float, asked: Asked) -> ShiftedCll:
    (nll,) = score_rows(part, "nll", threads=asked.threads).values()
    same = _same_rows(part, asked)
    by_clean = (
        same if level == 0.0 or clean is None else calibrated_by(of_classes(part), of_classes(clean), asked.threads)
    )
    by_clean = None if clean is None and level > 0.0 else by_clean
    return ShiftedCll(
        name, shift, level, part.n, -_mean(nll, part), *(_cll(found, part) for found in (same, by_clean)),
        *(math.nan if found is None else found.temperature for found in (same, by_clean)),
    )  # fmt: skip


def _same_rows(part: InMemory, asked: Asked) -> Calibrated | None:
    """At the temperature of the same rows; nothing where a cell cannot be split."""
    units = None if asked.units is None else np.unique(part.column(asked.units), return_inverse=True)[1].ravel()
    if (part.n if units is None else int(units.max()) + 1) < 2:
        return None
    splits = splits_of(part.n, repeats=asked.repeats, seed=asked.seed, units=units)
    return calibrated(of_classes(part), splits, asked.threads)


def _cll(found: Calibrated | None, part: InMemory) -> float:
    return math.nan if found is None else _mean(found.log_likelihood, part)


def _mean(rows: np.ndarray, part: InMemory) -> float:
    moments = Moments()
    moments.add(rows, part.weights, None, spread=False)
    return moments.mean()
