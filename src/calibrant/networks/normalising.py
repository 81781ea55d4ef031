"""Batch normalisation of many networks in one kernel.

`torch.vmap` takes batch normalisation apart: the affine part becomes products and sums of their own, which made half of
the time of ten ResNet-20 on an H200. Here members are laid side by side as channels, and one fused call serves all.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class _SideBySide(torch.autograd.Function):  # type: ignore[misc]
    """`functional.batch_norm`, with a rule for `vmap` that computes members as channels."""

    generate_vmap_rule = False

    @staticmethod
    def forward(x: Tensor, weight: Any, bias: Any, mean: Any, var: Any, train: bool, rate: float, eps: float) -> Tensor:
        return functional.batch_norm(x, mean, var, weight, bias, train, rate, eps)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept: the rule below is made of operations that PyTorch differentiates itself."""

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        raise NotImplementedError("reached only outside of vmap, where this function is not used")

    @staticmethod
    def vmap(info: Any, dims: Any, x: Tensor, *rest: Any) -> tuple[Tensor, int]:
        members = info.batch_size
        wide = x.unsqueeze(1).expand(-1, members, *x.shape[1:]) if dims[0] is None else x.movedim(dims[0], 1)
        weight, bias, mean, var = (_flat(value, at, members) for value, at in zip(rest[:4], dims[1:5], strict=True))
        train, rate, eps = rest[4:]
        made = functional.batch_norm(wide.flatten(1, 2), mean, var, weight, bias, train, rate, eps)
        return made.unflatten(1, (members, -1)), 1


def _flat(value: Tensor | None, at: int | None, members: int) -> Tensor | None:
    """One number a member and channel; those that members share are repeated."""
    if value is None:
        return None
    return value.repeat(members) if at is None else value.movedim(at, 0).flatten()


def _forward(self: Any, x: Tensor) -> Tensor:
    """As batch normalisation always was, but with a momentum that is a number."""
    apart = torch.compiler.is_compiling() or not torch._C._functorch.is_batchedtensor(x)
    if apart or not self.track_running_stats or self.momentum is None:
        return self.alone(x)
    self._check_input_dim(x)
    if self.training:
        self.num_batches_tracked.add_(1)
    return _SideBySide.apply(
        x, self.weight, self.bias, self.running_mean, self.running_var, self.training, self.momentum, self.eps
    )


_STACKABLE = {
    kind: type(f"Stackable{kind.__name__}", (kind,), {"forward": _forward, "alone": kind.forward}) for kind in KINDS
}


def stackable(network: nn.Module) -> None:
    """Let the batch normalisations of a network be computed for many members at once; alone they are as they were."""
    for module in network.modules():
        if type(module) in _STACKABLE:
            module.__class__ = _STACKABLE[type(module)]


def normalisers(network: nn.Module) -> list[nn.Module]:
    """The batch normalisations that keep running statistics."""
    return [module for module in network.modules() if isinstance(module, KINDS) and module.track_running_stats]
