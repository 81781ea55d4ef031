"""Isotonic maps against scikit-learn, mathematics and real logits."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.isotonic import IsotonicRegression
from sklearn.naive_bayes import GaussianNB

import calibrant as cal
from calibrant.errors import CalibrantWarning, UsageError
from calibrant.kernels.isotonic import joined_ties
from calibrant.recalibration import IsotonicCalibration, MulticlassIsotonic
from calibrant.recalibration.class_rows import keep_top_class
from calibrant.recalibration.methods.one_vs_rest import IsotonicMap, MulticlassIsotonicMap


def quiet(method, predictions):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return method.fit(predictions)


def problem(n=500, classes=4, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(0.0, 1.5, (n, classes))
    labels = (truth + rng.gumbel(size=(n, classes))).argmax(axis=1)
    return softmax(scale * (truth + rng.normal(0.0, 0.7, (n, classes))), axis=1), labels


def sklearn_isotonic(p, y, test, weights=None):
    """One-vs-rest by scikit-learn's isotonic regression, as CalibratedClassifierCV puts it together."""
    made = [
        IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(p[:, k], y == k, weights).predict(test[:, k])
        for k in range(p.shape[1])
    ]
    out = np.stack(made, axis=1)
    total = out.sum(axis=1, keepdims=True)
    return np.where(total > 0, out / np.where(total > 0, total, 1.0), 1.0 / p.shape[1])


