"""Laplace approximations: normal distributions of weights around a trained network, from the curvature of its loss.

log p(θ | data) ≈ log p(θ* | data) − ½(θ − θ*)ᵀ(H + τI)(θ − θ*), H the generalised Gauss-Newton matrix of the training
rows and τ the prior precision, so that θ is normal about θ* with covariance (H + τI)⁻¹. Weight decay is such a prior:
the loss L + ½decay|θ|², L the mean −log p of n rows, has its minimum where the posterior with τ = n·decay has its peak.
Parameters of normalisation layers are not drawn; with draws of all layers, batch-norm statistics are recomputed.

References: MacKay (1992), A practical Bayesian framework for backpropagation networks; Ritter et al. (2018), ICLR 6,
for the Kronecker form; Daxberger et al. (2021), NeurIPS 34: 20089-20103, for the last layer alone; Ashukha et al.
(2020), ICLR 8, appendix B, for the noise scale that is chosen on validation rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from calibrant.errors import TrainingError, UsageError, check_choice, check_range
from calibrant.methods.base import TIMED_ROWS, Method, TrainingResult
from calibrant.methods.batch_norm_refresh import refresh
from calibrant.methods.costs import with_cost
from calibrant.methods.laplace_curvature import STRUCTURES, CovarianceRoot, Curvature, curvature_of
from calibrant.methods.laplace_layers import drawn_layers, matrix, parameters
from calibrant.methods.posterior import Posterior, TensorGroups, WeightSamples
from calibrant.networks.recipe import Recipe
from calibrant.networks.stack import State
from calibrant.training.seeds import stream
from calibrant.training.settings import check_count, deterministic_kernels, resolve_device
from calibrant.training.task import Run, Task

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
TUNING_DRAWS = 10
GRIDS = {"prior": [10.0 ** (k / 2) for k in range(-8, 9)], "scale": [10.0 ** (k / 4) for k in range(-8, 5)]}
"""Factors of the prior precision or the scale, of which the best one for validation rows is chosen."""
CHOICES = {"structure": tuple(STRUCTURES), "fisher": ("exact", "empirical"), "tune": (None, "auto", *GRIDS)}


@dataclass(frozen=True)
class Laplace(Method):
    """A Laplace approximation around a trained network.

    Parameters
    ----------
    training : Training
        Epochs, optimiser and learning rate of the network.
    structure : {"last_layer", "diagonal", "kfac"}
        The full covariance of the last layer's weights, or a diagonal or Kronecker-factored one of all layers.
    prior_precision : float, optional
        The prior precision τ of each weight; by default n·decay of the training.
    scale : float
        A factor of the deviations from the mean.
    tune : {"auto", "prior", "scale", None}
        Choose the prior precision or the scale that gives ten averaged draws the lowest −log p on the validation rows.
        "auto" tunes the prior if the task has validation rows and neither number is given. Untuned draws of all layers
        are often far worse than the network itself.
    rows : int, optional
        Compute the curvature on a random subset of the training rows.
    fisher : {"exact", "empirical"}
        The Fisher information, or the empirical one of the observed outcomes.
    refresh : bool
        Recompute batch-norm statistics for each draw of all layers.
    draws : int
        Members with batch-norm statistics; `posterior.more(task, draws)` has more.

    Examples
    --------
    >>> from calibrant.methods import Laplace, Task, Training
    >>> from calibrant.networks import MLP
    >>> task = Task.regression([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.2, 2.8])
    >>> method = Laplace(Training(epochs=2, optimiser="adam", rate=0.01), prior_precision=1.0)
    >>> method.fit(task, MLP(1, 2, (4,)), device="cpu")
    LaplacePosterior('laplace', any number of members, 'task', seed=0)
    """

    structure: str = "last_layer"
    prior_precision: float | None = None
    scale: float = 1.0
    tune: str | None = "auto"
    rows: int | None = None
    fisher: str = "exact"
    refresh: bool = True
    draws: int = 20
    name: ClassVar[str] = "laplace"
    version: ClassVar[int] = 2
    reference: ClassVar[str] = "Ritter et al. (2018)"

    def __post_init__(self) -> None:
        for name in ("structure", "fisher", "tune"):
            if getattr(self, name) is not None or name != "tune":
                check_choice(
                    f"laplace: {name}", getattr(self, name), [each for each in CHOICES[name] if each is not None]
                )
        for name in ("prior_precision", "scale"):
            if getattr(self, name) is not None or name != "prior_precision":
                check_range(f"laplace: {name}", getattr(self, name), 0, inclusive="neither", hint=f"use {name}=1.0")
        for name in ("rows", "draws"):
            if getattr(self, name) is not None or name != "rows":
                check_count(f"laplace: {name}", getattr(self, name))

    # ------------------------------------------------------------------------------------- fitting
    def recipe(self, task: Task, network: Any) -> Recipe:
        """The construction of the network; raises `UsageError` for layers that cannot be drawn, before training."""
        recipe = super().recipe(task, network)
        drawn_layers(recipe.template(), self.structure)
        return recipe

    def runs(self, task: Task, seed: int) -> list[Run]:
        """One run, after checking that there will be a prior precision, or validation rows to tune it."""
        self._with_tuning(task)._precision(self.training.decay, task)
        return super().runs(task, seed)

    def posterior(self, trained: TrainingResult) -> LaplacePosterior:
        """The approximation around the trained network."""
        return self._approximate(
            WeightSamples(trained.states, **trained.posterior_arguments), trained.task, trained.device
        )

    def around(self, posterior: Posterior, task: Task, *, device: str | torch.device = "auto") -> LaplacePosterior:
        """The approximation around a trained network, such as the posterior of `Vanilla().fit(…)`, and its task.

        Without `prior_precision`, the weight decay of the network's training is used.
        """
        where = resolve_device(device)
        _check(posterior, task)
        approximation = self._approximate(posterior, task, where)
        rows = task.x[task.train[:TIMED_ROWS].to(task.x.device)].cpu()
        examples = sum(each["epochs"] for each in approximation.about.history) * approximation.about.n
        return with_cost(approximation, rows, where, examples)

    def _with_tuning(self, task: Task) -> Laplace:
        """The method with "auto" resolved."""
        if self.tune != "auto":
            return self
        free = self.prior_precision is None and self.scale == 1.0 and len(task.validation) > 0
        return replace(self, tune="prior" if free else None)

    def _approximate(self, network: Posterior, task: Task, device: torch.device) -> LaplacePosterior:
        method, start = self._with_tuning(task), time.monotonic()
        training = network.about.settings.get("training", self.training.settings())
        prior_precision = method._precision(float(training["decay"]), task)
        template, state, n = network.template, network.tensors(0), task.n
        names = drawn_layers(template, self.structure)
        rows = task.train[: 0 if _diverged(network) else n]
        if self.rows is not None and self.rows < len(rows):
            order = torch.randperm(n, generator=stream(network.seed, "laplace rows"))
            rows = rows[order[: self.rows].sort().values]
        with deterministic_kernels():
            curvature = curvature_of(self.structure, names, template, state, task, rows, device, self.fisher)
        about = replace(network.about, method=self.name, settings={**self.settings(), "training": training})
        approximation = LaplacePosterior(
            state,
            _stored_form(curvature.covariance_root(prior_precision, n), state),
            structure=self.structure,
            prior_precision=prior_precision,
            scale=float(self.scale),
            recipe=network.recipe,
            likelihood=network.likelihood,
            seed=network.seed,
            about=about,
            template=template,
        )
        if method.tune is not None:
            approximation = method._tune(approximation, curvature, task, device)
        if self.refresh:
            approximation = approximation.more(task, self.draws, device)
        approximation.about = replace(about, seconds=about.seconds + time.monotonic() - start)
        return approximation

    def _tune(
        self, approximation: LaplacePosterior, curvature: Curvature, task: Task, device: torch.device
    ) -> LaplacePosterior:
        """The prior precision or scale with the best prediction of validation rows, with the same draws for each."""

        def candidate(value: float) -> LaplacePosterior:
            if self.tune == "scale":
                return approximation.replace(scale=value)
            covariance_root = _stored_form(curvature.covariance_root(value, task.n), approximation.state)
            return approximation.replace(prior_precision=value, covariance_root=covariance_root)

        losses: dict[float, float] = {}
        for factor in GRIDS[str(self.tune)]:
            value = factor * (approximation.prior_precision if self.tune == "prior" else approximation.scale)
            posterior = candidate(value)
            losses[value] = _loss(
                posterior.more(task, TUNING_DRAWS, device) if self.refresh else posterior, task, device
            )
        if not any(map(math.isfinite, losses.values())):
            got = f"no {'prior precision' if self.tune == 'prior' else self.tune} with one"
            hint = "look at posterior.about.history: did the training converge?"
            raise TrainingError("laplace: tune", expected="a finite loss on the validation rows", got=got, hint=hint)
        best = min(losses, key=lambda value: losses[value] if math.isfinite(losses[value]) else math.inf)
        return candidate(best).replace(tuned=losses)

    def _precision(self, decay: float, task: Task) -> float:
        """τ; raises `UsageError` if there is none, or if there are no validation rows to tune it."""
        if self.tune is not None and not len(task.validation):
            hint = "use task.split(0.1)"
            raise UsageError("laplace: tune", expected="a task with validation rows", got="none", hint=hint)
        if self.prior_precision is None and not decay > 0.0:
            expected, hint = "a prior precision, as weight decay is 0", "pass prior_precision=1.0, or train with decay"
            raise UsageError("laplace: prior_precision", expected=expected, got="none", hint=hint)
        return float(task.n * decay if self.prior_precision is None else self.prior_precision)


class LaplacePosterior(Posterior):
    """A normal distribution of weights around those of a network.

    covariance_root: a square root of the covariance, by factor and layer. tuned: the validation loss of each candidate
    of the tuning. buffers: batch-norm statistics of each draw, if draws have their own.
    """

    kind: ClassVar[str] = "laplace"
    more_members_hint: ClassVar[str] = "posterior = posterior.more(task, draws) has more"

    def __init__(
        self,
        state: State,
        covariance_root: CovarianceRoot,
        *,
        structure: str,
        prior_precision: float,
        scale: float = 1.0,
        tuned: Mapping[float, float] | None = None,
        buffers: list[State] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.state, self.covariance_root, self.structure, self.scale = state, covariance_root, structure, scale
        self.prior_precision = prior_precision
        self.tuned, self.buffers = dict(tuned or {}), list(buffers or [])
        self.layers = sorted(next(iter(covariance_root.values())))  # files have no order
        self.shares_features = structure == "last_layer"

    def weights(self, k: int) -> State:
        """The weights of draw k."""
        generator = stream(self.seed, k, "laplace")
        deviation = STRUCTURES[self.structure].deviation
        weights: State = {}
        for name in self.layers:
            mean = matrix(self.state, name)
            z = torch.randn(mean.shape, generator=generator, dtype=mean.dtype)
            weights |= parameters(self.state, name, mean + self.scale * deviation(self.covariance_root, name, z))
        return weights

    def tensors(self, k: int) -> State:
        """The network with the weights of draw k and their batch-norm statistics."""
        return {**self.state, **self.weights(k), **(self.buffers[k] if self.buffers else {})}

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return matrix(self.state, self.layers[0]).dtype

    @property
    def max_members(self) -> int | None:
        """The draws with batch-norm statistics of their own; any number if all share them."""
        return len(self.buffers) or None

    def more(self, task: Task, draws: int, device: torch.device | str = "auto") -> LaplacePosterior:
        """The same distribution with batch-norm statistics for `draws` draws, from the task's training rows.

        Not needed if only the last layer is drawn, nor for networks without batch norm.
        """
        if self.structure == "last_layer" or not self.template.has_batch_norm:
            return self
        states = [{**self.state, **self.weights(k)} for k in range(check_count("draws", draws))]
        fresh = refresh(self.template, states, task, resolve_device(device))
        buffers = [
            {name: value for name, value in state.items() if name.rpartition(".")[2] in STATISTICS} for state in fresh
        ]
        return self.replace(buffers=buffers)

    def replace(self, **changes: Any) -> LaplacePosterior:
        """The same posterior with some arguments changed."""
        same: dict[str, Any] = {
            "recipe": self.recipe, "likelihood": self.likelihood, "seed": self.seed, "about": self.about,
            "template": self.template, "covariance_root": self.covariance_root, "buffers": self.buffers,
            **self._settings(),
        }  # fmt: skip
        return LaplacePosterior(self.state, **{**same, **changes})

    def _settings(self) -> dict[str, Any]:
        names = ("structure", "prior_precision", "scale", "tuned")
        return {name: getattr(self, name) for name in names}

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The network, the tensors of the distribution, and the statistics of each draw."""
        groups = {"network": self.state, **self.covariance_root}
        groups |= {f"buffers{k}": each for k, each in enumerate(self.buffers)}
        settings = self._settings()
        settings["prior"] = settings.pop("prior_precision")  # the name in files
        return TensorGroups(groups).flat(), {**settings, "tuned": list(self.tuned.items())}

    @classmethod
    def from_state_dict(
        cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **kwargs: Any
    ) -> LaplacePosterior:
        """The inverse of `state_dict`."""
        groups = TensorGroups.of(tensors)
        parts = STRUCTURES[settings["structure"]].parts  # copied: products round alike for the same layout
        covariance_root = {part: {name: value.clone() for name, value in groups.groups[part].items()} for part in parts}
        rest = {**settings, "tuned": dict(settings["tuned"])}
        rest["prior_precision"] = rest.pop("prior")  # the name in files
        return cls(groups.groups["network"], covariance_root, **rest, buffers=groups.numbered("buffers"), **kwargs)


