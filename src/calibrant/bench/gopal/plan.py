"""The settings of the simulated experiment, as section 4.1 and appendix F have them, and a quick form of them.

Reference: Gopal (2021), "Why calibration error is wrong given model uncertainty".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from calibrant.bench.gopal.data import HIGH, LOW, VARIANCE
from calibrant.errors import UsageError, show

FULL, QUICK, OWN = "full", "quick", "own"
MOST_SEEDS = 100
FEWER: dict[str, Any] = {"rows": 5000, "members": 10, "masks": 64, "epochs": 20, "halved_every": 4}
"""What a quick run has less of."""
STATISTIC = "calibration_error"
"""Σ_j (p_j − p̂_j)² over 100 levels, the sum that the paper's eq. 2.4 has."""


@dataclass(frozen=True)
class Plan:
    """What an experiment is made by; what is not said is the paper's."""

    seeds: int = 3
    """How often data are drawn and models trained; the paper has one. Seeds are 0, 1, …"""
    rows: int = 10_000
    """To train on."""
    rows_in: int = 1000
    rows_out: int = 10_000
    """To check on, in and out of distribution."""
    members: int = 50
    """Networks of an ensemble."""
    masks: int = 128
    """Masks of dropout that stand for its average."""
    dropout: float = 0.1
    hidden: tuple[int, ...] = (128, 128, 128)
    activation: str = "elu"
    epochs: int = 500
    batch: int = 128
    rate: float = 5e-3
    halved_every: int = 100
    """Epochs after which the learning rate is halved."""
    clip: float | None = 1.0
    """The largest norm of a network's gradient; the paper says nothing of it. Without, single steps throw some networks
    of fifty so far off that they never come back, and the spread of the ensemble is theirs."""
    draws: int = 1000
    """Replicates of a check."""
    check_seed: int = 0

    def __post_init__(self) -> None:
        whole = isinstance(self.seeds, int) and not isinstance(self.seeds, bool)
        if not (whole and 1 <= self.seeds <= MOST_SEEDS):
            raise UsageError(
                "seeds",
                expected=f"a whole number from 1 to {MOST_SEEDS}",
                came=f"got {show(self.seeds)}",
                do="3 is usual",
            )
        object.__setattr__(self, "hidden", tuple(self.hidden))

    @classmethod
    def of(cls, seeds: int = 3, *, quick: bool = False) -> Plan:
        """The paper's settings, or those of a run of a minute."""
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
        """What is reproduced; whoever did not use the paper's settings is told so wherever the numbers stand."""
        name = "Gopal (2021), table 1"
        if self.kind == FULL:
            return name
        kind = "quick run" if self.kind == QUICK else "own settings"
        return f"{name}, {kind}: {self.epochs} epochs, {self.rows} rows, {self.members} members"

    def to_json(self) -> dict[str, Any]:
        """As plan.json has it."""
        known = {"paper": "gopal", "table": "table1", "kind": self.kind, **asdict(self), "hidden": list(self.hidden)}
        return known | {"noise_variance": VARIANCE, "removed": [LOW, HIGH], "statistic": STATISTIC}


def plan_from(told: dict[str, Any]) -> Plan:
    """The plan that `to_json` told."""
    return Plan(**{name: told[name] for name in Plan.__dataclass_fields__})
