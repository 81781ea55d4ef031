"""Inputs of several tensors, such as token ids and an attention mask: packed into rows, unpacked for the network.

A mapping {name: tensor (N, …)} is stored as one matrix (N, D), so that rows are selected, moved and standardised as
those of a table; the network gets the tensors as keyword arguments. Integers are exact up to 2²⁴.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from calibrant.errors import ShapeError, UsageError, ValuesError

MAX_INTEGER = 1 << 24
"""The largest integer that float32 holds exactly, as do all below."""


@dataclass(frozen=True)
class Field:
    """One tensor of a mapping: its name, the shape of a row, and whether it holds whole numbers."""

    name: str
    shape: tuple[int, ...]
    whole: bool

    @property
    def size(self) -> int:
        """The number of columns."""
        return prod(self.shape)


def fields_of(tensors: Mapping[str, Tensor]) -> tuple[Field, ...]:
    """The fields of a mapping, in its order; raises for other names than identifiers, and for unequal lengths."""
    counts = {name: len(value) if value.dim() else 0 for name, value in tensors.items()}
    if not counts or len(set(counts.values())) > 1:
        got = ", ".join(f"{count} in {name}" for name, count in counts.items()) or "an empty mapping"
        hint = "pass one row per example in every tensor"
        raise ShapeError("x", expected="tensors of the same number of rows", got=got, hint=hint)
    for name, value in tensors.items():
        if not isinstance(name, str) or not name.isidentifier():
            hint = "use the names of the arguments of forward()"
            raise UsageError("x", expected="names of arguments", got=repr(name), hint=hint)
        if not value.is_floating_point() and value.numel() and int(value.long().abs().max()) > MAX_INTEGER:
            got, hint = f"{int(value.long().abs().max())} in {name}", "number tokens and categories from 0"
            raise ValuesError("x", expected=f"integers of at most {MAX_INTEGER}", got=got, hint=hint)
    return tuple(Field(name, tuple(value.shape[1:]), not value.is_floating_point()) for name, value in tensors.items())


def pack(tensors: Mapping[str, Tensor], fields: tuple[Field, ...]) -> Tensor:
    """The mapping as a matrix (N, D), of integers if all fields are."""
    found = fields_of(tensors)
    if {(field.name, field.shape) for field in found} != {(field.name, field.shape) for field in fields}:
        expected = ", ".join(f"{field.name} of shape (N, {', '.join(map(str, field.shape))})" for field in fields)
        got = ", ".join(f"{field.name} of shape (N, {', '.join(map(str, field.shape))})" for field in found)
        raise ShapeError("x", expected=expected, got=got, hint="pass the same tensors as in training")
    parts = [tensors[field.name].reshape(-1, field.size) for field in fields]
    if not all(field.whole for field in fields):
        wide = any(part.dtype == torch.float64 for part in parts)
        parts = [part.to(torch.float64 if wide else torch.float32) for part in parts]
    return torch.cat(parts, dim=1)


def unpack(x: Tensor, fields: tuple[Field, ...]) -> dict[str, Any]:
    """The tensors of rows x (n, D), by name; whole numbers as int64."""
    found, at = {}, 0
    for field in fields:
        part = x[:, at : at + field.size].reshape(-1, *field.shape)
        at += field.size
        found[field.name] = (part.round() if part.is_floating_point() else part).long() if field.whole else part
    return found


def whole_columns(fields: tuple[Field, ...]) -> Tensor:
    """Which columns (D,) hold whole numbers, which are not standardised."""
    return torch.cat([torch.full((field.size,), field.whole) for field in fields])
