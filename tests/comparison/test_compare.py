"""Comparisons from predictions to what is stored and printed: ranks, pairs, temperature, equivalents, pitfalls."""

import json

import numpy as np
import pytest
from scipy.special import log_softmax

import calibrant as cal
from calibrant.comparison.cross_validation import calibrated
from calibrant.comparison.split_temperatures import splits_of
from calibrant.errors import CalibrantError, InputError, NotApplicable, UsageError
from calibrant.results.evaluation import Evaluation

N, C = 600, 4
RNG = np.random.default_rng(8)
TRUTH = RNG.normal(0.0, 2.0, (N, C))
LABELS = (TRUTH + RNG.gumbel(size=(N, C))).argmax(axis=1)


def model(noise, sharpness=1.0, seed=1, members=1, **known):
    """Logits of the truth with noise, at a temperature of 1/sharpness."""
    rng = np.random.default_rng(seed)
    logits = sharpness * (TRUTH + noise * rng.normal(size=(members, N, C)))
    return cal.Classification.from_logits(logits if members > 1 else logits[0], LABELS, **known)


@pytest.fixture(scope="module")
def three():
    """A good model that is far too sure, a middling one at the right temperature, and a poor one."""
    return {"good": model(0.3, 4.0), "middling": model(1.0, 0.6, seed=2), "poor": model(2.5, 0.3, seed=3)}


@pytest.fixture(scope="module")
def found(three):
    return cal.compare(three, resamples=500)


def test_ranks_are_by_calibrated_likelihood_where_the_likelihood_ranks_wrongly(found):
    assert [item.model for item in found.comparison.ranking] == ["good", "middling", "poor"]
    assert found.comparison.ranks["nll"][0].model != "good"
    best = found.comparison.pair("good", "middling", "cll")
    assert best.better == "good"
    assert best.low > 0.0
    naive = found.comparison.pair("good", "middling", "nll")
    assert naive.better == "middling"


def test_values_are_those_of_the_parts(found, three):
    for name, predictions in three.items():
        rows = calibrated(predictions, splits_of(N))
        metrics = found[name].metrics
        assert metrics["cll"].value == pytest.approx(rows.log_likelihood.mean(), abs=1e-12)
        assert metrics["brier_ts"].value == pytest.approx(rows.brier.mean(), abs=1e-12)
        plain = cal.measure(predictions, ["nll", "brier", "accuracy"])
        for score, value in plain.items():
            assert metrics[score].value == pytest.approx(value, abs=1e-12)
        assert metrics["cll"].low < metrics["cll"].value < metrics["cll"].high


def test_a_pair_is_the_difference_of_its_models(found):
    for pair in found.comparison.pairs:
        one, two = (found[name].metrics[pair.score].value for name in (pair.first, pair.second))
        assert pair.difference == pytest.approx(one - two, abs=1e-12)
        assert pair.low <= pair.difference <= pair.high


def test_splits_and_temperatures_are_shown(found, three):
    comparison = found.comparison
    assert comparison.splits == splits_of(N).to_json()
    assert comparison.temperatures["good"] == pytest.approx(calibrated(three["good"], splits_of(N)).temperatures)
    assert comparison.best_temperature["good"] > 2.0 > comparison.best_temperature["poor"]


def test_a_temperature_applied_beforehand_changes_no_rank_by_cll(three):
    """Division of all logits by a number is undone by the fit: nothing of a comparison by CLL may depend on it."""
    one = cal.compare(three, "cll", resamples=100)
    other = cal.compare({name: _sharpened(item, 7.0) for name, item in three.items()}, "cll", resamples=100)
    for a, b in zip(one.comparison.ranking, other.comparison.ranking, strict=True):
        assert a.model == b.model
        assert a.value == pytest.approx(b.value, abs=1e-6)


def _sharpened(item, by):
    return cal.Classification.from_logits(item.scores * by, item.labels)


def test_what_is_stored_is_read_again(found, tmp_path):
    path = found.save(tmp_path / "comparison.json")
    again = Evaluation.load(path)
    assert again.comparison == found.comparison
    assert str(again) == str(found)
    data = json.loads(path.read_text())
    assert {"schema", "kind", "version", "settings", "inputs", "results", "warnings", "ranking", "pairs"} <= set(data)
    assert data["ranking"][0]["model"] == "good"


