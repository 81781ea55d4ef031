"""Turn an architecture into a network for methods: standardised inputs, dropout sites, and a list of its layers."""

from __future__ import annotations

import fnmatch
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from calibrant.errors import CalibrantError, UsageError, did_you_mean, plain
from calibrant.networks.architecture import Architecture
from calibrant.networks.batch_norm import KINDS as BATCH_NORMS
from calibrant.networks.batch_norm import make_stackable
from calibrant.networks.content import content, layers_content
from calibrant.networks.dropout import (
    LAYERS,
    MASK,
    Dropout,
    Site,
    dropout_modules,
    insert,
    replace_dropout,
    trace_sites,
)
from calibrant.networks.fields import Field, pack, unpack
from calibrant.networks.mixed_precision import make_castable
from calibrant.networks.user_module import UserModule

SCALES = ("x_mean", "x_std", "y_mean", "y_std")
SAMPLE = 3
"""Rows of the trial forward pass: a size that no other axis is likely to have."""


class StandardisedNetwork(nn.Module):  # type: ignore[misc]
    """A network that standardises its inputs; its buffers also store the standardisation of y."""

    def __init__(self, inner: nn.Module, standardises: bool, fields: tuple[Field, ...] = ()) -> None:
        """fields: of inputs that are a mapping, which the network takes as keyword arguments."""
        super().__init__()
        self.inner, self.standardises, self.fields = inner, standardises, fields
        self.dropout_modules: tuple[nn.Module, ...] = ()
        for name in SCALES:
            self.register_buffer(name, torch.ones(()) if name.endswith("std") else torch.zeros(()))

    def forward(self, x: Tensor | Mapping[str, Tensor]) -> Tensor:
        """Outputs for raw inputs."""
        if isinstance(x, Mapping):
            x = pack(x, self.fields)
        for module in self.dropout_modules:
            module.calls = 0
        if self.standardises:
            x = ((x.to(self.x_mean.dtype) - self.x_mean) / self.x_std).to(self.y_std.dtype)
        return self.inner(**unpack(x, self.fields)) if self.fields else self.inner(x)


@dataclass(frozen=True)
class Template:
    """A network whose weights are passed in, with its dropout sites and layers.

    layers: names of dense and convolutional layers in order of execution; last: the one whose output is the network's;
    trained: names of the parameters that are trained; the others are frozen.
    """

    module: StandardisedNetwork
    sites: tuple[Site, ...]
    layers: tuple[str, ...]
    last: str | None
    trained: tuple[str, ...]

    @cached_property
    def frozen(self) -> tuple[str, ...]:
        """The names of the parameters that are not trained."""
        return tuple(name for name, _ in self.module.named_parameters() if name not in set(self.trained))

    @cached_property
    def frozen_norms(self) -> list[nn.Module]:
        """The batch-norm layers of frozen parts, which keep their statistics in training."""
        if not self.frozen:
            return []
        owners = {name.rpartition(".")[0] for name in self.trained}
        modules = dict(self.module.named_modules())
        return [each for name, each in modules.items() if name not in owners and isinstance(each, BATCH_NORMS)]

    @property
    def has_batch_norm(self) -> bool:
        """Whether the network has batch norm with running statistics."""
        return any(name.endswith("running_mean") for name, _ in self.module.named_buffers())


@dataclass(frozen=True)
class Recipe:
    """How to build a network: architecture, number of outputs, dropout, and the shape and dtype of a row of x.

    train: "all" parameters that are not frozen, those of the "last" layer, or those whose names match patterns. fields:
    of inputs that are a mapping.
    """

    architecture: Architecture
    outputs: int
    shape: tuple[int, ...]
    x_dtype: torch.dtype = torch.float32
    standardises: bool = True
    dropout: Dropout | None = None
    train: str | tuple[str, ...] = "all"
    fields: tuple[Field, ...] = ()

    @property
    def given(self) -> bool:
        """Whether the network starts from the weights that the user gave, in the user's units of x and y."""
        return isinstance(self.architecture, UserModule) and self.architecture.start == "given"

    def network(self) -> StandardisedNetwork:
        """A newly initialised network, from PyTorch's global random generator."""
        inner = self.architecture.build().cpu()
        replace_dropout(inner)
        return StandardisedNetwork(inner, self.standardises, self.fields)

    def content(self, template: Template) -> dict[str, Any]:
        """What identifies the network; template: that of this recipe."""
        own = None if is_dataclass(self.architecture) else layers_content(template.module.inner)
        return {
            "architecture": content(self.architecture) if own is None else own,
            "outputs": self.outputs,
            "dropout": content(self.dropout),
            **({} if self.train == "all" else {"train": list(template.trained)}),
            **({"given": _checksum(template.module.inner)} if self.given else {}),
            **({"fields": content(self.fields)} if self.fields else {}),
        }

    def _sample(self, module: nn.Module) -> Tensor:
        """Rows of zeros, in the dtype of the network unless it standardises its inputs itself."""
        rows = torch.zeros((SAMPLE, *self.shape), dtype=self.x_dtype)
        own = [value.dtype for value in module.parameters() if value.is_floating_point()]
        if own:
            module.to(own[0])
        return rows.to(own[0]) if own and rows.is_floating_point() and not self.standardises else rows

    def template(self) -> Template:
        """The network that weights are passed to; unsupported networks raise `UsageError` here, before training."""
        with torch.random.fork_rng(devices=[]):
            module = self.network()
            _check_parameters(module, self.given)
            sample = self._sample(module)
            module.eval()
            with torch.no_grad(), _forward_errors(self):
                _check_deterministic(module, sample)
                layers, last = _layers(module, sample, self.outputs)
            if self.dropout is not None:
                insert(module, self.dropout.where, layers)
            module.dropout_modules = tuple(dropout_modules(module))
            with torch.no_grad():
                sites = trace_sites(module, sample)
        trained = _trained(module, self.train, last)
        make_stackable(module)
        make_castable(module)
        for parameter in module.parameters():
            parameter.requires_grad_(False)
        return Template(module, tuple(sites), tuple(layers), last, trained)


