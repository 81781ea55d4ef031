"""Rows of regression against brute force, integration and other libraries, at their edges, and bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import norm

from calibrant.kernels.loops.regression import quantiles as quantile_loops
from calibrant.kernels.loops.regression import scores as loops
from calibrant.kernels.regression import gaussian_scores, mixture_quantiles, sample_scores

NAMES = ("nll", "crps", "pit")
LEVELS = np.concatenate([[0.001, 0.025], np.arange(1, 20) / 20, [0.975, 0.999]])
NONE = np.empty(0)


def problem(members, rows, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=rows), rng.normal(size=(members, rows)), np.exp(0.5 * rng.normal(size=(members, rows)))


def share_below(q, mean, std):
    return ndtr((q - mean) / std).mean(axis=0)


def of_mixture(y, mean, std):
    """`mixture_rows` itself, for one member too."""
    out = [np.empty(len(y)) for _ in NAMES]
    loops.mixture_rows(y, mean, std, *out, 0, len(y))
    return dict(zip(NAMES, out, strict=True))


def absolute_mean(d, s):
    """E|X| of X ~ N(d, s²)."""
    return d * (2 * norm.cdf(d / s) - 1) + 2 * s * norm.pdf(d / s)


def crps_by_pairs(y, mean, std):
    to_y = absolute_mean(mean - y, std).mean(axis=0)
    apart = mean[:, None] - mean[None]
    return to_y - 0.5 * absolute_mean(apart, np.hypot(std[:, None], std[None])).mean(axis=(0, 1))


def assert_same_bits(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name].view(np.int64), b[name].view(np.int64), err_msg=name)


def test_one_normal_against_scipy():
    y, mean, std = (x.ravel() for x in problem(1, 1000))
    got = gaussian_scores(y, mean, std)
    z = (y - mean) / std
    np.testing.assert_allclose(got["nll"], -norm.logpdf(y, mean, std), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(got["pit"], ndtr(z), rtol=1e-13, atol=0)
    crps = std * (z * (2 * ndtr(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(got["crps"], crps, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("members", [1, 2, 5, 50])
def test_a_mixture_against_brute_force(members):
    y, mean, std = problem(members, 333)
    got = of_mixture(y, mean, std)
    nll = np.log(members) - logsumexp(norm.logpdf(y, mean, std), axis=0)
    np.testing.assert_allclose(got["nll"], nll, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(got["pit"], share_below(y, mean, std), rtol=1e-13, atol=0)
    np.testing.assert_allclose(got["crps"], crps_by_pairs(y, mean, std), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("members", [1, 3, 8])
def test_crps_is_the_integral_of_its_definition(members):
    y, mean, std = problem(members, 6, seed=1)
    got = gaussian_scores(y, mean, std)["crps"]
    for i in range(6):

        def F(x, i=i):
            return share_below(x, mean[:, i], std[:, i])

        low, high = mean[:, i].min() - 12 * std[:, i].max(), mean[:, i].max() + 12 * std[:, i].max()
        below = quad(lambda x: F(x) ** 2, min(low, y[i]), y[i], limit=200)[0]
        above = quad(lambda x: (1 - F(x)) ** 2, y[i], max(high, y[i]), limit=200)[0]
        np.testing.assert_allclose(got[i], below + above, rtol=1e-8)


def test_a_mixture_of_one_or_of_equals_is_a_normal():
    y, mean, std = problem(1, 300)
    normal = gaussian_scores(y, mean[0], std[0])
    for members in (1, 2, 7):
        mixed = of_mixture(y, np.repeat(mean, members, axis=0), np.repeat(std, members, axis=0))
        for name in NAMES:
            np.testing.assert_allclose(mixed[name], normal[name], rtol=4e-15, atol=2e-15, err_msg=name)


def test_one_member_of_a_matrix_is_the_vector():
    y, mean, std = problem(1, 300)
    assert_same_bits(gaussian_scores(y, mean, std), gaussian_scores(y, mean[0], std[0]))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(0, 2**32 - 1), st.floats(-1e3, 1e3), st.integers(-400, 400), st.floats(0.01, 100))
def test_scores_follow_shift_and_scale(members, seed, shift, power, factor):
    y, mean, std = problem(members, 5, seed)
    base = gaussian_scores(y, mean, std)
    moved = gaussian_scores(shift - y, shift - mean, std)
    np.testing.assert_allclose(moved["crps"], base["crps"], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(moved["pit"], 1 - base["pit"], atol=1e-11)
    doubled = gaussian_scores(*(np.ldexp(x, power) for x in (y, mean, std)))
    np.testing.assert_array_equal(doubled["crps"], np.ldexp(base["crps"], power))
    np.testing.assert_array_equal(doubled["pit"], base["pit"])
    np.testing.assert_allclose(doubled["nll"], base["nll"] + power * np.log(2), rtol=1e-12, atol=1e-12)
    scaled = gaussian_scores(factor * y, factor * mean, factor * std)
    np.testing.assert_allclose(scaled["crps"], factor * base["crps"], rtol=1e-11)


@pytest.mark.parametrize("members", [1, 5])
def test_bits_do_not_depend_on_cuts_or_threads(members):
    y, mean, std = problem(members, 70_000)
    whole = gaussian_scores(y, mean, std, threads=1)
    assert_same_bits(gaussian_scores(y, mean, std, threads=3), whole)
    for start, stop in [(0, 1), (1, 130), (127, 300), (1000, 1700), (69_999, 70_000)]:
        part = gaussian_scores(y[start:stop], mean[:, start:stop], std[:, start:stop])
        assert_same_bits(part, {name: values[start:stop] for name, values in whole.items()})


@pytest.mark.parametrize("members", [1, 4])
def test_what_is_not_wanted_is_not_made(members):
    y, mean, std = problem(members, 200)
    whole = gaussian_scores(y, mean, std)
    for name in NAMES:
        alone = gaussian_scores(y, mean, std, **{other: other == name for other in NAMES})
        assert_same_bits(alone, {name: whole[name]})


@pytest.mark.parametrize("members", [1, 4])
def test_float32_other_layouts_and_arrays_that_may_not_be_written(members):
    y, mean, std = problem(members, 300)
    mean, std = mean.astype(np.float32), std.astype(np.float32)
    expected = gaussian_scores(y, mean.astype(np.float64), std.astype(np.float64))
    assert_same_bits(gaussian_scores(y, mean, std), expected)
    turned = np.asfortranarray(mean)
    turned.setflags(write=False)
    assert_same_bits(gaussian_scores(y, turned, std), expected)


@pytest.mark.parametrize("members", [1, 2, 50])
def test_far_from_the_mean(members):
    z = np.array([0.0, 40.0, -40.0, 60.0, 1e10, -1e10, 1e150])
    mean, std = np.zeros((members, z.size)), np.ones((members, z.size))
    got = gaussian_scores(z, mean, std)
    np.testing.assert_allclose(got["nll"], z**2 / 2 + 0.5 * np.log(2 * np.pi), rtol=1e-15)
    np.testing.assert_allclose(got["crps"][1:], np.abs(z[1:]) - 1 / np.sqrt(np.pi), rtol=3e-15)
    np.testing.assert_array_equal(got["pit"], [0.5, 1, 0, 1, 1, 0, 1])
    assert gaussian_scores(np.array([1e200]), mean[:, :1], std[:, :1])["nll"][0] == np.inf


@pytest.mark.parametrize("members", [1, 2, 50])
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e300])
def test_huge_and_tiny_scales(members, scale):
    y, mean, std = problem(members, 100)
    base, got = gaussian_scores(y, mean, std), gaussian_scores(scale * y, scale * mean, scale * std)
    np.testing.assert_allclose(got["crps"], scale * base["crps"], rtol=1e-13)
    np.testing.assert_allclose(got["pit"], base["pit"], rtol=1e-13)
    np.testing.assert_allclose(got["nll"], base["nll"] + np.log(scale), rtol=1e-13)


def test_members_of_very_unequal_scales():
    mean, std = np.array([[0.0], [1e10]]), np.array([[1e-300], [1.0]])
    got = gaussian_scores(np.zeros(1), mean, std)
    np.testing.assert_allclose(got["crps"], 1e10 / 4 - 1 / np.sqrt(np.pi) / 4, rtol=1e-15)
    np.testing.assert_allclose(got["nll"], np.log(2e-300) + 0.5 * np.log(2 * np.pi), rtol=1e-15)
    assert got["pit"][0] == 0.25


@pytest.mark.parametrize("members", [1, 3])
def test_nan_stays_in_its_row(members):
    y, mean, std = problem(members, 300)
    clean = gaussian_scores(y, mean, std)
    mean[-1, 7] = y[130] = std[0, 299] = np.nan
    got = gaussian_scores(y, mean, std)
    for name in NAMES:
        assert np.flatnonzero(np.isnan(got[name])).tolist() == [7, 130, 299], name
        kept = ~np.isnan(got[name])
        np.testing.assert_array_equal(got[name][kept], clean[name][kept])


@pytest.mark.parametrize("members", [2, 3, 8, 9, 50])
def test_quantiles_solve_their_equation(members):
    _, mean, std = problem(members, 100)
    q = mixture_quantiles(mean, std, LEVELS)
    for scale in (1e-200, 1e200):
        scaled = mixture_quantiles(scale * mean, scale * std, LEVELS) / scale
        np.testing.assert_allclose(scaled, q, rtol=0, atol=1e-12)
    for level, row in zip(LEVELS, q, strict=True):
        np.testing.assert_allclose(share_below(row, mean, std), level, atol=3e-15, rtol=0)
    assert (np.diff(q, axis=0) > 0).all()
    for i in range(3):

        def gap(x, level, i=i):
            return share_below(x, mean[:, i], std[:, i]) - level

        for level, found in zip(LEVELS, q[:, i], strict=True):
            np.testing.assert_allclose(found, brentq(gap, -60, 60, args=(level,), xtol=1e-14), atol=1e-10)


def test_quantiles_of_one_and_of_equals_are_exact():
    _, mean, std = problem(1, 50)
    exact = mean + std * ndtri(LEVELS)[:, None]
    np.testing.assert_array_equal(mixture_quantiles(mean, std, LEVELS), exact)
    np.testing.assert_array_equal(mixture_quantiles(mean[0], std[0], LEVELS[::-1]), exact[::-1])
    for members in (2, 11):
        equal = mixture_quantiles(np.repeat(mean, members, axis=0), np.repeat(std, members, axis=0), LEVELS)
        np.testing.assert_allclose(equal, exact, rtol=1e-15, atol=1e-15)


def assert_crosses(q, mean, std, level, slack=1e-14):
    """F passes the level within a few floats of q."""
    width = 4 * np.spacing(np.abs(q))
    assert (share_below(q - width, mean, std) <= level + slack).all()
    assert (share_below(q + width, mean, std) >= level - slack).all()


@pytest.mark.parametrize("members", [2, 5, 20])
@pytest.mark.parametrize(("apart", "sigma"), [(1e6, 1e-6), (1.0, 1e-12), (1e150, 1e-150), (1e3, 1.0)])
def test_quantiles_of_members_far_apart(members, apart, sigma):
    rng = np.random.default_rng(members)
    mean = apart * np.arange(members)[:, None] * np.ones((1, 20))
    std = sigma * np.exp(rng.normal(size=(members, 20)))
    q = mixture_quantiles(mean, std, LEVELS)
    assert (np.diff(q, axis=0) >= 0).all()
    for level, row in zip(LEVELS, q, strict=True):
        assert_crosses(row, mean, std, level)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 12), st.sampled_from([1e-150, 1e-3, 1.0, 1e150]))
def test_quantiles_of_anything(data, members, scale):
    mean = scale * data.draw(arrays(float, (members, 1), elements=st.floats(-1e6, 1e6)))
    power = data.draw(arrays(float, (members, 1), elements=st.floats(-9, 9)))
    std = scale * 10.0**power
    q = mixture_quantiles(mean, std, LEVELS)
    assert (np.diff(q, axis=0) >= 0).all()
    for level, row in zip(LEVELS, q, strict=True):
        assert_crosses(row, mean, std, level)


def test_quantiles_do_not_depend_on_cuts_or_threads():
    _, mean, std = problem(5, 3000)
    whole = mixture_quantiles(mean, std, LEVELS, threads=1)
    np.testing.assert_array_equal(mixture_quantiles(mean, std, LEVELS, threads=3), whole)
    np.testing.assert_array_equal(mixture_quantiles(mean[:, 65:200], std[:, 65:200], LEVELS), whole[:, 65:200])


def test_quantiles_in_any_order_and_at_the_ends():
    _, mean, std = problem(3, 10)
    levels = np.array([0.5, 1.0, 0.25, 0.0, 0.25])
    q = mixture_quantiles(mean, std, levels)
    np.testing.assert_array_equal(q[[2, 0]], mixture_quantiles(mean, std, np.array([0.25, 0.5])))
    np.testing.assert_array_equal(q[[0]], mixture_quantiles(mean, std, np.array([0.5])))
    np.testing.assert_array_equal(q[2], q[4])
    assert (q[1] == np.inf).all()
    assert (q[3] == -np.inf).all()


def test_quantiles_of_a_row_with_nan_are_nan():
    _, mean, std = problem(3, 10)
    mean[1, 4] = std[2, 6] = np.nan
    q = mixture_quantiles(mean, std, LEVELS)
    assert np.flatnonzero(np.isnan(q).any(axis=0)).tolist() == [4, 6]
    assert np.isnan(q[:, [4, 6]]).all()


def test_start_and_stop_of_the_loops():
    y, mean, std = problem(3, 300)
    whole = gaussian_scores(y, mean, std)
    out = np.zeros(300)
    loops.mixture_rows(y, mean, std, NONE, out, NONE, 37, 211)
    np.testing.assert_array_equal(out[37:211], whole["crps"][37:211])
    assert not out[:37].any()
    assert not out[211:].any()
    q = np.zeros((1, 300))
    quantile_loops.mixture_quantiles(mean, std, np.array([0.5]), np.zeros(1), q, 37, 211)
    assert q[:, 37:211].all()
    assert not q[:, :37].any()
    assert not q[:, 211:].any()


def test_samples_against_brute_force():
    rng = np.random.default_rng(0)
    for count in (1, 2, 3, 8, 52, 101):
        x, y = rng.normal(size=(count, 40)).round(1), rng.normal(size=40).round(1)
        got = sample_scores(x, y)
        np.testing.assert_allclose(got["mean"], x.mean(axis=0), atol=1e-15)
        if count > 1:
            np.testing.assert_allclose(got["variance"], x.var(axis=0, ddof=1), rtol=1e-13, atol=1e-15)
        else:
            assert np.isnan(got["variance"]).all()
        np.testing.assert_allclose(got["error"], np.abs(x - y).mean(axis=0), rtol=1e-14)
        pairs = np.abs(x[:, None] - x[None]).sum(axis=(0, 1)) / 2
        np.testing.assert_allclose(got["spread"], pairs, rtol=1e-13, atol=1e-14)
        np.testing.assert_array_equal(got["below"], (x < y).sum(axis=0))
        np.testing.assert_array_equal(got["ties"], (x == y).sum(axis=0))


@settings(max_examples=50, deadline=None)
@given(arrays(float, (7, 2), elements=st.floats(-1e6, 1e6)), st.floats(-1e12, 1e12))
def test_samples_far_from_zero_do_not_cancel(x, shift):
    x = x + shift
    got = sample_scores(x, x[0])
    np.testing.assert_allclose(got["spread"], np.abs(x[:, None] - x[None]).sum(axis=(0, 1)) / 2, rtol=1e-13)
    np.testing.assert_allclose(got["variance"], (x - shift).var(axis=0, ddof=1), rtol=1e-6, atol=1e-6)
    same = sample_scores(np.full((5, 1), shift), np.full(1, shift))
    assert [same[name][0] for name in ("mean", "variance", "error", "spread")] == [shift, 0, 0, 0]


def test_samples_of_a_normal_approach_its_crps():
    rng = np.random.default_rng(0)
    y, mean, std = problem(1, 20)
    x = mean + std * rng.normal(size=(20_000, 20))
    got = sample_scores(x, y)
    exact = gaussian_scores(y, mean, std)
    fair = got["error"] - got["spread"] / (20_000 * 19_999)
    np.testing.assert_allclose(fair / std[0], exact["crps"] / std[0], atol=0.03)
    np.testing.assert_allclose((got["below"] + 0.5 * got["ties"]) / 20_000, exact["pit"], atol=0.02)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_samples_in_blocks_threads_and_narrow_types(dtype):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 20_000)).astype(dtype), rng.normal(size=20_000)
    whole = sample_scores(x, y, levels=LEVELS, threads=1)
    parallel = sample_scores(x, y, levels=LEVELS, threads=3)
    part = sample_scores(np.asfortranarray(x[:, 100:5000]), y[100:5000], levels=LEVELS)
    wide = sample_scores(x.astype(np.float64), y, levels=LEVELS)
    for name, values in whole.items():
        np.testing.assert_array_equal(parallel[name], values, err_msg=name)
        np.testing.assert_array_equal(part[name], values[..., 100:5000], err_msg=name)
        np.testing.assert_allclose(wide[name], values, rtol=1e-14, atol=1e-15, err_msg=name)
    moments = sample_scores(x, levels=np.empty(0))
    assert moments.pop("quantiles").shape == (0, 20_000)
    assert moments.keys() == sample_scores(x).keys() == {"mean", "variance"}
    np.testing.assert_array_equal(moments["mean"], whole["mean"])
    np.testing.assert_array_equal(moments["variance"], whole["variance"])


@pytest.mark.parametrize("count", [1, 7, 20, 52, 100])
def test_sample_quantiles_are_those_of_numpy(count):
    x = np.random.default_rng(0).normal(size=(count, 30))
    got = sample_scores(x, levels=LEVELS)["quantiles"]
    ordered = np.sort(x, axis=0)
    for level, row in zip(LEVELS, got, strict=True):
        rank = min(max(-(-round(level * 1000) * count // 1000), 1), count)
        np.testing.assert_array_equal(row, ordered[rank - 1])
    odd = np.array([0.0313, 0.217, 0.777])
    np.testing.assert_array_equal(
        sample_scores(x, levels=odd)["quantiles"], np.quantile(x, odd, axis=0, method="inverted_cdf")
    )


def test_scoringrules_agrees():
    rules = pytest.importorskip("scoringrules")
    y, mean, std = problem(20, 200)
    one, mixed = gaussian_scores(y, mean[0], std[0]), gaussian_scores(y, mean, std)
    near = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(one["crps"], rules.crps_normal(y, mean[0], std[0]), **near)
    np.testing.assert_allclose(one["nll"], rules.logs_normal(y, mean[0], std[0]), **near)
    np.testing.assert_allclose(mixed["crps"], rules.crps_mixnorm(y, mean.T, std.T), **near)
    np.testing.assert_allclose(mixed["nll"], rules.logs_mixnorm(y, mean.T, std.T), **near)
    x = np.random.default_rng(1).normal(size=(52, 200))
    got = sample_scores(x, y)
    fair, plain = got["error"] - got["spread"] / (52 * 51), got["error"] - got["spread"] / 52**2
    np.testing.assert_allclose(fair, rules.crps_ensemble(y, x.T, estimator="fair"), **near)
    for estimator in ("nrg", "qd"):
        np.testing.assert_allclose(plain, rules.crps_ensemble(y, x.T, estimator=estimator), **near)
