"""Temperature by accuracy versus uncertainty: the loss as it is written down, and what it wants."""

import warnings

import numpy as np
import pytest
from scipy.special import softmax

import calibrant as cal
from calibrant.errors import CalibrantError, CalibrantWarning
from calibrant.kernels.temperature_sums import sure_rows
from calibrant.recalibration import AvUTemperatureScaling
from calibrant.recalibration.class_rows import ClassRows
from calibrant.recalibration.methods.avu import AvULoss, grid_search


def problem(n=300, classes=4, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.standard_normal((n, classes))
    labels = (truth + rng.gumbel(size=(n, classes))).argmax(axis=1)
    return scale * truth, labels


def fit(z, y, loss="avuc", **known):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return AvUTemperatureScaling(loss=loss).fit(cal.Classification.from_logits(z, y, **known))


def row_by_row(z, y, temperature, threshold, w=None):
    """AC + IU and AU + IC, each row in its cell."""
    agree = differ = 0.0
    for row, label, weight in zip(z, y, np.ones(len(y)) if w is None else w, strict=True):
        p = softmax(row / temperature)
        u, confidence = -(p[p > 0] * np.log(p[p > 0])).sum(), p.max()
        right, certain = row.argmax() == label, u <= threshold
        size = weight * (confidence if right else 1 - confidence) * (1 - np.tanh(u) if certain else np.tanh(u))
        agree, differ = (agree + size, differ) if right == certain else (agree, differ + size)
    return agree, differ


def entropies(z, temperature):
    p = softmax(z / temperature, axis=1)
    return -(p * np.log(p)).sum(axis=1)


def loss_of(z, y, kind="avuc", **known):
    return AvULoss(ClassRows(cal.Classification.from_logits(z, y, **known)), kind, 1)


# ----------------------------------------------------------------------------------------------- the loss
@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7, 5.0])
def test_avuc_is_what_is_written_down(temperature):
    z, y = problem()
    w = np.random.default_rng(1).random(300)
    right, u = z.argmax(axis=1) == y, entropies(z, 1.0)
    threshold = (np.average(u[right], weights=w[right]) + np.average(u[~right], weights=w[~right])) / 2
    agree, differ = row_by_row(z, y, temperature, threshold, w)
    assert loss_of(z, y, weights=w)(np.log(temperature)) == pytest.approx(np.log1p(differ / agree), rel=1e-10)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 5.0])
def test_auavuc_is_the_area_of_the_soft_curve(temperature):
    z, y = problem(120)
    u = entropies(z, temperature)
    curve = []
    for t in np.arange(21) / 20:
        agree, differ = row_by_row(z, y, temperature, u.min() + t * (u.max() - u.min()) + 1e-12)
        curve.append(agree / (agree + differ))
    found = loss_of(z, y, "auavuc")(np.log(temperature))
    assert found == pytest.approx(-np.log(np.trapezoid(curve, dx=0.05)), rel=1e-9)


@pytest.mark.parametrize("classes", [2, 10, 70])
def test_confidence_and_entropy(classes):
    z, _ = problem(50, classes)
    for beta in (1 / 64, 0.7, 1.0, 64.0):
        p = softmax(beta * z, axis=1)
        confidence, entropy = sure_rows(z, beta)
        np.testing.assert_allclose(confidence, p.max(axis=1), rtol=1e-12)
        np.testing.assert_allclose(entropy, -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1), atol=1e-12)


# --------------------------------------------------------------------------------------------- what it wants
@pytest.mark.parametrize("kind", ["avuc", "auavuc"])
@pytest.mark.parametrize("labels", ["as predicted", "guesses"])
def test_the_loss_falls_to_nothing_with_the_temperature(kind, labels):
    """Whatever the labels are, as long as one row is right: a loss of 0 is not a sign of calibration."""
    z, y = problem()
    y = y if labels == "as predicted" else np.random.default_rng(0).integers(0, 4, 300)
    loss = loss_of(z, y, kind)
    assert loss(np.log(1e-4)) < 1e-3
    assert loss(np.log(1e-4)) < loss(np.log(1 / 64)) < loss(0.0)


@pytest.mark.parametrize("kind", ["avuc", "auavuc"])
def test_the_bound_is_told_and_so_is_the_likelihood(kind):
    z, y = problem()
    with pytest.warns(CalibrantWarning) as said:
        made = AvUTemperatureScaling(loss=kind).fit(cal.Classification.from_logits(z, y))
    assert made.temperature == 1 / 64
    text = " ".join(str(each.message) for each in said)
    assert "1/64: this loss falls to 0 with T" in text
    assert "not a proper score" in text
    assert made.report.loss == kind
    assert made.report.after < made.report.before


def test_the_best_of_many_temperatures_is_found():
    z, y = problem(seed=3)
    loss = loss_of(z, y)
    _, value, _ = grid_search(loss)
    assert value <= min(loss(x) for x in np.linspace(-np.log(64), np.log(64), 777))


@pytest.mark.parametrize("centre", [-2.0, 0.1, 3.3])
def test_the_search_comes_as_close_as_it_says(centre):
    """A loss with a minimum inside, and with a jump at its minimum."""
    x, _, _ = grid_search(lambda x: (x - centre) ** 2)
    assert x == pytest.approx(centre, abs=1e-7)
    x, value, _ = grid_search(lambda x: abs(x - centre) + (0.5 if x < centre else 0.0))
    assert x == pytest.approx(centre, abs=1e-7)
    assert value < 1e-7
    assert grid_search(lambda x: 1.0)[0] == 0.0


# ----------------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(("which", "word"), [("argmax", "only correct rows"), ("argmin", "only wrong rows")])
def test_rows_of_one_kind_are_refused(which, word):
    z, _ = problem(50)
    with pytest.raises(CalibrantError, match=word) as refusal:
        AvUTemperatureScaling().fit(cal.Classification.from_logits(z, getattr(z, which)(axis=1)))
    assert "\n" not in str(refusal.value)


def test_rows_without_weight_do_not_count():
    z, y = problem(100)
    right = z.argmax(axis=1) == y
    with pytest.raises(CalibrantError, match="only correct rows"):
        fit(z, y, weights=right.astype(float))


def test_classes_keep_their_order():
    z, y = problem()
    made = fit(z, y)
    assert made.accuracy_preserving
    assert made.injective
    after = made.transform(cal.Classification.from_logits(z, y))
    np.testing.assert_array_equal(after.scores[0].argsort(axis=1), z.argsort(axis=1))
