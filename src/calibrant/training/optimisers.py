"""Steps of all networks of a stack at once, on one flat tensor, with a learning rate and a decay for each member.

SGD: v ← μv + g, θ ← θ − ηv (Nesterov: θ ← θ − η(g + μv)), g = ∇L + decay·θ, as PyTorch has it. Adam (Kingma & Ba 2015)
with β = (0.9, 0.999) and ε = 10⁻⁸. Langevin noise of standard deviation √(2ηT/n) turns plain SGD into SGLD, whose
stationary law is exp(−n(L + ½decay|θ|²)/T) (Welling & Teh 2011).
"""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant.networks.stack import Stack
from calibrant.training.settings import Training

BETAS, EPSILON = (0.9, 0.999), 1e-8
FACTOR, MOMENTUM, FIRST, SECOND, NOISE = range(5)
"""What stands where among the numbers of a step: factor of the rate, momentum, two corrections of Adam, noise."""


class Optimiser:
    """What an optimiser keeps, and its step."""

    def __init__(self, stack: Stack, training: Training, rates: list[float], decays: list[float]) -> None:
        self.stack, self.training = stack, training
        self.rate = stack.spread(rates)
        self.decay = torch.as_tensor(stack.spread(decays), dtype=stack.flat.dtype, device=stack.flat.device)
        self.decays = any(decays)
        self.kept = [torch.zeros_like(stack.flat) for _ in range(2 if training.optimiser == "adam" else 1)]

    def numbers(self, step: int, factor: float, noise: float = 0.0) -> list[float]:
        """The numbers of one step, counted from 0; noise: √(2T/n) in a phase of noise, which has no momentum."""
        first, second = ((1.0 - beta ** (step + 1)) ** -power for beta, power in zip(BETAS, (1.0, 0.5), strict=True))
        return [factor, 0.0 if noise else self.training.momentum, first, second, noise]

    @torch.no_grad()
    def step(self, numbers: Tensor, noise: Tensor | None = None) -> None:
        """One step of all members down their gradients, which are cleared."""
        flat, slopes = self.stack.flat, self.stack.slopes
        if self.training.clip is not None:
            self._clip(self.training.clip)
        if self.decays:
            slopes.addcmul_(flat, self.decay)
        rate = numbers[FACTOR] * self.rate
        way = self._adam(numbers) if self.training.optimiser == "adam" else self._sgd(numbers)
        flat.sub_(way.mul_(rate) if way is not self.kept[0] else way * rate)
        if noise is not None:
            flat.add_(noise * (numbers[NOISE] * rate.sqrt()))
        slopes.zero_()

    def _sgd(self, numbers: Tensor) -> Tensor:
        slopes, (speed,) = self.stack.slopes, self.kept
        speed.mul_(numbers[MOMENTUM]).add_(slopes)
        return slopes + speed * numbers[MOMENTUM] if self.training.nesterov else speed

    def _adam(self, numbers: Tensor) -> Tensor:
        slopes, (first, second) = self.stack.slopes, self.kept
        first.lerp_(slopes, 1.0 - BETAS[0])
        second.mul_(BETAS[1]).addcmul_(slopes, slopes, value=1.0 - BETAS[1])
        scale = second.sqrt().mul_(numbers[SECOND]).add_(EPSILON)
        return torch.div(first, scale, out=scale).mul_(numbers[FIRST])

    def _clip(self, largest: float) -> None:
        """Each network's gradient to a norm of at most `largest`."""
        slopes = [parameter.grad for parameter in self.stack.parameters.values()]
        norms = torch.stack([slope.flatten(1).square().sum(1) for slope in slopes]).sum(0).sqrt()
        shares = (largest / (norms + 1e-6)).clamp(max=1.0)
        for slope in slopes:
            slope.mul_(shares.view(-1, *(1 for _ in slope.shape[1:])))
