"""Batches on the device, in an order of each member's own, with augmentation; and dropout masks."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant.networks.dropout import Site, draw_mask
from calibrant.training.seeds import derive_seed, stream
from calibrant.training.task import Run


class Batches:
    """Training batches of every run: `shuffle` an epoch, `load` a step, `rows` returns x (K, B, …) and y (K, B)."""

    def __init__(self, runs: list[Run], batch: int, device: torch.device, dtype: torch.dtype) -> None:
        task = runs[0].task.to(device)
        self.runs, self.augment = runs, task.augment
        self.n, self.batch = task.n, min(batch, task.n)
        self.x = task.x if self.augment is None else self.augment.pad_images(task.x)
        self.x = task.as_input(self.x, dtype)
        self.raw, self.y = task.x, task.y
        self.train = torch.stack([run.task.train for run in runs])
        self.device = device
        self.selected = torch.zeros((len(runs), self.batch), dtype=torch.long, device=device)
        self.variations = torch.zeros((len(runs), self.batch, 3), dtype=torch.uint8, device=device)
        self.order, self.epoch_variations = self.selected, self.variations

    @property
    def steps(self) -> int:
        """Steps per epoch; the last may have fewer rows."""
        return -(-self.n // self.batch)

    def size(self, step: int) -> int:
        """The number of rows of a step."""
        return min(self.batch, self.n - step * self.batch)

    def shuffle(self, epoch: int) -> None:
        """Draw the order and the augmentation of an epoch: functions of seed, member and epoch only."""
        orders, variations = [], []
        for run, train in zip(self.runs, self.train, strict=True):
            orders.append(train[torch.randperm(self.n, generator=stream(run.seed, run.member, "order", epoch))])
            if self.augment is not None:
                variations.append(self.augment.draw(self.n, stream(run.seed, run.member, "augment", epoch)))
        self.order = torch.stack(orders).to(self.device)
        if variations:
            self.epoch_variations = torch.stack(variations).to(self.device)

    def load(self, step: int) -> None:
        """Select the rows of a step, in place, as a captured graph reads fixed memory."""
        part, count = slice(step * self.batch, step * self.batch + self.size(step)), self.size(step)
        self.selected[:, :count].copy_(self.order[:, part])
        if self.augment is not None:
            self.variations[:, :count].copy_(self.epoch_variations[:, part])

    def rows(self, count: int) -> tuple[Tensor, Tensor]:
        """The first `count` selected rows."""
        rows = self.selected[:, :count]
        x = self.x[rows] if self.augment is None else self.augment.cut(self.x, rows, self.variations[:, :count])
        return x, self.y[rows]


class DropoutMasks:
    """Dropout masks for every row of a batch, each member's from its own stream."""

    def __init__(self, runs: list[Run], sites: tuple[Site, ...], device: torch.device, dtype: torch.dtype) -> None:
        self.runs, self.dtype = runs, dtype
        self.sites = [site for site in sites if any(_probability(run, site) for run in runs)]
        self.streams = [torch.Generator(device=device) for _ in runs] if self.sites else []

    def shuffle(self, epoch: int) -> None:
        """Seed the streams of an epoch."""
        for run, generator in zip(self.runs, self.streams, strict=False):
            generator.manual_seed(derive_seed(run.seed, run.member, "dropout", epoch))

    def draw(self, count: int) -> dict[str, Tensor]:
        """A mask (K, count, …) per site."""
        return {
            site.mask: torch.stack([
                draw_mask((count, *site.shape), _probability(run, site), generator, self.dtype)
                for run, generator in zip(self.runs, self.streams, strict=True)
            ])
            for site in self.sites
        }  # fmt: skip


def _probability(run: Run, site: Site) -> float:
    return run.dropout if site.p is None else site.p
