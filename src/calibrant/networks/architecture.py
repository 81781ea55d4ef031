"""What an architecture is: a few settings that can be stored as JSON, and a network that is built from them.

Settings that come from a file are checked one by one, by name and by type; they are only ever compared and counted.

Reference of the initialisation: He et al. (2015), Delving deep into rectifiers, ICCV: 1026-1034.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from numbers import Integral
from typing import Any, ClassVar, TypeVar, get_type_hints

from torch import nn

from calibrant.errors import UsageError, did_you_mean, show

Setting = int | float | bool | str | list[int]
MOST = 1 << 24
"""The largest count that a setting may ask for: a file must not make the machine run out of memory by one number."""
MOST_LAYERS = 2000


class Architecture(ABC):
    """The settings of a network; those that files can name are frozen dataclasses with fields of the types in `KINDS`.

    This class is none itself, or else two subclasses without fields of their own would be equal whatever they hold.
    """

    name: ClassVar[str]

    def __post_init__(self) -> None:
        """Check every field by its type; subclasses then check what only they know."""
        kinds = get_type_hints(type(self))
        for field in _fields(type(self)):
            value = KINDS[kinds[field.name]](f"{self.name}: {field.name}", getattr(self, field.name))
            object.__setattr__(self, field.name, value)

    @abstractmethod
    def build(self) -> nn.Module:
        """A fresh network, initialised from PyTorch's global random numbers, which the caller forks and seeds."""

    def settings(self) -> dict[str, Setting]:
        """The fields as JSON holds them."""
        values = {field.name: getattr(self, field.name) for field in _fields(type(self))}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _fields(made: Any) -> tuple[Field[Any], ...]:
    """The fields of a dataclass."""
    return fields(made)


# ------------------------------------------------------------------------------------------- the registry
ARCHITECTURES: dict[str, type[Architecture]] = {}
"""The known architectures by name; importing `calibrant.networks` enters its own."""

A = TypeVar("A", bound=type[Architecture])


def register(made: A) -> A:
    """Enter an architecture under its name, so that files may name it; a name that is taken is refused."""
    if made.name in ARCHITECTURES:
        raise UsageError(
            "architecture", expected="a new name", came=f"{show(made.name)} is taken", do="choose another name"
        )
    ARCHITECTURES[made.name] = made
    return made


def architecture_from(name: str, settings: Mapping[str, Any]) -> Architecture:
    """The architecture that a file describes by a name and settings; settings that are left out have their defaults."""
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise UsageError(
            "architecture",
            expected="the name of a known architecture",
            came=f"got {show(name)}",
            do=did_you_mean(str(name), ARCHITECTURES),
        )
    made = ARCHITECTURES[name]
    _check_names(made, settings)
    return made(**settings)


def _check_names(made: type[Architecture], settings: Mapping[str, Any]) -> None:
    subject, known = f"{made.name}: settings", {field.name: field for field in _fields(made)}
    if not isinstance(settings, Mapping):
        raise UsageError(
            subject, expected="values by name", came=f"got {show(settings)}", do=f"give {', '.join(known)} by name"
        )
    for name in settings:
        if not isinstance(name, str) or name not in known:
            came, do = f"got {show(name)}", did_you_mean(str(name), known)
            raise UsageError(subject, expected=f"those of {made.name}", came=came, do=do)
    needed = [name for name, field in known.items() if field.default is MISSING and field.default_factory is MISSING]
    lacking = [name for name in needed if name not in settings]
    if lacking:
        raise UsageError(
            subject, expected=" and ".join(needed), came=f"{lacking[0]} is missing", do=f"give {lacking[0]}"
        )


# ------------------------------------------------------------------------------------------ checks of fields
def count(subject: str, value: Any) -> int:
    """A whole number from 1 to MOST; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= MOST:
        raise UsageError(
            subject, expected=f"a whole number from 1 to {MOST}", came=f"got {show(value)}", do="give such a number"
        )
    return int(value)


def counts(subject: str, value: Any) -> tuple[int, ...]:
    """A list of whole numbers, which may be empty."""
    if not isinstance(value, list | tuple) or len(value) > MOST_LAYERS:
        raise UsageError(
            subject,
            expected=f"a list of at most {MOST_LAYERS} whole numbers",
            came=f"got {show(value)}",
            do="write it as (128, 128)",
        )
    return tuple(count(subject, each) for each in value)


def truth(subject: str, value: Any) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise UsageError(subject, expected="true or false", came=f"got {show(value)}", do="give one of the two")
    return value


def text(subject: str, value: Any) -> str:
    """A text."""
    if type(value) is not str:
        raise UsageError(subject, expected="a text", came=f"got {show(value)}", do="put a name in quotation marks")
    return value


KINDS: dict[Any, Callable[[str, Any], Any]] = {int: count, bool: truth, str: text, tuple[int, ...]: counts}
"""How fields are checked, by their type."""


def check_choice(subject: str, value: str, known: Iterable[str]) -> None:
    """Refuse a text that is none of those known."""
    names = tuple(known)
    if value not in names:
        raise UsageError(subject, expected=" or ".join(names), came=f"got {show(value)}", do=did_you_mean(value, names))


def blocks_a_stage(subject: str, depth: int, layers: int) -> int:
    """n, where a network of three stages of n blocks has depth = 3 · layers · n + 2; refuse any other depth."""
    step = 3 * layers
    n, rest = divmod(depth - 2, step)
    if rest or n < 1 or depth > MOST_LAYERS:
        least = min(max(n, 1), (MOST_LAYERS - 2) // step - 1) * step + 2
        raise UsageError(
            subject,
            expected=f"{step}n + 2 layers, at most {MOST_LAYERS}",
            came=f"got {depth}",
            do=f"take for example {least} or {least + step}",
        )
    return n


# ------------------------------------------------------------------------------------------- initialisation
def initialise(network: nn.Module) -> nn.Module:
    """Convolutions anew: weights normal with variance 2 / (outputs · kernel area), biases zero; return the network.

    This is the initialisation of He et al. (2015) that keeps the scale of gradients (fan_out). Dense layers and batch
    norm stay as PyTorch makes them: uniform in ±1/√inputs, and scale one with shift zero.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return network
