"""Multilayer perceptrons: dense layers with activations in between.

Reference: Klambauer et al. (2017), NeurIPS 30: 971-980, for SELU and its initialisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import nn

from calibrant.errors import check_choice
from calibrant.networks.architecture import Architecture, register

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "elu": nn.ELU, "tanh": nn.Tanh, "selu": nn.SELU}


@register
@dataclass(frozen=True)
class MLP(Architecture):
    """A multilayer perceptron for inputs (n, …), which are flattened, with `outputs` raw outputs per row.

    hidden: widths of the hidden layers; a linear model if empty. activation: relu, elu, tanh or selu. Layers have
    PyTorch's default initialisation, uniform in ±1/√inputs. With selu, weights are normal with variance 1/inputs and
    biases are zero, so that activations keep mean zero and variance one.
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
        """A newly initialised network."""
        network = Perceptron((self.inputs, *self.hidden), self.outputs, ACTIVATIONS[self.activation]())
        if self.activation == "selu":
            for module in network.modules():
                if isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, std=module.in_features**-0.5)
                    nn.init.zeros_(module.bias)
        return network


class Perceptron(nn.Module):  # type: ignore[misc]
    """Dense layers between consecutive widths, each followed by the activation, and a dense output layer."""

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
