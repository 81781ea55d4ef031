"""Optimisers for all networks of a stack at once, on one flat tensor, with a learning rate and decay per member.

SGD: v ← μv + g, θ ← θ − ηv (Nesterov: θ ← θ − η(g + μv)), g = ∇L + decay·θ, as PyTorch has it. Adam (Kingma & Ba 2015)
with β = (0.9, 0.999) and ε = 10⁻⁸. Langevin noise of standard deviation √(2ηT/n) turns plain SGD into SGLD, whose
stationary distribution is exp(−n(L + ½decay|θ|²)/T) (Welling & Teh 2011).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from calibrant.errors import UsageError, check_range, did_you_mean
from calibrant.networks.stack import Stack
from calibrant.training.settings import Training

BETAS, EPSILON = (0.9, 0.999), 1e-8
FACTOR, MOMENTUM, FIRST, SECOND, NOISE = range(5)
"""Positions in the numbers of a step: factor of the rate, momentum, two corrections of Adam, noise."""
NUMBERS = 5
"""How many of them there are; the scalars of the objective follow."""


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters whose names match a pattern, with a factor of the learning rate, and a decay of their own or None.

    Where several groups match, the last counts.
    """

    pattern: str
    rate: float = 1.0
    decay: float | None = None

    def __post_init__(self) -> None:
        check_range("parameter group: rate", self.rate, 0, hint="use rate=1.0")
        if self.decay is not None:
            check_range("parameter group: decay", self.decay, 0, hint="use decay=0.0")


class Optimiser:
    """SGD or Adam with their buffers."""

    def __init__(
        self,
        stack: Stack,
        training: Training,
        rates: list[float],
        decays: list[float],
        groups: Sequence[ParameterGroup] = (),
    ) -> None:
        """rates, decays: of each member. groups: parameters with others."""
        self.stack, self.training, self.groups = stack, training, tuple(groups)
        self.rate = stack.spread(rates)
        decay = stack.spread(decays)
        group_of = _groups_by_name([name.removeprefix("inner.") for name in stack.parameters], self.groups)
        if group_of:
            pair = [
                value if isinstance(value, Tensor) else torch.full_like(stack.flat, value)
                for value in (self.rate, decay)
            ]
            self.rate, decay = pair
            for name, rate_part, decay_part in zip(stack.parameters, *map(stack.parts, pair), strict=True):
                group = group_of.get(name.removeprefix("inner."))
                if group is not None:
                    rate_part.mul_(group.rate)
                    if group.decay is not None:
                        decay_part.fill_(group.decay)
        self.decay = torch.as_tensor(decay, dtype=stack.flat.dtype, device=stack.flat.device)
        self.decays = bool((self.decay != 0.0).any())
        self.buffers = [torch.zeros_like(stack.flat) for _ in range(2 if training.optimiser == "adam" else 1)]

    def numbers(self, step: int, factor: float, noise: float = 0.0) -> list[float]:
        """The numbers of one step, counted from 0; noise: √(2T/n) in a noise phase, which has no momentum."""
        first, second = ((1.0 - beta ** (step + 1)) ** -power for beta, power in zip(BETAS, (1.0, 0.5), strict=True))
        return [factor, 0.0 if noise else self.training.momentum, first, second, noise]

    @torch.no_grad()
    def step(self, numbers: Tensor, noise: Tensor | None = None) -> None:
        """One step of all members; gradients are then set to zero."""
        flat, gradients = self.stack.flat, self.stack.gradients
        if self.training.clip is not None:
            own = [parameter.grad for parameter in self.stack.parameters.values()]
            norms = torch.stack([gradient.flatten(1).square().sum(1) for gradient in own]).sum(0).sqrt()
            factors = (self.training.clip / (norms + 1e-6)).clamp(max=1.0)
            for gradient in own:
                gradient.mul_(factors.view(-1, *(1 for _ in gradient.shape[1:])))
        if self.decays:
            gradients.addcmul_(flat, self.decay)
        rate = numbers[FACTOR] * self.rate
        if self.training.optimiser == "adam":
            first, second = self.buffers
            first.lerp_(gradients, 1.0 - BETAS[0])
            second.mul_(BETAS[1]).addcmul_(gradients, gradients, value=1.0 - BETAS[1])
            scale = second.sqrt().mul_(numbers[SECOND]).add_(EPSILON)
            update = torch.div(first, scale, out=scale).mul_(numbers[FIRST])
        else:
            (velocity,) = self.buffers
            velocity.mul_(numbers[MOMENTUM]).add_(gradients)
            update = gradients + velocity * numbers[MOMENTUM] if self.training.nesterov else velocity
        flat.sub_(update.mul_(rate) if update is not self.buffers[0] else update * rate)
        if noise is not None:
            flat.add_(noise * (numbers[NOISE] * rate.sqrt()))
        gradients.zero_()


def _groups_by_name(names: list[str], groups: Sequence[ParameterGroup]) -> dict[str, ParameterGroup]:
    """The last group that matches each name; `UsageError` for a group that matches none."""
    found: dict[str, ParameterGroup] = {}
    for group in groups:
        matching = fnmatch.filter(names, group.pattern)
        if not matching:
            hint = did_you_mean(group.pattern, names) or f"use for example {names[-1]!r}"
            expected = "a pattern of names of trained parameters"
            raise UsageError("parameter group", expected=expected, got=repr(group.pattern), hint=hint)
        found |= dict.fromkeys(matching, group)
    return found
