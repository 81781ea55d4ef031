"""What the model expects of a statistic: replicated values, or the law that they are drawn from."""

from __future__ import annotations

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

    error: by how much a probability may be off (0 where the law is exact to rounding).
    """

    observed: float
    values: np.ndarray
    probability: np.ndarray
    error: float = 0.0
    method: str = "exact"


@dataclass(frozen=True)
class Mixture:
    """Equal parts of nearly normal laws with exact mean, standard deviation and skewness (M,) each.

    The distribution function of a part is Φ(z) − φ(z)·skewness·(z² − 1)/6, the first Edgeworth correction.
    """

    observed: float
    mean: np.ndarray
    sd: np.ndarray
    skewness: np.ndarray
    method: str = "moments"


Law = Replicates | Lattice | Mixture
