"""The training loop: a stack of networks, their batches, an optimiser and callbacks.

A step gathers rows, draws masks, computes the loss of every member and takes one optimiser step for all. Members are
independent: each has its own rows, random streams and best state, so that training together and training alone give
the same result, up to the last digits of floating-point sums.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import BatchNorm1d

from calibrant.errors import TrainingError, UsageError, plain
from calibrant.networks.content import content
from calibrant.networks.stack import Stack, State, is_out_of_memory
from calibrant.training.batches import Batches, DropoutMasks
from calibrant.training.callbacks import Callback
from calibrant.training.checkpoints import fingerprint, invalid_checkpoint, read_checkpoint, write_checkpoint
from calibrant.training.cuda_graph import GraphedSteps
from calibrant.training.likelihoods import Likelihood, Scale
from calibrant.training.objectives import Look, NegativeLogLikelihood, Objective, Step
from calibrant.training.optimisers import NUMBERS, Optimiser, ParameterGroup
from calibrant.training.seeds import derive_seed
from calibrant.training.settings import Training, deterministic_kernels, device_context
from calibrant.training.task import Run

Progress = Callable[[str, float, float], None]
Noise = Callable[[int], float]
"""√(2T/n) of an epoch; 0 for none."""
VALIDATED_AT_ONCE = 4096
CHECKPOINT_RATIO = 20.0
"""The minimum time between checkpoints, in units of the time that writing one takes."""


@dataclass
class History:
    """Losses (E, K) of epochs and members, on training and validation rows.

    best: the validation loss of the final networks. Without patience it is the only validation loss.
    """

    losses: list[list[float]] = field(default_factory=list)
    validation: list[list[float]] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    diverged: list[bool] = field(default_factory=list)
    seconds: float = 0.0

    def of(self, k: int) -> dict[str, Any]:
        """The history of one member, as JSON values."""
        return {
            "loss": [each[k] for each in self.losses][: self.epochs[k]],
            "validation": [each[k] for each in self.validation][: self.epochs[k]],
            "best": self.best[k] if self.best else None,
            "epochs": self.epochs[k],
            "diverged": self.diverged[k],
        }


class TrainingLoop:
    """Trains a stack of networks; `run` starts it."""

    def __init__(
        self,
        stack: Stack,
        runs: list[Run],
        training: Training,
        *,
        callbacks: Sequence[Callback] = (),
        noise: Noise | None = None,
        objective: Objective | None = None,
        groups: Sequence[ParameterGroup] = (),
        tolerant: bool = False,
        method: Mapping[str, Any] | None = None,
    ) -> None:
        """noise: the Langevin noise of an epoch. objective: by default the mean −log p. groups: parameters with a rate
        or a decay of their own. tolerant: continue when a member diverges.

        method: further settings that a checkpoint must match.
        """
        device, dtype = stack.flat.device, stack.flat.dtype
        self.stack, self.runs, self.training, self.callbacks = stack, runs, training, callbacks
        stack.compute_dtype = torch.bfloat16 if training.precision == "bfloat16" else None
        self.noise, self.tolerant = noise or (lambda epoch: 0.0), tolerant
        self.method = {} if method is None else method
        self.batches = Batches(runs, training.batch, device, dtype)
        self.masks = DropoutMasks(runs, stack.template.sites, device, dtype)
        rates, decays = [run.rate for run in runs], [run.decay for run in runs]
        self.optimiser = Optimiser(stack, training, rates, decays, groups)
        self.likelihood: Likelihood = runs[0].task.likelihood
        self.objective = objective or NegativeLogLikelihood()
        own = self.objective.tensors(len(runs), dtype)
        self.objective_tensors = {name: value.to(device) for name, value in own.items()}
        self.numbers = torch.zeros(NUMBERS + len(self.objective.scalars), device=device, dtype=dtype)
        self.sums = torch.zeros(len(runs), device=device, dtype=dtype)
        self.noises = [torch.Generator(device=device) for _ in runs] if noise else []
        self.history = History(epochs=[0] * len(runs), diverged=[False] * len(runs))
        self.best = torch.full((len(runs),), math.inf, dtype=torch.float64)
        self.since = torch.zeros(len(runs), dtype=torch.long)
        self.best_state: State = {}
        if self.training.patience is not None and not len(self.runs[0].task.validation):
            hint = "use task.split(0.1)"
            raise TrainingError("patience", expected="a task with validation rows", got="none", hint=hint)
        least = min(self.batches.size(step) for step in range(self.batches.steps))
        if least == 1 and any(isinstance(each, BatchNorm1d) for each in self.stack.template.module.modules()):
            got = f"a last batch of one row: {self.batches.n} rows in batches of {self.batches.batch}"
            hint = f"use batch={self.batches.batch + 1}"
            raise TrainingError("batch", expected="batches of at least two rows, for batch norm", got=got, hint=hint)
        self.batches.shuffle(0)
        self.masks.shuffle(0)
        count = min(2, self.batches.batch)
        x, _ = self.batches.rows(count)
        self.stack.check_vmap(x, self.masks.draw(count))
        if self.training.compile:
            self.stack.compile()

    # ---------------------------------------------------------------------------------------- a step
    def loss(self, count: int) -> Tensor:
        """The loss of each member (K,) over the selected rows."""
        x, y = self.batches.rows(count)
        outputs = self.stack(x, self.masks.draw(count), train=True)
        scalars = dict(zip(self.objective.scalars, self.numbers[NUMBERS:], strict=True))
        scale, own = Scale(*self.stack.scale), self.objective_tensors
        return self.objective.loss(Step(outputs, x, y, scale, self.stack.parameters, scalars, own, self.likelihood))

    def step(self, count: int, noisy: bool) -> None:
        """One step of all members, eagerly."""
        losses = self.loss(count)
        losses.sum().backward()
        self.optimiser.step(self.numbers, self._noise() if noisy else None)
        self.sums.add_(losses.detach(), alpha=count / self.batches.n)

    def _noise(self) -> Tensor:
        """Standard normal numbers for every parameter, each member's from its own stream."""
        noise, offset = torch.zeros_like(self.stack.flat), 0
        size = sum(parameter[0].numel() for parameter in self.stack.parameters.values())
        each = torch.stack([
            torch.randn(size, generator=generator, device=noise.device, dtype=noise.dtype) for generator in self.noises
        ])  # fmt: skip
        for part, parameter in zip(self.stack.parts(noise), self.stack.parameters.values(), strict=True):
            count = parameter[0].numel()
            part.view(len(self.runs), count).copy_(each[:, offset : offset + count])
            offset += count
        return noise

    # ------------------------------------------------------------------------------------- the epochs
    def run(self, progress: Progress | None = None, checkpoint: Path | None = None, what: str = "training") -> History:
        """Train to the end, from the checkpoint if it exists."""
        start, done = time.monotonic(), 0
        checkpoints = None if checkpoint is None else Checkpointer(checkpoint, self)
        if checkpoints is not None:
            done = checkpoints.resume()
        before = self.history.seconds
        with deterministic_kernels(self.training.deterministic), device_context(self.stack.flat.device):
            steps = GraphedSteps(self)
            for epoch in range(done, self.training.epochs):
                if self.over:
                    break
                if progress is not None:
                    progress(what, epoch, self.training.epochs)
                self._epoch(epoch, steps)
                self.history.seconds = before + time.monotonic() - start
                if checkpoints is not None:
                    checkpoints.write(epoch + 1, last=self.over or epoch + 1 == self.training.epochs)
            if self.training.patience is not None:
                self.stack.restore(self.best_state)
                self.history.best = self.best.tolist()
            elif len(self.runs[0].task.validation):
                self.history.best = self.validate()
        if progress is not None:
            progress(what, self.training.epochs, self.training.epochs)
        return self.history

    @property
    def over(self) -> bool:
        """Whether every network has stopped early."""
        return self.training.patience is not None and bool((self.since >= self.training.patience).all())

    def _epoch(self, epoch: int, graphed: GraphedSteps) -> None:
        self.batches.shuffle(epoch)
        self.masks.shuffle(epoch)
        for run, generator in zip(self.runs, self.noises, strict=False):
            generator.manual_seed(derive_seed(run.seed, run.member, "noise", epoch))
        noise = self.noise(epoch)
        steps, device = self.batches.steps, self.numbers.device
        progress = [(epoch + step / steps) / self.training.epochs for step in range(steps)]
        factors = [self.training.schedule.factor(t, self.training.epochs) for t in progress]
        table = [
            [*self.optimiser.numbers(epoch * steps + step, factors[step], noise), *self._scalars(progress[step])]
            for step in range(steps)
        ]
        numbers = torch.tensor(table, dtype=self.numbers.dtype).to(device)
        self.sums.zero_()
        for step in range(steps):
            self.batches.load(step)
            self.numbers.copy_(numbers[step])
            graphed.step(self.batches.size(step), noise > 0.0)
        self._record(epoch)
        self.objective.after_epoch(Look(len(self.runs), self.validate), epoch, self.objective_tensors)
        for callback in self.callbacks:
            callback.after_epoch(self.stack, epoch)

    def _scalars(self, t: float) -> list[float]:
        """The scalars of the objective, in order."""
        values = self.objective.scalar_values(t, self.training.epochs)
        if set(values) != set(self.objective.scalars):
            got, hint = ", ".join(sorted(values)) or "none", "return one value per name in scalars"
            expected = f"values of {', '.join(self.objective.scalars) or 'none'}"
            raise UsageError(f"{type(self.objective).__name__}.scalar_values", expected=expected, got=got, hint=hint)
        return [float(values[name]) for name in self.objective.scalars]

    def _record(self, epoch: int) -> None:
        """Record the losses of an epoch, and update divergence and early stopping."""
        losses = self.sums.tolist()
        self.history.losses.append(losses)
        stopped = [
            self.training.patience is not None and since >= self.training.patience for since in self.since.tolist()
        ]
        for k, loss in enumerate(losses):
            if not math.isfinite(loss) and not self.history.diverged[k] and not stopped[k]:
                self.history.diverged[k] = True
                if self.tolerant:
                    continue
                run = self.runs[k]
                raise TrainingError(
                    f"training, seed {run.seed}, member {run.member}",
                    expected="a finite loss",
                    got=f"{loss} after epoch {epoch + 1} at a learning rate of {run.rate:g}",
                    hint="lower the rate, clip gradients (clip=1.0), check the data for extreme values, or continue "
                    "without this network (diverged='keep')",
                )
        if self.training.patience is None:
            self.history.epochs = [epoch + 1] * len(self.runs)
            return
        self.history.validation.append(self.validate())
        now = torch.tensor(self.history.validation[-1], dtype=torch.float64)
        active = self.since < self.training.patience
        better = active & (now < self.best)
        self.best = torch.where(better, now, self.best)
        self.since = torch.where(active, torch.where(better, 0, self.since + 1), self.since)
        self.history.epochs = [epoch + 1 if on else last for on, last in zip(active, self.history.epochs, strict=True)]
        self.stack.keep(better.to(self.stack.flat.device), self.best_state)

    @torch.no_grad()
    def validate(self) -> list[float]:
        """The mean loss of each member over its validation rows, without dropout."""
        rows = torch.stack([run.task.validation for run in self.runs]).to(self.batches.device)
        x = self.batches.raw
        total = torch.zeros(len(self.runs), device=rows.device, dtype=self.sums.dtype)
        for part in rows.split(VALIDATED_AT_ONCE, dim=1):
            inputs = self.runs[0].task.as_input(x[part], self.sums.dtype)
            outputs = self.stack(inputs)
            total += self.likelihood.nll(outputs, self.batches.y[part], Scale(*self.stack.scale)).sum(1)
        return (total / rows.shape[1]).tolist()

    # ------------------------------------------------------------------------------------ checkpoints
    def state(self) -> dict[str, Any]:
        """The state of training; random streams are functions of the epoch and not stored."""
        tensors = {"flat": self.stack.flat, "best": self.best, "since": self.since}
        tensors |= {f"kept/{name}": value for name, value in self.best_state.items()}
        tensors |= {f"buffer/{name}": value for name, value in self.stack.buffers.items()}
        tensors |= {f"optimiser/{k}": value for k, value in enumerate(self.optimiser.buffers)}
        tensors |= {f"objective/{name}": value for name, value in self.objective_tensors.items()}
        for k, callback in enumerate(self.callbacks):
            tensors |= {f"watcher/{k}/{name}": value for name, value in callback.state().items()}
        return {"tensors": tensors, "history": vars(self.history)}

    def restore(self, tensors: dict[str, Tensor], history: Mapping[str, Any]) -> None:
        """Restore the state; raises an error if it does not fit."""
        self.history = History(**history)
        with torch.no_grad():
            self.stack.flat.copy_(tensors["flat"])
            self.best.copy_(tensors["best"])
            self.since.copy_(tensors["since"])
            for name, value in self.stack.buffers.items():
                value.copy_(tensors[f"buffer/{name}"])
            for k, value in enumerate(self.optimiser.buffers):
                value.copy_(tensors[f"optimiser/{k}"])
            for name, value in self.objective_tensors.items():
                value.copy_(tensors[f"objective/{name}"])
        device = self.stack.flat.device
        self.best_state = {name[5:]: value.to(device) for name, value in tensors.items() if name.startswith("kept/")}
        for k, callback in enumerate(self.callbacks):
            head = f"watcher/{k}/"
            callback.restore(
                {name[len(head) :]: value.to(device) for name, value in tensors.items() if name.startswith(head)}
            )


