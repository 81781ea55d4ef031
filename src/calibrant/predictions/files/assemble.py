"""From named arrays to predictions: the kind, the rows, the columns, and the arrays that are ignored.

A `Plan` is made from names and shapes alone, before any values are loaded, so that shards can be compared and read
block by block.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import FileError, ShapeError, plain, show
from calibrant.predictions import Classification, InMemory, Judged, Regression
from calibrant.predictions.arrays import CONSTANTS, RESERVED, SCORE_KEYS, row_axis
from calibrant.predictions.base import Note
from calibrant.predictions.files.binary import LazyArrays
from calibrant.predictions.files.sources import ARROW, TEXT
from calibrant.records import Record

COMPANIONS = {
    "classification": ("labels", "label_probs", "classes", "member_names"),
    "judged": ("correct",),
    "graded": (),
    "gaussian": ("y", "member_names"),
    "samples": ("y",),
    "quantiles": ("y", "levels"),
}
"""The arrays that may accompany each kind of predictions, besides ids, weights, meta and columns."""
COMMON = ("ids", "weights", "meta")
ONE_PER_ROW = ("labels", "correct", "y", "ids", "weights")
PREDICTION_KEYS = (
    "exactly one of logits, log_probs, probs; or confidence (with correct); or for regression mean with std or var, "
    "samples, or quantiles with levels"
)

# Likely names of columns, in lower case, the most likely first; used in hints only.
USUAL_NAMES = {
    "labels": ("label", "labels", "target", "targets", "truth", "true", "y_true", "y", "class", "gold", "outcome"),
    "prob": ("prob", "probability", "p", "proba", "p1", "risk", "score", "y_prob", "y_score"),
    "confidence": ("confidence", "conf"),
    "correct": ("correct", "is_correct", "right"),
    "y": ("y", "y_true", "target", "targets", "truth", "true", "observed", "outcome", "actual", "label"),
    "mean": ("mean", "mu", "pred", "prediction", "y_pred", "predicted", "forecast"),
    "std": ("std", "sigma", "sd", "stddev", "y_std", "uncertainty"),
    "var": ("var", "variance"),
}
OUTCOMES = ("label", "target", "targets", "truth", "y_true", "gold")
"""Names that hardly any column but the outcomes has."""
SCORE_PREFIXES = {"logits": ("logit", "logits", "z"), "probs": ("p", "prob", "probs", "proba", "probability")}
MAX_SUGGESTED = 40
"""Characters of a name up to which it is suggested."""


@dataclass(frozen=True)
class Plan(Record):
    """The content of one shard: kind, prediction arrays, rows, accompanying arrays, columns and ignored arrays."""

    REPR_FIELDS = ("family", "main", "n")

    path: Path
    family: str
    main: tuple[str, ...]
    n: int
    known: tuple[str, ...]
    columns: tuple[str, ...]
    ignored: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    """Shapes of the arrays in use, without the axis of rows."""
    full: Mapping[str, tuple[int, ...]]
    """Shapes of the arrays in use."""

    @classmethod
    def of(cls, store: LazyArrays, path: Path, strict: bool = False, elsewhere: frozenset[str] = frozenset()) -> Plan:
        """Interpret names and shapes; arrays in `elsewhere` are read by other inputs and are not reported."""
        family, main = _family(store, path)
        if not store[main[0]].shape:
            store[main[0]].load()  # raises for a column of an unreadable type
            expected, hint = "at least one entry per row", "check how the file was written"
            raise FileError(f"{path}: {main[0]}", expected=expected, got="shape ()", hint=hint)
        shape = store[main[0]].shape
        n = shape[row_axis(main[0], len(shape))]
        known = tuple(key for key in (*COMPANIONS[family], *COMMON) if key in store)
        right, wrong = ("labels", "y") if family == "classification" else ("y", "labels")
        if family not in ("judged", "graded") and wrong in store and right not in store and "label_probs" not in store:
            expected, got = f"outcomes under {show(right)}, for {family} predictions", f"outcomes under {show(wrong)}"
            raise FileError(str(path), expected=expected, got=got, hint=f"rename the array: FILE::{right}={wrong}")
        others = [key for key in store if key not in (*main, *known, *elsewhere)]
        columns = tuple(key for key in others if store[key].shape == (n,) and key not in RESERVED)
        ignored = {key: f"{show(key)} {store[key].shape}" for key in others if key not in columns}
        if strict and ignored:
            expected, got = f"only known keys and columns of length {n} (strict)", ", ".join(ignored.values())
            raise FileError(str(path), expected=expected, got=got, hint="remove or rename them, or leave --strict out")
        used = [key for key in (*main, *known, *columns) if key not in CONSTANTS]
        for key in used:
            if not store[key].shape:
                store[key].load()  # raises for a column of an unreadable type
        full = {key: store[key].shape for key in used}
        axes = {key: row_axis(key, len(shape)) for key, shape in full.items()}
        shapes = {key: shape[: axes[key]] + shape[axes[key] + 1 :] for key, shape in full.items()}
        return cls(path, family, main, n, known, columns, ignored, shapes, full)

    def notes(self) -> list[Note]:
        """Notes on ignored arrays, and on a column that probably holds the outcomes."""
        out = [] if not self.overlooked else [Note("no-outcomes", f"{self.path.name}: {self.overlooked}")]
        if not self.ignored:
            return out
        other_kinds = [text for key, text in self.ignored.items() if key in RESERVED]
        misfits = [text for key, text in self.ignored.items() if key not in RESERVED]
        reasons = [f"{', '.join(misfits)} (no key of the format and not of length {self.n})"] * bool(misfits)
        reasons += [f"{', '.join(other_kinds)} (not used with {self.main[0]})"] * bool(other_kinds)
        return [*out, Note("ignored-arrays", f"{self.path.name}: ignored {'; '.join(reasons)}")]

    @property
    def overlooked(self) -> str:
        """If there are no outcomes: which column probably holds them, and how to read it."""
        outcome = {"classification": "labels", "judged": "correct", "graded": "correct"}.get(self.family, "y")
        column = next((name for name in self.columns if name.lower() in OUTCOMES), None)
        if column is None or {outcome, "label_probs"} & {*self.known, *self.main}:
            return ""
        return f"no {show(outcome)}; if {show(column)} holds the outcomes, read FILE::{outcome}={plain(column)}"

    def by_row(self) -> list[str]:
        """The arrays with rows, in order."""
        return [key for key in (*self.main, *self.known, *self.columns) if key not in CONSTANTS]

    def constants(self) -> list[str]:
        """The arrays without rows."""
        return [key for key in self.known if key in CONSTANTS]

    def check_rows(self) -> None:
        """Raise `ShapeError` for arrays of another length, before they are read in blocks, which would hide it."""
        main = self.main[0]
        many = 3 if self.family == "classification" else 2
        for key, shape in self.full.items():
            expected = f"at least one entry for each of the {self.n} rows of {main}"
            valid = shape and shape[row_axis(key, len(shape))] == self.n and 0 not in self.shapes[key]
            if key == main:
                expected, valid = f"at least one row and at most {many} axes", valid and len(shape) <= many
            elif key in ONE_PER_ROW:
                expected, valid = f"one entry for each of the {self.n} rows of {main}", shape == (self.n,)
            elif key in self.main:
                expected, valid = f"the shape of {main}, {self.full[main]}", shape == self.full[main]
            if not valid:
                transposed = shape and self.n != shape[0] and shape[0] in self.full[main]
                hint = f"transpose {main}" if transposed else f"write one entry per row of {main}"
                raise ShapeError(f"{self.path}: {key}", expected=expected, got=f"shape {shape}", hint=hint)

    def check_fits(self, first: Plan) -> None:
        """Raise `FileError` for a shard with other arrays than the first."""
        if (self.family, self.main) != (first.family, first.main):
            raise self._misfit(first, f"{', '.join(self.main)}", f"{', '.join(first.main)}")
        for names, others in ((self.shapes, first.shapes), (self.constants(), first.constants())):
            for key in sorted(set(names) ^ set(others)):
                got = f"{show(key)}, an additional array" if key in names else f"no {show(key)}"
                raise self._misfit(first, got, "the same arrays")
        for key, shape in self.shapes.items():
            if shape != first.shapes[key]:
                expected = f"{show(key)} of shape {first.shapes[key]} per row"
                raise self._misfit(first, f"shape {shape}", expected)

    def _misfit(self, first: Plan, got: str, expected: str) -> FileError:
        hint = "write all shards with the same arrays, or remove this file"
        return FileError(str(self.path), expected=f"{expected}, as in {first.path.name}", got=got, hint=hint)


def _family(store: LazyArrays, path: Path) -> tuple[str, tuple[str, ...]]:
    """The kind of predictions, and the arrays that hold them."""
    keys = [key for key in (*SCORE_KEYS, "confidence") if key in store]
    spread = [key for key in ("std", "var") if key in store]
    if len(keys) == 1 and not ("mean" in store and spread):
        return ("judged" if keys == ["confidence"] else "classification"), (keys[0],)
    candidates: tuple[str, ...] = ("mean", "samples", "quantiles")
    regression = [key for key in candidates if key in store]
    keys += regression
    if not keys and "correct" in store:
        return "graded", ("correct",)
    if keys != regression or len(regression) != 1:
        if keys:
            hint = "remove all but one, or write them to separate files"
            raise FileError(str(path), expected=PREDICTION_KEYS, got=", ".join(keys), hint=hint)
        hint = "rename the arrays: FILE::logits=NAME,labels=NAME"
        if path.suffix.lower() in (*TEXT, *ARROW):
            options = suggest_options(store) or (
                "--labels COL with --probs 'p_*' or --prob COL, or --confidence COL --correct COL, "
                "or --y COL with --mean COL --std COL, --samples 's_*' or --quantiles 'q_*'"
            )
            hint = f"name the columns, perhaps {options}"
        raise _missing(path, PREDICTION_KEYS, store, hint)
    if regression == ["quantiles"] and "levels" not in store:
        raise _missing(path, "levels (Q,) with quantiles", store, "add the array levels, the Q probabilities")
    if regression != ["mean"]:
        return regression[0], (regression[0],)
    if len(spread) != 1:
        hint = "remove one of them" if spread else "write point predictions of several models under 'samples'"
        raise _missing(path, "mean with exactly one of std and var", store, hint)
    return "gaussian", ("mean", spread[0])


def _missing(path: Path, expected: str, store: LazyArrays, hint: str) -> FileError:
    names = ", ".join(show(key) for key in list(store)[:12]) or "nothing"
    return FileError(str(path), expected=expected, got=names, hint=hint)


def suggest_options(names: Iterable[str]) -> str:
    """The command-line options that probably name these columns, or "" if too little is known."""
    columns = {name.lower(): name for name in names if len(name) <= MAX_SUGGESTED and plain(name) == name}
    likely = {
        key: next((columns[name] for name in usual if name in columns), None) for key, usual in USUAL_NAMES.items()
    }
    options: dict[str, str | None] = {}
    for key, prefixes in SCORE_PREFIXES.items():
        counts = Counter(name.rpartition("_")[0] for name in columns)
        prefix = next((prefix for prefix in prefixes if counts[prefix] > 1), None)
        if prefix is not None and not options:
            first = next(name for lower, name in columns.items() if lower.startswith(f"{prefix}_"))
            options = {"labels": likely["labels"], key: first[: len(prefix)] + "_*"}
    spread = "var" if likely["std"] is None else "std"
    for keys in (("confidence", "correct"), ("y", "mean", spread), ("labels", "prob")):
        if not options and all(likely[key] is not None for key in keys):
            options = {key: likely[key] for key in keys}
    return " ".join(  # quoted as in a shell
        f"--{key} {name if name.replace('_', '').isalnum() else show(name)}" for key, name in options.items() if name
    )


def build(plan: Plan, arrays: Mapping[str, np.ndarray], name: str, *, check: bool = True) -> InMemory:
    """Predictions from the arrays of a plan; `check`: validate every value now (evaluation does so too)."""
    known: dict[str, Any] = {key: arrays[key] for key in plan.known if key in arrays}
    known["columns"] = {key: arrays[key] for key in plan.columns if key in arrays}
    known["name"] = name
    if "meta" in known:
        text = known["meta"]
        try:
            known["meta"] = json.loads(str(text[()] if text.ndim == 0 else text.ravel()[0]))
        except (ValueError, IndexError, RecursionError):
            known["meta"] = None
        if not isinstance(known["meta"], dict):
            got, hint = show(text.ravel()[:1]), "write numpy.array(json.dumps({...}))"
            raise FileError(f"{plan.path}: meta", expected="a JSON object as text", got=got, hint=hint)
    main = [arrays[key] for key in plan.main]
    if plan.family == "classification":
        return Classification.build(plan.main[0], main[0], check=check, **known)
    if plan.family == "judged":
        return Judged.from_confidence(main[0], **known)
    if plan.family == "graded":
        return Judged.from_correct(main[0], **known)
    if plan.family == "gaussian":
        known[plan.main[1]] = main[1]
        return Regression.from_gaussian(main[0], **known)
    if plan.family == "samples":
        return Regression.from_samples(main[0], **known)
    return Regression.from_quantiles(main[0], **known)
