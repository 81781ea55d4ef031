"""Soft labels are expectations over hard ones; judged answers are the binary problem of being right."""

import numpy as np
import pytest
from scipy import special

import calibrant as cal

N, C = 120, 5
LINEAR = ["accuracy", "nll", "nll(clip=0.05)", "brier", "rbs", "ece", "ece(of=2)", "ece(norm=l2)", "entropy"]


def scores(kind, members=2, seed=0):
    z = 2 * np.random.default_rng(seed).normal(size=(members, N, C))
    log_p = special.log_softmax(z, axis=2)
    return {"logits": z, "log_probs": log_p, "probs": np.exp(log_p)}[kind]


@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_hot_soft_labels_are_hard_labels(kind, members, weighted):
    """Every metric that soft labels can give, with its interval and null band."""
    labels = np.random.default_rng(1).integers(0, C, N)
    w = np.random.default_rng(2).exponential(size=N) if weighted else None
    x = scores(kind, members)
    soft = cal.evaluate(
        cal.Classification.build(kind, x, label_probs=np.eye(C)[labels], weights=w), "all", resamples=40
    )
    hard = cal.evaluate(cal.Classification.build(kind, x, labels, weights=w), "all", resamples=40)
    found = soft.results[0].metrics
    assert {"accuracy", "nll", "brier", "ece", "corp_miscalibration"} <= set(found)
    for spec, estimate in found.items():
        for part in ("value", "low", "high", "null_low", "null_high"):
            expected = getattr(hard[spec], part)
            assert getattr(estimate, part) == pytest.approx(expected, abs=1e-9, nan_ok=True), (spec, part)


@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("members", [1, 2])
def test_soft_labels_are_expectations(kind, members):
    """Each row repeated with every label, weighted by its probability, gives the same values."""
    q = np.random.default_rng(3).dirichlet(np.full(C, 0.3), N)
    x = scores(kind, members)
    soft = cal.Classification.build(kind, x, label_probs=q)
    every = cal.Classification.build(kind, np.repeat(x, C, axis=1), np.tile(np.arange(C), N), weights=q.ravel())
    assert cal.measure(soft, LINEAR) == pytest.approx(cal.measure(every, LINEAR), abs=1e-9)


def test_clipping_soft_labels_clips_each_class():
    """−Σ q log max(p, clip), not the clipped sum."""
    p, q = np.array([[0.9, 0.1, 0.0]]), np.array([[0.5, 0.3, 0.2]])
    measured = cal.measure(cal.Classification.from_probs(p, label_probs=q), ["nll(clip=0.01)"])
    assert measured["nll(clip=0.01)"] == pytest.approx(-(q * np.log(np.maximum(p, 0.01))).sum())


def test_both_kinds_of_labels():
    rng = np.random.default_rng(4)
    labels, q = rng.integers(0, C, N), rng.dirichlet(np.ones(C), N)
    both = cal.Classification.from_logits(scores("logits"), labels, label_probs=q)
    hard = cal.measure(cal.Classification.from_logits(scores("logits"), labels), LINEAR)
    soft = cal.measure(cal.Classification.from_logits(scores("logits"), label_probs=q), LINEAR)
    assert cal.measure(both, LINEAR) == hard
    assert cal.measure(both.with_soft_labels(), LINEAR) == soft
    assert [note.code for note in cal.evaluate(both, "nll").warnings] == ["two-kinds-of-labels"]


# ------------------------------------------------------------------------------------------- judged
SAME = ["nll", "nll(clip=0.1)", "brier", "brier(per_class=true)", "rbs", "rbs(p=1)", "entropy", "upper_bound"]
OF_CLASS = ["ece", "ece(bins=7)", "ece(norm=max)", "corp_miscalibration", "corp_discrimination", "corp_uncertainty"]


def of_class_1(spec):
    return spec.replace(")", ",of=1)") if ")" in spec else f"{spec}(of=1)"


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_judged_answers_are_a_binary_problem(members, weighted):
    rng = np.random.default_rng(5)
    confidence, right = rng.random((members, N)), rng.integers(0, 2, N)
    w = rng.exponential(size=N) if weighted else None
    judged = cal.Judged.from_confidence(confidence, right, weights=w)
    binary = cal.Classification.from_probs(confidence[:, :, None], right, weights=w)
    same = SAME + ["expected_entropy", "mutual_information"] * (members > 1)
    assert cal.measure(judged, same) == pytest.approx(cal.measure(binary, same), abs=1e-12)
    of = cal.evaluate(binary, [of_class_1(spec) for spec in OF_CLASS], resamples=40).results[0].metrics
    top = cal.evaluate(judged, OF_CLASS, resamples=40).results[0].metrics
    for a, b in zip(top.values(), of.values(), strict=True):
        parts = [(e.value, e.low, e.high, e.null_low, e.null_high, e.p_value) for e in (a, b)]
        assert parts[0] == pytest.approx(parts[1], abs=1e-9, nan_ok=True)


def test_accuracy_of_judged_answers_is_the_share_that_was_right():
    judged = cal.Judged.from_confidence([0.1, 0.9, 0.4, 0.6], [True, True, False, True])
    assert cal.measure(judged, "accuracy")["accuracy"] == 0.75
