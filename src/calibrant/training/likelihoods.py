"""Likelihoods: the distribution of y that a network's outputs describe, its NLL, Fisher information and predictions.

Networks have outputs (…, O). Numbers y are standardised: y = m + s·u, where the outputs describe u. Log-likelihoods are
in the units of y. Laplace approximations use the Fisher information of the outputs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from calibrant.errors import UsageError, check_range, did_you_mean, show
from calibrant.predictions import Classification, Regression
from calibrant.training.settings import check_count

MIN_STD = 1e-3
"""The smallest predicted standard deviation, in units of that of y."""
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Scale:
    """y = mean + std·u, with one mean and std per member (M,) or for all ()."""

    mean: Tensor
    std: Tensor

    def of(self, y: Tensor) -> Tensor:
        """u of y (members first, rows last), in the dtype of the networks."""
        return ((y.double() - self._wide(self.mean)) / self._wide(self.std)).to(self.std.dtype)

    def _wide(self, value: Tensor) -> Tensor:
        return value[..., None] if value.dim() else value


class Likelihood(ABC):
    """Base class: a distribution of y given a network's outputs."""

    name: ClassVar[str]
    standardises: ClassVar[bool]
    """Whether y is a number and is standardised."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """The number of outputs per row."""

    @abstractmethod
    def nll(self, outputs: Tensor, y: Tensor, scale: Scale) -> Tensor:
        """−log p(y) of every row (…, n), in units of y."""

    @abstractmethod
    def fisher(self, outputs: Tensor) -> Tensor:
        """The Fisher information (n, O, O) of the outputs (n, O) about u."""

    @abstractmethod
    def predictions(self, outputs: Tensor, scale: Scale, y: Any = None, **kwargs: Any) -> Classification | Regression:
        """Predictions from outputs (M, n, O) of M members."""

    def settings(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class Categorical(Likelihood):
    """One of C classes; outputs are logits.

    Examples
    --------
    >>> from calibrant.methods import Categorical
    >>> Categorical(10).outputs
    10
    """

    classes: int
    name: ClassVar[str] = "categorical"
    standardises: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", check_count("classes", self.classes, least=2))

    @property
    def outputs(self) -> int:
        """One logit per class."""
        return self.classes

    def nll(self, outputs: Tensor, y: Tensor, scale: Scale) -> Tensor:
        """−log softmax(outputs)[y]."""
        logs = torch.log_softmax(_wide(outputs), dim=-1)
        return -logs.gather(-1, y[..., None].long())[..., 0]

    def fisher(self, outputs: Tensor) -> Tensor:
        """diag(p) − p pᵀ."""
        p = torch.softmax(_wide(outputs), dim=-1)
        return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]

    def predictions(self, outputs: Tensor, scale: Scale, y: Any = None, **kwargs: Any) -> Classification:
        """Logits (M, n, C)."""
        return Classification.from_logits(_array(outputs), y, **kwargs)


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """A normal distribution with mean and standard deviation from the network: outputs (μ, r), σ = softplus(r) + 0.001.

    Examples
    --------
    >>> from calibrant.methods import Gaussian
    >>> Gaussian().outputs
    2
    """

    name: ClassVar[str] = "gaussian"
    standardises: ClassVar[bool] = True

    @property
    def outputs(self) -> int:
        """Mean and untransformed standard deviation."""
        return 2

    def moments(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (…, n) of u."""
        wide = _wide(outputs)
        return wide[..., 0], functional.softplus(wide[..., 1]) + MIN_STD

    def nll(self, outputs: Tensor, y: Tensor, scale: Scale) -> Tensor:
        """½((y − μ)/σ)² + log σ + ½log 2π."""
        mean, std = self.moments(outputs)
        z = (scale.of(y) - mean) / std
        return 0.5 * z.square() + torch.log(std * scale._wide(scale.std)) + HALF_LOG_2PI

    def fisher(self, outputs: Tensor) -> Tensor:
        """diag(1/σ², 2 (dσ/dr)²/σ²)."""
        _, std = self.moments(outputs)
        derivative = torch.sigmoid(_wide(outputs)[..., 1])
        return torch.diag_embed(torch.stack((std**-2, 2.0 * (derivative / std) ** 2), dim=-1))

    def predictions(self, outputs: Tensor, scale: Scale, y: Any = None, **kwargs: Any) -> Regression:
        """Mean and standard deviation of each member (M, n)."""
        return _gaussian(*self.moments(outputs), scale, y, kwargs)


@dataclass(frozen=True)
class FixedGaussian(Likelihood):
    """A normal distribution of known noise: the output is the mean, `noise` the std relative to that of y.

    Examples
    --------
    >>> from calibrant.methods import FixedGaussian
    >>> FixedGaussian(0.1).outputs
    1
    """

    noise: float = 1.0
    name: ClassVar[str] = "fixed_gaussian"
    standardises: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_range("noise", self.noise, 0, inclusive="neither", hint="use noise=0.1")

    @property
    def outputs(self) -> int:
        """The mean."""
        return 1

    def nll(self, outputs: Tensor, y: Tensor, scale: Scale) -> Tensor:
        """½((y − μ)/σ)² + log σ + ½log 2π with a constant σ."""
        z = (scale.of(y) - _wide(outputs)[..., 0]) / self.noise
        return 0.5 * z.square() + torch.log(self.noise * scale._wide(scale.std)) + HALF_LOG_2PI

    def fisher(self, outputs: Tensor) -> Tensor:
        """1/σ²."""
        return torch.full_like(_wide(outputs), self.noise**-2)[..., None]

    def predictions(self, outputs: Tensor, scale: Scale, y: Any = None, **kwargs: Any) -> Regression:
        """The mean of each member (M, n), with constant noise."""
        mean = _wide(outputs)[..., 0]
        return _gaussian(mean, torch.full_like(mean, self.noise), scale, y, kwargs)


LIKELIHOODS: Mapping[str, type[Likelihood]] = {kind.name: kind for kind in (Categorical, Gaussian, FixedGaussian)}


def likelihood_from(settings: Mapping[str, Any]) -> Likelihood:
    """The likelihood of stored settings."""
    rest = dict(settings)
    name = rest.pop("name", None)
    if name not in LIKELIHOODS:
        hint = did_you_mean(str(name), LIKELIHOODS)
        raise UsageError("likelihood", expected="a known name", got=show(name), hint=hint)
    try:
        return LIKELIHOODS[name](**rest)
    except TypeError as error:
        hint = "save the posterior again"
        raise UsageError(f"likelihood {name}", expected="its settings", got=show(rest), hint=hint) from error


def _wide(outputs: Tensor) -> Tensor:
    """Widen 16-bit outputs to float32."""
    return outputs.float() if outputs.dtype in (torch.bfloat16, torch.float16) else outputs


def _array(values: Tensor) -> Any:
    return values.detach().cpu().numpy()


def _gaussian(mean: Tensor, std: Tensor, scale: Scale, y: Any, kwargs: dict[str, Any]) -> Regression:
    """Distributions of y from those of u, in float64: a small spread far from zero needs it."""
    m, s = (scale._wide(value).cpu().double() for value in (scale.mean, scale.std))
    return Regression.from_gaussian(_array(mean.cpu().double() * s + m), _array(std.cpu().double() * s), y, **kwargs)
