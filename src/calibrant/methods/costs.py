"""What predictions of a posterior cost: compute a row, and storage (Ovadia et al. 2019, table S1), as measured.

The table tells compute as m·k, or m + d(k − 1) where members share all but the last layer, and storage as m, 2m, mk.
Here floating-point operations of one member and of each further one are counted on real rows, and so are the numbers
that are kept.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

ROWS, FURTHER = 16, 2


@dataclass(frozen=True)
class Cost:
    """first, further: operations a row of the first member and of each further one; stored: numbers that are kept;
    network: parameters of one network; seconds: to predict one row by one member, on the device of training;
    training: seconds of training; examples: rows that training passed, all members together."""

    first: float
    further: float
    stored: int
    network: int
    seconds: float
    training: float
    examples: int

    def compute(self, members: int) -> float:
        """Operations a row for so many members."""
        return self.first + self.further * (members - 1)

    @property
    def storage(self) -> float:
        """Stored numbers in units of one network's parameters."""
        return self.stored / self.network


P = TypeVar("P")


def measured(posterior: P, rows: Tensor, device: torch.device, examples: int) -> P:
    """The posterior with its costs beside what is known of it; examples: rows that training passed."""
    posterior.about = replace(posterior.about, cost=_measure(posterior, rows, device, examples))  # type: ignore[attr-defined]
    return posterior


def _operations(posterior: Any, rows: Tensor, members: int, device: torch.device) -> int:
    with FlopCounterMode(display=False) as counter:
        posterior.outputs(rows, members, device=device)
    return int(counter.get_total_flops())


def _measure(posterior: Any, rows: Tensor, device: torch.device, examples: int) -> Cost:
    """Count operations of one and of several members, and time a prediction."""
    rows = posterior._rows(rows)
    members = 1 + FURTHER if posterior.most is None else min(1 + FURTHER, posterior.most)
    few, more = (rows[torch.zeros(count, dtype=torch.long)] for count in (ROWS, 2 * ROWS))  # drawing members cancels
    counts = [
        (_operations(posterior, more, count, device) - _operations(posterior, few, count, device)) / ROWS
        for count in (1, members)
    ]
    begun = time.perf_counter()
    posterior.outputs(rows, 1, device=device)
    seconds = (time.perf_counter() - begun) / len(rows)
    tensors, _ = posterior.kept()
    return Cost(
        first=counts[0],
        further=(counts[1] - counts[0]) / (members - 1) if members > 1 else counts[0],
        stored=sum(value.numel() for value in tensors.values()),
        network=sum(value.numel() for value in posterior.template.module.parameters()),
        seconds=seconds,
        training=posterior.about.seconds,
        examples=examples,
    )