def _checksum(module: nn.Module) -> int:
    """A checksum of all weights and buffers of a network."""
    found = 0
    for _, value in sorted(module.state_dict().items()):
        flat = value.detach().cpu().contiguous().reshape(-1)
        found = zlib.crc32(memoryview(flat.view(torch.uint8).numpy()), found) if len(flat) else found
    return found


@contextmanager
def _forward_errors(recipe: Recipe) -> Iterator[None]:
    """Convert any exception of a forward pass into a one-line `UsageError`."""
    try:
        yield
    except CalibrantError:
        raise
    except Exception as error:
        raise UsageError(
            f"network {recipe.architecture.name}",
            expected=f"a network that takes rows of shape {recipe.shape}",
            got=f"an error: {plain(str(error), 160)}",
            hint="use a network for rows of this shape, or fix its forward()",
        ) from error


def _check_parameters(module: nn.Module, given: bool) -> None:
    """Raise `UsageError` for lazy parameters, and for frozen ones that would be initialised anew."""
    for name, value in module.named_parameters():
        if isinstance(value, nn.parameter.UninitializedParameter):
            got, hint = "one without a shape (a lazy layer)", "use layers with explicit sizes"
        elif not value.requires_grad and not given:
            got, hint = "a frozen one", "unfreeze it, or keep its weights with start='given'"
        else:
            continue
        raise UsageError(f"parameter {name}", expected="one that can be initialised and trained", got=got, hint=hint)


def _trained(module: nn.Module, train: str | tuple[str, ...], last: str | None) -> tuple[str, ...]:
    """The names of the parameters that are trained."""
    names = [name for name, value in module.named_parameters() if value.requires_grad]
    if train == "last":
        if last is None:
            hint = "name its parameters: train=('head.*',)"
            expected = "a network that returns the output of its last layer"
            raise UsageError("train='last'", expected=expected, got="another network", hint=hint)
        names = [name for name, _ in module.named_parameters() if name.rpartition(".")[0] == last]
    elif train != "all":
        known = [name.removeprefix("inner.") for name, _ in module.named_parameters()]
        patterns = (train,) if isinstance(train, str) else train
        for pattern in patterns:
            if not fnmatch.filter(known, pattern):
                expected = "'all', 'last', or patterns of names of parameters"
                hint = did_you_mean(pattern, known) or f"use for example train=('{known[-1]}',)"
                raise UsageError("train", expected=expected, got=repr(pattern), hint=hint)
        names = [f"inner.{name}" for name in known if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    if not names:
        hint = "unfreeze some, or name them: train=('head.*',)"
        raise UsageError("train", expected="a network with parameters to train", got="frozen ones only", hint=hint)
    return tuple(names)


def _check_deterministic(module: nn.Module, sample: Tensor) -> None:
    """Raise `UsageError` for random numbers in forward(): a member must be the same function for all rows."""
    before = torch.get_rng_state()
    module.train()
    module(sample)
    module.eval()
    if not torch.equal(before, torch.get_rng_state()):
        got = "one that does, such as torch.nn.functional.dropout or noise"
        hint = "use nn.Dropout layers, which get one mask per member"
        raise UsageError("network", expected="a network without random numbers in forward()", got=got, hint=hint)


def _layers(module: nn.Module, sample: Tensor, outputs: int) -> tuple[list[str], str | None]:
    """Dense and convolutional layers in order of execution, and the one whose output is the network's."""
    order: list[str] = []
    repeated: set[str] = set()
    output_of: dict[str, Tensor] = {}

    def note(name: str, output: Tensor) -> None:
        repeated.update({name} & set(order))
        if name not in order:
            order.append(name)
        output_of[name] = output

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
        got = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        got = f"{got} for {len(sample)} rows"
        hint = "match the likelihood: one logit per class, or a mean and a spread for regression"
        raise UsageError("network", expected=f"{outputs} outputs per row: shape (n, {outputs})", got=got, hint=hint)
    return order, next((name for name in order if output_of[name] is output and name not in repeated), None)


def is_mask(name: str) -> bool:
    """Whether a tensor of this name is a dropout mask."""
    return name.rpartition(".")[2].startswith(MASK)
