"""What records of rows share: a field that is an array has the rows on its last axis, an extra on its first."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

Record = TypeVar("Record", bound=Any)


def take(record: Record, rows: np.ndarray) -> Record:
    """The record of some of the rows; tables of sums among its extras are of all rows, and are left out."""
    values = {item.name: getattr(record, item.name) for item in fields(record)}
    picked = {name: value[..., rows] for name, value in values.items() if isinstance(value, np.ndarray)}
    extras = {key: value[rows] for key, value in record.extras.items() if value.ndim == 1}
    return replace(record, n=len(rows), extras=extras, **picked)
