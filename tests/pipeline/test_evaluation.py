"""The stored evaluation: the contract's keys, files written whole or not at all, groups, and what the seed decides."""

import json
import math
import os
from dataclasses import replace

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal
from calibrant.registry.lookup import with_role

RESULT_KEYS = {"input", "metrics", "curves", "groups", "skipped", "worst_by", "worst_rows", "verdict"}
ESTIMATE_KEYS = {"value", "status", "low", "high", "level", "method", "n", "null_low", "null_high", "p_value",
                 "detectable", "q_value"}  # fmt: skip


def made(n=120, name="predictions", seed=0, **known):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1, 1, 1], n)
    labels = np.array([rng.choice(3, p=row) for row in p])
    columns = {"site": np.where(np.arange(n) % 3 == 0, "north", "south"), "age": rng.integers(20, 80, n)}
    return cal.Classification.from_probs(p, labels, columns=columns, name=name, **known)


def binary(n=100, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return cal.Classification.from_probs(p, (rng.random(n) < p).astype(int), weights=rng.random(n) + 0.5)


@pytest.fixture(scope="module")
def evaluation():
    return cal.evaluate({"a": made(), "b": made(seed=1)}, by=["site", "age:2"], resamples=60)


# --------------------------------------------------------------------------------------------- JSON
def test_json_follows_the_contract(evaluation):
    stored = json.loads(evaluation.dumps())
    assert set(stored) == {"schema", "kind", "version", "settings", "inputs", "results", "warnings"}
    assert stored["schema"] == 2
    assert stored["kind"] == "evaluation"
    assert stored["version"] == cal.__version__
    assert {"level", "resamples", "seed", "metrics", "by", "units"} <= set(stored["settings"])
    assert stored["inputs"][0] == {
        "name": "a", "task": "classification", "sha256": None, "n": 120, "members": 1, "classes": 3,
    }  # fmt: skip
    assert [result["input"] for result in stored["results"]] == ["a", "b"]
    for result in stored["results"]:
        assert set(result) == RESULT_KEYS
        assert {key for e in result["metrics"].values() for key in e} <= ESTIMATE_KEYS
        for group in result["groups"]:
            assert set(group) == {"by", "value", "n", "metrics", "curves"}
            assert set(group["curves"]) == {"reliability"}
        columns = {"lower", "upper", "n", "confidence", "accuracy", "band_low", "band_high"}
        assert set(result["curves"]["reliability"]) == columns
        assert all(set(reason) == {"code", "text"} for reason in result["skipped"].values())


def test_an_estimate_is_never_alone(evaluation):
    stored = json.loads(evaluation.dumps())["results"][0]["metrics"]
    assert {"low", "high", "level", "n", "method"} <= set(stored["nll"])
    assert {"null_low", "null_high", "p_value"} <= set(stored["ece"])
    assert all("n" in e and "method" in e for e in stored.values())


def test_warnings_have_a_code_a_message_and_a_reference():
    rounded = cal.Classification.from_probs([[0.3, 0.7005], [0.5, 0.5]], [0, 1])
    (warning,) = json.loads(cal.evaluate(rounded, "nll").dumps())["warnings"]
    assert warning["code"] == "renormalised"
    assert set(warning) == {"code", "message", "reference"}
    assert "0.0005" in warning["message"]


def test_files_are_read_as_they_were_written(evaluation, tmp_path):
    path = evaluation.save(tmp_path / "evaluation.json")
    again = cal.Evaluation.load(path)
    assert again == evaluation
    assert again.dumps() == evaluation.dumps()
    assert str(again) == str(evaluation)


def test_undefined_and_infinite_values_survive_a_file(tmp_path):
    predictions = cal.Classification.from_probs([[0.0, 1.0], [0.5, 0.5]], [0, 0])
    evaluation = cal.evaluate(predictions, "nll,roc_auc,accuracy")
    again = cal.Evaluation.load(evaluation.save(tmp_path / "x.json"))
    assert again.dumps() == evaluation.dumps()
    assert math.isinf(again["nll"].value)
    assert math.isnan(again["roc_auc"].value)
    assert again == evaluation


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"schema": 3}',
        '{"schema": 2}',
        '{"schema": 1}',
        '"text"',
        "[" * 100_000,
        "\x00\xff",
        '{"schema": 1e999}',
    ],
)
def test_other_files_are_refused_in_one_line(content, tmp_path):
    path = tmp_path / "other.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(cal.CalibrantError, match="an evaluation written by calibrant") as caught:
        cal.Evaluation.load(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(cal.CalibrantError, match="No such file"):
        cal.Evaluation.load(tmp_path / "nowhere.json")


# ---------------------------------------------------------------------------------------- atomicity
def test_a_failed_write_leaves_what_was_there(evaluation, tmp_path, monkeypatch):
    path = tmp_path / "evaluation.json"
    path.write_text("what was there")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(cal.CalibrantError, match="No space left on device"):
        evaluation.save(path)
    assert path.read_text() == "what was there"
    assert [item.name for item in tmp_path.iterdir()] == ["evaluation.json"]


def test_an_interrupted_write_leaves_nothing(evaluation, tmp_path, monkeypatch):
    def stop(source, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        evaluation.save(tmp_path / "evaluation.json")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(evaluation, tmp_path):
    with pytest.raises(cal.CalibrantError, match="No such file"):
        evaluation.save(tmp_path / "nowhere" / "evaluation.json")


# --------------------------------------------------------------------------------------------- seed
def test_same_seed_same_bytes():
    first, second = (cal.evaluate([made(), binary()], by="labels", resamples=60, seed=3).dumps() for _ in range(2))
    assert first == second


def test_another_seed_moves_resampled_parts_only():
    predictions = binary()
    first, second = (cal.evaluate(predictions, "report", resamples=60, seed=seed).results[0] for seed in (0, 1))
    moved = set()
    for spec, e in first.metrics.items():
        for part in ("value", "low", "high", "null_low", "null_high", "p_value"):
            a, b = getattr(e, part), getattr(second[spec], part)
            if a != b and not (math.isnan(a) and math.isnan(b)):
                moved.add((spec, part))
    for name, columns in first.curves.items():
        moved_columns = {key for key, column in columns.items() if column != second.curves[name][key]}
        assert moved_columns <= {"band_low", "band_high"}
    assert {"ece", "ks"} <= {spec for spec, _ in moved}
    assert not {(spec, part) for spec, part in moved if part == "value"}
    fixed = {"accuracy", "nll", "brier", "entropy", "spiegelhalter_z", "spiegelhalter_z(of=1)", "corp_uncertainty"}
    fixed |= {"roc_auc", "average_precision", "aurc", "misclassification_auroc"}
    assert not fixed & {spec for spec, _ in moved}
    wald = {(spec, part) for spec, part in moved if spec in ("slope", "intercept", "o_e") and part in ("low", "high")}
    assert not wald


def test_more_resamples_keep_the_value():
    few, many = (cal.evaluate(made(), "ece", resamples=k)["ece"] for k in (20, 500))
    assert few.value == many.value
    assert (few.null_low, few.low) != (many.null_low, many.low)


def test_numpy_numbers_are_settings_too():
    settings = {"seed": np.int64(3), "resamples": np.int32(60), "level": np.float64(0.9)}
    plain = cal.evaluate(made(), "ece", seed=3, resamples=60, level=0.9)
    assert evaluate_with(made(), "ece", **settings).dumps() == plain.dumps()


@pytest.mark.parametrize(
    ("setting", "value"),
    [("level", 0.0), ("level", 1.0), ("level", 95), ("level", math.nan), ("resamples", 5), ("seed", -1),
     ("seed", 1 << 64), ("threads", 0)],
)  # fmt: skip
def test_settings_out_of_range(setting, value):
    with pytest.raises(cal.CalibrantError, match=setting):
        evaluate_with(binary(), "accuracy", **{setting: value})


# -------------------------------------------------------------------------------------------- groups
def test_groups_are_evaluations_of_their_rows(evaluation):
    predictions = made(name="a")
    groups = [g for g in evaluation["a"].groups if g.by == "site"]
    assert [(g.value, g.n) for g in groups] == [("north", 40), ("south", 80)]
    for group in groups:
        rows = predictions[predictions.column("site") == group.value]
        alone = cal.evaluate(rows, resamples=60).results[0].metrics
        assert set(group.metrics) == set(alone) & set(with_role("group"))
        for spec, estimate in group.metrics.items():
            assert replace(estimate, q_value=math.nan) == alone[spec] or math.isnan(estimate.value)
        assert 0 < group.metrics["ece"].p_value <= group.metrics["ece"].q_value <= 1


def test_groups_of_ranges_share_the_rows(evaluation):
    groups = [g for g in evaluation["a"].groups if g.by == "age:2"]
    assert len(groups) == 2
    assert sum(g.n for g in groups) == 120
    assert abs(groups[0].n - 60) <= 5


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (np.array([True, False] * 60), [False, True]),
        (np.arange(120) % 2, [0, 1]),
        (np.where(np.arange(120) % 2, np.nan, 1.5), [1.5, None]),
        (np.where(np.arange(120) % 2, np.inf, 1.5), [1.5, None]),
        (np.where(np.arange(120) % 2, "b", "a"), ["a", "b"]),
    ],
)
def test_groups_of_any_type_can_be_stored(column, expected):
    predictions = cal.Classification.from_probs(made().scores, made().labels, columns={"c": column})
    stored = json.loads(cal.evaluate(predictions, "accuracy", by="c").dumps())
    values = [g["value"] for g in stored["results"][0]["groups"]]
    assert len(values) == 2
    assert values[0] == expected[0]
    assert expected[1] is None or values[1] == expected[1]


