"""rows_needed: simulated tests on as many rows have the stated power."""

import numpy as np
import pytest

from calibrant.comparison import rows_needed
from calibrant.errors import UsageError


@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_power_of_accuracies(power):
    difference, discordance = 0.04, 0.2
    n = rows_needed(difference, discordance=discordance, power=power)
    rng = np.random.default_rng(0)
    chances = [(discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance]
    first, second, _ = rng.multinomial(n, chances, 20_000).T
    mean = (first - second) / n
    z = mean / np.sqrt(((first + second) / n - mean**2) / n)
    assert (np.abs(z) > 1.959964).mean() == pytest.approx(power, abs=0.015)


def test_power_of_scores_with_units():
    n = rows_needed(0.05, sd=0.6, rows_per_unit=4, correlation=0.5)
    units = n // 4
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(4000, units)) * 0.6 * np.sqrt(0.5)
    means = 0.05 + shared + rng.normal(size=(4000, units)) * 0.6 * np.sqrt(0.5 / 4)
    z = means.mean(axis=1) / (means.std(axis=1, ddof=1) / np.sqrt(units))
    assert (np.abs(z) > 1.959964).mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    "arguments",
    [
        {"difference": 0.0, "sd": 1.0},
        {"difference": 0.1},
        {"difference": 0.1, "sd": 1.0, "discordance": 0.2},
        {"difference": 0.1, "discordance": 0.05},
        {"difference": 0.1, "sd": -1.0},
        {"difference": 0.1, "sd": 1.0, "power": 1.0},
        {"difference": 0.1, "sd": 1.0, "correlation": 2.0},
    ],
)
def test_mistakes(arguments):
    with pytest.raises(UsageError):
        rows_needed(**arguments)
