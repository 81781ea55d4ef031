"""SWAG: a normal distribution of weights from the mean, variances and last deviations of SGD iterates.

θ = μ + (1/√2)(σ ⊙ z₁ + D z₂/√(K − 1)), z₁ and z₂ standard normal, D the last K deviations from the running mean; its
covariance is ½(diag σ² + DDᵀ/(K − 1)). Batch-norm statistics are recomputed for each draw.

Reference: Maddox et al. (2019), NeurIPS 32: 13153-13164.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from calibrant.errors import UsageError, check_range
from calibrant.methods.base import Method, TrainingResult
from calibrant.methods.batch_norm_refresh import refresh
from calibrant.methods.posterior import TensorGroups, WeightPosterior
from calibrant.networks.stack import State
from calibrant.training.callbacks import Callback, WeightMoments
from calibrant.training.schedules import LinearDecay, ThenTriangular
from calibrant.training.seeds import stream
from calibrant.training.settings import Training, check_count, resolve_device
from calibrant.training.task import Task

MIN_VARIANCE = 1e-30
"""Smaller variances are replaced by this."""


@dataclass(frozen=True)
class SWAG(Method):
    """Ordinary training, then a normal distribution fitted to the weights of epochs with a constant learning rate.

    The learning rate is that of Maddox et al. (2019): the initial one to half of `start`, then linear to `high` times
    it at 0.9·`start`, then constant.

    Parameters
    ----------
    training : Training
        Epochs, optimiser and learning rate; its schedule is replaced.
    start : int, optional
        The first epoch whose weights are collected; by default after 70% of the epochs.
    high : float
        The constant learning rate as a factor of the initial one. The paper has 0.1 for residual networks on CIFAR-10
        and 0.5 on CIFAR-100.
    rank : int
        The number of deviations in the low-rank part of the covariance.
    draws : int
        Members with batch-norm statistics; `posterior.more(task, draws)` has more.
    refresh : bool
        Recompute batch-norm statistics for each draw.

    Examples
    --------
    >>> from calibrant.methods import SWAG, Task, Training
    >>> from calibrant.networks import MLP
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> method = SWAG(Training(epochs=6, rate=0.01), start=3, rank=2)
    >>> method.fit(task, MLP(1, 2, (4,)), device="cpu")
    SwagPosterior('swag', any number of members, 'task', seed=0)
    """

    training: Training = Training(epochs=100)  # noqa: RUF009 — frozen
    start: int | None = None
    high: float = 0.1
    rank: int = 20
    draws: int = 20
    refresh: bool = True
    name: ClassVar[str] = "swag"
    needs_all_epochs: ClassVar[bool] = True
    version: ClassVar[int] = 2
    reference: ClassVar[str] = "Maddox et al. (2019)"

    def __post_init__(self) -> None:
        start = self.training.epochs * 7 // 10 if self.start is None else self.start
        for name, value, least in (("start", start, 0), ("rank", self.rank, 2), ("draws", self.draws, 1)):
            object.__setattr__(self, name, check_count(f"swag: {name}", value, least))
        check_range("swag: high", self.high, 0, 1, inclusive="right", hint="use high=0.1")
        if self.first > self.training.epochs - 2:
            got = f"start {self.start} of {self.training.epochs} epochs"
            hint = f"use start={max(self.training.epochs - 2, 0)} or less, or more epochs"
            raise UsageError("swag: start", expected="at least two epochs after it", got=got, hint=hint)
        schedule = ThenTriangular(LinearDecay(0.5, 0.9, self.high), self.first, self.high, self.high, 0)
        object.__setattr__(self, "training", replace(self.training, schedule=schedule))

    @property
    def first(self) -> int:
        """The first epoch whose weights are collected."""
        return int(self.start or 0)

    def callbacks(self) -> list[Callback]:
        """Moments of the weights after each epoch from `start` on."""
        return [WeightMoments(range(self.first, self.training.epochs), self.rank)]

    def posterior(self, trained: TrainingResult) -> SwagPosterior:
        """The normal distribution, and its first draws."""
        mean, variance, deviations = trained.callback_results[0][0]
        std = {name: value.clamp(min=MIN_VARIANCE).sqrt() for name, value in variance.items()}
        buffers = {name: value for name, value in trained.states[0].items() if name not in mean}
        posterior = SwagPosterior(mean, std, deviations, [buffers], shared=True, **trained.posterior_arguments)
        return posterior.more(trained.task, self.draws, trained.device) if self.refresh else posterior


class SwagPosterior(WeightPosterior):
    """A normal distribution of weights. buffers: those of each draw with statistics; shared: one for all draws."""

    kind: ClassVar[str] = "swag"
    more_members_hint: ClassVar[str] = "posterior = posterior.more(task, draws) has more"

    def __init__(
        self, mean: State, std: State, deviations: list[State], buffers: list[State], shared: bool, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.mean, self.std, self.deviations, self.buffers, self.shared = mean, std, deviations, buffers, shared

    def weights(self, k: int) -> State:
        """The weights of draw k."""
        generator = stream(self.seed, k, "swag")
        count = len(self.deviations)
        dtype = next(iter(self.mean.values())).dtype
        factors = torch.randn(count, generator=generator, dtype=dtype) / math.sqrt(2.0 * max(count - 1, 1))
        weights: State = {}
        for name in sorted(self.mean):  # files have no order
            mean = self.mean[name]
            diagonal = torch.randn(mean.shape, generator=generator, dtype=dtype) * self.std[name] / math.sqrt(2.0)
            low_rank = sum(factor * each[name] for factor, each in zip(factors, self.deviations, strict=True))
            weights[name] = mean + diagonal + low_rank
        return weights

    def tensors(self, k: int) -> State:
        """The weights of draw k with their batch-norm statistics."""
        return {**self.weights(k), **self.buffers[0 if self.shared else k]}

    @property
    def max_members(self) -> int | None:
        """The draws with batch-norm statistics; without batch norm any number."""
        return None if self.shared else len(self.buffers)

    def more(self, task: Task, draws: int, device: torch.device | str = "auto") -> SwagPosterior:
        """The same distribution with batch-norm statistics for `draws` draws, from the task's training rows."""
        if not self.template.has_batch_norm:
            return self
        states = [{**self.weights(k), **self.buffers[0]} for k in range(check_count("draws", draws))]
        fresh = refresh(self.template, states, task, resolve_device(device))
        buffers = [{name: state[name] for name in self.buffers[0]} for state in fresh]
        known = {"recipe": self.recipe, "likelihood": self.likelihood, "seed": self.seed, "about": self.about}
        return SwagPosterior(
            self.mean, self.std, self.deviations, buffers, shared=False, template=self.template, **known
        )

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Mean, standard deviations, deviations, and the statistics of each draw."""
        groups = {"mean": self.mean, "std": self.std}
        groups |= {f"deviation{k}": each for k, each in enumerate(self.deviations)}
        groups |= {f"buffers{k}": each for k, each in enumerate(self.buffers)}
        return TensorGroups(groups).flat(), {"shared": self.shared}

    @classmethod
    def from_state_dict(
        cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **kwargs: Any
    ) -> SwagPosterior:
        """The inverse of `state_dict`."""
        groups = TensorGroups.of(tensors)
        mean, std = groups.groups["mean"], groups.groups["std"]
        return cls(
            mean, std, groups.numbered("deviation"), groups.numbered("buffers"), bool(settings["shared"]), **kwargs
        )
