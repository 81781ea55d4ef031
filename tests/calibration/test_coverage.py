"""The interval of a calibration error covers where a bootstrap cannot, and the null band is what it says."""

import numpy as np
import pytest
from scipy import special

import calibrant as cal
from calibrant.intervals import NONE
from calibrant.registry.state import (
    binned_state as binned_error,
)
from calibrant.registry.state import (
    classwise_state as classwise,
)
from calibrant.registry.state import (
    sorted_state as runs_error,
)

ROWS, SIMULATIONS = 500, 120
CHANCES = {
    "perfect": lambda c: c,
    "mild": lambda c: c - 0.03,
    "bad": lambda c: 0.8 * c,
    "one bad bin": lambda c: np.where((c > 11 / 15) & (c <= 12 / 15), c - 0.3, c),
    "two-signed": lambda c: c + 0.1 * np.sin(2 * np.pi * (c - 0.3) / 0.7),
}


def draw(rng, n, sharpening):
    """Three classes; labels from softmax(z), predictions softmax(sharpening·z): 1 is a perfect model."""
    z = 1.5 * rng.normal(size=(n, 3))
    p = special.softmax(z, axis=1)
    labels = (p.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, 2)
    return special.softmax(sharpening * z, axis=1), labels, p


def population_error(sharpening, norm):
    """The binned error with frequencies replaced by the true probabilities, over a million rows."""
    q, _, p = draw(np.random.default_rng(0), 1_000_000, sharpening)
    k = np.arange(len(q)), q.argmax(1)
    bins = np.ceil(q[k] * 15).astype(int)
    share = np.bincount(bins, minlength=16) / len(q)
    gap = np.bincount(bins, p[k] - q[k], minlength=16) / len(q)
    return np.abs(gap).sum() if norm == "l1" else np.sqrt((gap[share > 0] ** 2 / share[share > 0]).sum())


def simulate(spec, sharpening, simulations=SIMULATIONS, resamples=200):
    for k in range(simulations):
        q, labels, _ = draw(np.random.default_rng([1, k]), ROWS, sharpening)
        yield cal.evaluate(cal.Classification.from_probs(q, labels), spec, resamples=resamples, seed=k)[spec]


@pytest.mark.parametrize(("sharpening", "name"), [(1.0, "perfect"), (3.0, "bad")])
def test_interval_covers_the_population_error(sharpening, name):
    truth = 0.0 if name == "perfect" else population_error(sharpening, "l1")
    assert truth == 0.0 or truth > 0.1
    inside = [e.low <= truth <= e.high for e in simulate("ece", sharpening)]
    assert np.mean(inside) >= 0.88


def test_interval_of_the_l2_error_covers():
    truth = population_error(3.0, "l2")
    inside = [e.low <= truth <= e.high for e in simulate("ece(norm=l2)", 3.0, simulations=250)]
    assert np.mean(inside) >= 0.88


def test_null_band_contains_a_perfect_model():
    """About 95 % of the time; its p-value is below 5 % where it lies above, about 2.5 % of the time."""
    estimates = list(simulate("ece(norm=max)", 1.0, simulations=400))
    inside = [e.null_low <= e.value <= e.null_high for e in estimates]
    assert 0.92 <= np.mean(inside) <= 0.98
    rejected = [e.p_value <= 0.05 for e in estimates]
    assert 0.005 <= np.mean(rejected) <= 0.05
    assert sum((e.value > e.null_high) != low for e, low in zip(estimates, rejected, strict=True)) <= 8  # ties


def test_null_band_of_the_default_ece_contains_a_perfect_model():
    estimates = list(simulate("ece", 1.0, simulations=150))
    assert 0.89 <= np.mean([e.null_low <= e.value <= e.null_high for e in estimates]) <= 0.99


def test_null_band_leaves_out_a_bad_model():
    estimates = list(simulate("ece", 3.0, simulations=5, resamples=999))
    assert all(e.value > e.null_high and e.p_value == pytest.approx(2 / 1000) for e in estimates)
    assert all(e.low > 0 for e in estimates)


