"""Fitted conformal methods in JSON. Nothing is executed from a file."""

from __future__ import annotations

import json
import math
from importlib import import_module
from pathlib import Path
from typing import Any

from calibrant.errors import FileError, UsageError, plain, show
from calibrant.predictions.base import Note
from calibrant.predictions.files.writing import atomic_write
from calibrant.recalibration.conformal.base import Calibrated, Conformal
from calibrant.recalibration.conformal.classes import ConformalSets
from calibrant.recalibration.conformal.numbers import ConformalQuantiles, SplitConformal
from calibrant.recalibration.stored_fields import UNREADABLE, number, text, texts, whole

SCHEMA = 1
KIND = "conformal"
METHODS: dict[str, type[Conformal]] = {each.kind: each for each in (ConformalSets, SplitConformal, ConformalQuantiles)}


def save(made: Conformal, path: str | Path) -> Path:
    """Write a fitted method as .json, whole or not at all."""
    path = Path(path)
    if path.suffix.lower() != ".json":
        raise UsageError(
            str(path), expected="a name that ends in .json", came=f"it ends in {show(path.suffix)}", do="choose one"
        )
    data = json.dumps(to_json(made), indent=1, allow_nan=False)
    with atomic_write(path) as stream:
        stream.write((data + "\n").encode())
    return path


def to_json(made: Conformal) -> dict[str, Any]:
    """A fitted method as data; an infinite threshold is null."""
    found = made.found
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "version": import_module("calibrant").__version__,
        "method": made.kind,
        "options": made.options(),
        "threshold": found.threshold if math.isfinite(found.threshold) else None,
        "rows": found.n,
        "fitted_on": found.name,
        "classes": found.classes,
        "class_names": None if found.class_names is None else list(found.class_names),
        "levels": [found.lower, found.upper],
        "notes": [[note.code, note.message] for note in found.notes],
    }


def from_json(data: dict[str, Any]) -> Conformal:
    """The method that `to_json` described."""
    if data["kind"] != KIND or data["schema"] != SCHEMA:
        raise ValueError(f"kind {data['kind']!r}, schema {data['schema']!r}")
    made = METHODS[data["method"]](**data["options"])
    lower, upper = _levels(data, made)
    made.fitted = Calibrated(
        threshold=math.inf if data["threshold"] is None else number(data["threshold"], "threshold"),
        n=whole(data["rows"], "rows", 1),
        name=text(data["fitted_on"], "fitted_on"),
        **_classes(data, made),
        lower=lower,
        upper=upper,
        notes=tuple(Note(*texts(note, "notes", 2)) for note in data["notes"]),
    )
    return made


def _levels(data: dict[str, Any], made: Conformal) -> tuple[float | None, float | None]:
    """The levels on either side of the median that intervals of quantiles start from; other methods have none."""
    lower, upper = data["levels"]
    if not isinstance(made, ConformalQuantiles):
        if (lower, upper) != (None, None):
            raise ValueError(f"levels of {made.kind}")
        return None, None
    low, high = number(lower, "levels"), number(upper, "levels")
    if not 0.0 < low < 0.5 < high < 1.0:
        raise ValueError(f"levels {low:g} and {high:g}")
    return low, high


def _classes(data: dict[str, Any], made: Conformal) -> dict[str, Any]:
    """The number of classes and their names, which sets alone have."""
    classes, names = data["classes"], data["class_names"]
    if not isinstance(made, ConformalSets):
        if (classes, names) != (None, None):
            raise ValueError(f"classes of {made.kind}")
        return {}
    count = whole(classes, "classes", 2)
    return {"classes": count, "class_names": None if names is None else texts(names, "class_names", count)}


def load(path: str | Path) -> Conformal:
    """The method of a file that `save` wrote; any other file is refused in one line."""
    path = Path(path)
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except UNREADABLE as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__} {error}"
        came = f"it cannot be read as one ({plain(reason, 120)})"
        do = "give a file that `save` wrote"
        raise FileError(str(path), expected="a fitted conformal method", came=came, do=do) from error
