"""Models whose truth is known: labels are drawn from softmax(z), the model says softmax(T·z) or something bent.

The logits z have standard normal entries times `spread`, plus `lift`·|N(0, 1)| on one class, so that rows range from
undecided to certain. T > 1 is over-confident, T < 1 under-confident, T = 1 perfectly calibrated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

import calibrant as cal

CLASSES = 10


@dataclass(frozen=True)
class Model:
    """A stated model."""

    name: str
    spread: float = 2.0
    lift: float = 0.0
    temperature: float = 1.0
    classes: int = CLASSES

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Predicted probabilities (n, C) and labels (n,)."""
        z = self.logits(n, rng)
        return softmax(self.temperature * z, axis=1), draw_labels(softmax(z, axis=1), rng)

    def predictions(self, n: int, rng: np.random.Generator) -> cal.Classification:
        """The same, ready to be evaluated."""
        return cal.Classification.from_probs(*self.draw(n, rng))

    def logits(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Logits of the true class law."""
        z = self.spread * rng.standard_normal((n, self.classes))
        z[np.arange(n), rng.integers(0, self.classes, n)] += self.lift * np.abs(rng.standard_normal(n))
        return z


def draw_labels(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One label a row from its probabilities."""
    labels = (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)
    return labels.astype(np.int64)


MODELS = (
    Model("calibrated, accuracy 0.53"),
    Model("over-confident, accuracy 0.53", temperature=1.7),
    Model("under-confident, accuracy 0.53", temperature=0.6),
    Model("calibrated, accuracy 0.81", lift=10.0),
    Model("over-confident, accuracy 0.81", lift=10.0, temperature=1.5),
)
EXTREME = (
    Model("calibrated, accuracy 0.97", lift=60.0),
    Model("over-confident, accuracy 0.97", lift=60.0, temperature=1.5),
)
