"""`calibrant evaluate --rows` and `--along` as a user runs them."""

import json

import numpy as np
import pytest

import calibrant as cal


@pytest.fixture
def answers(tmp_path):
    rng = np.random.default_rng(0)
    made = cal.Judged.from_confidence(rng.random(150), rng.integers(0, 2, 150), ids=[f"q{k}" for k in range(150)])
    return cal.write(made, tmp_path / "answers.npz")


def stored(run_here, path, *options):
    out = path.parent / "out.json"
    run_here("evaluate", path, "--metrics", "nll", "--json", out, "-q", *options)
    return json.loads(out.read_text())["results"][0]


def test_a_hundred_rows_so_many_as_are_wanted_or_none(answers, run_here):
    usual = stored(run_here, answers)
    assert len(usual["worst_rows"]) == 100
    assert stored(run_here, answers, "--rows", "7")["worst_rows"] == usual["worst_rows"][:7]
    assert len(stored(run_here, answers, "--rows", "500")["worst_rows"]) == 150
    assert stored(run_here, answers, "--blocks")["worst_rows"] == usual["worst_rows"]
    none = stored(run_here, answers, "--rows", "0")
    assert not {"worst_rows", "worst_by"} & set(none)
    assert "q17" not in json.dumps(none)


def test_numbers_that_cannot_be(answers, run_here, expect_refusal):
    expect_refusal(run_here, ["evaluate", answers, "--rows", "-1"], ["rows: expected an integer from 0 to 10000"])


def test_the_column_of_functions(tmp_path, run_here, expect_refusal):
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(3, 50))
    columns = {"dose": np.arange(50) / 3, "other": -np.arange(50.0)}
    path = cal.write(cal.Regression.from_gaussian(mean, np.ones((3, 50)), mean[0], columns=columns), tmp_path / "x.npz")
    assert "functions" in stored(run_here, path)["curves_skipped"]
    assert stored(run_here, path, "--along", "dose")["curves"]["functions"]["x"] == columns["dose"].tolist()
    expect_refusal(run_here, ["evaluate", path, "--along", "dosis"], ["did you mean 'dose'?"])
