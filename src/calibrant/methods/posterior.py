"""Posteriors: distributions over functions. Member k is a function of (seed, k) and is applied to all rows.

A posterior has the `outputs` of its members, from which `predict` makes predictions. How it computes them is its own
affair: of a `WeightPosterior`, a member is a network with its tensors (weights, batch-norm statistics, dropout masks);
others hold several posteriors, or linearise a network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.func import functional_call

from calibrant.errors import FileError, ShapeError, TrainingError, UsageError, ValuesError
from calibrant.methods.costs import Cost
from calibrant.networks.fields import pack
from calibrant.networks.recipe import Recipe, Template
from calibrant.networks.stack import State
from calibrant.predictions import Classification, Regression
from calibrant.training.augmentation import Augmentation
from calibrant.training.likelihoods import Likelihood, Scale
from calibrant.training.settings import check_count, deterministic_kernels, resolve_device
from calibrant.training.task import as_tensor

ROWS_AT_ONCE = 1024
DEFAULT_MEMBERS = 50
"""The default number of members of a posterior with any number of them."""


@dataclass(frozen=True)
class Member:
    """One network. vary: its variation (1, 3) of images, if it is augmented."""

    template: Template
    tensors: State
    augment: Augmentation | None = None
    vary: Tensor | None = None

    @torch.no_grad()
    def __call__(self, x: Any, *, device: str | torch.device = "auto", batch: int = ROWS_AT_ONCE) -> Tensor:
        """Outputs (n, O) of raw rows (n, …)."""
        where = resolve_device(device)
        tensors = {name: value.to(where) for name, value in self.tensors.items()}
        module = self.template.module.to(where).eval()
        rows = pack(x, self.template.module.fields) if isinstance(x, Mapping) else torch.as_tensor(x)
        parts = [
            functional_call(module, tensors, (self.augmented(part.to(where)),)).cpu() for part in rows.split(batch)
        ]
        return torch.cat(parts)

    def augmented(self, x: Tensor) -> Tensor:
        """The rows in this member's variation."""
        if self.augment is None or self.vary is None:
            return x
        rows = torch.arange(len(x), device=x.device)
        return self.augment.cut(self.augment.pad_images(x), rows, self.vary.to(x.device).expand(len(x), 3))

    @property
    def scale(self) -> Scale:
        """Mean and standard deviation by which y is standardised."""
        return Scale(self.tensors["y_mean"], self.tensors["y_std"])


