"""How often the interval of a deep-ensemble equivalent holds the truth: fresh ensembles of k members are worth k."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

import calibrant as cal
from calibrant.comparison.cross_validation import curve_rows
from calibrant.comparison.ensemble_equivalent import equivalents, model_of, pool_curve, shares_of
from calibrant.comparison.split_temperatures import splits_of
from calibrant.results.comparison import Equivalent

POOL, FRESH, CLASSES = 50, 20, 4
DRAWS = 6
COUNTS = (1, 2, 3, 4, 5, 8, 10, 15, 20)
RESAMPLES = 400


@dataclass(frozen=True)
class Setting:
    """Logits of a member: what all members share, and noise of its own, in every row and class."""

    name: str
    n: int
    noise: float
    unequal: float = 0.0
    """Standard deviation of the logarithm of the members' noise: some are better than others in all rows."""


SETTINGS = {
    "few": Setting("500 rows", 500, 2.0),
    "many": Setting("2000 rows", 2000, 2.0),
    "unequal": Setting("2000 rows, members of unequal quality", 2000, 2.0, 0.05),
}


def world(setting: Setting, rng: np.random.Generator) -> tuple[cal.Classification, cal.Classification]:
    """A pool and fresh members of the same kind, on the same rows."""
    truth = 2.0 * rng.standard_normal((setting.n, CLASSES))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    shared = truth + 0.5 * rng.standard_normal(truth.shape)
    noise = setting.noise * np.exp(setting.unequal * rng.standard_normal((POOL + FRESH, 1, 1)))
    probs = softmax(shared + noise * rng.standard_normal((POOL + FRESH, *truth.shape)), axis=-1)
    pool, fresh = (cal.Classification.from_probs(part, labels) for part in (probs[:POOL], probs[POOL:]))
    return pool, fresh


def measured(setting: Setting, rng: np.random.Generator, seed: int) -> tuple[Equivalent, ...]:
    """The equivalents of the first k fresh members, each as if there were no others."""
    pool, fresh = world(setting, rng)
    splits = splits_of(pool.n, repeats=1, seed=seed)
    found = pool_curve(pool, splits, draws=DRAWS, seed=seed)
    rows = curve_rows(fresh, splits, np.arange(FRESH)[None]).rows
    parts = [(k, cal.Classification.from_probs(fresh.scores[:k], fresh.labels)) for k in COUNTS]
    models = [model_of(part, splits, rows=rows[k - 1]) for k, part in parts]
    return equivalents(models, *found, shares_of(pool), resamples=RESAMPLES, seed=seed)


def rows_of(key: str, repeats: int) -> list[str]:
    """Two lines of the table: the range of the values, and how often the interval holds k."""
    setting = SETTINGS[key]
    rng = np.random.default_rng([7, list(SETTINGS).index(key)])
    found = [measured(setting, rng, seed) for seed in range(repeats)]
    ranges, shares = [], []
    for j, k in enumerate(COUNTS):
        items = [each[j] for each in found]
        low, high = np.quantile([item.value for item in items], [0.05, 0.95])
        below = np.mean([item.censored == "below" for item in items])
        ranges.append(f"{low:.1f} to {high:.1f}" + (f" ({100 * below:.0f} % below)" if k == 1 else ""))
        shares.append(f"{100 * np.mean([item.low <= k <= item.high for item in items]):.1f}")
    lines = [f"| {setting.name}: 5 to 95 % | " + " | ".join(ranges) + " |"]
    lines.append("| interval holds k, % | " + " | ".join(shares) + " |")
    return [*_head(), *lines] if key == next(iter(SETTINGS)) else lines


def _head() -> list[str]:
    return ["| k | " + " | ".join(map(str, COUNTS)) + " |", "| --- |" + " ---: |" * len(COUNTS)]


if __name__ == "__main__":
    warnings.simplefilter("error")
    for each in SETTINGS:
        print("\n".join(rows_of(each, 200)), flush=True)
