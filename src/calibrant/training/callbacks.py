"""Callbacks of training: snapshots of networks at certain epochs, and moments of their weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from calibrant.networks.stack import Stack, State


class Callback(ABC):
    """Called after each epoch; its state is stored in checkpoints."""

    @abstractmethod
    def after_epoch(self, stack: Stack, epoch: int) -> None:
        """Called at the end of an epoch, counted from 0."""

    @abstractmethod
    def state(self) -> State:
        """The state as named tensors."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state from a checkpoint."""

    @abstractmethod
    def of(self, k: int) -> Any:
        """The result for network k."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings, which a checkpoint must match."""


class WeightSnapshots(Callback):
    """All tensors of the networks after the given epochs."""

    def __init__(self, epochs: Collection[int]) -> None:
        self.epochs = sorted(epochs)
        self.snapshots: dict[int, State] = {}

    def after_epoch(self, stack: Stack, epoch: int) -> None:
        """Copy the networks at the given epochs."""
        if epoch in self.epochs:
            tensors = {**stack.parameters, **stack.buffers}
            self.snapshots[epoch] = {name: value.detach().cpu().clone() for name, value in tensors.items()}

    def state(self) -> State:
        """The snapshots, by epoch and name."""
        return {f"{epoch}/{name}": value for epoch, state in self.snapshots.items() for name, value in state.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore the snapshots."""
        self.snapshots = {}
        for key, value in state.items():
            epoch, _, name = key.partition("/")
            self.snapshots.setdefault(int(epoch), {})[name] = value.cpu()

    def of(self, k: int) -> list[State]:
        """The snapshots of one network, the earliest first."""
        return [
            {name: value[k].clone() for name, value in self.snapshots[epoch].items()}
            for epoch in sorted(self.snapshots)
        ]

    def settings(self) -> dict[str, Any]:
        """The epochs."""
        return {"snapshots": self.epochs}


class WeightMoments(Callback):
    """Running mean and variance of the parameters, and their last deviations from the mean (Maddox et al. 2019).

    With δ = θ − mean, after the n-th of the given epochs: mean ← mean + δ/n, and the variance by Welford's update, as a
    difference of squares loses small variances. The recorded deviation is θ − mean.
    """

    def __init__(self, epochs: Collection[int], rank: int) -> None:
        self.epochs, self.rank, self.count = sorted(epochs), rank, 0
        self.mean: State = {}
        self.variance: State = {}
        self.deviations: list[State] = []

    def after_epoch(self, stack: Stack, epoch: int) -> None:
        """Update the moments at the given epochs."""
        if epoch not in self.epochs:
            return
        self.count += 1
        now = {name: value.detach().clone() for name, value in stack.parameters.items()}
        for name, value in now.items():
            if self.count == 1:
                self.mean[name], self.variance[name] = value.clone(), torch.zeros_like(value)
                continue
            delta = value - self.mean[name]
            self.mean[name].add_(delta, alpha=1.0 / self.count)
            self.variance[name].lerp_(delta * (value - self.mean[name]), 1.0 / self.count)
        self.deviations.append({name: value - self.mean[name] for name, value in now.items()})
        self.deviations = self.deviations[-self.rank :] if self.rank else []

    def state(self) -> State:
        """Mean, variance and deviations, by name."""
        parts = {"mean": self.mean, "variance": self.variance}
        parts |= {f"deviation{k}": each for k, each in enumerate(self.deviations)}
        tensors = {f"{part}/{name}": value for part, each in parts.items() for name, value in each.items()}
        return {**tensors, "count": torch.tensor(self.count)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore the moments."""
        self.count, rest = int(state["count"]), {key: value for key, value in state.items() if key != "count"}
        parts: dict[str, State] = {}
        for key, value in rest.items():
            part, _, name = key.partition("/")
            parts.setdefault(part, {})[name] = value
        self.mean, self.variance = parts.pop("mean", {}), parts.pop("variance", {})
        self.deviations = [parts[f"deviation{k}"] for k in range(len(parts))]

    def of(self, k: int) -> tuple[State, State, list[State]]:
        """Mean, variance and deviations of one network."""
        return _select(self.mean, k), _select(self.variance, k), [_select(each, k) for each in self.deviations]

    def settings(self) -> dict[str, Any]:
        """The epochs, and the number of deviations."""
        return {"moments": self.epochs, "rank": self.rank}


def _select(part: State, k: int) -> State:
    return {name: value[k].cpu().clone() for name, value in part.items()}
