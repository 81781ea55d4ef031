"""Comparisons of odd inputs: infinite losses, clean rows with a pool, levels of quantiles, weights of zero, bounds."""

import json
import math

import numpy as np
import pytest
from scipy.stats import norm

import calibrant as cal
from calibrant.errors import CalibrantError, InputError, UsageError
from calibrant.results.evaluation import Evaluation

N, C = 240, 4
RNG = np.random.default_rng(3)
TRUTH = RNG.normal(0.0, 1.5, (N, C))
LABELS = (TRUTH + RNG.gumbel(size=(N, C))).argmax(axis=1)


def model(noise, seed=1, members=1, **known):
    logits = TRUTH + noise * np.random.default_rng(seed).normal(size=(members, N, C))
    return cal.Classification.from_logits(logits if members > 1 else logits[0], LABELS, **known)


def impossible():
    """One label has probability 0."""
    probs = np.exp(TRUTH) / np.exp(TRUTH).sum(axis=1, keepdims=True)
    probs[0] = np.eye(C)[(LABELS[0] + 1) % C]
    return cal.Classification.from_probs(probs, LABELS)


def codes(found):
    return {note.code for note in found.warnings}


# --------------------------------------------------------------------------------------------------- infinity
def test_an_infinite_loss_is_worse_and_stays_so_in_a_file(tmp_path):
    found = cal.compare({"fine": model(0.5), "broken": impossible()}, resamples=100)
    pair = found.comparison.pair("broken", "fine", "nll")
    assert pair.difference == math.inf
    assert pair.better == "fine"
    assert found.comparison.pair("broken", "fine", "cll").difference == -math.inf
    again = Evaluation.load(found.save(tmp_path / "c.json"))
    assert str(again) == str(found)
    assert again.comparison.pair("broken", "fine", "nll").better == "fine"
    assert json.loads(found.dumps())["pairs"][0]["status"] == {"difference": "infinite"}
    assert "infinite-score" in codes(found)


# ------------------------------------------------------------------------------------------------ scores alone
@pytest.mark.parametrize("scores", ["ece", "ece,tace", "misclassification_auroc"])
def test_metrics_that_are_no_means_can_stand_alone_and_are_noticed(scores):
    found = cal.compare({"a": model(0.5), "b": model(1.5, seed=2)}, scores, resamples=100)
    assert found.comparison.pairs == ()
    assert found.comparison.rank_by == scores.split(",")[0]
    assert codes(found) & {"biased-errors", "misclassification-auc"}


def quantiles(levels, y, mean):
    values = mean[:, None] + norm.ppf(levels)[None]
    return cal.Regression.from_quantiles(values, levels, y=y)


def test_quantiles_at_levels_of_their_own_are_compared_at_common_ones():
    """Both are the true law: at their own levels, those in the tails would seem far better."""
    rng = np.random.default_rng(0)
    mean, y = rng.normal(size=500), None
    y = mean + rng.normal(size=500)
    models = {
        "tails": quantiles(np.array([0.05, 0.5, 0.95]), y, mean),
        "middle": quantiles(np.array([0.25, 0.4, 0.5, 0.6, 0.75]), y, mean),
    }
    found = cal.compare(models, resamples=100)
    assert found.comparison.rank_by == "pinball(level=0.5)"
    assert found.comparison.pair("tails", "middle", "pinball(level=0.5)").difference == 0.0
    with pytest.raises(UsageError, match="same levels"):
        cal.compare(models, "pinball")
    alike = {"a": models["tails"], "b": models["tails"]}
    assert cal.compare(alike, resamples=100).comparison.rank_by == "pinball"


# ------------------------------------------------------------------------------------------------------ clean
def test_clean_rows_by_severity_are_cut_from_the_pool_too():
    columns = {"severity": np.arange(N) % 2, "shift": np.where(np.arange(N) % 2, "noise", "none")}
    models = {"a": model(0.5, columns=columns), "b": model(1.5, seed=2, columns=columns)}
    pool = model(1.0, seed=3, members=3, columns=columns)
    found = cal.compare(models, "cll", temperature="clean", pool=pool, resamples=100, draws=2)
    assert found["a"].metrics["cll"].n == N // 2
    assert set(found.comparison.equivalents) == {"a", "b"}
    within = cal.compare({**models, "p": pool}, "cll", temperature="clean", pool="p", resamples=100, draws=2)
    for name in models:
        assert within.comparison.equivalents[name] == found.comparison.equivalents[name]


