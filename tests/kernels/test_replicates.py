"""Kernels of replicated labels against NumPy written out, and the vectors that they are made of."""

import numpy as np
import pytest

from calibrant.kernels.jit import kernel
from calibrant.kernels.loops.vectors import LANES, add_steps, sum_in_order
from calibrant.kernels.philox import words
from calibrant.kernels.replicates.labels import Drawn, Lanes, add_hits, draw, thresholds, units_of

RNG = np.random.default_rng(0)


@kernel()
def steps_of(drawn, at, limits, row, start, steps, count, out, to):
    add_steps(drawn, at, limits, row, count, start, steps, out, to)


@kernel()
def total_of(x):
    return sum_in_order(x)


# --------------------------------------------------------------------------------------------- vectors
@pytest.mark.parametrize("count", [0, 1, 9])
def test_steps_are_added_where_words_reach_their_limits(count):
    drawn = RNG.integers(0, 1 << 32, (2, 40), dtype=np.uint32)
    limits = RNG.integers(0, 1 << 31, (3, 9), dtype=np.uint32)
    limits[1, 0] = drawn[1, 5] >> 1
    steps, out = RNG.integers(-(2**20), 2**20, 9).astype(np.int32), np.zeros(50, np.int32)
    steps_of(drawn, 40 + 3, limits, 9, np.int32(-7), steps, count, out, 11)
    reached = drawn[1, 3 : 3 + LANES, None] >> 1 >= limits[1, :count]
    assert (out[11 : 11 + LANES] == -7 + (reached * steps[:count]).sum(axis=1)).all()
    assert not out[:11].any()
    assert not out[11 + LANES :].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [16, 48, 1024])
def test_sums_have_one_order(dtype, size):
    x = RNG.random(size).astype(dtype)
    lanes = np.zeros(LANES, dtype)
    for part in x.reshape(-1, LANES):
        lanes = lanes + part
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    assert total_of(x) == lanes[0]


# ------------------------------------------------------------------------------------- lanes, thresholds
@pytest.mark.parametrize("members", [1, 3, 200])
def test_lanes_hold_each_replicate_once_with_its_member(members):
    source = RNG.integers(0, members, 150)
    numbers = RNG.permutation(1000)[:150]
    lanes = Lanes.of(source, numbers, members, 1, 2)
    assert (lanes.numbers == numbers[lanes.order]).all()
    owner = np.full(150 + LANES, -1)
    for start, member in zip(lanes.starts, lanes.owner, strict=True):
        owner[start : start + LANES] = member
    assert (owner[:150] == source[lanes.order]).all()
    assert (np.diff(lanes.edges) == np.bincount(source, minlength=members)).all()
    assert (lanes.in_order(lanes.numbers) == numbers).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thresholds_are_whole_shares_and_certainty_is_whole(dtype):
    p = np.array([[0.0, 0.5, 1.0, 1.0 - 2.0**-24], [2.0**-31, 2.0**-33, 0.75, 1.0 - 2.0**-22]], dtype)
    half, whole = 2**30, 2**31
    assert thresholds(p).T.tolist() == [[0, half, whole, whole], [1, 0, 3 * half // 2, whole - 2**9]]


def test_weights_are_whole_numbers_below_the_sign_of_32_bits():
    assert units_of(np.array([0.0, 0.5, 1.0])).tolist() == [0, 2**28, 2**29]
    assert units_of(np.array([np.nextafter(2.0, 0.0)]))[0] < 2**31


# ------------------------------------------------------------------------------------------ hits, labels
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_hits_are_words_below_thresholds(weighted, threads):
    n, draws, members = 3001, 400, 3
    source, p = RNG.integers(0, members, draws), RNG.random((members, n))
    rows = np.sort(RNG.permutation(9000)[:n])  # not every row of a quad
    places, hits = RNG.integers(0, 5, (2, n)), RNG.integers(0, 2, n)
    places[1] += 5
    weights = RNG.random(n) if weighted else None
    lanes = Lanes.of(source, np.arange(draws), members, 6, 7)
    table = np.zeros((10, draws + 1), np.int64 if weighted else np.int32)
    add_hits(table, lanes, thresholds(p), rows, places, hits, weights, threads)
    units = units_of(weights) if weighted else np.ones(n, np.int64)
    found = np.concatenate([lanes.in_order(table[:, :-1]), table[:, -1:]], axis=1)
    for r in (0, 1, 200, 399):
        hit = words(6, 7, r, 9000)[rows] >> 1 < thresholds(p)[:, source[r]]
        for place in range(10):
            inside = (places == place).any(axis=0)
            assert found[place, r] == units[inside & hit].sum()
            assert found[place, -1] == (units * hits)[inside].sum()


@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_impossible_classes_change_no_label(averaged, dtype):
    """Few classes are drawn by comparing and many by bisection: classes that never come make many of few."""
    z = RNG.standard_normal((2, 101, 40)).astype(dtype)
    more = np.full((2, 101, 90), -np.inf, dtype)
    more[:, :, :40] = z
    predicted = np.exp(z).mean(axis=0).argmax(axis=1).astype(np.int32)
    p = np.exp(z.astype(np.float64)) / np.exp(z.astype(np.float64)).sum(axis=2, keepdims=True)
    top = p[:, np.arange(101), predicted]
    limits = thresholds(top.mean(axis=0)[None] if averaged else top)
    source = np.zeros(300, np.int64) if averaged else RNG.integers(0, 2, 300)
    lanes = Lanes.of(source, np.arange(300), 1 if averaged else 2, 3, 4)
    few = draw(Drawn(z, False, limits, predicted, 5), lanes)
    many = draw(Drawn(more, False, limits, predicted, 5), lanes)
    assert few.shape == (300, 101)
    assert (few == many).mean() > 1 - 1e-4  # sums of other lengths differ in their last bits
    assert many.max() < 40
