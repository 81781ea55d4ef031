"""Architectures: settings that can be stored as JSON, and the network built from them.

Settings read from a file are validated by name and type, and never executed.

Reference: He et al. (2015), Delving deep into rectifiers, ICCV: 1026-1034, for the initialisation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from numbers import Integral
from typing import Any, ClassVar, NewType, TypeVar, get_type_hints

from torch import nn

from calibrant.errors import UsageError, did_you_mean, show

Setting = int | float | bool | str | list[int]
MAX_COUNT = 1 << 24
"""The largest value of an integer setting, so that a file cannot make the machine run out of memory."""
MAX_LAYERS = 2000
CountsOrZeros = NewType("CountsOrZeros", tuple[int, ...])
"""The type of a field of integers that may be 0."""


class Architecture(ABC):
    """Base class: the settings of a network.

    Architectures that files can name are frozen dataclasses with fields of the types in `KINDS`. This class itself is
    not a dataclass: otherwise any two instances of a subclass without fields would be equal.
    """

    name: ClassVar[str]

    def __post_init__(self) -> None:
        """Validate every field by its type; subclasses add their own checks."""
        kinds = get_type_hints(type(self))
        for field in dataclass_fields(type(self)):
            value = KINDS[kinds[field.name]](f"{self.name}: {field.name}", getattr(self, field.name))
            object.__setattr__(self, field.name, value)

    @abstractmethod
    def build(self) -> nn.Module:
        """A newly initialised network, from PyTorch's global random generator, which the caller forks and seeds."""

    def settings(self) -> dict[str, Setting]:
        """The fields as JSON values."""
        values = {field.name: getattr(self, field.name) for field in dataclass_fields(type(self))}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def dataclass_fields(kind: Any) -> tuple[Field[Any], ...]:
    """`dataclasses.fields` for a class that mypy does not know to be a dataclass."""
    return fields(kind)


# ------------------------------------------------------------------------------------------- the registry
ARCHITECTURES: dict[str, type[Architecture]] = {}
"""Registered architectures by name; importing `calibrant.networks` registers the built-in ones."""

A = TypeVar("A", bound=type[Architecture])


def register(kind: A) -> A:
    """Register an architecture under its name, so that files can name it; the name must be new."""
    if kind.name in ARCHITECTURES:
        got = f"{show(kind.name)}, which is already registered"
        raise UsageError("architecture", expected="a new name", got=got, hint="choose another name")
    ARCHITECTURES[kind.name] = kind
    return kind


def architecture_from(name: str, settings: Mapping[str, Any]) -> Architecture:
    """The architecture with this name and settings, as stored in a file; missing settings have their defaults."""
    if not isinstance(name, str) or name not in ARCHITECTURES:
        hint = did_you_mean(str(name), ARCHITECTURES)
        raise UsageError("architecture", expected="the name of a registered architecture", got=show(name), hint=hint)
    kind = ARCHITECTURES[name]
    subject, known = f"{name}: settings", {field.name: field for field in dataclass_fields(kind)}
    if not isinstance(settings, Mapping):
        hint = f"pass a dict with the keys {', '.join(known)}"
        raise UsageError(subject, expected="a mapping of names to values", got=show(settings), hint=hint)
    for key in settings:
        if not isinstance(key, str) or key not in known:
            got, hint = show(key), did_you_mean(str(key), known)
            raise UsageError(subject, expected=f"settings of {name}", got=got, hint=hint)
    required = [key for key, field in known.items() if field.default is MISSING and field.default_factory is MISSING]
    missing = [key for key in required if key not in settings]
    if missing:
        expected, got = " and ".join(required), f"no {missing[0]}"
        raise UsageError(subject, expected=expected, got=got, hint=f"pass {missing[0]}")
    return kind(**settings)


# ---------------------------------------------------------------------------------------- field validation
def count(subject: str, value: Any) -> int:
    """Validate an integer from 1 to MAX_COUNT; booleans are rejected."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= MAX_COUNT:
        expected = f"an integer from 1 to {MAX_COUNT}"
        raise UsageError(subject, expected=expected, got=show(value), hint="use a positive integer")
    return int(value)


def counts(subject: str, value: Any) -> tuple[int, ...]:
    """Validate a list of integers, which may be empty."""
    if not isinstance(value, list | tuple) or len(value) > MAX_LAYERS:
        hint = "use for example (128, 128)"
        raise UsageError(subject, expected=f"a list of at most {MAX_LAYERS} integers", got=show(value), hint=hint)
    return tuple(count(subject, each) for each in value)


def boolean(subject: str, value: Any) -> bool:
    """Validate a boolean."""
    if type(value) is not bool:
        raise UsageError(subject, expected="true or false", got=show(value), hint="use True or False")
    return value


def string(subject: str, value: Any) -> str:
    """Validate a string."""
    if type(value) is not str:
        raise UsageError(subject, expected="a string", got=show(value), hint="quote the name")
    return value


def counts_or_zeros(subject: str, value: Any) -> tuple[int, ...]:
    """Validate a list of integers from 0."""
    zeros = [each == 0 and not isinstance(each, bool) for each in value] if isinstance(value, list | tuple) else []
    raised = counts(
        subject, [1 if is_zero else each for each, is_zero in zip(value, zeros, strict=True)] if zeros else value
    )
    return tuple(0 if is_zero else each for each, is_zero in zip(raised, zeros, strict=True))


KINDS: dict[Any, Callable[[str, Any], Any]] = {
    int: count,
    bool: boolean,
    str: string,
    tuple[int, ...]: counts,
    CountsOrZeros: counts_or_zeros,
}
"""The validator of each field type."""


def blocks_per_stage(subject: str, depth: int, layers: int) -> int:
    """n, for a network of three stages of n blocks with depth = 3 · layers · n + 2; `UsageError` for other depths."""
    step = 3 * layers
    n, rest = divmod(depth - 2, step)
    if rest or n < 1 or depth > MAX_LAYERS:
        nearest = min(max(n, 1), (MAX_LAYERS - 2) // step - 1) * step + 2
        hint = f"use for example {nearest} or {nearest + step}"
        raise UsageError(subject, expected=f"{step}n + 2 layers, at most {MAX_LAYERS}", got=f"{depth}", hint=hint)
    return n


# ------------------------------------------------------------------------------------------- initialisation
def initialise(network: nn.Module) -> nn.Module:
    """Initialise convolutions by He's normal rule, in place: variance 2 / (outputs · kernel area), biases zero.

    This is the fan_out variant of He et al. (2015), which preserves the scale of gradients. Dense layers and batch norm
    keep PyTorch's defaults: uniform in ±1/√inputs, and scale one with shift zero. Returns the network.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return network