def test_clean_rows_of_data_sets_are_given_as_the_models_are():
    sets = {"x": {"a": model(0.5)[::2]}, "y": {"a": model(0.5)[1::2]}}
    clean = {"x": {"a": model(0.7)[::2]}, "y": {"a": model(0.7)[1::2]}}
    found = cal.compare(sets, "cll", temperature="clean", clean=clean, resamples=100)
    assert set(found.comparison.datasets) == {"x", "y"}
    one = cal.compare({"x": sets["x"]}, "cll", temperature="clean", clean={"x": clean["x"]}, resamples=100)
    assert one["a"].metrics["cll"].value == pytest.approx(found["x/a"].metrics["cll"].value)
    for wrong in ({"a": model(0.7)}, {"x": clean["x"]}):
        with pytest.raises(UsageError, match="every data set"):
            cal.compare(sets, "cll", temperature="clean", clean=wrong)


@pytest.mark.parametrize("how", [{"temperature": "clean"}, {"shift": True}])
@pytest.mark.parametrize(
    ("clean", "says"),
    [
        (cal.Classification.from_logits(TRUTH[:, :3], np.minimum(LABELS, 2)), "3 classes, while a has 4"),
        (cal.Classification.from_logits(TRUTH), "clean: a: expected a label"),
        (cal.Judged.from_confidence(np.full(N, 0.7), LABELS > 0), "judged, while a is classification"),
    ],
    ids=["classes", "labels", "task"],
)
def test_clean_rows_of_another_problem_are_refused(clean, says, how):
    columns = {"severity": np.ones(N, int), "shift": np.full(N, "noise")}
    with pytest.raises(InputError, match=says):
        cal.compare({"a": model(0.5, columns=columns)}, "cll", clean={"a": clean}, resamples=100, **how)


def test_a_severity_of_one_row_is_undefined_and_nothing_else_is():
    severity = np.r_[np.zeros(N - 41, int), np.ones(40, int), 2]
    columns = {"severity": severity, "shift": np.where(severity, "noise", "none")}
    found = cal.compare({"a": model(0.5, columns=columns)}, "cll", shift=True, resamples=100)
    cells = {cell.severity: cell for cell in found.comparison.shifted}
    assert math.isnan(cells[2].same)
    assert all(math.isfinite(value) for value in (cells[2].clean, cells[1].same, cells[1].clean))


def test_shift_without_clean_rows_says_so():
    columns = {"severity": np.ones(N, int), "shift": np.full(N, "noise")}
    found = cal.compare({"a": model(0.5, columns=columns)}, "cll", shift=True, resamples=100)
    assert "no-clean-rows" in codes(found)
    assert math.isnan(found.comparison.shifted[0].clean)


