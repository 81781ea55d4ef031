"""Splines of cumulative curves against another basis, mathematics and real logits."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import calibrant as cal
from calibrant.errors import CalibrantWarning
from calibrant.recalibration import SplineCalibration
from calibrant.recalibration.methods.spline import MAX_SCORES, SplineMap


def quiet(predictions, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return SplineCalibration(**options).fit(predictions)


def binary(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(2.0, 1.2, n)
    return p, (rng.random(n) < p**2).astype(int)


def several(n=1000, classes=4, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(0.0, 1.5, (n, classes))
    return scale * (truth + rng.normal(0.0, 0.7, truth.shape)), (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


def of(p, y=None, **known):
    return cal.Classification.from_probs(np.stack([1 - p, p], axis=1), y, **known)


def natural_basis(t, knots):
    """The natural cubic splines on knots by truncated powers (Hastie, Tibshirani & Friedman, 5.2.1)."""

    def d(k):
        return (np.maximum(t - knots[k], 0.0) ** 3 - np.maximum(t - knots[-1], 0.0) ** 3) / (knots[-1] - knots[k])

    return np.stack([np.ones_like(t), t, *(d(k) - d(len(knots) - 2) for k in range(len(knots) - 2))], axis=1)


# ------------------------------------------------------------------------------------- mathematics
@pytest.mark.parametrize("curve", ["gap", "hits"])
@pytest.mark.parametrize("knots", [3, 6, 9])
def test_another_basis_finds_the_same(curve, knots):
    p, y = binary()
    made = quiet(of(p, y), curve=curve, knots=knots).transform(of(p)).scores[0, :, 1]
    order = np.argsort(p)
    t, at = np.arange(1, len(p) + 1) / len(p), np.linspace(0, 1, knots)
    target = np.cumsum(y[order] - (p[order] if curve == "gap" else 0.0)) / len(p)
    # without the constant: all but the first of these functions are 0 at 0
    found = np.linalg.lstsq(natural_basis(t, at)[:, 1:], target, rcond=None)[0]
    slope = len(p) * (natural_basis(t, at) - natural_basis(t - 1 / len(p), at))[:, 1:] @ found
    expected = np.clip(slope + (p[order] if curve == "gap" else 0.0), 0.0, 1.0)
    np.testing.assert_allclose(made[order], expected, atol=1e-8)


def test_a_calibrated_score_that_is_in_the_space_is_left_alone():
    """Hits that make H = P leave nothing to fit."""
    p = np.repeat([0.25, 0.5, 0.75], 400)
    y = np.concatenate([np.tile(part, 100) for part in ([1, 0, 0, 0], [1, 0, 1, 0], [1, 1, 1, 0])])
    made = quiet(of(p, y), knots=4)
    np.testing.assert_allclose(made.maps[0].values, 0.0, atol=1e-12)
    np.testing.assert_allclose(made.transform(of(p)).scores[0, :, 1], p, atol=1e-9)


def test_two_knots_add_what_is_missing_on_average():
    """A line through 0 that is least squares of a line: scores that are 0.1 too low are so much higher after."""
    rng = np.random.default_rng(0)
    p = np.sort(rng.uniform(0.2, 0.6, 200_000))
    y = (rng.random(200_000) < p + 0.1).astype(int)
    after = quiet(of(p, y), knots=2).transform(of(p)).scores[0, :, 1]
    np.testing.assert_allclose(after - p, (after - p)[0], atol=1e-12)
    assert (after - p)[0] == pytest.approx(0.1, abs=0.005)


def test_many_rows_are_thinned_without_harm():
    p, y = binary(n=20_000)
    made = quiet(of(p, y)).maps[0]
    assert len(made.scores) <= MAX_SCORES + 1
    rank = np.arange(len(p))
    exact = replace(made, scores=np.sort(p), starts=rank / len(p), ends=(rank + 1) / len(p), sizes=np.array([len(p)]))
    np.testing.assert_allclose(made.curve(0, p), exact.curve(0, p), atol=2e-3)


def test_few_scores_become_the_shares_that_came_true_and_say_so():
    p, y = np.repeat([0.3, 0.6], [70, 30]), np.append(np.tile([0, 1], 35), np.tile([1, 1, 0], 10))
    with pytest.warns(CalibrantWarning, match="only 2 distinct scores for a spline of 6 knots"):
        made = SplineCalibration().fit(of(p, y))
    assert made.report.after < made.report.before
    np.testing.assert_allclose(made.maps[0].curve(0, np.array([0.3, 0.6])), [1 / 2, 2 / 3], atol=0.01)


# -------------------------------------------------------------------------- ties, and unequal weights
def saturated(rng, n):
    """Scores that are 0 or 1 but for one row in twenty; 17.5 % of them are wrong."""
    p = (rng.random(n) < 0.5).astype(float)
    y = (rng.random(n) < np.where(p == 1, 0.825, 0.175)).astype(int)
    return np.where(rng.random(n) < 0.05, rng.random(n), p), y


def neighbours(rng, n):
    """The shares of five neighbours, of which most agree."""
    p = rng.choice([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], n, p=[0.42, 0.04, 0.04, 0.04, 0.04, 0.42])
    return p, (rng.random(n) < 0.1 + 0.8 * p).astype(int)


def lopsided(rng, n):
    """Two scores, one of them rare."""
    p = (rng.random(n) < 0.1).astype(float)
    return p, (rng.random(n) < np.where(p == 1, 0.7, 0.03)).astype(int)


def half_sure(rng, n):
    p = np.where(rng.random(n) < 0.6, 1.0, rng.random(n))
    return p, (rng.random(n) < 0.9 * p).astype(int)


@pytest.mark.parametrize("kind", [saturated, neighbours, lopsided, half_sure])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [300, 3000])
def test_many_ties_do_no_harm(kind, seed, n):
    rng = np.random.default_rng(seed)
    p, y = kind(rng, n)
    new, true = kind(rng, 20_000)
    made = quiet(of(p, y))
    after = made.transform(of(new)).scores[0, :, 1]
    assert np.mean((after - true) ** 2) < np.mean((new - true) ** 2)
    for end in (0.0, 1.0):
        if (p == end).mean() > 0.3:
            assert made.maps[0].curve(0, np.array([end])) == pytest.approx(y[p == end].mean(), abs=0.03)


@pytest.mark.parametrize("heavy", [True, False])
@pytest.mark.parametrize("of_what", ["top", "classes"])
def test_weights_of_any_size_have_a_map(heavy, of_what):
    scores, y = several()
    weights = np.exp(20.0 * np.random.default_rng(1).normal(size=len(y)))
    if heavy:
        weights = np.ones(len(y))
        weights[7] = 1e18
    given = cal.Classification.from_logits(scores, y, weights=weights)
    made = quiet(given, of=of_what)
    assert made.report.after <= made.report.before
    np.testing.assert_allclose(made.transform(given).scores.sum(axis=2), 1.0, atol=1e-9)


# ------------------------------------------------------------------------------ the predicted class
def test_others_share_the_rest_in_proportion():
    scores, y = several()
    made = quiet(cal.Classification.from_logits(scores, y))
    p = softmax(scores, axis=1)
    after = made.transform(cal.Classification.from_logits(scores)).scores[0]
    np.testing.assert_array_equal(after.argmax(axis=1), p.argmax(axis=1))
    others = np.arange(4) != p.argmax(axis=1)[:, None]
    before, now = p[others].reshape(-1, 3), after[others].reshape(-1, 3)
    some = now.sum(axis=1) > 1e-9
    assert some.mean() > 0.5
    np.testing.assert_allclose(
        now[some] / now[some].sum(axis=1, keepdims=True), (before / before.sum(axis=1, keepdims=True))[some], atol=1e-9
    )


def test_a_predicted_class_that_would_fall_behind_is_raised_just_above():
    one = np.array([1.0])
    low = SplineMap(np.array([0.4]), 0.0 * one, one, one, np.array([[0.0, 0.05]]), "top", "hits", 0.0)
    after = low.apply(np.log([[0.25, 0.35, 0.4], [0.05, 0.9, 0.05]]))
    np.testing.assert_allclose(after[0], [0.25 * 0.6316 / 0.6, 0.3684, 0.3684], atol=1e-4)
    np.testing.assert_allclose(after[1], [1 / 3, 1 / 3, 1 / 3], atol=1e-9)
    np.testing.assert_array_equal(after.argmax(axis=1), [2, 1])


def test_what_is_promised_depends_on_the_map():
    scores, y = several()
    given = cal.Classification.from_logits(scores, y)
    assert not SplineCalibration().accuracy_preserving
    assert quiet(given).accuracy_preserving
    assert not quiet(given, of="classes").accuracy_preserving
    assert not quiet(of(*binary())).accuracy_preserving


def test_top_probabilities_near_one_share_finite_rests():
    scores, y = several(scale=60.0)
    after = quiet(cal.Classification.from_logits(scores, y)).transform(cal.Classification.from_logits(scores)).scores
    assert np.isfinite(after).all()
    np.testing.assert_allclose(after.sum(axis=2), 1.0, atol=1e-9)


def test_ends_kept_inside():
    scores, y = several(scale=4.0)
    given = cal.Classification.from_logits(scores, y)
    made = quiet(given, ends="inside")
    after = made.transform(given).scores[0]
    assert after.max() <= 1 - 0.49 / (len(y) + 1)
    assert np.isfinite(cal.measure(made.transform(given), ["nll"])["nll"])


# -------------------------------------------------------------------------------------- real logits
@pytest.mark.parametrize("m", [0, 1])
def test_the_ks_error_of_real_networks_falls(data_folder, m):
    stored = np.load(data_folder / "predictions" / "cifar10_nn_calibration_logits.npz")
    fit = cal.Classification.from_logits(stored["logits_val"][m], stored["labels_val"])
    test = cal.Classification.from_logits(stored["logits_test"][m], stored["labels_test"])
    names = ["accuracy", "ks", "ece", "brier"]
    was = cal.measure(test, names)
    now = cal.measure(quiet(fit).transform(test), names)
    assert now["accuracy"] == was["accuracy"]
    assert now["ks"] < was["ks"] / 4
    assert now["ece"] < was["ece"] / 4
    assert now["brier"] < was["brier"]
    held = quiet(fit)
    assert cal.measure(held.transform(fit), ["ks"])["ks"] < 0.005


def test_cumulative_hits_alone_are_coarse_and_say_so(data_folder):
    """Of one class in ten, P(class) changes within the last tenth of rows, where six knots see next to nothing."""
    stored = np.load(data_folder / "predictions" / "cifar10_nn_calibration_logits.npz")
    fit = cal.Classification.from_logits(stored["logits_val"][0], stored["labels_val"])
    with pytest.warns(CalibrantWarning) as seen:
        SplineCalibration(of="classes", curve="hits").fit(fit)
    said = " ".join(str(one.message) for one in seen)
    for part in ("the fit made it worse", "curve=hits needs more knots", "Brier score of the fitted rows rose"):
        assert part in said


# ------------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    "change",
    [
        {"scores": np.array([0.4, 0.3])},
        {"starts": np.array([0.4])},
        {"starts": np.array([0.4, 1.1])},
        {"ends": np.array([0.4, 1.1])},
        {"values": np.array([[0.0]])},
        {"values": np.zeros((2, 3))},
        {"of": "all"},
        {"form": "other"},
        {"margin": 0.5},
    ],
)
def test_maps_that_cannot_be_are_refused(change):
    halves = np.array([0.0, 0.5]), np.array([0.5, 1.0])
    made = SplineMap(np.array([0.3, 0.4]), *halves, np.array([2.0]), np.zeros((1, 3)), "top", "gap", 0.0)
    np.testing.assert_allclose(made.apply(log_softmax(np.eye(3), axis=1)), softmax(np.eye(3), axis=1))
    with pytest.raises(ValueError, match=r"increase|numbers|knots|belong|margin"):
        replace(made, **change)
