"""Dropout with external masks: one per row in training, one for all rows of a member in prediction.

A site multiplies its input by the buffer `dropout_mask0`, and by `dropout_mask1` in its second call, because one
`nn.Dropout` is often called in several places. A 0-dimensional mask, the initial value, drops nothing. Masks are passed
with the weights (`torch.func.functional_call`), so that a member is just named tensors. Sites are forward pre-hooks of
layers, which do not change the names of parameters; the network's own `nn.Dropout` layers are replaced by sites.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.errors import UsageError, check_choice, check_range

MASK = "dropout_mask"
PLACES = ("all", "dense", "last", "own")
"""Where dropout is applied: before every convolutional and dense layer but the first (Ovadia et al. 2019, appendix
A.2), before every dense layer but the first, before the last layer, or only in the network's own dropout layers."""
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class Dropout:
    """The dropout probability, and the layers before which dropout is applied."""

    p: float = 0.1
    where: str = "all"

    def __post_init__(self) -> None:
        check_range("dropout: p", self.p, 0, 1, inclusive="left", hint="use p=0.1")
        check_choice("dropout: where", self.where, PLACES)


@dataclass(frozen=True)
class Site:
    """One position of dropout: the name of its mask, the shape of the mask for one row, and the probability.

    `p` None: that of the method, which may differ between members.
    """

    mask: str
    shape: tuple[int, ...]
    p: float | None


class MaskedDropout(nn.Module):  # type: ignore[misc]
    """Replaces `nn.Dropout(p)`, and with `channels` the variants that drop whole channels."""

    def __init__(self, p: float, channels: bool) -> None:
        super().__init__()
        self.p, self.channels = p, channels
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        """x times the mask."""
        return _masked(self, x)


def _masked(module: nn.Module, x: Tensor) -> Tensor:
    mask = module._buffers.get(f"{MASK}{module.calls}")
    module.calls += 1
    return x if mask is None or mask.dim() == 0 else x * mask.to(x.dtype)


def dropout_modules(network: nn.Module) -> list[nn.Module]:
    """The modules with sites; `calls` counts their calls in one forward pass."""
    return [module for module in network.modules() if "calls" in vars(module)]


def replace_dropout(network: nn.Module) -> None:
    """Replace the network's own dropout layers by layers with external masks."""
    replaced: dict[nn.Module, MaskedDropout] = {}
    for name, module in list(network.named_modules(remove_duplicate=False)):
        if isinstance(module, nn.AlphaDropout | nn.FeatureAlphaDropout):
            raise UsageError(
                f"layer {name}",
                expected="nn.Dropout, nn.Dropout1d, nn.Dropout2d or nn.Dropout3d",
                got=f"{type(module).__name__}, whose masks cannot be fixed for a member",
                hint="use one of those instead",
            )
        if isinstance(module, nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d):
            parent, _, child = name.rpartition(".")
            site = replaced.setdefault(module, MaskedDropout(module.p, not isinstance(module, nn.Dropout)))
            setattr(network.get_submodule(parent), child, site)


def insert(network: nn.Module, where: str, order: list[str]) -> None:
    """Insert sites before layers; `order` has their names in the order of computation."""
    if where == "own":
        if not any(isinstance(module, MaskedDropout) for module in network.modules()):
            expected = "a network with nn.Dropout layers, for where='own'"
            hint = "choose where='all', 'dense' or 'last', or add nn.Dropout to the network"
            raise UsageError("dropout", expected=expected, got="a network without one", hint=hint)
        return
    kinds: Any = nn.Linear if where == "dense" else LAYERS
    chosen = [name for name in order[1:] if isinstance(network.get_submodule(name), kinds)]
    chosen = order[-1:] if where == "last" else chosen
    if not chosen:
        expected = f"a dense or convolutional layer after the first (where={where!r})"
        hint = "use a deeper network, or where='last'"
        raise UsageError("dropout", expected=expected, got=f"a network of {len(order)} layers", hint=hint)
    for name in chosen:
        module = network.get_submodule(name)
        module.calls = 0
        module.register_forward_pre_hook(lambda m, inputs: (_masked(m, inputs[0]), *inputs[1:]))


def trace_sites(network: nn.Module, sample: Tensor) -> list[Site]:
    """The dropout sites of a forward pass and their input shapes; each gets a mask that drops nothing."""
    sites: list[Site] = []

    def record(name: str, module: nn.Module, x: Tensor) -> None:
        shape = tuple(x.shape[1:])
        if x.shape[0] != len(sample):
            expected = f"an input with {len(sample)} rows as its first axis"
            hint = "keep rows as the first axis at every dropout layer"
            raise UsageError(f"layer {name}", expected=expected, got=f"shape {tuple(x.shape)}", hint=hint)
        if isinstance(module, MaskedDropout) and module.channels:
            shape = (shape[0], *(1 for _ in shape[1:]))
        p = module.p if isinstance(module, MaskedDropout) else None
        sites.append(Site(f"{name}.{MASK}{module.calls}", shape, p))

    names = {module: name for name, module in network.named_modules()}
    hooks = [
        module.register_forward_pre_hook(lambda m, inputs, name=names[module]: record(name, m, inputs[0]), prepend=True)
        for module in dropout_modules(network)
    ]
    try:
        network(sample)
    finally:
        for hook in hooks:
            hook.remove()
    for site in sites:
        owner, _, mask = site.mask.rpartition(".")
        network.get_submodule(owner).register_buffer(mask, torch.ones(()), persistent=False)
    return sites


def draw_mask(shape: tuple[int, ...], p: float, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Entries that are 0 with probability p and 1/(1 − p) otherwise, on the generator's device.

    For p = 0 and p = 1 nothing is drawn, so that random streams do not depend on other members' p.
    """
    if p in (0.0, 1.0):
        return torch.full(shape, 1.0 - p, dtype=dtype, device=generator.device)
    mask = torch.empty(shape, dtype=dtype, device=generator.device).bernoulli_(1.0 - p, generator=generator)
    return mask.div_(1.0 - p)
