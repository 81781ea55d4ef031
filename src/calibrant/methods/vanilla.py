"""One network, trained once; and the conditional Gaussian, which is that for numbers.

Reference: Lakshminarayanan et al. (2017), NeurIPS 30: 6402-6413, for a Gaussian with mean and variance of x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calibrant.methods.base import Method, Trained
from calibrant.methods.points import Points


@dataclass(frozen=True)
class Vanilla(Method):
    """A single network: no uncertainty about its weights. For numbers it is the conditional Gaussian."""

    name: ClassVar[str] = "vanilla"
    reference: ClassVar[str] = "Lakshminarayanan et al. (2017)"

    def posterior(self, trained: Trained) -> Points:
        """The network."""
        return Points(trained.states, **trained.known)
