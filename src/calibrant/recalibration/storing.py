"""Fitted recalibrators in files: JSON, or .npz with the arrays apart. Nothing is executed from either."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import CalibrantError, FileError, UsageError, plain, show
from calibrant.predictions.files.stores import npz_store
from calibrant.predictions.files.writing import atomic_write
from calibrant.recalibration.base import Fitted, Recalibrator
from calibrant.recalibration.report import Fit

SCHEMA = 1
KIND = "recalibrator"
DO = "give a file that `save` or `calibrant recalibrate --save` wrote"


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
        for number, fields in enumerate(data["maps"]):
            for key in [key for key, value in fields.items() if isinstance(value, np.ndarray)]:
                arrays[f"map{number}.{key}"] = fields.pop(key)
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
    except (CalibrantError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__} {error}"
        came = f"it cannot be read as one ({plain(reason, 120)})"
        raise FileError(str(path), expected="a fitted recalibrator", came=came, do=DO) from error


def from_json(data: dict[str, Any]) -> Recalibrator:
    """The recalibrator that `to_json` described."""
    from calibrant.recalibration.methods import method_class

    if data["kind"] != KIND or data["schema"] != SCHEMA:
        raise ValueError(f"kind {data['kind']!r}, schema {data['schema']!r}")
    method = method_class(data["method"])
    made = method(**data["options"])
    maps = tuple(method.map_class.restored(fields) for fields in data["maps"])
    if not maps or len(data["fits"]) not in (1, len(maps)):
        raise ValueError("maps and fits do not belong together")
    made.fitted = Fitted(
        maps=maps,
        fits=tuple(Fit.from_json(fit) for fit in data["fits"]),
        task=data["task"],
        classes=data["classes"],
        class_names=None if data["class_names"] is None else tuple(data["class_names"]),
        member_names=None if data["member_names"] is None else tuple(data["member_names"]),
        name=data["fitted_on"],
    )
    return made


def _read_npz(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        arrays = {name: entry.load() for name, entry in npz_store(path, stream).items()}
    data = json.loads(str(arrays.pop("recalibrator")))
    for name, array in arrays.items():
        number, _, key = name.removeprefix("map").partition(".")
        data["maps"][int(number)][key] = array
    return data
