"""Log-likelihoods of members at temperatures, their derivatives and their mixture, against plain NumPy."""

import numpy as np
import pytest
from scipy.special import logsumexp

from calibrant.kernels import jit
from calibrant.kernels.temperature_sums import log_likelihoods, mixture_sums

SHAPES = [(1, 1, 2), (3, 70, 2), (2, 300, 10), (2, 5, 47), (2, 5, 48), (3, 40, 130)]


def problem(members, n, classes, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    z = (3 * rng.standard_normal((members, n, classes))).astype(dtype)
    return z, rng.integers(0, classes, n), np.exp(rng.normal(0, 0.5, members)), rng.random(n)


def plain(z, y, beta):
    """ℓ, z_y − E[z] and −Var[z], from softmax(βz) itself."""
    z = z.astype(np.float64)
    logits = beta[:, None, None] * z
    log_p = logits - logsumexp(logits, axis=2, keepdims=True)
    p, rows = np.exp(log_p), np.arange(len(y))
    mean = (p * z).sum(axis=2)
    return log_p[:, rows, y], z[:, rows, y] - mean, -(p * (z - mean[:, :, None]) ** 2).sum(axis=2)


def value_of(z, y, w, beta):
    own = plain(z, y, beta)[0]
    return float(w @ (logsumexp(own, axis=0) - np.log(len(z))))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_member_against_softmax(shape, dtype):
    z, y, beta, _ = problem(*shape, dtype)
    for ours, theirs in zip(log_likelihoods(z, y, beta), plain(z, y, beta), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_derivatives_of_the_mixture_by_finite_differences(shape):
    z, y, beta, w = problem(*shape)
    sums, h = mixture_sums(z, y, w, beta), 1e-5
    assert sums.value == pytest.approx(value_of(z, y, w, beta), rel=1e-13)
    for m, unit in enumerate(np.eye(len(z))):
        rise = value_of(z, y, w, beta + h * unit) - value_of(z, y, w, beta - h * unit)
        assert sums.gradient[m] == pytest.approx(rise / (2 * h), rel=1e-6, abs=1e-7)
        up, down = mixture_sums(z, y, w, beta + h * unit), mixture_sums(z, y, w, beta - h * unit)
        np.testing.assert_allclose(sums.hessian[m], (up.gradient - down.gradient) / (2 * h), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(sums.hessian, sums.hessian.T)


def test_sums_of_each_member_alone():
    z, y, beta, w = problem(3, 600, 4)
    sums = mixture_sums(z, y, w, beta, hessian=False)
    _, slope, curvature = plain(z, y, beta)
    assert sums.hessian is None
    np.testing.assert_allclose(sums.own_slope, slope @ w, rtol=1e-11)
    np.testing.assert_allclose(sums.own_curvature, curvature @ w, rtol=1e-11)


@pytest.mark.parametrize("classes", [3, 60])
def test_impossible_classes_contribute_nothing(classes):
    z, y, beta, _ = problem(2, 50, classes)
    y[:] = 0
    wide = np.concatenate([z, np.full((2, 50, 2), -np.inf)], axis=2)
    for ours, theirs in zip(log_likelihoods(wide, y, beta), plain(z, y, beta), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("classes", [3, 60])
def test_a_label_that_one_member_finds_impossible_is_the_others_alone(classes):
    z, y, beta, w = problem(2, 50, classes)
    z[0, np.arange(50), y] = -np.inf
    sums = mixture_sums(z, y, w, beta)
    alone = plain(z[1:], y, beta[1:])
    assert sums.value == pytest.approx(float(w @ (alone[0][0] - np.log(2))), rel=1e-12)
    assert sums.gradient[0] == 0
    assert sums.own_slope[0] == 0
    assert sums.gradient[1] == pytest.approx(float(w @ alone[1][0]), rel=1e-11)
    assert sums.hessian[1, 1] == pytest.approx(float(w @ alone[2][0]), rel=1e-9)


def test_a_label_that_no_member_finds_possible_is_minus_infinity_unless_it_has_no_weight():
    z, y, beta, w = problem(2, 50, 3)
    z[:, 7, y[7]] = -np.inf
    assert mixture_sums(z, y, w, beta).value == -np.inf
    w[7] = 0
    sums, rest = mixture_sums(z, y, w, beta), np.arange(50) != 7
    assert np.isneginf(sums.log_mean[7])
    assert sums.value == pytest.approx(value_of(z[:, rest], y[rest], w[rest], beta), rel=1e-12)
    assert np.isfinite(sums.gradient).all()
    assert np.isfinite(sums.hessian).all()


@pytest.mark.parametrize("odd", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("classes", [3, 60])
def test_rows_that_are_no_predictions_are_not_a_number(classes, place, odd):
    z, y, beta, w = problem(3, 50, classes)
    z[place, 4, 1] = odd
    found = mixture_sums(z, y, w, beta).log_mean
    assert np.isnan(found[4])
    assert np.isfinite(np.delete(found, 4)).all()


def test_far_apart_scores_stay_finite():
    z, y, _, w = problem(2, 50, 4)
    sums = mixture_sums(1e4 * z, y, w, np.full(2, 64.0))
    assert np.isfinite([sums.value, *sums.gradient, *sums.hessian.ravel()]).all()


@pytest.mark.parametrize("shape", [(4, 3000, 3), (3, 700, 50)])
def test_threads_do_not_matter(shape, monkeypatch):
    monkeypatch.setattr(jit, "SERIAL_BELOW", 0)
    z, y, beta, w = problem(*shape, np.float32)
    one, three = (mixture_sums(z, y, w, beta, threads=threads) for threads in (1, 3))
    assert one.value == three.value
    np.testing.assert_array_equal(one.hessian, three.hessian)
    np.testing.assert_array_equal(one.gradient, three.gradient)
    for ours, theirs in zip(log_likelihoods(z, y, beta, 1), log_likelihoods(z, y, beta, 3), strict=True):
        np.testing.assert_array_equal(ours, theirs)