def test_the_plug_in_is_biased_upwards_and_the_null_band_shows_it():
    """A perfect model at n = 500 has an ECE well above 0; the middle of the band is its mean."""
    estimates = list(simulate("ece", 1.0, simulations=60))
    centre = np.mean([(e.null_low + e.null_high) / 2 for e in estimates])
    assert np.mean([e.value for e in estimates]) == pytest.approx(centre, rel=0.1)
    assert centre > 0.03


def test_null_band_of_very_many_rows_takes_the_normal_limit():
    """Above 2^18 rows; both ways agree where they meet."""
    rng = np.random.default_rng(2)
    confidence = rng.beta(5, 2, size=(1 << 18) + 2)
    right = rng.random(confidence.size) < confidence
    below, above = (
        cal.evaluate(cal.Judged.from_confidence(confidence[:n], right[:n]), "ece", resamples=200)["ece"]
        for n in (1 << 18, (1 << 18) + 2)
    )
    assert (above.null_low, above.null_high) == pytest.approx((below.null_low, below.null_high), rel=0.15)


@pytest.mark.parametrize("spec", ["ece", "ece(norm=l2)", "ece(binning=mass)"])
def test_level_widens_the_interval(spec):
    q, labels, _ = draw(np.random.default_rng(3), ROWS, 2.0)
    predictions = cal.Classification.from_probs(q, labels)
    ends = [cal.evaluate(predictions, spec, level=level)[spec] for level in (0.5, 0.9, 0.99)]
    assert ends[0].low > ends[1].low > ends[2].low
    assert ends[0].high < ends[1].high < ends[2].high
    assert all(e.low <= e.value <= e.high for e in ends[1:])


def binned_truths(chance):
    """ECE and TCE of the population: a million confidences, each right with its chance."""
    c = 0.3 + 0.7 * np.random.default_rng(0).beta(2.5, 1.2, 1_000_000)
    bins = np.ceil(c * 15).astype(int)
    share = np.bincount(bins, minlength=16) / len(c)
    gap = np.bincount(bins, chance(c) - c, minlength=16) / len(c)
    return {"ece": np.abs(gap).sum(), "tce": np.sqrt((gap[share > 0] ** 2 / share[share > 0]).sum())}


@pytest.mark.parametrize("name", CHANCES)
def test_intervals_cover_for_every_shape_of_gaps(name):
    """A percentile bootstrap of the same rows fails for each: 0 % where perfect, else at most 80 % of one error."""
    chance, truths = CHANCES[name], binned_truths(CHANCES[name])
    rng, inside = np.random.default_rng(11), {"ece": [], "tce": []}
    for k in range(80):
        c = 0.3 + 0.7 * rng.beta(2.5, 1.2, ROWS)
        judged = cal.Judged.from_confidence(c, rng.random(ROWS) < chance(c))
        result = cal.evaluate(judged, ["ece", "tce"], resamples=200, seed=k)
        for spec, truth in truths.items():
            inside[spec].append(result[spec].low <= truth <= result[spec].high)
    assert all(np.mean(hits) >= 0.87 for hits in inside.values())


@pytest.mark.parametrize("spec", ["ks", "cwce", "smooth_ece"])
def test_a_perfect_model_is_seldom_rejected(spec, monkeypatch):
    """By its null band in about 2.5 %, by its p-value in about 5 %; intervals are left out, for they take long."""
    for module, name, answer in (
        (runs_error, "_interval", NONE),
        (runs_error, "detectable", 0.0),
        (binned_error, "detectable", 0.0),
        (classwise, "union_of_inversions", NONE),
    ):
        monkeypatch.setattr(module, name, lambda *_, answer=answer, **__: answer)
    estimates = list(simulate(spec, 1.0, simulations=150))
    assert 0.0 < np.mean([e.value > e.null_high for e in estimates]) <= 0.07
    assert 0.0 < np.mean([e.p_value <= 0.05 for e in estimates]) <= 0.07