def _check(posterior: Posterior, task: Task) -> None:
    """Raise `UsageError` unless this is one network and the task it was trained on."""
    if not isinstance(posterior, WeightSamples) or posterior.max_members != 1:
        count = posterior.max_members if posterior.max_members is not None else "any number of"
        got, hint = f"{type(posterior).__name__} with {count} members", "train a network with Vanilla(…).fit(…)"
        raise UsageError("laplace: around", expected="the posterior of one trained network", got=got, hint=hint)
    if _diverged(posterior):
        got, hint = "a loss or weights that are not finite", "train it again with a lower rate"
        raise TrainingError("laplace: around", expected="a network whose training converged", got=got, hint=hint)
    if (task.likelihood, task.shape) != (posterior.likelihood, posterior.recipe.shape):
        raise UsageError(
            "laplace: around",
            expected=f"the task of training: {posterior.likelihood} with rows of shape {posterior.recipe.shape}",
            got=f"{task.likelihood} with rows of shape {task.shape}",
            hint="pass the task that the network was trained on",
        )


def _diverged(network: Posterior) -> bool:
    finite = all(bool(torch.isfinite(value).all()) for value in network.tensors(0).values())
    return not finite or any(each.get("diverged", False) for each in network.about.history)


def _stored_form(covariance_root: CovarianceRoot, state: State) -> CovarianceRoot:
    """Contiguous CPU tensors in the dtype of the network, as in files."""
    kinds = {name: state[f"{name}.weight"].dtype for each in covariance_root.values() for name in each}
    return {
        part: {name: value.to(dtype=kinds[name], device="cpu").contiguous() for name, value in each.items()}
        for part, each in covariance_root.items()
    }


@torch.no_grad()
def _loss(posterior: LaplacePosterior, task: Task, device: torch.device) -> float:
    """The mean −log of the average of members' densities on the validation rows."""
    rows = task.validation.to(task.x.device)
    outputs, scale = posterior.outputs(posterior._rows(task.x[rows].cpu()), TUNING_DRAWS, device=device)
    y = task.y[rows].cpu().expand(TUNING_DRAWS, -1)
    losses = posterior.likelihood.nll(outputs.double(), y, scale)
    return float((math.log(TUNING_DRAWS) - torch.logsumexp(-losses, dim=0)).mean())
