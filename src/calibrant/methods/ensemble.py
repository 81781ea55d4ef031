"""Deep ensembles: networks that differ in their initial weights and in the order of their rows.

Reference: Lakshminarayanan et al. (2017), NeurIPS 30: 6402-6413.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from calibrant.methods.base import Method, Trained
from calibrant.methods.points import Points
from calibrant.training.settings import counted


@dataclass(frozen=True)
class DeepEnsemble(Method):
    """So many networks, trained as one computation."""

    members: int = 10
    name: ClassVar[str] = "deep_ensemble"
    reference: ClassVar[str] = "Lakshminarayanan et al. (2017)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", counted("members", self.members))

    @property
    def networks(self) -> int:
        """As many as members."""
        return self.members

    def posterior(self, trained: Trained) -> Points:
        """The networks."""
        return Points(trained.states, **trained.known)
