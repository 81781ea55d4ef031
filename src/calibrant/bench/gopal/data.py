"""The simulated data: x ~ N(0, 1), y ~ N((x − 1)², ½), without the rows whose x lies in [−1.5, 0].

½ is the variance. Test rows in distribution come by the same process as training rows, with the removal; rows out of
distribution are those whose x lies in the removed region. All of them are functions of the seed.

Reference: Gopal (2021), section 4.1 and appendix F.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LOW, HIGH = -1.5, 0.0
"""The region that training never sees."""
VARIANCE = 0.5
TRAIN, IN, OUT = "train", "in", "out"
PURPOSES = (TRAIN, IN, OUT)
ALONG = "along"
"""What predictions along the grid are called: they are there to be drawn."""
GRID = np.linspace(-3.0, 3.0, 301)
"""Where functions are drawn."""


@dataclass(frozen=True)
class Rows:
    """x and y, (n,) each."""

    x: np.ndarray
    y: np.ndarray


def truth(x: np.ndarray) -> np.ndarray:
    """The mean of y at x: (x − 1)²."""
    return (x - 1.0) ** 2


def removed(x: np.ndarray) -> np.ndarray:
    """Whether x lies in the region that training never sees."""
    return (x >= LOW) & (x <= HIGH)


def draw(seed: int, purpose: str, n: int) -> Rows:
    """n rows to train on ("train"), to check on ("in"), or of the removed region ("out")."""
    rng = np.random.default_rng([seed, PURPOSES.index(purpose)])
    x = np.empty(0)
    while len(x) < n:
        drawn = rng.normal(size=2 * n)
        x = np.concatenate([x, drawn[removed(drawn) == (purpose == OUT)]])
    x = x[:n]
    return Rows(x, truth(x) + np.sqrt(VARIANCE) * rng.normal(size=n))
