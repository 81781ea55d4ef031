"""The posterior of a Laplace approximation: draws of the weights, or of networks linearised in them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from calibrant.methods.batch_norm_refresh import refresh
from calibrant.methods.laplace_curvature import STRUCTURES, CovarianceRoot
from calibrant.methods.laplace_layers import matrix, parameters
from calibrant.methods.linearised import LinearisedMember, LinearisedNetwork, linearised_outputs
from calibrant.methods.posterior import ROWS_AT_ONCE, Member, TensorGroups, WeightPosterior, load_tensors
from calibrant.networks.stack import State
from calibrant.training.likelihoods import Scale
from calibrant.training.seeds import stream
from calibrant.training.settings import check_count, resolve_device
from calibrant.training.task import Task

FORMER = {
    "last_layer": {"layers": "last", "structure": "full", "predictive": "sampled"},
    "diagonal": {"layers": "all", "structure": "diagonal", "predictive": "sampled"},
    "kfac": {"layers": "all", "structure": "kfac_factored", "predictive": "sampled"},
}
"""What the structures of version 1 are now."""
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class LaplacePosterior(WeightPosterior):
    """A normal distribution of weights around those of a network.

    covariance_root: a square root of the covariance, by factor and layer. tuned: the validation loss of each candidate
    of the tuning. buffers: batch-norm statistics of each draw, if draws have their own.
    """

    kind: ClassVar[str] = "laplace"
    more_members_hint: ClassVar[str] = "posterior = posterior.more(task, draws) has more"

    def __init__(
        self,
        state: State,
        covariance_root: CovarianceRoot,
        *,
        layers: str,
        structure: str,
        predictive: str,
        prior_precision: float,
        scale: float = 1.0,
        tuned: Mapping[float, float] | None = None,
        buffers: list[State] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.state, self.covariance_root = state, covariance_root
        self.layers, self.structure, self.predictive = layers, structure, predictive
        self.prior_precision, self.scale = prior_precision, scale
        self.tuned, self.buffers = dict(tuned or {}), list(buffers or [])
        self.names = sorted(next(iter(covariance_root.values())))  # files have no order
        self.shares_features = layers == "last"

    @property
    def linearised(self) -> bool:
        """Whether members are linearised networks; of the last layer, they are networks with other weights."""
        return self.layers == "all" and self.predictive == "linearised"

    def deviation(self, k: int) -> State:
        """The deviation of draw k from the mean weights, by layer."""
        generator, z = stream(self.seed, k, "laplace"), {}
        for name in self.names:
            mean = matrix(self.state, name)
            z[name] = torch.randn(mean.shape, generator=generator, dtype=mean.dtype)
        found = STRUCTURES[self.structure].deviations(self.covariance_root, z)
        return {name: self.scale * value for name, value in found.items()}

    def weights(self, k: int) -> State:
        """The weights of draw k."""
        weights: State = {}
        for name, value in self.deviation(k).items():
            weights |= parameters(self.state, name, matrix(self.state, name) + value)
        return weights

    def member(self, k: int) -> Member:
        """Member k: the network with the weights of draw k, or linearised in them."""
        if not self.linearised:
            return super().member(k)
        return LinearisedMember(self.template, self.state, deviation=self._tangent(self._check_member(k)))

    def _tangent(self, k: int) -> State:
        """The deviation of draw k, by parameter."""
        tangent: State = {}
        for name, value in self.deviation(k).items():
            tangent |= parameters(self.state, name, value)
        return tangent

    def module(self, k: int = 0) -> torch.nn.Module:
        """Member k as an ordinary `nn.Module` that takes raw rows."""
        if not self.linearised:
            return super().module(k)
        network = self.recipe.template().module.to(self.dtype)
        load_tensors(network, self.state)
        return LinearisedNetwork(network.requires_grad_(True), self._tangent(self._check_member(k))).eval()

    def outputs(
        self, x: Tensor, members: int, *, batch: int = ROWS_AT_ONCE, device: str | torch.device = "auto"
    ) -> tuple[Tensor, Scale]:
        """Outputs (M, n, O) of the first members, and the scale of y of each."""
        if not self.linearised:
            return super().outputs(x, members, batch=batch, device=device)
        tangents = [self._tangent(k) for k in range(members)]
        outputs = linearised_outputs(self.template, self.state, tangents, x, batch, resolve_device(device))
        return outputs, Scale(self.state["y_mean"].expand(members), self.state["y_std"].expand(members))

    def tensors(self, k: int) -> State:
        """The network with the weights of draw k and their batch-norm statistics."""
        return {**self.state, **self.weights(k), **(self.buffers[k] if self.buffers else {})}

    @cached_property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return matrix(self.state, self.names[0]).dtype

    @property
    def max_members(self) -> int | None:
        """The draws with batch-norm statistics of their own; any number if all share them."""
        return len(self.buffers) or None

    def more(self, task: Task, draws: int, device: torch.device | str = "auto") -> LaplacePosterior:
        """The same distribution with batch-norm statistics for `draws` draws, from the task's training rows.

        Not needed for linearised networks, if only the last layer is drawn, or without batch norm.
        """
        if self.linearised or self.layers == "last" or not self.template.has_batch_norm:
            return self
        states = [{**self.state, **self.weights(k)} for k in range(check_count("draws", draws))]
        fresh = refresh(self.template, states, task, resolve_device(device))
        buffers = [
            {name: value for name, value in state.items() if name.rpartition(".")[2] in STATISTICS} for state in fresh
        ]
        return self.replace(buffers=buffers)

    def replace(self, **changes: Any) -> LaplacePosterior:
        """The same posterior with some arguments changed."""
        same: dict[str, Any] = {
            "recipe": self.recipe, "likelihood": self.likelihood, "seed": self.seed, "about": self.about,
            "template": self.template, "covariance_root": self.covariance_root, "buffers": self.buffers,
            **self._settings(),
        }  # fmt: skip
        return LaplacePosterior(self.state, **{**same, **changes})

    def _settings(self) -> dict[str, Any]:
        names = ("layers", "structure", "predictive", "prior_precision", "scale", "tuned")
        return {name: getattr(self, name) for name in names}

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The network, the tensors of the distribution, and the statistics of each draw."""
        groups = {"network": self.state, **self.covariance_root}
        groups |= {f"buffers{k}": each for k, each in enumerate(self.buffers)}
        settings = self._settings()
        settings["prior"] = settings.pop("prior_precision")  # the name in files
        return TensorGroups(groups).flat(), {**settings, "tuned": list(self.tuned.items())}

    @classmethod
    def from_state_dict(
        cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **kwargs: Any
    ) -> LaplacePosterior:
        """The inverse of `state_dict`."""
        groups = TensorGroups.of(tensors)
        settings = {**settings, **FORMER.get(settings["structure"], {})} if "layers" not in settings else settings
        parts = STRUCTURES[settings["structure"]].parts  # copied: products round alike for the same layout
        covariance_root = {part: {name: value.clone() for name, value in groups.groups[part].items()} for part in parts}
        rest = {**settings, "tuned": dict(settings["tuned"])}
        rest["prior_precision"] = rest.pop("prior")  # the name in files
        return cls(groups.groups["network"], covariance_root, **rest, buffers=groups.numbered("buffers"), **kwargs)
