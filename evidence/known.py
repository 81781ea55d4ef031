"""Judged answers whose chance of being right is known: confidence c, right with probability a(c).

Confidences are 0.3 + 0.7·Beta(2.5, 1.2): most are high, as those of networks are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import calibrant as cal


@dataclass(frozen=True)
class Known:
    """A model and the law of its answers."""

    name: str
    chance: Callable[[np.ndarray], np.ndarray]

    def confidence(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """What it says."""
        return 0.3 + 0.7 * rng.beta(2.5, 1.2, n)

    def draw(self, n: int, rng: np.random.Generator) -> cal.Judged:
        """What it says, and what came true."""
        c = self.confidence(n, rng)
        return cal.Judged.from_confidence(c, rng.random(n) < self.chance(c))


def weighted_outcomes(confidence: np.ndarray, chance: np.ndarray) -> cal.Judged:
    """A population: every confidence with both outcomes, weighted by their chances."""
    outcome = np.repeat([True, False], len(confidence))
    return cal.Judged.from_confidence(np.tile(confidence, 2), outcome, weights=np.append(chance, 1 - chance))


KNOWN = (
    Known("perfect", lambda c: c),
    Known("mild", lambda c: c - 0.03),
    Known("bad", lambda c: c - 0.2 * c),
    Known("one bad bin", lambda c: np.where((c > 11 / 15) & (c <= 12 / 15), c - 0.3, c)),
    Known("two-signed", lambda c: c + 0.1 * np.sin(2 * np.pi * (c - 0.3) / 0.7)),
)
