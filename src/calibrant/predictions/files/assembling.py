"""From named arrays to predictions: which kind they are, what fits the rows, and what does not.

A `Plan` is made from names and shapes alone, before anything is loaded, so that shards can be compared, and read block
by block.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import FileError, ShapeError, plain, show
from calibrant.predictions import Classification, InMemory, Judged, Regression
from calibrant.predictions.base import RESERVED, Note
from calibrant.predictions.files.axes import CONSTANTS, row_axis
from calibrant.predictions.files.npy import memory_limit
from calibrant.predictions.files.shards import ARROW, TEXT
from calibrant.predictions.files.stores import Store
from calibrant.predictions.files.suggesting import outcome_among, suggested
from calibrant.predictions.files.tables import SCORE_KEYS

COMPANIONS = {
    "classification": ("labels", "label_probs", "classes", "member_names"),
    "judged": ("correct",),
    "gaussian": ("y", "member_names"),
    "samples": ("y",),
    "quantiles": ("y", "levels"),
}
"""What goes with each family of predictions, beside ids, weights, meta and columns."""
ANY = ("ids", "weights", "meta")
ONE_A_ROW = ("labels", "correct", "y", "ids", "weights")
WANTED = (
    "exactly one of logits, log_probs, probs; or confidence (with correct); or for regression mean with std or var, "
    "samples, or quantiles with levels"
)


@dataclass(frozen=True)
class Plan:
    """What one shard gives: its family, the arrays that hold predictions, its rows, what goes with them, the rest."""

    path: Path
    family: str
    main: tuple[str, ...]
    n: int
    known: tuple[str, ...]
    columns: tuple[str, ...]
    ignored: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    """Of the arrays that are used, without the axis of rows."""
    full: Mapping[str, tuple[int, ...]]
    """Their whole shapes."""

    @classmethod
    def of(cls, store: Store, path: Path, strict: bool = False, elsewhere: frozenset[str] = frozenset()) -> Plan:
        """Decide from names and shapes; elsewhere: arrays that are read by others, of which nothing is said."""
        family, main = _family(store, path)
        n = _rows(store, main[0], path)
        known = tuple(key for key in (*COMPANIONS[family], *ANY) if key in store)
        _refuse_other_outcomes(store, family, path)
        others = [key for key in store if key not in (*main, *known, *elsewhere)]
        columns = tuple(key for key in others if store[key].shape == (n,) and key not in RESERVED)
        ignored = {key: f"{show(key)} {store[key].shape}" for key in others if key not in columns}
        if strict and ignored:
            raise FileError(
                str(path),
                expected=f"only known keys and columns of length {n} (strict)",
                came=f"found {', '.join(ignored.values())}",
                do="remove or rename them, or leave --strict out",
            )
        used = [key for key in (*main, *known, *columns) if key not in CONSTANTS]
        for key in used:
            if not store[key].shape:
                store[key].load()  # a column of a type that is not read says so
        full = {key: store[key].shape for key in used}
        shapes = {key: _without_rows(key, shape) for key, shape in full.items()}
        return cls(path, family, main, n, known, columns, ignored, shapes, full)

    def notes(self) -> list[Note]:
        """What fits nothing, and a column that probably holds what came true, said once."""
        out = [] if not self.overlooked else [Note("no-outcomes", f"{self.path.name}: {self.overlooked}")]
        if not self.ignored:
            return out
        strange = [text for key, text in self.ignored.items() if key in RESERVED]
        misfits = [text for key, text in self.ignored.items() if key not in RESERVED]
        said = [f"{', '.join(misfits)} fit no key and not the {self.n} rows"] * bool(misfits)
        said += [f"{', '.join(strange)} go with other kinds of predictions than {self.main[0]}"] * bool(strange)
        return [*out, Note("ignored-arrays", f"{self.path.name}: {'; '.join(said)}, and were ignored")]

    @property
    def overlooked(self) -> str:
        """Where nothing came true: a column that is probably meant, under another name than ours, and how to say so."""
        wanted = {"classification": "labels", "judged": "correct"}.get(self.family, "y")
        column = None if {wanted, "label_probs"} & {*self.known} else outcome_among(self.columns)
        if column is None:
            return ""
        return f"there is no {show(wanted)}; if {show(column)} holds it, read it as FILE::{wanted}={plain(column)}"

    def by_row(self) -> list[str]:
        """The arrays that have rows, in order."""
        return [key for key in (*self.main, *self.known, *self.columns) if key not in CONSTANTS]

    def constants(self) -> list[str]:
        """The arrays that have none."""
        return [key for key in self.known if key in CONSTANTS]

    def check_rows(self) -> None:
        """Refuse arrays of other lengths before they are read side by side, in blocks that would not show them."""
        main = self.main[0]
        many = 3 if self.family == "classification" else 2
        for key, shape in self.full.items():
            expected = f"one entry or more for each of the {self.n} rows of {main}"
            sound = shape and shape[row_axis(key, len(shape))] == self.n and 0 not in self.shapes[key]
            if key == main:
                expected, sound = f"rows, and at most {many} axes", sound and len(shape) <= many
            elif key in ONE_A_ROW:
                expected, sound = f"one entry for each of the {self.n} rows of {main}", shape == (self.n,)
            elif key in self.main:
                expected, sound = f"the shape of {main}, {self.full[main]}", shape == self.full[main]
            if not sound:
                lies = shape and self.n != shape[0] and shape[0] in self.full[main]
                hint = f"transpose {main}" if lies else "give it the length of the predictions"
                raise ShapeError(f"{self.path}: {key}", expected=expected, came=f"its shape is {shape}", do=hint)

    def check_fits(self, first: Plan) -> None:
        """Refuse a shard that is not of the same make as the first."""
        if (self.family, self.main) != (first.family, first.main):
            raise self._misfit(first, f"it holds {', '.join(self.main)}", f"{', '.join(first.main)}")
        for key in sorted(set(self.shapes) ^ set(first.shapes)):
            lacks = key not in self.shapes
            raise self._misfit(first, f"{show(key)} is {'missing' if lacks else 'new'}", "the same arrays")
        for key, shape in self.shapes.items():
            if shape != first.shapes[key]:
                came = f"{show(key)} has shape {shape} beside its rows"
                raise self._misfit(first, came, f"{first.shapes[key]}")
        if self.constants() != first.constants():
            odd = sorted(set(self.constants()) ^ set(first.constants()))[0]
            lacks = odd in first.constants()
            raise self._misfit(first, f"{show(odd)} is {'missing' if lacks else 'new'}", "the same arrays")

    def _misfit(self, first: Plan, came: str, expected: str) -> FileError:
        return FileError(
            str(self.path),
            expected=f"{expected}, as in {first.path.name}",
            came=came,
            do="shards of one input are of one make: mend or leave out the odd one",
        )


def _family(store: Store, path: Path) -> tuple[str, tuple[str, ...]]:
    """The kind of predictions and the arrays that hold them."""
    scores = [key for key in SCORE_KEYS if key in store]
    found = scores + ["confidence"] * ("confidence" in store)
    spread = [key for key in ("std", "var") if key in store]
    if len(found) == 1 and not ("mean" in store and spread):
        return ("judged" if found == ["confidence"] else "classification"), (found[0],)
    candidates: tuple[str, ...] = ("mean", "samples", "quantiles")
    numbers = [key for key in candidates if key in store]
    if found or len(numbers) != 1:
        raise _undecided(store, path, found + numbers)
    if numbers != ["mean"]:
        if numbers == ["quantiles"] and "levels" not in store:
            raise _lacks(path, "levels (Q,) with quantiles", store, "say at which levels they are")
        return numbers[0], (numbers[0],)
    if len(spread) != 1:
        hint = "keep one of them" if spread else "several point predictions a row are 'samples'"
        raise _lacks(path, "mean with exactly one of std and var", store, hint)
    return "gaussian", ("mean", spread[0])


def _refuse_other_outcomes(store: Store, family: str, path: Path) -> None:
    """What came true is `labels` of classes and `y` of numbers: under the other name it would be left out."""
    wanted, found = ("labels", "y") if family == "classification" else ("y", "labels")
    if family != "judged" and found in store and wanted not in store and "label_probs" not in store:
        raise FileError(
            str(path),
            expected=f"what came true under {show(wanted)}, in a file of {family} predictions",
            came=f"it stands under {show(found)}",
            do=f"rename it on the way in: FILE::{wanted}={found}",
        )


def _rows(store: Store, key: str, path: Path) -> int:
    shape = store[key].shape
    if not shape:
        store[key].load()  # a column of a type that is not read says so
        raise FileError(
            f"{path}: {key}", expected="one entry or more a row", came="its shape is ()", do="check the file"
        )
    return shape[row_axis(key, len(shape))]


def _without_rows(key: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    axis = row_axis(key, len(shape))
    return shape[:axis] + shape[axis + 1 :]


def _undecided(store: Store, path: Path, found: list[str]) -> FileError:
    if found:
        return FileError(str(path), expected=WANTED, came=f"it has {', '.join(found)}", do="remove all but one")
    if path.suffix.lower() in (*TEXT, *ARROW):
        likely = suggested(store)
        hint = (
            f"name the columns, perhaps {likely}"
            if likely
            else (
                "name the columns: --labels COL with --probs 'p_*' or --prob COL, or --confidence COL --correct COL, "
                "or --y COL with --mean COL --std COL, --samples 's_*' or --quantiles 'q_*'"
            )
        )
        return _lacks(path, WANTED, store, hint)
    return _lacks(path, WANTED, store, "rename on the way in: FILE::logits=NAME,labels=NAME")


def _lacks(path: Path, expected: str, store: Store, do: str) -> FileError:
    names = ", ".join(show(key) for key in list(store)[:12]) or "nothing"
    return FileError(str(path), expected=expected, came=f"it holds {names}", do=do)


# ---------------------------------------------------------------------------------------- building
def total_bytes(store: Store, plan: Plan) -> int:
    """Bytes of the arrays of a shard that are used."""
    return sum(store[key].nbytes for key in (*plan.by_row(), *plan.constants()))


def check_total(total: int, plan: Plan) -> None:
    """Each array fits into memory; those that are needed, of all shards, must fit together."""
    if total > memory_limit():
        raise FileError(
            str(plan.path),
            expected=f"arrays of at most {memory_limit() / 2**30:.1f} GiB together, three quarters of the memory",
            came=f"they unpack to {total / 2**30:.1f} GiB",
            do="read it block by block with calibrant.scan, or set CALIBRANT_MAX_BYTES if it is meant",
        )


def build(plan: Plan, arrays: Mapping[str, np.ndarray], name: str, *, check: bool = True) -> InMemory:
    """Predictions from the arrays of a plan; `check`: look at every value now; the pass that reads them does it too."""
    known: dict[str, Any] = {key: arrays[key] for key in plan.known if key in arrays}
    known["columns"] = {key: arrays[key] for key in plan.columns if key in arrays}
    known["name"] = name
    if "meta" in known:
        known["meta"] = _meta(known["meta"], plan.path)
    main = [arrays[key] for key in plan.main]
    if plan.family == "classification":
        return Classification.build(plan.main[0], main[0], check=check, **known)
    if plan.family == "judged":
        return Judged.from_confidence(main[0], **known)
    if plan.family == "gaussian":
        known[plan.main[1]] = main[1]
        return Regression.from_gaussian(main[0], **known)
    if plan.family == "samples":
        return Regression.from_samples(main[0], **known)
    return Regression.from_quantiles(main[0], **known)


def _meta(value: np.ndarray, path: Path) -> dict[str, Any]:
    try:
        meta = json.loads(str(value[()] if value.ndim == 0 else value.ravel()[0]))
        if isinstance(meta, dict):
            return meta
    except (ValueError, IndexError, RecursionError):
        pass
    raise FileError(
        f"{path}: meta",
        expected="a JSON object as text",
        came=f"it is {show(value.ravel()[:1])}",
        do="write numpy.array(json.dumps({...}))",
    )
