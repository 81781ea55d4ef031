"""Files with numbers that cannot be: each is refused in one line when it is read, never later."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import calibrant as cal
from calibrant.errors import CalibrantWarning, FileError
from calibrant.recalibration import load, recalibrator
from calibrant.recalibration.base import Map

CLASSES = 4


def rows(classes: int = CLASSES, members: int = 1, **known: object) -> cal.Classification:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, 400)
    scores = rng.normal(0.0, 2.0, (members, 400, classes)) + 1.5 * np.eye(classes)[labels]
    return cal.Classification.from_logits(scores, labels, **known)


def numbers() -> cal.Regression:
    rng = np.random.default_rng(0)
    return cal.Regression.from_gaussian(np.zeros(200), np.ones(200), 2.0 * rng.normal(size=200))


def judged() -> cal.Judged:
    confidence = np.random.default_rng(0).beta(5.0, 1.5, 400)
    return cal.Judged.from_confidence(confidence, np.random.default_rng(1).random(400) < confidence**2)


def written(spec: str, predictions, path) -> dict:
    """What the file of a fit holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        recalibrator(spec).fit(predictions).save(path)
    return json.loads(path.read_text())


def refused(path) -> str:
    with pytest.raises(FileError, match="expected a fitted recalibrator") as caught:
        load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def put(data: dict, place: str, value: object) -> dict:
    """Data with another value at a place such as maps.0.slopes; a function of what was there is called."""
    *way, last = (int(part) if part.isdigit() else part for part in place.split("."))
    inside = data
    for part in way:
        inside = inside[part]
    inside[last] = value(inside[last]) if callable(value) else value
    return data


ODD = [
    ("vector", "maps.0", lambda was: {key: each[:3] for key, each in was.items()}),
    ("vector", "maps.0", {"slopes": [2.0], "intercepts": [0.0]}),
    ("vector", "maps.0.slopes", [1.0, 1.0, True, 1.0]),
    ("vector", "maps.0.slopes", [1.0, 1.0, "1", 1.0]),
    ("vector", "maps.0.slopes", [1.0, 1.0, None, 1.0]),
    ("vector", "maps.0.slopes", [1.0, 1.0, [1.0], 1.0]),
    ("vector", "maps.0.slopes", [1.0, 1.0, 10**400, 1.0]),
    ("vector", "maps.0.slopes", [1e308, -1e308, 1e308, 1e308]),
    ("vector", "maps.0.slopes", 2.0),
    ("vector", "maps.0", lambda was: was | {"more": 1.0}),
    ("vector", "maps.0", lambda was: {"slopes": was["slopes"]}),
    ("matrix", "maps.0.weights", lambda was: [row[:3] for row in was[:3]]),
    ("matrix", "maps.0", lambda was: was | {"weights": np.eye(3).tolist(), "intercepts": [0.0] * 3}),
    ("dirichlet", "maps.0", lambda was: was | {"weights": np.eye(3).tolist(), "intercepts": [0.0] * 3}),
    ("beta", "maps.0", lambda was: was | {key: was[key][:1] for key in "abc"}),
    ("beta", "maps.0", lambda was: was | {key: was[key][:3] for key in "abc"}),
    ("beta", "maps.0.form", 3),
    ("isotonic", "maps.0", {"x": [0.0, 1.0], "values": [0.0, 1.0], "sizes": [2.0]}),
    ("histogram", "maps.0", {"edges": [0.5, 1.0], "values": [0.2, 0.8], "sizes": [2.0]}),
    ("spline(of=classes)", "maps.0.of", "top"),
    ("spline", "maps.0.ends", lambda was: [50.0 * each for each in was]),
    ("temperature", "maps.0.temperature", 10**400),
    ("temperature", "maps.0.temperature", [2.0]),
    ("temperature", "maps.0.temperature", True),
    ("temperature", "maps.0.temperature", "2"),
    ("temperature", "maps.0.temperature", None),
    ("temperature", "maps.0.temperature", float("inf")),
    ("temperature", "maps.0.temperature", 1e-320),
    ("temperature", "maps", lambda was: was * 2),
    ("temperature", "maps", []),
    ("temperature", "maps", "ab"),
    ("temperature", "fits", lambda was: was * 2),
    ("temperature(members=each)", "maps", lambda was: was * 2),
    ("temperature", "task", "banana"),
    ("temperature", "task", "regression"),
    ("temperature", "task", "judged"),
    ("temperature", "task", ["classification"]),
    ("temperature", "classes", None),
    ("temperature", "classes", 1),
    ("temperature", "classes", 4.0),
    ("temperature", "classes", True),
    ("temperature", "class_names", "abcd"),
    ("temperature", "class_names", ["a", "b"]),
    ("temperature", "class_names", ["a", "b", "c", 3]),
    ("temperature", "member_names", ["a"]),
    ("temperature", "fitted_on", 3),
    ("temperature", "options", {"members": "each", "more": 1}),
    ("temperature", "options", [1]),
    ("temperature", "method", ["temperature"]),
    ("temperature", "fits.0.n", "x"),
    ("temperature", "fits.0.n", 3.5),
    ("temperature", "fits.0.passes", -1),
    ("temperature", "fits.0.loss", None),
    ("temperature", "fits.0.before", "1"),
    ("temperature", "fits.0.gradient", True),
    ("temperature", "fits.0.converged", 1),
    ("temperature", "fits.0.at_bound", "abc"),
    ("temperature", "fits.0.at_bound", [1]),
    ("temperature", "fits.0.said", ["ab"]),
    ("temperature", "fits.0.said", [["a", "b", "c"]]),
    ("temperature", "fits.0", lambda was: was | {"more": 1}),
    ("none", "maps", lambda was: was * 2),
]


