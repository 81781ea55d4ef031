"""The outcomes of gates: one record each, and all of them together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from calibrant.errors import plain
from calibrant.results.json import Stored

FAIL_ON, REQUIRE = "fail_on", "require"


@dataclass(frozen=True)
class GateResult(Stored):
    """One gate: whether it passed, and why in one line."""

    gate: str
    """As it was written."""
    kind: str
    """`fail_on` fails if the condition is shown to hold; `require` passes only if it is."""
    passed: bool
    reason: str
    undecided: bool = False
    """Whether the data show neither the condition nor its opposite."""

    def __str__(self) -> str:
        how = "passed" if self.passed else "failed"
        doubt = ", inconclusive" if self.undecided and self.passed else ""
        return f"gate {how}{doubt}: {self.kind.replace('_', '-')} {plain(self.gate)}: {plain(self.reason)}"


@dataclass(frozen=True, repr=False)
class Gates:
    """All gates of an evaluation: true if all passed; printed, the gates that failed."""

    results: tuple[GateResult, ...]

    @property
    def failed(self) -> tuple[GateResult, ...]:
        """The gates that failed."""
        return tuple(result for result in self.results if not result.passed)

    @property
    def undecided(self) -> tuple[GateResult, ...]:
        """The gates that passed although the data are inconclusive."""
        return tuple(result for result in self.results if result.passed and result.undecided)

    def __bool__(self) -> bool:
        return not self.failed

    def __iter__(self) -> Iterator[GateResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __str__(self) -> str:
        if self.failed:
            return "\n".join(map(str, self.failed))
        count = f"{len(self)} gate{'s' * (len(self) != 1)} passed"
        return count + (f", {len(self.undecided)} of them inconclusively" if self.undecided else "")

    def __repr__(self) -> str:
        return f"Gates(passed={len(self) - len(self.failed)}, failed={len(self.failed)})"

    def to_json(self) -> list[dict[str, Any]]:
        """As it stands in an evaluation file, under `gates`."""
        return [result.to_json() for result in self.results]
