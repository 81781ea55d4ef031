"""The interval of a binned error covers where all gaps have about the size of their noise."""

import numpy as np
import pytest

import calibrant as cal


def test_interval_covers_even_gaps_of_both_signs():
    """Five confidences, off by 0.05 to either side: noise makes these even gaps look uneven, and their sum larger."""
    rng, said = np.random.default_rng(3), np.array([0.5, 0.6, 0.7, 0.8, 0.9])
    chance, hits = said + 0.05 * np.array([1, -1, 1, -1, 1]), 0
    for seed in range(300):
        k = rng.integers(0, 5, 600)
        predictions = cal.Judged.from_confidence(said[k], rng.random(600) < chance[k])
        estimate = cal.evaluate(predictions, ["ece"], seed=seed, resamples=200, curves=False)["ece"]
        hits += estimate.low <= 0.05 <= estimate.high
    assert hits / 300 == pytest.approx(0.95, abs=3 * np.sqrt(0.95 * 0.05 / 300))
