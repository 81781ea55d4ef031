"""What must hold of the calibration errors: bounds between them, and what they may not depend on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant as cal

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, database=None)
ROUNDING = 1e-12


@st.composite
def problems(draw):
    """Any probabilities with any labels: bounds hold for nonsense, too."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, classes = draw(st.integers(1, 120)), draw(st.integers(2, 7))
    p = rng.dirichlet(np.full(classes, draw(st.sampled_from([0.1, 1.0, 20.0]))), n)
    weights = rng.exponential(size=n) if draw(st.booleans()) else None
    return cal.Classification.from_probs(p, rng.integers(0, classes, n), weights=weights)


@EXAMPLES
@given(problems(), st.integers(1, 40), st.sampled_from(["width", "mass"]))
def test_ladder(predictions, bins, binning):
    """√BS ≥ ECE_2 ≥ ECE_1 ≥ |mean confidence − accuracy|, MCE ≥ ECE_2, for any bins."""
    ece = [f"ece(bins={bins},binning={binning},norm={norm})" for norm in ("l1", "l2", "max")]
    specs = ["brier", *ece, "ece(bins=1)", "accuracy"]
    brier, l1, l2, largest, one, accuracy = (cal.measure(predictions, spec).popitem()[1] for spec in specs)
    confidence = np.average(predictions.scores[0].max(1), weights=predictions.weights)
    assert one == pytest.approx(abs(confidence - accuracy), abs=ROUNDING)
    assert brier >= l2**2 - ROUNDING
    assert largest >= l2 - ROUNDING
    assert l2 >= l1 - ROUNDING
    assert l1 >= one - ROUNDING


@EXAMPLES
@given(problems())
def test_ladder_of_the_root_brier_score(predictions):
    """C^(1/p − 1/2)·√BS falls in p from √(C·BS) to √BS; upper_bound is the Brier score itself."""
    specs = ["rbs(p=1)", "rbs(p=1.25)", "rbs(p=1.5)", "rbs", "upper_bound", "brier", "upper_bound(score=nll)", "nll"]
    *ladder, bound, brier, log_bound, nll = cal.measure(predictions, specs).values()
    assert ladder == sorted(ladder, reverse=True)
    c = predictions.classes
    factors = [c ** (1 / p - 0.5) for p in (1, 1.25, 1.5, 2)]
    assert ladder == pytest.approx([f * brier**0.5 for f in factors], abs=1e-9)
    assert (bound, log_bound) == (brier, nll)


@pytest.mark.parametrize("spec", ["ece", "ece(binning=mass)", "ece(norm=l2)", "nll", "brier", "entropy", "margin"])
@pytest.mark.parametrize("members", [1, 3])
def test_names_of_classes_do_not_matter(spec, members):
    rng = np.random.default_rng(0)
    z, labels = rng.normal(size=(members, 200, 6)), rng.integers(0, 6, 200)
    order = rng.permutation(6)
    permuted = cal.Classification.from_logits(z[:, :, order], np.argsort(order)[labels])
    assert cal.measure(permuted, spec) == pytest.approx(
        cal.measure(cal.Classification.from_logits(z, labels), spec), abs=ROUNDING
    )


def test_of_a_class_by_name_and_number():
    rng = np.random.default_rng(1)
    p, labels = rng.dirichlet([1, 1, 1], 300), rng.integers(0, 3, 300)
    predictions = cal.Classification.from_probs(p, labels, classes=["cat", "dog", "owl"])
    by_name, by_number = cal.measure(predictions, "ece(of=dog),ece(of=1)").values()
    binary = cal.Judged.from_confidence(p[:, 1], labels == 1)
    assert by_name == by_number == pytest.approx(cal.measure(binary, "ece")["ece"], abs=ROUNDING)


def test_binary_evaluation_prints_both_readings():
    rng = np.random.default_rng(2)
    p, labels = rng.random(100), rng.integers(0, 2, 100)
    one_number = cal.measure(cal.Classification.from_probs(p, labels), "report")
    assert {"ece", "ece(of=1)"} <= set(one_number)
    named = cal.measure(cal.Classification.from_probs(p, labels, classes=["well", "ill"]), "report")
    assert named["ece(of=ill)"] == one_number["ece(of=1)"]


@pytest.mark.parametrize(
    "names", [("0", "1"), ("1", "2"), ("-1", "1"), ("1", "0"), ("not ill", "is ill"), ("a", "top")]
)
def test_binary_evaluation_reads_the_second_class_whatever_its_name(names):
    """Names such as those of scikit-learn's estimators with classes 1 and 2 must not turn the problem round."""
    predictions = cal.Classification.from_probs([0.2, 0.7], [0, 1], classes=list(names))
    (of,) = (spec for spec in cal.measure(predictions) if spec.startswith("ece(of="))
    assert predictions.class_index(of.removeprefix("ece(of=").removesuffix(")")) == 1, of


def test_perfect_and_worst_predictions():
    right, wrong = (cal.Judged.from_confidence(np.ones(20), np.full(20, y)) for y in (1, 0))
    assert cal.measure(right, "ece,ece(norm=l2),ece(norm=max)") == dict.fromkeys(
        ["ece", "ece(norm=l2)", "ece(norm=max)"], 0.0
    )
    assert set(cal.measure(wrong, "ece,ece(norm=l2),ece(norm=max)").values()) == {1.0}


def test_a_class_that_does_not_exist_is_an_error_of_judged_answers_too():
    with pytest.raises(cal.CalibrantError):
        cal.measure(cal.Judged.from_confidence([0.5, 0.6], [1, 0]), "ece(of=cat)")
    with pytest.raises(cal.CalibrantError, match="class"):
        cal.measure(cal.Classification.from_probs([0.5, 0.6], [1, 0]), "ece(of=cat)")
