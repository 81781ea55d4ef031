"""The one training loop: a stack of networks, their rows, an optimiser, and those who watch.

A step gathers rows, draws masks, computes the loss of every member and takes one step for all. Members meet nowhere:
each has its own rows, its own streams of random numbers, its own best state, so that training together gives what
training alone gives, up to the last digits of floating-point sums.
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

from calibrant.errors import TrainingError, plain
from calibrant.networks.stack import Stack, State, short_of_memory
from calibrant.training.batches import Batches, Masks
from calibrant.training.capturing import Captured
from calibrant.training.checkpoints import fingerprint, read_checkpoint, refused, write_checkpoint
from calibrant.training.likelihoods import Likelihood, Scale
from calibrant.training.optimisers import Optimiser
from calibrant.training.runs import Run
from calibrant.training.seeds import seed_of
from calibrant.training.settings import Training, on_device, reproducible
from calibrant.training.watching import Watcher

Progress = Callable[[str, float, float], None]
Noise = Callable[[int], float]
"""√(2T/n) of an epoch, 0 where nothing is added."""
VALIDATED_AT_ONCE = 4096
WORTH = 20.0
"""By how many times the time since the last checkpoint exceeds the time that writing it took."""


@dataclass
class History:
    """How training went, epoch by epoch and member by member: losses (E, K), and those on validation rows.

    best: the validation loss of the networks as they are kept. Without patience only that is computed.
    """

    losses: list[list[float]] = field(default_factory=list)
    validation: list[list[float]] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    diverged: list[bool] = field(default_factory=list)
    seconds: float = 0.0

    def of(self, k: int) -> dict[str, Any]:
        """What is told of one member."""
        return {
            "loss": [each[k] for each in self.losses][: self.epochs[k]],
            "validation": [each[k] for each in self.validation][: self.epochs[k]],
            "best": self.best[k] if self.best else None,
            "epochs": self.epochs[k],
            "diverged": self.diverged[k],
        }


class Loop:
    """Everything that training needs; `run` does it."""

    def __init__(
        self,
        stack: Stack,
        runs: list[Run],
        training: Training,
        *,
        watchers: Sequence[Watcher] = (),
        noise: Noise | None = None,
        tolerant: bool = False,
        method: Mapping[str, Any] | None = None,
    ) -> None:
        """noise: how much Langevin noise an epoch has. tolerant: a member that diverges does not stop the others.

        method: what else a checkpoint must agree with.
        """
        device, dtype = stack.flat.device, stack.flat.dtype
        self.stack, self.runs, self.training, self.watchers = stack, runs, training, watchers
        self.noise, self.tolerant = noise or (lambda epoch: 0.0), tolerant
        self.method = {} if method is None else method
        self.batches = Batches(runs, training.batch, device, dtype)
        self.masks = Masks(runs, stack.template.sites, device, dtype)
        self.optimiser = Optimiser(stack, training, [run.rate for run in runs], [run.decay for run in runs])
        self.likelihood: Likelihood = runs[0].task.likelihood
        self.numbers = torch.zeros(5, device=device, dtype=dtype)
        self.sums = torch.zeros(len(runs), device=device, dtype=dtype)
        self.noises = [torch.Generator(device=device) for _ in runs] if noise else []
        self.history = History(epochs=[0] * len(runs), diverged=[False] * len(runs))
        self.best = torch.full((len(runs),), math.inf, dtype=torch.float64)
        self.since = torch.zeros(len(runs), dtype=torch.long)
        self.kept: State = {}
        self._check()

    def _check(self) -> None:
        if self.training.patience is not None and not len(self.runs[0].task.validation):
            raise TrainingError(
                "patience",
                expected="validation rows, by which training is stopped",
                came="the task has none",
                do="hold some back: task.split(0.1)",
            )
        least = min(self.batches.size(step) for step in range(self.batches.steps))
        if least == 1 and any(isinstance(each, BatchNorm1d) for each in self.stack.template.module.modules()):
            raise TrainingError(
                "batch",
                expected="batches of at least two rows, because the network normalises batches",
                came=f"{self.batches.n} rows in batches of {self.batches.batch} leave one of a single row",
                do="choose another size of batches",
            )
        self.batches.shuffle(0)
        self.masks.shuffle(0)
        count = min(2, self.batches.batch)
        x, _ = self.batches.rows(count)
        self.stack.try_together(x, self.masks.draw(count))
        if self.training.compile:
            self.stack.compile()

    # ---------------------------------------------------------------------------------------- a step
    def loss(self, count: int) -> Tensor:
        """The mean loss of each member (K,) over the rows that are pointed at."""
        x, y = self.batches.rows(count)
        with self._precision():
            outputs = self.stack(x, self.masks.draw(count), train=True)
        return self.likelihood.nll(outputs, y, Scale(*self.stack.scale)).mean(1)

    def step(self, count: int, noisy: bool) -> None:
        """One step of all members, eagerly."""
        losses = self.loss(count)
        losses.sum().backward()
        self.optimiser.step(self.numbers, self._noise() if noisy else None)
        self.sums.add_(losses.detach(), alpha=count / self.batches.n)

    def _noise(self) -> Tensor:
        """Standard normal numbers for every parameter, each member's from its own stream."""
        made, taken = torch.zeros_like(self.stack.flat), 0
        size = sum(parameter[0].numel() for parameter in self.stack.parameters.values())
        each = torch.stack([
            torch.randn(size, generator=generator, device=made.device, dtype=made.dtype) for generator in self.noises
        ])  # fmt: skip
        for part, parameter in zip(self.stack.parts(made), self.stack.parameters.values(), strict=True):
            count = parameter[0].numel()
            part.view(len(self.runs), count).copy_(each[:, taken : taken + count])
            taken += count
        return made

    def _precision(self) -> Any:
        enabled = self.training.precision == "bfloat16"
        return torch.autocast(self.stack.flat.device.type, torch.bfloat16, enabled=enabled, cache_enabled=False)

    # ------------------------------------------------------------------------------------- the epochs
    def run(self, progress: Progress | None = None, checkpoint: Path | None = None, what: str = "training") -> History:
        """Train to the end, from a checkpoint where there is one."""
        begun, done = time.monotonic(), 0
        kept = None if checkpoint is None else Keeper(checkpoint, self)
        if kept is not None:
            done = kept.resume()
        before = self.history.seconds
        with reproducible(self.training.deterministic), on_device(self.stack.flat.device):
            captured = Captured(self)
            for epoch in range(done, self.training.epochs):
                if self.over:
                    break
                if progress is not None:
                    progress(what, epoch, self.training.epochs)
                self._epoch(epoch, captured)
                self.history.seconds = before + time.monotonic() - begun
                if kept is not None:
                    kept.keep(epoch + 1, last=self.over or epoch + 1 == self.training.epochs)
            self._finish()
        if progress is not None:
            progress(what, self.training.epochs, self.training.epochs)
        return self.history

    @property
    def over(self) -> bool:
        """Whether every network has had its patience."""
        return self.training.patience is not None and bool((self.since >= self.training.patience).all())

    def _epoch(self, epoch: int, captured: Captured) -> None:
        self.batches.shuffle(epoch)
        self.masks.shuffle(epoch)
        for run, generator in zip(self.runs, self.noises, strict=False):
            generator.manual_seed(seed_of(run.seed, run.member, "noise", epoch))
        noise = self.noise(epoch)
        steps, device = self.batches.steps, self.numbers.device
        shares = [(epoch + step / steps) / self.training.epochs for step in range(steps)]
        factors = [self.training.schedule.factor(share, self.training.epochs) for share in shares]
        table = [self.optimiser.numbers(epoch * steps + step, factors[step], noise) for step in range(steps)]
        numbers = torch.tensor(table, dtype=self.numbers.dtype).to(device)
        self.sums.zero_()
        for step in range(steps):
            self.batches.load(step)
            self.numbers.copy_(numbers[step])
            captured.step(self.batches.size(step), noise > 0.0)
        self._note(epoch)
        for watcher in self.watchers:
            watcher.after_epoch(self.stack, epoch)

    def _note(self, epoch: int) -> None:
        """Write down the losses of an epoch, and what follows from them."""
        losses = self.sums.tolist()
        self.history.losses.append(losses)
        stopped = [
            self.training.patience is not None and since >= self.training.patience for since in self.since.tolist()
        ]
        for k, loss in enumerate(losses):
            if not math.isfinite(loss) and not self.history.diverged[k] and not stopped[k]:
                self.history.diverged[k] = True
                if not self.tolerant:
                    self._refuse(k, epoch, loss)
        if self.training.patience is None:
            self.history.epochs = [epoch + 1] * len(self.runs)
            return
        self.history.validation.append(self.validate())
        now = torch.tensor(self.history.validation[-1], dtype=torch.float64)
        going = self.since < self.training.patience
        better = going & (now < self.best)
        self.best = torch.where(better, now, self.best)
        self.since = torch.where(going, torch.where(better, 0, self.since + 1), self.since)
        self.history.epochs = [epoch + 1 if on else had for on, had in zip(going, self.history.epochs, strict=True)]
        self.stack.keep(better.to(self.stack.flat.device), self.kept)

    def _refuse(self, k: int, epoch: int, loss: float) -> None:
        run = self.runs[k]
        raise TrainingError(
            f"training, seed {run.seed}, member {run.member}",
            expected="a finite loss",
            came=f"it is {loss} after epoch {epoch + 1}, at a learning rate of {run.rate:g}",
            do="lower the rate, clip gradients (clip=1.0), look for odd values in the data, or go on without it "
            "(diverged='keep')",
        )

    def _finish(self) -> None:
        if self.training.patience is not None:
            self.stack.restore(self.kept)
            self.history.best = self.best.tolist()
        elif len(self.runs[0].task.validation):
            self.history.best = self.validate()

    @torch.no_grad()
    def validate(self) -> list[float]:
        """The mean loss of each member over its validation rows, nothing being dropped."""
        rows = torch.stack([run.task.validation for run in self.runs]).to(self.batches.device)
        x = self.batches.raw
        total = torch.zeros(len(self.runs), device=rows.device, dtype=self.sums.dtype)
        for part in rows.split(VALIDATED_AT_ONCE, dim=1):
            taken = self.runs[0].task.seen(x[part], self.sums.dtype)
            with self._precision():
                outputs = self.stack(taken)
            total += self.likelihood.nll(outputs, self.batches.y[part], Scale(*self.stack.scale)).sum(1)
        return (total / rows.shape[1]).tolist()

    # ------------------------------------------------------------------------------------ checkpoints
    def state(self) -> dict[str, Any]:
        """Everything that going on needs; random numbers are functions of the epoch and need nothing."""
        tensors = {"flat": self.stack.flat, "best": self.best, "since": self.since}
        tensors |= {f"kept/{name}": value for name, value in self.kept.items()}
        tensors |= {f"buffer/{name}": value for name, value in self.stack.buffers.items()}
        tensors |= {f"optimiser/{k}": value for k, value in enumerate(self.optimiser.kept)}
        for k, watcher in enumerate(self.watchers):
            tensors |= {f"watcher/{k}/{name}": value for name, value in watcher.state().items()}
        return {"tensors": tensors, "history": vars(self.history)}

    def restore(self, tensors: dict[str, Tensor], history: Mapping[str, Any]) -> None:
        """Take everything back; what does not fit raises an error."""
        self.history = History(**history)
        with torch.no_grad():
            self.stack.flat.copy_(tensors["flat"])
            self.best.copy_(tensors["best"])
            self.since.copy_(tensors["since"])
            for name, value in self.stack.buffers.items():
                value.copy_(tensors[f"buffer/{name}"])
            for k, value in enumerate(self.optimiser.kept):
                value.copy_(tensors[f"optimiser/{k}"])
        device = self.stack.flat.device
        self.kept = {name[5:]: value.to(device) for name, value in tensors.items() if name.startswith("kept/")}
        for k, watcher in enumerate(self.watchers):
            head = f"watcher/{k}/"
            watcher.restore(
                {name[len(head) :]: value.to(device) for name, value in tensors.items() if name.startswith(head)}
            )


