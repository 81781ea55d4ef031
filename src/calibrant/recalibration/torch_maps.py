"""Fitted maps of class predictions as modules of PyTorch: ℓ (n, C) in, (n, C) out, differentiable, exportable to ONNX.

The numbers of a map are buffers in double precision, and so is the arithmetic; `module.float()` makes both single.
Curves are looked up by halving, in comparisons and gathers alone, which every exporter knows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from calibrant.recalibration.beta import LN2
from calibrant.recalibration.class_rows import FLOOR
from calibrant.recalibration.networks_training import positive_tensor, softplus_tensor
from calibrant.recalibration.one_vs_rest import cut
from calibrant.recalibration.spline import ABOVE


class TorchMap(nn.Module):  # type: ignore[misc]
    """One map: `forward` takes ℓ (n, C) and returns log-probabilities, or probabilities, as `kind` says."""

    kind = "log_probs"
    floored = True
    """Whether ℓ is not less than the floor."""

    def hold(self, **arrays: Any) -> None:
        """Keep numbers as buffers."""
        for name, array in arrays.items():
            self.register_buffer(name, torch.tensor(np.asarray(array, np.float64)))


# --------------------------------------------------------------------------------------- few numbers
class Temperature(TorchMap):
    """log softmax(ℓ/T)."""

    floored = False

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.hold(temperature=found.temperature)

    def forward(self, logs: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(logs / self.temperature, dim=-1)


class Same(Temperature):
    """A temperature of one."""

    def __init__(self, found: Any) -> None:
        del found
        TorchMap.__init__(self)
        self.hold(temperature=1.0)


class EnsembleTemperature(TorchMap):
    """log(w₁ softmax(ℓ/T) + w₂ softmax(ℓ) + w₃/C); what has no weight is left out."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        weights = (found.temperature_weight, found.identity_weight, found.uniform_weight)
        self.terms = [k for k, weight in enumerate(weights) if weight > 0]
        self.hold(temperature=found.temperature, log_weights=[np.log(weights[k]) for k in self.terms])

    def forward(self, logs: torch.Tensor) -> torch.Tensor:
        even = torch.zeros_like(logs) - float(np.log(logs.shape[-1]))
        made = (torch.log_softmax(logs / self.temperature, dim=-1), torch.log_softmax(logs, dim=-1), even)
        parts = [made[k] + self.log_weights[place] for place, k in enumerate(self.terms)]
        return torch.logsumexp(torch.stack(parts), dim=0)


