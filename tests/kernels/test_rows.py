"""The one pass against plain NumPy and SciPy, at its edges, and bit for bit under every way of running it."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from scipy.stats import entropy

from calibrant.errors import ValuesError
from calibrant.kernels.jit import SERIAL_BELOW
from calibrant.kernels.rows import MARGIN, MEAN, PREDICTED_CLASS, RANK, rows_of
from calibrant.predictions import Classification

CLASSES = [2, 3, 10, 47, 48, 64, 65, 100, 257, 513]
EVERYTHING = frozenset({MARGIN, RANK, MEAN, PREDICTED_CLASS, ("class", 1), ("classwise", 15)})


def problem(members, rows, classes, kind="logits", dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    logits = 3 * rng.standard_normal((members, rows, classes))
    labels = rng.integers(0, classes, rows)
    log_probs = logits - logsumexp(logits, axis=2, keepdims=True)
    scores = {"logits": logits, "log_probs": log_probs, "probs": np.exp(log_probs)}[kind]
    return scores.astype(dtype), labels


def reference(scores, labels, kind):
    """Everything the record holds, in plain NumPy."""
    scores = scores.astype(np.float64)
    p = softmax(scores, axis=2) if kind != "probs" else scores / scores.sum(axis=2, keepdims=True)
    mean = p.mean(axis=0)
    rows = np.arange(len(labels))
    predicted = mean.argmax(axis=1)
    votes = p.argmax(axis=2)
    modal = np.array([np.bincount(column).max() for column in votes.T])
    ordered = np.sort(mean, axis=1)
    return {
        "predicted": predicted,
        "confidence": mean.max(axis=1),
        "entropy": entropy(mean, axis=1),
        "sum_squares": (mean**2).sum(axis=1),
        "label_p": mean[rows, labels],
        "log_label": np.log(mean[rows, labels]),
        "hit": (predicted == labels).astype(float),
        "expected_entropy": entropy(p, axis=2).mean(axis=0),
        "variation_ratio": 1 - modal / len(p),
        "member_p": p[:, rows, predicted],
        "margin": ordered[:, -1] - ordered[:, -2],
        "rank": (mean > mean[rows, labels][:, None]).sum(axis=1),
        "mean": mean,
        "class": mean[:, 1],
    }


@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
@pytest.mark.parametrize("members", [1, 4])
@pytest.mark.parametrize("classes", CLASSES)
def test_the_record_equals_plain_numpy(classes, members, kind):
    scores, labels = problem(members, 131, classes, kind)
    rows = rows_of(Classification.build(kind, scores, labels), EVERYTHING)
    expected = reference(scores, labels, kind)
    close = {"rtol": 1e-10, "atol": 1e-12}
    for name in ("confidence", "entropy", "sum_squares", "label_p", "log_label"):
        np.testing.assert_allclose(getattr(rows, name), expected[name], **close, err_msg=name)
    np.testing.assert_array_equal(rows.predicted, expected["predicted"])
    np.testing.assert_array_equal(rows.hit, expected["hit"])
    np.testing.assert_allclose(rows.extras[MARGIN], expected["margin"], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(rows.extras[RANK], expected["rank"])
    np.testing.assert_allclose(rows.extras["class", 1], expected["class"], **close)
    if members > 1:
        for name in ("expected_entropy", "variation_ratio", "member_p"):
            np.testing.assert_allclose(getattr(rows, name), expected[name], **close, err_msg=name)
        np.testing.assert_allclose(rows.extras[MEAN], expected["mean"], **close)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("classes", [10, 100])
def test_class_tables_hold_every_row_once(classes, members):
    scores, labels = problem(members, 500, classes)
    table = rows_of(Classification.from_logits(scores, labels), EVERYTHING).extras["classwise", 15]
    count, p, p_squared, y, p_y = table.astype(float) / 2.0**40
    mean = softmax(scores, axis=2).mean(axis=0)
    bins = np.clip(np.ceil(mean * 15) - 1, 0, 14).astype(int)
    hot = np.eye(classes)[labels]
    for c in range(classes):
        for values, layer in ((np.ones(500), count), (mean[:, c], p), (mean[:, c] ** 2, p_squared)):
            np.testing.assert_allclose(layer[c], np.bincount(bins[:, c], values, 15), atol=1e-8)
        np.testing.assert_allclose(y[c], np.bincount(bins[:, c], hot[:, c], 15), atol=1e-8)
        np.testing.assert_allclose(p_y[c], np.bincount(bins[:, c], hot[:, c] * mean[:, c], 15), atol=1e-8)


@pytest.mark.parametrize("classes", [10, 100])
def test_one_member_is_what_two_equal_members_are(classes):
    scores, labels = problem(1, 200, classes)
    one = rows_of(Classification.from_logits(scores, labels))
    two = rows_of(Classification.from_logits(np.concatenate([scores, scores]), labels))
    for name in ("confidence", "entropy", "sum_squares", "label_p", "log_label"):
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(two.expected_entropy, one.entropy, rtol=1e-11, atol=1e-13)
    assert (two.variation_ratio == 0).all()


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("classes", [5, 80])
def test_ties_go_to_the_first_class(classes, members):
    rows = rows_of(Classification.from_logits(np.zeros((members, 70, classes)), np.arange(70) % classes), EVERYTHING)
    assert (rows.predicted == 0).all()
    np.testing.assert_array_equal(rows.extras[RANK], np.arange(70) % classes)
    np.testing.assert_allclose(rows.extras[MARGIN], 0, atol=1e-15)
    np.testing.assert_allclose(rows.entropy, np.log(classes))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("classes", [4, 60])
def test_huge_logits_stay_finite(classes, members, dtype):
    scores = np.full((members, 3, classes), -1e4, dtype)
    scores[:, :, 0] = 1e4
    rows = rows_of(Classification.from_logits(scores, np.array([0, 1, 2])))
    np.testing.assert_allclose(rows.log_label, [0.0, -2e4, -2e4], atol=1e-6)
    np.testing.assert_allclose(rows.label_p, [1.0, 0.0, 0.0], atol=1e-30)
    np.testing.assert_allclose(rows.confidence, 1.0)
    np.testing.assert_allclose(rows.entropy, 0.0, atol=1e-6)


@pytest.mark.parametrize("kind", ["log_probs", "probs"])
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("classes", [4, 60])
def test_impossible_and_certain_classes(classes, members, kind):
    p = np.zeros((members, 2, classes))
    p[:, :, 1] = 1.0
    with np.errstate(divide="ignore"):
        scores = p if kind == "probs" else np.log(p)
    rows = rows_of(Classification.build(kind, scores, np.array([1, 2])))
    np.testing.assert_array_equal(rows.log_label, [0.0, -np.inf])
    np.testing.assert_array_equal(rows.label_p, [1.0, 0.0])
    np.testing.assert_allclose(rows.confidence, 1.0)
    np.testing.assert_allclose(rows.entropy, 0.0, atol=1e-30)


def test_one_member_that_allows_the_label_keeps_the_average_finite():
    log_probs = np.log(
        np.array([[[1.0, 0.0]], [[0.5, 0.5]]]) + 0.0, where=[[[1, 0]], [[1, 1]]], out=np.full((2, 1, 2), -np.inf)
    )
    rows = rows_of(Classification.from_log_probs(log_probs, np.array([1])))
    assert rows.log_label[0] == pytest.approx(np.log(0.25))


NAN = np.float64(np.nan)
FAULTS = {"nan": NAN, "negative nan": np.copysign(NAN, -1.0), "inf": np.inf}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("classes", [7, 130, 520])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_pass_itself_finds_every_fault(dtype, classes, members, place, fault):
    scores, labels = problem(members, 300, classes, dtype=dtype)
    predictions = Classification.from_logits(scores.copy(), labels)
    row, column = {"first": (0, 0), "middle": (151, classes // 2), "last": (299, classes - 1)}[place]
    predictions.scores[members - 1, row, column] = FAULTS[fault]
    with pytest.raises(ValuesError, match=f"row {row}, class {column}"):
        rows_of(predictions)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("classes", [7, 130, 520])
def test_the_pass_itself_finds_what_are_no_probabilities(classes, members):
    scores, labels = problem(members, 100, classes, "probs")
    negative = Classification.from_probs(scores.copy(), labels)
    negative.scores[0, 40, 2] = -0.1
    with pytest.raises(ValuesError, match="row 40, class 2"):
        rows_of(negative)
    too_much = Classification.from_probs(scores.copy(), labels)
    too_much.scores[-1, 41] *= 1.01
    with pytest.raises(ValuesError, match=r"a sum of 1\.01 in row 41"):
        rows_of(too_much)
    logs = Classification.from_log_probs(np.log(scores), labels)
    logs.scores[0, 42] += 0.1
    with pytest.raises(ValuesError, match="row 42"):
        rows_of(logs)


@pytest.mark.parametrize("classes", [10, 100])
def test_a_light_pass_leaves_out_only_what_it_may(classes):
    for kind in ("logits", "probs"):
        predictions = Classification.build(kind, *problem(1, 100, classes, kind))
        light, full = rows_of(predictions, light=True), rows_of(predictions)
        for name in ("confidence", "predicted", "hit", "label_p", "log_label"):
            np.testing.assert_allclose(getattr(light, name), getattr(full, name), rtol=1e-14)


def assert_same_bits(a, b):
    for name, value in vars(a).items():
        other = getattr(b, name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, other, err_msg=name)
    for key, value in a.extras.items():
        np.testing.assert_array_equal(value, b.extras[key], err_msg=str(key))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("classes", [2, 10, 100, 600])
def test_same_bits_for_any_blocks_and_order_of_storage(classes, members, dtype):
    scores, labels = problem(members, 211, classes, dtype=dtype)
    whole = rows_of(Classification.from_logits(scores, labels), EVERYTHING)
    for blocks in (3, 7, 211):
        assert_same_bits(
            whole, rows_of(Classification.from_logits(scores, labels), EVERYTHING, block_rows=-(-211 // blocks))
        )
    fortran = Classification.from_logits(np.asfortranarray(scores), labels)
    assert_same_bits(whole, rows_of(fortran, EVERYTHING))
    swapped = Classification.from_logits(scores.astype(scores.dtype.newbyteorder()), labels)
    assert_same_bits(whole, rows_of(swapped, EVERYTHING))


@pytest.mark.parametrize(("members", "classes"), [(1, 10), (1, 100), (3, 10), (3, 100)])
def test_same_bits_for_one_thread_and_several(members, classes):
    n = SERIAL_BELOW // (members * classes) + 1000
    predictions = Classification.from_logits(*problem(members, n, classes, dtype=np.float32))
    one = rows_of(predictions, EVERYTHING, threads=1)
    for threads in (2, 5):
        assert_same_bits(one, rows_of(predictions, EVERYTHING, threads=threads))


def test_rounded_probabilities_stay_in_their_bins():
    """0.3 + 0.6 + 0.1 is the float below one: dividing by it would put 0.6 into the bin above."""
    p = np.array([[0.3, 0.6, 0.1], [0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
    assert (p.sum(axis=1) != 1.0).any()
    rows = rows_of(Classification.from_probs(p, [1, 0, 0]), frozenset({("class", 1), ("top_mass", 1)}))
    assert rows.confidence.tolist() == [0.6, 0.7, 0.8]
    assert rows.extras["class", 1].tolist() == [0.6, 0.2, 0.8]
    assert rows.extras["top_mass", 1].tolist() == [0.6, 0.7, 0.8]


@pytest.mark.parametrize("threshold", [0.001, 0.05, 0.1, 0.3])
def test_entries_at_the_threshold_are_left_out(threshold):
    """exp(log p) may be the float above p: entries are judged as they were given."""
    p = np.array([[threshold, 1.0 - threshold]])
    key = ("above", threshold)
    rows = rows_of(Classification.from_probs(p, np.array([1])), frozenset({key}))
    np.testing.assert_array_equal(rows.extras[key], [[1.0, 1.0 - threshold, 1.0, 0.0]])
