"""A step captured as a graph of kernels and replayed: on a GPU small networks wait for their kernels, not for sums.

Full batches are replayed; the last, shorter one of an epoch is computed as it is. Streams of random numbers are known
to the graph, so that masks and noise are drawn anew in every replay, as they would be without it.
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import torch

from calibrant.errors import CalibrantWarning, plain
from calibrant.networks.stack import short_of_memory

WARM_UPS = 3


class Steps(Protocol):
    """What is captured."""

    stack: Any
    training: Any
    batches: Any
    masks: Any
    noises: list[torch.Generator]
    optimiser: Any
    sums: torch.Tensor
    numbers: torch.Tensor

    def step(self, count: int, noisy: bool) -> None:
        """One step."""


class Captured:
    """Steps of a loop, captured where that is possible and wanted."""

    def __init__(self, loop: Steps) -> None:
        on_gpu = loop.stack.flat.device.type == "cuda"
        wanted = loop.training.capture if loop.training.capture is not None else True
        self.loop, self.possible = loop, on_gpu and wanted
        self.graphs: dict[bool, Any] = {}

    def step(self, count: int, noisy: bool) -> None:
        """One step: of a full batch by its graph, which the first one makes."""
        if not self.possible or count < self.loop.batches.batch:
            self.loop.step(count, noisy)
            return
        if noisy not in self.graphs:
            self.graphs[noisy] = self._capture(count, noisy)
        if self.graphs[noisy] is None:
            self.loop.step(count, noisy)
        else:
            self.graphs[noisy].replay()

    def _capture(self, count: int, noisy: bool) -> Any:
        """Warm up, capture, and put back everything that this changed."""
        changed = self._changed()
        before = [tensor.clone() for tensor in changed]
        streams = [*self.loop.masks.streams, *self.loop.noises]
        states = [generator.get_state() for generator in streams]
        try:
            graph = self._captured(count, noisy, streams)
        except RuntimeError as error:
            if short_of_memory(error):
                raise
            self.possible, graph = False, None
            said = f"steps are not captured, because the network cannot be: {plain(str(error), 120)}"
            warnings.warn(said, CalibrantWarning, stacklevel=2)
        with torch.no_grad():
            for tensor, value in zip(changed, before, strict=True):
                tensor.copy_(value)
        for generator, state in zip(streams, states, strict=True):
            generator.set_state(state)
        return graph

    def _captured(self, count: int, noisy: bool, streams: list[torch.Generator]) -> Any:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                self.loop.step(count, noisy)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        for generator in streams:
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph):
            self.loop.step(count, noisy)
        return graph

    def _changed(self) -> list[torch.Tensor]:
        loop = self.loop
        return [loop.stack.flat, loop.stack.slopes, loop.sums, *loop.optimiser.kept, *loop.stack.buffers.values()]
