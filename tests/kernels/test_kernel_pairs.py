"""Sums over pairs of rows against plain loops, and the same bits for any number of threads."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from scipy.special import gammaln, logsumexp, softmax

from calibrant.kernels import dirichlet, resampling
from calibrant.kernels import kernel_pairs as pairwise
from calibrant.kernels.philox import uniform_table

KINDS = ["mixed", "one dominates", "one-hot", "equal", "near one-hot"]


def problem(n, classes, kind="mixed", seed=0):
    """Probabilities (n, classes) and labels."""
    rng = np.random.default_rng(seed)
    p = softmax(2 * rng.standard_normal((n, classes)), axis=1)
    if kind == "one dominates":
        p = softmax(np.log(p) + 12.0 * (np.arange(classes) == 0), axis=1)
    elif kind == "one-hot":
        p = np.eye(classes)[rng.integers(0, classes, n)]
    elif kind == "equal":
        p = np.repeat(p[:1], n, axis=0)
    elif kind == "near one-hot":
        p = softmax(20 * np.log(p), axis=1)
    return np.ascontiguousarray(p), rng.integers(0, classes, n)


def normal_problem(n, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    mean, std = scale * rng.standard_normal(n), scale * (0.1 + rng.random(n))
    return mean, std, mean + 1.3 * std * rng.standard_normal(n)


problems = st.builds(
    problem,
    n=st.sampled_from([2, 3, 17, 255, 256, 257, 300]),
    classes=st.sampled_from([2, 3, 4, 10, 60]),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10_000),
)
few = settings(max_examples=25, deadline=None)


# ------------------------------------------------------------------------------------------- median
@few
@given(problems)
def test_the_median_distance_is_that_of_all_pairs(drawn):
    p, _ = drawn
    distances = np.sort(pdist(p))
    middle = distances[(len(distances) - 1) // 2]
    assert pairwise.median_distance(p) == pytest.approx(middle, rel=3e-7, abs=1e-15)


@pytest.mark.parametrize("scale", [1e-30, 1e-9, 1.0, 1e30])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
def test_the_median_distance_of_any_array(scale, offset):
    x = scale * (np.random.default_rng(1).standard_normal((701, 2)) + offset)
    distances = np.sort(pdist(x))
    assert pairwise.median_distance(x) == pytest.approx(distances[(len(distances) - 1) // 2], rel=3e-7)


def test_a_median_far_below_the_spread_is_exact_too():
    rng = np.random.default_rng(2)
    x = np.append(1.0 + 1e-9 * rng.random(400), -1e-9 * rng.random(100))[:, None]
    assert pairwise.median_distance(x) == pytest.approx(np.median(pdist(x)), rel=3e-7)


def test_a_window_that_misses_the_median_is_moved(monkeypatch):
    p, _ = problem(301, 3)
    expected = pairwise.median_distance(p)
    bits = int(np.float32(expected**2).view(np.int32))
    for window in ((0, 10), (bits + 1000, bits + 2000), (bits - 2000, bits - 1000), (0, pairwise.INFINITE)):
        monkeypatch.setattr(pairwise, "_window", lambda x, window=window: window)
        assert pairwise.median_distance(p) == expected


# --------------------------------------------------------------------------------------------- SKCE
def skce_matrix(p, y, width):
    """h_ij, written as it is defined."""
    n = len(p)
    rest = np.eye(p.shape[1])[y] - p
    h = np.empty((n, n))
    for i in range(n):
        distance = np.sqrt(((p[i] - p) ** 2).sum(axis=1))
        h[i] = np.exp(-distance / width) * (rest @ rest[i])
    return h


def gaussian_matrix(mean, std, y):
    n = len(y)
    h = np.empty((n, n))
    for i, j in itertools.product(range(n), repeat=2):
        v, u, both = 1 + std[i] ** 2, 1 + std[j] ** 2, 1 + std[i] ** 2 + std[j] ** 2
        terms = (
            math.exp(-((y[i] - y[j]) ** 2) / 2),
            -math.exp(-((mean[i] - y[j]) ** 2) / (2 * v)) / math.sqrt(v),
            -math.exp(-((mean[j] - y[i]) ** 2) / (2 * u)) / math.sqrt(u),
            math.exp(-((mean[i] - mean[j]) ** 2) / (2 * both)) / math.sqrt(both),
        )
        h[i, j] = math.exp(-math.hypot(mean[i] - mean[j], std[i] - std[j])) * sum(terms)
    return h


def assert_sums_of(h, sums):
    """The terms of h are at most 1 and may cancel: 1e-15 a pair is what their rounding leaves."""
    upper = np.triu(h, 1)
    size = np.abs(upper).sum()
    assert abs(sums.total - upper.sum()) <= 1e-12 * size + 1e-15 * h.size
    assert abs(sums.squares - (upper**2).sum()) <= 1e-12 * (upper**2).sum() + 1e-15 * size + 1e-30 * h.size
    assert sums.diagonal == pytest.approx(np.trace(h), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(sums.rows, h.sum(axis=1) - np.diag(h), atol=1e-13 * len(h))


@few
@given(problems, st.sampled_from([1e-3, 0.3, 1.0, 50.0]))
def test_skce_sums_are_those_of_the_whole_matrix(drawn, width):
    assert_sums_of(skce_matrix(*drawn, width), pairwise.skce_sums(*drawn, width))


@pytest.mark.parametrize(("n", "scale"), [(2, 1.0), (40, 1.0), (70, 30.0), (70, 1e-3), (300, 2.0)])
def test_gaussian_sums_are_those_of_the_whole_matrix(n, scale):
    drawn = normal_problem(n, scale=scale)
    assert_sums_of(gaussian_matrix(*drawn), pairwise.gaussian_skce_sums(*drawn))


def test_blocks_are_means_over_their_pairs():
    p, y = problem(61, 5)
    normals = normal_problem(61)
    edges = np.array([0, 2, 5, 30, 61])
    h, g = skce_matrix(p, y, 0.7), gaussian_matrix(*normals)
    ours = (pairwise.skce_blocks(p, y, 0.7, edges), pairwise.gaussian_skce_blocks(*normals, edges))
    for matrix, means in zip((h, g), ours, strict=True):
        for (a, b), mean in zip(itertools.pairwise(edges), means, strict=True):
            expected = matrix[a:b, a:b][np.triu_indices(b - a, 1)].mean()
            assert mean == pytest.approx(expected, rel=1e-11, abs=1e-14)


@pytest.mark.parametrize("classes", [2, 10, 300])
@pytest.mark.parametrize("n", [2, 77, 513])
def test_many_labellings_give_what_each_gives_alone(n, classes):
    p, _ = problem(n, classes, seed=n)
    labels = np.random.default_rng(n).integers(0, classes, (21, n))
    single = [pairwise.skce_sums(p, y, 0.4) for y in labels]
    size = max(math.sqrt(s.squares) for s in single)
    np.testing.assert_allclose(
        pairwise.skce_redrawn(p, labels, 0.4), [s.total for s in single], atol=2e-6 * size * math.sqrt(n)
    )


@pytest.mark.parametrize(("n", "scale"), [(2, 1.0), (90, 1e-3), (90, 0.2), (300, 1.0), (257, 20.0)])
def test_many_outcomes_give_what_each_gives_alone(n, scale):
    mean, std, _ = normal_problem(n, scale=scale)
    ys = mean + std * np.random.default_rng(0).standard_normal((17, n))
    single = [pairwise.gaussian_skce_sums(mean, std, y) for y in ys]
    size = max(math.sqrt(s.squares) for s in single)
    np.testing.assert_allclose(
        pairwise.gaussian_skce_redrawn(mean, std, ys), [s.total for s in single], atol=3e-6 * size * math.sqrt(n)
    )


# ---------------------------------------------------------------------------------------- Dirichlet
def log_kernels(p, h):
    """log k(p_j; p_i) as (j, i), −inf where i = j."""
    alpha = p / h + 1
    logs = np.log(np.maximum(p, 1e-12)) @ (p / h).T + gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1)
    np.fill_diagonal(logs, -np.inf)
    return logs


def regression(p, y, h):
    logs = log_kernels(p, h)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return weights @ np.eye(p.shape[1])[y] / weights.sum(axis=1, keepdims=True)


@few
@given(problems, st.sampled_from([0.001, 0.01, 0.1, 1.0]))
def test_regression_is_the_weighted_share_of_each_label(drawn, h):
    np.testing.assert_allclose(dirichlet.dirichlet_regression(*drawn, h), regression(*drawn, h), atol=1e-6)


@few
@given(problems)
def test_log_likelihoods_are_those_of_the_left_out_rows(drawn):
    p, _ = drawn
    widths = [0.001, 0.02, 0.5]
    expected = [logsumexp(log_kernels(p, h), axis=1).mean() - math.log(len(p) - 1) for h in widths]
    np.testing.assert_allclose(dirichlet.dirichlet_log_likelihood(p, widths), expected, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3.5])
@pytest.mark.parametrize("h", [0.001, 0.1])
@pytest.mark.parametrize(("n", "classes", "kind"), [(2, 2, "mixed"), (300, 10, "near one-hot"), (257, 60, "mixed")])
def test_redrawn_distances_are_those_of_each_labelling(n, classes, kind, h, order):
    p, _ = problem(n, classes, kind)
    labels = np.random.default_rng(1).integers(0, classes, (7, n))
    expected = [(np.abs(p - regression(p, y, h)) ** order).sum(axis=1).mean() for y in labels]
    np.testing.assert_allclose(dirichlet.dirichlet_redrawn(p, labels, h, order), expected, rtol=2e-6)


# ------------------------------------------------------------------------------------- drawn labels
@pytest.mark.parametrize("classes", [2, 3, 10, 256, 257])
def test_labels_invert_the_distribution_at_philox_numbers(classes):
    q, _ = problem(33, classes)
    labels = pairwise.redrawn_labels(q, 40, 5, resampling.SKCE)
    u = uniform_table(5, resampling.SKCE, 40, 33)
    expected = (u[:, :, None] >= np.cumsum(q, axis=1)).sum(axis=2)
    np.testing.assert_array_equal(labels, np.minimum(expected, classes - 1))
    assert labels.dtype == (np.uint8 if classes <= 256 else np.uint16)


def test_a_class_without_probability_is_never_drawn():
    rng = np.random.default_rng(0)
    q = softmax(3 * rng.standard_normal((50, 7)), axis=1) * (rng.random((50, 7)) < 0.5)
    q[:, 3] += 1e-12
    q = q / q.sum(axis=1, keepdims=True) * (1 - 1e-9)
    labels = pairwise.redrawn_labels(q, 400, 1, resampling.CANONICAL)
    assert (np.take_along_axis(q, labels.T.astype(int), axis=1) > 0).all()


# ------------------------------------------------------------------------------- threads and memory
def everything(n, threads):
    """All results of one problem."""
    p, y = problem(n, 10)
    normals = normal_problem(n)
    labels = pairwise.redrawn_labels(p, 9, 0, resampling.SKCE, threads)
    edges = np.arange(0, n + 1, n // 7)
    ys = normals[0] + np.random.default_rng(3).standard_normal((9, n))
    for sums in (pairwise.skce_sums(p, y, 0.5, threads), pairwise.gaussian_skce_sums(*normals, threads)):
        yield from (sums.total, sums.rows, sums.squares, sums.diagonal)
    yield labels
    yield pairwise.median_distance(p, threads)
    yield pairwise.skce_redrawn(p, labels, 0.5, threads)
    yield pairwise.gaussian_skce_redrawn(*normals[:2], ys, threads)
    yield pairwise.skce_blocks(p, y, 0.5, edges, threads)
    yield pairwise.gaussian_skce_blocks(*normals, edges, threads)
    yield dirichlet.dirichlet_regression(p, y, 0.02, threads)
    yield dirichlet.dirichlet_log_likelihood(p, [0.01, 0.1], threads)
    yield dirichlet.dirichlet_redrawn(p, labels, 0.02, 1, threads)


@pytest.mark.parametrize("n", [1400, 1600])
def test_the_bits_do_not_depend_on_the_number_of_threads(n, monkeypatch):
    monkeypatch.setattr("calibrant.kernels.jit.SERIAL_BELOW", 1)
    alone = list(everything(n, 1))
    for threads in (2, 5):
        for one, other in zip(alone, everything(n, threads), strict=True):
            np.testing.assert_array_equal(one, other)


def test_memory_is_that_of_some_rows():
    p, y = problem(20_000, 3)
    tracemalloc.start()
    pairwise.median_distance(p)
    pairwise.skce_sums(p, y, 0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6
