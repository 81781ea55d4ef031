"""SWAG: a normal law of weights, from the mean, the variances and the last deviations of SGD's iterates.

θ = μ + (1/√2)(σ ⊙ z₁ + D z₂/√(K − 1)), z₁ and z₂ standard normal, D the last K deviations from the running mean; its
covariance is ½(diag σ² + DDᵀ/(K − 1)). Statistics of batch normalisation are computed anew for each draw.

Reference: Maddox et al. (2019), NeurIPS 32: 13153-13164.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from calibrant.errors import UsageError
from calibrant.methods.base import Method, Trained
from calibrant.methods.posterior import Kept, Posterior
from calibrant.methods.refreshing import refresh
from calibrant.networks.stack import State
from calibrant.training.schedules import LinearDecay, ThenSaw
from calibrant.training.seeds import stream
from calibrant.training.settings import Training, counted, device_of
from calibrant.training.task import Task
from calibrant.training.watching import Moments, Watcher

LEAST = 1e-30
"""Variances below it count as this."""


@dataclass(frozen=True)
class SWAG(Method):
    """`start` epochs of ordinary training, then a constant rate of `high` times the initial one, a network an epoch.

    start: 70 % of the epochs unless it is given.
    rank: how many deviations are kept. draws: members whose statistics of batches are computed at once; more can be had
    from `posterior.more(task, draws)`.
    """

    training: Training = Training(epochs=100, schedule=LinearDecay())  # noqa: RUF009 — frozen
    start: int | None = None
    high: float = 0.5
    rank: int = 20
    draws: int = 20
    refresh: bool = True
    name: ClassVar[str] = "swag"
    needs_all_epochs: ClassVar[bool] = True
    reference: ClassVar[str] = "Maddox et al. (2019)"

    def __post_init__(self) -> None:
        start = self.training.epochs * 7 // 10 if self.start is None else self.start
        for name, value, least in (("start", start, 0), ("rank", self.rank, 2), ("draws", self.draws, 1)):
            object.__setattr__(self, name, counted(f"swag: {name}", value, least))
        if self.first > self.training.epochs - 2:
            raise UsageError(
                "swag: start",
                expected="at least two epochs after it",
                came=f"start {self.start} of {self.training.epochs} epochs",
                do="train longer, or start earlier",
            )
        flat = ThenSaw(self.training.schedule.base, self.first, self.high, self.high, 0)
        object.__setattr__(self, "training", replace(self.training, schedule=flat))

    @property
    def first(self) -> int:
        """The first epoch that counts."""
        return int(self.start or 0)

    def watchers(self) -> list[Watcher]:
        """Moments of the weights after each epoch from `start` on."""
        return [Moments(range(self.first, self.training.epochs), self.rank)]

    def posterior(self, trained: Trained) -> SwagPosterior:
        """The normal law, and its first draws."""
        mean, variance, deviations = trained.watched[0][0]
        std = {name: value.clamp(min=LEAST).sqrt() for name, value in variance.items()}
        buffers = {name: value for name, value in trained.states[0].items() if name not in mean}
        made = SwagPosterior(mean, std, deviations, [buffers], shared=True, **trained.known)
        return made.more(trained.task, self.draws, trained.device) if self.refresh else made


class SwagPosterior(Posterior):
    """A normal law of weights. buffers: those of each draw whose statistics are known; shared: one serves all draws."""

    kind: ClassVar[str] = "swag"
    how_to_get_more: ClassVar[str] = "posterior = posterior.more(task, draws) has more"

    def __init__(
        self, mean: State, std: State, deviations: list[State], buffers: list[State], shared: bool, **known: Any
    ) -> None:
        super().__init__(**known)
        self.mean, self.std, self.deviations, self.buffers, self.shared = mean, std, deviations, buffers, shared

    def weights(self, k: int) -> State:
        """The weights of draw k."""
        generator = stream(self.seed, k, "swag")
        count = len(self.deviations)
        dtype = next(iter(self.mean.values())).dtype
        shares = torch.randn(count, generator=generator, dtype=dtype) / math.sqrt(2.0 * max(count - 1, 1))
        made: State = {}
        for name in sorted(self.mean):  # files keep no order of their own
            mean = self.mean[name]
            drawn = torch.randn(mean.shape, generator=generator, dtype=dtype) * self.std[name] / math.sqrt(2.0)
            wide = sum(share * each[name] for share, each in zip(shares, self.deviations, strict=True))
            made[name] = mean + drawn + wide
        return made

    def tensors(self, k: int) -> State:
        """The weights of draw k with their statistics."""
        return {**self.weights(k), **self.buffers[0 if self.shared else k]}

    @property
    def most(self) -> int | None:
        """As many as have statistics of batches; without batch normalisation as many as one likes."""
        return None if self.shared else len(self.buffers)

    def more(self, task: Task, draws: int, device: torch.device | str = "auto") -> SwagPosterior:
        """The same law with statistics of batches for so many draws, from the task's training rows."""
        if not self.template.normalised:
            return self
        states = [{**self.weights(k), **self.buffers[0]} for k in range(counted("draws", draws))]
        fresh = refresh(self.template, states, task, device_of(device))
        buffers = [{name: state[name] for name in self.buffers[0]} for state in fresh]
        known = {"recipe": self.recipe, "likelihood": self.likelihood, "seed": self.seed, "about": self.about}
        return SwagPosterior(
            self.mean, self.std, self.deviations, buffers, shared=False, template=self.template, **known
        )

    def kept(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Mean, standard deviations, deviations, and the statistics of draws."""
        groups = {"mean": self.mean, "std": self.std}
        groups |= {f"deviation{k}": each for k, each in enumerate(self.deviations)}
        groups |= {f"buffers{k}": each for k, each in enumerate(self.buffers)}
        return Kept(groups).flat(), {"shared": self.shared}

    @classmethod
    def of_kept(cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **known: Any) -> SwagPosterior:
        """As a file held it."""
        kept = Kept.of(tensors)
        mean, std = kept.groups["mean"], kept.groups["std"]
        return cls(mean, std, kept.numbered("deviation"), kept.numbered("buffers"), bool(settings["shared"]), **known)
