"""The layers whose weights a Laplace approximation draws, as matrix products Z = W·a.

A layer's weights are a matrix W (O, D): one row per output, the bias in the last column. Its input is a (n, T, D), with
a 1 at the end for the bias: n rows, T positions at which W is applied (the pixels of a convolution's output; one for
dense layers after flattening), D inputs.

Reference: Grosse & Martens (2016), ICML: 573-582, for convolutions as products with patches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from calibrant.errors import UsageError
from calibrant.networks.mixed_precision import layer_type
from calibrant.networks.recipe import Template
from calibrant.networks.stack import State

MAX_WEIGHTS = 32768
"""The maximum number of weights with a full covariance, which takes 8 GiB in float64."""
DRAWN = (nn.Linear, nn.Conv2d)
NORMALISATIONS = (
    nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.InstanceNorm1d, nn.InstanceNorm2d,
    nn.InstanceNorm3d, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm,
)  # fmt: skip
"""Layers whose scales and shifts are not drawn."""
USE_LAST_LAYER = "use layers='last', which draws only the weights of the last layer"


# ------------------------------------------------------------------------------------- choice of layers
def resolve_structure(template: Template, layers: str, structure: str) -> str:
    """The structure with "auto" resolved: full for the last layer unless it is too large, else Kronecker factors."""
    if structure != "auto":
        return structure
    return "full" if layers == "last" and _weights(template, [_last(template)]) <= MAX_WEIGHTS else "kfac"


def drawn_layers(template: Template, layers: str, structure: str) -> tuple[str, ...]:
    """The names of the layers whose weights are drawn; `UsageError` for networks that are not supported."""
    names = [_last(template)] if layers == "last" else _all_layers(template)
    _refuse_tied(template, names)
    count = _weights(template, names)
    if structure == "full" and count > MAX_WEIGHTS:
        expected, hint = f"at most {MAX_WEIGHTS} weights", "use structure='kfac' or structure='diagonal'"
        raise UsageError("structure='full'", expected=expected, got=f"{count} in {', '.join(names)}", hint=hint)
    return tuple(names)


def _weights(template: Template, names: list[str]) -> int:
    return sum(value.numel() for name in names for value in template.module.get_submodule(name).parameters())


def _all_layers(template: Template) -> list[str]:
    names = []
    for name, module in template.module.named_modules():
        own = [key for key, _ in module.named_parameters(recurse=False)]
        trained = any(f"{name}.{key}" in template.trained for key in own)
        if not trained or isinstance(module, NORMALISATIONS):
            continue
        plain = layer_type(module) in DRAWN and "weight" in own and set(own) <= {"weight", "bias"}
        if not plain or getattr(module, "groups", 1) != 1:
            raise UsageError(
                f"layer {name}",
                expected="nn.Linear, nn.Conv2d with groups=1, or a normalisation layer",
                got=f"{_kind(module)} with {', '.join(own)}",
                hint=USE_LAST_LAYER,
            )
        if name not in template.layers:
            hint = f"call it in forward(), remove it, or {USE_LAST_LAYER}"
            raise UsageError(f"layer {name}", expected="a layer that forward() calls", got="one not called", hint=hint)
        names.append(name)
    if not names:
        hint = "use another network, or unfreeze a layer"
        raise UsageError("network", expected="a layer with weights that are not frozen", got="none", hint=hint)
    return sorted(names)


def _last(template: Template) -> str:
    name = template.last
    layer: Any = None if name is None else template.module.get_submodule(name)
    if name is None or layer_type(layer) is not nn.Linear or "weight" not in layer._parameters:
        raise UsageError(
            "layers='last'",
            expected="a network that returns the output of an nn.Linear layer",
            got="something else" if name is None else _kind(layer),
            hint="return the output of the last nn.Linear from forward(), or use layers='all'",
        )
    return name


def _refuse_tied(template: Template, names: list[str]) -> None:
    """Raise `UsageError` for shared weights, whose gradient is the sum over layers."""
    places: dict[int, list[str]] = {}
    for key, value in template.module.named_parameters(remove_duplicate=False):
        places.setdefault(id(value), []).append(key)
    for keys in places.values():
        if len(keys) > 1 and any(key.rpartition(".")[0] in names for key in keys):
            got = f"{keys[0]} shared with {keys[1]}"
            hint = "give each layer its own weights, or use methods.DeepEnsemble"
            raise UsageError("network", expected="layers that do not share weights", got=got, hint=hint)


def _kind(module: nn.Module) -> str:
    groups = getattr(module, "groups", 1)
    return layer_type(module).__name__ + (f"(groups={groups})" if groups != 1 else "")


# ---------------------------------------------------------------------------- inputs, outputs, weights
def patches(layer: nn.Module, x: Tensor) -> Tensor:
    """The input of a layer as a (n, T, D), with a 1 at the end if it has a bias."""
    if isinstance(layer, nn.Conv2d):
        columns = functional.unfold(_padded(layer, x), layer.kernel_size, layer.dilation, 0, layer.stride).transpose(
            1, 2
        )
    else:
        columns = x.reshape(len(x), -1, x.shape[-1])
    if layer.bias is None:
        return columns
    return torch.cat((columns, columns.new_ones(*columns.shape[:2], 1)), dim=-1)


def positions(layer: nn.Module, z: Tensor) -> Tensor:
    """The output of a layer, or its gradients, as (n, T, O)."""
    return z.flatten(2).transpose(1, 2) if isinstance(layer, nn.Conv2d) else z.reshape(len(z), -1, z.shape[-1])


def _padded(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """Padded images."""
    if layer.padding == "same":  # an odd pixel goes to the end, as in PyTorch
        more = [step * (size - 1) for step, size in zip(layer.dilation, layer.kernel_size, strict=True)]
        sides = [(total // 2, total - total // 2) for total in more]
    else:
        sides = [(side, side) for side in ((0, 0) if layer.padding == "valid" else layer.padding)]
    flat = [side for both in reversed(sides) for side in both]
    return functional.pad(x, flat, mode="constant" if layer.padding_mode == "zeros" else layer.padding_mode)


def matrix(state: Mapping[str, Tensor], name: str) -> Tensor:
    """W (O, D) of a layer: one row per output, the bias in the last column."""
    weight = state[f"{name}.weight"].flatten(1)
    bias = state.get(f"{name}.bias")
    return weight if bias is None else torch.cat((weight, bias[:, None]), dim=1)


def parameters(state: Mapping[str, Tensor], name: str, w: Tensor) -> State:
    """Convert W (O, D) to a layer's weight and bias."""
    weight, key = state[f"{name}.weight"], f"{name}.bias"
    width = weight[0].numel()
    layer = {f"{name}.weight": w[:, :width].reshape(weight.shape)}
    return {**layer, key: w[:, width].clone()} if key in state else layer


@contextmanager
def traced(module: nn.Module, names: tuple[str, ...]) -> Iterator[tuple[State, State]]:
    """Record inputs and outputs of layers in forward passes; clear both between passes."""
    inputs_of: State = {}
    outputs_of: State = {}

    def record(name: str, x: Tensor, z: Tensor) -> Tensor:
        if name in inputs_of:
            got, hint = "a layer called twice in one forward pass", "use separate layers, or methods.DeepEnsemble"
            raise UsageError(f"layer {name}", expected="a layer that is called once", got=got, hint=hint)
        inputs_of[name], outputs_of[name] = x.detach().clone(), z
        return z.clone()  # later layers may modify it in place

    hooks = [
        module.get_submodule(name).register_forward_hook(lambda m, inputs, z, name=name: record(name, inputs[0], z))
        for name in names
    ]
    try:
        yield inputs_of, outputs_of
    finally:
        for hook in hooks:
            hook.remove()
