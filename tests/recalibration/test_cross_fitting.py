"""Cross-fitting and choosing: no row sees a map that was fitted on it, and the best of a list is found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

import calibrant as cal
from calibrant.errors import UsageError
from calibrant.recalibration import choose, cross_fit, recalibrator
from calibrant.recalibration.cross_fitting import folds_of


def predictions(n: int = 500, temperature: float = 2.0, seed: int = 0, **known) -> cal.Classification:
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.0, 1.5, (n, 4))
    labels = np.array([rng.choice(4, p=row) for row in softmax(scores, axis=1)])
    return cal.Classification.from_logits(temperature * scores, labels, **known)


def test_each_row_is_transformed_by_the_map_of_the_other_folds():
    given = predictions(columns={"row": np.arange(500)}, ids=np.arange(500), weights=np.linspace(1, 2, 500))
    found = cross_fit(given, "temperature", folds=4)
    for k in range(4):
        other = recalibrator("temperature").fit(given[found.fold != k])
        np.testing.assert_array_equal(
            found.predictions.scores[0, found.fold == k], other.transform(given[found.fold == k]).scores[0]
        )
    for key in ("row", "ids", "labels"):
        np.testing.assert_array_equal(found.predictions.column(key), given.column(key))
    np.testing.assert_array_equal(found.predictions.weights, given.weights)


def test_a_row_does_not_see_its_own_label():
    """Changing the label of one row changes nothing of the row itself."""
    given = predictions()
    labels = given.labels.copy()
    labels[7] = (labels[7] + 1) % 4
    other = cal.Classification.from_logits(given.scores[0], labels)
    folds = [folds_of(each, 5, 0) for each in (given, other)]
    one = cross_fit(given, "temperature").predictions.scores[0, 7]
    k = folds[0][7]
    again = recalibrator("temperature").fit(other[folds[0] != k]).transform(other[[7]]).scores[0, 0]
    np.testing.assert_array_equal(one, again)


def test_folds_are_even_class_by_class_and_keep_units_together():
    given = predictions(columns={"patient": np.arange(500) // 5})
    fold = folds_of(given, 5, 0)
    for k in range(4):
        counts = np.bincount(fold[given.labels == k], minlength=5)
        assert counts.max() - counts.min() <= 1
    by_unit = folds_of(given, 5, 0, "patient")
    assert (by_unit.reshape(100, 5) == by_unit.reshape(100, 5)[:, :1]).all()
    assert (np.bincount(by_unit) == 100).all()
    assert (folds_of(given, 5, 1) != fold).any()


@pytest.mark.parametrize("folds", [1, 501, True, 2.5])
def test_odd_folds_are_refused(folds):
    with pytest.raises(UsageError, match="folds"):
        cross_fit(predictions(), folds=folds)


def test_arguments_in_the_wrong_order_are_refused():
    predictions = cal.Classification.from_probs([[0.8, 0.2], [0.3, 0.7]] * 10, [0, 1] * 10)
    with pytest.raises(UsageError, match=r"expected predictions, got str; write cross_fit\(predictions"):
        cross_fit("temperature", predictions)


def test_regression_and_judged_answers_are_cross_fitted():
    rng = np.random.default_rng(1)
    judged = cal.Judged.from_confidence(rng.beta(5, 2, 300), rng.random(300) < 0.5)
    assert cross_fit(judged, "temperature").predictions.confidence.shape == (1, 300)
    numbers = cal.Regression.from_gaussian(np.zeros(100), np.ones(100), rng.normal(size=100))
    np.testing.assert_array_equal(cross_fit(numbers, "none").predictions.std, numbers.std)


def test_doubts_of_a_fold_are_told_with_it():
    right = predictions()
    right = cal.Classification.from_logits(right.scores, right.scores[0].argmax(axis=1))
    (note,) = cross_fit(right, "temperature").notes()
    assert note.code == "fit-at-bound"
    assert note.message.endswith("(folds 0, 1, 2, 3, 4)")


# ------------------------------------------------------------------------------------------- choosing
def test_the_best_candidate_is_chosen_and_doing_nothing_can_win():
    over, fair = predictions(2000, 2.0), predictions(2000, 1.0, seed=3)
    choice = choose(over, ["none", "temperature"])
    assert choice.best == "temperature"
    assert choice.candidates[1].behind > 3 * choice.candidates[1].error
    assert not choice.close
    both = {c.method: c.score for c in choose(fair, "none,temperature").candidates}
    assert abs(both["none"] - both["temperature"]) < 0.005


def test_the_score_of_a_candidate_is_that_of_its_cross_fitted_rows():
    given = predictions()
    choice = choose(given, "none,temperature", score="brier", folds=3, seed=5)
    crossed = cross_fit(given, "temperature", folds=3, seed=5).predictions
    expected = {"none": cal.measure(given, ["brier"])["brier"], "temperature": cal.measure(crossed, ["brier"])["brier"]}
    for candidate in choice.candidates:
        assert candidate.score == pytest.approx(expected[candidate.method], abs=1e-12)
    assert "brier over 3 folds (seed 5)" in str(choice)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"candidates": []}, "at least one method"),
        ({"score": "ece"}, "a proper score"),
        ({"candidates": "none,tepmerature"}, "did you mean 'temperature'"),
        ({"folds": 1}, "folds"),
    ],
)
def test_odd_choices_are_refused(options, said):
    with pytest.raises(UsageError, match=said):
        choose(predictions(), **options)


def test_recalibrate_says_what_it_gained_and_stores_it(tmp_path):
    fit, test = predictions(seed=1), predictions(seed=2)
    done = cal.recalibrate(fit.named("val"), test.named("test"), metrics="nll,ece")
    data = done.evaluation.to_json()
    assert data["method"] == "temperature"
    assert data["parameters"] == [{"temperature": done.recalibrator.temperature}]
    assert data["converged"] is True
    assert data["before"] == done.recalibrator.report.before > data["after"]
    assert data["improvement"]["map"] == "injective"
    assert [result["input"] for result in data["results"]] == ["test", "test, temperature"]
    back = cal.Evaluation.load(done.evaluation.save(tmp_path / "e.json"))
    assert str(back) == str(done.evaluation)
    assert back.to_json() == data


def test_recalibrate_warns_of_rows_that_were_fitted_on():
    given = predictions(ids=np.arange(500))
    codes = [{note.code for note in cal.recalibrate(given, part, metrics="nll").evaluation.warnings}
             for part in (given, given[:10], predictions(seed=3, ids=np.arange(500, 1000)))]  # fmt: skip
    assert [("scored-on-fitted-rows" in found) for found in codes] == [True, True, False]


def test_auto_without_other_rows_is_chosen_anew_in_every_fold():
    done = cal.recalibrate(predictions(), method="auto", candidates=["none", "temperature"], folds=3, metrics="nll")
    assert done.choice.best == "temperature"
    assert len(done.cross_fit.recalibrators) == 3
    assert done.evaluation.recalibration["cross_fitted"] == 3
    assert "each fold or member has its own map" in str(done)
    with pytest.raises(UsageError, match="auto"):
        cal.recalibrate(predictions(), candidates=["none"])


def test_rows_without_labels_are_recalibrated_and_not_judged():
    test = predictions(seed=2)
    blind = cal.Classification.from_logits(test.scores)
    done = cal.recalibrate(predictions(), blind)
    assert done.improvement is None
    assert "no labels" in str(done)
    assert done.predictions.n == 500


# ------------------------------------------------------------------------- folds with methods of their own
def by_fold(*specs):
    """A fit that takes another method each time."""
    turn = iter(specs)
    return lambda part: recalibrator(next(turn)).fit(part)


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("pair", [("none", "temperature"), ("temperature", "beta"), ("histogram", "vector"),
                                  ("spline(ends=inside)", "none")])  # fmt: skip
def test_folds_of_different_methods_have_the_scores_of_their_methods(pair, members):
    one = predictions(300)
    given = cal.Classification.from_logits(np.stack([one.scores[0] * (1 + m) for m in range(members)]), one.labels)
    found = cross_fit(given, by_fold(*pair), folds=2)
    rows = cal.score_rows(found.predictions, "brier")["brier"]
    for k, spec in enumerate(pair):
        alone = recalibrator(spec).fit(given[found.fold != k]).transform(given[found.fold == k])
        np.testing.assert_allclose(rows[found.fold == k], cal.score_rows(alone, "brier")["brier"], atol=1e-12)


def test_folds_of_different_numbers():
    rng = np.random.default_rng(0)
    mixture = cal.Regression.from_gaussian(rng.normal(size=(3, 60)), np.ones((3, 60)), rng.normal(0, 2, 60))
    found = cross_fit(mixture, by_fold("none", "std"), folds=2).predictions
    assert (found.kind, found.members) == ("gaussian", 1)
    with pytest.raises(UsageError, match="of one kind"):
        cross_fit(mixture, by_fold("none", "levels"), folds=2)


def test_auto_by_default_can_be_judged_whatever_is_chosen():
    """Few rows, of which each fold chooses another method."""
    for seed in range(3):
        done = cal.recalibrate(predictions(100, 1.2, seed=seed), method="auto", metrics="nll", folds=3)
        assert np.isfinite(done.improvement["brier"].gain)


def test_what_was_given_is_not_fitted_itself():
    mine = cal.recalibration.TemperatureScaling()
    given = predictions()
    done = cal.recalibrate(given, method="auto", candidates=[mine], metrics="nll")
    assert not mine.is_fitted
    assert done.recalibrator.temperature == cal.recalibration.TemperatureScaling().fit(given).temperature
    assert len({fold.temperature for fold in done.cross_fit.recalibrators}) == 5


def test_units_widen_the_errors_of_a_choice():
    """Twenty copies of each row say no more than one."""
    few = predictions(60)
    many = cal.Classification.from_logits(
        np.repeat(few.scores[0], 20, axis=0), np.repeat(few.labels, 20), columns={"u": np.repeat(np.arange(60), 20)}
    )
    apart, together = (choose(many, "none,temperature", units=units).candidates[1].error for units in (None, "u"))
    assert together > 2 * apart


def test_options_keep_their_digits():
    made = cal.recalibrate(predictions(), predictions(seed=1), "auto", candidates="matrix(off_diagonal=0.123456789)")
    assert made.recalibrator.off_diagonal == 0.123456789
    assert recalibrator("histogram").spec == "histogram"
    assert cal.recalibration.HistogramBinning(bins=np.int64(10)).bins == 10


def test_close_candidates_are_named():
    choice = choose(predictions(300, 1.0, seed=3), "none,temperature,ets")
    assert len(choice.close) == 2
    assert "within two standard errors of it" in str(choice).replace("\n", " ")
