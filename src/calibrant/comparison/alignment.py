"""The same rows of several models in one order: by `ids` where all have them, else as they come.

With ids: the rows that all models have, in the order in which all have them, or in that of the ids where orders differ:
the order of models is of no matter. Ids that repeat are matched only where all models have them in one order. Rows
whose labels are not the same in all are left out. Without ids nothing can be matched: as many rows and the same labels
are asked for. Whether a judged answer is right is the model's own affair: `correct` is no label of the row, and is
compared only where there are no ids to know rows by. Weights belong to rows and must be the same. A column that only
some models have is given to the others, so that units and slices are there for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant.comparison.listing import by_number, listed
from calibrant.errors import CalibrantError, InputError, LabelsError, ShapeError
from calibrant.predictions import InMemory
from calibrant.predictions.base import Note

ROWS, LABELS, CLASSES = "different-rows", "different-labels", "different-classes"
REFERENCE = "Ashukha et al. (2020), section 2.6: models are compared on one test set"
DO = "give the same rows in the same order, or ids by which they are matched"
OWN = "judgements of each model's own answers need ids, by which rows are matched (see own-answers)"
JUDGEMENTS = "judgements"
CLOSE = 1e-6


@dataclass
class Matched:
    """Which rows of each model are the same, and what was met on the way."""

    rows: dict[str, np.ndarray] = field(default_factory=dict)
    """By model, the places of its rows; empty where they cannot be matched."""
    notes: list[Note] = field(default_factory=list)
    error: CalibrantError | None = None
    """Why they cannot be matched."""
    code: str = ROWS
    """The pitfall that the error is."""

    def refused(self, error: CalibrantError, code: str = ROWS) -> Matched:
        """The same without rows."""
        return replace(self, rows={}, error=error, code=code)


def aligned(models: Mapping[str, InMemory]) -> tuple[dict[str, InMemory], tuple[Note, ...]]:
    """The models with their common rows in one order, and notes of what was left out; an error where there is none."""
    found = matched(models)
    if found.error is not None:
        raise found.error
    kept = {name: _taken(model, found.rows[name]) for name, model in models.items()}
    return _with_all_columns(kept), tuple(found.notes)


def matched(models: Mapping[str, InMemory]) -> Matched:
    """The rows that are the same in all models."""
    out = Matched({name: np.arange(model.n) for name, model in models.items()})
    if len(models) < 2:
        return out
    tasks = sorted({model.task for model in models.values()})
    if len(tasks) > 1:
        return out.refused(
            InputError("models", expected="models of one kind", came=f"they are {' and '.join(tasks)}", do="keep one")
        )
    ids = {name: model.info.ids for name, model in models.items()}
    if any(known is None for known in ids.values()):
        return _by_place(models, out, "they have no ids in common")
    unique = all(len(np.unique(known)) == len(known) for known in ids.values())  # type: ignore[arg-type]
    if not unique:
        return _by_place(models, out, "ids repeat and are not in one order")
    return _by_ids(models, {name: np.asarray(known) for name, known in ids.items()}, out)


Named = tuple[str, InMemory]


# ------------------------------------------------------------------------------------------------- by place
def _by_place(models: Mapping[str, InMemory], out: Matched, why: str) -> Matched:
    first, *others = models.items()
    for name, model in others:
        pair = f"{first[0]} and {name}"
        if first[1].n != model.n:
            came = f"they have {first[1].n} and {model.n}, and {why}"
            return out.refused(ShapeError(pair, expected="as many rows", came=came, do=DO))
        one, two = first[1].info.ids, model.info.ids
        if one is not None and two is not None and not _same(one, two).all():
            came = f"{why}, first in row {int(np.argmin(_same(one, two)))}"
            return out.refused(InputError(pair, expected="the same rows", came=came, do=DO))
        refused = _other_labels(first, (name, model))
        if refused is not None:
            return out.refused(*refused)
        error = _other_weights(pair, first[1].weights, model.weights)
        if error is not None:
            return out.refused(error)
    return out


def _other_labels(first: Named, second: Named) -> tuple[CalibrantError, str] | None:
    own = first[1].info.ids is None or second[1].info.ids is None
    for what, one, two in _truths(first[1], second[1], own=own):
        if (one is None) != (two is None):
            return _none(what, first if one is None else second)
        if one is None or two is None:
            continue
        same = _same(one, two)
        if not same.all():
            came = f"{int((~same).sum())} of {len(same)} differ, first in row {int(np.argmin(same))}"
            do = OWN if what == JUDGEMENTS else DO
            error = LabelsError(
                f"{first[0]} and {second[0]}", expected=f"the same {what} in every row", came=came, do=do
            )
            return _other_classes(dict([first, second])) or (error, LABELS)
    return None


def _none(what: str, of: Named) -> tuple[CalibrantError, str]:
    """The error of a model without labels, where the others have them."""
    name, model = of
    soft = what == "labels" and getattr(model, "label_probs", None) is not None
    came = "it has soft labels" if soft else "there are none"
    do = "give all models labels of one kind" if soft else "add them: the other models have them"
    return LabelsError(name, expected=what, came=came, do=do), LABELS


def _other_classes(models: Mapping[str, InMemory]) -> tuple[CalibrantError, str] | None:
    """The error of labels that cannot be the same, since there are more classes in some models."""
    numbers = {name: int(getattr(model, "classes", 0)) for name, model in models.items()}
    if len(set(numbers.values())) < 2:
        return None
    do = "give all models the same classes"
    return InputError("models", expected="as many classes", came=f"they differ ({by_number(numbers)})", do=do), CLASSES


def _other_weights(pair: str, one: np.ndarray | None, two: np.ndarray | None) -> CalibrantError | None:
    if one is None and two is None:
        return None
    if one is not None and two is not None and np.allclose(one, two, rtol=CLOSE, atol=0.0):
        return None
    came = "one of them has none" if one is None or two is None else "they differ"
    return InputError(pair, expected="the same weights of rows", came=came, do="weights belong to rows: give one set")


# --------------------------------------------------------------------------------------------------- by ids
def _by_ids(models: Mapping[str, InMemory], ids: dict[str, np.ndarray], out: Matched) -> Matched:
    base, base_ids = next(iter(ids.items()))
    kinds = {"text" if known.dtype.kind in "OUS" else "numbers" for known in ids.values()}
    if len(kinds) > 1:
        came = "those of some are text and those of others numbers"
        return out.refused(InputError("ids", expected="ids of one kind", came=came, do=DO))
    common = np.ones(len(base_ids), bool)
    for known in ids.values():
        common &= np.isin(base_ids, known)
    if not common.any():
        return out.refused(InputError("ids", expected="rows that all models have", came="they share no id", do=DO))
    _put_in_order(ids, base_ids[common], out)
    kept = int(common.sum())
    left = [f"{len(known) - kept} of {len(known)} of {name}" for name, known in ids.items() if len(known) > kept]
    if left:
        message = f"rows are not the same: {kept} are in all models and compared; evaluate all models on the same rows"
        out.notes.append(Note(ROWS, f"{message} (left out: {listed(left)})", REFERENCE))
    return _same_labels(models, base, out)


def _put_in_order(ids: dict[str, np.ndarray], wanted: np.ndarray, out: Matched) -> None:
    """Where all models have these ids in one order, that one; else that of the ids, which no model decides."""
    wanted = np.sort(wanted, kind="stable")
    for name, known in ids.items():
        order = np.argsort(known, kind="stable")
        out.rows[name] = order[np.searchsorted(known[order], wanted)]
    first, *others = (np.argsort(rows, kind="stable") for rows in out.rows.values())
    if all(np.array_equal(first, order) for order in others):
        out.rows = {name: rows[first] for name, rows in out.rows.items()}


def _same_labels(models: Mapping[str, InMemory], base: str, out: Matched) -> Matched:
    first = models[base][out.rows[base]]
    agree = np.ones(first.n, bool)
    for name, model in models.items():
        other = model[out.rows[name]]
        pair = f"{base} and {name}"
        for what, one, two in _truths(first, other, own=False):
            if (one is None) != (two is None):
                return out.refused(*_none(what, (base, first) if one is None else (name, other)))
            if one is not None and two is not None:
                agree &= _same(one, two)
        refused = _other_weights(pair, first.weights, other.weights)
        if refused is not None:
            return out.refused(refused)
    if not agree.any():
        came = "they agree in no row that all models have"
        error = LabelsError("models", expected="the same labels", came=came, do="look at the ids")
        return out.refused(*(_other_classes(models) or (error, LABELS)))
    if not agree.all():
        message = f"labels of {int((~agree).sum())} of {len(agree)} rows are not the same in all models"
        message += "; these rows are left out: find out which labels are right"
        out.notes.append(Note(LABELS, message, REFERENCE))
        out.rows = {name: rows[agree] for name, rows in out.rows.items()}
    return out


# --------------------------------------------------------------------------------------------------- values
def _truths(first: InMemory, second: InMemory, own: bool) -> list[tuple[str, Any, Any]]:
    """What came true in both; own: whether answers are right, too, which belongs to the model."""
    one, two = getattr(first, "labels", None), getattr(second, "labels", None)
    names = getattr(first, "class_names", None), getattr(second, "class_names", None)
    if one is not None and two is not None and names[0] and names[1] and names[0] != names[1]:
        one, two = (np.asarray(known)[labels] for known, labels in zip(names, (one, two), strict=True))
    out = [("labels", one, two), ("y", getattr(first, "y", None), getattr(second, "y", None))]
    out += [("soft labels", getattr(first, "label_probs", None), getattr(second, "label_probs", None))]
    if own:
        out.append((JUDGEMENTS, getattr(first, "correct", None), getattr(second, "correct", None)))
    return out


def truth_of(model: InMemory) -> np.ndarray | None:
    """What came true of each row: labels, whether answers are right, or numbers; nothing where it is not known."""
    for name in ("labels", "correct", "y"):
        found = getattr(model, name, None)
        if found is not None:
            return np.asarray(found)
    return None


def _same(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """(N,) whether rows are equal; numbers to the precision of float32."""
    if one.shape != two.shape:
        return np.zeros(len(one), bool)
    if one.dtype.kind == "f" and two.dtype.kind == "f":
        equal = np.isclose(one, two, rtol=CLOSE, atol=CLOSE if one.ndim > 1 else 0.0)
    else:
        equal = np.asarray(one == two)
    return equal.reshape(len(one), -1).all(axis=1)


def _taken(model: InMemory, rows: np.ndarray) -> InMemory:
    return model if len(rows) == model.n and bool((rows == np.arange(model.n)).all()) else model[rows]


def _with_all_columns(models: dict[str, InMemory]) -> dict[str, InMemory]:
    """Columns that a model lacks, from the first that has them; of two that differ each keeps its own."""
    known: dict[str, np.ndarray] = {}
    for model in models.values():
        known = {**model.columns, **known}
    out: dict[str, InMemory] = {}
    for name, model in models.items():
        lacking = {key: column for key, column in known.items() if key not in model.columns}
        info = replace(model.info, columns={**model.columns, **lacking}) if lacking else model.info
        out[name] = model._with_info(info) if lacking else model
    return out


def refusal(found: Matched) -> Note | None:
    """The error as a note, for those who only look."""
    if found.error is None:
        return None
    error = found.error
    return Note(found.code, f"{error.subject}: expected {error.expected}, but {error.came}; {error.do}", REFERENCE)
