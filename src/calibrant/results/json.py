"""The JSON of stored records: one codec over the fields of dataclasses.

Tuples and mappings are walked, lists are plain data already. A number that is not finite is null; `status` beside it
says whether it was infinite, and a null without a status was NaN.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from calibrant.errors import FileError, plain
from calibrant.records import Record
from calibrant.registry.estimate import NOT_FINITE, status_of

T = TypeVar("T")
type_hints = cache(get_type_hints)


class Stored(Record):
    """A dataclass whose JSON has its fields by name."""

    JSON_OPTIONAL: ClassVar[tuple[str, ...]] = ()
    """Fields that are left out where they are None or empty."""
    JSON_NAMES: ClassVar[Mapping[str, str]] = {}
    """Fields with another name in the file."""

    def to_json(self) -> dict[str, Any]:
        """The fields as plain data."""
        out, status = {}, {}
        for item in fields(self):  # type: ignore[arg-type]
            value, name = getattr(self, item.name), self.JSON_NAMES.get(item.name, item.name)
            if item.name in self.JSON_OPTIONAL and not value:
                continue
            out[name] = encode(value)
            if isinstance(value, float) and math.isinf(value):
                status[name] = status_of(value)
        return out | ({"status": status} if status else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The record that `to_json` wrote; what is not among its fields is ignored."""
        hints, values = type_hints(cls), {}  # type: ignore[arg-type]
        stored = data.get("status")
        status = stored if isinstance(stored, Mapping) else {}  # or a field of its own
        for item in fields(cls):  # type: ignore[arg-type]
            name = cls.JSON_NAMES.get(item.name, item.name)
            if name in data:
                number = data[name] is None and hints[item.name] is float
                values[item.name] = (
                    NOT_FINITE[status.get(name, "undefined")] if number else decode(hints[item.name], data[name])
                )
        return cls(**values)


def encode(value: Any) -> Any:
    """A value as plain data: records by their `to_json`, other dataclasses by their fields."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {item.name: encode(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def decode(hint: Any, data: Any) -> Any:
    """The value of a type that `encode` wrote."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        types = [item for item in arguments if item is not type(None)]
        return data if data is None or len(types) > 1 else decode(types[0], data)
    if origin is tuple:
        return tuple(decode(arguments[0], item) for item in data)
    if origin is Mapping:
        return {key: decode(arguments[1], item) for key, item in data.items()}
    if hasattr(hint, "from_json"):
        return hint.from_json(data)
    if is_dataclass(hint):
        return hint(**data)  # type: ignore[operator]
    return math.nan if hint is float and data is None else data


def read_stored(path: str | Path, make: Callable[[Any], T], *, expected: str, hint: str) -> T:
    """What `make` makes of a file's JSON; a file that it rejects is an error of one line."""
    path = Path(path)
    try:
        return make(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__} {error}"
        got = f"it cannot be read ({plain(reason, 100)})"
        raise FileError(str(path), expected=expected, got=got, hint=hint) from error
