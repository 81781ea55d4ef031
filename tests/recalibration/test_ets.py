"""Ensemble temperature scaling: its weights against other optimisers and against what convexity promises."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

import calibrant as cal
from calibrant.errors import CalibrantWarning
from calibrant.recalibration import EnsembleTemperatureScaling, TemperatureScaling, recalibrator
from calibrant.recalibration.methods.ets import EnsembleTemperatureMap, minimize_on_simplex


def problem(n=800, classes=5, seed=0, scale=2.0, guesses=0.1):
    """Over-confident logits; a share of the labels are guesses."""
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.standard_normal((n, classes))
    labels = (truth + rng.gumbel(size=(n, classes))).argmax(axis=1)
    labels = np.where(rng.random(n) < guesses, rng.integers(0, classes, n), labels)
    return scale * (truth + 0.3 * rng.standard_normal((n, classes))), labels


def fit(z, y, loss="nll", **known):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return EnsembleTemperatureScaling(loss=loss).fit(cal.Classification.from_logits(z, y, **known))


def written(w, z, y, temperature, loss):
    """The loss as it is written down."""
    p = w[0] * softmax(z / temperature, axis=1) + w[1] * softmax(z, axis=1) + w[2] / z.shape[1]
    if loss == "nll":
        return -float(np.log(p[np.arange(len(y)), y]).mean())
    return float(((p - np.eye(z.shape[1])[y]) ** 2).sum(axis=1).mean())


# ------------------------------------------------------------------------------------------- the optimum
@pytest.mark.parametrize("loss", ["nll", "brier"])
@pytest.mark.parametrize(("seed", "guesses", "scale"), [(0, 0.1, 2.0), (1, 0.0, 2.0), (2, 0.5, 1.0), (3, 0.2, 0.3)])
def test_weights_are_the_best(loss, seed, guesses, scale):
    z, y = problem(seed=seed, guesses=guesses, scale=scale)
    made = fit(z, y, loss)
    (found,) = made.maps
    simplex = {"type": "eq", "fun": lambda w: w.sum() - 1}
    ends = [
        minimize(written, start, (z, y, found.temperature, loss), "SLSQP", bounds=[(0, 1)] * 3, constraints=simplex)
        for start in (np.full(3, 1 / 3), np.array([0.8, 0.1, 0.1]), np.array([0.1, 0.1, 0.8]))
    ]
    assert made.report.after == pytest.approx(written(found.weights, z, y, found.temperature, loss), abs=1e-12)
    assert made.report.after <= min(end.fun for end in ends) + 1e-9
    assert made.report.before == pytest.approx(written([0, 1, 0], z, y, found.temperature, loss), abs=1e-12)
    assert made.converged
    assert made.report.gradient < 1e-6


@pytest.mark.parametrize("loss", ["nll", "brier"])
def test_no_direction_of_the_simplex_leads_down(loss):
    z, y = problem(seed=4)
    (found,) = fit(z, y, loss).maps
    here = written(found.weights, z, y, found.temperature, loss)
    for corner in np.eye(3):
        there = found.weights + 1e-4 * (corner - found.weights)
        assert written(there, z, y, found.temperature, loss) >= here - 1e-12


def test_it_is_never_behind_temperature_scaling():
    z, y = problem(seed=5)
    rows = cal.Classification.from_logits(z, y)
    scaled = TemperatureScaling().fit(rows)
    made = fit(z, y)
    assert made.maps[0].temperature == scaled.temperature
    assert made.report.after <= scaled.report.after + 1e-12
    assert made.report.after < scaled.report.after - 1e-4  # a tenth of these labels are guesses


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 5), st.integers(0, 10**6), st.integers(1, 5))
def test_quadratics_on_the_simplex(count, seed, rank):
    """Of full rank or not: no point of a fine sample of the simplex, corners among them, is lower."""
    rng = np.random.default_rng(seed)
    root, line = rng.normal(size=(rank, count)), rng.normal(size=count)
    found = minimize_on_simplex(lambda w: (((root @ w) ** 2).sum() + line @ w, 2 * root.T @ root @ w + line,
                                        2 * root.T @ root), count)  # fmt: skip
    assert found.converged
    points = np.concatenate([rng.dirichlet(np.full(count, 0.3), 500), np.eye(count)])
    values = ((points @ root.T) ** 2).sum(axis=1) + points @ line
    assert found.value <= values.min() + found.gap + 1e-12
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1)


# ------------------------------------------------------------------------------------------------ the map
def test_the_map_is_the_mixture():
    logs = log_softmax(problem()[0], axis=1)
    made = EnsembleTemperatureMap(2.0, 0.5, 0.3, 0.2)
    p = np.exp(made.apply(logs))
    expected = 0.5 * softmax(logs / 2.0, axis=1) + 0.3 * np.exp(logs) + 0.2 / 5
    np.testing.assert_allclose(p, expected, rtol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize(("weights", "known"), [
    ((0.0, 0.0, 1.0), False), ((1.0, 0.0, 0.0), True), ((0.0, 1e-6, 1 - 1e-6), True), ((0.4, 0.3, 0.3), True),
])  # fmt: skip
def test_injective_where_anything_but_guessing_has_weight(weights, known):
    made = EnsembleTemperatureMap(1.7, *weights)
    assert (made.injective, made.keeps_order) == (known, known)
    logs = log_softmax(np.random.default_rng(0).normal(size=(200, 4)), axis=1)
    images = made.apply(logs)
    apart = np.abs(images[:, None] - images[None]).max(axis=2) + np.eye(200)
    assert (apart.min() > 1e-12) == known


@pytest.mark.parametrize("bad", [(0.0, 1, 0, 0), (np.nan, 1, 0, 0), (1.0, 0.5, 0.5, 0.5), (1.0, 1.5, -0.5, 0.0)])
def test_a_map_that_cannot_be_is_refused(bad):
    message = "weights must be non-negative and sum to one" if bad[0] == 1.0 else "temperature must be positive"
    with pytest.raises(ValueError, match=message):
        EnsembleTemperatureMap(*bad)


@pytest.mark.parametrize("loss", ["nll", "brier"])
def test_guessing_is_told(loss):
    z, _ = problem(200)
    with pytest.warns(CalibrantWarning, match="the map is constant"):
        made = EnsembleTemperatureScaling(loss=loss).fit(cal.Classification.from_logits(z, z.argmin(axis=1)))
    assert not made.injective
    assert not made.accuracy_preserving
    np.testing.assert_allclose(made.maps[0].weights, [0, 0, 1])
    assert made.report.after == pytest.approx(np.log(5) if loss == "nll" else 0.8)


def test_impossible_labels_are_in_the_loss_but_not_in_the_temperature():
    z, y = problem(300)
    z[5, y[5]] = -np.inf
    with pytest.warns(CalibrantWarning, match="1 of 300 rows were left out of the temperature"):
        made = EnsembleTemperatureScaling().fit(cal.Classification.from_logits(z, y))
    assert made.maps[0].uniform_weight > 0
    assert made.report.before - made.report.after > 80 / 300


@pytest.mark.parametrize("network", [0, 1])
def test_real_networks(data_folder, network):
    """Not behind temperature scaling on the rows of the fit; on others it gains most of what there is to gain."""
    path = data_folder / "predictions" / "cifar10_nn_calibration_logits.npz"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    with np.load(path) as held:
        train = cal.Classification.from_logits(held["logits_val"][network], held["labels_val"])
        test = cal.Classification.from_logits(held["logits_test"][network], held["labels_test"])
    scaled, made = TemperatureScaling().fit(train), EnsembleTemperatureScaling().fit(train)
    given = (test, scaled.transform(test), made.transform(test))
    before, one, three = (cal.measure(each, ["nll", "accuracy"]) for each in given)
    assert made.report.after <= scaled.report.after + 1e-11
    assert before["nll"] - three["nll"] > 0.98 * (before["nll"] - one["nll"])
    assert three["accuracy"] == before["accuracy"]


# -------------------------------------------------------------------------------------------- rounding
@pytest.mark.parametrize("seed", range(6))
def test_labels_that_are_all_one_class_settle(seed):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(200, 2)) * rng.choice([1, 5, 20])
    made = fit(z, np.zeros(200, int))
    assert made.converged
    assert made.report.after <= made.report.before


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_the_gap_is_measured_in_the_unit_of_the_loss(unit):
    rng = np.random.default_rng(0)
    root, target = rng.normal(size=(5, 3)), np.array([0.5, 0.3, 0.2])
    q = unit * root.T @ root

    def at(w):
        return float((w - target) @ q @ (w - target)) + unit, 2.0 * q @ (w - target), 2.0 * q

    found = minimize_on_simplex(at, 3)
    assert found.converged
    np.testing.assert_allclose(found.weights, target, atol=1e-5)


def test_no_corner_is_lower_than_what_is_found():
    """A function whose Newton steps lead nowhere: its Hessian is not told."""

    def at(w):
        return float(abs(w[1] - 1.0)), np.zeros(3), np.eye(3)

    found = minimize_on_simplex(at, 3)
    np.testing.assert_array_equal(found.weights, [0.0, 1.0, 0.0])


def test_the_predicted_class_outlives_rounding():
    """Next to all the weight on guessing leaves differences that the digits of log-probabilities do not hold."""
    found = EnsembleTemperatureMap(2.0, 1e-12, 0.0, 1.0 - 1e-12)
    assert found.apply(np.log([[0.49999, 0.50001]])).argmax() == 1
    logs = log_softmax(1e-3 * np.random.default_rng(0).normal(size=(500, 7)), axis=1)
    for w in (1e-12, 1e-15, 1e-30):
        after = EnsembleTemperatureMap(2.0, w, 0.0, 1.0 - w).apply(logs)
        np.testing.assert_array_equal(after.argmax(axis=1), logs.argmax(axis=1))
        np.testing.assert_array_equal(np.exp(after).argmax(axis=1), logs.argmax(axis=1))
        np.testing.assert_allclose(np.exp(after).sum(axis=1), 1.0, atol=1e-13)


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_wide_logits_are_not_cut_off(scale):
    """The scaled prediction is among those that are mixed, so that none of the fitted rows' loss may be lost."""
    z, y = problem(1000)
    given = cal.Classification.from_logits(scale * z, y)
    alone, mixed = (recalibrator(name).fit(given).transform(given) for name in ("temperature", "ets"))
    assert cal.measure(mixed, ["nll"])["nll"] <= cal.measure(alone, ["nll"])["nll"] + 1e-9
