"""Laplace approximations: normal distributions of weights around a trained network, from the curvature of its loss.

log p(θ | data) ≈ log p(θ* | data) − ½(θ − θ*)ᵀ(H + τI)(θ − θ*), H the generalised Gauss-Newton matrix of the training
rows and τ the prior precision, so that θ is normal about θ* with covariance (H + τI)⁻¹. Weight decay is such a prior:
the loss L + ½decay|θ|², L the mean −log p of n rows, has its minimum where the posterior with τ = n·decay has its peak.
Parameters of normalisation layers are not drawn. By default the network is linearised in its weights, which is exact
for the last layer; with sampled weights of all layers, batch-norm statistics are recomputed for each draw.

References: MacKay (1992), A practical Bayesian framework for backpropagation networks; Ritter et al. (2018), ICLR 6,
for the Kronecker form; Daxberger et al. (2021), NeurIPS 34: 20089-20103, for the last layer alone; Immer, Korzepa &
Bauer (2021), AISTATS 24: 703-711, for the linearised predictive; Ashukha et al. (2020), ICLR 8, appendix B, for the
noise scale that is chosen on validation rows.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from calibrant.errors import CalibrantWarning, TrainingError, UsageError, check_choice, check_range
from calibrant.methods.base import TIMED_ROWS, Method, TrainingResult
from calibrant.methods.costs import with_cost
from calibrant.methods.laplace_curvature import STRUCTURES, CovarianceRoot, Curvature, curvature_of
from calibrant.methods.laplace_layers import drawn_layers, resolve_structure
from calibrant.methods.laplace_posterior import LaplacePosterior
from calibrant.methods.posterior import Posterior, WeightPosterior, WeightSamples
from calibrant.networks.recipe import Recipe
from calibrant.networks.stack import State
from calibrant.training.seeds import stream
from calibrant.training.settings import check_count, deterministic_kernels, resolve_device
from calibrant.training.task import Run, Task

TUNING_DRAWS = 10
GRIDS = {"prior": [10.0 ** (k / 2) for k in range(-8, 9)], "scale": [10.0 ** (k / 4) for k in range(-8, 5)]}
"""Factors of the prior precision or the scale, of which the best one for validation rows is chosen."""
WIDENINGS = 3
"""How often a grid is continued beyond an edge that is best."""
FLAT = 1e-3
"""A grid is not continued further if that lowers the loss by less."""
CHOICES = {
    "layers": ("last", "all"),
    "structure": ("auto", *STRUCTURES),
    "predictive": ("linearised", "sampled"),
    "fisher": ("exact", "empirical"),
    "tune": ("auto", *GRIDS),
}


@dataclass(frozen=True)
class Laplace(Method):
    """A Laplace approximation around a trained network.

    Parameters
    ----------
    training : Training
        Epochs, optimiser and learning rate of the network.
    layers : {"last", "all"}
        The layers whose weights are drawn.
    structure : {"auto", "full", "kfac", "diagonal", "kfac_factored"}
        The covariance of the weights: full, Kronecker-factored or diagonal. "auto" is full for last layers of up to
        32,768 weights, and else Kronecker factors. "kfac_factored" damps the factors apart, as papers do, which
        loses much of the variance.
    predictive : {"linearised", "sampled"}
        Linearise the network in its weights, or draw weights of the network itself. For the last layer they agree.
    prior_precision : float, optional
        The prior precision τ of each weight; by default n·decay of the training.
    scale : float
        A factor of the deviations from the mean.
    tune : {"auto", "prior", "scale", None}
        Choose the prior precision or the scale that gives ten averaged draws the lowest −log p on the validation rows.
        "auto" tunes the prior if the task has validation rows and neither number is given. Where the best value is at
        the edge of the grid, the grid is continued, with a warning. Untuned sampled weights of all layers are often far
        worse than the network itself.
    rows : int, optional
        Compute the curvature on a random subset of the training rows.
    fisher : {"exact", "empirical"}
        The Fisher information, or the empirical one of the observed outcomes.
    refresh : bool
        Recompute batch-norm statistics for each draw of sampled weights of all layers.
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

    layers: str = "last"
    structure: str = "auto"
    predictive: str = "linearised"
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
        if self.structure == "last_layer":
            expected, hint = f"one of {', '.join(CHOICES['structure'])}", "use layers='last', structure='full'"
            raise UsageError("laplace: structure", expected=expected, got="'last_layer'", hint=hint)
        for name, choices in CHOICES.items():
            if getattr(self, name) is not None or name != "tune":
                check_choice(f"laplace: {name}", getattr(self, name), choices)
        for name in ("prior_precision", "scale"):
            if getattr(self, name) is not None or name != "prior_precision":
                check_range(f"laplace: {name}", getattr(self, name), 0, inclusive="neither", hint=f"use {name}=1.0")
        for name in ("rows", "draws"):
            if getattr(self, name) is not None or name != "rows":
                check_count(f"laplace: {name}", getattr(self, name))

    # ------------------------------------------------------------------------------------- fitting
    def recipe(
        self, task: Task, network: Any, start: str | None = None, train: str | tuple[str, ...] = "all"
    ) -> Recipe:
        """The construction of the network; raises `UsageError` for layers that cannot be drawn, before training."""
        recipe = super().recipe(task, network, start, train)
        template = recipe.template()
        drawn_layers(template, self.layers, resolve_structure(template, self.layers, self.structure))
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
        network = _check(posterior, task)
        approximation = self._approximate(network, task, where)
        rows = task.x[task.train[:TIMED_ROWS].to(task.x.device)].cpu()
        examples = sum(each["epochs"] for each in approximation.about.history) * approximation.about.n
        return with_cost(approximation, rows, where, examples)

    def _with_tuning(self, task: Task) -> Laplace:
        """The method with "auto" resolved."""
        if self.tune != "auto":
            return self
        free = self.prior_precision is None and self.scale == 1.0 and len(task.validation) > 0
        return replace(self, tune="prior" if free else None)

    def _approximate(self, network: WeightPosterior, task: Task, device: torch.device) -> LaplacePosterior:
        method, start = self._with_tuning(task), time.monotonic()
        training = network.about.settings.get("training", self.training.settings())
        prior_precision = method._precision(float(training["decay"]), task)
        template, state, n = network.template, network.tensors(0), task.n
        structure = resolve_structure(template, self.layers, self.structure)
        names = drawn_layers(template, self.layers, structure)
        rows = task.train[: 0 if _diverged(network) else n]
        if self.rows is not None and self.rows < len(rows):
            order = torch.randperm(n, generator=stream(network.seed, "laplace rows"))
            rows = rows[order[: self.rows].sort().values]
        with deterministic_kernels():
            last = self.layers == "last"
            curvature = curvature_of(structure, names, template, state, task, rows, device, self.fisher, last)
        about = replace(network.about, method=self.name, settings={**self.settings(), "training": training})
        approximation = LaplacePosterior(
            state,
            _stored_form(curvature.covariance_root(prior_precision, n), state),
            layers=self.layers,
            structure=structure,
            predictive=self.predictive,
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

        def loss(value: float) -> float:
            posterior = candidate(value)
            posterior = posterior.more(task, TUNING_DRAWS, device) if self.refresh else posterior
            found = _loss(posterior, task, device)
            return found if math.isfinite(found) else math.inf

        what = "prior precision" if self.tune == "prior" else "scale"
        start = approximation.prior_precision if self.tune == "prior" else approximation.scale
        grid = GRIDS[str(self.tune)]
        step, steps = grid[1] / grid[0], len(grid) // 2
        losses = {factor * start: loss(factor * start) for factor in grid}
        best = min(losses, key=losses.__getitem__)
        if not math.isfinite(losses[best]):
            hint = "look at posterior.about.history: did the training converge?"
            expected = "a finite loss on the validation rows"
            raise TrainingError("laplace: tune", expected=expected, got=f"no {what} with one", hint=hint)
        widened, flat = 0, False
        while best in (min(losses), max(losses)) and widened < WIDENINGS and not flat:
            factor, before = (step if best == max(losses) else 1.0 / step), losses[best]
            losses |= {value: loss(value) for value in (best * factor**k for k in range(1, steps + 1))}
            widened, best = widened + 1, min(losses, key=losses.__getitem__)
            flat = before - losses[best] < FLAT
        if widened:
            warnings.warn(
                f"laplace: the best {what} was at the edge of the grid, which was widened to {min(losses):.3g} to "
                f"{max(losses):.3g}; chosen: {best:.3g}. Where narrow draws are best, the network predicts the "
                "validation rows as well without them",
                CalibrantWarning,
                stacklevel=2,
            )
        return candidate(best).replace(tuned=dict(sorted(losses.items())))

    def _precision(self, decay: float, task: Task) -> float:
        """τ; raises `UsageError` if there is none, or if there are no validation rows to tune it."""
        if self.tune is not None and not len(task.validation):
            hint = "use task.split(0.1)"
            raise UsageError("laplace: tune", expected="a task with validation rows", got="none", hint=hint)
        if self.prior_precision is None and not decay > 0.0:
            expected, hint = "a prior precision, as weight decay is 0", "pass prior_precision=1.0, or train with decay"
            raise UsageError("laplace: prior_precision", expected=expected, got="none", hint=hint)
        return float(task.n * decay if self.prior_precision is None else self.prior_precision)


def _check(posterior: Posterior, task: Task) -> WeightSamples:
    """The posterior, which must be one network, with the task it was trained on; `UsageError` otherwise."""
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
    return posterior


def _diverged(network: WeightPosterior) -> bool:
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
