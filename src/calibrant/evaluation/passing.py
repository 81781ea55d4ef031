"""How many checks pass at each severity of shift: figure 7 and table 4 of Gopal (2021)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.checks.check import INTERVAL, RANGE, Check


@dataclass(frozen=True)
class ShiftedCheck:
    """The checks of a type of shift at a severity."""

    shift: str
    severity: float
    n: int
    checks: Mapping[str, Check]

    def to_json(self) -> dict[str, Any]:
        """As it stands in an evaluation file."""
        checks = {key: check.to_json() for key, check in self.checks.items()}
        return {"shift": self.shift, "severity": self.severity, "n": self.n, "checks": checks}


@dataclass(frozen=True)
class PassTable:
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
        """From the clean data on."""
        return sorted({cell.severity for cell in self.cells})

    def passed(self, key: str, severity: float, rule: str = INTERVAL) -> tuple[int, int]:
        """How many types pass at a severity, and how many have a value."""
        found = [
            cell.checks[key].passed(rule) for cell in self.cells if cell.severity == severity and key in cell.checks
        ]
        known = [one for one in found if one is not None]
        return sum(known), len(known)

    def to_json(self) -> dict[str, Any]:
        """As it stands in an evaluation file."""
        return {
            "input": self.input,
            "members": self.members,
            "cells": [cell.to_json() for cell in self.cells],
            "statistics": {key: [self._row(key, severity) for severity in self.severities] for key in self.keys},
        }

    def _row(self, key: str, severity: float) -> dict[str, Any]:
        (by_range, types), (by_interval, _) = (self.passed(key, severity, rule) for rule in (RANGE, INTERVAL))
        return {"severity": severity, "types": types, "passed_range": by_range, "passed_interval": by_interval}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PassTable:
        """The table that was written."""
        cells = tuple(
            ShiftedCheck(
                cell["shift"],
                cell["severity"],
                cell["n"],
                {key: Check.from_json(check) for key, check in cell["checks"].items()},
            )
            for cell in data["cells"]
        )
        return cls(data["input"], data["members"], cells)
