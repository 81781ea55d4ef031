"""Dense and convolutional layers whose products are computed in another dtype than that of their weights.

`torch.autocast` casts in the dispatcher, and on a CPU `torch.vmap` calls convolution kernels without passing it, so
that networks trained together would silently be computed in float32. Here the layers cast their inputs and weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class _CastsOperands:
    """Casts input, weight and bias to `compute_dtype`, if it is set."""

    compute_dtype: torch.dtype | None = None

    def _operands(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        layer: Any = self
        bias = None if layer.bias is None else layer.bias.to(self.compute_dtype)
        return x.to(self.compute_dtype), layer.weight.to(self.compute_dtype), bias


class MixedLinear(_CastsOperands, nn.Linear):  # type: ignore[misc]
    """`nn.Linear` in `compute_dtype`."""

    def forward(self, x: Tensor) -> Tensor:
        """x Wᵀ + b."""
        return super().forward(x) if self.compute_dtype is None else functional.linear(*self._operands(x))


class MixedConv1d(_CastsOperands, nn.Conv1d):  # type: ignore[misc]
    """`nn.Conv1d` in `compute_dtype`."""

    def forward(self, x: Tensor) -> Tensor:
        """The convolution."""
        return super().forward(x) if self.compute_dtype is None else self._conv_forward(*self._operands(x))


class MixedConv2d(_CastsOperands, nn.Conv2d):  # type: ignore[misc]
    """`nn.Conv2d` in `compute_dtype`."""

    def forward(self, x: Tensor) -> Tensor:
        """The convolution."""
        return super().forward(x) if self.compute_dtype is None else self._conv_forward(*self._operands(x))


class MixedConv3d(_CastsOperands, nn.Conv3d):  # type: ignore[misc]
    """`nn.Conv3d` in `compute_dtype`."""

    def forward(self, x: Tensor) -> Tensor:
        """The convolution."""
        return super().forward(x) if self.compute_dtype is None else self._conv_forward(*self._operands(x))


MIXED = {nn.Linear: MixedLinear, nn.Conv1d: MixedConv1d, nn.Conv2d: MixedConv2d, nn.Conv3d: MixedConv3d}
ORIGINALS = {mixed: kind for kind, mixed in MIXED.items()}


def make_castable(network: nn.Module) -> None:
    """Replace dense and convolutional layers in place by ones that can compute in another dtype."""
    for module in network.modules():
        if type(module) in MIXED:
            module.__class__ = MIXED[type(module)]


def castable_layers(network: nn.Module) -> list[nn.Module]:
    """The layers that `make_castable` replaced."""
    return [module for module in network.modules() if isinstance(module, _CastsOperands)]


def layer_type(module: nn.Module) -> type[nn.Module]:
    """The class of a layer, as it was before `make_castable`."""
    return ORIGINALS.get(type(module), type(module))


@contextmanager
def computing_in(dtype: torch.dtype | None, layers: Iterable[nn.Module]) -> Iterator[None]:
    """Compute the products of these layers in a dtype; None for that of their weights."""
    if dtype is None:
        yield
        return
    layers = list(layers)
    for layer in layers:
        layer.compute_dtype = dtype
    try:
        yield
    finally:
        for layer in layers:
            layer.compute_dtype = None
