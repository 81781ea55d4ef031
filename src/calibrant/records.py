"""`Record`: the base of dataclasses whose repr is one short line."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar

LONGEST_TEXT = 50
SHOWN = 4
"""Items of a list that are shown: of more, the first two and the last."""


class Record:
    """A dataclass whose repr has its fields in one line: without defaults and empty ones, long values abbreviated."""

    REPR_FIELDS: ClassVar[tuple[str, ...]] = ()
    """The fields in the repr; empty: all."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]  # so that @dataclass does not generate another

    def __repr__(self) -> str:
        shown = []
        for item in fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            default = item.default is not MISSING and value is item.default
            if self.REPR_FIELDS and item.name not in self.REPR_FIELDS:
                continue
            if default or not item.repr or value is None or _is_empty(value):
                continue
            shown.append(f"{item.name}={abbreviate(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def abbreviate(value: Any) -> str:
    """A value in a repr: the ends of long lists, the keys of mappings, the shape of matrices, the type of records."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return repr(value if len(value) <= LONGEST_TEXT else value[: LONGEST_TEXT - 1] + "…")
    if isinstance(value, Mapping):
        return abbreviate(tuple(value))
    if hasattr(value, "shape"):  # an array
        return abbreviate(value.tolist()) if len(value.shape) <= 1 else f"array of shape {tuple(value.shape)}"
    if isinstance(value, list | tuple):
        if value and getattr(value[0], "shape", ()):
            return f"{len(value)} arrays"
        if value and isinstance(value[0], list | tuple | Mapping | Record):
            return f"<{len(value)}>"
        items = [abbreviate(item) for item in value]
        return f"[{', '.join(items if len(items) <= SHOWN else [*items[:2], '…', items[-1]])}]"
    if isinstance(value, Record):
        return f"{type(value).__name__}(…)"
    return str(value.__name__) if callable(value) else repr(value)


def _is_empty(value: Any) -> bool:
    """Whether it is NaN or has no items."""
    if isinstance(value, float):
        return math.isnan(value)
    return isinstance(value, str | list | tuple | Mapping) and not value
