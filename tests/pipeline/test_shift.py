"""Summaries under shift against pandas and SciPy, from rows with columns and from inputs with meta."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from evaluations import evaluate_with
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import calibrant as cal
from calibrant.errors import UsageError
from calibrant.results.evaluation import Evaluation
from calibrant.results.shift import spearman, spread_of

TYPES = ("blur", "fog", "noise")
SPECS = ["accuracy", "nll", "ece"]


def shifted(seed=0, clean="clean"):
    """Clean rows and three types at five severities, each making the model worse by another amount."""
    rng = np.random.default_rng(seed)
    kind, severity, scores, labels = [], [], [], []
    for name, level in [(clean, 0), *((t, s) for t in TYPES for s in range(1, 6))]:
        n = 60 if level else 150
        z = 2.5 * rng.normal(size=(n, 4))
        noise = 0.4 * level * (1 + TYPES.index(name) if level else 0)
        labels += (z + noise * rng.normal(size=z.shape) + rng.gumbel(size=z.shape)).argmax(axis=1).tolist()
        scores.append(z)
        kind += [name] * n
        severity += [level] * n
    return np.concatenate(scores), np.array(labels), np.array(kind), np.array(severity)


@pytest.fixture(scope="module")
def frame():
    """One row a cell: its metrics by `measure`."""
    z, y, kind, severity = shifted()
    rows = []
    for name, level in dict.fromkeys(zip(kind.tolist(), severity.tolist(), strict=True)):
        cell = (kind == name) & (severity == level)
        rows.append({"shift": name, "severity": level, **cal.measure(made(z[cell], y[cell]), SPECS)})
    return pd.DataFrame(rows)


def made(z, y, **known):
    return cal.Classification.from_logits(z, y, **known)


def summary(over="mean", **known):
    z, y, kind, severity = shifted(**known)
    predictions = made(z, y, columns={"shift": kind, "severity": severity}, name="model")
    return cal.evaluate_shift(predictions, SPECS, over=over, resamples=20)


@pytest.mark.parametrize("spec", SPECS)
def test_mean_and_quartiles_over_types_at_each_severity(frame, spec):
    (found,) = summary().shift
    assert found.types == sorted(TYPES)
    for severity, cells in frame.groupby("severity"):
        expected = cells[spec].describe()
        at = found.at(spec, severity)
        assert at["types"] == len(cells)
        names = {"mean": "mean", "min": "min", "q25": "25%", "median": "50%", "q75": "75%", "max": "max"}
        assert [at[ours] for ours in names] == pytest.approx([expected[theirs] for theirs in names.values()])


@pytest.mark.parametrize("spec", SPECS)
def test_quartiles_over_all_shifted_cells_leave_the_clean_one_out(frame, spec):
    (found,) = summary().shift
    cells = frame[frame.severity > 0][spec]
    assert found.shifted(spec)["types"] == 15
    assert found.shifted(spec)["q75"] == pytest.approx(cells.quantile(0.75))


@pytest.mark.parametrize("over", ["mean", "median"])
@pytest.mark.parametrize("spec", SPECS)
def test_rho_is_spearmans_over_six_points(frame, spec, over):
    (found,) = summary(over).shift
    by_severity = frame.groupby("severity")[spec].agg(over)
    assert len(by_severity) == 6
    assert found.rho(spec) == pytest.approx(stats.spearmanr(by_severity.index, by_severity).statistic)


def test_clean_rows_are_one_cell_whatever_their_type_is_called():
    """Some files name the clean rows after each type of shift."""
    z, y, kind, severity = shifted()
    kind = np.where(severity == 0, np.array(TYPES)[np.arange(len(kind)) % 3], kind)
    predictions = made(z, y, columns={"shift": kind, "severity": severity}, name="model")
    assert cal.evaluate_shift(predictions, SPECS, resamples=20).shift == summary().shift


def test_inputs_with_meta_are_cells_too():
    z, y, kind, severity = shifted()
    inputs = {}
    for name, level in dict.fromkeys(zip(kind.tolist(), severity.tolist(), strict=True)):
        cell = (kind == name) & (severity == level)
        inputs[f"{name}-{level}"] = made(z[cell], y[cell], meta={"shift": name, "severity": level})
    (across,) = cal.evaluate_shift(inputs, SPECS, resamples=20).shift
    (within,) = summary().shift
    for spec in SPECS:
        assert across.rho(spec) == within.rho(spec)
        assert across.shifted(spec) == pytest.approx(within.shifted(spec))


def test_columns_of_other_names():
    z, y, kind, severity = shifted()
    predictions = made(z, y, columns={"corruption": kind, "level": severity})
    (found,) = cal.evaluate_shift(predictions, SPECS, columns=("corruption", "level"), resamples=20).shift
    assert found.rho("nll") == summary().shift[0].rho("nll")


def test_it_is_stored_and_read_again(tmp_path):
    evaluation = summary()
    stored = json.loads(evaluation.dumps())
    assert stored["shift"][0]["metrics"]["nll"]["spearman"] == evaluation.shift[0].rho("nll")
    assert stored["shift"][0]["cells"][0]["n"] == 150
    assert cal.Evaluation.load(evaluation.save(tmp_path / "e.json")).shift == evaluation.shift


def test_it_is_printed():
    evaluation = summary()
    shown = str(evaluation)
    assert f"model · nll ↓ over 3 shift types · Spearman ρ {evaluation.shift[0].rho('nll'):.4f}" in shown
    assert "all shifted" in shown
    assert "shift" not in json.loads(cal.evaluate(made(*shifted()[:2]), "nll").dumps())


@pytest.mark.parametrize(
    ("severity", "said"),
    [(["a", "b"], "got 'a'"), ([-1, 0], "got '-1'"), ([np.nan, 1.0], "got 'nan'")],
)
def test_severities_are_numbers_from_0(severity, said):
    predictions = made(np.zeros((2, 3)), [0, 1], columns={"shift": ["x", "y"], "severity": severity})
    with pytest.raises(cal.CalibrantError, match=f"0 for clean data.*{said}"):
        cal.evaluate_shift(predictions, "nll")


def test_columns_that_are_not_there():
    with pytest.raises(cal.CalibrantError, match=r"columns 'shift' and 'severity'.*no column 'shift'"):
        cal.evaluate_shift(made(np.zeros((2, 3)), [0, 1]), "nll")
    with pytest.raises(cal.CalibrantError, match=r"over: expected 'mean' or 'median'.*got 'mode'"):
        cal.evaluate_shift(made(np.zeros((2, 3)), [0, 1]), "nll", over="mode")


def test_one_severity_has_no_rank_correlation():
    predictions = made(np.zeros((4, 3)), [0, 1, 2, 0], columns={"shift": ["x"] * 4, "severity": [3] * 4})
    evaluation = cal.evaluate_shift(predictions, "nll")
    assert math.isnan(evaluation.shift[0].rho("nll"))
    assert "no rank correlation" in str(evaluation)
    assert json.loads(evaluation.dumps())["shift"][0]["metrics"]["nll"]["spearman"] is None


def test_an_infinite_score_stays_infinite():
    """p(label) = 0 in one cell: its mean is infinite, its median need not be."""
    values = [0.2, 0.3, math.inf]
    assert spread_of(values) == {"types": 3, "mean": math.inf, "min": 0.2, "q25": 0.2, "median": 0.3, "q75": math.inf,
                                 "max": math.inf}  # fmt: skip
    assert spread_of([math.nan]) == pytest.approx(
        {"types": 0, **dict.fromkeys(("mean", "min", "q25", "median", "q75", "max"), math.nan)}, nan_ok=True
    )


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
@settings(max_examples=60, deadline=None)
def test_rank_correlation_with_ties_is_scipys(pairs):
    x, y = (np.array(column, float) for column in zip(*pairs, strict=True))
    with np.errstate(invalid="ignore"):
        expected = math.nan if len(set(x)) == 1 or len(set(y)) == 1 else stats.spearmanr(x, y).statistic
    assert spearman(x, y) == pytest.approx(expected, nan_ok=True)


def test_blocks_and_threads_change_no_bit():
    z, y, kind, severity = shifted()
    predictions = made(z, y, columns={"shift": kind, "severity": severity}, name="model")
    whole = cal.evaluate_shift(predictions, SPECS, resamples=20)
    assert evaluate_with(predictions, SPECS, shift=True, resamples=20, block_rows=37).dumps() == whole.dumps()


def test_an_infinite_score_survives_its_file(tmp_path):
    """A label of probability 0 at severity 1: the summary that is read again is the one that was written."""
    p, y = np.full((6, 2), 0.5), np.zeros(6, int)
    p[2] = [0.0, 1.0]
    columns = {"shift": np.array(["fog", "snow"] * 3), "severity": np.repeat([0, 1, 2], 2)}
    evaluation = cal.evaluate_shift(cal.Classification.from_probs(p, y, columns=columns), "nll")
    again = Evaluation.load(evaluation.save(tmp_path / "evaluation.json"))
    assert again.shift == evaluation.shift
    assert str(again) == str(evaluation)


@pytest.mark.parametrize("odd", ["shift", ("shift",), ("a", "b", "c")])
def test_shift_takes_two_names(odd):
    with pytest.raises(UsageError, match="two columns"):
        cal.evaluate_shift(cal.Judged.from_confidence([0.5, 0.9], [True, False]), "ece", columns=odd)