def test_the_table_fits_and_names_what_matters(found):
    text = str(found)
    assert all(len(line) <= 80 for line in text.splitlines())
    for word in ("Ranking by CLL", "P(best)", "NLL (ts)", "Brier (ts)", "Paired differences", "p (Holm)"):
        assert word in text
    assert "good" in found._repr_html_()


def test_the_seed_decides_and_threads_do_not(three):
    one, two = (cal.compare(three, resamples=100, threads=t) for t in (1, 2))
    assert one.comparison == two.comparison
    other = cal.compare(three, resamples=100, seed=1)
    assert other.comparison.temperatures != one.comparison.temperatures


# ------------------------------------------------------------------------------------------------- scores
def test_scores_that_are_no_means_over_rows_are_ranked_without_pairs(three):
    found = cal.compare(three, "cll,ece", resamples=100)
    assert {pair.score for pair in found.comparison.pairs} == {"cll"}
    values = {item.model: item.value for item in found.comparison.ranks["ece"]}
    for name, item in three.items():
        assert values[name] == pytest.approx(cal.measure(item, "ece")["ece"], abs=1e-12)
    assert sorted(values, key=values.get) == [item.model for item in found.comparison.ranks["ece"]]
    assert "biased-errors" in {note.code for note in found.warnings}


def test_ranking_by_another_score(three):
    found = cal.compare(three, rank_by="nll", resamples=100)
    assert found.comparison.rank_by == "nll"
    assert found.comparison.ranking[0].model != "good"
    assert "uncalibrated-likelihood" in {note.code for note in found.warnings}


@pytest.mark.parametrize("scores", ["", [], "nope", "cll,nope", "ece(bin=3)"])
def test_scores_that_there_are_not(three, scores):
    with pytest.raises(UsageError):
        cal.compare(three, scores)


def test_the_usual_scores_stand_beside_others(three):
    found = cal.compare(three, "default,ece", resamples=100)
    assert list(found.comparison.ranks) == ["cll", "nll", "brier_ts", "brier", "accuracy", "ece"]
    assert cal.compare(three, ["default", "cll,ece"], resamples=100).comparison == found.comparison


def test_a_score_that_a_model_cannot_give_is_refused(three):
    with pytest.raises(NotApplicable, match="member"):
        cal.compare(three, "cll,mutual_information")


def test_a_baseline_is_what_the_others_are_compared_with(three):
    found = cal.compare(three, baseline="middling", resamples=100)
    assert {(pair.first, pair.second) for pair in found.comparison.pairs} == {
        ("good", "middling"),
        ("poor", "middling"),
    }
    with pytest.raises(UsageError, match="middling"):
        cal.compare(three, baseline="midling")


def test_one_model_is_no_comparison_and_still_has_its_calibrated_likelihood():
    found = cal.compare({"only": model(1.0)}, resamples=100)
    assert found.comparison.pairs == ()
    assert found["only"].metrics["cll"].value == pytest.approx(
        calibrated(model(1.0), splits_of(N)).log_likelihood.mean(), abs=1e-12
    )


def test_numbers_are_compared_by_their_own_scores():
    rng = np.random.default_rng(0)
    mean, y = rng.normal(size=300), rng.normal(size=300)
    near = cal.Regression.from_gaussian(y + 0.5 * rng.normal(size=300), std=np.full(300, 0.5), y=y)
    far = cal.Regression.from_gaussian(mean, std=np.full(300, 1.0), y=y)
    found = cal.compare({"near": near, "far": far}, resamples=200)
    assert found.comparison.rank_by == "nll"
    assert found.comparison.ranking[0].model == "near"
    assert found.comparison.pair("near", "far", "crps").better == "near"
    with pytest.raises(UsageError, match="classes"):
        cal.compare({"near": near, "far": far}, "cll")


def test_judged_answers_are_compared_by_calibrated_likelihood():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.02, 0.98, 500)
    correct = rng.uniform(size=500) < confidence
    honest = cal.Judged.from_confidence(confidence, correct)
    blunt = cal.Judged.from_confidence(np.full(500, 0.6) + 0.2 * rng.uniform(size=500), correct)
    found = cal.compare({"honest": honest, "blunt": blunt}, resamples=200)
    assert found.comparison.pair("honest", "blunt", "cll").better == "honest"


