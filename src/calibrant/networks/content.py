"""Content: what identifies a network, a method or a training, for keys such as that of a checkpoint.

It holds a name, a version, and the settings that differ from their defaults, so that a new setting with a default does
not change existing keys. A changed default or another meaning needs a higher version.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from torch import nn

from calibrant.networks.mixed_precision import layer_type

PLAIN = (bool, int, float, str, tuple)
"""Attributes of a user's layers that are part of its content: strides, probabilities, sizes."""


def content(value: Any, without: tuple[str, ...] = ()) -> Any:
    """A dataclass as JSON values: its name and version if it has any, and the fields that differ from their defaults.

    Examples
    --------
    >>> from calibrant.methods import Training
    >>> content(Training(epochs=3))
    {'epochs': 3}
    """
    if is_dataclass(value):
        kept = {name: getattr(value, name) for name in ("name", "version") if hasattr(type(value), name)}
        for field in fields(value):
            now = getattr(value, field.name)
            default = field.default if field.default_factory is MISSING else field.default_factory()
            if field.name not in without and (default is MISSING or now != default):
                kept[field.name] = content(now)
        return kept
    return [content(each) for each in value] if isinstance(value, tuple | list) else value


def layers_content(network: nn.Module) -> list[list[Any]]:
    """The layers of a user's network: name, class, and plain attributes. It does not depend on their `repr`."""
    found: list[list[Any]] = []
    for name, layer in network.named_modules():
        plain = {key: value for key, value in vars(layer).items() if isinstance(value, PLAIN) and key[0] != "_"}
        names = sorted(plain.keys() - {"training", "calls"})
        found.append([name, layer_type(layer).__name__, [[key, repr(plain[key])] for key in names]])
    return found
