"""Degenerate and extreme input gives defined values or says `undefined` or `infinite`; it never raises."""

import json
import math

import numpy as np
import pytest
from scipy import special

import calibrant as cal

Classification, Judged = cal.Classification, cal.Judged
UNIFORM = np.full((6, 3), 1 / 3)
CERTAIN = np.eye(3)[[0, 1, 2, 0, 1, 2]]
DEGENERATE = {
    "one row": Classification.from_probs([[0.2, 0.5, 0.3]], [1]),
    "one binary row": Classification.from_probs([0.7], [1]),
    "one row, members": Classification.from_probs([[[0.2, 0.8]], [[0.6, 0.4]]], [1]),
    "one class present": Classification.from_probs([0.1, 0.6, 0.8], [1, 1, 1]),
    "all right": Classification.from_probs(CERTAIN, [0, 1, 2, 0, 1, 2]),
    "all wrong": Classification.from_probs(CERTAIN, [1, 2, 0, 1, 2, 0]),
    "equal confidences": Classification.from_probs(UNIFORM, [0, 1, 2, 0, 1, 1]),
    "equal logits": Classification.from_logits(np.zeros((4, 2)), [0, 1, 1, 1]),
    "impossible labels": Classification.from_logits([[0.0, -np.inf], [1.0, 2.0]], [1, 0]),
    "impossible for all members": Classification.from_logits([[[0.0, -np.inf], [1.0, 2.0]]] * 2, [1, 0]),
    "no labels": Classification.from_probs(UNIFORM),
    "many impossible classes": Classification.from_logits(np.where(np.eye(60)[:5] > 0, 0.0, -np.inf), [1] * 5),
    "one answer": Judged.from_confidence([0.4], [1]),
    "certain answers": Judged.from_confidence([1.0, 1.0, 0.0], [1, 0, 0]),
    "one unit": Classification.from_probs([0.1, 0.6, 0.8], [0, 1, 1], columns={"unit": [7, 7, 7]}),
    "one weight": Classification.from_probs([0.1, 0.6, 0.8], [0, 1, 1], weights=[0.0, 1.0, 0.0]),
    "impossible but weightless": Classification.from_probs([0.0, 0.6, 0.8], [1, 1, 0], weights=[0.0, 1.0, 1.0]),
    "soft labels": Classification.from_probs(CERTAIN, label_probs=UNIFORM),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("metrics", [None, "all"])
def test_nothing_raises_and_everything_is_said(name, metrics):
    predictions = DEGENERATE[name]
    units = "unit" if "unit" in predictions.columns else None
    result = cal.evaluate(predictions, metrics, resamples=50, units=units)
    stored = json.loads(result.dumps())["results"][0]["metrics"]
    assert stored
    for spec, estimate in stored.items():
        status = estimate.get("status")
        assert (estimate["value"] is None) == (status in ("undefined", "infinite", "-infinite")), (spec, estimate)
        if estimate["value"] is None:
            assert "low" not in estimate or spec.startswith("ece"), (spec, estimate)


INF, NAN, LOG2, LOG3 = math.inf, math.nan, math.log(2), math.log(3)
HALF_SURE = (2 + 2 * special.expit(1) ** 2) / 2  # a row that is certain and wrong, and one at odds of e : 1
EXPECTED = [
    ("all right", {"accuracy": 1, "nll": 0, "brier": 0, "ece": 0, "entropy": 0, "margin": 1, "brier_reliability": 0}),
    ("all wrong", {"accuracy": 0, "nll": INF, "brier": 2, "ece": 1, "entropy": 0, "nll(clip=0.5)": LOG2}),
    ("equal confidences", {"nll": LOG3, "entropy": LOG3, "margin": 0, "brier": 2 / 3, "accuracy": 1 / 3, "ece": 0}),
    ("equal logits", {"roc_auc": 0.5, "average_precision": 0.75, "energy": -LOG2, "accuracy": 0.25, "ece": 0.25}),
    ("one class present", {"roc_auc": NAN, "average_precision": NAN, "brier_uncertainty": 0}),
    ("impossible labels", {"nll": INF, "brier": HALF_SURE, "accuracy": 0}),
    ("impossible for all members", {"nll": INF, "brier": HALF_SURE, "mutual_information": 0}),
    ("many impossible classes", {"nll": INF, "accuracy": 0.2, "entropy": 0, "brier": 1.6}),
    ("certain answers", {"accuracy": 1 / 3, "nll": INF, "brier": 2 / 3, "ece": 1 / 3}),
    ("one weight", {"accuracy": 1, "nll": -math.log(0.6), "ece": 0.4}),
    ("impossible but weightless", {"nll": -(math.log(0.6) + math.log(0.2)) / 2}),
    ("soft labels", {"nll": INF, "brier": 4 / 3, "accuracy": 1 / 3, "ece": 2 / 3}),
]


@pytest.mark.parametrize(("name", "expected"), EXPECTED, ids=lambda x: x if isinstance(x, str) else "")
def test_values_of_degenerate_input(name, expected):
    measured = cal.measure(DEGENERATE[name], list(expected))
    assert measured == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_an_impossible_label_is_infinite_in_json_and_finite_when_clipped():
    predictions = Classification.from_probs([[1.0, 0.0], [0.5, 0.5]], [1, 1])
    stored = cal.evaluate(predictions, "nll,nll(clip=1e-6)").to_json()["results"][0]["metrics"]
    assert stored["nll"] == {"value": None, "status": "infinite", "method": "none", "n": 2}
    clipped = stored["nll(clip=1e-06)"] if "nll(clip=1e-06)" in stored else stored["nll(clip=1e-6)"]
    assert clipped["value"] == pytest.approx((-math.log(1e-6) + math.log(2)) / 2)


def test_one_row_has_no_interval_of_a_mean():
    result = cal.evaluate(DEGENERATE["one row"], "nll,brier,accuracy")
    assert math.isnan(result["nll"].low)
    assert math.isnan(result["brier"].high)
    assert result["accuracy"].low < 1.0 == result["accuracy"].high  # Wilson's is defined from one row


def test_one_unit_has_no_interval():
    result = cal.evaluate(DEGENERATE["one unit"], "nll,brier,accuracy,ece", units="unit")
    assert all(math.isnan(result[spec].low) for spec in ("nll", "brier", "accuracy", "ece"))


# ---------------------------------------------------------------------------------------- extremes
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("classes", [3, 60])
def test_logits_of_ten_thousand(classes, members, dtype):
    rng = np.random.default_rng(0)
    z = rng.choice([-1e4, 0.0, 1e4], size=(members, 100, classes)).astype(dtype)
    labels = rng.integers(0, classes, 100)
    log_p = special.logsumexp(special.log_softmax(z.astype(np.float64), axis=2), axis=0) - math.log(members)
    p = np.exp(log_p)
    expected = {
        "nll": -log_p[np.arange(100), labels].mean(),
        "brier": ((p - np.eye(classes)[labels]) ** 2).sum(1).mean(),
        "entropy": special.entr(p).sum(1).mean(),
        "energy": -special.logsumexp(z.astype(np.float64), axis=2).mean(),
    }
    measured = cal.measure(Classification.from_logits(z, labels), list(expected))
    assert measured == pytest.approx(expected, rel=1e-9 if dtype is np.float64 else 2e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("classes", [2, 10, 60])
@pytest.mark.parametrize("offset", [0.0, 100.0, -3000.0, 2.0**20])
def test_logits_far_from_zero(offset, classes, members, dtype):
    """A common offset, exact in the given precision, changes nothing but the energy."""
    rng = np.random.default_rng(1)
    z = np.round(rng.normal(size=(members, 200, classes)) * 8) / 8  # eighths, so that adding is exact
    labels = rng.integers(0, classes, 200)
    specs = ["nll", "brier", "entropy", "ece", "margin", "ece(of=1)", "brier_reliability"]
    plain, moved = (
        cal.measure(Classification.from_logits((z + shift).astype(dtype), labels), specs) for shift in (0.0, offset)
    )
    assert moved == pytest.approx(plain, abs=1e-9 if dtype is np.float64 else 2e-6)


@pytest.mark.parametrize("classes", [3, 60])
@pytest.mark.parametrize("kind", ["logits", "log_probs", "probs"])
def test_ruled_out_classes(kind, classes):
    """−inf, or p = 0: the class might as well not be there."""
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(classes), 50)
    labels = rng.integers(0, classes, 50)
    wide = np.concatenate([p, np.zeros((50, 2))], axis=1)
    with np.errstate(divide="ignore"):
        given, plain = ((np.log(x) if kind != "probs" else x) for x in (wide, p))
    specs = ["accuracy", "nll", "brier", "entropy", "margin", "ece", "top_k(k=2)", "brier_reliability"]
    wider, narrower = (cal.measure(Classification.build(kind, x, labels), specs) for x in (given, plain))
    assert wider == pytest.approx(narrower, abs=1e-12)


@pytest.mark.parametrize("p", [1e-45, 1e-200, 1e-308, 1e-310, 5e-324])
def test_probabilities_close_to_zero_keep_their_logarithm(p):
    measured = cal.measure(Classification.from_probs([[1.0, p, 0.0]], [1]), "nll,brier")
    assert measured == pytest.approx({"nll": -math.log(p), "brier": 2.0})


def test_tiny_brier_scores_keep_their_digits():
    """A nearly certain model: Σp² − 2p + 1 must not cancel to nothing."""
    eps = 2.0**-30
    measured = cal.measure(Classification.from_probs([[1 - eps, eps]] * 3, [0, 0, 0]), "brier")
    assert measured["brier"] == pytest.approx(2 * eps**2, abs=1e-15)
