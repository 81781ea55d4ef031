"""The cost of a posterior's predictions: operations per row, and storage (Ovadia et al. 2019, table S1), as measured.

The paper's table gives compute as m·k, or m + d(k − 1) if members share all but the last layer, and storage as m, 2m or
mk. Here the floating-point operations of one member and of each further one are counted on real rows, and the stored
numbers are counted too.
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
    """first, further: operations per row of the first member and of each further one; stored: numbers in the file;
    network: parameters of one network; seconds: to predict one row by one member, on the training device; training:
    seconds of training; examples: rows processed in training, all members together."""

    first: float
    further: float
    stored: int
    network: int
    seconds: float
    training: float
    examples: int

    def compute(self, members: int) -> float:
        """Operations per row for `members` members."""
        return self.first + self.further * (members - 1)

    @property
    def storage(self) -> float:
        """Stored numbers in units of one network's parameters."""
        return self.stored / self.network


P = TypeVar("P")


def with_cost(posterior: P, rows: Tensor, device: torch.device, examples: int) -> P:
    """Measure the cost and store it in `posterior.about`."""
    posterior.about = replace(posterior.about, cost=_measure(posterior, rows, device, examples))  # type: ignore[attr-defined]
    return posterior


def _measure(posterior: Any, rows: Tensor, device: torch.device, examples: int) -> Cost:
    """Count operations of one and of several members, and time a prediction."""
    rows = posterior._rows(rows)
    members = 1 + FURTHER if posterior.max_members is None else min(1 + FURTHER, posterior.max_members)
    operations = {}
    for count in (1, members):
        flops = []
        for n in (2 * ROWS, ROWS):  # in the difference, the cost of drawing members cancels
            with FlopCounterMode(display=False) as counter:
                posterior.outputs(rows[torch.zeros(n, dtype=torch.long)], count, device=device)
            flops.append(int(counter.get_total_flops()))
        operations[count] = (flops[0] - flops[1]) / ROWS
    start = time.perf_counter()
    posterior.outputs(rows, 1, device=device)
    seconds = (time.perf_counter() - start) / len(rows)
    tensors, _ = posterior.state_dict()
    first = operations[1]
    return Cost(
        first=first,
        further=(operations[members] - first) / (members - 1) if members > 1 else first,
        stored=sum(value.numel() for value in tensors.values()),
        network=sum(value.numel() for value in posterior.template.module.parameters()),
        seconds=seconds,
        training=posterior.about.seconds,
        examples=examples,
    )
