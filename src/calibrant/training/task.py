"""Tasks: rows x and y, the training and validation rows, and the likelihood.

All rows are in one tensor, also on the device; training and validation rows are indices, so that twenty splits of one
data set share it. Images are (N, C, H, W), raw bytes or floats: networks standardise them by the training rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant.errors import InputError, LabelsError, ShapeError, UsageError, ValuesError, check_range, show
from calibrant.networks.fields import Field, fields_of, pack, whole_columns
from calibrant.training.augmentation import Augmentation
from calibrant.training.likelihoods import Categorical, Gaussian, Likelihood
from calibrant.training.seeds import stream

NONE = torch.zeros(0, dtype=torch.long)
SCALED_AT_ONCE = 1 << 24
"""Elements of x converted to float64 at a time when means and standard deviations are computed."""


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """Data and likelihood of a training task; use `classification` or `regression` to make one.

    Examples
    --------
    >>> from calibrant.methods import Task
    >>> Task.classification([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], classes=2, name="toy").split(0.25)
    Task('toy', Categorical(classes=2), 3 training rows of shape (1,), 1 validation rows)
    """

    x: Tensor
    y: Tensor
    likelihood: Likelihood
    train: Tensor
    validation: Tensor
    augment: Augmentation | None = None
    standardises: bool = True
    name: str = "task"
    fields: tuple[Field, ...] = ()

    # ------------------------------------------------------------------------------- constructors
    @classmethod
    def classification(cls, x: Any, y: Any, *, classes: int, **kwargs: Any) -> Task:
        """A classification task.

        Parameters
        ----------
        x : array_like of shape (N, …), or mapping of names to such
            Tables (N, d) or images (N, C, H, W). The tensors of a mapping are passed to the network as keyword
            arguments.
        y : array_like of shape (N,)
            Class indices from 0.
        classes : int
            The number of classes.
        **kwargs
            As in `build`.

        Returns
        -------
        Task
        """
        labels = as_tensor(y, "y")
        if labels.is_floating_point() or labels.dim() != 1:
            got = f"{str(labels.dtype).removeprefix('torch.')} of shape {tuple(labels.shape)}"
            raise LabelsError("y", expected="integers of shape (N,)", got=got, hint="pass class indices from 0")
        likelihood = Categorical(classes)
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
            got, hint = f"{int(labels.min())} to {int(labels.max())}", "count classes from 0, or raise classes=…"
            raise LabelsError("y", expected=f"class indices from 0 to {classes - 1}", got=got, hint=hint)
        return cls.build(x, labels.long(), likelihood, **kwargs)

    @classmethod
    def regression(cls, x: Any, y: Any, *, likelihood: Likelihood | None = None, **kwargs: Any) -> Task:
        """A regression task.

        Parameters
        ----------
        x : array_like of shape (N, …), or mapping of names to such
            Tables (N, d) or images (N, C, H, W). The tensors of a mapping are passed to the network as keyword
            arguments.
        y : array_like of shape (N,)
            Outcomes.
        likelihood : Likelihood, optional
            By default `Gaussian()`: mean and standard deviation depend on x.
        **kwargs
            As in `build`.

        Returns
        -------
        Task
        """
        numbers = as_tensor(y, "y")
        if numbers.dim() != 1:
            got = f"shape {tuple(numbers.shape)}"
            raise ShapeError("y", expected="shape (N,)", got=got, hint="pass one number per row")
        if not bool(torch.isfinite(numbers).all()):
            hint = "drop the rows without an outcome"
            raise ValuesError("y", expected="finite numbers", got="NaN or infinity", hint=hint)
        chosen = Gaussian() if likelihood is None else likelihood
        return cls.build(x, numbers if numbers.is_floating_point() else numbers.float(), chosen, **kwargs)

    @classmethod
    def build(
        cls,
        x: Any,
        y: Tensor,
        likelihood: Likelihood,
        *,
        train: Any = None,
        validation: Any = None,
        augment: Augmentation | None = None,
        standardise: bool = True,
        name: str = "task",
    ) -> Task:
        """A task of any likelihood.

        Parameters
        ----------
        x : array_like of shape (N, …)
            Rows first.
        y : Tensor of shape (N,)
            Labels or outcomes.
        likelihood : Likelihood
            The distribution of y.
        train, validation : array_like of int or bool, optional
            Row indices or masks; by default all rows that are not for validation are for training.
        augment : Augmentation, optional
            Random variations of training images.
        standardise : bool
            Standardise x by mean and standard deviation of the training rows, per channel of images and per column of
            tables. Use False for token indices.
        name : str
            The name in results.

        Returns
        -------
        Task
        """
        if not isinstance(likelihood, Likelihood):
            hint = "use Gaussian(), an instance"
            raise UsageError("likelihood", expected="a likelihood", got=show(likelihood), hint=hint)
        fields: tuple[Field, ...] = ()
        if isinstance(x, Mapping):
            tensors = {key: as_tensor(value, f"x, {key}") for key, value in x.items()}
            fields = fields_of(tensors)
            rows = pack(tensors, fields)
        else:
            rows = as_tensor(x, "x")
        if rows.dim() < 2 or not len(rows):
            got, hint = f"shape {tuple(rows.shape)}", "put rows first; use x[:, None] for a single column"
            raise ShapeError("x", expected="shape (N, …) with at least one row", got=got, hint=hint)
        if len(rows) != len(y):
            hint = "pass the same rows in x and y"
            raise ShapeError("x", expected=f"{len(y)} rows, as in y", got=f"{len(rows)}", hint=hint)
        if rows.is_floating_point() and not bool(torch.isfinite(rows).all()):
            hint = "impute or drop missing values"
            raise ValuesError("x", expected="finite numbers", got="NaN or infinity", hint=hint)
        return cls(rows, y, likelihood, NONE, NONE, augment, standardise, name, fields).with_rows(train, validation)

    def __repr__(self) -> str:
        parts = f"{self.n} training rows of shape {self.shape}, {len(self.validation)} validation rows"
        return f"Task({self.name!r}, {self.likelihood}, {parts})"

    # ------------------------------------------------------------------------------------- parts
    @property
    def n(self) -> int:
        """The number of training rows."""
        return len(self.train)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row of x."""
        return tuple(self.x.shape[1:])

    def to(self, device: torch.device) -> Task:
        """The task with its rows on a device."""
        on_device = self.x.device == device and self.y.device == device
        return self if on_device else replace(self, x=self.x.to(device), y=self.y.to(device))

    def with_rows(self, train: Any, validation: Any = None) -> Task:
        """The same data with other training and validation rows, given as indices or masks."""
        n = len(self.x)
        validation_rows = NONE if validation is None else _rows(validation, n, "validation")
        others = torch.ones(n, dtype=torch.bool)
        others[validation_rows] = False
        train_rows = others.nonzero()[:, 0] if train is None else _rows(train, n, "train")
        if not len(train_rows):
            hint = "use fewer rows for validation"
            raise InputError("train", expected="at least one training row", got="none", hint=hint)
        if len(np.intersect1d(train_rows.numpy(), validation_rows.numpy())):
            hint = "use task.split(0.1) for a random split"
            raise InputError("validation", expected="rows that are not in train", got="rows in both", hint=hint)
        return replace(self, train=train_rows, validation=validation_rows)

    def split(self, share: float, seed: int = 0) -> Task:
        """Move a random share of the training rows to the validation rows."""
        if len(self.validation):
            got, hint = f"{len(self.validation)} of them", "split once, or use with_rows(train, validation)"
            raise UsageError("split", expected="a task without validation rows", got=got, hint=hint)
        check_range("share", share, 0, 1, inclusive="neither", hint="use task.split(0.1)")
        order = self.train[torch.randperm(self.n, generator=stream(seed, "split"))]
        count = min(max(round(share * self.n), 1), self.n - 1)
        return replace(self, validation=order[:count].sort().values, train=order[count:].sort().values)

    def standardisation(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """Means and standard deviations of the training rows; constant columns have a standard deviation of 1."""
        zero, one = torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype)
        scales = {"x_mean": zero, "x_std": one, "y_mean": zero.double(), "y_std": one}
        if self.standardises:
            wide = torch.float64 if self.x.dtype == torch.float64 else dtype  # keeps precision far from zero
            mean, std = self._x_moments
            if self.fields:
                whole = whole_columns(self.fields)
                mean, std = torch.where(whole, 0.0, mean), torch.where(whole, 1.0, std)
            scales |= {"x_mean": mean.to(wide), "x_std": std.to(wide)}
        if self.likelihood.standardises:
            mean, std = self._y_moments
            scales |= {"y_mean": mean[0], "y_std": std[0].to(dtype)}  # the mean in double keeps precision
        return scales

    @cached_property
    def _x_moments(self) -> tuple[Tensor, Tensor]:
        """Of the training rows, in double; once for all networks that are trained on them."""
        return _moments(self.x, self.train)

    @cached_property
    def _y_moments(self) -> tuple[Tensor, Tensor]:
        return _moments(self.y[:, None], self.train)

    def as_input(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Rows as the input of networks of that dtype: raw if the networks standardise them, else converted."""
        return x if self.standardises or not x.is_floating_point() else x.to(dtype)


def _moments(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of rows, per channel of images (C, 1, 1) and per column of tables (d,).

    Computed in float64 about the mean, block by block; the standard deviation of a constant is 1.
    """
    axes = (0,) if x.dim() == 2 else (0, *range(2, x.dim()))
    blocks = rows.to(x.device).split(max(1, SCALED_AT_ONCE // max(1, x[0].numel())))
    count = len(rows) * (x[0, 0].numel() if x.dim() > 2 else 1)
    mean = sum(x[part].double().sum(axes, keepdim=True)[0].cpu() for part in blocks) / count
    squares = sum((x[part].double() - mean.to(x.device)).square().sum(axes, keepdim=True)[0].cpu() for part in blocks)
    first = x[rows[0].to(x.device)]
    like = first if x.dim() == 2 else first.flatten(1)[:, 0].view(mean.shape)
    varies = torch.stack([(x[part] != like).amax(axes, keepdim=True)[0].cpu() for part in blocks]).any(0)
    return mean, torch.where(varies, (squares / count).sqrt(), torch.ones_like(mean))


def as_tensor(value: Any, what: str) -> Tensor:
    """Convert an array-like to a tensor, without a copy if possible."""
    if isinstance(value, Tensor) and not value.is_complex():
        return value.detach()
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):  # rows of different lengths, or not an array
        array = np.array(None)
    if array.dtype.kind not in "fiub":
        raise ValuesError(
            what, expected="numbers", got=f"dtype {array.dtype}", hint="encode text and objects as numbers"
        )
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _rows(value: Any, n: int, what: str) -> Tensor:
    """Row indices, from indices or a mask."""
    try:
        array = np.asarray(value.cpu() if isinstance(value, Tensor) else value)
    except ValueError:  # (x, y) of another set, perhaps
        array = np.array(None)
    if array.dtype == bool and array.shape == (n,):
        array = np.flatnonzero(array)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and not 0 <= array.min() <= array.max() < n):
        hint = "put all rows into x and y, and pass indices from 0"
        raise UsageError(what, expected=f"row indices from 0 to {n - 1}, or a mask (N,)", got=show(array), hint=hint)
    if len(np.unique(array)) != array.size:
        raise UsageError(what, expected="distinct rows", got="duplicates", hint="use numpy.unique(rows)")
    return torch.from_numpy(array.astype(np.int64))


def same_data(tasks: Sequence[Task]) -> bool:
    """Whether tasks differ at most in their training and validation rows, so that one computation can train them."""
    first = tasks[0]
    return all(
        task.n == first.n
        and len(task.validation) == len(first.validation)
        and (task.likelihood, task.augment, task.standardises, task.fields)
        == (first.likelihood, first.augment, first.standardises, first.fields)
        and _equal(task.x, first.x)
        and _equal(task.y, first.y)
        for task in tasks[1:]
    )


def _equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are identical or equal."""
    comparable = one.shape == other.shape and one.dtype == other.dtype and one.device == other.device
    identical = one.data_ptr() == other.data_ptr() and one.stride() == other.stride()
    return comparable and (identical or torch.equal(one, other))


@dataclass(frozen=True)
class Run:
    """The training of one network: its random streams (seed, member), its rows and its own hyper-parameters."""

    seed: int
    member: int
    task: Task
    rate: float
    decay: float
    dropout: float = 0.0

    def facts(self) -> dict[str, Any]:
        """The values that distinguish it from other runs, for checkpoints."""
        return {name: getattr(self, name) for name in ("seed", "member", "rate", "decay", "dropout")}
