"""Rows in batches, on the device, in an order of each member's own, varied as the task says; and masks of dropout."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant.networks.dropping import Site, draw_mask
from calibrant.training.runs import Run
from calibrant.training.seeds import seed_of, stream


class Batches:
    """The training rows of every run: `shuffle` an epoch, `load` a step, `rows` gives x (K, B, …) and y (K, B)."""

    def __init__(self, runs: list[Run], batch: int, device: torch.device, dtype: torch.dtype) -> None:
        task = runs[0].task.to(device)
        self.runs, self.augment = runs, task.augment
        self.n, self.batch = task.n, min(batch, task.n)
        self.x = task.x if self.augment is None else self.augment.bordered(task.x)
        self.x = task.seen(self.x, dtype)
        self.raw, self.y = task.x, task.y
        self.train = torch.stack([run.task.train for run in runs])
        self.device = device
        self.now = torch.zeros((len(runs), self.batch), dtype=torch.long, device=device)
        self.variations = torch.zeros((len(runs), self.batch, 3), dtype=torch.uint8, device=device)
        self.order, self.varied = self.now, self.variations

    @property
    def steps(self) -> int:
        """Steps of an epoch; the last may have fewer rows."""
        return -(-self.n // self.batch)

    def size(self, step: int) -> int:
        """The rows of a step."""
        return min(self.batch, self.n - step * self.batch)

    def shuffle(self, epoch: int) -> None:
        """The order of an epoch, and the variations of its rows: a function of seed, member and epoch alone."""
        orders, varied = [], []
        for run, train in zip(self.runs, self.train, strict=True):
            orders.append(train[torch.randperm(self.n, generator=stream(run.seed, run.member, "order", epoch))])
            if self.augment is not None:
                varied.append(self.augment.draw(self.n, stream(run.seed, run.member, "augment", epoch)))
        self.order = torch.stack(orders).to(self.device)
        if varied:
            self.varied = torch.stack(varied).to(self.device)

    def load(self, step: int) -> None:
        """Point at the rows of a step: in place, because a captured graph reads from one place."""
        part, count = slice(step * self.batch, step * self.batch + self.size(step)), self.size(step)
        self.now[:, :count].copy_(self.order[:, part])
        if self.augment is not None:
            self.variations[:, :count].copy_(self.varied[:, part])

    def rows(self, count: int) -> tuple[Tensor, Tensor]:
        """The first `count` rows that are pointed at."""
        now = self.now[:, :count]
        x = self.x[now] if self.augment is None else self.augment.cut(self.x, now, self.variations[:, :count])
        return x, self.y[now]


class Masks:
    """Masks of dropout for every row of a batch, each member's from a stream of its own."""

    def __init__(self, runs: list[Run], sites: tuple[Site, ...], device: torch.device, dtype: torch.dtype) -> None:
        self.runs, self.dtype = runs, dtype
        self.sites = [site for site in sites if any(_rate(run, site) for run in runs)]
        self.streams = [torch.Generator(device=device) for _ in runs] if self.sites else []

    def shuffle(self, epoch: int) -> None:
        """Begin the streams of an epoch."""
        for run, generator in zip(self.runs, self.streams, strict=False):
            generator.manual_seed(seed_of(run.seed, run.member, "dropout", epoch))

    def draw(self, count: int) -> dict[str, Tensor]:
        """A mask (K, count, …) for each site."""
        return {
            site.mask: torch.stack([
                draw_mask((count, *site.shape), _rate(run, site), generator, self.dtype)
                for run, generator in zip(self.runs, self.streams, strict=True)
            ])
            for site in self.sites
        }  # fmt: skip


def _rate(run: Run, site: Site) -> float:
    return run.dropout if site.rate is None else site.rate
