"""Cutoff, two-bin and utility errors: brute force, level under calibration, power against stated alternatives."""

import numpy as np
import pytest
import scoringrules

import calibrant as cal
from calibrant.calibration.bin_free import cutoff_error, ks, two_bin_error


def judged(seed, n, shift=0.0, decimals=None):
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 1.5, n)
    p = p if decimals is None else p.round(decimals)
    return cal.Judged.from_confidence(p, rng.random(n) < np.clip(p - shift, 0, 1))


def values(predictions, spec):
    return cal.evaluate(predictions, spec, curves=False, resamples=1000)[spec]


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("seed", range(5))
def test_cutoff_error_is_the_largest_over_all_intervals(seed, decimals):
    predictions = judged(seed, 60, 0.1, decimals)
    p, y = predictions.confidence[0], predictions.correct.astype(float)
    ends = np.unique(p)
    brute = max(
        abs(((y - p) * ((p >= low) & (p <= high))).mean()) for low in ends for high in ends if low <= high
    )  # fmt: skip
    assert values(predictions, "cutoff_error").value == pytest.approx(brute, abs=1e-12)
    acting = max(
        abs(((y - p) * ((p >= low) & (p <= high) & (p >= 0.6))).mean()) for low in ends for high in ends if low <= high
    )
    found = values(predictions, "utility_error(threshold=0.6)").value
    assert found == pytest.approx(acting, abs=1e-12)
    # the same from realised and predicted utilities of the better action
    act = p >= 0.6
    realised, predicted = act * (y - 0.6), act * (p - 0.6)
    order = np.argsort(predicted, kind="stable")
    sums = np.append(0.0, np.cumsum((realised - predicted)[order]))
    last = np.append(True, np.append(np.diff(predicted[order]) > 0, True))
    assert found == pytest.approx(np.ptp(sums[last]) / len(p), abs=1e-12)


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("seed", range(5))
def test_two_bin_error_is_its_integral(seed, decimals):
    predictions = judged(seed, 60, 0.1, decimals)
    p, y = predictions.confidence[0], predictions.correct.astype(float)
    q = (np.arange(200_000) + 0.5) / 200_000
    order = np.argsort(p)
    sums = np.append(0.0, np.cumsum((p - y)[order])) / len(p)
    below = sums[np.searchsorted(p[order], q, side="left")]
    integral = (below**2 + (sums[-1] - below) ** 2).mean()
    assert values(predictions, "two_bin_error").value == pytest.approx(integral, rel=1e-3)


def test_two_bin_error_is_truthful():
    """Its mean is Σp(1 − p)/N² for the true probabilities, and larger for any others."""
    rng = np.random.default_rng(0)
    p = np.sort(rng.beta(2, 2, 40))
    outcomes = (rng.random((40_000, 40)) < p).astype(float)
    one = np.ones(40)
    truth = two_bin_error(p, one, outcomes)
    assert truth.mean() == pytest.approx((p * (1 - p)).sum() / 40**2, abs=4 * truth.std() / 200)
    for other in (np.sort(np.clip(p + 0.1, 0, 1)), 0.5 + (p - 0.5) * 0.7, 0.5 + (p - 0.5) * 1.2):
        assert two_bin_error(other, one, outcomes).mean() > truth.mean()


def test_cutoff_error_lies_between_ks_and_twice_ks():
    rng = np.random.default_rng(1)
    p = np.sort(rng.random(50))
    outcomes = (rng.random((500, 50)) < p).astype(float)
    cutoff, one_sided = cutoff_error(p, np.ones(50), outcomes), ks(p, np.ones(50), outcomes)
    assert (cutoff >= one_sided - 1e-12).all()
    assert (cutoff <= 2 * one_sided + 1e-12).all()


@pytest.mark.parametrize("spec", ["cutoff_error", "two_bin_error", "utility_error"])
def test_level_under_calibration_and_power(spec):
    """The band is exceeded by about 2.5% of calibrated models, and by an overconfident one.

    `evidence/cutoff_and_two_bins.py` measures the level to 0.3%; here are 400 data sets, with three standard errors.
    """
    above = sum((e := values(judged(seed, 100), spec)).value > e.null_high for seed in range(400))
    assert 0.025 - 3 * 0.0078 <= above / 400 <= 0.025 + 3 * 0.0078
    power = np.mean([(e := values(judged(seed, 600, 0.12), spec)).value > e.null_high for seed in range(40)])
    assert power > 0.9


def test_interval_of_the_cutoff_error_covers():
    """A model that is overconfident by 0.1 everywhere has the cutoff error 0.1."""
    inside = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        p = rng.uniform(0.2, 0.95, 300)
        estimate = values(cal.Judged.from_confidence(p, rng.random(300) < p - 0.1), "cutoff_error")
        inside += estimate.low <= 0.1 <= estimate.high
    assert inside >= 93


# ------------------------------------------------------------------------------ ranked probability score
@pytest.mark.parametrize("members", [1, 3])
def test_ranked_probability_score_agrees_with_another_library(members):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(5), (members, 200))
    labels = rng.integers(0, 5, 200)
    ours = cal.score_rows(cal.Classification.from_probs(probs, labels), "rps")["rps"]
    theirs = scoringrules.rps_score(labels + 1, probs.mean(axis=0))
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_ranked_probability_score_of_two_classes_is_half_of_brier():
    rng = np.random.default_rng(0)
    p, labels = rng.random(100), rng.integers(0, 2, 100)
    for predictions in (
        cal.Classification.from_probs(p, labels),
        cal.Classification.from_logits(np.log(p / (1 - p)), labels),
    ):
        found = cal.measure(predictions, "rps,brier")
        assert found["rps"] == pytest.approx(found["brier"] / 2, abs=1e-12)


def test_ranked_probability_score_has_an_interval_that_covers():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        probs = rng.dirichlet(np.ones(4), 200)
        labels = np.array([rng.choice(4, p=row) for row in probs])
        estimate = cal.evaluate(cal.Classification.from_probs(probs, labels), "rps", curves=False)["rps"]
        below = np.cumsum(probs, axis=1)[:, :-1]
        truth = (below * (1 - below)).sum(axis=1).mean()  # conditional on the probabilities
        inside += estimate.low <= truth <= estimate.high
    assert inside >= 0.92 * 200
