"""Multilayer perceptrons: dense layers with an activation between two.

Reference: Klambauer et al. (2017), NeurIPS 30: 971-980, for SELU and its initialisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import nn

from calibrant.networks.architecture import Architecture, check_choice, register

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "elu": nn.ELU, "tanh": nn.Tanh, "selu": nn.SELU}


@register
@dataclass(frozen=True)
class MLP(Architecture):
    """A multilayer perceptron of inputs (n, …), which are flattened; `outputs` raw numbers for each.

    hidden: the width of each hidden layer; without any it is a linear model. activation: relu, elu, tanh or selu.
    Layers are initialised as PyTorch does, uniform in ±1/√inputs. With selu, weights are normal with variance 1/inputs
    and biases are zero: only then do activations keep mean zero and variance one.
    """

    name: ClassVar[str] = "mlp"
    inputs: int
    outputs: int
    hidden: tuple[int, ...] = (128, 128)
    activation: str = "relu"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(f"{self.name}: activation", self.activation, ACTIVATIONS)

    def build(self) -> nn.Module:
        """A fresh network."""
        network = Perceptron((self.inputs, *self.hidden), self.outputs, ACTIVATIONS[self.activation]())
        return _self_normalising(network) if self.activation == "selu" else network


class Perceptron(nn.Module):  # type: ignore[misc]
    """Dense layers between consecutive widths, the activation behind each, and a dense layer to the outputs."""

    def __init__(self, widths: tuple[int, ...], outputs: int, activation: nn.Module) -> None:
        super().__init__()
        self.hidden = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(widths))
        self.activation = activation
        self.output = nn.Linear(widths[-1], outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Raw outputs (n, outputs)."""
        x = x.flatten(1)
        for layer in self.hidden:
            x = self.activation(layer(x))
        return self.output(x)


def _self_normalising(network: nn.Module) -> nn.Module:
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
            nn.init.zeros_(module.bias)
    return network
