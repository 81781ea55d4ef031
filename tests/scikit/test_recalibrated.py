"""An estimator around an estimator: what scikit-learn asks of it, and that no row is recalibrated by its own fit."""

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
from calibrant.recalibration.methods import METHODS, method_class
from calibrant.sklearn import Recalibrated


def rows(n: int = 400, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(n, 12, n_informative=5, n_redundant=5, n_classes=classes, flip_y=0.15, random_state=seed)


def failed(estimator) -> set[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None)
    assert len(results) > 50
    return {each["check_name"] for each in results if each["status"] == "failed"}


# ------------------------------------------------------------------------------ what scikit-learn asks
@pytest.mark.parametrize(
    ("base", "ensemble"),
    [
        (LogisticRegression(), False),
        (LinearSVC(random_state=0), True),
        (DecisionTreeClassifier(random_state=0), False),
    ],
    ids=["logistic", "linear svc", "tree"],
)
def test_no_estimator_check_fails_that_scikit_learn_passes(base, ensemble):
    ours = failed(Recalibrated(base, ensemble=ensemble))
    assert not ours or ours <= failed(CalibratedClassifierCV(base, method="temperature", ensemble=ensemble))


def test_parameters_are_known_and_cloned():
    made = Recalibrated(LogisticRegression(C=2.0), TemperatureScaling(), cv=3)
    other = clone(made).set_params(estimator__C=5.0, cv=4)
    assert (made.estimator.C, other.estimator.C, other.cv) == (2.0, 5.0, 4)
    assert other.get_params()["method"].spec == "temperature"


def test_it_is_pickled_as_it_is():
    X, y = rows()
    made = Recalibrated(GaussianNB()).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).predict_proba(X), made.predict_proba(X))  # noqa: S301


# ------------------------------------------------------------------------------------------- cross-fits
def test_one_map_is_fitted_to_what_was_predicted_out_of_fold():
    X, y = rows()
    made = Recalibrated(GaussianNB(), cv=StratifiedKFold(4)).fit(X, y)
    by_hand = cross_val_predict(GaussianNB(), X, y, cv=StratifiedKFold(4), method="predict_proba")
    alone = TemperatureScaling().fit(cal.Classification.from_probs(by_hand, y))
    assert made.recalibrators_[0].temperature == pytest.approx(alone.temperature, rel=1e-6)
    base = GaussianNB().fit(X, y).predict_proba(X)
    expected = softmax(np.log(np.maximum(base, 1e-300)) / alone.temperature, axis=1)
    np.testing.assert_allclose(made.predict_proba(X), expected, atol=1e-6)


def test_an_ensemble_averages_a_pair_for_each_fold():
    X, y = rows()
    made = Recalibrated(GaussianNB(), cv=3, ensemble=True).fit(X, y)
    assert len(made.estimators_) == len(made.recalibrators_) == 3
    train, test = next(StratifiedKFold(3).split(X, y))
    first = GaussianNB().fit(X[train], y[train])
    alone = TemperatureScaling().fit(cal.Classification.from_probs(first.predict_proba(X[test]), y[test]))
    assert made.recalibrators_[0].temperature == pytest.approx(alone.temperature, rel=1e-6)


def test_decision_functions_count_as_logits():
    X, y = rows(classes=2)
    made = Recalibrated(LinearSVC(random_state=0)).fit(X, y)
    margin = LinearSVC(random_state=0).fit(X, y).decision_function(X)
    odds = np.log(made.predict_proba(X)[:, 1] / made.predict_proba(X)[:, 0])
    np.testing.assert_allclose(odds, margin / made.recalibrators_[0].temperature, rtol=1e-9, atol=1e-9)


def test_overconfident_estimators_gain():
    X, y = rows(2000)
    train, test = slice(1000), slice(1000, 2000)
    base = GaussianNB().fit(X[train], y[train])
    made = Recalibrated(GaussianNB()).fit(X[train], y[train])
    after = log_loss(y[test], made.predict_proba(X[test]))
    assert after < log_loss(y[test], base.predict_proba(X[test])) - 0.02
    theirs = CalibratedClassifierCV(GaussianNB(), method="temperature", ensemble=False).fit(X[train], y[train])
    assert after < log_loss(y[test], theirs.predict_proba(X[test])) + 0.01
    np.testing.assert_array_equal(made.predict(X[test]), base.predict(X[test]))  # temperatures keep the order