@pytest.mark.parametrize(
    ("by", "message"),
    [("sit", "did you mean 'site'"), ("age:few", "write age:10"), ("site:3", "without ':BINS'"),
     ("age:0", "an integer of at least 1"), ("row", "at most 1000 groups")],
)  # fmt: skip
def test_groups_that_cannot_be_made(by, message):
    predictions = made(n=1200)
    columns = {**predictions.columns, "row": np.arange(1200)}
    predictions = cal.Classification.from_probs(predictions.scores, predictions.labels, columns=columns)
    with pytest.raises(cal.CalibrantError, match=message):
        cal.evaluate(predictions, "accuracy", by=by)


# -------------------------------------------------------------------------------------------- inputs
def test_inputs_of_one_name_are_told_apart():
    result = cal.evaluate([made(), made(seed=1), made(name="other")], "nll")
    assert [r.input for r in result.results] == ["predictions#1", "predictions#2", "other"]
    assert [item["name"] for item in result.inputs] == ["predictions#1", "predictions#2", "other"]


def test_an_input_already_named_like_a_numbered_one():
    names = [r.input for r in cal.evaluate([made(), made(), made(name="predictions#1")], "nll").results]
    assert len(set(names)) == 3


def test_metrics_may_come_from_a_generator():
    """It is asked for each input and recorded: it must not be used up by the first."""
    result = cal.evaluate([made(), made()], (name for name in ["nll", "brier"]), by="site")
    assert [list(r.metrics) for r in result.results] == [["nll", "brier"]] * 2
    assert [list(g.metrics) for g in result.results[0].groups] == [["nll", "brier"]] * 2
    assert result.settings["metrics"] == ["nll", "brier"]


