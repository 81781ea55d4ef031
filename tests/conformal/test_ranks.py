"""Ranks of conformal thresholds, in whole numbers: (n + 1)·level of a decimal level is rounded by floats, not by us."""

from calibrant.conformal.base import rank_of, rows_needed

TENTHS, THOUSANDTHS = range(1, 10), range(1, 1000)


def test_the_rank_of_a_decimal_level_is_that_of_whole_numbers():
    """⌈(n + 1)·k/1000⌉ for all k: in floats (n + 1)·level often lies above a whole number, as 100·0.07 does."""
    above = 0
    for n in [*range(1, 60), 99, 199, 499, 999, 1999, 9999, 99_999]:
        for k in THOUSANDTHS:
            level = k / 1000
            assert rank_of(n, level) == -(-(n + 1) * k // 1000), (n, level)
            above += (n + 1) * level > (n + 1) * k // 1000 and (n + 1) * k % 1000 == 0
    assert above > 100


def test_the_fewest_rows_of_a_decimal_level_are_those_of_whole_numbers():
    """The smallest n with (n + 1)·k ≤ 1000·n."""
    for k in THOUSANDTHS:
        assert rows_needed(k / 1000) == max(1, -(-k // (1000 - k)))


def test_a_level_just_above_a_decimal_has_the_next_rank():
    assert rank_of(9, 0.9 + 1e-12) == 10
    assert all(rank_of(9, k / 10 + 1e-9) == k + 1 for k in TENTHS)
