"""Metrics as scorers: greater is better, and metrics that scikit-learn has agree with it."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import calibrant as cal
from calibrant.errors import UsageError
from calibrant.sklearn import scorer


def make_rows(classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(400, 8, n_informative=5, n_classes=classes, flip_y=0.2, random_state=1)


@pytest.mark.parametrize(
    ("ours", "theirs", "classes", "factor"),
    [
        ("nll", "neg_log_loss", 2, 1.0),
        ("nll", "neg_log_loss", 3, 1.0),
        ("brier", "neg_brier_score", 2, 2.0),
        ("brier", "neg_brier_score", 3, 1.0),
        ("accuracy", "accuracy", 3, 1.0),
    ],
)
def test_agrees_with_scikit_learn(ours, theirs, classes, factor):
    """For two classes scikit-learn's Brier score uses one probability: half of the sum over classes."""
    X, y = make_rows(classes)
    our_scores, their_scores = (cross_val_score(GaussianNB(), X, y, scoring=each) for each in (scorer(ours), theirs))
    np.testing.assert_allclose(our_scores, factor * their_scores, rtol=1e-6)


def test_sample_weights():
    X, y = make_rows()
    model, weights = GaussianNB().fit(X, y), np.random.default_rng(0).uniform(0.0, 3.0, len(y))
    expected = get_scorer("neg_log_loss")(model, X, y, sample_weight=weights)
    assert scorer("nll")(model, X, y, sample_weight=weights) == pytest.approx(expected, rel=1e-6)


def test_metadata_routing():
    X, y = make_rows()
    weights = np.random.default_rng(0).uniform(0.5, 3.0, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        ours = scorer("nll").set_score_request(sample_weight=True)
        theirs = get_scorer("neg_log_loss").set_score_request(sample_weight=True)
        model = GaussianNB().set_fit_request(sample_weight=False)
        our_scores, their_scores = (
            cross_val_score(model, X, y, scoring=each, params={"sample_weight": weights}) for each in (ours, theirs)
        )
    np.testing.assert_allclose(our_scores, their_scores, rtol=1e-6)


def test_options_and_signs():
    X, y = make_rows()
    model = GaussianNB().fit(X, y)
    predictions = cal.Classification.from_sklearn(model, X, y)
    for text, sign in [("ece(bins=10)", -1), ("accuracy", 1), ("aurc", -1)]:
        value = cal.measure(predictions, [text])[text]
        assert scorer(text)(model, X, y) == pytest.approx(sign * value)
    assert repr(scorer("ece( bins = 10 )")) == "scorer('ece(bins=10)')"


def test_class_names():
    X, y = make_rows()
    names = np.array(["aa", "bb", "cc"])[y]
    model = GaussianNB().fit(X, names)
    predictions = cal.Classification.from_sklearn(model, X, names)
    assert scorer("ece(of=bb)")(model, X, names) == -cal.measure(predictions, ["ece(of=bb)"])["ece(of=bb)"]
    some = names != "cc"
    fewer = GaussianNB().fit(X[some], names[some])
    assert np.isfinite(scorer("ece(of=cc)")(fewer, X, names))  # a label unknown to the estimator


def test_classes_without_rows_are_kept():
    X, y = make_rows()
    model, some = GaussianNB().fit(X, y), y != 2
    expected = -np.log(model.predict_proba(X[some])[np.arange(some.sum()), y[some]]).mean()
    assert scorer("nll")(model, X[some], y[some]) == pytest.approx(-expected, rel=1e-6)


def test_labels_unknown_to_the_estimator_have_probability_zero():
    X, y = make_rows()
    names = np.array(["b", "c", "a"])[y]
    model = GaussianNB().fit(X[y != 2], names[y != 2])
    assert scorer("nll")(model, X, names) == -np.inf
    probs = np.hstack([np.zeros((len(y), 1)), model.predict_proba(X)])
    expected = ((probs - np.eye(3)[np.array([1, 2, 0])[y]]) ** 2).sum(axis=1).mean()
    assert scorer("brier")(model, X, names) == pytest.approx(-expected, rel=1e-6)


def test_grid_search_and_multiple_metrics():
    X, y = make_rows()
    search = GridSearchCV(LogisticRegression(), {"C": [1e-4, 1.0]}, scoring=scorer("nll"), cv=3).fit(X, y)
    assert search.best_params_ == {"C": 1.0}
    several = cross_validate(GaussianNB(), X, y, cv=KFold(3), scoring={"a": scorer("nll"), "b": scorer("ece")})
    assert (several["test_a"] < 0).all()
    assert (several["test_b"] < 0).all()


@pytest.mark.parametrize("text", ["crps", "entropy", "nlll"])
def test_unsuitable_metrics_are_refused(text):
    with pytest.raises(UsageError, match="expected"):
        scorer(text)


def test_estimators_without_probabilities_are_refused():
    X, y = make_rows()
    with pytest.raises(UsageError, match="RecalibratedClassifier"):
        scorer("nll")(LinearSVC(random_state=0).fit(X, y), X, y)
