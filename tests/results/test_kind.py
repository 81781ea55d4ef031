"""`Evaluation.kind`: which verb made an evaluation; stored since schema 2, inferred from files of schema 1."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest

import calibrant as cal
from calibrant.results.evaluation import KINDS

SRC = Path(cal.__file__).parent
OPTIONAL = {"comparison", "recalibration", "checks"}
"""Parts of a record that only some kinds have: others ask `kind` or `is_check` instead."""


def predictions(seed=0, labels=True, members=1):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 60)
    return cal.Classification.from_logits(rng.normal(size=(members, 60, 3)), truth if labels else None)


EVALUATIONS = {
    "evaluation": lambda: cal.evaluate(predictions(), "nll,ece"),
    "check": lambda: cal.check(predictions(members=2), ["accuracy"], draws=20),
    "comparison": lambda: cal.compare({"a": predictions(1), "b": predictions(1, members=2)}, "nll", resamples=50),
    "recalibration": lambda: cal.recalibrate(predictions(), metrics="nll").evaluation,
    "detection": lambda: cal.detect(predictions(), predictions(2, labels=False), resamples=50),
}


def as_schema_1(evaluation):
    """The same file as version 0.1 wrote it: no kind, and reasons without a code."""
    data = json.loads(evaluation.dumps()) | {"schema": 1}
    del data["kind"]
    for result in data["results"]:
        for key in ("skipped", "curves_skipped"):
            if key in result:
                result[key] = {name: why["text"] for name, why in result[key].items()}
    return data


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_every_verb_stores_its_kind_and_files_of_schema_1_get_it_back(kind, tmp_path):
    evaluation = EVALUATIONS[kind]()
    assert evaluation.kind == kind
    assert json.loads(evaluation.dumps())["kind"] == kind
    assert cal.Evaluation.load(evaluation.save(tmp_path / "new.json")).dumps() == evaluation.dumps()
    (tmp_path / "old.json").write_text(json.dumps(as_schema_1(evaluation)))
    old = cal.Evaluation.load(tmp_path / "old.json")
    assert old.kind == kind
    assert as_schema_1(old) == as_schema_1(evaluation)
    assert str(old) == str(evaluation)


def test_a_recalibration_without_labels_is_one_too():
    found = cal.recalibrate(predictions(), predictions(3, labels=False)).evaluation
    assert found.kind == "recalibration"
    assert found.improvement is None
    assert cal.Evaluation.from_json(as_schema_1(found)).kind == "recalibration"


@pytest.mark.parametrize("missing", ["labels", "y"])
def test_files_of_schema_1_without_labels_give_the_same_verdict(missing):
    rng = np.random.default_rng(4)
    regression = cal.Regression.from_gaussian(rng.normal(size=50), np.ones(50))
    found = cal.evaluate(regression if missing == "y" else predictions(labels=False))
    old = cal.Evaluation.from_json(as_schema_1(found))
    reasons = [reason for reason in old.results[0].skipped.values() if reason.code == "needs_labels"]
    assert f"it needs {missing}" in {str(reason) for reason in reasons}
    assert str(old) == str(found)


@pytest.mark.parametrize("change", [{"kind": "verdict"}, {"kind": None}, {"schema": 3}])
def test_an_unknown_kind_or_schema_is_refused(change, tmp_path):
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(json.loads(EVALUATIONS["evaluation"]().dumps()) | change))
    with pytest.raises(cal.CalibrantError, match=r"odd\.json"):
        cal.Evaluation.load(path)


def asks_for_presence(tree):
    """Lines that test whether an optional part of an evaluation exists: `x.comparison is None`, `if x.checks`."""
    for node in ast.walk(tree):
        tested = []
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            tested = [node.left]
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            tested = [node.test]
        elif isinstance(node, ast.comprehension):
            tested = node.ifs
        elif isinstance(node, ast.BoolOp):
            tested = node.values
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            tested = [node.operand]
        for part in tested:
            if isinstance(part, ast.Attribute) and part.attr in OPTIONAL:
                yield part.lineno, ast.unparse(part)


def test_nothing_outside_results_infers_the_kind_from_the_parts():
    found = []
    for path in SRC.rglob("*.py"):
        if "results" not in path.relative_to(SRC).parts:
            lines = asks_for_presence(ast.parse(path.read_text()))
            found += [f"{path.relative_to(SRC)}:{line} {text}" for line, text in lines]
    allowed = {
        "setup.comparison",
        "group.checks",
        "groups[0].checks",
    }  # a Setup may have one or not; some groups have checks
    assert [text for text in found if text.split()[-1] not in allowed] == []
