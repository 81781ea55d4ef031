"""The simulated data: x ~ N(0, 1), y ~ N((x − 1)², ½), without the rows whose x lies in [−1.5, 0].

½ is the variance. In-distribution test rows are drawn like training rows, without the removed region;
out-of-distribution rows are drawn from it. All data are functions of the seed.

Reference: Gopal (2021), section 4.1 and appendix F.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LOW, HIGH = -1.5, 0.0
"""The region without training rows."""
VARIANCE = 0.5
TRAIN, IN, OUT = "train", "in", "out"
PURPOSES = (TRAIN, IN, OUT)
ALONG = "along"
"""The name of the predictions along the grid, which figures show."""
GRID = np.linspace(-3.0, 3.0, 301)
"""The x of functions in figures."""


@dataclass(frozen=True)
class Rows:
    """x and y, (n,) each."""

    x: np.ndarray
    y: np.ndarray


def truth(x: np.ndarray) -> np.ndarray:
    """The mean of y at x: (x − 1)²."""
    return (x - 1.0) ** 2


def removed(x: np.ndarray) -> np.ndarray:
    """Whether x lies in the region without training rows."""
    return (x >= LOW) & (x <= HIGH)


def draw(seed: int, purpose: str, n: int) -> Rows:
    """n rows for training ("train"), in-distribution checks ("in"), or out-of-distribution checks ("out")."""
    rng = np.random.default_rng([seed, PURPOSES.index(purpose)])
    x = np.empty(0)
    while len(x) < n:
        drawn = rng.normal(size=2 * n)
        x = np.concatenate([x, drawn[removed(drawn) == (purpose == OUT)]])
    x = x[:n]
    return Rows(x, truth(x) + np.sqrt(VARIANCE) * rng.normal(size=n))
