"""Networks linearised in their weights: f(θ*, x) + J(x)δ, J the Jacobian at the trained weights θ*.

A normal distribution of δ makes the outputs normal. The activations are those of the trained network, so that its
batch-norm statistics remain valid, however large δ is. J(x)δ is computed by forward-mode differentiation.

Reference: Immer, Korzepa & Bauer (2021), AISTATS 24: 703-711.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp

from calibrant.errors import UsageError, plain
from calibrant.methods.posterior import ROWS_AT_ONCE, Member
from calibrant.networks.fields import pack
from calibrant.networks.recipe import Template
from calibrant.networks.stack import State
from calibrant.training.settings import resolve_device

MEMBERS_AT_ONCE = 5


@torch.no_grad()
def linearised_outputs(
    template: Template, state: State, deviations: Sequence[State], rows: Tensor, batch: int, device: torch.device
) -> Tensor:
    """f(θ*, x) + J(x)δ (M, n, O) for M deviations δ, which name some of the parameters."""
    module = template.module.to(device).eval()
    fixed = {name: value.to(device) for name, value in state.items()}
    drawn = {name: fixed[name] for name in deviations[0]}

    def network(parameters: State, x: Tensor) -> Tensor:
        return functional_call(module, {**fixed, **parameters}, (x,))

    def tangent(deviation: State, x: Tensor) -> Tensor:
        value, slope = jvp(lambda parameters: network(parameters, x), (drawn,), (deviation,))
        return value + slope

    members = []
    for first in range(0, len(deviations), MEMBERS_AT_ONCE):
        group = deviations[first : first + MEMBERS_AT_ONCE]
        stacked = {name: torch.stack([each[name] for each in group]).to(device) for name in drawn}
        blocks = rows.split(max(1, batch // len(group)))
        try:
            parts = [torch.vmap(tangent, in_dims=(0, None))(stacked, part.to(device)).cpu() for part in blocks]
        except NotImplementedError as error:
            raise UsageError(
                "linearised predictive",
                expected="layers with forward-mode derivatives",
                got=plain(str(error), 120),
                hint="use predictive='sampled'",
            ) from error
        members.append(torch.cat(parts, dim=1))
    return torch.cat(members)


@dataclass(frozen=True)
class LinearisedMember(Member):
    """f(θ*, x) + J(x)δ; `tensors` are those of the trained network, `deviation` is δ."""

    deviation: State = field(default_factory=dict)

    def __call__(self, x: Any, *, device: str | torch.device = "auto", batch: int = ROWS_AT_ONCE) -> Tensor:
        """Outputs (n, O) of raw rows (n, …)."""
        where = resolve_device(device)
        rows = pack(x, self.template.module.fields) if isinstance(x, Mapping) else torch.as_tensor(x)
        return linearised_outputs(self.template, self.tensors, [self.deviation], self.augmented(rows), batch, where)[0]


class LinearisedNetwork(nn.Module):  # type: ignore[misc]
    """A member as an `nn.Module`: the trained network, and δ as buffers."""

    def __init__(self, network: nn.Module, deviation: State) -> None:
        super().__init__()
        self.network, self.names = network, sorted(deviation)
        for k, name in enumerate(self.names):
            self.register_buffer(f"deviation{k}", deviation[name].clone())

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of raw rows."""
        parameters = dict(self.network.named_parameters())
        drawn = {name: parameters[name] for name in self.names}
        tangents = {name: getattr(self, f"deviation{k}") for k, name in enumerate(self.names)}
        value, slope = jvp(lambda given: functional_call(self.network, given, (x,)), (drawn,), (tangents,))
        return value + slope
