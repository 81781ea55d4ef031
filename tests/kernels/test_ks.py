"""The largest running sum against a plain sort: ties, weights, edges, and the same bits for any order of rows."""

from fractions import Fraction

import numpy as np
import pytest

from calibrant.kernels import ks as module
from calibrant.kernels.ks import ks


def plain(p, y, w=None):
    """Sort everything, sum fractions, look at the ends of runs."""
    w = np.ones(len(p)) if w is None else w
    order = np.argsort(p, kind="stable")
    total, best = Fraction(0), Fraction(0)
    for place, i in enumerate(order):
        total += Fraction(float(w[i])) * (Fraction(float(p[i])) - Fraction(float(y[i])))
        if place + 1 == len(p) or p[order[place + 1]] != p[i]:
            best = max(best, abs(total))
    return float(best / sum(map(Fraction, w.tolist())))


def pairs(n, seed=0, dtype=np.float64, decimals=None):
    rng = np.random.default_rng(seed)
    p = rng.random(n) ** 0.7
    p = (p if decimals is None else np.round(p, decimals)).astype(dtype)
    return p, rng.random(n) < p


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decimals", [None, 1, 3])
@pytest.mark.parametrize("n", [1, 2, 17, 1000, 5000])
def test_equals_a_plain_sort(n, decimals, dtype):
    for seed in range(3):
        p, y = pairs(n, seed, dtype, decimals)
        assert ks(p, y) == pytest.approx(plain(p, y), abs=1e-12)


@pytest.mark.parametrize("decimals", [None, 1])
def test_weights_and_soft_outcomes(decimals):
    p, _ = pairs(3000, 1, decimals=decimals)
    rng = np.random.default_rng(2)
    w, y = 2 * rng.random(3000), rng.random(3000)
    assert ks(p, y, w) == pytest.approx(plain(p, y, w), abs=1e-12)
    assert ks(p, y > 0.5, np.where(w > 1, w, 0)) == pytest.approx(plain(p, y > 0.5, np.where(w > 1, w, 0)), abs=1e-12)


@pytest.mark.parametrize("level", [0.0, 0.3, 1.0])
def test_all_equal(level):
    y = np.arange(100) % 4 == 0
    assert ks(np.full(100, level), y) == pytest.approx(abs(level - 0.25), abs=1e-12)


def test_one_row():
    assert ks(np.array([0.3]), np.array([True])) == pytest.approx(0.7)
    assert ks(np.array([0.3]), np.array([0])) == pytest.approx(0.3)


def test_certain_rows():
    p, y = np.array([0.0, 1.0, 1.0, 0.0]), np.array([0, 1, 1, 0])
    assert ks(p, y) == 0.0
    assert ks(p, 1 - y) == 0.5


def test_a_narrow_range_of_many_rows():
    """Where nearly all lie in one coarse bucket, buckets are narrow there."""
    rng = np.random.default_rng(3)
    p = np.append(1 - 1e-4 * rng.random(40_000), rng.random(100))
    y = rng.random(len(p)) < 0.9999
    order = np.argsort(p)
    expected = np.abs(np.cumsum((p - y)[order])).max() / len(p)
    assert ks(p, y) == pytest.approx(expected, abs=1e-12)


def test_a_calibrated_model_of_many_rows():
    """Where many buckets may hold the maximum."""
    p, y = pairs(200_000, 4, np.float32)
    order = np.argsort(p, kind="stable")
    q = p[order].astype(np.float64)
    running = np.abs(np.cumsum(q - y[order]))[np.append(q[1:] != q[:-1], True)]
    assert ks(p, y) == pytest.approx(running.max() / len(p), abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decimals", [None, 2])
def test_order_of_rows_changes_no_bit(decimals, weighted):
    p, y = pairs(20_000, 5, decimals=decimals)
    rng = np.random.default_rng(6)
    w = 2 * rng.random(len(p)) if weighted else None
    whole = ks(p, y, w)
    for _ in range(5):
        order = rng.permutation(len(p))
        assert ks(p[order], y[order], None if w is None else w[order]) == whole


def test_threads_and_buckets_change_no_bit(monkeypatch):
    p, y = pairs((1 << 20) + 77, 7, np.float32)
    one = ks(p, y, threads=1)
    assert ks(p, y, threads=2) == ks(p, y, threads=5) == one
    monkeypatch.setattr(module, "MOST_BUCKETS", 100)
    monkeypatch.setattr(module, "BLOCK", 1000)
    assert ks(p, y, threads=2) == one


def test_types_of_outcomes_change_no_bit():
    p, y = pairs(1000, 8)
    assert ks(p, y) == ks(p, y.astype(np.int64)) == ks(p, y.astype(np.float64)) == ks(p[::-1], y[::-1])