@dataclass(frozen=True)
class About:
    """The origin of a posterior: method, settings, task, training history and cost."""

    method: str
    settings: Mapping[str, Any]
    task: str
    n: int
    history: tuple[Mapping[str, Any], ...] = ()
    seconds: float = 0.0
    device: str = "cpu"
    cost: Cost | None = None

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON values."""
        return {**vars(self), "history": list(self.history), "cost": None if self.cost is None else vars(self.cost)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> About:
        """The inverse of `to_json`."""
        rest = dict(data)
        cost = rest.pop("cost", None)
        return cls(**{**rest, "history": tuple(rest.pop("history", ()))}, cost=None if cost is None else Cost(**cost))


class Posterior(ABC):
    """A distribution over functions: any number of members, or as many as were trained.

    A subclass needs `outputs`, `max_members`, `dtype`, `state_dict` and `from_state_dict`.
    """

    kind: ClassVar[str]
    shares_features: bool = False
    """Whether members differ only in the last layer, so that the other layers are computed once."""

    more_members_hint: ClassVar[str] = "ask for fewer, or train more"

    def __init__(
        self, recipe: Recipe, likelihood: Likelihood, seed: int, about: About, template: Template | None = None
    ) -> None:
        """template: the template of the recipe, if it exists already; posteriors may share it."""
        self.recipe, self.likelihood, self.seed, self.about = recipe, likelihood, seed, about
        self.template = recipe.template() if template is None else template

    # ----------------------------------------------------------------------------- for subclasses
    @abstractmethod
    def outputs(
        self, x: Tensor, members: int, *, batch: int = ROWS_AT_ONCE, device: str | torch.device = "auto"
    ) -> tuple[Tensor, Scale]:
        """Outputs (M, n, O) of the first members for rows x, and the scale of y of each."""

    @property
    @abstractmethod
    def max_members(self) -> int | None:
        """The number of members; None for any number."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""

    @abstractmethod
    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The content of a file: named tensors, and settings as JSON values."""

    @classmethod
    @abstractmethod
    def from_state_dict(cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **kwargs: Any) -> Posterior:
        """The inverse of `state_dict`; `kwargs` are the arguments of `__init__`."""

    # ------------------------------------------------------------------------------------ members
    def member(self, k: int) -> Callable[..., Tensor]:
        """Member k, from 0: a function from raw rows (n, …) to outputs (n, O)."""
        number = self._check_member(k)

        def function(x: Any, *, device: str | torch.device = "auto", batch: int = ROWS_AT_ONCE) -> Tensor:
            return self.outputs(torch.as_tensor(x), number + 1, batch=batch, device=device)[0][number]

        return function

    def _check_member(self, k: int) -> int:
        number = check_count("member", k, least=0)
        if self.max_members is not None and number >= self.max_members:
            expected, hint = f"a number from 0 to {self.max_members - 1}", "count members from 0"
            raise UsageError("member", expected=expected, got=f"{k}", hint=hint)
        return number

    def module(self, k: int = 0) -> torch.nn.Module:
        """Member k as an ordinary `nn.Module` that takes raw rows."""
        hint = "use posterior.member(k), a function of rows"
        raise UsageError("module", expected="a posterior whose members are networks", got=self.kind, hint=hint)

    def predict(
        self,
        x: Any,
        members: int | None = None,
        *,
        y: Any = None,
        batch: int = ROWS_AT_ONCE,
        device: str | torch.device = "auto",
        **kwargs: Any,
    ) -> Classification | Regression:
        """Predictions of the first members.

        Parameters
        ----------
        x : array_like of shape (n, …)
            Raw rows, as in training; a mapping if it was one.
        members : int, optional
            The number of members; by default all of them, or 50.
        y : array_like of shape (n,), optional
            Labels or outcomes.
        batch : int
            Rows computed at a time.
        device : str or torch.device
            "auto" uses a GPU if there is one.
        **kwargs
            `classes`, `ids`, `weights`, `columns`, `meta` and `name` of the predictions.

        Returns
        -------
        Classification or Regression
            With the method's name and seed in `meta`.
        """
        rows = self._rows(x)
        count, batch = self._count(members), check_count("batch", batch)
        if "labels" in kwargs:
            raise UsageError("predict", expected="labels as y=…", got="labels=…", hint="write y=labels")
        with deterministic_kernels():
            outputs, standardisation = self.outputs(rows, count, batch=batch, device=device)
        if not bool(torch.isfinite(outputs).all()):
            got = "NaN or infinity: members diverged in training or in a draw"
            hint = "look at posterior.about.history, and train with a lower rate or with clip=1.0"
            raise TrainingError("predict", expected="finite outputs of all members", got=got, hint=hint)
        meta = {"method": self.about.method, "task": self.about.task, "seed": self.seed, **kwargs.pop("meta", {})}
        kwargs.setdefault("name", self.about.method)
        return self.likelihood.predictions(outputs, standardisation, y, meta=meta, **kwargs)

    # ------------------------------------------------------------------------------------- checks
    def _rows(self, x: Any) -> Tensor:
        if isinstance(x, Mapping):
            x = pack({key: as_tensor(value, f"x, {key}") for key, value in x.items()}, self.recipe.fields)
        rows = as_tensor(x, "x")
        if tuple(rows.shape[1:]) != self.recipe.shape or not len(rows):
            expected = f"at least one row of shape {self.recipe.shape}, as in training"
            hint = "put rows first, and preprocess them as in training"
            raise ShapeError("x", expected=expected, got=f"shape {tuple(rows.shape)}", hint=hint)
        if rows.is_floating_point():
            if not bool(torch.isfinite(rows).all()):
                hint = "impute or drop missing values"
                raise ValuesError("x", expected="finite numbers", got="NaN or infinity", hint=hint)
            wide = self.recipe.standardises and self.recipe.x_dtype == torch.float64
            rows = rows.to(torch.float64 if wide else self.dtype)
        elif self.recipe.x_dtype.is_floating_point and not self.recipe.standardises:
            rows = rows.to(self.dtype)
        return rows

    def _count(self, members: int | None) -> int:
        count = (self.max_members or DEFAULT_MEMBERS) if members is None else check_count("members", members)
        if self.max_members is not None and count > self.max_members:
            expected = f"a number from 1 to {self.max_members}"
            raise UsageError("members", expected=expected, got=f"{members}", hint=self.more_members_hint)
        return count

    # -------------------------------------------------------------------------------------- files
    def save(self, path: str | Path) -> Path:
        """Write the posterior to a safetensors file, for `calibrant.methods.load`."""
        from calibrant.methods.serialization import save

        return save(self, Path(path))

    def __repr__(self) -> str:
        count = f"{self.max_members} member{'s' * (self.max_members != 1)}"
        count = "any number of members" if self.max_members is None else count
        return f"{type(self).__name__}({self.about.method!r}, {count}, {self.about.task!r}, seed={self.seed})"


class WeightPosterior(Posterior):
    """A posterior whose members are networks: the template with the tensors of each. A subclass needs `tensors`."""

    @abstractmethod
    def tensors(self, k: int) -> State:
        """The tensors of member k, the same in every call."""

    def member(self, k: int) -> Member:
        """Member k, from 0."""
        return Member(self.template, self.tensors(self._check_member(k)))

    def module(self, k: int = 0) -> torch.nn.Module:
        """Member k as an ordinary `nn.Module` that takes raw rows."""
        module = self.recipe.template().module.to(self.dtype)
        load_tensors(module, self.member(k).tensors)
        return module.requires_grad_(True).eval()

    @cached_property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return self.tensors(0)["y_std"].dtype

    def outputs(
        self, x: Tensor, members: int, *, batch: int = ROWS_AT_ONCE, device: str | torch.device = "auto"
    ) -> tuple[Tensor, Scale]:
        """Outputs (M, n, O) of the first members, and the scale of y of each."""
        where = resolve_device(device)
        if self.shares_features and self.template.last is not None:
            pairs = list(self._from_features(x, members, batch, where))
        else:
            networks = (self.member(k) for k in range(members))
            pairs = [(member(x, device=where, batch=batch), member.scale) for member in networks]
        scale = Scale(*(torch.stack([getattr(each, part) for _, each in pairs]) for part in ("mean", "std")))
        return torch.stack([outputs for outputs, _ in pairs]), scale

    @torch.no_grad()
    def _from_features(
        self, rows: Tensor, count: int, batch: int, where: torch.device
    ) -> Iterator[tuple[Tensor, Scale]]:
        """Compute the inputs of the last layer once, and the last layer of each member."""
        first = self.member(0)
        name = str(self.template.last)
        features = torch.cat(list(inputs_of(first, name, rows, batch, where)))
        layer = self.template.module.get_submodule(name)
        for k in range(count):
            member = first if k == 0 else self.member(k)
            keys = [key for key, _ in (*layer.named_parameters(), *layer.named_buffers())]
            names = {key: f"{name}.{key}" for key in keys if f"{name}.{key}" in member.tensors}
            tensors = {key: member.tensors[full].to(where) for key, full in names.items()}
            parts = []
            for part in features.split(batch):
                if "calls" in vars(layer):  # a site of dropout
                    layer.calls = 0
                parts.append(functional_call(layer, tensors, (part.to(where),)).cpu())
            yield torch.cat(parts), member.scale


def load_tensors(module: torch.nn.Module, tensors: State) -> None:
    """Copy named tensors into the parameters and buffers of a network."""
    parameters = dict(module.named_parameters())
    for name, value in tensors.items():
        if name in parameters:
            parameters[name].data.copy_(value)  # in place, as layers may share it
        else:
            owner, _, leaf = name.rpartition(".")
            module.get_submodule(owner)._buffers[leaf] = value.clone()


@torch.no_grad()
def inputs_of(member: Member, layer: str, rows: Tensor, batch: int, where: torch.device) -> Iterator[Tensor]:
    """The inputs of a layer, before dropout, block by block."""
    module = member.template.module.to(where).eval()
    tensors = {name: value.to(where) for name, value in member.tensors.items()}

    def stop(layer: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        raise _StopForward(inputs[0].detach())

    hook = module.get_submodule(layer).register_forward_pre_hook(stop, prepend=True)
    try:
        for part in rows.split(batch):
            try:
                functional_call(module, tensors, (member.augmented(part.to(where)),))
            except _StopForward as stopped:
                yield stopped.args[0].cpu()
    finally:
        hook.remove()


class _StopForward(Exception):
    """Ends a forward pass at a layer; the argument is the layer's input."""


