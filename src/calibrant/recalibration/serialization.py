"""Save and load fitted recalibrators: .json, or .npz with the arrays apart. Nothing is executed from either."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import UsageError, show
from calibrant.predictions.files.write import atomic_write
from calibrant.predictions.row_fingerprints import format_fingerprints, parse_fingerprints
from calibrant.recalibration.base import FitState, Recalibrator
from calibrant.recalibration.file_fields import parse_integer, parse_string, parse_strings, read_fitted
from calibrant.recalibration.fit_report import FitReport
from calibrant.version import __version__

SCHEMA = 1
KIND = "recalibrator"
ARRAY = re.compile(r"map(0|[1-9][0-9]{0,4})\.(\w+)", re.ASCII)
"""The names of the arrays of maps in .npz files."""


# -------------------------------------------------------------------------------------------- writing
def save(recalibrator: Recalibrator, path: str | Path) -> Path:
    """Write a fitted recalibrator to .json, or to .npz with the arrays apart; atomic."""
    path, data = Path(path), to_json(recalibrator)
    if path.suffix.lower() == ".json":
        with atomic_write(path) as stream:
            stream.write((json.dumps(data, indent=1, default=lambda array: array.tolist()) + "\n").encode())
        return path
    if path.suffix.lower() == ".npz":
        arrays = {}
        for number, parameters in enumerate(data["maps"]):
            for key in [key for key, value in parameters.items() if isinstance(value, np.ndarray)]:
                arrays[f"map{number}.{key}"] = parameters.pop(key)
        with atomic_write(path) as stream:
            np.savez(stream, recalibrator=np.array(json.dumps(data)), **arrays)
        return path
    expected = "a file name ending in .json or .npz"
    raise UsageError(str(path), expected=expected, got=show(path.suffix), hint="use map.json")


def to_json(recalibrator: Recalibrator) -> dict[str, Any]:
    """A fitted recalibrator as plain data, except that arrays stay arrays."""
    state = recalibrator.state
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "version": __version__,
        "method": recalibrator.name,
        "options": recalibrator.options(),
        "task": state.task,
        "classes": state.classes,
        "class_names": None if state.class_names is None else list(state.class_names),
        "member_names": None if state.member_names is None else list(state.member_names),
        "fitted_on": state.name,
        "marks": state.marks,
        "maps": recalibrator.parameters(),
        "fits": [fit.to_json() for fit in state.fits],
    }


# -------------------------------------------------------------------------------------------- reading
def load(path: str | Path) -> Recalibrator:
    """Load a fitted recalibrator of any method.

    Parameters
    ----------
    path : str or Path
        A file written by `Recalibrator.save` or by `calibrant recalibrate --save`.

    Returns
    -------
    Recalibrator
        Ready to `transform`.
    """
    hint = "give a file that `save` or `calibrant recalibrate --save` wrote"
    return read_fitted(path, from_json, "a fitted recalibrator", hint)


def from_json(data: dict[str, Any]) -> Recalibrator:
    """Rebuild the recalibrator from `to_json`, or from the arrays of a .npz file."""
    from calibrant.recalibration.lookup import method_class

    if isinstance(data.get("recalibrator"), np.ndarray):
        arrays = {name: array for name, array in data.items() if name != "recalibrator"}
        data = json.loads(str(data["recalibrator"]))
        for name, array in arrays.items():
            match = ARRAY.fullmatch(name)
            if match is None or int(match[1]) >= len(data["maps"]) or match[2] in data["maps"][int(match[1])]:
                raise ValueError(f"an array {show(name)} that belongs to no map")
            data["maps"][int(match[1])][match[2]] = array
    if data["kind"] != KIND or data["schema"] != SCHEMA:
        raise ValueError(f"kind {data['kind']!r}, schema {data['schema']!r}")
    method = method_class(parse_string(data["method"], "method"))
    recalibrator = method(**data["options"])
    maps = tuple(method.map_class.from_parameters(parameters) for parameters in data["maps"])
    fits = tuple(FitReport.from_json(fit) for fit in data["fits"])
    several = recalibrator.fits_members
    if not (maps and (several or len(maps) == 1)) or len(fits) != (1 if method.joint_members else len(maps)):
        raise ValueError(f"{len(maps)} maps and {len(fits)} reports with members={recalibrator.members}")
    classes, task = data["classes"], parse_string(data["task"], "task")
    if task not in method.tasks:
        raise ValueError(f"{method.name} for {task}")
    if task == "classification":
        parse_integer(classes, "classes", 2)
    elif classes is not None:
        raise ValueError(f"classes of {task} predictions")
    for each in maps:
        if not each.matches_classes(classes or 2):
            raise ValueError(f"a map that does not fit {classes or 2} classes")
        with np.errstate(all="ignore"):
            if not each.is_usable(classes or 2):
                raise ValueError("a map whose output is invalid")
    class_names, member_names = data["class_names"], data["member_names"]
    if (class_names is not None and classes is None) or (member_names is not None and not several):
        raise ValueError("names of classes or members that do not exist")
    recalibrator._state = FitState(
        maps=maps, fits=fits, task=task, classes=classes,
        class_names=None if class_names is None else parse_strings(class_names, "class_names", classes),
        member_names=None if member_names is None else parse_strings(member_names, "member_names", len(maps)),
        name=parse_string(data["fitted_on"], "fitted_on"),
        marks=format_fingerprints(parse_fingerprints(data.get("marks", ""))),
    )  # fmt: skip
    return recalibrator
