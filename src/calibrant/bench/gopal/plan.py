"""The settings of the simulated experiment: those of section 4.1 and appendix F, and reduced ones for a quick run.

Reference: Gopal (2021), "Why calibration error is wrong given model uncertainty".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from calibrant.bench.gopal.data import HIGH, LOW, VARIANCE
from calibrant.errors import check_range

FULL, QUICK, OWN = "full", "quick", "own"
MAX_SEEDS = 100
FEWER: dict[str, Any] = {"rows": 5000, "members": 10, "masks": 64, "epochs": 20, "halved_every": 4}
"""The reduced settings of a quick run."""
STATISTIC = "calibration_error"
"""Σ_j (p_j − p̂_j)² over 100 levels, the sum in the paper's eq. 2.4."""


@dataclass(frozen=True)
class Plan:
    """Settings of the experiment; the defaults are the paper's."""

    seeds: int = 3
    """The number of data sets and trainings; the paper has one. Seeds are 0, 1, …"""
    rows: int = 10_000
    """Training rows."""
    rows_in: int = 1000
    rows_out: int = 10_000
    """Rows of the checks, in and out of distribution."""
    members: int = 50
    """Networks of the ensemble."""
    masks: int = 128
    """Dropout masks to average over."""
    dropout: float = 0.1
    hidden: tuple[int, ...] = (128, 128, 128)
    activation: str = "elu"
    epochs: int = 500
    batch: int = 128
    rate: float = 5e-3
    halved_every: int = 100
    """Epochs after which the learning rate is halved."""
    clip: float | None = 1.0
    """The maximum norm of a network's gradient; not mentioned in the paper. Without it, single steps make some of the
    fifty networks diverge, which then dominate the spread of the ensemble."""
    draws: int = 1000
    """Replicates of a check."""
    check_seed: int = 0

    def __post_init__(self) -> None:
        check_range("seeds", self.seeds, 1, MAX_SEEDS, integer=True, hint="use 3 seeds")
        object.__setattr__(self, "hidden", tuple(self.hidden))

    @classmethod
    def of(cls, seeds: int = 3, *, quick: bool = False) -> Plan:
        """The paper's settings, or those of a quick run of about a minute."""
        return cls(seeds=seeds, **(FEWER if quick else {}))

    @property
    def kind(self) -> str:
        """Whether the settings are the paper's (full), those of a quick run, or others (own)."""
        for kind, settings in ((FULL, {}), (QUICK, FEWER)):
            if self == Plan(seeds=self.seeds, **settings):
                return kind
        return OWN

    @property
    def title(self) -> str:
        """The title; it names settings that differ from the paper's."""
        name = "Gopal (2021), table 1"
        if self.kind == FULL:
            return name
        kind = "quick run" if self.kind == QUICK else "own settings"
        return f"{name}, {kind}: {self.epochs} epochs, {self.rows} rows, {self.members} members"

    def to_json(self) -> dict[str, Any]:
        """The content of plan.json."""
        known = {"paper": "gopal", "table": "table1", "kind": self.kind, **asdict(self), "hidden": list(self.hidden)}
        return known | {"noise_variance": VARIANCE, "removed": [LOW, HIGH], "statistic": STATISTIC}


def plan_from(data: dict[str, Any]) -> Plan:
    """The inverse of `to_json`."""
    return Plan(**{name: data[name] for name in Plan.__dataclass_fields__})
