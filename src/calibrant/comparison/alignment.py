"""The shared rows of several models in one order: matched by `ids` if all models have them, else by position.

With ids: the rows that all models have, in their common order, or in the order of the ids if orders differ, so that the
order of models does not matter. Ids that repeat are matched only if all models have them in one order. Rows whose
labels differ between models are dropped. Without ids, models must have the same number of rows and the same labels.
Whether a judged answer is correct belongs to the model, so `correct` is not a label of the row, and is compared only if
there are no ids to match rows by. Weights belong to rows and must be equal. A column that only some models have is
copied to the others, so that units and groups are available for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.comparison.name_lists import by_number, listed
from calibrant.errors import CalibrantError, InputError, LabelsError, ShapeError
from calibrant.predictions import InMemory
from calibrant.predictions.base import Note

ROWS, LABELS, CLASSES = "different-rows", "different-labels", "different-classes"
REFERENCE = "Ashukha et al. (2020), section 2.6: models are compared on one test set"
HINT = "give the same rows in the same order, or ids to match them by"
JUDGEMENTS = "judgements"
JUDGEMENTS_HINT = "give ids: judgements of each model's own answers need ids to match rows by (see own-answers)"
CLOSE = 1e-6


@dataclass
class Matched:
    """The shared rows of each model, with notes on dropped rows."""

    rows: dict[str, np.ndarray] = field(default_factory=dict)
    """By model, the positions of its rows; empty if they cannot be matched."""
    notes: list[Note] = field(default_factory=list)
    error: CalibrantError | None = None
    """The reason why they cannot be matched."""
    code: str = ROWS
    """The pitfall of the error."""

    def failed(self, error: CalibrantError, code: str = ROWS) -> Matched:
        """The same without rows."""
        return replace(self, rows={}, error=error, code=code)


def aligned(models: Mapping[str, InMemory]) -> tuple[dict[str, InMemory], tuple[Note, ...]]:
    """The models with their shared rows in one order, and notes on dropped rows; an error if there are none."""
    match = matched(models)
    if match.error is not None:
        raise match.error
    out: dict[str, InMemory] = {}
    columns: dict[str, np.ndarray] = {}
    for name, model in models.items():
        rows = match.rows[name]
        out[name] = model if len(rows) == model.n and bool((rows == np.arange(model.n)).all()) else model[rows]
        columns = {**out[name].columns, **columns}
    for name, model in out.items():  # columns that a model lacks, from the first model that has them
        lacking = {key: column for key, column in columns.items() if key not in model.columns}
        if lacking:
            out[name] = model._with_info(replace(model.info, columns={**model.columns, **lacking}))
    return out, tuple(match.notes)


def matched(models: Mapping[str, InMemory]) -> Matched:
    """The rows that all models share."""
    out = Matched({name: np.arange(model.n) for name, model in models.items()})
    if len(models) < 2:
        return out
    tasks = sorted({model.task for model in models.values()})
    if len(tasks) > 1:
        got, hint = " and ".join(tasks), "compare models of one task"
        return out.failed(InputError("models", expected="models of one task", got=got, hint=hint))
    ids = {name: model.info.ids for name, model in models.items()}
    if any(own is None for own in ids.values()):
        return _match_by_position(models, out, "without common ids")
    unique = all(len(np.unique(own)) == len(own) for own in ids.values())  # type: ignore[arg-type]
    if not unique:
        return _match_by_position(models, out, "with repeated ids in different orders")
    return _match_by_ids(models, {name: np.asarray(own) for name, own in ids.items()}, out)


def _match_by_position(models: Mapping[str, InMemory], out: Matched, why: str) -> Matched:
    (base, first), *others = models.items()
    for name, model in others:
        pair = f"{base} and {name}"
        if first.n != model.n:
            got = f"{first.n} and {model.n} rows, {why}"
            return out.failed(ShapeError(pair, expected="the same rows", got=got, hint=HINT))
        one, two = first.info.ids, model.info.ids
        if one is not None and two is not None and not _equal_rows(one, two).all():
            got = f"rows {why}, first in row {int(np.argmin(_equal_rows(one, two)))}"
            return out.failed(InputError(pair, expected="the same rows", got=got, hint=HINT))
        for kind, own, other in _outcomes(first, model, judgements=one is None or two is None):
            if (own is None) != (other is None):
                return out.failed(_no_labels(kind, *((base, first) if own is None else (name, model))), LABELS)
            if own is None or other is None or (equal := _equal_rows(own, other)).all():
                continue
            if error := _different_classes({base: first, name: model}):
                return out.failed(error, CLASSES)
            got = f"{int((~equal).sum())} of {len(equal)} differ, first in row {int(np.argmin(equal))}"
            hint = JUDGEMENTS_HINT if kind == JUDGEMENTS else HINT
            return out.failed(LabelsError(pair, expected=f"the same {kind} in every row", got=got, hint=hint), LABELS)
        if error := _different_weights(pair, first.weights, model.weights):
            return out.failed(error)
    return out


def _match_by_ids(models: Mapping[str, InMemory], ids: dict[str, np.ndarray], out: Matched) -> Matched:
    base, base_ids = next(iter(ids.items()))
    if len({own.dtype.kind in "OUS" for own in ids.values()}) > 1:
        got = "text in some models and numbers in others"
        return out.failed(InputError("ids", expected="ids of one type", got=got, hint=HINT))
    in_all = np.ones(len(base_ids), bool)
    for own in ids.values():
        in_all &= np.isin(base_ids, own)
    if not in_all.any():
        return out.failed(InputError("ids", expected="rows that all models have", got="models share no id", hint=HINT))
    common = np.sort(base_ids[in_all], kind="stable")
    for name, own in ids.items():
        order = np.argsort(own, kind="stable")
        out.rows[name] = order[np.searchsorted(own[order], common)]
    order, *orders = (np.argsort(rows, kind="stable") for rows in out.rows.values())
    if all(np.array_equal(order, other) for other in orders):  # all models have these ids in one order
        out.rows = {name: rows[order] for name, rows in out.rows.items()}
    count = len(common)
    dropped = [f"{len(own) - count} of {len(own)} of {name}" for name, own in ids.items() if len(own) > count]
    if dropped:
        message = f"rows differ between models: {count} are in all models and compared; evaluate all models on the same"
        out.notes.append(Note(ROWS, f"{message} rows (left out: {listed(dropped)})", REFERENCE))
    return _drop_different_labels(models, base, out)


def _drop_different_labels(models: Mapping[str, InMemory], base: str, out: Matched) -> Matched:
    first = models[base][out.rows[base]]
    agree = np.ones(first.n, bool)
    for name, model in models.items():
        other = model[out.rows[name]]
        for kind, one, two in _outcomes(first, other, judgements=False):
            if (one is None) != (two is None):
                return out.failed(_no_labels(kind, *((base, first) if one is None else (name, other))), LABELS)
            if one is not None and two is not None:
                agree &= _equal_rows(one, two)
        if error := _different_weights(f"{base} and {name}", first.weights, other.weights):
            return out.failed(error)
    if not agree.any():
        if error := _different_classes(models):
            return out.failed(error, CLASSES)
        got = "different labels in every shared row"
        return out.failed(LabelsError("models", expected="the same labels", got=got, hint="check the ids"), LABELS)
    if not agree.all():
        message = f"labels of {int((~agree).sum())} of {len(agree)} rows differ between models: these rows are left out"
        out.notes.append(Note(LABELS, f"{message}; find out which labels are correct", REFERENCE))
        out.rows = {name: rows[agree] for name, rows in out.rows.items()}
    return out


def _no_labels(kind: str, name: str, model: InMemory) -> CalibrantError:
    """The error of a model without labels of a kind that other models have."""
    if kind == "labels" and getattr(model, "label_probs", None) is not None:
        return LabelsError(name, expected=kind, got="soft labels", hint="give all models labels of one kind")
    return LabelsError(name, expected=kind, got="none", hint=f"add {kind}, which other models have")


def _different_classes(models: Mapping[str, InMemory]) -> CalibrantError | None:
    """The error of models with different numbers of classes, whose labels cannot be equal."""
    numbers = {name: int(getattr(model, "classes", 0)) for name, model in models.items()}
    if len(set(numbers.values())) < 2:
        return None
    hint = "give all models the same classes"
    return InputError("models", expected="the same number of classes", got=by_number(numbers), hint=hint)


def _different_weights(pair: str, one: np.ndarray | None, two: np.ndarray | None) -> CalibrantError | None:
    if one is None and two is None:
        return None
    if one is not None and two is not None and np.allclose(one, two, rtol=CLOSE, atol=0.0):
        return None
    got = "weights for one of them only" if one is None or two is None else "different weights"
    return InputError(pair, expected="the same weights of rows", got=got, hint="give all models one set of weights")


def _outcomes(first: InMemory, second: InMemory, judgements: bool) -> list[tuple[str, Any, Any]]:
    """The observed outcomes of two models, by kind; judgements: also whether answers are correct."""
    one, two = getattr(first, "labels", None), getattr(second, "labels", None)
    names = getattr(first, "class_names", None), getattr(second, "class_names", None)
    if one is not None and two is not None and names[0] and names[1] and names[0] != names[1]:
        one, two = (np.asarray(own)[labels] for own, labels in zip(names, (one, two), strict=True))
    out = [("labels", one, two), ("y", getattr(first, "y", None), getattr(second, "y", None))]
    out += [("soft labels", getattr(first, "label_probs", None), getattr(second, "label_probs", None))]
    if judgements:
        out.append((JUDGEMENTS, getattr(first, "correct", None), getattr(second, "correct", None)))
    return out


def truth_of(model: InMemory) -> np.ndarray | None:
    """The observed outcome of each row: labels, whether answers are correct, or y; None if unknown."""
    for name in ("labels", "correct", "y"):
        outcomes = getattr(model, name, None)
        if outcomes is not None:
            return np.asarray(outcomes)
    return None


def _equal_rows(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Whether rows (N,) are equal; numbers to the precision of float32."""
    if one.shape != two.shape:
        return np.zeros(len(one), bool)
    if one.dtype.kind == "f" and two.dtype.kind == "f":
        equal = np.isclose(one, two, rtol=CLOSE, atol=CLOSE if one.ndim > 1 else 0.0)
    else:
        equal = np.asarray(one == two)
    return equal.reshape(len(one), -1).all(axis=1)


def error_note(match: Matched) -> Note | None:
    """The error as a note, if rows cannot be matched."""
    if match.error is None:
        return None
    error = match.error
    return Note(match.code, f"{error.subject}: expected {error.expected}, got {error.got}; {error.hint}", REFERENCE)