def test_frozen_estimators_are_not_fitted_again():
    X, y = rows(600)
    base = GaussianNB().fit(X[:300], y[:300])
    made = Recalibrated(FrozenEstimator(base), cv=99).fit(X[300:], y[300:])
    alone = TemperatureScaling().fit(cal.Classification.from_probs(base.predict_proba(X[300:]), y[300:]))
    assert made.recalibrators_[0].temperature == pytest.approx(alone.temperature)
    assert made.n_features_in_ == 12
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 300)
    weighted = Recalibrated(FrozenEstimator(base)).fit(X[300:], y[300:], sample_weight=weights)
    given = cal.Classification.from_probs(base.predict_proba(X[300:]), y[300:], weights=weights)
    assert weighted.recalibrators_[0].temperature == pytest.approx(TemperatureScaling().fit(given).temperature)


def test_names_of_classes_and_features_stay():
    pandas = pytest.importorskip("pandas")
    X, y = rows()
    table = pandas.DataFrame(X, columns=[f"x{k}" for k in range(12)])
    names = np.array(["crow", "ant", "bee"], object)[y]
    made = Recalibrated(make_pipeline(StandardScaler(), LogisticRegression())).fit(table, names)
    assert made.classes_.tolist() == ["ant", "bee", "crow"]
    assert made.feature_names_in_.tolist() == list(table.columns)
    assert set(made.predict(table)) <= {"ant", "bee", "crow"}
    assert made.score(table, names) > 0.5


# -------------------------------------------------------------------------------------------- weights
def test_weights_reach_estimator_and_recalibrator():
    X, y = rows()
    weights = np.random.default_rng(0).uniform(0.5, 3.0, len(y))
    made = Recalibrated(LogisticRegression(), cv=4).fit(X, y, sample_weight=weights)
    out = np.empty((len(y), 3))
    for train, test in StratifiedKFold(4).split(X, y):
        out[test] = LogisticRegression().fit(X[train], y[train], weights[train]).predict_proba(X[test])
    alone = TemperatureScaling().fit(cal.Classification.from_probs(out, y, weights=weights))
    assert made.recalibrators_[0].temperature == pytest.approx(alone.temperature, rel=1e-6)


def test_estimators_without_weights_are_told_of():
    X, y = rows()
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight"):
        Recalibrated(KNeighborsClassifier(150)).fit(X, y, sample_weight=np.ones(len(y)))


def test_metadata_are_routed():
    X, y = rows()
    weights = np.random.default_rng(0).uniform(0.5, 3.0, len(y))
    plain = Recalibrated(LogisticRegression()).fit(X, y, sample_weight=weights).predict_proba(X)
    with sklearn.config_context(enable_metadata_routing=True):
        base = LogisticRegression().set_fit_request(sample_weight=True)
        routed = Recalibrated(base).fit(X, y, sample_weight=weights).predict_proba(X)
    np.testing.assert_allclose(routed, plain, atol=1e-12)


# ------------------------------------------------------------------------------------------ odd inputs
def test_splits_need_not_be_a_partition():
    X, y = rows()
    made = Recalibrated(GaussianNB(), cv=ShuffleSplit(3, test_size=0.3, random_state=0)).fit(X, y)
    assert made.recalibrators_[0].report.n == 3 * 120


def test_classes_that_a_fold_did_not_see_have_probability_zero():
    X, y = rows(300)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    splits = [(np.flatnonzero(y != 2), np.arange(300)), (np.arange(300), np.arange(300))]
    with pytest.warns(CalibrantWarning, match="were left out of the fit"):
        made = Recalibrated(GaussianNB(), cv=splits).fit(X, y)
    np.testing.assert_allclose(made.predict_proba(X).sum(axis=1), 1.0)


def test_doubtful_fits_warn_and_go_on():
    X, y = rows(200, classes=2)
    X[:, 0] = 100.0 * y  # so that no row is wrong
    with pytest.warns(CalibrantWarning, match="1/64"):
        made = Recalibrated(LogisticRegression(), cv=3).fit(X, y)
    assert np.isfinite(made.predict_proba(X)).all()


def test_rare_classes_have_fewer_folds_or_are_refused():
    X, y = rows(60, classes=2)
    y[:] = np.arange(60) >= 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        Recalibrated(GaussianNB()).fit(X, y)
    with pytest.raises(ValueError, match="5 folds need 5 rows of every class, but the rarest class has 3"):
        Recalibrated(GaussianNB(), cv=5).fit(X, y)
    with pytest.raises(ValueError, match="one class only"):
        Recalibrated(GaussianNB()).fit(X, np.zeros(60))


