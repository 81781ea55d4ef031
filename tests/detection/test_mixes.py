"""Accuracy over confident rows, of inside rows and of mixes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.detection.mixes import accuracy_versus_confidence, mixed_accuracy_versus_confidence
from calibrant.errors import UsageError

TAUS = np.arange(11) / 10
CLOSE = 1e-12


def plain(confidence, right, thresholds, w):
    """One threshold at a time."""
    out = []
    for t in thresholds:
        kept = confidence >= t
        mass = w[kept].sum()
        out.append((np.average(right[kept], weights=w[kept]) if mass else np.nan, mass / w.sum(), (w[kept] > 0).sum()))
    return np.array(out)


@given(
    st.lists(st.tuples(st.integers(0, 10), st.sampled_from([0, 0.5, 1]), st.integers(0, 3)), min_size=1, max_size=15)
)
@settings(max_examples=100, deadline=None)
def test_plain_loops_agree(rows):
    confidence, right, w = (np.array(x, float) for x in zip(*rows, strict=True))
    confidence /= 10
    for weights in (np.ones(len(w)), w):
        if weights.any():
            got = accuracy_versus_confidence(confidence, right, TAUS, weights)
            np.testing.assert_allclose(np.stack(got[1:], axis=1), plain(confidence, right, TAUS, weights), atol=CLOSE)
    p = np.random.default_rng(0).permutation(len(w))
    for a, b in zip(
        accuracy_versus_confidence(confidence[p], right[p], TAUS, 0.1 * w[p]),
        accuracy_versus_confidence(confidence, right, TAUS, 0.1 * w),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def mix(seed=0, inside=300, outside=100):
    rng = np.random.default_rng(seed)
    confidence = np.round(rng.random(inside), 2)
    return confidence, rng.random(inside) < confidence, np.round(0.8 * rng.random(outside), 2)


def test_all_rows_by_default_and_outside_is_wrong():
    confidence, hit, out = mix()
    got = mixed_accuracy_versus_confidence(confidence, hit, out, TAUS)
    joined, right = np.append(confidence, out), np.append(hit, np.zeros(100))
    np.testing.assert_allclose(np.stack(got[1:], 1), plain(joined, right, TAUS, np.ones(400)), atol=CLOSE)
    assert got.rows[0] == 400
    assert got.accuracy[0] == pytest.approx(hit.sum() / 400)
    same = mixed_accuracy_versus_confidence(confidence, hit, out, TAUS, outside_share=0.25)
    np.testing.assert_allclose(same[1:], got[1:], atol=CLOSE)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_outside_reweighted_to_a_share(share, weighted):
    confidence, hit, out = mix(1)
    rng = np.random.default_rng(2)
    w_in, w_out = (rng.exponential(size=300), rng.exponential(size=100)) if weighted else (None, None)
    got = mixed_accuracy_versus_confidence(
        confidence, hit, out, TAUS, outside_share=share, weights=w_in, outside_weights=w_out
    )
    assert got.accuracy[0] == pytest.approx((1 - share) * np.average(hit, weights=w_in), abs=CLOSE)
    above = [(1 - share) * np.average(confidence >= t, weights=w_in) + share * np.average(out >= t, weights=w_out)
             for t in TAUS]  # fmt: skip
    np.testing.assert_allclose(got.share, above, atol=CLOSE)
    right = [np.average(hit * (confidence >= t), weights=w_in) * (1 - share) for t in TAUS]
    np.testing.assert_allclose(got.accuracy * got.share, np.where(got.share > 0, right, np.nan), atol=CLOSE)


def test_degenerate():
    none = np.empty(0)
    one = np.array([0.5])
    empty = accuracy_versus_confidence(none, none, TAUS)
    assert np.isnan(empty.accuracy).all()
    assert np.isnan(empty.share).all()
    assert not empty.rows.any()
    np.testing.assert_array_equal(accuracy_versus_confidence(one, one > 0, [0.5, 0.51]).accuracy, [1, np.nan])
    alone = mixed_accuracy_versus_confidence(one, one > 0, none, TAUS)
    np.testing.assert_array_equal(alone.share, TAUS <= 0.5)
    for share, inside, outside in [(0.5, one, none), (0.5, none, one), (1.0, one, none), (0.0, none, one)]:
        undefined = mixed_accuracy_versus_confidence(inside, inside > 0, outside, TAUS, outside_share=share)
        assert np.isnan(undefined.share).all()
    np.testing.assert_array_equal(
        mixed_accuracy_versus_confidence(one, one > 0, none, TAUS, outside_share=0.0).share, alone.share
    )
    for share in (-0.1, 1.1, np.nan):
        with pytest.raises(UsageError, match="outside_share"):
            mixed_accuracy_versus_confidence(one, one > 0, one, TAUS, outside_share=share)
