"""The layers whose weights a Laplace approximation draws, and what each of them computes: Z = W·a.

A layer's weights are a matrix W (O, D): a row for each of its O outputs, its last column the bias, where there is one.
What a layer gets is then a (n, T, D), with a 1 at the end for the bias: n rows, T positions at which W is applied to
each (the pixels of a convolution's output; one for dense layers behind a flattening), D inputs.

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
from calibrant.networks.recipe import Template
from calibrant.networks.stack import State

MOST_WEIGHTS = 32768
"""Of a last layer: its covariance has the square of this many numbers, 8 GiB in double precision."""
DRAWN = (nn.Linear, nn.Conv2d)
LEFT = (
    nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.InstanceNorm1d, nn.InstanceNorm2d,
    nn.InstanceNorm3d, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm,
)  # fmt: skip
"""Layers whose parameters stay as they were trained: scales and shifts of normalisations."""
INSTEAD = "use structure='last_layer', which draws the weights of the last layer alone"


# -------------------------------------------------------------------------------------------- which ones
def drawn_layers(template: Template, structure: str) -> tuple[str, ...]:
    """The names of the layers whose weights are drawn; refuse networks of which the formulas do not hold."""
    if structure == "last_layer":
        return (_last(template),)
    names = []
    for name, module in template.module.named_modules():
        own = [key for key, _ in module.named_parameters(recurse=False)]
        if own and not isinstance(module, LEFT):
            _refuse_unknown(name, module, own, template)
            names.append(name)
    _refuse_tied(template, names)
    if not names:
        raise UsageError("network", expected="a layer with weights", came="it has none", do="choose another network")
    return tuple(sorted(names))


def _last(template: Template) -> str:
    name = template.last
    layer: Any = None if name is None else template.module.get_submodule(name)
    if name is None or type(layer) is not nn.Linear or "weight" not in layer._parameters:
        raise UsageError(
            "structure='last_layer'",
            expected="a network whose output is that of a dense layer, nn.Linear",
            came="its output is made by something else" if name is None else f"{name} is {_kind(layer)}",
            do="let forward() return what its last nn.Linear gives, or choose structure='diagonal' or 'kfac'",
        )
    count = sum(value.numel() for value in layer.parameters())
    if count > MOST_WEIGHTS:
        raise UsageError(
            "structure='last_layer'",
            expected=f"at most {MOST_WEIGHTS} weights in the last layer, whose covariance is kept whole",
            came=f"{name} has {count}",
            do="choose structure='kfac' or 'diagonal'",
        )
    _refuse_tied(template, [name])
    return name


def _refuse_unknown(name: str, module: nn.Module, own: list[str], template: Template) -> None:
    plain = type(module) in DRAWN and "weight" in own and set(own) <= {"weight", "bias"}
    if not plain or getattr(module, "groups", 1) != 1:
        raise UsageError(
            f"layer {name}",
            expected="nn.Linear or nn.Conv2d with groups=1 wherever a network has weights, or a normalisation",
            came=f"it is {_kind(module)} with {', '.join(own)}",
            do=INSTEAD,
        )
    if name not in template.layers:
        raise UsageError(
            f"layer {name}",
            expected="a layer that is called when rows pass",
            came="it is not, though it has weights",
            do=f"call it in forward(), drop it, or {INSTEAD}",
        )


def _refuse_tied(template: Template, names: list[str]) -> None:
    """Weights that two layers share have a slope that is the sum of both."""
    places: dict[int, list[str]] = {}
    for key, value in template.module.named_parameters(remove_duplicate=False):
        places.setdefault(id(value), []).append(key)
    for keys in places.values():
        if len(keys) > 1 and any(key.rpartition(".")[0] in names for key in keys):
            raise UsageError(
                "network",
                expected="weights of its own for each layer",
                came=f"{keys[0]} and {keys[1]} are the same",
                do="give each layer its own weights, or use another method",
            )


def _kind(module: nn.Module | None) -> str:
    groups = getattr(module, "groups", 1)
    return type(module).__name__ + (f"(groups={groups})" if groups != 1 else "")


# -------------------------------------------------------------------------------------- what they compute
def patches(layer: nn.Module, x: Tensor) -> Tensor:
    """What arrives at a layer as a (n, T, D), with a 1 at the end where there is a bias."""
    if isinstance(layer, nn.Conv2d):
        wide = _padded(layer, x)
        made = functional.unfold(wide, layer.kernel_size, layer.dilation, 0, layer.stride).transpose(1, 2)
    else:
        made = x.reshape(len(x), -1, x.shape[-1])
    if layer.bias is None:
        return made
    return torch.cat((made, made.new_ones(*made.shape[:2], 1)), dim=-1)


def positions(layer: nn.Module, z: Tensor) -> Tensor:
    """What leaves a layer, or slopes of it, as (n, T, O)."""
    return z.flatten(2).transpose(1, 2) if isinstance(layer, nn.Conv2d) else z.reshape(len(z), -1, z.shape[-1])


def _padded(layer: nn.Conv2d, x: Tensor) -> Tensor:
    """Images with their borders, the last axis first as `functional.pad` has it."""
    if layer.padding == "same":  # the odd pixel goes to the end, as PyTorch has it
        more = [step * (size - 1) for step, size in zip(layer.dilation, layer.kernel_size, strict=True)]
        sides = [(total // 2, total - total // 2) for total in more]
    else:
        sides = [(side, side) for side in ((0, 0) if layer.padding == "valid" else layer.padding)]
    flat = [side for both in reversed(sides) for side in both]
    return functional.pad(x, flat, mode="constant" if layer.padding_mode == "zeros" else layer.padding_mode)


def matrix(state: Mapping[str, Tensor], name: str) -> Tensor:
    """W (O, D) of a layer: its weights, each output's in a row, and its bias in the last column."""
    weight = state[f"{name}.weight"].flatten(1)
    bias = state.get(f"{name}.bias")
    return weight if bias is None else torch.cat((weight, bias[:, None]), dim=1)


def parameters(state: Mapping[str, Tensor], name: str, w: Tensor) -> State:
    """A matrix W (O, D) as a layer's weights and bias, shaped as in the state."""
    weight, key = state[f"{name}.weight"], f"{name}.bias"
    width = weight[0].numel()
    made = {f"{name}.weight": w[:, :width].reshape(weight.shape)}
    return {**made, key: w[:, width].clone()} if key in state else made


@contextmanager
def traced(module: nn.Module, names: tuple[str, ...]) -> Iterator[tuple[State, State]]:
    """What arrives at layers and what leaves them while rows pass; empty both before the next rows."""
    arrived: State = {}
    left: State = {}

    def note(name: str, x: Tensor, z: Tensor) -> Tensor:
        if name in arrived:
            raise UsageError(
                f"layer {name}",
                expected="a layer that is used once",
                came="rows pass it twice",
                do="use a layer of its own for each place, or another method",
            )
        arrived[name], left[name] = x.detach().clone(), z
        return z.clone()  # what follows may write into it

    hooks = [
        module.get_submodule(name).register_forward_hook(lambda m, inputs, z, name=name: note(name, inputs[0], z))
        for name in names
    ]
    try:
        yield arrived, left
    finally:
        for hook in hooks:
            hook.remove()
