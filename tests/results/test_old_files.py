"""Files written by commit cc38934, the last version of schema 1, load and give the same numbers.

`schema_1/write_files.py` wrote them, with the inputs that they belong to and the outputs of that version.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import calibrant as cal
from calibrant.results.evaluation import task_of

OLD = Path(__file__).parent / "schema_1"
INPUTS, OUTPUTS = (dict(np.load(OLD / f"{name}.npz")) for name in ("inputs", "outputs"))
KINDS = {
    "evaluation": "evaluation", "regression": "evaluation", "check": "check", "comparison": "comparison",
    "recalibration": "recalibration", "detection": "detection",
}  # fmt: skip
TEST = slice(60, 100)
MEMBERS = slice(0, 3)
RECALIBRATORS = sorted(path.stem.removeprefix("recalibrator_") for path in OLD.glob("recalibrator_*.json"))
POSTERIORS = sorted(path.stem.removeprefix("posterior_") for path in OLD.glob("posterior_*.safetensors"))


def classes(members=slice(0, 1)):
    return cal.Classification.from_logits(INPUTS["logits"][members, TEST], INPUTS["labels"][TEST])


def gaussian():
    return cal.Regression.from_gaussian(INPUTS["mean"][TEST], np.full(40, 0.5), INPUTS["y"][TEST])


def numbers(value, path=""):
    """Every number of plain data by its path."""
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in numbers(item, f"{path}/{key}").items()}
    if isinstance(value, list):
        return {k: v for place, item in enumerate(value) for k, v in numbers(item, f"{path}/{place}").items()}
    return {path: value} if isinstance(value, int | float) else {}


@pytest.mark.parametrize("name", KINDS)
def test_evaluations(name):
    old = json.loads((OLD / f"{name}.json").read_text())
    assert old["schema"] == 1
    evaluation = cal.Evaluation.load(OLD / f"{name}.json")
    assert evaluation.kind == KINDS[name]
    before, after = numbers(old), numbers(evaluation.to_json())
    assert len(before) > 50
    assert {path: after.get(path) for path in before if path != "/schema"} == {
        path: value for path, value in before.items() if path != "/schema"
    }
    tasks = {"regression": "regression", "detection": "detection"}
    assert {task_of(facts) for facts in evaluation.inputs} == {tasks.get(name, "classification")}
    assert f"{evaluation.results[0].input}" in str(evaluation)


def test_reports_of_old_evaluations(tmp_path):
    evaluations = [cal.Evaluation.load(OLD / f"{name}.json") for name in KINDS]
    assert cal.report(evaluations, tmp_path / "old.html").stat().st_size > 100_000


@pytest.mark.parametrize("name", RECALIBRATORS)
def test_recalibrators(name):
    fitted = cal.recalibration.load(OLD / f"recalibrator_{name}.json")
    regression = name in ("levels", "std", "variance")
    new = (
        gaussian()
        if regression
        else classes(MEMBERS if name in ("avu_temperature", "member_temperatures") else slice(0, 1))
    )
    after = fitted.transform(new)
    expected = {key.partition("/")[2]: value for key, value in OUTPUTS.items() if key.startswith(f"{name}/")}
    assert expected
    for part, value in expected.items():
        np.testing.assert_allclose(getattr(after, part), value, rtol=1e-12, atol=1e-300)


def test_every_recalibrator_of_that_version_has_a_file():
    assert len(RECALIBRATORS) == 19


@pytest.mark.parametrize("name", ["sets", "split", "cqr"])
def test_conformal_predictors(name):
    quantiles = (INPUTS["quantiles"][TEST], INPUTS["levels"], INPUTS["y"][TEST])
    new = {"sets": classes, "split": gaussian, "cqr": lambda: cal.Regression.from_quantiles(*quantiles)}[name]()
    found = cal.conformal.load(OLD / f"conformal_{name}.json").predict(new)
    for part in ("included",) if name == "sets" else ("lower", "upper"):
        np.testing.assert_array_equal(getattr(found, part), OUTPUTS[f"{name}/{part}"])


def test_monitor_states():
    monitor = cal.monitoring.Monitor.load(OLD / "monitor.json")
    assert monitor.n == 60
    assert monitor.log_e_value == OUTPUTS["monitor/log_e_value"]
    assert math.isfinite(monitor.add(classes()).log_e_value)


@pytest.mark.parametrize("name", POSTERIORS)
def test_posteriors(name):
    methods = pytest.importorskip("calibrant.methods")
    posterior = methods.load(OLD / f"posterior_{name}.safetensors")
    predicted = posterior.predict(INPUTS["points"][60:], members=3 if "Dropout" in name else None)
    part = "mean" if name == "BayesianRidge" else "scores"
    np.testing.assert_allclose(getattr(predicted, part), OUTPUTS[f"{name}/{part}"], rtol=1e-5, atol=1e-6)


def test_every_method_of_that_version_has_a_posterior():
    assert len(POSTERIORS) == 10