class Checkpointer:
    """Reads and writes checkpoints of a loop."""

    def __init__(self, path: Path, loop: TrainingLoop) -> None:
        self.path, self.loop = path, loop
        facts = {**loop.method, "objective": loop.objective.content(), "groups": content(loop.optimiser.groups)}
        self.key = fingerprint(loop.stack, loop.runs, loop.training, loop.callbacks, facts)
        self.written_at = self.seconds = 0.0

    def resume(self) -> int:
        """Restore the checkpoint; returns the number of epochs done."""
        if not self.path.exists():
            return 0
        done, tensors, history = read_checkpoint(self.path, self.key)
        try:
            self.loop.restore(tensors, history)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise invalid_checkpoint(self.path, error) from error
        return done

    def write(self, done: int, last: bool) -> None:
        """Write a checkpoint, unless that would take more than a twentieth of the time."""
        start = time.monotonic()
        if last or start - self.written_at >= CHECKPOINT_RATIO * self.seconds:
            write_checkpoint(self.path, self.key, done, self.loop.state())
            self.written_at = time.monotonic()
            self.seconds = self.written_at - start


@contextmanager
def explain_out_of_memory(networks: int, training: Training, device: torch.device) -> Iterator[None]:
    """Convert out-of-memory errors to `TrainingError` with a hint."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        expected = f"memory for {networks} networks with batches of {training.batch} rows on {device}"
        hint = "train fewer at a time (together=1), use smaller batches, or precision='bfloat16'"
        raise TrainingError("memory", expected=expected, got=plain(str(error), 120), hint=hint) from error
