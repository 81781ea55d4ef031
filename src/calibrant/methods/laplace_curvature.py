"""The curvature of a trained network's likelihood at its weights, and the normal laws that come of it.

The generalised Gauss-Newton matrix of n rows is H = Σᵢ JᵢᵀΛᵢJᵢ, Jᵢ the slopes of the outputs of row i by the weights
and Λᵢ the Fisher information of those outputs. Here Λᵢ = SᵢSᵢᵀ: each column of S goes back through the network as if it
were the slope of a loss, and with g the slopes that it leaves at a layer's output Z = W·a, its share of H is the outer
product of Σₜ gₜaₜᵀ with itself, t over positions. The posterior's precision is H + τI. Of H is kept

- last_layer: all of the last layer's block, Σᵢ Λᵢ ⊗ aᵢaᵢᵀ;
- diagonal: the diagonal, of every layer, Σᵢ Σ_S (Σₜ gₜaₜᵀ)², exactly;
- kfac: of every layer a Kronecker product n·G ⊗ A, with A = E[Σₜ aₜaₜᵀ] and G = E[Σ_S meanₜ gₜgₜᵀ]. The precision is
  (√n G + √τ/π·I) ⊗ (√n A + √τ π·I), π² = (tr A/D)/(tr G/O), so that the law of W is matrix normal.

References: MacKay (1992), A practical Bayesian framework for backpropagation networks; Martens & Grosse (2015), ICML:
2408-2417, for the factors and π; Grosse & Martens (2016), ICML: 573-582, for convolutions; Ritter et al. (2018), ICLR
6; Daxberger et al. (2021), NeurIPS 34: 20089-20103.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from calibrant.errors import TrainingError, UsageError
from calibrant.methods.laplace_layers import matrix, patches, positions, traced
from calibrant.networks.recipe import Template
from calibrant.networks.stack import State
from calibrant.training.likelihoods import Categorical, Likelihood, Scale
from calibrant.training.task import Task

ROWS_AT_ONCE = 256
SQUARED_AT_ONCE = 1 << 26
"""Numbers of per-row slopes that are held at a time."""
Law = dict[str, State]
"""Parts of a law by name, and of each part a tensor for every layer."""


@dataclass(frozen=True)
class Block:
    """A block of rows that passed: what arrived at each layer, roots S (n, O, C), and slopes for each column of S."""

    module: nn.Module
    arrived: State
    left: State
    outputs: Tensor
    roots: Tensor

    def inputs(self, name: str) -> Tensor:
        """a (n, T, D) of a layer."""
        return patches(self.module.get_submodule(name), self.arrived[name])

    def slopes(self) -> Iterator[State]:
        """g (n, T, O) of each layer, for each column of S."""
        names, count = list(self.left), self.roots.shape[-1]
        for column in range(count):
            sent = self.roots[..., column].to(self.outputs.dtype)
            found = torch.autograd.grad(
                self.outputs, list(self.left.values()), sent, retain_graph=column < count - 1, allow_unused=True
            )
            yield {
                name: positions(self.module.get_submodule(name), slope)
                for name, slope in zip(names, found, strict=True)
                if slope is not None
            }


class Curvature(ABC):
    """Sums over rows. shapes: (O, D) of each layer whose weights are drawn."""

    name: ClassVar[str]
    backward: ClassVar[bool] = True
    """Whether slopes are sent back through the network."""
    parts: ClassVar[tuple[str, ...]]
    """What a law of this structure is made of."""

    def __init__(self, shapes: Mapping[str, tuple[int, int]], device: torch.device) -> None:
        self.shapes, self.device, self.count = dict(shapes), device, 0

    @abstractmethod
    def add(self, block: Block) -> None:
        """Take a block of rows into the sums."""

    @abstractmethod
    def law(self, prior: float, n: int) -> Law:
        """The normal law of weights about their values, for n rows like those seen and a prior precision."""

    @staticmethod
    @abstractmethod
    def deviation(law: Law, name: str, z: Tensor) -> Tensor:
        """How far W (O, D) of a layer lies from its mean, for standard normal z (O, D)."""

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.device)


class LastLayer(Curvature):
    """The whole block of the last layer, (O·D)²."""

    name: ClassVar[str] = "last_layer"
    parts: ClassVar[tuple[str, ...]] = ("whole",)
    backward: ClassVar[bool] = False

    def __init__(self, shapes: Mapping[str, tuple[int, int]], device: torch.device) -> None:
        super().__init__(shapes, device)
        ((self.layer, (outputs, inputs)),) = self.shapes.items()
        self.matrix = self._zeros(outputs * inputs, outputs * inputs)

    def add(self, block: Block) -> None:
        """Σᵢ Λᵢ ⊗ aᵢaᵢᵀ, the rows of one output after another."""
        a = block.inputs(self.layer)[:, 0].double()
        fisher = block.roots @ block.roots.mT
        width = a.shape[1]
        for output in range(fisher.shape[1]):
            right = (fisher[:, output, :, None] * a[:, None, :]).flatten(1)
            self.matrix[output * width : (output + 1) * width] += a.T @ right
        self.count += len(a)

    def law(self, prior: float, n: int) -> Law:
        """R with RRᵀ = (H + τI)⁻¹."""
        return {"whole": {self.layer: _root_of_inverse(self.matrix * (n / max(self.count, 1)), prior)}}

    @staticmethod
    def deviation(law: Law, name: str, z: Tensor) -> Tensor:
        """R z."""
        return (law["whole"][name] @ z.flatten()).view_as(z)


class Diagonal(Curvature):
    """The diagonal of each layer's block, as (O, D)."""

    name: ClassVar[str] = "diagonal"
    parts: ClassVar[tuple[str, ...]] = ("std",)

    def __init__(self, shapes: Mapping[str, tuple[int, int]], device: torch.device) -> None:
        super().__init__(shapes, device)
        self.sums = {name: self._zeros(*shape) for name, shape in self.shapes.items()}

    def add(self, block: Block) -> None:
        """Σᵢ Σ_S (Σₜ gₜaₜᵀ)²."""
        for slopes in block.slopes():
            for name, g in slopes.items():
                self.sums[name] += _squares(g, block.inputs(name)).double()
        self.count += len(block.outputs)

    def law(self, prior: float, n: int) -> Law:
        """Standard deviations (h + τ)^−½."""
        share = n / max(self.count, 1)
        return {"std": {name: (value * share + prior).rsqrt() for name, value in self.sums.items()}}

    @staticmethod
    def deviation(law: Law, name: str, z: Tensor) -> Tensor:
        """σ ⊙ z."""
        return law["std"][name] * z