# -------------------------------------------------------------------------------------------- temperature
def test_the_temperature_of_clean_rows_is_fitted_on_them_alone(three):
    clean = {name: item[:200] for name, item in three.items()}
    rest = {name: item[200:] for name, item in three.items()}
    found = cal.compare(rest, temperature="clean", clean=clean, resamples=100)
    fitted = cal.recalibration.TemperatureScaling().fit(clean["good"])
    assert found.comparison.best_temperature["good"] == pytest.approx(fitted.temperature, rel=1e-6)
    logs = log_softmax(rest["good"].scores[0] / fitted.temperature, axis=1)
    expected = logs[np.arange(N - 200), rest["good"].labels].mean()
    assert found["good"].metrics["cll"].value == pytest.approx(expected, abs=1e-8)
    assert found.comparison.splits == {}


@pytest.mark.parametrize(
    "asked",
    [
        {"temperature": "cold"},
        {"temperature": "clean"},
        {"clean": {"good": model(0.3)}},
        {"temperature": "clean", "clean": {"good": model(0.3)}},
        {"level": 1.0},
        {"resamples": 3},
        {"resamples": 2.5},
        {"draws": 0},
        {"repeats": 0},
        {"shift": "severity"},
        {"shift": True},
        {"units": "nope"},
        {"pool": "nope"},
    ],
)
def test_what_cannot_be_asked_for_is_refused_in_one_line(three, asked):
    with pytest.raises(CalibrantError) as caught:
        cal.compare(three, **{"resamples": 100} | asked)
    assert len(str(caught.value).splitlines()) == 1


