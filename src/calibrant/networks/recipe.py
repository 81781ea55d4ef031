"""From an architecture to a network that methods can work with: inputs standardised, dropout in place, layers known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from calibrant.errors import CalibrantError, UsageError, plain
from calibrant.networks.architecture import Architecture
from calibrant.networks.dropping import LAYERS, MASK, Dropout, Site, droppers, insert, replace_own, site_shapes
from calibrant.networks.normalising import stackable

SCALES = ("x_mean", "x_std", "y_mean", "y_std")
SAMPLE = 3
"""Rows that a network is tried on: a number that no other axis is likely to have."""


class Prepared(nn.Module):  # type: ignore[misc]
    """A network behind the standardisation of its inputs; what y is standardised by is kept beside it."""

    def __init__(self, inner: nn.Module, standardises: bool) -> None:
        super().__init__()
        self.inner, self.standardises = inner, standardises
        self.droppers: tuple[nn.Module, ...] = ()
        for name in SCALES:
            self.register_buffer(name, torch.ones(()) if name.endswith("std") else torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """What the network says of raw inputs."""
        for module in self.droppers:
            module.passed = 0
        if self.standardises:
            x = ((x.to(self.x_mean.dtype) - self.x_mean) / self.x_std).to(self.y_std.dtype)
        return self.inner(x)


@dataclass(frozen=True)
class Template:
    """A network whose weights are handed in, and what is known of it.

    layers: dense and convolutional ones in the order of computing; last: the one whose output is that of the network.
    """

    module: Prepared
    sites: tuple[Site, ...]
    layers: tuple[str, ...]
    last: str | None

    @property
    def normalised(self) -> bool:
        """Whether there are running statistics of batches."""
        return any(name.endswith("running_mean") for name, _ in self.module.named_buffers())


@dataclass(frozen=True)
class Recipe:
    """How a network is made: its architecture, how many outputs it must have, dropout, and what a row of x is like."""

    architecture: Architecture
    outputs: int
    shape: tuple[int, ...]
    x_dtype: torch.dtype = torch.float32
    standardises: bool = True
    dropout: Dropout | None = None

    def network(self) -> Prepared:
        """A fresh network, drawn from PyTorch's global stream."""
        inner = self.architecture.build().cpu()
        replace_own(inner)
        return Prepared(inner, self.standardises)

    def _sample(self, module: nn.Module) -> Tensor:
        """Some rows, in the numbers of the network where it does not standardise them itself."""
        rows = torch.zeros((SAMPLE, *self.shape), dtype=self.x_dtype)
        own = [value.dtype for value in module.parameters() if value.is_floating_point()]
        if own:
            module.to(own[0])
        return rows.to(own[0]) if own and rows.is_floating_point() and not self.standardises else rows

    def template(self) -> Template:
        """A network to hand weights to; what cannot work is refused here, before anything is trained."""
        with torch.random.fork_rng(devices=[]):
            module = self.network()
            _refuse_parameters(module)
            sample = self._sample(module)
            module.eval()
            with torch.no_grad(), _refusing(self):
                _refuse_draws(module, sample)
                layers, last = _layers(module, sample, self.outputs)
            if self.dropout is not None:
                insert(module, self.dropout.where, layers)
            module.droppers = tuple(droppers(module))
            with torch.no_grad():
                sites = site_shapes(module, sample)
        stackable(module)
        for parameter in module.parameters():
            parameter.requires_grad_(False)
        return Template(module, tuple(sites), tuple(layers), last)


@contextmanager
def _refusing(recipe: Recipe) -> Iterator[None]:
    """A network that cannot read its inputs says so in one line."""
    try:
        yield
    except CalibrantError:
        raise
    except Exception as error:
        raise UsageError(
            f"network {recipe.architecture.name}",
            expected=f"a network that takes rows of shape {recipe.shape}",
            came=f"it failed on some of them: {plain(str(error), 160)}",
            do="choose a network for this task, or mend its forward()",
        ) from error


def _refuse_parameters(module: nn.Module) -> None:
    """Every member is initialised anew and trained whole."""
    for name, value in module.named_parameters():
        if isinstance(value, nn.parameter.UninitializedParameter):
            came, do = "it has no shape yet (a lazy layer)", "give layers their sizes"
        elif not value.requires_grad:
            came, do = "it is frozen", "unfreeze it, or compute fixed features before and give them as x"
        else:
            continue
        raise UsageError(f"parameter {name}", expected="one that can be initialised and trained", came=came, do=do)


def _refuse_draws(module: nn.Module, sample: Tensor) -> None:
    """Random numbers inside a network would differ from row to row: a member is one function for all rows."""
    before = torch.get_rng_state()
    module.train()
    module(sample)
    module.eval()
    if not torch.equal(before, torch.get_rng_state()):
        raise UsageError(
            "network",
            expected="a network that draws no random numbers of its own",
            came="it draws some in training: torch.nn.functional.dropout, perhaps, or noise",
            do="use nn.Dropout layers, which are given one mask for each member",
        )


def _layers(module: nn.Module, sample: Tensor, outputs: int) -> tuple[list[str], str | None]:
    """Dense and convolutional layers in the order of computing, and the one that gives the network's output."""
    order: list[str] = []
    again: set[str] = set()
    made: dict[str, Tensor] = {}

    def note(name: str, output: Tensor) -> None:
        again.update({name} & set(order))
        if name not in order:
            order.append(name)
        made[name] = output

    hooks = [
        child.register_forward_hook(lambda m, inputs, output, name=name: note(name, output))
        for name, child in module.named_modules()
        if isinstance(child, LAYERS)
    ]
    try:
        output = module(sample)
    finally:
        for hook in hooks:
            hook.remove()
    if not isinstance(output, Tensor) or output.shape != (len(sample), outputs):
        came = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise UsageError(
            "network",
            expected=f"{outputs} outputs a row: shape (n, {outputs})",
            came=f"it gives {came} for {len(sample)} rows",
            do="give it as many outputs as the likelihood needs: a logit for each class; mean and spread of a number",
        )
    return order, next((name for name in order if made[name] is output and name not in again), None)


def is_mask(name: str) -> bool:
    """Whether a tensor of this name is a mask of dropout."""
    return name.rpartition(".")[2].startswith(MASK)