@pytest.mark.parametrize("method", ["temprature", 3])
def test_methods_that_do_not_exist_are_refused(method):
    with pytest.raises(UsageError, match="temperature"):
        Recalibrated(GaussianNB(), method).fit(*rows(60))


def test_scores_of_pairs_of_classes_are_no_logits():
    with pytest.raises(ValueError, match="one score for each of 4 classes, but there are 6"):
        Recalibrated(SVC(decision_function_shape="ovo")).fit(*rows(classes=4))


class Forgetful(ClassifierMixin, BaseEstimator):
    """It knows its classes in another way than its labels."""

    def fit(self, X, y):
        self.classes_ = np.array([7, 8, 9])
        return self

    def predict_proba(self, X):
        return np.full((len(X), 3), 1 / 3)


def test_other_classes_are_refused():
    with pytest.raises(ValueError, match=r"knows the classes \[7, 8, 9\]"):
        Recalibrated(Forgetful()).fit(*rows())


def test_methods_are_chosen_by_grid_search():
    X, y = rows(300)
    search = GridSearchCV(Recalibrated(GaussianNB()), {"method": ["temperature", "temperature(members=each)"]}, cv=2)
    assert search.fit(X, y).best_params_["method"].startswith("temperature")


def test_methods_and_their_options_are_tuned():
    X, y = rows(400)
    made = Recalibrated(GaussianNB(), HistogramBinning())
    assert made.get_params()["method__bins"] == HistogramBinning().bins
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        search = GridSearchCV(made, {"method__bins": [2, 5]}, cv=2, scoring="neg_brier_score").fit(X, y)
        several = GridSearchCV(made, {"method": ["ets", HistogramBinning(bins=3), TemperatureScaling()]}, cv=2)
        several.fit(X, y)
    bins = search.best_params_["method__bins"]
    assert bins in (2, 5)
    assert search.best_estimator_.recalibrators_[0].bins == bins
    assert len(several.cv_results_["params"]) == 3
    assert made.method.bins == HistogramBinning().bins  # what was given stays as it was
    assert "HistogramBinning" in repr(made)
    assert "HistogramBinning" in made._repr_html_()


@pytest.mark.parametrize("name", list(METHODS))
def test_methods_are_cloned_with_their_options(name):
    """Numbers that Python does not keep once only, too: scikit-learn wants the very objects back."""
    method = method_class(name)
    given = {"bins": 1017, "off_diagonal": 0.123, "levels": 1017, "seed": 1017}
    made = method(**{key: value for key, value in given.items() if key in method().options()})
    copy = clone(made)
    assert type(copy) is method
    assert copy is not made
    assert copy.options() == made.options()


def test_set_options_forget_the_fit():
    X, y = rows(300)
    made = TemperatureScaling().fit(cal.Classification.from_sklearn(GaussianNB().fit(X, y), X, y))
    assert made.set_params() is made
    assert clone(made).fitted is None
    with pytest.raises(UsageError, match=r"temperature: expected an option of it, but got 'member'; did you mean"):
        made.set_params(member="each")
    with pytest.raises(UsageError, match="members"):
        made.set_params(members="some")
    assert made.members == "average"
    assert made.fitted is not None
    made.set_params(members="each")
    assert made.get_params() == made.options() == {**TemperatureScaling().options(), "members": "each"}
    assert made.fitted is None


def test_only_methods_for_classes_are_listed():
    with pytest.raises(UsageError, match="choose from") as caught:
        Recalibrated(GaussianNB(), "xyzzy").fit(*rows(60))
    assert "variance" not in str(caught.value)


# ----------------------------------------------------------------------------- without scikit-learn
WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "sklearn":
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
import calibrant.sklearn
try:
    calibrant.sklearn.Recalibrated
except ImportError as error:
    print(error)
"""


def test_without_scikit_learn_one_line_says_so():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("but it is not installed; pip install 'calibrant[sklearn]'")


def test_auto_takes_the_method_with_the_best_score():
    X, y = make_classification(400, 8, n_informative=5, n_classes=3, random_state=0)
    made = Recalibrated(GaussianNB(), "auto").fit(X, y)
    (found,) = made.recalibrators_
    folds = StratifiedKFold(5)
    order = np.concatenate([test for _, test in folds.split(X, y)])
    seen = cross_val_predict(GaussianNB(), X, y, cv=folds, method="predict_proba")[order]
    assert found.spec == cal.choose(cal.Classification.from_probs(seen, y[order])).best
