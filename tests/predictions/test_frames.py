"""Data frames give the predictions that their arrays give, from pandas, polars and pyarrow."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import calibrant as cal
from calibrant.errors import CalibrantError

N = 60
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.fixture(params=FRAMES)
def make(request):
    return FRAMES[request.param]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), N)
    names = np.array(["cat", "dog", "owl"])
    return {
        "truth": names[rng.integers(0, 3, N)].tolist(),
        **{name: probs[:, k] for k, name in enumerate(names)},
        "site": ["a", "b"] * (N // 2),
        "key": [f"row {k}" for k in range(N)],
        "w": rng.uniform(1, 2, N),
        "score": probs[:, 0],
        "sick": np.where(rng.random(N) < probs[:, 0], "yes", "no").tolist(),
    }


def test_classes_are_named_by_columns(make, data):
    frame = cal.Classification.from_frame(
        make(data), labels="truth", probs=["dog", "cat", "owl"], ids="key", weights="w"
    )
    probs = np.column_stack([data["dog"], data["cat"], data["owl"]])
    expected = cal.Classification.from_probs(
        probs, data["truth"], classes=["dog", "cat", "owl"], ids=data["key"], weights=data["w"]
    )
    assert frame.class_names == ("dog", "cat", "owl")
    assert frame.labels.tolist() == expected.labels.tolist()
    assert frame.info.ids.tolist() == data["key"]
    assert cal.evaluate(frame, "nll")["nll"].value == cal.evaluate(expected, "nll")["nll"].value
    assert frame.column("site").tolist() == data["site"]


def test_pattern_and_class_names(make, data):
    renamed = {{"cat": "p_cat", "dog": "p_dog", "owl": "p_owl"}.get(key, key): value for key, value in data.items()}
    by_pattern = cal.Classification.from_frame(make(renamed), labels="truth", probs="p_*")
    assert by_pattern.class_names == ("cat", "dog", "owl")
    numbered = {"a": data["cat"], "b": data["dog"], "c": data["owl"], "truth": data["truth"]}
    named = cal.Classification.from_frame(
        make(numbered), labels="truth", probs=["a", "b", "c"], classes=["cat", "dog", "owl"]
    )
    assert named.labels.tolist() == by_pattern.labels.tolist()


def test_one_column_needs_the_positive_label(make, data):
    frame = make(data)
    with pytest.raises(CalibrantError, match="add --positive no or --positive yes"):
        cal.Classification.from_frame(frame, labels="sick", probs="score")
    binary = cal.Classification.from_frame(frame, labels="sick", probs="score", positive="yes")
    assert binary.class_names == ("no", "yes")
    assert binary.labels.tolist() == [int(value == "yes") for value in data["sick"]]
    flipped = cal.Classification.from_frame(frame, labels="sick", probs="score", positive="no")
    assert flipped.labels.tolist() == [int(value == "no") for value in data["sick"]]


def test_judged_and_regression(make):
    rng = np.random.default_rng(1)
    values = {"sure": rng.random(N), "ok": rng.random(N) < 0.5, "y": rng.normal(size=N), "mu": rng.normal(size=N)}
    values |= {"sd": rng.uniform(0.5, 2, N), "q_0.1": values["mu"] - 1, "q_0.9": values["mu"] + 1}
    frame = make(values)
    judged = cal.Judged.from_frame(frame, confidence="sure", correct="ok")
    assert judged.correct.tolist() == values["ok"].tolist()
    np.testing.assert_array_equal(judged.confidence[0], values["sure"])
    assert not cal.Judged.from_frame(frame, correct="ok").has_confidence
    gaussian = cal.Regression.from_frame(frame, y="y", mean="mu", std="sd")
    expected = cal.Regression.from_gaussian(values["mu"], values["sd"], values["y"])
    assert cal.evaluate(gaussian, "crps")["crps"].value == cal.evaluate(expected, "crps")["crps"].value
    quantiles = cal.Regression.from_frame(frame, y="y", quantiles="q_*")
    assert quantiles.levels.tolist() == [0.1, 0.9]


def test_missing_values_and_odd_columns():
    frame = pd.DataFrame({"p": [0.9, 0.2, 0.4], "t": [1, 0, 1], "note": ["a", None, "b"], "count": [1, None, 3]})
    frame["when"] = pd.date_range("2026-01-01", periods=3)
    frame["kind"] = pd.Categorical(["x", "y", "x"])
    read = cal.Classification.from_frame(frame, labels="t", probs="p")
    assert read.column("note").tolist() == ["a", "", "b"]
    np.testing.assert_array_equal(read.column("count"), [1.0, np.nan, 3.0])
    assert read.column("kind").tolist() == ["x", "y", "x"]
    assert read.column("when")[0].startswith("2026-01-01")
    with pytest.raises(CalibrantError, match="nan"):
        cal.Classification.from_frame(frame.assign(p=[0.9, None, 0.4]), labels="t", probs="p")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": "truht", "probs": ["cat", "dog", "owl"]}, "did you mean 'truth'"),
        ({"labels": "truth", "probs": ["cat", "dgo", "owl"]}, "did you mean 'dog'"),
        ({"labels": "truth"}, "exactly one of probs, logits, log_probs"),
        (
            {"labels": "truth", "probs": "cat", "logits": "dog"},
            "exactly one of probs, logits, log_probs, got probs and",
        ),
        ({"labels": "truth", "probs": ["cat", "dog"], "classes": ["a", "b", "c"]}, "2"),
    ],
)
def test_mistakes(data, arguments, message):
    with pytest.raises(CalibrantError, match=message):
        cal.Classification.from_frame(pd.DataFrame(data), **arguments)


def test_other_objects_are_refused():
    for value in ([[0.5, 0.5]], {"a": [1]}, np.ones((2, 2)), pd.DataFrame(), pd.DataFrame({"a": []})):
        with pytest.raises(CalibrantError):
            cal.Classification.from_frame(value, probs=["a"])
    with pytest.raises(CalibrantError, match="'1' twice"):
        cal.Classification.from_frame(pd.DataFrame([[0.5, 0.5]], columns=[1, "1"]), probs=["1"])
