"""Predictions come from arrays, tensors, data frames and estimators; what does not fit its declaration is refused."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB

import calibrant as cal
from calibrant.errors import LabelsError, ShapeError, UsageError, ValuesError

RNG = np.random.default_rng(2)
N, C = 23, 4
LOGITS = RNG.normal(size=(N, C))
LABELS = RNG.integers(0, C, N)
CAL = cal.Classification


STEEP = {"slope", "intercept", "hosmer_lemeshow", "spiegelhalter_z", "smooth_ece", "log_e_value"}
"""Metrics in which a rounding of p shows a hundred times larger, or which are found to within 1e-7."""
BY_CLASSES = {"sce", "ace", "tace", "uce"}
"""Metrics that are divided by the number of classes, or its logarithm."""
RANKED = {
    "misclassification_auroc",
    "misclassification_aupr",
    "aurc",
    "e_aurc",
    "aac",
    "ace",
    "tace",
    "ks",
    "sweep_ece",
}
"""Metrics that see whether two rows are tied, which a rounding may undo."""


def assert_same_values(a, b, given=1e-12, without=()):
    """Whether two predictions give the same value of every metric that both have."""
    first, second = cal.measure(a), cal.measure(b)
    common = (first.keys() & second.keys()) - set(without)
    assert {"accuracy", "nll", "brier", "ece"} <= common
    for metric in common:
        tolerance = max(100 * given, 1e-6) if metric in STEEP else given
        assert first[metric] == pytest.approx(second[metric], rel=tolerance, abs=tolerance, nan_ok=True), metric


def test_logits_log_probs_and_probs_are_three_words_for_one_thing():
    logits = CAL.from_logits(LOGITS, LABELS)
    assert_same_values(logits, CAL.from_log_probs(log_softmax(LOGITS, axis=1), LABELS))
    assert_same_values(logits, CAL.from_probs(softmax(LOGITS, axis=1), LABELS))


def test_scores_are_never_guessed_from_their_range():
    """Logits that look like probabilities stay logits."""
    probs = softmax(LOGITS, axis=1)
    assert cal.measure(CAL.from_logits(probs, LABELS))["nll"] != cal.measure(CAL.from_probs(probs, LABELS))["nll"]
    expected = -log_softmax(probs, axis=1)[np.arange(N), LABELS].mean()
    assert cal.measure(CAL.from_logits(probs, LABELS))["nll"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("shape", "members", "rows", "classes"),
    [((N, C), 1, N, C), ((3, N, C), 3, N, C), ((N,), 1, N, 2), ((3, N, 1), 3, N, 2), ((1, 1, 2), 1, 1, 2)],
)
def test_shapes(shape, members, rows, classes):
    made = CAL.from_logits(RNG.normal(size=shape))
    assert (made.members, made.n, len(made), made.classes) == (members, rows, rows, classes)
    assert f"rows={rows}, classes={classes}, members={members}" in repr(made)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (4, 1), (0, 4, 3), (2, 0, 3), (1, 2, 3, 4)])
def test_impossible_shapes(shape):
    with pytest.raises(ShapeError, match=r"logits: expected .*, got shape"):
        CAL.from_logits(np.zeros(shape))


@pytest.mark.parametrize(
    "dtype", ["int8", "uint16", "int64", "float16", "float32", "float64", "longdouble", ">f4", ">f8"]
)
def test_number_types_keep_their_values(dtype):
    scores = np.round(LOGITS * 4).clip(0).astype(dtype)
    assert_same_values(
        CAL.from_logits(scores, LABELS), CAL.from_logits(scores.astype(np.float64), LABELS), 2e-6, RANKED
    )


@pytest.mark.parametrize("order", ["fortran", "reversed", "strided"])
def test_memory_layout_does_not_matter(order):
    wide = np.repeat(LOGITS, 2, axis=1)
    scores = {"fortran": np.asfortranarray(LOGITS), "reversed": LOGITS[::-1][::-1], "strided": wide[:, ::2]}[order]
    assert cal.measure(CAL.from_logits(scores, LABELS)) == cal.measure(CAL.from_logits(LOGITS, LABELS))


def test_what_was_given_is_not_changed():
    scores, labels, soft = LOGITS.copy(), LABELS.copy(), softmax(LOGITS, axis=1)
    before = soft.copy()
    cal.evaluate(CAL.from_logits(scores, labels, label_probs=soft), resamples=20)
    assert (scores == LOGITS).all()
    assert (labels == LABELS).all()
    assert (soft == before).all()


def test_lists_do():
    made = CAL.from_probs([[0.5, 0.5], [0.25, 0.75]], [0, 1])
    assert made.scores.shape == (1, 2, 2)
    assert made.labels.tolist() == [0, 1]


def test_ragged_lists_are_refused():
    with pytest.raises(ShapeError, match="rows that differ in length"):
        CAL.from_probs([[0.5, 0.5], [1.0]])


@pytest.mark.parametrize(
    "scores", [LOGITS + 0j, LOGITS > 0, LOGITS.astype(str), LOGITS.astype("M8[s]"), [[None, 1.0]]], ids=str
)
def test_what_is_no_number_is_refused(scores):
    with pytest.raises(ValuesError):
        CAL.from_logits(scores)


def test_misspelt_arguments_are_not_swallowed():
    with pytest.raises(TypeError, match="weigths"):
        CAL.from_logits(LOGITS, LABELS, weigths=np.ones(N))


def test_reserved_column_names_are_refused():
    with pytest.raises(UsageError, match="the reserved 'weights'"):
        CAL.from_logits(LOGITS, LABELS, columns={"weights": np.ones(N)})


def test_meta_that_json_cannot_carry_is_refused_at_once():
    with pytest.raises(ValuesError, match="meta"):
        CAL.from_logits(LOGITS, LABELS, meta={"model": object()})


def test_minus_infinity_rules_a_class_out():
    scores = LOGITS.copy()
    scores[:, 0] = -np.inf
    without = CAL.from_logits(LOGITS[:, 1:], LABELS.clip(1) - 1)
    assert_same_values(CAL.from_logits(scores, LABELS.clip(1)), without, without=BY_CLASSES)


# ----------------------------------------------------------------------------------------- values
@pytest.mark.parametrize("place", [(0, 0, 0), (1, 7, 2), (2, N - 1, C - 1)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_value_is_located(place, value):
    scores = RNG.normal(size=(3, N, C))
    scores[place] = value
    with pytest.raises(ValuesError, match=f"{value} in row {place[1]}, class {place[2]} of member {place[0]}"):
        CAL.from_logits(scores)


@pytest.mark.parametrize("excess", [2e-3, -2e-3])
def test_sums_beyond_the_tolerance_are_refused(excess):
    probs = softmax(LOGITS, axis=1)
    probs[5] *= 1 + excess
    with pytest.raises(ValuesError, match="in row 5"):
        CAL.from_probs(probs)
    with pytest.raises(ValuesError, match="in row 5"):
        CAL.from_log_probs(np.log(probs))


def test_sums_within_the_tolerance_are_divided_out_and_noted():
    probs = softmax(LOGITS, axis=1)
    off = CAL.from_probs(probs * 1.0005, LABELS)
    assert_same_values(off, CAL.from_probs(probs, LABELS))
    assert [note.code for note in cal.evaluate(off, "nll").warnings] == ["renormalised"]
    assert cal.evaluate(CAL.from_probs(probs, LABELS), "nll").warnings == ()


@pytest.mark.parametrize("kind", ["probs", "log_probs", "logits"])
def test_large_arrays_are_checked_too(kind, monkeypatch):
    """Beyond `SMALL` values are checked in the pass that reads them: the same refusal, a little later."""
    monkeypatch.setattr("calibrant.predictions.classification.SMALL", 1)
    bad = softmax(LOGITS, axis=1)
    bad[11, 1] = np.nan
    made = CAL.build(kind, bad if kind != "log_probs" else np.log(bad), LABELS)
    with pytest.raises(ValuesError, match="nan in row 11, class 1"):
        cal.evaluate(made)


# ----------------------------------------------------------------------------------------- labels
def test_labels_by_name():
    names = np.array(["cat", "dog", "elk", "fox"])
    by_name = CAL.from_logits(LOGITS, names[LABELS], classes=names)
    assert (by_name.labels == LABELS).all()
    assert by_name.class_names == ("cat", "dog", "elk", "fox")
    assert [by_name.class_index(name) for name in ("elk", "2")] == [2, 2]
    with pytest.raises(UsageError, match="'cow'"):
        by_name.class_index("cow")


def test_labels_that_look_like_numbers_are_names_where_they_are_text():
    made = CAL.from_logits(LOGITS[:3], ["3", "0", "1"], classes=["3", "2", "1", "0"])
    assert made.labels.tolist() == [0, 3, 2]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (LABELS - 1, "labels from -1"),
        (LABELS + 1, "to 4"),
        (LABELS.astype(float), "float64"),
        (np.full(N, "cat"), "'cat'"),
        ([None] * N, "Python objects"),
    ],
)
def test_bad_labels(labels, said):
    with pytest.raises((LabelsError, ValuesError), match=said):
        CAL.from_logits(LOGITS, labels)


def test_without_labels_there_is_no_score():
    result = cal.evaluate(CAL.from_logits(LOGITS)).results[0]
    assert "entropy" in result.metrics
    assert str(result.skipped["nll"]) == "it needs labels"


def test_soft_labels_of_certainty_equal_hard_labels():
    hard, soft = CAL.from_logits(LOGITS, LABELS), CAL.from_logits(LOGITS, label_probs=np.eye(C)[LABELS])
    assert soft.soft
    assert soft.has_labels
    for metric in ("accuracy", "nll", "brier", "ece"):
        assert cal.measure(soft, metric) == pytest.approx(cal.measure(hard, metric), rel=1e-12)


def test_soft_labels_give_expected_scores():
    q, log_p = softmax(RNG.normal(size=(N, C)), axis=1), log_softmax(LOGITS, axis=1)
    found = cal.measure(CAL.from_logits(LOGITS, label_probs=q), ["nll", "accuracy"])
    assert found["nll"] == pytest.approx(-(q * log_p).sum(axis=1).mean(), rel=1e-12)
    assert found["accuracy"] == pytest.approx(q[np.arange(N), LOGITS.argmax(axis=1)].mean(), rel=1e-12)


def test_both_kinds_of_labels_are_noted_and_soft_ones_taken_on_demand():
    q = softmax(RNG.normal(size=(N, C)), axis=1)
    both = CAL.from_logits(LOGITS, LABELS, label_probs=q)
    assert [note.code for note in both.notes()] == ["two-kinds-of-labels"]
    assert cal.measure(both, "nll") == cal.measure(CAL.from_logits(LOGITS, LABELS), "nll")
    assert cal.measure(both.with_soft_labels(), "nll") == cal.measure(CAL.from_logits(LOGITS, label_probs=q), "nll")
    with pytest.raises(LabelsError, match="label_probs"):
        CAL.from_logits(LOGITS, LABELS).with_soft_labels()


# ---------------------------------------------------------------------------------------- weights
@pytest.mark.parametrize(
    "weights", [np.zeros(N), np.full(N, np.nan), np.full(N, np.inf), -np.ones(N), np.full(N, "1"), np.ones(N) > 0]
)
def test_bad_weights(weights):
    with pytest.raises(ValuesError, match="weights"):
        CAL.from_logits(LOGITS, LABELS, weights=weights)


def test_weights_beyond_all_bounds_are_refused_or_sound():
    """A sum that overflows must not make every score undefined."""
    try:
        made = CAL.from_logits(LOGITS, LABELS, weights=np.full(N, 1e308))
    except ValuesError:
        return
    assert cal.measure(made, "nll") == pytest.approx(cal.measure(CAL.from_logits(LOGITS, LABELS), "nll"))


def test_whole_weights_are_repeated_rows():
    weights = RNG.integers(0, 4, N)
    weighted = CAL.from_logits(LOGITS, LABELS, weights=weights)
    repeated = CAL.from_logits(np.repeat(LOGITS, weights, axis=0), np.repeat(LABELS, weights))
    for metric in ("accuracy", "nll", "brier", "ece", "entropy"):
        assert cal.measure(weighted, metric) == pytest.approx(cal.measure(repeated, metric), rel=1e-12)


# ------------------------------------------------------------------------------ other people's types
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors_of_any_precision(dtype):
    tensor = torch.tensor(LOGITS, dtype=dtype, requires_grad=True)
    made = CAL.from_torch(logits=tensor, labels=torch.tensor(LABELS))
    exact = tensor.detach().double().numpy()
    assert (made.scores[0].astype(np.float64) == exact).all()
    tolerance = 1e-12 if dtype == torch.float64 else 2e-6
    assert_same_values(made, CAL.from_logits(exact, LABELS), tolerance)


def test_tensors_by_every_constructor():
    logits, labels = torch.tensor(LOGITS), torch.tensor(LABELS)
    assert_same_values(CAL.from_torch(log_probs=logits.log_softmax(1), labels=labels), CAL.from_logits(LOGITS, LABELS))
    assert_same_values(CAL.from_torch(probs=logits.softmax(1), labels=labels), CAL.from_logits(logits, labels))


@pytest.mark.parametrize("given", [{}, {"logits": LOGITS, "probs": LOGITS}])
def test_from_torch_wants_exactly_one(given):
    with pytest.raises(UsageError, match="exactly one of logits, log_probs and probs"):
        CAL.from_torch(labels=LABELS, **given)


def test_strangers_are_not_imported():
    """Tensors, frames and estimators are taken without importing their libraries."""
    code = (
        "import sys, calibrant as cal\n"
        "p = cal.Classification.from_torch(logits=[[0.0, 1.0], [1.0, 0.0]], labels=[0, 1])\n"
        "print(cal.evaluate(p, resamples=20))\n"
        "print(*[name for name in ('torch', 'sklearn', 'pandas', 'altair') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == "\n"


def test_importing_calibrant_costs_next_to_nothing():
    code = "import sys, calibrant; print(*[n for n in ('numpy', 'scipy', 'numba', 'typer') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "\n"


def test_data_frames():
    pd = pytest.importorskip("pandas")
    names = np.array(["cat", "dog", "elk", "fox"])
    frame = pd.DataFrame(softmax(LOGITS, axis=1), columns=[f"p_{name}" for name in names])
    frame["label"] = pd.Series(names[LABELS], dtype=object)
    frame["site"] = pd.Series(["north", "south"] * (N // 2) + ["north"])
    made = CAL.from_probs(frame.filter(like="p_"), frame["label"], classes=names, columns={"site": frame["site"]})
    assert (made.labels == LABELS).all()
    assert {value for value, _ in made.by("site")} == {"north", "south"}
    assert_same_values(made, CAL.from_logits(LOGITS, LABELS))


def test_sklearn_estimator_with_named_classes():
    X = RNG.normal(size=(90, 3))
    y = np.array(["elk", "cat", "dog"])[np.argmax(X + RNG.normal(size=(90, 3)), axis=1)]
    model = LogisticRegression().fit(X, y)
    made = CAL.from_sklearn(model, X, y)
    assert made.class_names == ("cat", "dog", "elk")
    assert made.name == "LogisticRegression"
    assert cal.measure(made, "accuracy")["accuracy"] == pytest.approx(model.score(X, y))
    assert CAL.from_sklearn(model, X).labels is None


def test_sklearn_estimator_with_numbers_that_do_not_count_from_zero():
    X, y = RNG.normal(size=(60, 2)), RNG.choice([2, 5, 9], 60)
    made = CAL.from_sklearn(GaussianNB().fit(X, y), X, y)
    assert made.class_names == ("2", "5", "9")
    assert (np.array([2, 5, 9])[made.labels] == y).all()
    with pytest.raises(LabelsError, match="'3'"):
        CAL.from_sklearn(GaussianNB().fit(X, y), X, np.full(60, 3))


def test_sklearn_estimator_without_probabilities_is_refused():
    X, y = RNG.normal(size=(60, 2)), RNG.integers(0, 2, 60)
    with pytest.raises(UsageError, match="predict_proba"):
        CAL.from_sklearn(SGDClassifier(loss="hinge").fit(X, y), X, y)


# ----------------------------------------------------------------------------------------- judged
def test_judged_answers():
    confidence, correct = RNG.random(N), RNG.random(N) < 0.6
    made = cal.Judged.from_confidence(confidence, correct)
    assert (made.n, made.members, made.has_labels) == (N, 1, True)
    found = cal.measure(made, ["accuracy", "nll", "ece"])
    assert found["accuracy"] == pytest.approx(correct.mean())
    p = np.where(correct, confidence, 1 - confidence)
    assert found["nll"] == pytest.approx(-np.log(p).mean(), rel=1e-12)
    assert cal.measure(cal.Judged.from_confidence(confidence, correct.astype(int)), "ece")["ece"] == found["ece"]


def test_judged_members_are_averaged():
    confidence, correct = RNG.random((3, N)), RNG.random(N) < 0.6
    many = cal.Judged.from_confidence(confidence, correct)
    mean = cal.Judged.from_confidence(confidence.mean(axis=0), correct)
    assert many.members == 3
    for metric in ("accuracy", "nll", "brier", "ece"):
        assert cal.measure(many, metric) == pytest.approx(cal.measure(mean, metric), rel=1e-12)
    assert (many.average().confidence == mean.confidence).all()
    assert (many.member(2).confidence == confidence[[2]]).all()
    assert (many.member(-1).confidence == confidence[[2]]).all()


@pytest.mark.parametrize("k", [3, -4])
@pytest.mark.parametrize("kind", ["classification", "judged"])
def test_member_out_of_range_is_refused(kind, k):
    scores = RNG.random((3, N, 2))
    made = cal.Judged.from_confidence(scores[:, :, 0]) if kind == "judged" else CAL.from_logits(scores)
    with pytest.raises(UsageError, match="member: expected a number from 0 to 2"):
        made.member(k)


@pytest.mark.parametrize("confidence", [[-0.1, 0.5], [0.5, 1.1], [np.nan, 0.5], [50, 60]])
def test_confidence_outside_zero_to_one_is_refused(confidence):
    with pytest.raises(ValuesError, match="confidence: expected probabilities from 0 to 1"):
        cal.Judged.from_confidence(confidence)


@pytest.mark.parametrize("correct", [[0, 2], [0.0, 1.0], ["yes", "no"], [-1, 1]])
def test_correct_is_right_or_wrong(correct):
    with pytest.raises(ValuesError, match="correct: expected booleans, or the integers 0 and 1"):
        cal.Judged.from_confidence([0.5, 0.5], correct)


@pytest.mark.parametrize("shape", [(), (0,), (2, 3, 4), (2, 0)])
def test_impossible_shapes_of_confidence(shape):
    with pytest.raises(ShapeError, match="confidence"):
        cal.Judged.from_confidence(np.zeros(shape))
