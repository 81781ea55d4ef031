"""Training steps as CUDA graphs: with small networks, launching kernels takes longer than computing.

Full batches are replayed; the last, shorter one of an epoch is computed eagerly. Random generators are registered with
the graph, so that every replay draws new masks and noise.
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import torch

from calibrant.errors import CalibrantWarning, plain
from calibrant.networks.stack import is_out_of_memory

WARM_UPS = 3


class Steps(Protocol):
    """The training loop, as far as it is captured."""

    stack: Any
    training: Any
    batches: Any
    masks: Any
    noises: list[torch.Generator]
    optimiser: Any
    objective_tensors: dict[str, torch.Tensor]
    sums: torch.Tensor
    numbers: torch.Tensor

    def step(self, count: int, noisy: bool) -> None:
        """One step."""


class GraphedSteps:
    """Steps of a loop, captured as graphs if possible and enabled."""

    def __init__(self, loop: Steps) -> None:
        on_gpu = loop.stack.flat.device.type == "cuda"
        self.loop, self.possible = loop, on_gpu and loop.training.capture is not False
        self.graphs: dict[bool, Any] = {}

    def step(self, count: int, noisy: bool) -> None:
        """One step; the first full batch captures the graph."""
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
        """Warm up, capture, and restore everything that this changed."""
        loop = self.loop
        changed = [
            loop.stack.flat,
            loop.stack.gradients,
            loop.sums,
            *loop.optimiser.buffers,
            *loop.stack.buffers.values(),
            *loop.objective_tensors.values(),
        ]
        before = [tensor.clone() for tensor in changed]
        streams = [*self.loop.masks.streams, *self.loop.noises]
        states = [generator.get_state() for generator in streams]
        try:
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
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            self.possible, graph = False, None
            message = f"training without CUDA graphs, as the network cannot be captured: {plain(str(error), 120)}"
            warnings.warn(message, CalibrantWarning, stacklevel=2)
        with torch.no_grad():
            for tensor, value in zip(changed, before, strict=True):
                tensor.copy_(value)
        for generator, state in zip(streams, states, strict=True):
            generator.set_state(state)
        return graph
