"""Fitted recalibrators in files: JSON, or .npz with the arrays apart. Nothing is executed from either."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_softmax

from calibrant.errors import FileError, UsageError, plain, show
from calibrant.predictions.files.stores import npz_store
from calibrant.predictions.files.writing import atomic_write
from calibrant.predictions.marks import read_marks, written
from calibrant.recalibration.base import Fitted, Map, Recalibrator
from calibrant.recalibration.report import Fit
from calibrant.recalibration.stored_fields import UNREADABLE, text, texts, whole

SCHEMA = 1
KIND = "recalibrator"
DO = "give a file that `save` or `calibrant recalibrate --save` wrote"
ARRAY = re.compile(r"map(0|[1-9][0-9]{0,4})\.(\w+)", re.ASCII)
"""How the arrays of maps are called in .npz."""
SUM = 1e-6
"""How far from one the probabilities of a trial may sum."""


# -------------------------------------------------------------------------------------------- writing
def save(made: Recalibrator, path: str | Path) -> Path:
    """Write a fitted recalibrator: .json is text, .npz has the arrays as such; whole or not at all."""
    path, data = Path(path), to_json(made)
    if path.suffix.lower() == ".json":
        with atomic_write(path) as stream:
            stream.write((json.dumps(data, indent=1, default=_listed) + "\n").encode())
        return path
    if path.suffix.lower() == ".npz":
        arrays = {}
        for number, known in enumerate(data["maps"]):
            for key in [key for key, value in known.items() if isinstance(value, np.ndarray)]:
                arrays[f"map{number}.{key}"] = known.pop(key)
        with atomic_write(path) as stream:
            np.savez(stream, recalibrator=np.array(json.dumps(data)), **arrays)
        return path
    raise UsageError(
        str(path), expected="a name that ends in .json or .npz", came=f"it ends in {show(path.suffix)}", do="choose one"
    )


def to_json(made: Recalibrator) -> dict[str, Any]:
    """A fitted recalibrator as data, arrays being left as arrays."""
    found = made.found
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "version": import_module("calibrant").__version__,
        "method": made.name,
        "options": made.options(),
        "task": found.task,
        "classes": found.classes,
        "class_names": None if found.class_names is None else list(found.class_names),
        "member_names": None if found.member_names is None else list(found.member_names),
        "fitted_on": found.name,
        "marks": found.marks,
        "maps": [each.parameters() for each in found.maps],
        "fits": [fit.to_json() for fit in found.fits],
    }


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in JSON")


# -------------------------------------------------------------------------------------------- reading
def load(path: str | Path) -> Recalibrator:
    """The recalibrator of a file that `save` wrote; any other file is refused in one line."""
    path = Path(path)
    try:
        data = _read_npz(path) if path.suffix.lower() == ".npz" else json.loads(path.read_text(encoding="utf-8"))
        return from_json(data)
    except FileError:
        raise
    except UNREADABLE as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__} {error}"
        came = f"it cannot be read as one ({plain(reason, 120)})"
        raise FileError(str(path), expected="a fitted recalibrator", came=came, do=DO) from error


def from_json(data: dict[str, Any]) -> Recalibrator:
    """The recalibrator that `to_json` described."""
    from calibrant.recalibration.methods import method_class

    if data["kind"] != KIND or data["schema"] != SCHEMA:
        raise ValueError(f"kind {data['kind']!r}, schema {data['schema']!r}")
    method = method_class(text(data["method"], "method"))
    made = method(**data["options"])
    maps = tuple(method.map_class.restored(parameters) for parameters in data["maps"])
    fits = tuple(Fit.from_json(fit) for fit in data["fits"])
    many = made.members == "each" and bool(fields(method.map_class))  # a map without numbers serves every member
    if not (maps and (many or len(maps) == 1)) or len(fits) != (1 if method.together else len(maps)):
        raise ValueError(f"{len(maps)} maps and {len(fits)} reports, of members={made.members}")
    classes = _classes(data, method)
    for found in maps:
        _check_map(found, 2 if classes is None else classes)
    names = data["class_names"], data["member_names"]
    if (names[0] is not None and classes is None) or (names[1] is not None and not many):
        raise ValueError("names of what is not there")
    made.fitted = Fitted(
        maps=maps,
        fits=fits,
        task=data["task"],
        classes=classes,
        class_names=None if names[0] is None else texts(names[0], "class_names", classes),
        member_names=None if names[1] is None else texts(names[1], "member_names", len(maps)),
        name=text(data["fitted_on"], "fitted_on"),
        marks=written(read_marks(data.get("marks", ""))),
    )
    return made


def _classes(data: dict[str, Any], method: type[Recalibrator]) -> int | None:
    """The number of classes, which class predictions alone have."""
    if text(data["task"], "task") not in method.tasks:
        raise ValueError(f"{method.name} for {data['task']}")
    if data["task"] == "classification":
        return whole(data["classes"], "classes", 2)
    if data["classes"] is not None:
        raise ValueError(f"classes of {data['task']} predictions")
    return None


def _check_map(found: Map, classes: int) -> None:
    """Refuse a map of another number of classes, and one whose predictions of some rows are none."""
    if not found.is_for(classes):
        raise ValueError(f"a map that is not one of {classes} classes")
    with np.errstate(all="ignore"):
        if not _works(found, classes):
            raise ValueError("a map that makes no predictions")


def _works(found: Any, classes: int) -> bool:
    """Whether a trial ends in probabilities, standard deviations or levels."""
    from calibrant.recalibration.class_rows import ClassMap
    from calibrant.recalibration.gaussian_rows import SpreadMap
    from calibrant.recalibration.levels import LevelsMap

    if isinstance(found, ClassMap):
        rows = np.vstack([np.zeros(classes), np.random.default_rng(0).normal(0.0, 2.0, (3, classes))])
        made = found.apply(log_softmax(rows, axis=1))
        probs = np.exp(made) if found.kind == "log_probs" else made
        whole_rows = probs.shape == rows.shape and (np.abs(probs.sum(axis=1) - 1.0) < SUM).all()
        return bool(whole_rows and (probs >= 0.0).all())
    if isinstance(found, SpreadMap):
        spread = found.apply(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
        return bool(spread.shape == (2,) and (spread > 0.0).all() and np.isfinite(spread).all())
    if isinstance(found, LevelsMap):
        levels = np.concatenate([turn(np.array([0.1, 0.5, 0.9])) for turn in (found.apply, found.inverse)])
        return bool(((levels >= 0.0) & (levels <= 1.0)).all())
    return True


def _read_npz(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        arrays = {name: entry.load() for name, entry in npz_store(path, stream).items()}
    data: dict[str, Any] = json.loads(str(arrays.pop("recalibrator")))
    for name, array in arrays.items():
        known = ARRAY.fullmatch(name)
        if known is None or int(known[1]) >= len(data["maps"]) or known[2] in data["maps"][int(known[1])]:
            raise ValueError(f"an array {show(name)} that belongs to no map")
        data["maps"][int(known[1])][known[2]] = array
    return data
