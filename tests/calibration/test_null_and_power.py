"""p-values of models that are right are uniform, and what is called detectable is detected.

A p-value is (1 + redrawn values as large)/(1 + R), hence uniform on R + 1 steps if the redrawn labels have the law of
the labels. Seeds are fixed: the bounds are those that a right null exceeds in one of a thousand sets of seeds.
"""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chi2

import calibrant as cal
from calibrant.intervals import NONE
from calibrant.registry.state import sorted_state as runs_error

SIMULATIONS, ROWS, RESAMPLES = 150, 300, 99
BOUND = 1.95 / math.sqrt(SIMULATIONS) + 1 / (RESAMPLES + 1)
"""Of the largest distance from a uniform distribution function (Kolmogorov), and a step of the p-value."""


def judged(seed, n=ROWS, overconfident=0.0, shape=(1.5, 1.5), low=0.0):
    rng = np.random.default_rng(seed)
    p = low + (1.0 - low) * rng.beta(*shape, n)
    return cal.Judged.from_confidence(p, rng.random(n) < p - overconfident)


def classes(seed, n=ROWS, k=4, concentration=0.7, sharpened=1.0):
    """Labels drawn from p; what is said is p to a power."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, concentration), n)
    labels = (p.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(max=k - 1)
    said = p**sharpened
    return cal.Classification.from_probs(said / said.sum(axis=1, keepdims=True), labels)


@pytest.fixture
def null_only(monkeypatch):
    """Errors without bins make an interval of thirty cells too, which takes most of the time and is not asked for."""
    monkeypatch.setattr(runs_error, "_interval", lambda *_: NONE)
    monkeypatch.setattr(runs_error, "detectable", lambda *_: math.nan)


def p_values(spec, make, simulations=SIMULATIONS, **settings):
    """The p-values; of calibration errors those of the upper tail, of which the reported one is twice, at most 1."""
    out = []
    upper = cal.metrics()[spec.partition("(")[0]].is_calibration_error and spec != "uce"  # whose null has gaps too
    for seed in range(simulations):
        e = cal.evaluate(make(seed, **settings), spec, resamples=RESAMPLES, seed=1000 + seed).results[0].metrics[spec]
        out.append(e.p_value / 2.0 if upper else e.p_value)
    return np.sort(out)


def distance(p):
    """Kolmogorov's distance of p-values from a uniform law; those of an upper tail are compared up to one half."""
    steps = np.arange(len(p) + 1) / len(p)
    below = p < 0.5 if p.max() <= 0.5 else p < 1.0
    return max(np.where(below, p - steps[:-1], 0.0).max(), np.where(below, steps[1:] - p, 0.0).max())


OF_A_RIGHT_MODEL = {
    "ece": judged,
    "ks": judged,
    "smooth_ece": judged,
    "hosmer_lemeshow": judged,
    "slope": judged,
    "o_e": judged,
    "spiegelhalter_z": judged,
    "cwce": classes,
    "uce": classes,
}


@pytest.mark.parametrize("spec", OF_A_RIGHT_MODEL)
@pytest.mark.usefixtures("null_only")
def test_p_values_of_a_right_model_are_uniform(spec):
    p = p_values(spec, OF_A_RIGHT_MODEL[spec])
    assert p.min() > 0.0
    assert distance(p) < BOUND
    assert (p <= 0.05).mean() < 0.05 + 3.1 * math.sqrt(0.05 * 0.95 / SIMULATIONS)


@pytest.mark.parametrize("spec", ["ks", "hosmer_lemeshow", "o_e"])
@pytest.mark.usefixtures("null_only")
def test_a_wrong_model_would_fail_it(spec):
    """The bound is not so wide that nothing would: a model whose probabilities are 0.07 too high everywhere."""
    p = p_values(spec, judged, simulations=60, overconfident=0.07, low=0.1)
    assert distance(p) > BOUND
    assert (p <= 0.05).mean() > 0.3


@pytest.mark.parametrize("spec", ["cwce", "cwce(p=1)", "ace"])
def test_a_model_that_is_too_sharp_is_found_in_every_class(spec):
    p = p_values(spec, classes, simulations=25, sharpened=1.8, concentration=1.5)
    assert (p <= 0.05).mean() > 0.8


@pytest.mark.usefixtures("null_only")
def test_a_slope_is_found_to_be_off_on_both_sides():
    """Two-sided: too sharp and too blunt alike."""
    for power, side in ((1.7, -1.0), (0.55, 1.0)):
        rows = [classes(seed, k=2, sharpened=power) for seed in range(25)]
        found = [cal.evaluate(x, "slope(of=1)", resamples=RESAMPLES)["slope(of=1)"] for x in rows]
        assert np.mean([e.p_value <= 0.05 for e in found]) > 0.8
        assert all((e.value - 1.0) * side > 0.0 for e in found)


def test_classes_that_share_one_bin_have_gaps_that_sum_to_zero():
    """Then Σ gap² is 1.5v·χ²₂, v = p(1 − p)/n being the variance of each of three gaps; of independent ones v·χ²₃."""
    e = cal.evaluate(classes(0, 3000, k=3, concentration=300.0), "cwce(bins=2)", resamples=4000)["cwce(bins=2)"]
    v = 2.0 / 9.0 / 3000
    assert e.null_high**2 == pytest.approx(1.5 * v * chi2.ppf(0.975, 2), rel=0.06)
    assert abs(e.null_high**2 / (v * chi2.ppf(0.975, 3)) - 1.0) > 0.1


# ------------------------------------------------------------------------------------------- power
def detectable(spec, n, seed=0, resamples=400):
    return cal.evaluate(judged(seed, n, low=0.2), spec, resamples=resamples)[spec].detectable


@pytest.mark.parametrize("spec", ["ece", "tce", "ks"])
def test_what_can_be_detected_falls_like_one_over_root_n(spec):
    """Smaller with every larger sample; times √n about the same, for the bins that have rows are."""
    sizes = [200, 800, 3200, 12800]
    found = [float(np.mean([detectable(spec, n, seed) for seed in range(3)])) for n in sizes]
    assert all(a > 1.5 * b for a, b in pairwise(found))
    scaled = np.array(found) * np.sqrt(sizes)
    assert scaled.max() < 1.35 * scaled.min()
    slope = np.polyfit(np.log(sizes), np.log(found), 1)[0]
    assert -0.57 < slope < -0.43


@pytest.mark.parametrize(("spec", "simulations"), [("ece", 100), ("tce", 100), ("ks", 60)])
def test_a_model_that_is_overconfident_by_it_is_found_in_four_cases_of_five(spec, simulations):
    n = 500
    size = float(np.mean([detectable(spec, n, seed) for seed in range(5)]))
    assert 0.01 < size < 0.2
    found = []
    for seed in range(simulations):
        e = cal.evaluate(judged(100 + seed, n, size, low=0.2), spec, resamples=RESAMPLES, seed=seed)[spec]
        found.append(e.value > e.null_high)
    assert 0.60 < np.mean(found) < 0.95


def test_a_right_model_is_seldom_above_its_null_band():
    above = []
    for seed in range(150):
        e = cal.evaluate(judged(seed), "ece", resamples=RESAMPLES, seed=seed)["ece"]
        above.append((e.value > e.null_high, e.value < e.null_low))
    assert (np.mean(above, axis=0) < 0.025 + 3.1 * math.sqrt(0.025 * 0.975 / 150)).all()
