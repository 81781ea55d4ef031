"""Short ways that must give what the long ones give: class-wise tables, bins of equal width, one number a row."""

import numpy as np
import pytest
from scipy.special import softmax

from calibrant.calibration.binning import BinSums, equal_width
from calibrant.kernels.exact import UnitTable
from calibrant.kernels.rows import HITS_ONLY, rows_of
from calibrant.predictions import Classification, Judged

LIGHT, FULL = ("classwise_light", 15), ("classwise", 15)


# ------------------------------------------------------------------------------------- class-wise tables
def direct(p, labels, w, bins=15):
    """The five layers (5, C, bins) in plain NumPy."""
    n, classes = p.shape
    place = np.clip(np.ceil(p * bins) - 1, 0, bins - 1).astype(int)
    hot = np.eye(classes)[labels]
    layers = (np.ones((n, classes)), p, p**2, hot, p * hot)
    return np.array(
        [[np.bincount(place[:, c], w * x[:, c], bins) for c in range(classes)] for x in layers],
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 10, 100, 512, 600])
def test_tables_equal_plain_numpy(classes, weighted, kind, dtype):
    rng = np.random.default_rng(classes)
    z = (3 * rng.standard_normal((300, classes))).astype(dtype)
    labels, w = rng.integers(0, classes, 300), 2 * rng.random(300) if weighted else None
    scores = softmax(z, axis=1) if kind == "probs" else z
    predictions = Classification.build(kind, scores, labels, weights=w)
    p = softmax(z.astype(np.float64), axis=1)
    share = np.ones(300) if w is None else w / predictions.info.weight_unit
    expected = direct(p, labels, share)
    close = {"atol": 1e-9 if dtype == np.float64 else 1e-4}
    for wanted, layers in ((FULL, slice(None)), (LIGHT, [0, 1, 3])):
        for light in (False, True):
            table = rows_of(predictions, frozenset({wanted}), light=light).extras[wanted].astype(float) / 2.0**40
            np.testing.assert_allclose(table[:, :, 1:].sum(axis=2), expected[layers][:, :, 1:].sum(axis=2), atol=0.02)
            np.testing.assert_allclose(table.sum(axis=2), expected[layers].sum(axis=2), **close)


