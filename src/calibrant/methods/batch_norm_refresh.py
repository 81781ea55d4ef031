"""Batch-norm statistics for weights that were averaged or sampled instead of trained.

Running statistics belong to the weights of training. For other weights they are recomputed in one pass over the
training rows, as the average over batches (Izmailov et al. 2018, UAI; Maddox et al. 2019). Rows are augmented as in
training: a network trained on crops and flips has other statistics on plain images, which cost a public ResNet-20 three
points of accuracy on CIFAR-10.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from calibrant.networks.batch_norm import batch_norm_layers
from calibrant.networks.recipe import Template
from calibrant.networks.stack import Stack, State
from calibrant.training.seeds import stream
from calibrant.training.task import Task

ROWS_AT_ONCE, NETWORKS_AT_ONCE = 512, 10


def refresh(template: Template, states: list[State], task: Task, device: torch.device) -> list[State]:
    """Recompute the batch-norm statistics of states on the task's training rows.

    Networks without batch norm are returned unchanged.
    """
    if not template.has_batch_norm:
        return states
    refreshed: list[State] = []
    for first in range(0, len(states), NETWORKS_AT_ONCE):
        refreshed += _refresh_together(template, states[first : first + NETWORKS_AT_ONCE], task.to(device), device)
    return refreshed


@torch.no_grad()
def _refresh_together(template: Template, states: list[State], task: Task, device: torch.device) -> list[State]:
    dtype = states[0]["y_std"].dtype
    stack = Stack.of(template, states, device, dtype)
    layers = batch_norm_layers(template.module)
    momenta = [layer.momentum for layer in layers]
    count = 0
    with torch.enable_grad():
        sample = next(_batches(task, dtype))[:2]
        stack.check_vmap(sample.expand(len(states), *sample.shape))
    try:
        for x in _batches(task, dtype):
            for layer in layers:
                layer.momentum = len(x) / (count + len(x))
            stack(x.expand(len(states), *x.shape), train=True)
            count += len(x)
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
    return [stack.state(k) for k in range(len(states))]


def _batches(task: Task, dtype: torch.dtype) -> Iterator[Tensor]:
    """The training rows once, shuffled and augmented, the same for every network."""
    order = torch.randperm(task.n, generator=stream("refresh", "order"))  # rows may be sorted by class
    rows = task.train[order].to(task.x.device)
    blocks = -(-len(rows) // ROWS_AT_ONCE)
    if task.augment is None:
        yield from (task.as_input(task.x[part], dtype) for part in rows.tensor_split(blocks))
        return
    pad_images = task.augment.pad_images(task.x)
    variations = task.augment.draw(len(rows), stream("refresh")).to(rows.device)
    for part, each in zip(rows.tensor_split(blocks), variations.tensor_split(blocks), strict=True):
        yield task.as_input(task.augment.cut(pad_images, part, each), dtype)