@pytest.mark.parametrize(("spec", "place", "value"), ODD, ids=[f"{k}-{s}-{p}" for k, (s, p, _) in enumerate(ODD)])
def test_what_cannot_be_is_refused(spec, place, value, tmp_path):
    path = tmp_path / "map.json"
    data = written(spec, rows(), path)
    load(path)
    path.write_text(json.dumps(put(data, place, value)))
    refused(path)


@pytest.mark.parametrize(
    ("spec", "place", "value"),
    [
        ("std", "maps.0.factor", 1e308),
        ("std", "maps.0.factor", True),
        ("std", "classes", 2),
        ("std", "class_names", ["a", "b"]),
        ("std", "task", "classification"),
        ("std", "maps", lambda was: was * 2),
        ("levels", "maps.0.predicted", [0.0, True]),
        ("levels", "options.levels", 10**400),
    ],
)
def test_numbers_that_cannot_be_are_refused(spec, place, value, tmp_path):
    path = tmp_path / "map.json"
    data = written(spec, numbers(), path)
    load(path)
    path.write_text(json.dumps(put(data, place, value)))
    refused(path)


def test_judged_answers_have_two_columns(tmp_path):
    path = tmp_path / "map.json"
    data = written("vector", judged(), path)
    assert load(path).state.classes is None
    path.write_text(json.dumps(put(data, "maps.0", {"slopes": [1.0] * 3, "intercepts": [0.0] * 3})))
    refused(path)


@dataclass(frozen=True)
class Smoothing(Map):
    """A map whose annotations are classes, as in a module without postponed ones."""

    weight: float


Smoothing.__dataclass_fields__["weight"].type = float


def test_annotations_may_be_classes():
    assert Smoothing.from_parameters({"weight": 1}) == Smoothing(1.0)
    with pytest.raises(ValueError, match="not a number"):
        Smoothing.from_parameters({"weight": True})


@pytest.mark.parametrize("spec", ["temperature(members=each)", "member_temperatures", "vector(members=each)", "none"])
def test_members_and_names_come_back(spec, tmp_path):
    """Each member has a map; those that were fitted together have one report."""
    path = tmp_path / "map.json"
    given = rows(members=3, member_names=list("xyz"))
    written(spec, given, path)
    back = load(path)
    assert back.state.member_names == (None if spec == "none" else ("x", "y", "z"))
    assert back.transform(given).members == 3


@pytest.mark.parametrize(
    "more",
    [
        {"map7.x": np.ones(2)},
        {"map-1.slopes": np.ones(4)},
        {"map00.slopes": np.ones(4)},
        {"slopes": np.ones(4)},
        {"map0.more": np.ones(4)},
        {"map0.slopes": np.ones(4, bool)},
        {"map0.slopes": np.array(["1"] * 4)},
        {"map0.slopes": np.full(4, np.nan)},
        {"map0.slopes": np.ones(3)},
        {"map0.slopes": np.array(1.0)},
    ],
)
def test_arrays_that_do_not_belong_are_refused(more, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        path = recalibrator("vector").fit(rows()).save(tmp_path / "map.npz")
    load(path)
    with np.load(path) as held:
        arrays = dict(held)
    np.savez(path, **(arrays | more))
    refused(path)


def test_a_number_of_json_is_not_an_array_too(tmp_path):
    path = recalibrator("temperature").fit(rows()).save(tmp_path / "map.npz")
    with np.load(path) as held:
        arrays = dict(held)
    np.savez(path, **arrays, **{"map0.temperature": np.array([2.0])})
    refused(path)
