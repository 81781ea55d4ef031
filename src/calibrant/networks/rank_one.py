"""Networks of several members that share their weights up to factors of rank one (Wen, Tran & Ba 2020, ICLR).

Member m of a layer has the weights W ∘ s_m r_mᵀ: inputs are multiplied by r_m, outputs, before the bias, by s_m. Of the
rows of a batch, row i is computed by member i mod M, so that all members cost what one does.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from calibrant.errors import UsageError
from calibrant.networks.architecture import Architecture
from calibrant.networks.stack import State

LAYERS = (nn.Linear, nn.Conv2d)
INPUTS, OUTPUTS = "member_inputs", "member_outputs"
"""Names of the parameters r (M, I) and s (M, O) of a layer."""


class RankOneNetwork(Architecture):
    """Another architecture whose dense and convolutional layers have factors of M members."""

    name: ClassVar[str] = "rank_one"

    def __init__(self, plain: Architecture, members: int) -> None:
        self.plain, self.members = plain, members

    def build(self) -> nn.Module:
        """A newly initialised network, with random signs as factors."""
        network = self.plain.build()
        layers = [layer for layer in network.modules() if type(layer) in LAYERS]
        if not layers:
            hint = "use another method for this network"
            raise UsageError("network", expected="nn.Linear or nn.Conv2d layers", got="none", hint=hint)
        for layer in layers:
            if getattr(layer, "groups", 1) != 1:
                hint = "use methods.DeepEnsemble"
                got = f"groups={layer.groups}"
                raise UsageError("network", expected="convolutions with groups=1", got=got, hint=hint)
            outputs, inputs = layer.weight.shape[:2]
            for key, size in ((INPUTS, inputs), (OUTPUTS, outputs)):
                signs = torch.randint(0, 2, (self.members, size)).to(layer.weight.dtype) * 2.0 - 1.0
                layer.register_parameter(key, nn.Parameter(signs))
            layer.register_forward_pre_hook(_scale_inputs)
            layer.register_forward_hook(_scale_outputs)
        return network

    def settings(self) -> dict[str, Any]:
        """Empty: posteriors are of the plain architecture."""
        return {}


def _factors(layer: nn.Module, values: Tensor, x: Tensor) -> Tensor:
    """The factors of the member of each row, along the axis of channels."""
    members = torch.arange(len(x), device=x.device) % len(values)
    ones = [1] * (x.dim() - 2)
    shape = (len(x), -1, *ones) if isinstance(layer, nn.Conv2d) else (len(x), *ones, -1)
    return values[members].reshape(shape).to(x.dtype)


def _scale_inputs(layer: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return (inputs[0] * _factors(layer, layer.member_inputs, inputs[0]), *inputs[1:])


def _scale_outputs(layer: Any, inputs: Any, z: Tensor) -> Tensor:
    factors = _factors(layer, layer.member_outputs, z)
    if layer.bias is None:
        return z * factors
    bias = layer.bias.to(z.dtype)
    bias = bias.view(-1, 1, 1) if isinstance(layer, nn.Conv2d) else bias
    return (z - bias) * factors + bias


def split_factors(state: State) -> tuple[State, State]:
    """The tensors of the plain network, and the factors."""
    factors = {name: value for name, value in state.items() if name.rpartition(".")[2] in (INPUTS, OUTPUTS)}
    return {name: value for name, value in state.items() if name not in factors}, factors


def member_weights(shared: State, factors: State, k: int) -> State:
    """The weights W ∘ s rᵀ of member k, by name."""
    found: State = {}
    for name in sorted(factors):
        layer, _, part = name.rpartition(".")
        if part == INPUTS:
            weight = shared[f"{layer}.weight"]
            outer = factors[f"{layer}.{OUTPUTS}"][k][:, None] * factors[name][k][None, :]
            found[f"{layer}.weight"] = weight * outer.reshape(*outer.shape, *(1 for _ in weight.shape[2:]))
    return found