class Vector(TorchMap):
    """log softmax(w∘ℓ + b)."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.hold(slopes=found.slopes, intercepts=found.intercepts)

    def forward(self, logs: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(logs * self.slopes + self.intercepts, dim=-1)


class Dirichlet(TorchMap):
    """log softmax(Wℓ + b)."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.hold(weights=found.weights.T, intercepts=found.intercepts)

    def forward(self, logs: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(logs @ self.weights + self.intercepts, dim=-1)


class Matrix(Dirichlet):
    """The same of centred ℓ."""

    def forward(self, logs: torch.Tensor) -> torch.Tensor:
        return super().forward(logs - logs.mean(dim=-1, keepdim=True))


class Beta(TorchMap):
    """log σ(a ln p − b ln(1 − p) + c), normalised."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.hold(a=found.a, b=found.b, c=found.c)

    def forward(self, logs: torch.Tensor) -> torch.Tensor:
        if self.a.shape[0] == 1:
            logits = self.a * logs[:, 1:] - self.b * logs[:, :1] + self.c
            return -softplus_tensor(torch.cat([logits, -logits], dim=1))
        made = -softplus_tensor(-(self.a * logs - self.b * log_rest(logs) + self.c))
        return torch.log_softmax(made, dim=-1)


# ------------------------------------------------------------------------------------------ networks
class Diagonal(TorchMap):
    """log softmax(m(ℓ)), m being a Chebyshev series."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.hold(coefficients=found.coefficients)

    def forward(self, logs: torch.Tensor) -> torch.Tensor:
        basis = chebyshev(places(logs), self.coefficients.shape[0])
        return torch.log_softmax(basis @ self.coefficients, dim=-1)


def chebyshev(x: torch.Tensor, count: int) -> torch.Tensor:
    """T_0 … T_{count − 1} of x (…, count), twice as many at a time: T_{k+j} = 2 T_k T_j − T_{k−j}."""
    known = torch.stack([torch.ones_like(x), x], dim=-1)
    while known.shape[-1] < count:
        more = 2.0 * known[..., -1:] * known[..., 1:] - known[..., :-1].flip(-1)
        known = torch.cat([known, more], dim=-1)
    return known[..., :count]


class OrderPreserving(TorchMap):
    """Scaled gaps between sorted scores, summed and put back in their places."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.sees_sorted = found.sees_sorted
        self.hold(**found.parameters())

    def forward(self, logs: torch.Tensor) -> torch.Tensor:
        ranked, order = torch.topk(logs, logs.shape[1], dim=1)
        units = torch.tanh(places(ranked if self.sees_sorted else logs) @ self.weights + self.offsets)
        scales = self.beta * positive_tensor(units @ self.outputs + self.biases)
        sums = torch.cumsum((ranked[:, 1:] - ranked[:, :-1]) * scales, dim=1)
        sums = torch.cat([torch.zeros_like(logs[:, :1]), sums], dim=1)
        return torch.log_softmax(torch.zeros_like(logs).scatter(1, order, sums), dim=-1)


def places(logs: torch.Tensor) -> torch.Tensor:
    """x in [−1, 1] of each score, as the networks see it."""
    from calibrant.recalibration.networks_diagonal import WIDTH

    return torch.log1p(-torch.clamp(logs, FLOOR, 0.0)) * (2.0 / WIDTH) - 1.0


# -------------------------------------------------------------------------------------------- curves
class Curves(nn.Module):  # type: ignore[misc]
    """Functions of one number, given by points: linear between them, or steps.

    The points of each are filled up to a power of two that is more than any has, and stand one curve behind the other.
    """

    def __init__(self, x: list[np.ndarray], values: list[np.ndarray], *, steps: bool) -> None:
        super().__init__()
        self.steps, self.halvings = steps, max(map(len, values)).bit_length()
        slopes = [np.zeros(len(each)) if steps else _slopes(place, each) for place, each in zip(x, values, strict=True)]
        width = 1 << self.halvings
        held = {"x": [_filled(each, width, np.inf) for each in x], "slopes": [_filled(s, width, 0.0) for s in slopes]}
        held["values"] = [_filled(each, width, each[-1]) for each in values]
        for name, rows in held.items():
            self.register_buffer(name, torch.tensor(np.concatenate(rows)))
        self.register_buffer("first", torch.arange(len(x)) * width)

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """What the curves make of scores (n, curves); one curve serves any number of columns."""
        place = self._place(scores)
        if self.steps:
            return self.values[place] + 0.0 * scores  # a derivative, if one of 0
        at = torch.maximum(place - 1, self.first)
        made = self.values[at] + self.slopes[at] * torch.clamp(scores - self.x[at], min=0.0)
        start, end = self.values[at], self.values[place]
        return torch.minimum(torch.maximum(made, torch.minimum(start, end)), torch.maximum(start, end))

    def _place(self, scores: torch.Tensor) -> torch.Tensor:
        """Behind the points that are below each score (of steps), or not above it, by halving."""
        place = self.first + torch.zeros_like(scores, dtype=torch.int64)
        for power in reversed(range(self.halvings)):
            x = self.x[place + ((1 << power) - 1)]
            place = place + (x < scores if self.steps else x <= scores).to(torch.int64) * (1 << power)
        return place


def _slopes(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The slope from each point to the next; 0 from the last."""
    return np.append(np.diff(values) / np.diff(x), 0.0)


def _filled(values: np.ndarray, width: int, by: float) -> np.ndarray:
    return np.append(values, np.full(width - len(values), by))


class OneVsRest(TorchMap):
    """A curve for class 1 of two, or for each class; rows divided by their sums, uniform where these are 0."""

    kind = "probs"
    curves: Any

    def forward(self, logs: torch.Tensor) -> torch.Tensor:
        probs = torch.exp(logs)
        if logs.shape[1] == 2:
            made = self.curves(probs[:, 1:])
            return torch.cat([1.0 - made, made], dim=1)
        made = self.curves(probs)
        total = made.sum(dim=1, keepdim=True)
        some = total > 0
        even = torch.full_like(made, 1.0 / logs.shape[1])
        return torch.where(some, made / torch.where(some, total, torch.ones_like(total)), even)


class Isotonic(OneVsRest):
    """Curves that are linear between points."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.curves = Curves(cut(found.x, found.sizes), cut(found.values, found.sizes), steps=False)


class Histogram(OneVsRest):
    """Curves that are steps."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        edges = [each[:-1] for each in cut(found.edges, found.sizes)]
        self.curves = Curves(edges, cut(found.values, found.sizes), steps=True)


class MulticlassIsotonic(TorchMap):
    """log((1 − ε) f(p) + ε p), normalised."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.curves = Curves([found.x], [found.values], steps=False)
        self.hold(identity=found.identity)

    def forward(self, logs: torch.Tensor) -> torch.Tensor:
        probs = torch.exp(logs)
        mixed = (1.0 - self.identity) * self.curves(probs) + self.identity * probs
        return torch.log_softmax(torch.log(mixed), dim=-1)


class SplineCurves(nn.Module):  # type: ignore[misc]
    """The slope of a spline over the rows of a score, added to the score or not."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.slopes = Curves(cut(found.scores, found.sizes), found.slopes, steps=False)
        self.gap, self.margin = found.form == "gap", found.margin

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """What the curves make of scores (n, curves)."""
        slope = self.slopes(scores)
        return torch.clamp(slope + scores if self.gap else slope, self.margin, 1.0 - self.margin)


class Spline(OneVsRest):
    """Another probability of the predicted class, by which the others are scaled; or of every class."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.top = found.of == "top"
        self.curves = SplineCurves(found)

    def forward(self, logs: torch.Tensor) -> torch.Tensor:
        if not self.top:
            return super().forward(logs)
        top = is_top(logs)
        others = torch.softmax(logs.masked_fill(top, 16.0 * FLOOR), dim=-1)
        others = others.masked_fill(top, 0.0)
        largest = others.amax(dim=1, keepdim=True)
        least = largest / (1.0 + largest) + ABOVE
        made = self.curves(torch.exp(logs.amax(dim=1, keepdim=True)))
        made = torch.clamp(torch.maximum(made, least), max=1.0)
        return torch.where(top, made, others * (1.0 - made))


def is_top(logs: torch.Tensor) -> torch.Tensor:
    """Whether each class is the first of the likeliest."""
    return torch.arange(logs.shape[1], device=logs.device) == logs.argmax(dim=1, keepdim=True)


def log_rest(logs: torch.Tensor) -> torch.Tensor:
    """ln(1 − p) of ln p: of the likeliest class by the sum of the others."""
    top = is_top(logs)
    others = logs.masked_fill(top, 16.0 * FLOOR)
    rest = torch.log1p(-torch.exp(torch.clamp(others, max=-LN2)))
    return torch.where(top, torch.clamp(torch.logsumexp(others, dim=1, keepdim=True), max=0.0), rest)
