"""What became of gates: one record each, and all of them together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from calibrant.errors import plain

FAIL_ON, REQUIRE = "fail_on", "require"


@dataclass(frozen=True)
class GateResult:
    """One gate, whether it passed, and why in one line."""

    gate: str
    """As it was written."""
    kind: str
    """`fail_on`: fails where the condition is shown; `require`: passes only where it is shown."""
    passed: bool
    reason: str
    undecided: bool = False
    """Whether the rows show neither the condition nor its opposite."""

    def __str__(self) -> str:
        how = "passed" if self.passed else "failed"
        doubt = ", cannot tell" if self.undecided and self.passed else ""
        return f"gate {how}{doubt}: {self.kind.replace('_', '-')} {plain(self.gate)}: {plain(self.reason)}"

    def to_json(self) -> dict[str, Any]:
        """As it stands in an evaluation file."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GateResult:
        """What `to_json` wrote."""
        return cls(**{key: data[key] for key in cls.__dataclass_fields__ if key in data})


@dataclass(frozen=True, repr=False)
class Gates:
    """All gates of an evaluation: true where every one of them passed, and printed as what failed."""

    results: tuple[GateResult, ...]

    @property
    def failed(self) -> tuple[GateResult, ...]:
        """Those that did not pass."""
        return tuple(result for result in self.results if not result.passed)

    @property
    def undecided(self) -> tuple[GateResult, ...]:
        """Those that passed without the opposite being shown."""
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
        return count + (f", {len(self.undecided)} of them without being sure" if self.undecided else "")

    __repr__ = __str__

    def to_json(self) -> list[dict[str, Any]]:
        """As it stands in an evaluation file, under `gates`."""
        return [result.to_json() for result in self.results]
