"""What is kept while training goes on: networks at certain epochs, or moments of their weights along the way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from calibrant.networks.stack import Stack, State


class Watcher(ABC):
    """Looks at the networks after each epoch. What it keeps is stored in checkpoints, and comes back from them."""

    @abstractmethod
    def after_epoch(self, stack: Stack, epoch: int) -> None:
        """Called when an epoch, counted from 0, is done."""

    @abstractmethod
    def state(self) -> State:
        """What is kept, as named tensors."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take over what was kept before a stop."""

    @abstractmethod
    def of(self, k: int) -> Any:
        """What was kept of one network."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What it looks for: a checkpoint is good only for the same."""


class Snapshots(Watcher):
    """All tensors of the networks after the given epochs."""

    def __init__(self, epochs: Collection[int]) -> None:
        self.epochs = sorted(epochs)
        self.kept: dict[int, State] = {}

    def after_epoch(self, stack: Stack, epoch: int) -> None:
        """Copy the networks if their time has come."""
        if epoch in self.epochs:
            tensors = {**stack.parameters, **stack.buffers}
            self.kept[epoch] = {name: value.detach().cpu().clone() for name, value in tensors.items()}

    def state(self) -> State:
        """The copies, by epoch and name."""
        return {f"{epoch}/{name}": value for epoch, kept in self.kept.items() for name, value in kept.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take the copies back."""
        self.kept = {}
        for key, value in state.items():
            epoch, _, name = key.partition("/")
            self.kept.setdefault(int(epoch), {})[name] = value.cpu()

    def of(self, k: int) -> list[State]:
        """One network at its epochs, the earliest first."""
        return [{name: value[k].clone() for name, value in self.kept[epoch].items()} for epoch in sorted(self.kept)]

    def settings(self) -> dict[str, Any]:
        """The epochs."""
        return {"snapshots": self.epochs}


class Moments(Watcher):
    """Running mean and variance of the parameters, and their last deviations from the mean (Maddox et al. 2019).

    With δ = θ − mean, after the n-th of the given epochs: mean ← mean + δ/n, variance ← the mean of squares less the
    square of the mean, computed from deviations as Welford does, because small variances drown in a difference of
    squares. The deviation that is kept is θ − mean.
    """

    def __init__(self, epochs: Collection[int], rank: int) -> None:
        self.epochs, self.rank, self.count = sorted(epochs), rank, 0
        self.mean: State = {}
        self.variance: State = {}
        self.deviations: list[State] = []

    def after_epoch(self, stack: Stack, epoch: int) -> None:
        """Take the parameters into the moments if their time has come."""
        if epoch not in self.epochs:
            return
        self.count += 1
        now = {name: value.detach().clone() for name, value in stack.parameters.items()}
        for name, value in now.items():
            if self.count == 1:
                self.mean[name], self.variance[name] = value.clone(), torch.zeros_like(value)
                continue
            away = value - self.mean[name]
            self.mean[name].add_(away, alpha=1.0 / self.count)
            self.variance[name].lerp_(away * (value - self.mean[name]), 1.0 / self.count)
        self.deviations.append({name: value - self.mean[name] for name, value in now.items()})
        self.deviations = self.deviations[-self.rank :] if self.rank else []

    def state(self) -> State:
        """Mean, variance and deviations, by name."""
        parts = {"mean": self.mean, "variance": self.variance}
        parts |= {f"deviation{k}": each for k, each in enumerate(self.deviations)}
        made = {f"{part}/{name}": value for part, each in parts.items() for name, value in each.items()}
        return {**made, "count": torch.tensor(self.count)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take them back."""
        self.count, rest = int(state["count"]), {key: value for key, value in state.items() if key != "count"}
        parts: dict[str, State] = {}
        for key, value in rest.items():
            part, _, name = key.partition("/")
            parts.setdefault(part, {})[name] = value
        self.mean, self.variance = parts.pop("mean", {}), parts.pop("variance", {})
        self.deviations = [parts[f"deviation{k}"] for k in range(len(parts))]

    def of(self, k: int) -> tuple[State, State, list[State]]:
        """Mean, variance and deviations of one network."""
        return _of(self.mean, k), _of(self.variance, k), [_of(each, k) for each in self.deviations]

    def settings(self) -> dict[str, Any]:
        """The epochs, and how many deviations are kept."""
        return {"moments": self.epochs, "rank": self.rank}


def _of(part: State, k: int) -> State:
    return {name: value[k].cpu().clone() for name, value in part.items()}