@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("classes", [512, 613])
def test_the_record_of_the_joint_pass_is_that_of_the_light_one(classes, kind):
    rng = np.random.default_rng(classes)
    z = np.round(3 * rng.standard_normal((100, classes)), 1).astype(np.float32)
    z[:20] = 0.0
    scores = softmax(z, axis=1) if kind == "probs" else z
    predictions = Classification.build(kind, scores, rng.integers(0, classes, 100))
    alone, joint = rows_of(predictions, light=True), rows_of(predictions, frozenset({FULL}), light=True)
    np.testing.assert_array_equal(joint.predicted, alone.predicted)
    np.testing.assert_array_equal(joint.hit, alone.hit)
    for name in ("confidence", "label_p", "log_label"):
        np.testing.assert_allclose(getattr(joint, name), getattr(alone, name), rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wanted", [FULL, LIGHT])
def test_order_blocks_and_threads_change_no_bit_of_a_table(wanted, dtype, weighted):
    rng = np.random.default_rng(1)
    z = rng.standard_normal((2100, 520)).astype(dtype) * 3
    w = rng.random(2100) + 0.5 if weighted else None
    predictions = Classification.from_logits(z, rng.integers(0, 520, 2100), weights=w)

    def table(predictions, **how):
        return np.asarray(rows_of(predictions, frozenset({wanted}), light=True, **how).extras[wanted])

    whole = table(predictions, threads=1)
    for threads in (2, 5):
        np.testing.assert_array_equal(table(predictions, threads=threads), whole)
    np.testing.assert_array_equal(table(predictions, block_rows=333), whole)
    if w is None:
        np.testing.assert_array_equal(table(predictions[rng.permutation(2100)]), whole)


def test_the_joint_pass_refuses_what_is_not_a_number():
    from calibrant.errors import ValuesError

    z = np.zeros((10_000, 520), np.float32)
    z[777, 3] = np.nan
    with pytest.raises(ValuesError, match="777"):
        rows_of(Classification.from_logits(z), frozenset({LIGHT}), light=True)


def test_unit_tables_hold_any_number_of_rows():
    rng = np.random.default_rng(2)
    parts = [rng.integers(-(1 << 62), 1 << 62, (3, 4)) for _ in range(50)]
    total = sum((UnitTable.of(part) for part in parts), start=0)
    expected = sum(part.astype(object) for part in parts)
    np.testing.assert_array_equal(np.asarray(total), expected)
    np.testing.assert_allclose(total.astype(np.float64), expected.astype(np.float64), rtol=1e-15)


# --------------------------------------------------------------------------------- bins of equal width
@pytest.mark.parametrize("outcome", [bool, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bins", [1, 2, 15, 256, 257])
def test_sums_of_equal_width_are_those_of_bins_found_first(bins, dtype, outcome):
    rng = np.random.default_rng(bins)
    p = rng.random(5003) ** 4
    p[:40] = np.repeat([0.0, 1.0, 1 / 3, 1e-9], 10)
    p, y = p.astype(dtype), (rng.random(5003) < 0.3).astype(outcome)
    short, long = BinSums(bins, spread=False), BinSums(bins, spread=False)
    short.add_width(p, y)
    long.add(p.astype(np.float64), y.astype(np.float64), None, equal_width(p, bins))
    np.testing.assert_array_equal(short.rows, long.rows)
    np.testing.assert_array_equal(short.limbs, long.limbs)


def test_sums_of_equal_width_with_weights_and_spread():
    rng = np.random.default_rng(3)
    p, y, w = rng.random(1000), rng.random(1000) < 0.5, 2 * rng.random(1000)
    short, long = BinSums(15), BinSums(15)
    short.add_width(p, y, w)
    long.add(p, y.astype(np.float64), w, equal_width(p, 15))
    np.testing.assert_array_equal(short.limbs, long.limbs)


def test_threads_change_no_bit_of_sums_of_equal_width():
    rng = np.random.default_rng(4)
    p, y = rng.random((1 << 20) + 5), rng.random((1 << 20) + 5) < 0.5
    found = []
    for threads in (1, 2, 5):
        sums = BinSums(15, spread=False)
        sums.add_width(p, y, threads=threads)
        found.append(sums.limbs)
    assert all((limbs == found[0]).all() for limbs in found)


# ----------------------------------------------------------------------------------- one number a row
def test_binary_rows_are_those_of_the_whole_pass():
    rng = np.random.default_rng(5)
    predictions = Classification.from_probs(rng.random(500), rng.integers(0, 2, 500))
    wanted = frozenset({("class", 0), ("class", 1)})
    short, long = rows_of(predictions, wanted, light=True), rows_of(predictions, wanted)
    for k in (0, 1):
        np.testing.assert_array_equal(short.extras["class", k], long.extras["class", k])
        np.testing.assert_array_equal(short.extras["label", k], long.extras["label", k])
        for mine, theirs in zip(short.pairs(k), long.pairs(k), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    for name in ("confidence", "hit", "label_p", "log_label", "predicted"):
        np.testing.assert_allclose(getattr(short, name), getattr(long, name), rtol=1e-14)


def test_a_binary_number_that_is_none_is_refused():
    from calibrant.errors import ValuesError

    p = np.full(1000, 0.5)
    p[3] = np.nan
    with pytest.raises(ValuesError):
        rows_of(Classification.build("probs", p, check=False), frozenset({("class", 1)}), light=True)


def test_judged_rows_give_pairs_as_they_came():
    p, y = np.array([0.2, 0.9], np.float32), np.array([True, False])
    rows = rows_of(Judged.from_confidence(p, y))
    assert rows.pairs()[0].dtype == np.float32
    np.testing.assert_array_equal(rows.confidence, p.astype(np.float64))
    np.testing.assert_allclose(rows.log_label, np.log([p[0], 1 - np.float64(p[1])]))


# ------------------------------------------------------------------------------------ records of members
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("classes", [2, 10, 60])
def test_a_record_of_hits_has_the_bits_of_the_whole_one(classes, kind, dtype):
    rng = np.random.default_rng(classes)
    z = 3 * rng.standard_normal((5, 333, classes))
    scores = (softmax(z, axis=2) if kind == "probs" else z).astype(dtype)
    predictions = Classification.build(kind, scores, rng.integers(0, classes, 333))
    whole, hits, light = (
        rows_of(predictions), rows_of(predictions, frozenset({HITS_ONLY})), rows_of(predictions, light=True),
    )  # fmt: skip
    for name in ("predicted", "confidence", "hit", "member_p"):
        np.testing.assert_array_equal(getattr(hits, name), getattr(whole, name))
        np.testing.assert_array_equal(getattr(light, name), getattr(whole, name))
    np.testing.assert_array_equal(light.log_label, whole.log_label)
    assert np.isnan(hits.log_label).all()
