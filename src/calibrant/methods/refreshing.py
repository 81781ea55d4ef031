"""Batch-normalisation statistics of networks that were not trained to where they are: averaged, or drawn.

The running means of activations belong to weights that training passed. For other weights they are computed anew in one
pass over the training rows, as the average over batches (Izmailov et al. 2018, UAI; Maddox et al. 2019).
"""

from __future__ import annotations

from typing import Any

import torch

from calibrant.networks.normalising import normalisers
from calibrant.networks.recipe import Template
from calibrant.networks.stack import Stack, State
from calibrant.training.task import Task

ROWS_AT_ONCE, NETWORKS_AT_ONCE = 512, 10


def refreshed(trained: Any, states: list[State]) -> list[State]:
    """States with the statistics of their own weights on the task's training rows."""
    return refresh(trained.template, states, trained.task, trained.device)


def refresh(template: Template, states: list[State], task: Task, device: torch.device) -> list[State]:
    """As `refreshed`, of the parts that it needs. Networks without batch normalisation are left as they are."""
    if not template.normalised:
        return states
    made: list[State] = []
    for first in range(0, len(states), NETWORKS_AT_ONCE):
        made += _refreshed(template, states[first : first + NETWORKS_AT_ONCE], task.to(device), device)
    return made


@torch.no_grad()
def _refreshed(template: Template, states: list[State], task: Task, device: torch.device) -> list[State]:
    dtype = states[0]["y_mean"].dtype
    stack = Stack.of(template, states, device, dtype)
    layers = normalisers(template.module)
    rates = [layer.momentum for layer in layers]
    seen = 0
    try:
        for rows in task.train.to(device).split(ROWS_AT_ONCE):
            for layer in layers:
                layer.momentum = len(rows) / (seen + len(rows))
            x = task.seen(task.x[rows], dtype)
            stack(x.expand(len(states), *x.shape), train=True)
            seen += len(rows)
    finally:
        for layer, rate in zip(layers, rates, strict=True):
            layer.momentum = rate
    return [stack.state(k) for k in range(len(states))]
