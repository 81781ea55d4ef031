"""Conformal methods by the short names of papers, and in JSON files. Nothing is executed from a file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from calibrant.conformal.base import Conformal, ConformalState
from calibrant.conformal.classification import ConformalSets
from calibrant.conformal.regression import ConformalQuantiles, SplitConformal
from calibrant.errors import UsageError, did_you_mean, show
from calibrant.predictions.base import Note
from calibrant.predictions.files.write import atomic_write
from calibrant.recalibration.file_fields import parse_integer, parse_number, parse_string, parse_strings, read_fitted
from calibrant.version import __version__

SCHEMA = 1
KIND = "conformal"
METHODS: dict[str, tuple[type[Conformal], dict[str, Any]]] = {
    "lac": (ConformalSets, {"score": "lac"}),
    "aps": (ConformalSets, {"score": "aps"}),
    "raps": (ConformalSets, {"score": "raps"}),
    "split": (SplitConformal, {"score": "absolute"}),
    "scaled": (SplitConformal, {"score": "scaled"}),
    "cqr": (ConformalQuantiles, {}),
}
KINDS = {method.kind: method for method, _ in METHODS.values()}
"""The class of each method, by its name in files."""


def default_method(predictions: Any) -> str:
    """The method if none is named: lac for classes, cqr for quantiles, scaled for other regressions."""
    if predictions.task != "regression":
        return "lac"
    return "cqr" if predictions.kind == "quantiles" else "scaled"


def conformal(name: str, level: float = 0.9, **options: Any) -> Conformal:
    """Create an unfitted conformal method by its short name.

    Parameters
    ----------
    name : {"lac", "aps", "raps", "split", "scaled", "cqr"}
        The first three are for classification, the others for regression.
    level : float
        The coverage, between 0 and 1.
    **options
        Further options of the class, such as `seed`.

    Returns
    -------
    ConformalSets, SplitConformal or ConformalQuantiles

    Examples
    --------
    >>> from calibrant.conformal import conformal
    >>> conformal("scaled", 0.8)
    SplitConformal(level=0.8, score='scaled')
    """
    if name not in METHODS:
        raise UsageError("method", expected="a conformal method", got=show(name), hint=did_you_mean(name, METHODS))
    method, preset = METHODS[name]
    return method(level=level, **preset, **options)


# -------------------------------------------------------------------------------------------- files
def save(method: Conformal, path: str | Path) -> Path:
    """Write a fitted method to a .json file, atomically."""
    path = Path(path)
    if path.suffix.lower() != ".json":
        got, hint = show(path.suffix), "use conformal.json"
        raise UsageError(str(path), expected="a file name ending in .json", got=got, hint=hint)
    data = json.dumps(to_json(method), indent=1, allow_nan=False)
    with atomic_write(path) as stream:
        stream.write((data + "\n").encode())
    return path


def to_json(method: Conformal) -> dict[str, Any]:
    """A fitted method as plain data; an infinite threshold is null."""
    state = method.state
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "version": __version__,
        "method": method.kind,
        "options": method.options(),
        "threshold": state.threshold if math.isfinite(state.threshold) else None,
        "rows": state.n,
        "fitted_on": state.name,
        "classes": state.classes,
        "class_names": None if state.class_names is None else list(state.class_names),
        "levels": [state.lower, state.upper],
        "notes": [[note.code, note.message] for note in state.notes],
    }


def from_json(data: dict[str, Any]) -> Conformal:
    """Rebuild the method from `to_json`."""
    if data["kind"] != KIND or data["schema"] != SCHEMA:
        raise ValueError(f"kind {data['kind']!r}, schema {data['schema']!r}")
    method = KINDS[data["method"]](**data["options"])
    lower, upper = data["levels"]
    if isinstance(method, ConformalQuantiles):
        lower, upper = parse_number(lower, "levels"), parse_number(upper, "levels")
        if not 0.0 < lower < 0.5 < upper < 1.0:
            raise ValueError(f"levels {lower:g} and {upper:g}")
    elif (lower, upper) != (None, None):
        raise ValueError(f"levels of {method.kind}")
    classes, class_names = data["classes"], data["class_names"]
    if isinstance(method, ConformalSets):
        parse_integer(classes, "classes", 2)
        class_names = None if class_names is None else parse_strings(class_names, "class_names", classes)
    elif (classes, class_names) != (None, None):
        raise ValueError(f"classes of {method.kind}")
    method._state = ConformalState(
        threshold=math.inf if data["threshold"] is None else parse_number(data["threshold"], "threshold"),
        n=parse_integer(data["rows"], "rows", 1), name=parse_string(data["fitted_on"], "fitted_on"), classes=classes,
        class_names=class_names, lower=lower, upper=upper,
        notes=tuple(Note(*parse_strings(note, "notes", 2)) for note in data["notes"]),
    )  # fmt: skip
    return method


def load(path: str | Path) -> Conformal:
    """Load a fitted conformal method.

    Parameters
    ----------
    path : str or Path
        A file written by `Conformal.save`.

    Returns
    -------
    Conformal
        Ready to `predict`.
    """
    return read_fitted(path, from_json, "a fitted conformal method", "give a file that `save` wrote")