class Kronecker(Curvature):
    """Factors A (D, D) and G (O, O) of each layer's block."""

    name: ClassVar[str] = "kfac"
    parts: ClassVar[tuple[str, ...]] = ("rows", "columns")

    def __init__(self, shapes: Mapping[str, tuple[int, int]], device: torch.device) -> None:
        super().__init__(shapes, device)
        self.a = {name: self._zeros(inputs, inputs) for name, (_, inputs) in self.shapes.items()}
        self.g = {name: self._zeros(outputs, outputs) for name, (outputs, _) in self.shapes.items()}

    def add(self, block: Block) -> None:
        """Outer products of what arrives, summed over positions; of slopes, averaged over them."""
        for name in self.shapes:
            a = block.inputs(name).flatten(0, 1)
            self.a[name] += (a.T @ a).double()
        for slopes in block.slopes():
            for name, g in slopes.items():
                flat = g.flatten(0, 1)
                self.g[name] += (flat.T @ flat).double() / g.shape[1]
        self.count += len(block.outputs)

    def factors(self, name: str) -> tuple[Tensor, Tensor]:
        """A and G, means over rows."""
        rows = max(self.count, 1)
        return self.a[name] / rows, self.g[name] / rows

    def law(self, prior: float, n: int) -> Law:
        """Roots of the inverses of both factors of the precision."""
        made: Law = {"rows": {}, "columns": {}}
        for name in self.shapes:
            a, g = self.factors(name)
            means = float(a.diagonal().mean()), float(g.diagonal().mean())
            if not all(means):  # no curvature at all: the prior is left
                a, g, means = torch.zeros_like(a), torch.zeros_like(g), (1.0, 1.0)
            pi = math.sqrt(means[0] / means[1])
            made["columns"][name] = _root_of_inverse(math.sqrt(n) * a, math.sqrt(prior) * pi)
            made["rows"][name] = _root_of_inverse(math.sqrt(n) * g, math.sqrt(prior) / pi)
        return made

    @staticmethod
    def deviation(law: Law, name: str, z: Tensor) -> Tensor:
        """R_G z R_Aᵀ."""
        return law["rows"][name] @ z @ law["columns"][name].T


STRUCTURES: Mapping[str, type[Curvature]] = {kind.name: kind for kind in (LastLayer, Diagonal, Kronecker)}