# ------------------------------------------------------------------------------------ scikit-learn
@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_scikit_learn_finds_the_same(classes, weighted):
    p, y = problem(classes=classes)
    test, _ = problem(n=300, classes=classes, seed=1, scale=3.0)
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(y)) if weighted else None
    made = quiet(IsotonicCalibration(), cal.Classification.from_probs(p, y, weights=weights))
    after = made.transform(cal.Classification.from_probs(test)).scores[0]
    if classes == 2:
        fit = IsotonicRegression(out_of_bounds="clip").fit(p[:, 1], y, weights)
        np.testing.assert_allclose(after[:, 1], fit.predict(test[:, 1]), atol=1e-9)
        np.testing.assert_allclose(after[:, 0], 1.0 - after[:, 1], atol=1e-15)
    else:
        np.testing.assert_allclose(after, sklearn_isotonic(p, y, test, weights), atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("forest", [False, True])
def test_a_calibrated_classifier_of_scikit_learn_is_the_same(classes, forest):
    """Forests predict tied probabilities, which stay tied however rows are normalised."""
    frozen = pytest.importorskip("sklearn.frozen", reason="scikit-learn 1.6 has frozen estimators")
    rng = np.random.default_rng(3)
    y = rng.integers(0, classes, 900)
    x = rng.normal(size=(900, 3)) + 0.8 * y[:, None]
    model = RandomForestClassifier(20, max_depth=4, random_state=0) if forest else GaussianNB()
    model.fit(x[:300], y[:300])
    all_rows = [(np.arange(300), np.arange(300))]
    stranger = CalibratedClassifierCV(frozen.FrozenEstimator(model), method="isotonic", cv=all_rows)
    stranger.fit(x[300:600], y[300:600])
    fit, test = model.predict_proba(x[300:600]), model.predict_proba(x[600:])
    made = quiet(IsotonicCalibration(), cal.Classification.from_probs(fit, y[300:600]))
    after = made.transform(cal.Classification.from_probs(test)).scores[0]
    np.testing.assert_allclose(after, stranger.predict_proba(x[600:]), atol=1e-9)


def test_single_precision_does_not_part_ties():
    """Rows of float32 do not sum to one exactly, and equal entries differ once that is mended."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(10, [0.3, 0.3, 0.4], 400)
    y = np.array([rng.choice(3, p=row) for row in counts / 10])
    made = [
        quiet(IsotonicCalibration(), cal.Classification.from_probs((counts / 10).astype(kind), y))
        for kind in (np.float64, np.float32)
    ]
    assert made[0].n_parameters == made[1].n_parameters
    np.testing.assert_allclose(made[0].maps[0].values, made[1].maps[0].values, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-30, 1.0), min_size=1, max_size=30), st.floats(0.0, 0.5))
def test_joined_ties_are_near_and_in_order(values, share):
    x = np.array(values)
    made = joined_ties(x, share)
    assert (made <= x).all()
    assert (x - made <= share * x).all()
    order = np.argsort(x, kind="stable")
    assert (np.diff(made[order]) >= 0).all()


# ------------------------------------------------------------------------------------- mathematics
@pytest.mark.parametrize("classes", [2, 4])
def test_the_fit_is_the_best_rising_function(classes):
    """Σ (g − y)² of class 1 cannot be lessened by any other rising function of p: here, mixtures with random ones."""
    p, y = problem(classes=classes, n=200)
    made = quiet(IsotonicCalibration(), cal.Classification.from_probs(p, y)).maps[0]
    number = 0 if classes == 2 else 1
    hit, fit = (y == 1).astype(float), made.curve(number, p[:, 1])
    best = np.square(fit - hit).sum()
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = np.interp(p[:, 1], np.linspace(0, 1, 9), np.sort(rng.random(9)))
        for share in (1e-4, 1e-2, 1.0):
            assert np.square((1 - share) * fit + share * other - hit).sum() >= best - 1e-12
    assert np.sum(fit * (fit - hit)) == pytest.approx(0.0, abs=1e-9)


def test_rows_without_any_class_are_uniform():
    made = IsotonicMap(np.tile([0.5, 0.9], 3), np.tile([0.0, 0.8], 3), np.full(3, 2.0))
    np.testing.assert_array_equal(made.apply(np.log([[0.4, 0.3, 0.3]])), np.full((1, 3), 1 / 3))


def test_ends_kept_inside_have_finite_nll():
    p, y = problem(n=300)
    test = cal.Classification.from_probs(*problem(n=3000, seed=5, scale=4.0))
    with pytest.warns(CalibrantWarning, match="0 or 1"):
        fitted = IsotonicCalibration().fit(cal.Classification.from_probs(p, y))
    inside = IsotonicCalibration(ends="inside").fit(cal.Classification.from_probs(p, y))
    assert np.isinf(cal.measure(fitted.transform(test), ["nll"])["nll"])
    assert cal.measure(inside.transform(test), ["nll"])["nll"] < cal.measure(test, ["nll"])["nll"]
    values = inside.maps[0].values
    assert values.min() > 0.0
    assert values.max() < 1.0


def test_pseudo_rows_by_hand():
    """All misses: the lowest of n alike has one pseudo-hit among n + 1 rows, or both pseudo-rows among n + 2."""
    p = np.full(20, 0.3)
    made = quiet(
        IsotonicCalibration(ends="inside"),
        cal.Classification.from_probs(np.stack([1 - p, p], axis=1), np.zeros(20, int)),
    )
    assert made.maps[0].values == pytest.approx([1 / 22])


def test_classes_without_rows_are_told():
    p, y = problem()
    with pytest.warns(CalibrantWarning) as seen:
        IsotonicCalibration().fit(cal.Classification.from_probs(p[y != 2], y[y != 2]))
    assert any("have no row" in str(one.message) for one in seen)


# ---------------------------------------------------------------------------- one fit for all classes
def strict(values=(0.0, 0.0, 0.6, 0.6), identity=1e-3):
    return MulticlassIsotonicMap(np.array([0.1, 0.4, 0.45, 0.9]), np.array(values), identity)


def test_all_pairs_make_one_fit():
    p, y = problem()
    made = quiet(MulticlassIsotonic(identity=1e-9), cal.Classification.from_probs(p, y))
    pairs = IsotonicRegression(out_of_bounds="clip").fit(p.ravel(), (np.arange(4) == y[:, None]).ravel())
    out = pairs.predict(p.ravel()).reshape(p.shape)
    after = np.exp(made.transform(cal.Classification.from_probs(p)).scores[0])
    np.testing.assert_allclose(after, out / out.sum(axis=1, keepdims=True), atol=1e-7)


def test_two_classes_are_treated_alike():
    """P(class 1) → g is P(class 0) → 1 − g."""
    p, y = problem(classes=2)
    made = quiet(MulticlassIsotonic(), cal.Classification.from_probs(p, y))
    turned = quiet(MulticlassIsotonic(), cal.Classification.from_probs(p[:, ::-1], 1 - y))
    straight = made.maps[0].apply(np.log(p))
    np.testing.assert_allclose(turned.maps[0].apply(np.log(p[:, ::-1]))[:, ::-1], straight, atol=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.floats(1e-17, 1e-2))
def test_near_ties_do_not_change_the_predicted_class(seed, classes, apart):
    """Also where classes differ in the last digits only, and after another softmax."""
    rng = np.random.default_rng(seed)
    near = 0.4 + apart * rng.integers(-3, 4, (40, classes))
    logs = log_softmax(np.where(rng.random((40, classes)) < 0.5, np.log(near), -2.0), axis=1)
    after = strict().apply(logs)
    np.testing.assert_array_equal(after.argmax(axis=1), logs.argmax(axis=1))
    np.testing.assert_array_equal(softmax(after, axis=1).argmax(axis=1), logs.argmax(axis=1))
    np.testing.assert_allclose(np.exp(after).sum(axis=1), 1.0, atol=1e-12)


def test_what_needs_no_lift_is_left_alone():
    logs = np.log([[0.2, 0.5, 0.3], [0.25, 0.25, 0.5]])
    np.testing.assert_array_equal(keep_top_class(logs.copy(), logs), logs)


def test_order_is_kept_and_rows_come_back():
    """The inverse by bisection of the sum: the image determines the row, as the map is injective."""
    p, _ = problem(n=50, classes=5, seed=2)
    made = strict()
    after = np.exp(made.apply(np.log(p)))
    np.testing.assert_array_equal(np.argsort(after, axis=1), np.argsort(p, axis=1))
    grid = np.concatenate([np.geomspace(1e-40, 1e-6, 2000), np.linspace(1e-6, 1.0, 400_001)])
    g = 0.999 * np.interp(grid, made.x, made.values) + 0.001 * grid
    for row, image in zip(p, after, strict=True):
        low, high = 0.0, 5.0
        for _ in range(80):
            middle = (low + high) / 2
            total = np.interp(middle * image, g, grid).sum()
            low, high = (middle, high) if total < 1.0 else (low, middle)
        np.testing.assert_allclose(np.interp(low * image, g, grid), row, atol=1e-5)


def test_real_networks_keep_their_accuracy_and_gain(data_folder):
    stored = np.load(data_folder / "predictions" / "cifar10_nn_calibration_logits.npz")
    for m in range(2):
        fit = cal.Classification.from_logits(stored["logits_val"][m], stored["labels_val"])
        test = cal.Classification.from_logits(stored["logits_test"][m], stored["labels_test"])
        after = MulticlassIsotonic().fit(fit).transform(test)
        names = ["accuracy", "brier", "nll", "ks"]
        was, now = (cal.measure(each, names) for each in (test, after))
        assert now["accuracy"] == was["accuracy"]
        assert all(now[key] < was[key] for key in names[1:])
        logs = log_softmax(stored["logits_val"][m].astype(np.float64), axis=1)
        new = log_softmax(stored["logits_test"][m].astype(np.float64), axis=1)
        single = quiet(IsotonicCalibration(), fit).transform(test).scores[0]
        np.testing.assert_allclose(single, sklearn_isotonic(np.exp(logs), stored["labels_val"], np.exp(new)), atol=1e-9)


# ------------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    "fields",
    [
        {"x": [0.1, 0.1], "values": [0.2, 0.3], "sizes": [2]},
        {"x": [0.1, 0.2], "values": [0.4, 0.3], "sizes": [2]},
        {"x": [0.1, 0.2], "values": [0.4, 1.3], "sizes": [2]},
        {"x": [0.1, 0.2], "values": [0.4, 0.5], "sizes": [3]},
        {"x": [0.1, 0.2], "values": [0.4, float("nan")], "sizes": [2]},
    ],
)
def test_curves_that_cannot_be_are_refused(fields):
    with pytest.raises(ValueError, match=r"increase|points|not an array of finite numbers"):
        IsotonicMap.from_parameters(fields)


@pytest.mark.parametrize("change", [{"x": np.zeros(4)}, {"values": np.ones(3)}, {"identity": 0.0}])
def test_other_points_are_refused(change):
    with pytest.raises(ValueError, match=r"increase|identity"):
        replace(strict(), **change)


def test_options_are_checked():
    with pytest.raises(UsageError, match="fitted or inside"):
        IsotonicCalibration(ends="open")
    with pytest.raises(UsageError, match="a number from"):
        MulticlassIsotonic(identity=0.0)