def test_under_shift_both_temperatures_are_shown_by_severity():
    severity = np.repeat([0, 1, 2], N // 3)
    columns = {"severity": severity, "shift": np.where(severity, "noise", "none")}
    logits = TRUTH * np.array([1.0, 2.0, 4.0])[severity][:, None]
    shifted = cal.Classification.from_logits(logits, LABELS, columns=columns)
    found = cal.compare({"model": shifted}, "cll,nll", shift=True, resamples=100)
    cells = {cell.severity: cell for cell in found.comparison.shifted}
    assert cells[0].shift == "clean"
    assert cells[0].same == cells[0].clean
    for level, factor in ((1, 2.0), (2, 4.0)):
        assert cells[level].temperature_same == pytest.approx(factor, rel=0.4)
        assert cells[level].temperature_clean == pytest.approx(1.0, rel=0.3)
        assert cells[level].same > cells[level].clean
        assert cells[level].clean == pytest.approx(cells[level].log_likelihood, abs=0.2)
    assert "Under shift" in str(found)
    by_clean = cal.compare({"model": shifted}, "cll", temperature="clean", resamples=100)
    assert by_clean["model"].metrics["cll"].n == 2 * N // 3
    assert by_clean.comparison.best_temperature["model"] == pytest.approx(cells[1].temperature_clean, rel=1e-9)


# ------------------------------------------------------------------------------------------- rows and units
def test_rows_are_matched_by_ids():
    ids = np.arange(N)
    order = np.random.default_rng(3).permutation(N)
    one = model(0.5, ids=ids)
    two = model(1.5, seed=5, ids=ids)[order]
    found = cal.compare({"one": one, "two": two}, resamples=100)
    straight = cal.compare({"one": one, "two": model(1.5, seed=5, ids=ids)}, resamples=100)
    assert found.comparison.pairs == straight.comparison.pairs


def test_other_labels_or_rows_are_refused():
    other = cal.Classification.from_logits(TRUTH, (LABELS + 1) % C)
    with pytest.raises(InputError):
        cal.compare({"one": model(0.5), "other": other})
    with pytest.raises(InputError):
        cal.compare({"one": model(0.5), "few": model(0.5)[:100]})


def test_units_widen_the_intervals_of_repeated_rows():
    """Every row four times over: as independent rows it seems twice as certain as it is, by unit it does not."""
    place = np.repeat(np.arange(N // 4), 4)
    columns = {"who": place}
    one, two = (model(s, seed=k)[place]._with_info(model(s)[place].info) for k, s in ((1, 0.5), (2, 0.9)))
    one, two = (cal.Classification.from_logits(item.scores[0], item.labels, columns=columns) for item in (one, two))
    loose = cal.compare({"one": one, "two": two}, "nll,cll", resamples=400).comparison.pair("one", "two", "nll")
    held = cal.compare({"one": one, "two": two}, "nll,cll", units="who", resamples=400)
    by_unit = held.comparison.pair("one", "two", "nll")
    assert by_unit.high - by_unit.low == pytest.approx(2.0 * (loose.high - loose.low), rel=0.2)
    assert by_unit.n == N // 4
    assert held.comparison.splits["by_units"]


# ---------------------------------------------------------------------------------------------- equivalents
def test_equivalents_are_counted_in_members_of_the_pool():
    pool = model(1.5, seed=11, members=12)
    models = {"one": model(1.5, seed=12), "four": model(1.5, seed=13, members=4), "truth": model(0.0)}
    found = cal.compare(models, pool=pool, resamples=200)
    equivalents = found.comparison.equivalents
    assert set(equivalents) == set(models)
    assert equivalents["truth"].censored == "above"
    assert equivalents["four"].low <= 4.0 <= equivalents["four"].high
    assert [item.members for item in found.comparison.equivalent_curves["four"]] == [1, 2, 3, 4]
    last = found.comparison.equivalent_curves["four"][-1]
    assert last.value == pytest.approx(equivalents["four"].value, abs=1e-6)
    assert found.comparison.pool == "pool"
    assert len(found.comparison.curves["pool"].mean) == 12
    assert "pool" not in {item.model for item in found.comparison.ranking}
    assert "that score as well" in str(found)


def test_a_pool_that_is_a_model_is_found_by_name_or_by_itself():
    pool = model(1.5, seed=11, members=3)
    models = {"one": model(1.5, seed=12), "pool of three": pool}
    by_name = cal.compare(models, pool="pool of three", resamples=100)
    by_self = cal.compare(models, pool=pool, resamples=100)
    assert by_name.comparison == by_self.comparison
    assert set(by_name.comparison.equivalents) == {"one"}


# ---------------------------------------------------------------------------------------------- data sets
def test_many_data_sets_are_compared_apart_and_summed_up(three):
    sets = {f"set {k}": {name: item[k::3] for name, item in three.items()} for k in range(3)}
    found = cal.compare(sets, resamples=200)
    assert list(found.comparison.datasets) == list(sets)
    alone = cal.compare(sets["set 1"], resamples=200)
    assert found.comparison.datasets["set 1"] == alone.comparison
    assert found.comparison.ranking[0].model == "good"
    assert {result.input for result in found.results} == {f"{s}/{m}" for s in sets for m in three}
    again = Evaluation.from_json(json.loads(found.dumps()))
    assert again.comparison == found.comparison
    pair = found.comparison.pair("good", "poor", "cll")
    apart = [c.pair("good", "poor", "cll").difference for c in found.comparison.datasets.values()]
    assert pair.difference == pytest.approx(np.mean(apart))


def test_flips_are_shown_on_request(three):
    found = cal.compare(three, flips=True, resamples=100)
    assert found.flips is not None
    assert Evaluation.from_json(json.loads(found.dumps())).flips == found.flips


# -------------------------------------------------------------------------------------------- bad luck
def test_a_label_that_cannot_be_makes_a_model_the_worst_and_nothing_else_undefined():
    probs = np.full((50, 2), 0.5)
    probs[0] = (1.0, 0.0)
    labels = np.r_[1, np.arange(49) % 2]
    impossible = cal.Classification.from_probs(probs, labels)
    fair = cal.Classification.from_probs(np.full((50, 2), 0.5), labels)
    other = cal.Classification.from_probs(np.tile([0.6, 0.4], (50, 1)), labels)
    found = cal.compare({"impossible": impossible, "fair": fair, "other": other}, resamples=100)
    assert found.comparison.ranking[-1].model == "impossible"
    assert found["impossible"].metrics["cll"].value == -np.inf
    assert np.isfinite(found.comparison.pair("fair", "other", "cll").p_value)
    assert json.loads(found.dumps())["results"][0]["metrics"]["cll"]["value"] is None


def test_the_same_model_twice_is_not_called_different():
    found = cal.compare({"a": model(1.0), "b": model(1.0)}, resamples=100)
    for pair in found.comparison.pairs:
        assert pair.difference == 0.0
        assert pair.p_value == 1.0
        assert pair.better is None


@pytest.mark.parametrize("n", [2, 3, 5])
def test_few_rows_give_an_answer_or_a_clear_refusal(n):
    found = cal.compare({"a": model(1.0)[:n], "b": model(2.0, seed=4)[:n]}, resamples=100)
    assert all(pair.better is None for pair in found.comparison.pairs)
    assert "too-few-units" in {note.code for note in found.warnings}


def test_no_models_no_labels_or_no_predictions_are_refused():
    for given in ({}, [], {"a": 3}, 7):
        with pytest.raises(UsageError):
            cal.compare(given)
    with pytest.raises(InputError, match="labels"):
        cal.compare({"a": cal.Classification.from_logits(TRUTH), "b": model(1.0)})