def _squares(g: Tensor, a: Tensor) -> Tensor:
    """Σᵢ (Σₜ gₜaₜᵀ)², elementwise, of slopes (n, T, O) and inputs (n, T, D)."""
    if a.shape[1] == 1:
        return g[:, 0].square().T @ a[:, 0].square()
    step = max(1, SQUARED_AT_ONCE // (g.shape[2] * a.shape[2]))
    parts = zip(g.split(step), a.split(step), strict=True)
    return torch.stack([(left.mT @ right).square().sum(0) for left, right in parts]).sum(0)


def _root_of_inverse(curvature: Tensor, prior: float) -> Tensor:
    """R = L⁻ᵀ with LLᵀ = H + τI, so that RRᵀ = (H + τI)⁻¹."""
    precision = curvature.clone()
    precision.diagonal().add_(prior)
    lower, failed = torch.linalg.cholesky_ex(precision)
    rounding = len(precision) * torch.finfo(precision.dtype).eps * float(precision.diagonal().max())
    if int(failed) or not float(lower.diagonal().min()) ** 2 > rounding:
        raise UsageError(
            "prior",
            expected="a prior precision with which the posterior's is positive definite",
            came=f"{prior:.3g} is too small beside curvatures of up to {float(curvature.diagonal().max()):.3g}",
            do="give a larger prior=…, or train with more decay",
        )
    eye = torch.eye(len(lower), dtype=lower.dtype, device=lower.device)
    return torch.linalg.solve_triangular(lower.T, eye, upper=True)


# --------------------------------------------------------------------------------------------- over rows
def curvature_of(
    structure: str,
    names: tuple[str, ...],
    template: Template,
    state: State,
    task: Task,
    rows: Tensor,
    device: torch.device,
    fisher: str = "exact",
) -> Curvature:
    """The curvature over rows of a task, as they are: none is varied, none of their units dropped, and batch
    normalisation has the statistics of training."""
    shapes = {name: tuple(matrix(state, name).shape) for name in names}
    made = STRUCTURES[structure](shapes, device)
    drawn = {f"{name}.{part}" for name in names for part in ("weight", "bias")}
    tensors = {
        name: value.detach().to(device).requires_grad_(made.backward and name in drawn) for name, value in state.items()
    }
    module = template.module.to(device).eval()
    with traced(module, names) as (arrived, left), torch.set_grad_enabled(made.backward):
        for x, y in _blocks(task.to(device), rows.to(device), tensors["y_mean"].dtype):
            arrived.clear()
            left.clear()
            outputs = functional_call(module, tensors, (x,))
            _check(names, arrived, outputs)
            scale = Scale(tensors["y_mean"], tensors["y_std"])
            made.add(Block(module, arrived, left, outputs, roots(task.likelihood, outputs, y, scale, fisher)))
    return made


def _blocks(task: Task, rows: Tensor, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor]]:
    for part in rows.split(ROWS_AT_ONCE) if len(rows) else ():
        yield task.seen(task.x[part], dtype), task.y[part]


def _check(names: tuple[str, ...], arrived: State, outputs: Tensor) -> None:
    """Each layer must have seen these rows, first, so that slopes can be told apart by rows."""
    if not bool(torch.isfinite(outputs).all()):
        raise TrainingError(
            "curvature",
            expected="a network with finite outputs on its training rows",
            came="some are not finite",
            do="train it again at a lower rate, or look for odd values in the data",
        )
    count = len(outputs)
    for name in names:
        if name not in arrived or len(arrived[name]) != count:
            came = f"shape {tuple(arrived[name].shape)}" if name in arrived else "nothing"
            raise UsageError(
                f"layer {name}",
                expected=f"inputs whose first axis is that of the {count} rows",
                came=f"it got {came}",
                do="keep rows first in forward(), or use another structure or method",
            )


def roots(likelihood: Likelihood, outputs: Tensor, y: Tensor, scale: Scale, fisher: str = "exact") -> Tensor:
    """S (n, O, C) in double precision with SSᵀ = Λ, the Fisher information of outputs (n, O).

    exact: its expectation over the y that the network predicts. empirical: the outer product of the slope of −log p at
    the y that came. Of classes, diag(p) − ppᵀ = SSᵀ with S = diag(√p) − p√pᵀ.
    """
    wide = outputs.detach().double()
    if fisher == "empirical":
        with torch.enable_grad():
            wide.requires_grad_()
            (slope,) = torch.autograd.grad(likelihood.nll(wide, y, scale).sum(), wide)
        return slope[..., None]
    if isinstance(likelihood, Categorical):
        p = torch.softmax(wide, dim=-1)
        return torch.diag_embed(p.sqrt()) - p[..., :, None] * p.sqrt()[..., None, :]
    values, vectors = torch.linalg.eigh(likelihood.fisher(wide))
    return vectors * values.clamp(min=0.0).sqrt()[..., None, :]
