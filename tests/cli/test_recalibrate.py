"""The command `recalibrate`: what it prints, writes and refuses."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from scipy.special import softmax

import calibrant as cal
from calibrant.recalibration import load
from calibrant.recalibration.lookup import METHODS


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("val", "test"):
        scores = rng.normal(0.0, 1.5, (400, 3))
        labels = np.array([rng.choice(3, p=row) for row in softmax(scores, axis=1)])
        cal.write(cal.Classification.from_logits(2 * scores, labels), tmp_path / f"{name}.npz")
    cal.write(cal.Classification.from_logits(scores), tmp_path / "blind.npz")
    return tmp_path


def test_fit_apply_and_write(run_here, files):
    done = run_here(
        "recalibrate", "--fit", files / "val.npz", "--apply", files / "test.npz", "-o", files / "out.npz",
        "--save", files / "map.json", "--json", files / "r.json", "--html", files / "r.html",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.out.startswith("Temperature scaling helps: NLL falls by ")
    assert "\n\ntest → test, temperature · 400 rows · temperature\n" in done.out
    data = json.loads((files / "r.json").read_text())
    for key in ("method", "parameters", "converged", "before", "after", "improvement", "results", "warnings"):
        assert key in data
    made = load(files / "map.json")
    expected = made.transform(cal.read(files / "test.npz")).scores
    np.testing.assert_array_equal(cal.read(files / "out.npz").scores, expected)
    assert '<section id="recalibration"' in (files / "r.html").read_text()
    again = run_here("recalibrate", "--map", files / "map.json", "--apply", files / "test.npz", "--json", "-")
    assert json.loads(again.out)["improvement"]["gains"] == data["improvement"]["gains"]


def test_without_other_rows_it_is_cross_fitted(run_here, files):
    done = run_here("recalibrate", "--fit", files / "val.npz", "--method", "auto", "--candidates",
                       "none,temperature", "--folds", "3", "--score", "brier")  # fmt: skip
    assert done.code == 0, done.err
    assert "3 folds; shown: the map of all rows" in done.out
    assert "Candidates · brier over 3 folds" in done.out


def test_rows_without_labels(run_here, files):
    done = run_here("recalibrate", "--fit", files / "val.npz", "--apply", files / "blind.npz", "-o",
                       files / "o.npz")  # fmt: skip
    assert done.code == 0, done.err
    assert "without labels the gain cannot be measured" in done.out
    assert cal.read(files / "o.npz").n == 400


def test_methods_are_listed(run_here):
    done = run_here("recalibrate", "--list")
    assert done.code == 0
    assert "Temperature scaling" in done.out
    listed = {line.split(" ")[0] for line in done.out.splitlines()}
    assert set(METHODS) <= listed  # names that are typed are never shortened


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "either --fit or --map"),
        (["--fit", "val.npz", "--map", "m.json"], "either --fit or --map"),
        (["--map", "m.json"], "--apply too"),
        (["--map", "val.npz", "--apply", "test.npz"], "a fitted recalibrator"),
        (["--fit", "val.npz", "--method", "tempreature"], "did you mean 'temperature'"),
        (["--fit", "val.npz", "--method", "temperature(bins=3)"], "bins"),
        (["--fit", "val.npz", "--method", "temperature(members=all)"], "average or each"),
        (["--fit", "val.npz", "--folds", "1"], "folds"),
        (["--fit", "val.npz", "--candidates", "none"], "auto"),
        (["--fit", "blind.npz"], "labels"),
        (["--fit", "val.npz", "-o", "val.npz"], "a file of its own"),
        (["--fit", "val.npz", "--save", "m.pickle"], ".json or .npz"),
        (["--fit", "val.npz", "--save", "o.npz", "-o", "o.npz"], "a file of its own"),
        (["--fit", "val.npz", "--json", "val.npz"], "is for predictions"),
        (["--fit", "val.npz", "--save", "m.json", "--json", "m.json"], "a file of its own"),
        (["--fit", "val.npz", "-o", "../{here}/val.npz"], "a file of its own"),
        (["--fit", "val.npz", "-o", "o.npz", "--html", "nowhere/a.html"], "an existing folder"),
        (
            ["--map", "m.json", "--apply", "test.npz", "--method", "beta"],
            "no options for fitting, got --method; remove --method, or --map",
        ),
        (["--fit", "val.npz", "--method", "ets(loss=brier"], "NAME(option=value,…)"),
        (["--fit", "val.npz", "--method", "auto", "--score", "crps"], "a score that these predictions support"),
        (["--fit", "missing.npz"], "missing.npz"),
    ],
)
def test_what_cannot_be_done_is_one_line(run_here, files, arguments, said, monkeypatch, expect_refusal):
    monkeypatch.chdir(files)
    arguments = [each.format(here=files.name) for each in arguments]
    expect_refusal(run_here, ["recalibrate", *arguments], [said])


def test_strict_makes_a_doubtful_fit_an_error(run_here, files):
    scores = cal.read(files / "val.npz").scores
    cal.write(cal.Classification.from_logits(scores, scores[0].argmax(axis=1)), files / "right.npz")
    done = run_here("recalibrate", "--fit", files / "right.npz", "--apply", files / "test.npz", "--strict", "-o",
                       files / "o.npz")  # fmt: skip
    assert done.code == 2
    assert "bound" in done.err
    assert (files / "o.npz").exists()  # everything is written before


def test_gains_stand_in_the_table_of_values(run_here, files):
    done = run_here("recalibrate", "--fit", files / "val.npz", "--apply", files / "test.npz", "-m", "nll", "--format",
                    "csv")  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(done.out)))
    gains = {row["metric"]: float(row["value"]) for row in rows if row["by"] == "gain"}
    values = {row["input"]: float(row["value"]) for row in rows if not row["by"]}
    assert gains["nll"] == pytest.approx(values["test"] - values["test, temperature"])


def test_probabilities_come_out_where_they_went_in(run_here, files):
    rng = np.random.default_rng(1)
    p = rng.random(300)
    cal.write(cal.Classification.from_probs(p, (rng.random(300) < p**2).astype(int)), files / "one.npz")
    done = run_here("recalibrate", "--fit", files / "one.npz", "--method", "beta", "-o", files / "o.npz", "-m", "nll")
    assert done.code == 0, done.err
    assert cal.read(files / "o.npz").kind == "probs"


@pytest.mark.parametrize(
    ("alias", "spec"),
    [
        ("platt", "beta(form=am)"),
        ("Platt-scaling", "beta(form=am)"),
        ("temperature_scaling", "temperature"),
        ("isotonic_regression", "isotonic"),
        ("platt(members=each)", "beta(form=am,members=each)"),
    ],
)
def test_common_names_are_aliases(alias, spec):
    from calibrant.recalibration import recalibrator

    assert recalibrator(alias).spec == recalibrator(spec).spec


def test_platt_scaling_is_logistic_regression_on_the_logit():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    logit = rng.normal(size=800) * 2
    y = rng.random(800) < 1 / (1 + np.exp(-0.5 * logit - 0.3))
    given = cal.Classification.from_probs(1 / (1 + np.exp(-logit)), y.astype(int))
    ours = cal.recalibrate(given, given, "platt").predictions.as_probs().scores[0, :, -1]
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(logit[:, None], y)
    np.testing.assert_allclose(ours, theirs.predict_proba(logit[:, None])[:, 1], atol=1e-5)


def test_default_methods_follow_the_kind_of_predictions(run_here, tmp_path):
    rng = np.random.default_rng(0)
    mean = rng.normal(size=300)
    y = mean + 2 * rng.normal(size=300)
    quantiles = np.stack([mean - 1, mean, mean + 1], axis=1)
    logits, labels = rng.normal(size=(300, 3)), rng.integers(0, 3, 300)
    cases = {
        "gaussian": (cal.Regression.from_gaussian(mean, np.ones(300), y), "variance", "scaled"),
        "samples": (cal.Regression.from_samples(mean + rng.normal(size=(20, 300)), y), "levels", "scaled"),
        "quantiles": (cal.Regression.from_quantiles(quantiles, [0.1, 0.5, 0.9], y), "levels", "cqr"),
        "classes": (cal.Classification.from_logits(logits, labels), "temperature", "lac"),
    }
    for name, (predictions, recalibration, conformal) in cases.items():
        file = cal.write(predictions, tmp_path / f"{name}.npz")
        done = run_here("recalibrate", "--fit", file, "--json", "-", "--resamples", "50")
        assert done.code == 0, done.err
        assert json.loads(done.out)["method"].partition("(")[0] == recalibration
        done = run_here("conformal", "--fit", file, "--apply", file, "--json", "-")
        named = run_here("conformal", "--fit", file, "--apply", file, "--json", "-", "--method", conformal)
        assert done.code == 0, done.err
        assert done.out == named.out


def test_no_file_is_suggested_that_shares_nothing(run_here, tmp_path):
    (tmp_path / "validation.npz").write_bytes(b"")
    assert "did you mean" not in run_here("describe", tmp_path / "x.npz").err
    assert "did you mean 'validation.npz'" in run_here("describe", tmp_path / "validatoin.npz").err
    assert "did you mean 'validation.npz'" in run_here("describe", tmp_path / "validation.csv").err
