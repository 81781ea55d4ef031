"""Cyclical SGLD: cosine cycles of the learning rate; the last epochs of each have Langevin noise and give members.

In the noise phase a step is θ ← θ − η∇(L + ½decay|θ|²) + √(2ηT/n) z, whose stationary distribution at small η is the
posterior exp(−n(L + ½decay|θ|²)/T) for L the mean negative log-likelihood of n rows; ½n·decay|θ|² is a normal prior.
T = 1 is the posterior itself; deep networks with batch norm and augmentation need a cold one, T < 1.

Published code differs in T. That of Zhang et al. (csgmcmc) sets its temperature to 1/n in a noise term that is divided
by n again, so that T = 1/n: hardly any noise. That of Ashukha et al. (pytorch-ensembles) adds noise of standard
deviation √(2η)/s, s the steps of an epoch, which is T = n/s²: 0.33 for the 50,000 images of CIFAR-10 in batches of 128.
That is the default here. Both keep momentum in the noise phase; here it has none, because the law above is that of a
step without momentum. Clipped gradients are not those of a density, so clipping is refused.

References: Zhang et al. (2020), ICLR; Welling & Teh (2011), ICML: 681-688; Ashukha et al. (2020), ICLR 8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from calibrant.errors import UsageError
from calibrant.methods.base import Method, TrainingResult
from calibrant.methods.posterior import WeightSamples
from calibrant.training.callbacks import Callback, WeightSnapshots
from calibrant.training.loop import Noise
from calibrant.training.schedules import Cosine
from calibrant.training.settings import check_count

ASHUKHA_TEMPERATURE = 50_000 / 391**2
"""n/s² of CIFAR-10 in batches of 128."""


@dataclass(frozen=True)
class CyclicalSGLD(Method):
    """Cyclical stochastic-gradient Langevin dynamics.

    Parameters
    ----------
    training : Training
        Epochs, optimiser "sgd" and learning rate, without clipping; its schedule is replaced by cosine cycles.
    cycles : int
        The number of cycles; it must divide the epochs.
    samples : int
        Members per cycle, one after each of the last epochs of a cycle, which have noise.
    temperature : float
        T of the posterior; the default, 0.33, is that of Ashukha et al. (2020) on CIFAR-10.
    skip : int
        Initial cycles without members.

    Examples
    --------
    >>> from calibrant.methods import CyclicalSGLD, Task, Training
    >>> from calibrant.networks import MLP
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> method = CyclicalSGLD(Training(epochs=4, rate=0.01), cycles=2, samples=1)
    >>> method.fit(task, MLP(1, 2, (4,)), device="cpu")
    WeightSamples('csgld', 2 members, 'task', seed=0)
    """

    cycles: int = 4
    samples: int = 3
    temperature: float = ASHUKHA_TEMPERATURE
    skip: int = 0
    name: ClassVar[str] = "csgld"
    needs_all_epochs: ClassVar[bool] = True
    version: ClassVar[int] = 2
    reference: ClassVar[str] = "Zhang et al. (2020), ICLR"

    def __post_init__(self) -> None:
        for name, least in (("cycles", 1), ("samples", 1), ("skip", 0)):
            object.__setattr__(self, name, check_count(f"csgld: {name}", getattr(self, name), least))
        length = self.training.epochs // max(self.cycles, 1)
        valid = self.cycles >= 1 and 1 <= self.samples <= length and 0 <= self.skip < self.cycles
        valid &= length * self.cycles == self.training.epochs
        if not (valid and self.temperature >= 0.0 and self.training.optimiser == "sgd"):
            raise UsageError(
                "csgld",
                expected="sgd, T ≥ 0, cycles that divide epochs, skip < cycles, samples ≤ epochs per cycle",
                got=f"{self.training.optimiser}, T = {self.temperature}, {self.cycles} cycles of {length} epochs, "
                f"{self.samples} samples, skip {self.skip}",
                hint="use CyclicalSGLD(Training(epochs=100), cycles=4, samples=3)",
            )
        if self.training.clip is not None:
            got, hint = f"clip={self.training.clip}", "use Training(clip=None) and a lower rate"
            raise UsageError("csgld", expected="training without gradient clipping", got=got, hint=hint)
        object.__setattr__(self, "training", replace(self.training, schedule=Cosine(self.cycles)))

    def _position(self, epoch: int) -> tuple[int, int]:
        """The cycle of an epoch, and the number of later epochs in it."""
        length = self.training.epochs // self.cycles
        return epoch // length, length - 1 - epoch % length

    def noise(self, n: int) -> Noise:
        """√(2T/n) in the last epochs of a cycle."""
        size = math.sqrt(2.0 * self.temperature / n)
        return lambda epoch: size if self._position(epoch)[1] < self.samples else 0.0

    def callbacks(self) -> list[Callback]:
        """A snapshot after every epoch with noise of the cycles that are not skipped."""
        positions = ((epoch, *self._position(epoch)) for epoch in range(self.training.epochs))
        epochs = [epoch for epoch, cycle, later in positions if later < self.samples and cycle >= self.skip]
        return [WeightSnapshots(epochs)]

    def posterior(self, trained: TrainingResult) -> WeightSamples:
        """The snapshots."""
        return WeightSamples(trained.callback_results[0][0], **trained.posterior_arguments)