class Keeper:
    """Keeps checkpoints of a loop, and finds what is there of it."""

    def __init__(self, path: Path, loop: Loop) -> None:
        self.path, self.loop = path, loop
        self.key = fingerprint(loop.stack, loop.runs, loop.training, loop.watchers, loop.method)
        self.wrote = self.took = 0.0

    def resume(self) -> int:
        """How many epochs are done already."""
        if not self.path.exists():
            return 0
        done, tensors, history = read_checkpoint(self.path, self.key)
        try:
            self.loop.restore(tensors, history)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise refused(self.path, error) from error
        return done

    def keep(self, done: int, last: bool) -> None:
        """Write a checkpoint, unless that would take more than a twentieth of the time."""
        begun = time.monotonic()
        if last or begun - self.wrote >= WORTH * self.took:
            write_checkpoint(self.path, self.key, done, self.loop.state())
            self.wrote = time.monotonic()
            self.took = self.wrote - begun


@contextmanager
def explaining(networks: int, training: Training, device: torch.device) -> Iterator[None]:
    """Memory that does not suffice is told with what can be done about it."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not short_of_memory(error):
            raise
        raise TrainingError(
            "memory",
            expected=f"room for {networks} networks at a batch of {training.batch} on {device}",
            came=plain(str(error), 120),
            do="train fewer at a time (together=…), take smaller batches, or use precision='bfloat16'",
        ) from error
