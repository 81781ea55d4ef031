"""Weights are sampling weights: what they must leave alone, and what they must equal."""

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal

N = 150
WITHOUT = ("kde_tce", "ace", "tace", "hosmer_lemeshow", "log_e_value", "ce", "skce", "two_bin_error")
"""Metrics that have no weighted form, and say so."""
METRICS = [
    name
    for name, m in cal.metrics().items()
    if "classification" in m.tasks and name not in ("top_k", "top_k_ece", "energy", *WITHOUT)
]
SPECS = [*METRICS, "energy", "top_k(k=1)", "top_k_ece(k=1)", "ece(binning=mass)", "ece(norm=l2)", "ece(of=1)",
         "nll(clip=0.2)", "brier_reliability(by=predicted_class)"]  # fmt: skip
PARTS = ("value", "low", "high", "null_low", "null_high", "p_value")
COUNTS_ROWS = ("spiegelhalter_z", "aurc", "e_aurc")
"""A row of weight two is not two rows: a z-score knows how many there are, and AURC counts them off one by one."""


def binary(rows=slice(None), repeat=None, weights=None, columns=None):
    """Two members, two classes, tied scores: every metric applies."""
    rng = np.random.default_rng(0)
    z = np.round(rng.normal(size=(2, N, 2)), 1)
    labels = rng.integers(0, 2, N)
    pick = np.arange(N)[rows] if repeat is None else np.repeat(np.arange(N), repeat)
    return cal.Classification.from_logits(z[:, pick], labels[pick], weights=weights, columns=columns)


def estimates(predictions, specs=SPECS, **settings):
    return evaluate_with(predictions, specs, resamples=60, **settings).results[0].metrics


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(1).exponential(size=N)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec not in COUNTS_ROWS])
def test_integer_weights_are_repeated_rows(spec):
    """Of the value; an interval knows that one row seen three times is not three rows."""
    w = np.random.default_rng(2).integers(0, 4, N)
    weighted = cal.measure(binary(weights=w), [spec])
    assert weighted == pytest.approx(cal.measure(binary(repeat=w), [spec]), abs=1e-9)


@pytest.mark.parametrize("spec", SPECS)
def test_rows_without_weight_change_no_value(spec, weights):
    without = np.arange(N) % 3 == 0
    measured = cal.measure(binary(weights=np.where(without, 0.0, weights)), [spec])
    left_out = cal.measure(binary(rows=~without, weights=weights[~without]), [spec])
    assert measured == pytest.approx(left_out, abs=1e-9)


@pytest.mark.parametrize("spec", ["accuracy", "nll", "brier", "ece", "ece(norm=l2)", "entropy"])
def test_rows_without_weight_change_no_interval(spec, weights):
    """A row that does not count says nothing about the spread either, however many there are."""
    without = np.arange(N) % 10 > 0
    padded = estimates(binary(weights=np.where(without, 0.0, weights)), [spec])[spec]
    plain = estimates(binary(rows=~without, weights=weights[~without]), [spec])[spec]
    assert (padded.low, padded.high) == pytest.approx((plain.low, plain.high), rel=1e-6)


@pytest.mark.parametrize("scale", [3.0, 1e-6, 1e-12, 1e9])
def test_the_unit_of_weights_does_not_matter(scale, weights):
    """Weights that sum to one, or to the population: values, intervals and null bands are the same."""
    plain, scaled = (estimates(binary(weights=w)) for w in (weights, weights * scale))
    for spec, estimate in plain.items():
        for part in PARTS:
            got, expected = getattr(scaled[spec], part), getattr(estimate, part)
            near = 2e-3 if spec == "smooth_ece" else 1e-6  # its redrawn values are found within 1e-4
            assert got == pytest.approx(expected, rel=near, abs=1e-9, nan_ok=True), (spec, part)


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_equal_weights_are_no_weights(weight):
    """Some intervals differ in kind: DeLong or resampled, model-based or robust, there or not."""
    differ = ("roc_auc", "misclassification_auroc", "slope", "intercept", "cwce", "sce")
    plain, equal = estimates(binary()), estimates(binary(weights=np.full(N, weight)))
    for spec, estimate in plain.items():
        for part in ("value",) if spec in differ else PARTS:
            got, expected = getattr(equal[spec], part), getattr(estimate, part)
            near = 2e-3 if spec == "smooth_ece" else 1e-9
            assert got == pytest.approx(expected, rel=near, abs=1e-9, nan_ok=True), (spec, part)


@pytest.mark.parametrize("scale", [0.1, 3.0])
@pytest.mark.parametrize("spec", ["accuracy", "nll", "brier", "ece", "ece(norm=l2)"])
def test_the_unit_of_weights_does_not_matter_with_units(spec, scale, weights):
    w = weights / weights.max()
    predictions = (binary(weights=x, columns={"unit": np.arange(N) // 5}) for x in (w, w * scale))
    plain, scaled = (estimates(p, [spec], units="unit")[spec] for p in predictions)
    assert (scaled.low, scaled.high) == pytest.approx((plain.low, plain.high), rel=1e-6)


@pytest.mark.parametrize("spec", WITHOUT)
def test_what_has_no_weighted_form_says_so(spec, weights):
    with pytest.raises(cal.CalibrantError, match="no weighted form"):
        cal.measure(binary(weights=weights), [spec])


def test_effective_number_of_rows_is_reported(weights):
    (described,) = cal.evaluate(binary(weights=weights), "nll").inputs
    assert described["n"] == N
    assert described["n_eff"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


def test_a_group_without_weight_is_undefined():
    group = np.arange(N) % 2
    predictions = binary(weights=group.astype(float), columns={"group": group})
    first, second = cal.evaluate(predictions, SPECS, by="group", resamples=60).results[0].groups
    assert all(np.isnan(estimate.value) for spec, estimate in first.metrics.items())
    assert np.isfinite(second.metrics["nll"].value)
