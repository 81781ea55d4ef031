"""Sums that do not depend on order, against exact rational arithmetic."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.kernels.exact import ExactSum, GroupSums, exact_sum

VALUES = st.lists(st.floats(-1e300, 1e300), max_size=60)


@given(VALUES)
@settings(max_examples=200, deadline=None)
def test_equals_the_exact_sum_rounded_once(values):
    assert exact_sum(np.array(values)) == math.fsum(values)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-160, 1e-20, 1e-9, 1.0, 1e9, 1e150, 1e300])
def test_every_scale_keeps_its_digits(scale):
    rng = np.random.default_rng(0)
    x = scale * rng.standard_normal(10_000) * 10 ** rng.uniform(-3, 3, 10_000)
    assert exact_sum(x) == math.fsum(x)


@given(VALUES, st.randoms(use_true_random=False), st.integers(1, 7))
@settings(max_examples=100, deadline=None)
def test_order_and_blocks_do_not_matter(values, shuffler, blocks):
    whole = exact_sum(np.array(values))
    shuffled = list(values)
    shuffler.shuffle(shuffled)
    merged = ExactSum()
    for part in np.array_split(np.array(shuffled), blocks):
        merged.merge(ExactSum().add(part))
    assert merged.value() == whole


def test_ten_million_small_values_keep_every_digit():
    x = np.random.default_rng(0).standard_normal(3_000_000)
    assert exact_sum(x) == math.fsum(x)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, math.inf], math.inf),
        ([-math.inf, 5.0], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan], math.nan),
    ],
)
def test_values_that_are_not_finite_are_told(values, expected):
    total = exact_sum(np.array(values))
    assert total == expected or (math.isnan(total) and math.isnan(expected))


def test_empty_sum_is_zero():
    assert exact_sum(np.empty(0)) == 0.0


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 9)), min_size=1, max_size=80),
    st.integers(1, 5),
    st.sampled_from([1.0, 1e-30, 1e30]),
)
@settings(max_examples=100, deadline=None)
def test_sums_by_group_equal_the_sums_of_the_groups(pairs, blocks, scale):
    x, groups = (np.array(column) for column in zip(*pairs, strict=True))
    x = x * scale
    merged = GroupSums()
    for part in np.array_split(np.random.default_rng(0).permutation(len(x)), blocks):
        one = GroupSums()
        one.add(x[part], groups[part])
        merged.merge(one)
    expected = [exact_sum(x[groups == g]) for g in range(groups.max() + 1)]
    np.testing.assert_allclose(merged.values(), expected, rtol=0, atol=len(x) * 2.0**-40 * np.abs(x).max() + 1e-300)
    whole = GroupSums()
    whole.add(x, groups)
    np.testing.assert_array_equal(merged.values(), whole.values())


def test_a_group_sum_of_many_large_values_does_not_overflow():
    sums = GroupSums()
    for _ in range(40):
        sums.add(np.full(1 << 20, 4_000_000.0), np.zeros(1 << 20, np.int64))
    assert sums.values()[0] == 40 * (1 << 20) * 4_000_000.0


def test_group_sums_with_an_infinite_value_are_undefined():
    sums = GroupSums()
    sums.add(np.array([1.0, np.inf]), np.array([0, 1]))
    assert np.isnan(sums.values()).all()
