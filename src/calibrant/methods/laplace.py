"""Laplace approximations: the normal law of weights about those of a trained network that its curvature there tells.

log p(θ | data) ≈ log p(θ* | data) − ½(θ − θ*)ᵀ(H + τI)(θ − θ*), H the generalised Gauss-Newton matrix of the training
rows and τ the prior precision, so that θ is normal about θ* with covariance (H + τI)⁻¹. Weight decay is such a prior:
the loss L + ½decay|θ|², L the mean −log p of n rows, has its minimum where the posterior with τ = n·decay has its peak.
Draws of all layers' weights leave those of normalisations as they are, and compute their statistics anew.

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

from calibrant.errors import TrainingError, UsageError, did_you_mean, show
from calibrant.methods.base import TIMED_ROWS, Method, Trained
from calibrant.methods.costs import measured
from calibrant.methods.laplace_curvature import STRUCTURES, Curvature, Law, curvature_of
from calibrant.methods.laplace_layers import drawn_layers, matrix, parameters
from calibrant.methods.points import Points
from calibrant.methods.posterior import Kept, Posterior
from calibrant.methods.refreshing import refresh
from calibrant.networks.recipe import Recipe
from calibrant.networks.stack import State
from calibrant.training.runs import Run
from calibrant.training.seeds import stream
from calibrant.training.settings import counted, device_of, reproducible
from calibrant.training.task import Task

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
TUNING_DRAWS = 10
GRIDS = {"prior": [10.0 ** (k / 2) for k in range(-8, 9)], "scale": [10.0 ** (k / 4) for k in range(-8, 5)]}
"""By how much the prior precision or the noise scale is multiplied, to find what predicts validation rows best."""
CHOICES = {"structure": tuple(STRUCTURES), "fisher": ("exact", "empirical"), "tune": (None, "auto", *GRIDS)}


@dataclass(frozen=True)
class Laplace(Method):
    """A network that is trained once, and a normal law about its weights.

    structure: last_layer (all covariances of the last layer's weights), diagonal or kfac (all layers). prior: the prior
    precision τ of each weight; None: n·decay of the training. scale: by which deviations are multiplied. tune: "prior"
    or "scale", to be multiplied by what gives the average of ten draws the least −log p on the task's validation rows;
    "auto" is "prior" where the task has such rows and neither number is given, and None else. Draws of all layers that
    were not tuned are often far worse than the network itself.
    rows: at most so many training rows, drawn by the seed, tell the curvature. fisher: exact, or the empirical one of
    the outcomes that came. refresh: whether statistics of batches are computed anew for each of the `draws` draws,
    where all layers are drawn; more can be had from `posterior.more(task, draws)`.
    """

    structure: str = "last_layer"
    prior: float | None = None
    scale: float = 1.0
    tune: str | None = "auto"
    rows: int | None = None
    fisher: str = "exact"
    refresh: bool = True
    draws: int = 20
    name: ClassVar[str] = "laplace"
    reference: ClassVar[str] = "Ritter et al. (2018)"

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                names = [each for each in known if each is not None]
                raise UsageError(
                    f"laplace: {name}",
                    expected=" or ".join(names),
                    came=f"got {show(value)}",
                    do=did_you_mean(str(value), names),
                )
        for name in ("prior", "scale"):
            value = getattr(self, name)
            fits = isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value < math.inf
            if not fits and not (name == "prior" and value is None):
                raise UsageError(
                    f"laplace: {name}", expected="a number above 0", came=f"got {show(value)}", do="1.0, for example"
                )
        for name in ("rows", "draws"):
            value = getattr(self, name)
            fits = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if not fits and not (name == "rows" and value is None):
                raise UsageError(
                    f"laplace: {name}", expected="a whole number from 1", came=f"got {show(value)}", do="give one"
                )

    # ------------------------------------------------------------------------------------- fitting
    def recipe(self, task: Task, network: Any) -> Recipe:
        """How the network is made; one whose layers cannot be drawn is refused before it is trained."""
        made = super().recipe(task, network)
        drawn_layers(made.template(), self.structure)
        return made

    def runs(self, task: Task, seed: int) -> list[Run]:
        """The one training, if there will be a prior, and rows to choose it by."""
        self._settled(task)._precision(self.training.decay, task)
        return super().runs(task, seed)

    def posterior(self, trained: Trained) -> LaplacePosterior:
        """The law about the network that was trained."""
        return self._named(Points(trained.states, **trained.known), trained.task, trained.device)

    def _named(self, points: Posterior, task: Task, device: torch.device) -> LaplacePosterior:
        """The law by the settings as they are decided, and told as they were asked for."""
        made = self._settled(task)._around(points, task, device)
        made.about = replace(made.about, settings={**made.about.settings, "tune": self.tune})
        return made

    def _settled(self, task: Task) -> Laplace:
        """With its tuning decided: of the prior, where there are validation rows and neither number was given."""
        if self.tune != "auto":
            return self
        free = self.prior is None and self.scale == 1.0 and len(task.validation) > 0
        return replace(self, tune="prior" if free else None)

    def around(self, posterior: Posterior, task: Task, *, device: str | torch.device = "auto") -> LaplacePosterior:
        """The law about a network that is trained already, such as `Vanilla().fit(…)` gives; task: that of training.

        Without `prior`, the decay is that of the network's training, not of this method's `training`.
        """
        where = device_of(device)
        _check(posterior, task)
        made = self._named(posterior, task, where)
        rows = task.x[task.train[:TIMED_ROWS].to(task.x.device)].cpu()
        examples = sum(each["epochs"] for each in made.about.history) * made.about.n
        return measured(made, rows, where, examples)

    def _around(self, points: Posterior, task: Task, device: torch.device) -> LaplacePosterior:
        begun = time.monotonic()
        told = points.about.settings.get("training", self.training.settings())
        prior = self._precision(float(told["decay"]), task)
        template, state, n = points.template, points.tensors(0), task.n
        names = drawn_layers(template, self.structure)
        rows = task.train[: 0 if _diverged(points) else n]
        if self.rows is not None and self.rows < len(rows):
            order = torch.randperm(n, generator=stream(points.seed, "laplace rows"))
            rows = rows[order[: self.rows].sort().values]
        with reproducible():
            curvature = curvature_of(self.structure, names, template, state, task, rows, device, self.fisher)
        about = replace(points.about, method=self.name, settings={**self.settings(), "training": told})
        known: dict[str, Any] = {
            "recipe": points.recipe, "likelihood": points.likelihood, "seed": points.seed, "about": about,
            "template": template,
        }  # fmt: skip
        law = _plain(curvature.law(prior, n), state)
        made = LaplacePosterior(state, law, structure=self.structure, prior=prior, scale=float(self.scale), **known)
        made = self._refreshed(made if self.tune is None else self._tuned(made, curvature, task, device), task, device)
        made.about = replace(about, seconds=about.seconds + time.monotonic() - begun)
        return made

    def _refreshed(
        self, made: LaplacePosterior, task: Task, device: torch.device, draws: int | None = None
    ) -> LaplacePosterior:
        return made.more(task, self.draws if draws is None else draws, device) if self.refresh else made

    def _tuned(
        self, made: LaplacePosterior, curvature: Curvature, task: Task, device: torch.device
    ) -> LaplacePosterior:
        """The law whose prior or scale predicts the validation rows best; the same draws are tried for each."""
        tried: dict[float, float] = {}
        for factor in GRIDS[str(self.tune)]:
            value = factor * (made.prior if self.tune == "prior" else made.scale)
            chosen = self._with(made, value, curvature, task.n)
            tried[value] = _loss(self._refreshed(chosen, task, device, TUNING_DRAWS), task, device)
        if not any(map(math.isfinite, tried.values())):
            raise TrainingError(
                "laplace: tune",
                expected="draws that predict validation rows",
                came="no prior and no scale gives a finite loss",
                do="look at the network: did its training go well?",
            )
        best = min(tried, key=lambda value: tried[value] if math.isfinite(tried[value]) else math.inf)
        return self._with(made, best, curvature, task.n).changed(tuned=tried)

    def _with(self, made: LaplacePosterior, value: float, curvature: Curvature, n: int) -> LaplacePosterior:
        if self.tune == "scale":
            return made.changed(scale=value)
        return made.changed(prior=value, law=_plain(curvature.law(value, n), made.state))

    def _precision(self, decay: float, task: Task) -> float:
        """τ; refuse to go on without one, or without rows to choose it by."""
        if self.tune is not None and not len(task.validation):
            raise UsageError(
                "laplace: tune",
                expected="validation rows, by which the prior or the scale is chosen",
                came="the task has none",
                do="hold some back: task.split(0.1)",
            )
        if self.prior is None and not decay > 0.0:
            raise UsageError(
                "laplace: prior",
                expected="a prior precision of the weights, because weight decay, which is one, is 0",
                came="there is none",
                do="give prior=1.0, for example, or train with decay",
            )
        return float(task.n * decay if self.prior is None else self.prior)


class LaplacePosterior(Posterior):
    """A normal law of weights about those of a network.

    law: what turns standard normal numbers into deviations, part by part and layer by layer. tuned: the loss of each
    prior or scale that was tried. buffers: statistics of batches of each draw that has its own.
    """

    kind: ClassVar[str] = "laplace"
    how_to_get_more: ClassVar[str] = "posterior = posterior.more(task, draws) has more"

    def __init__(
        self,
        state: State,
        law: Law,
        *,
        structure: str,
        prior: float,
        scale: float = 1.0,
        tuned: Mapping[float, float] | None = None,
        buffers: list[State] | None = None,
        **known: Any,
    ) -> None:
        super().__init__(**known)
        self.state, self.law, self.structure, self.prior, self.scale = state, law, structure, prior, scale
        self.tuned, self.buffers = dict(tuned or {}), list(buffers or [])
        self.layers = sorted(next(iter(law.values())))  # files keep no order of their own
        self.shares_features = structure == "last_layer"

    def weights(self, k: int) -> State:
        """The weights of draw k: those that the law is about."""
        generator = stream(self.seed, k, "laplace")
        deviation = STRUCTURES[self.structure].deviation
        made: State = {}
        for name in self.layers:
            mean = matrix(self.state, name)
            z = torch.randn(mean.shape, generator=generator, dtype=mean.dtype)
            made |= parameters(self.state, name, mean + self.scale * deviation(self.law, name, z))
        return made

    def tensors(self, k: int) -> State:
        """The network with the weights of draw k, and with their statistics."""
        return {**self.state, **self.weights(k), **(self.buffers[k] if self.buffers else {})}

    @property
    def dtype(self) -> torch.dtype:
        """What weights are kept in."""
        return matrix(self.state, self.layers[0]).dtype

    @property
    def most(self) -> int | None:
        """As many as have statistics of batches of their own; as many as one likes where all share them."""
        return len(self.buffers) or None

    def more(self, task: Task, draws: int, device: torch.device | str = "auto") -> LaplacePosterior:
        """The same law with statistics of batches for so many draws, from the task's training rows.

        Where the last layer alone is drawn, and in networks without batch normalisation, none are needed.
        """
        if self.structure == "last_layer" or not self.template.normalised:
            return self
        states = [{**self.state, **self.weights(k)} for k in range(counted("draws", draws))]
        fresh = refresh(self.template, states, task, device_of(device))
        buffers = [
            {name: value for name, value in state.items() if name.rpartition(".")[2] in STATISTICS} for state in fresh
        ]
        return self.changed(buffers=buffers)

    def changed(self, **changes: Any) -> LaplacePosterior:
        """The same with another law, prior, scale, or statistics."""
        same: dict[str, Any] = {
            "recipe": self.recipe, "likelihood": self.likelihood, "seed": self.seed, "about": self.about,
            "template": self.template, "law": self.law, "buffers": self.buffers, **self._settings(),
        }  # fmt: skip
        return LaplacePosterior(self.state, **{**same, **changes})

    def _settings(self) -> dict[str, Any]:
        return {"structure": self.structure, "prior": self.prior, "scale": self.scale, "tuned": self.tuned}

    def kept(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The network, the law, and the statistics of draws."""
        groups = {"network": self.state, **self.law}
        groups |= {f"buffers{k}": each for k, each in enumerate(self.buffers)}
        return Kept(groups).flat(), {**self._settings(), "tuned": list(self.tuned.items())}

    @classmethod
    def of_kept(cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **known: Any) -> LaplacePosterior:
        """As a file held it."""
        kept = Kept.of(tensors)
        parts = STRUCTURES[settings["structure"]].parts  # copied: products of tensors that lie alike round alike
        law = {part: {name: value.clone() for name, value in kept.groups[part].items()} for part in parts}
        told = {**settings, "tuned": dict(settings["tuned"])}
        return cls(kept.groups["network"], law, **told, buffers=kept.numbered("buffers"), **known)


def _check(posterior: Posterior, task: Task) -> None:
    """One network, and the task that it was trained for."""
    if not isinstance(posterior, Points) or posterior.most != 1:
        count = posterior.most if posterior.most is not None else "any number of"
        raise UsageError(
            "laplace: around",
            expected="the posterior of one trained network",
            came=f"it is {type(posterior).__name__} of {count} members",
            do="train one with Vanilla(…).fit(…)",
        )
    if _diverged(posterior):
        raise TrainingError(
            "laplace: around",
            expected="a network whose training went well",
            came="its loss or its weights are not finite",
            do="train it again at a lower rate",
        )
    if (task.likelihood, task.shape) != (posterior.likelihood, posterior.recipe.shape):
        raise UsageError(
            "laplace: around",
            expected=f"the task of training: {posterior.likelihood} of rows of shape {posterior.recipe.shape}",
            came=f"it is {task.likelihood} of rows of shape {task.shape}",
            do="give the task that the network was trained on",
        )


def _diverged(points: Posterior) -> bool:
    """Whether training failed, so that members are no numbers whatever is drawn."""
    finite = all(bool(torch.isfinite(value).all()) for value in points.tensors(0).values())
    return not finite or any(each.get("diverged", False) for each in points.about.history)


def _plain(law: Law, state: State) -> Law:
    """A law in the precision of the network, in this machine's memory, each tensor in one piece as files hold it."""
    kinds = {name: state[f"{name}.weight"].dtype for each in law.values() for name in each}
    return {
        part: {name: value.to(dtype=kinds[name], device="cpu").contiguous() for name, value in each.items()}
        for part, each in law.items()
    }


@torch.no_grad()
def _loss(posterior: LaplacePosterior, task: Task, device: torch.device) -> float:
    """The mean −log of the average of members' densities on the validation rows."""
    rows = task.validation.to(task.x.device)
    outputs, scale = posterior.outputs(posterior._rows(task.x[rows].cpu()), TUNING_DRAWS, device=device)
    y = task.y[rows].cpu().expand(TUNING_DRAWS, -1)
    losses = posterior.likelihood.nll(outputs.double(), y, scale)
    return float((math.log(TUNING_DRAWS) - torch.logsumexp(-losses, dim=0)).mean())
