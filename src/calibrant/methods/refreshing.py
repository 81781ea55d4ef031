"""Batch-normalisation statistics of networks that were not trained to where they are: averaged, or drawn.

The running means of activations belong to weights that training passed. For other weights they are computed anew in one
pass over the training rows, as the average over batches (Izmailov et al. 2018, UAI; Maddox et al. 2019). Rows are
varied as they are in training: a network that was trained on crops and flips has other statistics on plain images,
which took three points of accuracy from a public ResNet-20 on CIFAR-10.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from calibrant.networks.normalising import normalisers
from calibrant.networks.recipe import Template
from calibrant.networks.stack import Stack, State
from calibrant.training.seeds import stream
from calibrant.training.task import Task

ROWS_AT_ONCE, NETWORKS_AT_ONCE = 512, 10


def refresh(template: Template, states: list[State], task: Task, device: torch.device) -> list[State]:
    """States with the statistics of their own weights on the task's training rows.

    Networks without batch normalisation are left as they are.
    """
    if not template.normalised:
        return states
    made: list[State] = []
    for first in range(0, len(states), NETWORKS_AT_ONCE):
        made += _refreshed(template, states[first : first + NETWORKS_AT_ONCE], task.to(device), device)
    return made


@torch.no_grad()
def _refreshed(template: Template, states: list[State], task: Task, device: torch.device) -> list[State]:
    dtype = states[0]["y_std"].dtype
    stack = Stack.of(template, states, device, dtype)
    layers = normalisers(template.module)
    rates = [layer.momentum for layer in layers]
    seen = 0
    with torch.enable_grad():
        few = next(_batches(task, dtype))[:2]
        stack.try_together(few.expand(len(states), *few.shape))
    try:
        for x in _batches(task, dtype):
            for layer in layers:
                layer.momentum = len(x) / (seen + len(x))
            stack(x.expand(len(states), *x.shape), train=True)
            seen += len(x)
    finally:
        for layer, rate in zip(layers, rates, strict=True):
            layer.momentum = rate
    return [stack.state(k) for k in range(len(states))]


def _batches(task: Task, dtype: torch.dtype) -> Iterator[Tensor]:
    """The training rows, shuffled, and varied as the task says: each once, the same for every network."""
    order = torch.randperm(task.n, generator=stream("refresh", "order"))  # rows may lie class by class
    rows = task.train[order].to(task.x.device)
    blocks = -(-len(rows) // ROWS_AT_ONCE)
    if task.augment is None:
        yield from (task.seen(task.x[part], dtype) for part in rows.tensor_split(blocks))
        return
    bordered = task.augment.bordered(task.x)
    varied = task.augment.draw(len(rows), stream("refresh")).to(rows.device)
    for part, how in zip(rows.tensor_split(blocks), varied.tensor_split(blocks), strict=True):
        yield task.seen(task.augment.cut(bordered, part, how), dtype)
