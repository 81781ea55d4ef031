"""What is to be learnt: rows x and y, which of them are for training and which for validation, and their likelihood.

All rows lie in one tensor, also on the device; training and validation rows are numbers of rows, so that twenty splits
of one data set share it. Images are (N, C, H, W), bytes or floats, raw: networks standardise by the training rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant.errors import InputError, LabelsError, ShapeError, UsageError, ValuesError, show
from calibrant.training.augmenting import Augmentation
from calibrant.training.likelihoods import Categorical, Gaussian, Likelihood
from calibrant.training.seeds import stream

NONE = torch.zeros(0, dtype=torch.long)
SCALED_AT_ONCE = 1 << 24
"""Numbers of x that are widened at a time when their mean and spread are computed."""


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """Rows and what they are for."""

    x: Tensor
    y: Tensor
    likelihood: Likelihood
    train: Tensor
    validation: Tensor
    augment: Augmentation | None = None
    standardises: bool = True
    name: str = "task"

    # ------------------------------------------------------------------------------- constructors
    @classmethod
    def classification(cls, x: Any, y: Any, *, classes: int, **known: Any) -> Task:
        """Rows of C classes, y (N,) whole numbers from 0. See `build` for the other arguments."""
        labels = as_tensor(y, "y")
        if labels.is_floating_point() or labels.dim() != 1:
            raise LabelsError(
                "y",
                expected="whole numbers (N,)",
                came=f"{labels.dtype} {tuple(labels.shape)}",
                do="give class numbers",
            )
        likelihood = Categorical(classes)
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
            raise LabelsError(
                "y",
                expected=f"class numbers from 0 to {classes - 1}",
                came=f"they go from {int(labels.min())} to {int(labels.max())}",
                do="number classes from 0, or say how many there are",
            )
        return cls.build(x, labels.long(), likelihood, **known)

    @classmethod
    def regression(cls, x: Any, y: Any, *, likelihood: Likelihood | None = None, **known: Any) -> Task:
        """Rows with a number y (N,) each; a Gaussian of x unless another likelihood is given."""
        numbers = as_tensor(y, "y")
        if numbers.dim() != 1:
            raise ShapeError("y", expected="shape (N,)", came=f"{tuple(numbers.shape)}", do="give one number a row")
        if not bool(torch.isfinite(numbers).all()):
            raise ValuesError(
                "y", expected="finite numbers", came="some are not", do="drop the rows without an outcome"
            )
        chosen = Gaussian() if likelihood is None else likelihood
        return cls.build(x, numbers if numbers.is_floating_point() else numbers.float(), chosen, **known)

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
        """x (N, …): rows first. train, validation: numbers of rows; without them all rows are for training.

        augment: how training rows are varied. standardise: by mean and spread of the training rows, for each channel of
        images and each column of tables; switch it off for token numbers.
        """
        if not isinstance(likelihood, Likelihood):
            raise UsageError(
                "likelihood", expected="a likelihood", came=f"got {show(likelihood)}", do="Gaussian(), with brackets"
            )
        rows = as_tensor(x, "x")
        if rows.dim() < 2 or not len(rows):
            raise ShapeError(
                "x",
                expected="shape (N, …) with at least one row",
                came=f"{tuple(rows.shape)}",
                do="put rows first; x[:, None] of one column",
            )
        if len(rows) != len(y):
            raise ShapeError(
                "x", expected=f"{len(y)} rows, as y has", came=f"{len(rows)}", do="give both the same rows"
            )
        if rows.is_floating_point() and not bool(torch.isfinite(rows).all()):
            raise ValuesError("x", expected="finite numbers", came="some are not", do="fill in or drop what is missing")
        made = cls(rows, y, likelihood, NONE, NONE, augment, standardise, name)
        return made._parted(train, validation)

    def _parted(self, train: Any, validation: Any) -> Task:
        """With rows for training and for validation, which have none in common."""
        n = len(self.x)
        held = NONE if validation is None else _rows(validation, n, "validation")
        kept = _others(held, n) if train is None else _rows(train, n, "train")
        if not len(kept):
            raise InputError("train", expected="rows to train on", came="none are left", do="hold back fewer rows")
        if len(np.intersect1d(kept.numpy(), held.numpy())):
            raise InputError(
                "validation", expected="rows that are not trained on", came="some rows are in both", do="split them"
            )
        return replace(self, train=kept, validation=held)

    def __repr__(self) -> str:
        parts = f"{self.n} rows of {self.shape} to train on, {len(self.validation)} to validate by"
        return f"Task({self.name!r}, {self.likelihood}, {parts})"

    # ------------------------------------------------------------------------------------- parts
    @property
    def n(self) -> int:
        """Rows to train on."""
        return len(self.train)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row of x."""
        return tuple(self.x.shape[1:])

    def to(self, device: torch.device) -> Task:
        """The task with its rows on a device."""
        there = self.x.device == device and self.y.device == device
        return self if there else replace(self, x=self.x.to(device), y=self.y.to(device))

    def with_rows(self, train: Any, validation: Any = None) -> Task:
        """The same data with other rows to train on and to validate by."""
        return self._parted(train, validation)

    def split(self, share: float, seed: int = 0) -> Task:
        """Hold back a share of the training rows, at random, for validation."""
        if len(self.validation):
            raise UsageError(
                "split", expected="a task of which nothing is held back", came="it has validation rows", do="split once"
            )
        if not (isinstance(share, int | float) and 0.0 < share < 1.0):
            raise UsageError("share", expected="a number between 0 and 1", came=f"got {share}", do="0.1 is usual")
        order = self.train[torch.randperm(self.n, generator=stream(seed, "split"))]
        count = min(max(round(share * self.n), 1), self.n - 1)
        return replace(self, validation=order[:count].sort().values, train=order[count:].sort().values)

    def scales(self, dtype: torch.dtype) -> dict[str, Tensor]:
        """Means and standard deviations of the training rows; what does not vary is left as it is."""
        zero, one = torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype)
        found = {"x_mean": zero, "x_std": one, "y_mean": zero.double(), "y_std": one}
        if self.standardises:
            wide = torch.float64 if self.x.dtype == torch.float64 else dtype  # far from zero, digits count
            mean, std = _moments(self.x, self.train)
            found |= {"x_mean": mean.to(wide), "x_std": std.to(wide)}
        if self.likelihood.standardises:
            mean, std = _moments(self.y[:, None], self.train)
            found |= {"y_mean": mean[0], "y_std": std[0].to(dtype)}  # the mean in double: digits count far from zero
        return found

    def seen(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Rows as networks of that precision take them: raw where they standardise, else in their own numbers."""
        return x if self.standardises or not x.is_floating_point() else x.to(dtype)


def _moments(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of rows, for each channel of images (C, 1, 1) and each column of tables (d,).

    In double precision, about the mean, block by block; of what does not vary the second is 1.
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
    """A tensor of an array-like, without a copy where that can be."""
    if isinstance(value, Tensor) and not value.is_complex():
        return value.detach()
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):  # rows of several lengths, or no rows at all
        array = np.array(None)
    if array.dtype.kind not in "fiub":
        raise ValuesError(what, expected="numbers", came=f"the type {array.dtype}", do="encode text and objects first")
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    array = np.ascontiguousarray(array)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _rows(value: Any, n: int, what: str) -> Tensor:
    """Numbers of rows, from numbers or from a mask."""
    try:
        array = np.asarray(value.cpu() if isinstance(value, Tensor) else value)
    except ValueError:  # (x, y) of another set, perhaps
        array = np.array(None)
    if array.dtype == bool and array.shape == (n,):
        array = np.flatnonzero(array)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and not 0 <= array.min() <= array.max() < n):
        raise UsageError(
            what, expected=f"numbers of rows from 0 to {n - 1}, or a mask (N,)", came=f"got {show(array)}",
            do="put all rows into x and y, and count from 0",
        )  # fmt: skip
    if len(np.unique(array)) != array.size:
        raise UsageError(what, expected="each row once", came="some rows come twice", do="drop the copies")
    return torch.from_numpy(array.astype(np.int64))


def _others(held: Tensor, n: int) -> Tensor:
    left = torch.ones(n, dtype=torch.bool)
    left[held] = False
    return left.nonzero()[:, 0]


def same_data(tasks: Sequence[Task]) -> bool:
    """Whether tasks differ in their rows at most, so that one computation can serve them."""
    first = tasks[0]
    return all(
        task.n == first.n
        and len(task.validation) == len(first.validation)
        and (task.likelihood, task.augment, task.standardises) == (first.likelihood, first.augment, first.standardises)
        and _same(task.x, first.x)
        and _same(task.y, first.y)
        for task in tasks[1:]
    )


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are one, or equal."""
    alike = one.shape == other.shape and one.dtype == other.dtype and one.device == other.device
    one_place = one.data_ptr() == other.data_ptr() and one.stride() == other.stride()
    return alike and (one_place or torch.equal(one, other))
