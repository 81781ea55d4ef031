"""RecalibratedClassifier: scikit-learn's estimator checks, and recalibration by out-of-fold predictions only."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import sklearn
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import calibrant as cal
from calibrant.errors import CalibrantWarning, UsageError
from calibrant.recalibration import HistogramBinning, TemperatureScaling
from calibrant.recalibration.lookup import METHODS, method_class
from calibrant.sklearn import RecalibratedClassifier


def make_rows(n: int = 400, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(n, 12, n_informative=5, n_redundant=5, n_classes=classes, flip_y=0.15, random_state=seed)


def failed_checks(estimator) -> set[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None)
    assert len(results) > 50
    return {each["check_name"] for each in results if each["status"] == "failed"}


# ------------------------------------------------------------------------------------ estimator checks
@pytest.mark.parametrize(
    ("base", "ensemble"),
    [
        (LogisticRegression(), False),
        (LinearSVC(random_state=0), True),
        (DecisionTreeClassifier(random_state=0), False),
    ],
    ids=["logistic", "linear svc", "tree"],
)
def test_passes_the_estimator_checks_that_scikit_learn_passes(base, ensemble):
    ours = failed_checks(RecalibratedClassifier(base, ensemble=ensemble))
    assert not ours or ours <= failed_checks(CalibratedClassifierCV(base, method="temperature", ensemble=ensemble))


def test_get_params_set_params_and_clone():
    model = RecalibratedClassifier(LogisticRegression(C=2.0), TemperatureScaling(), cv=3)
    other = clone(model).set_params(estimator__C=5.0, cv=4)
    assert (model.estimator.C, other.estimator.C, other.cv) == (2.0, 5.0, 4)
    assert other.get_params()["method"].spec == "temperature"


def test_pickle():
    X, y = make_rows()
    model = RecalibratedClassifier(GaussianNB()).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))  # noqa: S301


# ------------------------------------------------------------------------------------------- cross-fits
def test_recalibrator_is_fitted_to_out_of_fold_predictions():
    X, y = make_rows()
    model = RecalibratedClassifier(GaussianNB(), cv=StratifiedKFold(4)).fit(X, y)
    by_hand = cross_val_predict(GaussianNB(), X, y, cv=StratifiedKFold(4), method="predict_proba")
    alone = TemperatureScaling().fit(cal.Classification.from_probs(by_hand, y))
    assert model.recalibrators_[0].temperature == pytest.approx(alone.temperature, rel=1e-6)
    base = GaussianNB().fit(X, y).predict_proba(X)
    expected = softmax(np.log(np.maximum(base, 1e-300)) / alone.temperature, axis=1)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-6)


def test_ensemble_averages_one_pair_per_fold():
    X, y = make_rows()
    model = RecalibratedClassifier(GaussianNB(), cv=3, ensemble=True).fit(X, y)
    assert len(model.estimators_) == len(model.recalibrators_) == 3
    train, test = next(StratifiedKFold(3).split(X, y))
    first = GaussianNB().fit(X[train], y[train])
    alone = TemperatureScaling().fit(cal.Classification.from_probs(first.predict_proba(X[test]), y[test]))
    assert model.recalibrators_[0].temperature == pytest.approx(alone.temperature, rel=1e-6)


def test_decision_function_is_used_as_logits():
    X, y = make_rows(classes=2)
    model = RecalibratedClassifier(LinearSVC(random_state=0)).fit(X, y)
    margin = LinearSVC(random_state=0).fit(X, y).decision_function(X)
    odds = np.log(model.predict_proba(X)[:, 1] / model.predict_proba(X)[:, 0])
    np.testing.assert_allclose(odds, margin / model.recalibrators_[0].temperature, rtol=1e-9, atol=1e-9)


def test_overconfident_estimators_improve():
    X, y = make_rows(2000)
    train, test = slice(1000), slice(1000, 2000)
    base = GaussianNB().fit(X[train], y[train])
    model = RecalibratedClassifier(GaussianNB()).fit(X[train], y[train])
    after = log_loss(y[test], model.predict_proba(X[test]))
    assert after < log_loss(y[test], base.predict_proba(X[test])) - 0.02
    theirs = CalibratedClassifierCV(GaussianNB(), method="temperature", ensemble=False).fit(X[train], y[train])
    assert after < log_loss(y[test], theirs.predict_proba(X[test])) + 0.01
    np.testing.assert_array_equal(model.predict(X[test]), base.predict(X[test]))  # a temperature keeps the ranking


def test_frozen_estimators_are_not_fitted_again():
    X, y = make_rows(600)
    base = GaussianNB().fit(X[:300], y[:300])
    model = RecalibratedClassifier(FrozenEstimator(base), cv=99).fit(X[300:], y[300:])
    alone = TemperatureScaling().fit(cal.Classification.from_probs(base.predict_proba(X[300:]), y[300:]))
    assert model.recalibrators_[0].temperature == pytest.approx(alone.temperature)
    assert model.n_features_in_ == 12
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 300)
    weighted = RecalibratedClassifier(FrozenEstimator(base)).fit(X[300:], y[300:], sample_weight=weights)
    expected = cal.Classification.from_probs(base.predict_proba(X[300:]), y[300:], weights=weights)
    assert weighted.recalibrators_[0].temperature == pytest.approx(TemperatureScaling().fit(expected).temperature)


def test_class_and_feature_names_are_kept():
    pandas = pytest.importorskip("pandas")
    X, y = make_rows()
    table = pandas.DataFrame(X, columns=[f"x{k}" for k in range(12)])
    names = np.array(["crow", "ant", "bee"], object)[y]
    model = RecalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(table, names)
    assert model.classes_.tolist() == ["ant", "bee", "crow"]
    assert model.feature_names_in_.tolist() == list(table.columns)
    assert set(model.predict(table)) <= {"ant", "bee", "crow"}
    assert model.score(table, names) > 0.5


# -------------------------------------------------------------------------------------------- weights
def test_weights_reach_estimator_and_recalibrator():
    X, y = make_rows()
    weights = np.random.default_rng(0).uniform(0.5, 3.0, len(y))
    model = RecalibratedClassifier(LogisticRegression(), cv=4).fit(X, y, sample_weight=weights)
    out = np.empty((len(y), 3))
    for train, test in StratifiedKFold(4).split(X, y):
        out[test] = LogisticRegression().fit(X[train], y[train], weights[train]).predict_proba(X[test])
    alone = TemperatureScaling().fit(cal.Classification.from_probs(out, y, weights=weights))
    assert model.recalibrators_[0].temperature == pytest.approx(alone.temperature, rel=1e-6)


def test_warns_if_the_estimator_does_not_accept_weights():
    X, y = make_rows()
    with pytest.warns(UserWarning, match="KNeighborsClassifier does not accept sample_weight"):
        RecalibratedClassifier(KNeighborsClassifier(150)).fit(X, y, sample_weight=np.ones(len(y)))


def test_metadata_routing():
    X, y = make_rows()
    weights = np.random.default_rng(0).uniform(0.5, 3.0, len(y))
    plain = RecalibratedClassifier(LogisticRegression()).fit(X, y, sample_weight=weights).predict_proba(X)
    with sklearn.config_context(enable_metadata_routing=True):
        base = LogisticRegression().set_fit_request(sample_weight=True)
        routed = RecalibratedClassifier(base).fit(X, y, sample_weight=weights).predict_proba(X)
    np.testing.assert_allclose(routed, plain, atol=1e-12)


# --------------------------------------------------------------------------------------- unusual inputs
def test_splits_need_not_be_a_partition():
    X, y = make_rows()
    model = RecalibratedClassifier(GaussianNB(), cv=ShuffleSplit(3, test_size=0.3, random_state=0)).fit(X, y)
    assert model.recalibrators_[0].report.n == 3 * 120


def test_classes_missing_in_a_fold_have_probability_zero():
    X, y = make_rows(300)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    splits = [(np.flatnonzero(y != 2), np.arange(300)), (np.arange(300), np.arange(300))]
    with pytest.warns(CalibrantWarning, match="were left out of the fit"):
        model = RecalibratedClassifier(GaussianNB(), cv=splits).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_doubtful_fits_only_warn():
    X, y = make_rows(200, classes=2)
    X[:, 0] = 100.0 * y  # every row is predicted correctly
    with pytest.warns(CalibrantWarning, match="1/64"):
        model = RecalibratedClassifier(LogisticRegression(), cv=3).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_rare_classes_reduce_the_default_number_of_folds():
    X, y = make_rows(60, classes=2)
    y[:] = np.arange(60) >= 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        RecalibratedClassifier(GaussianNB()).fit(X, y)
    with pytest.raises(ValueError, match="5 rows of every class for 5 folds, got 3 of the rarest class"):
        RecalibratedClassifier(GaussianNB(), cv=5).fit(X, y)
    with pytest.raises(ValueError, match="expected at least two classes, got one class only"):
        RecalibratedClassifier(GaussianNB()).fit(X, np.zeros(60))


@pytest.mark.parametrize("method", ["temprature", 3])
def test_unknown_methods_are_refused(method):
    with pytest.raises(UsageError, match="temperature"):
        RecalibratedClassifier(GaussianNB(), method).fit(*make_rows(60))


def test_one_vs_one_scores_are_refused():
    with pytest.raises(ValueError, match="SVC: expected one score for each of 4 classes, got 6 columns"):
        RecalibratedClassifier(SVC(decision_function_shape="ovo")).fit(*make_rows(classes=4))


class WrongClasses(ClassifierMixin, BaseEstimator):
    """Its classes are not those of y."""

    def fit(self, X, y):
        self.classes_ = np.array([7, 8, 9])
        return self

    def predict_proba(self, X):
        return np.full((len(X), 3), 1 / 3)


def test_classes_other_than_those_of_y_are_refused():
    with pytest.raises(ValueError, match=r"the classes of y, \[0, 1, 2\], got the classes \[7, 8, 9\]"):
        RecalibratedClassifier(WrongClasses()).fit(*make_rows())


def test_grid_search_over_methods():
    X, y = make_rows(300)
    search = GridSearchCV(
        RecalibratedClassifier(GaussianNB()), {"method": ["temperature", "temperature(members=each)"]}, cv=2
    )
    assert search.fit(X, y).best_params_["method"].startswith("temperature")


def test_grid_search_over_methods_and_options():
    X, y = make_rows(400)
    model = RecalibratedClassifier(GaussianNB(), HistogramBinning())
    assert model.get_params()["method__bins"] == HistogramBinning().bins
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        search = GridSearchCV(model, {"method__bins": [2, 5]}, cv=2, scoring="neg_brier_score").fit(X, y)
        several = GridSearchCV(model, {"method": ["ets", HistogramBinning(bins=3), TemperatureScaling()]}, cv=2)
        several.fit(X, y)
    bins = search.best_params_["method__bins"]
    assert bins in (2, 5)
    assert search.best_estimator_.recalibrators_[0].bins == bins
    assert len(several.cv_results_["params"]) == 3
    assert model.method.bins == HistogramBinning().bins  # the argument is not modified
    assert "HistogramBinning" in repr(model)
    assert "HistogramBinning" in model._repr_html_()


@pytest.mark.parametrize("name", list(METHODS))
def test_methods_are_cloned_with_their_options(name):
    """Including numbers that Python does not intern: scikit-learn requires identical objects."""
    method = method_class(name)
    options = {"bins": 1017, "off_diagonal": 0.123, "levels": 1017, "seed": 1017}
    model = method(**{key: value for key, value in options.items() if key in method().options()})
    copy = clone(model)
    assert type(copy) is method
    assert copy is not model
    assert copy.options() == model.options()


def test_set_params_resets_the_fit():
    X, y = make_rows(300)
    model = TemperatureScaling().fit(cal.Classification.from_sklearn(GaussianNB().fit(X, y), X, y))
    assert model.set_params() is model
    assert not clone(model).is_fitted
    with pytest.raises(UsageError, match=r"temperature: expected a known option, got 'member'; did you mean"):
        model.set_params(member="each")
    with pytest.raises(UsageError, match="members"):
        model.set_params(members="some")
    assert model.members == "average"
    assert model.is_fitted
    model.set_params(members="each")
    assert model.get_params() == model.options() == {**TemperatureScaling().options(), "members": "each"}
    assert not model.is_fitted


def test_only_classification_methods_are_suggested():
    with pytest.raises(UsageError, match="choose from") as caught:
        RecalibratedClassifier(GaussianNB(), "xyzzy").fit(*make_rows(60))
    assert "variance" not in str(caught.value)


# ----------------------------------------------------------------------------- without scikit-learn
WITHOUT_SKLEARN = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "sklearn":
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
import calibrant.sklearn
try:
    calibrant.sklearn.RecalibratedClassifier
except ImportError as error:
    print(error)
"""


def test_missing_scikit_learn_is_reported_in_one_line():
    done = subprocess.run([sys.executable, "-c", WITHOUT_SKLEARN], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(", got none installed; pip install 'calibrant[sklearn]'")


def test_auto_selects_the_method_with_the_best_score():
    X, y = make_classification(400, 8, n_informative=5, n_classes=3, random_state=0)
    model = RecalibratedClassifier(GaussianNB(), "auto").fit(X, y)
    (recalibrator,) = model.recalibrators_
    folds = StratifiedKFold(5)
    order = np.concatenate([test for _, test in folds.split(X, y)])
    probs = cross_val_predict(GaussianNB(), X, y, cv=folds, method="predict_proba")[order]
    assert recalibrator.spec == cal.recalibration.choose(cal.Classification.from_probs(probs, y[order])).best
