"""A posterior: as many networks as one asks for, each a function of (seed, k) that is applied to all rows.

A *member* is a network with its tensors: weights, statistics of batch normalisation, masks of dropout. Members of every
method are of this one kind, and `predict` knows nothing else. What a posterior keeps, and how it makes the tensors of
member k from it, is all that methods differ in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.func import functional_call

from calibrant.errors import ShapeError, TrainingError, UsageError, ValuesError
from calibrant.methods.costs import Cost
from calibrant.networks.recipe import Recipe, Template
from calibrant.networks.stack import State
from calibrant.predictions import Classification, Regression
from calibrant.training.augmenting import Augmentation
from calibrant.training.likelihoods import Likelihood, Scale
from calibrant.training.settings import counted, device_of, reproducible
from calibrant.training.task import as_tensor

ROWS_AT_ONCE = 1024
USUAL_MEMBERS = 50
"""Members that are asked of a posterior without end when nobody says how many."""


@dataclass(frozen=True)
class Member:
    """One network, applied to all rows alike. vary: the variation (1, 3) of images that it looks at."""

    template: Template
    tensors: State
    augment: Augmentation | None = None
    vary: Tensor | None = None

    @torch.no_grad()
    def __call__(self, x: Any, *, device: str | torch.device = "auto", batch: int = ROWS_AT_ONCE) -> Tensor:
        """Outputs (n, O) of raw rows (n, …)."""
        where = device_of(device)
        tensors = {name: value.to(where) for name, value in self.tensors.items()}
        module = self.template.module.to(where).eval()
        rows = torch.as_tensor(x)
        parts = [functional_call(module, tensors, (self.seen(part.to(where)),)).cpu() for part in rows.split(batch)]
        return torch.cat(parts)

    def seen(self, x: Tensor) -> Tensor:
        """The rows as this member looks at them."""
        if self.augment is None or self.vary is None:
            return x
        rows = torch.arange(len(x), device=x.device)
        return self.augment.cut(self.augment.bordered(x), rows, self.vary.to(x.device).expand(len(x), 3))

    @property
    def scale(self) -> Scale:
        """What y is standardised by."""
        return Scale(self.tensors["y_mean"], self.tensors["y_std"])


@dataclass(frozen=True)
class About:
    """Where a posterior comes from: its method and settings, the task, how training went, and what it costs."""

    method: str
    settings: Mapping[str, Any]
    task: str
    n: int
    history: tuple[Mapping[str, Any], ...] = ()
    seconds: float = 0.0
    device: str = "cpu"
    cost: Cost | None = None

    def told(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {**vars(self), "history": list(self.history), "cost": None if self.cost is None else vars(self.cost)}

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> About:
        """What JSON told."""
        rest = dict(told)
        cost = rest.pop("cost", None)
        return cls(**{**rest, "history": tuple(rest.pop("history", ()))}, cost=None if cost is None else Cost(**cost))


class Posterior(ABC):
    """What a method leaves: members without number, or as many as were trained."""

    kind: ClassVar[str]
    shares_features: bool = False
    """Whether members differ in the last layer alone, so that the rest is computed once for all of them."""

    how_to_get_more: ClassVar[str] = "ask for fewer, or train more"

    def __init__(
        self, recipe: Recipe, likelihood: Likelihood, seed: int, about: About, template: Template | None = None
    ) -> None:
        """template: that of the recipe, where there is one already; posteriors may share it."""
        self.recipe, self.likelihood, self.seed, self.about = recipe, likelihood, seed, about
        self.template = recipe.template() if template is None else template

    # ----------------------------------------------------------------------------- what methods say
    @abstractmethod
    def tensors(self, k: int) -> State:
        """The tensors of member k, the same whenever it is asked for."""

    @property
    @abstractmethod
    def most(self) -> int | None:
        """How many members there are; None: as many as one likes."""

    @abstractmethod
    def kept(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What a file holds: named tensors, and settings as JSON has them."""

    @classmethod
    @abstractmethod
    def of_kept(cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **known: Any) -> Posterior:
        """The posterior of what a file held; `known` are the arguments of `__init__`."""

    # ------------------------------------------------------------------------------------ members
    def member(self, k: int) -> Member:
        """Member k, from 0."""
        return Member(self.template, self.tensors(self._known(k)))

    def _known(self, k: int) -> int:
        """A number of a member that there is."""
        number = counted("member", k, least=0)
        if self.most is not None and number >= self.most:
            raise UsageError(
                "member", expected=f"a number from 0 to {self.most - 1}", came=f"got {k}", do="choose one of those"
            )
        return number

    def module(self, k: int = 0) -> torch.nn.Module:
        """Member k as an ordinary network that takes raw rows, with its weights in it."""
        module = self.recipe.template().module.to(self.dtype)
        known = dict(module.named_parameters())
        for name, value in self.member(k).tensors.items():
            if name in known:
                known[name].data.copy_(value)  # in place: layers may share it
            else:
                owner, _, leaf = name.rpartition(".")
                module.get_submodule(owner)._buffers[leaf] = value.clone()
        return module.requires_grad_(True).eval()

    def predict(
        self,
        x: Any,
        members: int | None = None,
        *,
        y: Any = None,
        batch: int = ROWS_AT_ONCE,
        device: str | torch.device = "auto",
        **known: Any,
    ) -> Classification | Regression:
        """Predictions of the first `members` members for raw rows x (n, …); y: what is known to be true.

        known: names, ids, weights and columns of the predictions. The method's name and seed stand in their `meta`.
        """
        rows = self._rows(x)
        count, batch = self._count(members), counted("batch", batch)
        if "labels" in known:
            raise UsageError("predict", expected="what is true as y=", came="it came as labels=", do="say y=labels")
        with reproducible():
            outputs, scales = self.outputs(rows, count, batch=batch, device=device)
        if not bool(torch.isfinite(outputs).all()):
            raise TrainingError(
                "predict",
                expected="members that give finite numbers",
                came="some do not: they diverged in training, or in a draw",
                do="see about.history, and train with a lower rate or with clip",
            )
        meta = {"method": self.about.method, "task": self.about.task, "seed": self.seed, **known.pop("meta", {})}
        known.setdefault("name", self.about.method)
        return self.likelihood.predictions(outputs, scales, y, meta=meta, **known)

    def outputs(
        self, rows: Tensor, count: int, *, batch: int = ROWS_AT_ONCE, device: str | torch.device = "auto"
    ) -> tuple[Tensor, Scale]:
        """Outputs (M, n, O) of the first members, and what each of them standardises y by."""
        where = device_of(device)
        shared = self.shares_features and self.template.last is not None
        made = list(
            self._from_features(rows, count, batch, where) if shared else self._one_by_one(rows, count, batch, where)
        )
        scale = Scale(*(torch.stack([getattr(each, part) for _, each in made]) for part in ("mean", "std")))
        return torch.stack([outputs for outputs, _ in made]), scale

    def _one_by_one(self, rows: Tensor, count: int, batch: int, where: torch.device) -> Iterator[tuple[Tensor, Scale]]:
        for k in range(count):
            member = self.member(k)
            yield member(rows, device=where, batch=batch), member.scale

    @torch.no_grad()
    def _from_features(
        self, rows: Tensor, count: int, batch: int, where: torch.device
    ) -> Iterator[tuple[Tensor, Scale]]:
        """The inputs of the last layer once, and the last layer of each member."""
        first = self.member(0)
        name = str(self.template.last)
        features = torch.cat(list(inputs_of(first, name, rows, batch, where)))
        layer = self.template.module.get_submodule(name)
        for k in range(count):
            member = first if k == 0 else self.member(k)
            own = {
                key: member.tensors[f"{name}.{key}"].to(where)
                for key in _own(layer)
                if f"{name}.{key}" in member.tensors
            }
            parts = [_alone(layer, own, part.to(where)).cpu() for part in features.split(batch)]
            yield torch.cat(parts), member.scale

    # ------------------------------------------------------------------------------------- checks
    def _rows(self, x: Any) -> Tensor:
        rows = as_tensor(x, "x")
        if tuple(rows.shape[1:]) != self.recipe.shape or not len(rows):
            raise ShapeError(
                "x",
                expected=f"rows of shape {self.recipe.shape}, as in training, at least one",
                came=f"its shape is {tuple(rows.shape)}",
                do="put rows first, and prepare them as those of training",
            )
        if rows.is_floating_point():
            if not bool(torch.isfinite(rows).all()):
                raise ValuesError("x", expected="finite numbers", came="some are not", do="fill in what is missing")
            wide = self.recipe.standardises and self.recipe.x_dtype == torch.float64
            rows = rows.to(torch.float64 if wide else self.dtype)
        elif self.recipe.x_dtype.is_floating_point and not self.recipe.standardises:
            rows = rows.to(self.dtype)
        return rows

    @cached_property
    def dtype(self) -> torch.dtype:
        """What weights are kept in."""
        return self.tensors(0)["y_std"].dtype

    def _count(self, members: int | None) -> int:
        count = (self.most or USUAL_MEMBERS) if members is None else counted("members", members)
        if self.most is not None and count > self.most:
            raise UsageError(
                "members", expected=f"a number from 1 to {self.most}", came=f"got {members}", do=self.how_to_get_more
            )
        return count

    # -------------------------------------------------------------------------------------- files
    def save(self, path: str | Path) -> Path:
        """Write the posterior to a safetensors file; `calibrant.methods.load` gives it back."""
        from calibrant.methods.storing import save

        return save(self, Path(path))

    def __repr__(self) -> str:
        count = f"{self.most} member{'s' * (self.most != 1)}" if self.most is not None else "any number of members"
        return f"{type(self).__name__}({self.about.method!r}, {count}, {self.about.task!r}, seed={self.seed})"


