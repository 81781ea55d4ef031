"""Dropout whose masks come from outside: one for each row in training, one for all rows of a member.

A site multiplies its input by the buffer `dropout_mask0`, and by `dropout_mask1` where it is passed again: one
`nn.Dropout` often serves several places. A mask without dimensions, as a site has it from the start, means that nothing
is dropped. Masks are handed in with the weights (`torch.func.functional_call`), so that a member is nothing but named
tensors. Sites stand before layers by a hook, which leaves the names of parameters as they were; `nn.Dropout` of a
network's own is replaced by a site.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.errors import UsageError, did_you_mean, show

MASK = "dropout_mask"
PLACES = ("all", "dense", "last", "own")
"""Where dropout stands: before every convolutional and dense layer but the first (Ovadia et al. 2019, appendix A.2),
before every dense layer but the first, before the last layer, or only where the network has it already."""
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class Dropout:
    """How much is dropped, and where."""

    rate: float = 0.1
    where: str = "all"

    def __post_init__(self) -> None:
        if not (isinstance(self.rate, int | float) and 0.0 <= self.rate < 1.0):
            raise UsageError(
                "rate", expected="a share from 0 to below 1", came=f"got {show(self.rate)}", do="0.1 is usual"
            )
        if self.where not in PLACES:
            raise UsageError(
                "where", expected="a known place", came=f"got {show(self.where)}", do=did_you_mean(self.where, PLACES)
            )


@dataclass(frozen=True)
class Site:
    """Where something is dropped: the name of its mask, the shape of it for one row, and the rate.

    rate None: the rate of the method, which may differ from member to member.
    """

    mask: str
    shape: tuple[int, ...]
    rate: float | None


class OwnDropout(nn.Module):  # type: ignore[misc]
    """What stands for `nn.Dropout(p)`, or for the forms of it that drop whole channels."""

    def __init__(self, p: float, channels: bool) -> None:
        super().__init__()
        self.p, self.channels = p, channels
        _prepare(self)

    def forward(self, x: Tensor) -> Tensor:
        """x, or what the mask leaves of it."""
        return _masked(self, x)


def _prepare(module: nn.Module) -> None:
    """Let a module count how often it was passed."""
    module.passed = 0


def _masked(module: nn.Module, x: Tensor) -> Tensor:
    mask = module._buffers.get(f"{MASK}{module.passed}")
    module.passed += 1
    return x if mask is None or mask.dim() == 0 else x * mask.to(x.dtype)


def _before(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return (_masked(module, inputs[0]), *inputs[1:])


def droppers(network: nn.Module) -> list[nn.Module]:
    """The modules that have sites; they are told when a pass begins, and then count."""
    return [module for module in network.modules() if "passed" in vars(module)]


def replace_own(network: nn.Module) -> None:
    """Every dropout of the network's own gives way to one whose masks come from outside."""
    made: dict[nn.Module, OwnDropout] = {}
    for name, module in list(network.named_modules(remove_duplicate=False)):
        if isinstance(module, nn.AlphaDropout | nn.FeatureAlphaDropout):
            raise UsageError(
                f"layer {name}",
                expected="nn.Dropout, nn.Dropout1d, nn.Dropout2d or nn.Dropout3d",
                came=f"it is {type(module).__name__}, whose masks cannot be held fixed for a member",
                do="use one of those instead",
            )
        if isinstance(module, nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d):
            parent, _, child = name.rpartition(".")
            site = made.setdefault(module, OwnDropout(module.p, not isinstance(module, nn.Dropout)))
            setattr(network.get_submodule(parent), child, site)


def insert(network: nn.Module, where: str, order: list[str]) -> None:
    """Put sites before layers, whose names come in the order in which they are computed."""
    if where == "own":
        if not any(isinstance(module, OwnDropout) for module in network.modules()):
            raise UsageError(
                "dropout",
                expected="a network with nn.Dropout layers, because where='own' was asked for",
                came="it has none",
                do="choose where='all', 'dense' or 'last', or put nn.Dropout into the network",
            )
        return
    chosen = _chosen(network, where, order)
    if not chosen:
        raise UsageError(
            "dropout",
            expected="a layer to drop inputs of: dense or convolutional, and not the first" + _of(where),
            came=f"the network has {len(order)} such layers",
            do="use a deeper network, or where='last'",
        )
    for name in chosen:
        module = network.get_submodule(name)
        _prepare(module)
        module.register_forward_pre_hook(_before)


def _of(where: str) -> str:
    return "" if where == "all" else f" (where={where!r})"


def _chosen(network: nn.Module, where: str, order: list[str]) -> list[str]:
    if where == "last":
        return order[-1:]
    kinds: Any = nn.Linear if where == "dense" else LAYERS
    return [name for name in order[1:] if isinstance(network.get_submodule(name), kinds)]


def site_shapes(network: nn.Module, sample: Tensor) -> list[Site]:
    """The sites that one row passes, with the shapes of what arrives there; each gets its mask, which drops nothing."""
    found: list[Site] = []

    def note(name: str, module: nn.Module, arrived: Tensor) -> None:
        shape = tuple(arrived.shape[1:])
        if arrived.shape[0] != len(sample):
            raise UsageError(
                f"layer {name}",
                expected=f"dropout of {len(sample)} rows, which come first",
                came=f"what arrives there has shape {tuple(arrived.shape)}",
                do="keep rows as the first axis where something is dropped",
            )
        if isinstance(module, OwnDropout) and module.channels:
            shape = (shape[0], *(1 for _ in shape[1:]))
        rate = module.p if isinstance(module, OwnDropout) else None
        found.append(Site(f"{name}.{MASK}{module.passed}", shape, rate))

    names = {module: name for name, module in network.named_modules()}
    hooks = [
        module.register_forward_pre_hook(lambda m, inputs, name=names[module]: note(name, m, inputs[0]), prepend=True)
        for module in droppers(network)
    ]
    try:
        network(sample)
    finally:
        for hook in hooks:
            hook.remove()
    for site in found:
        owner, _, mask = site.mask.rpartition(".")
        network.get_submodule(owner).register_buffer(mask, torch.ones(()), persistent=False)
    return found


def draw_mask(shape: tuple[int, ...], rate: float, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Entries that are 0 with probability `rate` and 1/(1 − rate) else, on the generator's device.

    Where there is no choice nothing is drawn, so that streams are the same beside members of another rate.
    """
    if rate in (0.0, 1.0):
        return torch.full(shape, 1.0 - rate, dtype=dtype, device=generator.device)
    kept = torch.empty(shape, dtype=dtype, device=generator.device).bernoulli_(1.0 - rate, generator=generator)
    return kept.div_(1.0 - rate)
