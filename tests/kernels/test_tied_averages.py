"""Classes whose averages are equal in decimals are tied on every path, and the first of them is predicted."""

import numpy as np
import pytest

import calibrant as cal
from calibrant.kernels.rows import MARGIN, MEAN, RANK, rows_of


def tied(n, classes, members, rng):
    """Tenths (M, N, C): the first two classes have the same sum over members, in another order, and the largest one."""
    tenths = np.zeros((members, n, classes), np.int64)
    for row in range(n):
        while True:
            first = rng.integers(0, 6, members)
            second = rng.permutation(first)
            if (first + second <= 10).all() and 3 * first.sum() > 10 * members:
                break
        rest = rng.integers(2, classes, members)
        tenths[:, row, 0], tenths[:, row, 1] = first, second
        tenths[np.arange(members), row, rest] += 10 - first - second
    return tenths / 10.0


@pytest.mark.parametrize("classes", [4, 40])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["probs", "log_probs", "logits"])
def test_the_first_of_tied_classes_is_predicted(classes, dtype, kind):
    p = tied(400, classes, 3, np.random.default_rng(classes))
    assert not np.array_equal(p.mean(axis=0)[:, 0], p.mean(axis=0)[:, 1])  # some ties are broken by rounding
    scores = p if kind == "probs" else np.log(np.maximum(p, 1e-6)) + (2.5 if kind == "logits" else 0.0)
    if kind == "log_probs":
        scores = scores - np.logaddexp.reduce(scores, axis=2, keepdims=True)
    make = getattr(cal.Classification, f"from_{kind}")
    members = make(scores.astype(dtype), np.zeros(400, np.int64))
    rows = rows_of(members, frozenset({MEAN, MARGIN, RANK}))
    np.testing.assert_array_equal(rows.predicted, 0)
    np.testing.assert_array_equal(rows.extras[MEAN][:, 0], rows.extras[MEAN][:, 1])
    np.testing.assert_array_equal(rows.extras[MARGIN], 0.0)
    np.testing.assert_array_equal(rows.extras[RANK], rows_of(members.average(), frozenset({RANK})).extras[RANK])
    np.testing.assert_array_equal(rows_of(members.average()).predicted, 0)
    assert cal.measure(members, "accuracy") == cal.measure(members.average(), "accuracy")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_difference_above_rounding_is_no_tie(dtype):
    more = 100 * np.finfo(dtype).eps
    p = np.array([[[0.4, 0.4 + more, 0.2 - more]], [[0.5, 0.5 + more, -more]], [[0.3, 0.3 + more, 0.4 - more]]])
    members = cal.Classification.from_probs(np.clip(p, 0.0, 1.0).astype(dtype), [1])
    assert rows_of(members).predicted[0] == rows_of(members.average()).predicted[0] == 1