@dataclass
class TensorGroups:
    """Named tensors in groups, stored as group/name."""

    groups: dict[str, State] = field(default_factory=dict)

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> TensorGroups:
        """From flat names."""
        groups: dict[str, State] = {}
        for key, value in tensors.items():
            group, _, name = key.partition("/")
            groups.setdefault(group, {})[name] = value
        return cls(groups)

    def flat(self) -> dict[str, Tensor]:
        """Tensors by flat names."""
        return {f"{group}/{name}": value for group, state in self.groups.items() for name, value in state.items()}

    def numbered(self, head: str) -> list[State]:
        """The groups head0, head1, …, in order."""
        endings = [group[len(head) :] for group in self.groups if group.startswith(head)]
        return [self.groups[f"{head}{k}"] for k in sorted(int(ending) for ending in endings if ending.isdigit())]


class WeightSamples(WeightPosterior):
    """Separate networks, each a member: single networks, ensembles, snapshots."""

    kind: ClassVar[str] = "points"

    def __init__(self, states: list[State], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not states:
            raise FileError("posterior", expected="at least one network", got="none", hint="train it again")
        self.states = states

    def tensors(self, k: int) -> State:
        """The k-th network."""
        return self.states[k]

    @property
    def max_members(self) -> int:
        """The number of networks."""
        return len(self.states)

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All networks."""
        return TensorGroups({f"member{k}": state for k, state in enumerate(self.states)}).flat(), {}

    @classmethod
    def from_state_dict(
        cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **kwargs: Any
    ) -> WeightSamples:
        """The inverse of `state_dict`."""
        return cls(TensorGroups.of(tensors).numbered("member"), **kwargs)