# ---------------------------------------------------------------------------------------------- rows, weights
def test_rows_of_no_weight_change_nothing():
    weights = np.r_[np.ones(N // 2), np.zeros(N // 2)]
    models = {"a": model(0.5, weights=weights), "b": model(1.5, seed=2, weights=weights)}
    short = {name: item[: N // 2] for name, item in models.items()}
    one, two = (cal.compare(given, resamples=100) for given in (models, short))
    assert one.comparison == two.comparison


def test_the_notes_of_predictions_are_kept():
    probs = np.exp(TRUTH) / np.exp(TRUTH).sum(axis=1, keepdims=True)
    mistaken = cal.Classification.from_logits(probs, LABELS)
    found = cal.compare({"mistaken": mistaken, "fine": model(0.5)}, "cll", resamples=100)
    assert {note.code for note in mistaken.notes()} <= codes(found)
    assert mistaken.notes()


def at_bound(models, **how):
    found = cal.compare(models, "cll", resamples=100, **how)
    return [note.message for note in found.warnings if note.code == "temperature-at-bound"]


def test_a_temperature_at_its_bound_is_said_with_its_reason():
    """Halves without an error want certainty: what 1/64 makes of the errors of the others is no likelihood."""
    logits, labels = np.tile([3.0, 0.0], (60, 1)), np.zeros(60, int)
    labels[0] = 1
    (said,) = at_bound({"a": cal.Classification.from_logits(logits, labels)})
    assert "in 5 of 10 fits the temperature ends at 1/64 (every row that it is fitted on is correct)" in said
    assert at_bound({"a": model(0.5)}) == []


def test_a_bound_of_other_reasons_is_not_called_a_half_without_errors():
    flat = cal.Classification.from_logits(1e-3 * TRUTH, LABELS)
    (said,) = at_bound({"flat": flat})
    assert "in 10 of 10 fits the temperature ends at 1/64, so this bound" in said
    shown = cal.Classification.from_probs(np.eye(C)[TRUTH.argmax(axis=1)], LABELS)
    wrong = int((TRUTH.argmax(axis=1) != LABELS).sum())
    for models, how in (({"a": shown}, {}), ({"a": model(0.5)}, {"temperature": "clean", "clean": {"a": shown}})):
        (said,) = at_bound(models, **how)
        assert f"{wrong} labels of {N} have probability 0" in said
        assert "is correct" not in said


# -------------------------------------------------------------------------------------------------- data sets
def test_a_model_that_a_data_set_lacks_is_left_out_aloud():
    sets = {
        "x": {"a": model(0.5)[::2], "b": model(1.5, seed=2)[::2]},
        "y": {"a": model(0.5)[1::2], "b": model(1.5, seed=2)[1::2], "c": model(0.1, seed=3)[1::2]},
    }
    found = cal.compare(sets, "cll", resamples=100)
    assert "left-out" in codes(found)
    assert [(item.model, item.rank_high) for item in found.comparison.ranking] == [("a", 1), ("b", 2)]


def test_p_values_over_data_sets_are_those_of_the_interval_and_of_students_law():
    sets = {s: {"a": model(0.5)[k::2], "b": model(1.5, seed=2)[k::2]} for k, s in enumerate("xy")}
    found = cal.compare(sets, "cll,nll", resamples=200)
    for pair in found.comparison.pairs:
        assert (pair.p_value < 0.05) == (pair.low > 0 or pair.high < 0)
        half, mean = (pair.high - pair.low) / 2, abs(pair.difference)
        assert pair.p_value >= 2 * norm.sf(mean / half * norm.ppf(0.975)) - 1e-12  # tails of t are heavier


# ----------------------------------------------------------------------------------------------- what is asked
@pytest.mark.parametrize(
    "asked",
    [
        {"shift": 3}, {"level": "x"}, {"level": 2}, {"seed": "x"}, {"seed": -1}, {"threads": 0}, {"pool": 3},
        {"draws": 1.5}, {"scores": 4}, {"scores": model(1.0)},
    ],
)  # fmt: skip
def test_settings_of_the_wrong_kind_are_refused_in_one_line(asked):
    with pytest.raises(CalibrantError) as caught:
        cal.compare({"a": model(0.5), "b": model(1.5, seed=2)}, **asked)
    assert len(str(caught.value).splitlines()) == 1


def test_models_given_one_by_one_are_told_how_to_give_them():
    with pytest.raises(UsageError, match="by name"):
        cal.compare(model(0.5), model(1.5))
    for given in ({}, []):
        with pytest.raises(UsageError, match="got none"):
            cal.compare(given)
    with pytest.raises(UsageError, match="name for every model"):
        cal.compare({"": model(0.5), "b": model(1.5)})


def test_too_many_pairs_want_a_baseline():
    many = {f"m{k}": model(1.0, seed=k)[:20] for k in range(102)}
    with pytest.raises(UsageError, match="baseline"):
        cal.compare(many, "nll")
    found = cal.compare(many, "nll", baseline="m0", resamples=50)
    assert len(found.comparison.pairs) == 101


def test_the_same_rows_in_two_data_sets_are_noticed():
    models = {"a": model(0.5), "b": model(1.5, seed=2)}
    assert "same-rows-twice" in codes(cal.compare({"x": models, "y": models}, "cll", resamples=100))
    halves = {s: {name: item[k::2] for name, item in models.items()} for k, s in enumerate("xy")}
    assert "same-rows-twice" not in codes(cal.compare(halves, "cll", resamples=100))