def test_access_by_name_with_hints():
    one, two = cal.evaluate(made(), "nll,brier"), cal.evaluate({"a": made(), "b": made()}, "nll")
    assert one["nll"].value == two["a"]["nll"].value
    with pytest.raises(cal.CalibrantError, match="did you mean 'brier'"):
        one["briar"]
    with pytest.raises(cal.CalibrantError, match="the name of an input"):
        two["nll"]
    with pytest.raises(cal.CalibrantError, match="it was skipped: it needs two classes"):
        cal.evaluate(made(), "nll,roc_auc")["roc_auc"]


@pytest.mark.parametrize("wrong", [None, 3, [], {}, [1, 2], np.zeros((3, 3)), "file.npz"])
def test_what_is_not_predictions(wrong):
    with pytest.raises(cal.CalibrantError, match="Classification, Judged or Regression"):
        cal.evaluate(wrong)


def test_progress_is_told():
    """What is being done, how many inputs are done, and how many there are."""
    told = []
    cal.evaluate({"first": made(), "second": made()}, "nll", progress=lambda *step: told.append(step))
    names, done, total = zip(*told, strict=True)
    assert set(total) == {2}
    assert list(done) == sorted(done)
    assert done[0] == 0
    assert all(any(name in said for said in names) for name in ("first", "second"))


def test_measure_is_evaluate_without_intervals():
    values = cal.measure(binary())
    estimates = cal.evaluate(binary(), resamples=40).results[0].metrics
    assert values == {spec: e.value for spec, e in estimates.items()}


def test_without_intervals():
    result = evaluate_with(binary(), "nll,ece,roc_auc", intervals=False)
    assert all(math.isnan(e.low) and math.isnan(e.null_low) for e in result.results[0].metrics.values())
    assert result.settings["intervals"] is False


def test_the_curve_is_the_ece():
    result = cal.evaluate(made(), "ece")
    curve = {key: np.array(column) for key, column in result.results[0].curves["reliability"].items()}
    assert curve["n"].sum() == 120
    assert (curve["confidence"] > curve["lower"]).all()
    assert (curve["confidence"] <= curve["upper"]).all()
    ece = (curve["n"] * np.abs(curve["confidence"] - curve["accuracy"])).sum() / 120
    assert ece == pytest.approx(result["ece"].value)
