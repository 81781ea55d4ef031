"""The facts beside each metric: none is missing, and the range holds what the metric gives."""

import math

import numpy as np
import pytest

import calibrant as cal

METRICS = cal.metrics()
NEEDS = {"labels", "hard_labels", "members", "logits", "binary", "mean", "density", "distribution"}


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_says_what_it_is(name):
    metric = METRICS[name]
    assert metric.name == name
    assert name.islower()
    assert name.isidentifier()
    assert len(metric.title) > 3
    assert len(metric.definition) > 20
    assert metric.definition.endswith(".")
    assert any(part.strip("(),;:.").isdigit() for part in metric.reference.split()), "a year is missing"
    assert metric.direction in {"lower", "higher", "none"}
    assert metric.cost in {"linear", "sort", "quadratic"}
    assert metric.merge in {"exact", "rows", "sketch", "no"}
    assert metric.needs <= NEEDS
    assert metric.tasks <= {"classification", "judged", "regression", "detection"}
    assert metric.limits[0] < metric.limits[1]
    assert metric.interval
    assert all(option.help and option.allowed() for option in metric.options)
    assert len({option.name for option in metric.options}) == len(metric.options)


@pytest.mark.parametrize("name", METRICS)
def test_defaults_are_allowed_by_their_own_options(name):
    for option in METRICS[name].options:
        text = str(option.default).lower() if isinstance(option.default, bool) else str(option.default)
        assert option.parse(text, name) == option.default


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("spread", [0.3, 3.0, 30.0])
def test_the_range_contains_values_and_intervals(name, spread):
    """Members, two classes, logits: everything applies; spread 30 is near certainty, mostly wrong."""
    rng = np.random.default_rng(0)
    for seed in range(5):
        z = spread * np.random.default_rng(seed).normal(size=(3, 50, 2))
        predictions = cal.Classification.from_logits(z, rng.integers(0, 2, 50))
        if METRICS[name].tasks == {"regression"}:
            predictions = cal.Regression.from_gaussian(z[..., 0], np.exp(z[..., 1] / 10), rng.normal(size=50))
        if METRICS[name].tasks == {"detection"}:
            predictions = cal.Detection.from_scores(z[0, :20, 0], z[0, 20:, 0])
        spec = f"{name}(k=1)" if "k" in {option.name for option in METRICS[name].options} else name
        estimate = cal.evaluate(predictions, spec, resamples=40)[spec]
        low, high = METRICS[name].limits
        assert low <= estimate.value <= high
        if math.isfinite(estimate.low):
            assert low <= estimate.low <= estimate.high <= high


def test_names_of_the_contract_are_there():
    """Those that this part of the program has reached; the others join them."""
    names = """accuracy top_k nll brier rbs entropy expected_entropy mutual_information variation_ratio roc_auc
    average_precision ece mce tce sweep_ece kde_tce ks mmce smooth_ece cwce sce ace tace uce slope intercept
    spiegelhalter_z o_e ici hosmer_lemeshow aurc e_aurc aac avu_auc misclassification_auroc misclassification_aupr
    brier_reliability brier_resolution brier_uncertainty brier_within
    auroc aupr_in aupr_out detection_accuracy fpr95 wasserstein"""
    assert set(names.split()) <= set(METRICS)


@pytest.mark.parametrize(
    ("missing", "predictions"),
    [
        ("it needs labels", cal.Classification.from_probs([0.2, 0.7])),
        ("it needs hard labels", cal.Classification.from_probs([0.2, 0.7], label_probs=[[0.5, 0.5], [0.1, 0.9]])),
        ("it needs more than one member", cal.Classification.from_probs([0.2, 0.7], [0, 1])),
        ("it needs logits", cal.Classification.from_probs([0.2, 0.7], [0, 1])),
        ("it needs two classes", cal.Classification.from_probs(np.full((4, 3), 1 / 3), [0, 1, 2, 0])),
        ("k = 5 is not below the number of classes", cal.Classification.from_probs([0.2, 0.7], [0, 1])),
        ("it is not defined for judged predictions", cal.Judged.from_confidence([0.2, 0.7], [0, 1])),
    ],
)
def test_what_cannot_be_given_is_skipped_with_its_reason(missing, predictions):
    result = cal.evaluate(predictions, "report", resamples=40).results[0]
    assert missing in map(str, result.skipped.values())
    assert not set(result.skipped) & set(result.metrics)
    names = {spec.partition("(")[0] for spec in (*result.skipped, *result.metrics)}
    assert names == {name for name, m in METRICS.items() if m.in_report and m.tasks & {"classification", "judged"}}


def test_asking_only_for_what_cannot_be_given_is_an_error():
    with pytest.raises(cal.CalibrantError, match=r"got nll, brier \(it needs labels\).*see `calibrant metrics`"):
        cal.evaluate(cal.Classification.from_probs([0.2, 0.7]), "nll,brier")


def test_measure_refuses_what_it_cannot_give():
    """No dictionary with a key less than was asked for."""
    with pytest.raises(cal.CalibrantError, match=r"roc_auc.*two classes"):
        cal.measure(cal.Classification.from_probs(np.full((4, 3), 1 / 3), [0, 1, 2, 0]), "nll,roc_auc")