def _alone(layer: torch.nn.Module, tensors: State, x: Tensor) -> Tensor:
    if "passed" in vars(layer):
        layer.passed = 0
    return functional_call(layer, tensors, (x,))


def _own(layer: torch.nn.Module) -> list[str]:
    return [*(name for name, _ in layer.named_parameters()), *(name for name, _ in layer.named_buffers())]


@torch.no_grad()
def inputs_of(member: Member, layer: str, rows: Tensor, batch: int, where: torch.device) -> Iterator[Tensor]:
    """What arrives at a layer, before dropout, block by block."""
    module = member.template.module.to(where).eval()
    tensors = {name: value.to(where) for name, value in member.tensors.items()}

    def arrive(layer: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        raise _Arrived(inputs[0].detach())

    hook = module.get_submodule(layer).register_forward_pre_hook(arrive, prepend=True)
    try:
        for part in rows.split(batch):
            try:
                functional_call(module, tensors, (member.seen(part.to(where)),))
            except _Arrived as arrived:
                yield arrived.args[0].cpu()
    finally:
        hook.remove()


class _Arrived(Exception):
    """What was waited for is there, and the rest need not be computed."""


@dataclass
class Kept:
    """Named tensors in groups, as files hold them: group/name."""

    groups: dict[str, State] = field(default_factory=dict)

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Kept:
        """The groups of flat names."""
        made = cls()
        for key, value in tensors.items():
            group, _, name = key.partition("/")
            made.groups.setdefault(group, {})[name] = value
        return made

    def flat(self) -> dict[str, Tensor]:
        """group/name: tensor."""
        return {f"{group}/{name}": value for group, state in self.groups.items() for name, value in state.items()}

    def numbered(self, head: str) -> list[State]:
        """The groups head0, head1, …, in order."""
        found = sorted(
            int(group[len(head) :]) for group in self.groups if group.startswith(head) and group[len(head) :].isdigit()
        )
        return [self.groups[f"{head}{k}"] for k in found]
