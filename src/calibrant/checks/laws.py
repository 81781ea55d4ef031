"""What the model expects of a statistic: replicated values, or the law that they are drawn from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Replicates:
    """Values (R,) of a statistic on replicated labels, in the order of their numbers, and the observed one."""

    observed: float
    values: np.ndarray


@dataclass(frozen=True)
class Lattice:
    """A discrete law: rising values (K,) with their probabilities, and the observed value, which may be among them.

    error: by how much a probability may be off (0 where the law is exact to rounding). members: mean and standard
    deviation (M,) of the law of each member, where they are known.
    """

    observed: float
    values: np.ndarray
    probability: np.ndarray
    error: float = 0.0
    method: str = "exact"
    members: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Mixture:
    """Equal parts of nearly normal laws with exact mean, standard deviation and skewness (M,) each.

    The distribution function of a part is Φ(z) − φ(z)·skewness·(z² − 1)/6, the first Edgeworth correction. What it
    leaves out is of the order of the skewness squared. least: a value that the statistic cannot fall below.
    """

    observed: float
    mean: np.ndarray
    sd: np.ndarray
    skewness: np.ndarray
    method: str = "moments"
    least: float = -math.inf

    @property
    def error(self) -> float:
        """About how much a probability may be off: few rows, or labels that are hardly in doubt, make it large.

        Of the sum of the squares of k normals it is at most this for every k, and half of it for k > 12.
        """
        return float(min(0.5, np.square(self.skewness).max(initial=0.0) / 25.0))


Law = Replicates | Lattice | Mixture
