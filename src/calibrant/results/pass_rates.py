"""How many checks pass at each severity of shift: figure 7 and table 4 of Gopal (2021)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.results.check import INTERVAL, RANGE, Check
from calibrant.results.json import Stored


@dataclass(frozen=True)
class ShiftedCheck(Stored):
    """The checks of a type of shift at a severity."""

    shift: str
    severity: float
    n: int
    checks: Mapping[str, Check]


@dataclass(frozen=True)
class PassTable(Stored):
    """Checks over types of shift and severities, by one reading of the members."""

    input: str
    members: str
    cells: tuple[ShiftedCheck, ...]

    @property
    def keys(self) -> list[str]:
        """The statistics, in order."""
        return list(dict.fromkeys(key for cell in self.cells for key in cell.checks))

    @property
    def severities(self) -> list[float]:
        """In increasing order, clean data first."""
        return sorted({cell.severity for cell in self.cells})

    def passed(self, key: str, severity: float, rule: str = INTERVAL) -> tuple[int, int]:
        """How many types pass at a severity, and for how many the check is defined."""
        found = [
            cell.checks[key].passed(rule) for cell in self.cells if cell.severity == severity and key in cell.checks
        ]
        known = [one for one in found if one is not None]
        return sum(known), len(known)

    def to_json(self) -> dict[str, Any]:
        """The checks, and how many pass of each statistic and severity."""
        rows: dict[str, list[dict[str, Any]]] = {key: [] for key in self.keys}
        for key, severity in itertools.product(self.keys, self.severities):
            (by_range, types), (by_interval, _) = (self.passed(key, severity, rule) for rule in (RANGE, INTERVAL))
            counts = {"types": types, "passed_range": by_range, "passed_interval": by_interval}
            rows[key].append({"severity": severity, **counts})
        return super().to_json() | {"statistics": rows}
