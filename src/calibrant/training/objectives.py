"""Objectives: what a training step minimises, one loss per network.

The usual objective is the mean −log p of the selected rows. Others add terms with weights that change over training, or
keep tensors of their own. A step may be captured as a CUDA graph, so that whatever changes is a tensor written in
place: `scalars` are set before each step from `scalar_values`, and `tensors` belong to the objective and to
checkpoints. A step must not read a value back (`.item()`), nor select by a mask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from calibrant.networks.stack import State
from calibrant.training.likelihoods import Likelihood, Scale


@dataclass(frozen=True)
class Step:
    """What a loss may depend on: outputs (K, n, O), rows x and y (K, n), the scale of y, the parameters of the networks
    by name (K, …), the current scalars (), and the tensors of the objective."""

    outputs: Tensor
    x: Tensor
    y: Tensor
    scale: Scale
    parameters: State
    scalars: Mapping[str, Tensor]
    tensors: State
    likelihood: Likelihood

    @property
    def nll(self) -> Tensor:
        """The mean −log p of each network, (K,)."""
        return self.likelihood.nll(self.outputs, self.y, self.scale).mean(1)


@dataclass(frozen=True)
class Look:
    """What `after_epoch` may look at: the number of networks, and their mean losses on the validation rows."""

    networks: int
    validate: Callable[[], list[float]]


class Objective(ABC):
    """Base class. A subclass needs `loss`, and names its scalars."""

    scalars: ClassVar[tuple[str, ...]] = ()
    """Names of numbers that change from step to step, such as the weight of a KL term."""

    @abstractmethod
    def loss(self, step: Step) -> Tensor:
        """The loss of each network, (K,)."""

    def scalar_values(self, t: float, epochs: int) -> Mapping[str, float]:
        """The scalars after the fraction t of `epochs` epochs."""
        return {}

    def tensors(self, networks: int, dtype: torch.dtype) -> State:
        """The initial tensors of the objective, networks first; changed in place, and stored in checkpoints."""
        return {}

    def after_epoch(self, look: Look, epoch: int, tensors: State) -> None:  # noqa: B027 — optional
        """Called at the end of an epoch, counted from 0; may change the tensors in place."""

    def content(self) -> Any:
        """What identifies the objective in checkpoints; its settings, if it has any."""
        return [type(self).__name__, self.scalars]


class NegativeLogLikelihood(Objective):
    """The mean −log p of the rows: what every method minimises unless it says otherwise."""

    def loss(self, step: Step) -> Tensor:
        """The mean −log p of each network, (K,)."""
        return step.nll
