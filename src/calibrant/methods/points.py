"""Posteriors of separate points: networks that were trained or kept, each a member (vanilla, ensembles, snapshots)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from calibrant.errors import FileError
from calibrant.methods.posterior import Kept, Posterior
from calibrant.networks.stack import State


class Points(Posterior):
    """As many members as there are networks."""

    kind: ClassVar[str] = "points"

    def __init__(self, states: list[State], **known: Any) -> None:
        super().__init__(**known)
        if not states:
            raise FileError("posterior", expected="at least one network", came="there is none", do="train it again")
        self.states = states

    def tensors(self, k: int) -> State:
        """The k-th network."""
        return self.states[k]

    @property
    def most(self) -> int:
        """As many as there are networks."""
        return len(self.states)

    def kept(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All of them."""
        return Kept({f"member{k}": state for k, state in enumerate(self.states)}).flat(), {}

    @classmethod
    def of_kept(cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **known: Any) -> Points:
        """Networks by their numbers."""
        return cls(Kept.of(tensors).numbered("member"), **known)
