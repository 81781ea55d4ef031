"""What the outputs of a network mean: a law of y, its negative log-likelihood, its curvature, and predictions of it.

Networks give outputs (…, O). Numbers y are standardised for the network: y = m + s·u, where the outputs describe u.
Likelihoods are told in y's own units. The Fisher information of the outputs is what Laplace approximations need.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from calibrant.errors import UsageError, did_you_mean, show
from calibrant.predictions import Classification, Regression

LEAST_STD = 1e-3
"""Of a predicted law, in units of the standard deviation of y: none is narrower."""
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Scale:
    """y = mean + std·u, one of each for every member (M,) or for all ()."""

    mean: Tensor
    std: Tensor

    def of(self, y: Tensor) -> Tensor:
        """u of y, where members come first and rows last, in the precision of the networks."""
        return ((y.double() - self._wide(self.mean)) / self._wide(self.std)).to(self.std.dtype)

    def _wide(self, value: Tensor) -> Tensor:
        return value[..., None] if value.dim() else value


class Likelihood(ABC):
    """A law of y that some outputs stand for."""

    name: ClassVar[str]
    standardises: ClassVar[bool]
    """Whether y is a number that has a mean and a standard deviation to be standardised by."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many numbers a network gives for a row."""

    @abstractmethod
    def nll(self, outputs: Tensor, y: Tensor, scale: Scale) -> Tensor:
        """−log p(y) of every row (…, n), in units of y."""

    @abstractmethod
    def fisher(self, outputs: Tensor) -> Tensor:
        """The Fisher information (n, O, O) of the outputs (n, O) about u."""

    @abstractmethod
    def predictions(self, outputs: Tensor, scale: Scale, y: Any = None, **known: Any) -> Classification | Regression:
        """Outputs (M, n, O) of M members as predictions."""

    def settings(self) -> dict[str, Any]:
        """What a file says of it."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class Categorical(Likelihood):
    """One of C classes; outputs are logits."""

    classes: int
    name: ClassVar[str] = "categorical"
    standardises: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.classes, bool) or not isinstance(self.classes, Integral) or self.classes < 2:
            raise UsageError(
                "classes", expected="two classes or more", came=f"got {show(self.classes)}", do="give their number"
            )
        object.__setattr__(self, "classes", int(self.classes))

    @property
    def outputs(self) -> int:
        """A logit for each class."""
        return self.classes

    def nll(self, outputs: Tensor, y: Tensor, scale: Scale) -> Tensor:
        """−log softmax(outputs)[y]."""
        logs = torch.log_softmax(_wide(outputs), dim=-1)
        return -logs.gather(-1, y[..., None].long())[..., 0]

    def fisher(self, outputs: Tensor) -> Tensor:
        """diag(p) − p pᵀ."""
        p = torch.softmax(_wide(outputs), dim=-1)
        return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]

    def predictions(self, outputs: Tensor, scale: Scale, y: Any = None, **known: Any) -> Classification:
        """Logits (M, n, C)."""
        return Classification.from_logits(_array(outputs), y, **known)


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """A normal law whose mean and standard deviation depend on x: outputs (μ, r), σ = softplus(r) + 0.001."""

    name: ClassVar[str] = "gaussian"
    standardises: ClassVar[bool] = True

    @property
    def outputs(self) -> int:
        """The mean, and what becomes the standard deviation."""
        return 2

    def moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (…, n) of u."""
        wide = _wide(outputs)
        return wide[..., 0], functional.softplus(wide[..., 1]) + LEAST_STD

    def nll(self, outputs: Tensor, y: Tensor, scale: Scale) -> Tensor:
        """½((y − μ)/σ)² + log σ + ½log 2π."""
        mean, std = self.moments(outputs)
        away = (scale.of(y) - mean) / std
        return 0.5 * away.square() + torch.log(std * scale._wide(scale.std)) + HALF_LOG_2PI

    def fisher(self, outputs: Tensor) -> Tensor:
        """diag(1/σ², 2 (dσ/dr)²/σ²)."""
        _, std = self.moments(outputs)
        slope = torch.sigmoid(_wide(outputs)[..., 1])
        return torch.diag_embed(torch.stack((std**-2, 2.0 * (slope / std) ** 2), dim=-1))

    def predictions(self, outputs: Tensor, scale: Scale, y: Any = None, **known: Any) -> Regression:
        """A mean and a standard deviation of each member (M, n)."""
        return _gaussian(*self.moments(outputs), scale, y, known)


@dataclass(frozen=True)
class FixedGaussian(Likelihood):
    """A normal law of known noise: the output is the mean; `noise` is its standard deviation in units of that of y."""

    noise: float = 1.0
    name: ClassVar[str] = "fixed_gaussian"
    standardises: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.noise, int | float) and 0.0 < self.noise < math.inf):
            raise UsageError(
                "noise", expected="a number above 0", came=f"got {show(self.noise)}", do="give a standard deviation"
            )

    @property
    def outputs(self) -> int:
        """The mean."""
        return 1

    def nll(self, outputs: Tensor, y: Tensor, scale: Scale) -> Tensor:
        """½((y − μ)/σ)² + log σ + ½log 2π, of one σ."""
        away = (scale.of(y) - _wide(outputs)[..., 0]) / self.noise
        return 0.5 * away.square() + torch.log(self.noise * scale._wide(scale.std)) + HALF_LOG_2PI

    def fisher(self, outputs: Tensor) -> Tensor:
        """1/σ²."""
        return torch.full_like(_wide(outputs), self.noise**-2)[..., None]

    def predictions(self, outputs: Tensor, scale: Scale, y: Any = None, **known: Any) -> Regression:
        """The mean of each member (M, n), and the same noise everywhere."""
        mean = _wide(outputs)[..., 0]
        return _gaussian(mean, torch.full_like(mean, self.noise), scale, y, known)


LIKELIHOODS: Mapping[str, type[Likelihood]] = {kind.name: kind for kind in (Categorical, Gaussian, FixedGaussian)}


def likelihood_from(settings: Mapping[str, Any]) -> Likelihood:
    """The likelihood that a file tells of."""
    rest = dict(settings)
    name = rest.pop("name", None)
    if name not in LIKELIHOODS:
        raise UsageError(
            "likelihood", expected="a known name", came=f"got {show(name)}", do=did_you_mean(str(name), LIKELIHOODS)
        )
    try:
        return LIKELIHOODS[name](**rest)
    except TypeError as error:
        raise UsageError(
            f"likelihood {name}", expected="its own settings", came=f"got {show(rest)}", do="store the posterior again"
        ) from error


def _wide(outputs: Tensor) -> Tensor:
    """At least 32 bits: networks may have computed in 16."""
    return outputs.float() if outputs.dtype in (torch.bfloat16, torch.float16) else outputs


def _array(values: Tensor) -> Any:
    return values.detach().cpu().numpy()


def _gaussian(mean: Tensor, std: Tensor, scale: Scale, y: Any, known: dict[str, Any]) -> Regression:
    """Members' laws of u as laws of y, in double precision: a small spread far from zero needs it."""
    m, s = (scale._wide(value).cpu().double() for value in (scale.mean, scale.std))
    return Regression.from_gaussian(_array(mean.cpu().double() * s + m), _array(std.cpu().double() * s), y, **known)
