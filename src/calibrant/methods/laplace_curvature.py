"""The curvature of a likelihood at a network's trained weights, and the Gaussian posteriors derived from it.

The generalised Gauss-Newton matrix of n rows is H = Σᵢ JᵢᵀΛᵢJᵢ, with Jᵢ the Jacobian of the outputs of row i with
respect to the weights, and Λᵢ the Fisher information of those outputs. With Λᵢ = SᵢSᵢᵀ, each column of S is
backpropagated as if it were the gradient of a loss. If g are the resulting gradients at a layer's output Z = W·a, the
column contributes the outer product of Σₜ gₜaₜᵀ with itself, t over positions. The posterior precision is H + τI. The
structures approximate H by

- full: the whole matrix; for the last layer alone Σᵢ Λᵢ ⊗ aᵢaᵢᵀ, which needs no backward pass;
- diagonal: the exact diagonal for every layer, Σᵢ Σ_S (Σₜ gₜaₜᵀ)²;
- kfac: a Kronecker product for every layer, n·G ⊗ A, with A = E[Σₜ aₜaₜᵀ] and G = E[Σ_S meanₜ gₜgₜᵀ]. The precision is
  nG ⊗ A + τI, whose eigenvalues are n·γα + τ, with those of G and A: W is U_G (z/√(nγαᵀ + τ)) U_Aᵀ away from its mean;
- kfac_factored: the same factors, damped apart as in Ritter et al. (2018), so that the posterior of W is matrix normal:
  (√n G + √τ/π·I) ⊗ (√n A + √τ π·I), π² = (tr A/D)/(tr G/O). The two cross terms add to the precision, which makes
  variances too small.

References: MacKay (1992), A practical Bayesian framework for backpropagation networks; Martens & Grosse (2015), ICML:
2408-2417, for the factors and π; Grosse & Martens (2016), ICML: 573-582, for convolutions; Ritter et al. (2018), ICLR
6; Daxberger et al. (2021), NeurIPS 34: 20089-20103.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
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
"""The maximum number of elements of per-row gradients in memory."""
ROOTS_AT_ONCE = 1 << 26
"""The maximum number of elements of the roots S in memory."""
CovarianceRoot = dict[str, State]
"""The factors of a square root of the covariance by name, each with a tensor for every layer."""


@dataclass(frozen=True)
class Block:
    """A forward pass of a block of rows: layer inputs and outputs, network outputs, and what the roots depend on."""

    module: nn.Module
    layer_inputs: State
    layer_outputs: State
    outputs: Tensor
    y: Tensor
    likelihood: Likelihood
    scale: Scale
    fisher: str

    @cached_property
    def roots(self) -> Tensor:
        """S (n, O, C)."""
        return roots(self.likelihood, self.outputs, self.y, self.scale, self.fisher)

    @property
    def information(self) -> Tensor:
        """Σᵢ Λᵢ (O, O), without the roots where they are large."""
        wide = self.outputs.detach().double()
        if self.fisher == "empirical":
            return self.roots[..., 0].T @ self.roots[..., 0]
        if isinstance(self.likelihood, Categorical):
            p = torch.softmax(wide, dim=-1)
            return torch.diag(p.sum(0)) - p.T @ p
        return self.likelihood.fisher(wide).sum(0)

    def inputs(self, name: str) -> Tensor:
        """a (n, T, D) of a layer."""
        return patches(self.module.get_submodule(name), self.layer_inputs[name])

    def gradients(self) -> Iterator[State]:
        """g (n, T, O) of each layer, for each column of S."""
        names, count = list(self.layer_outputs), self.roots.shape[-1]
        for column in range(count):
            gradients = torch.autograd.grad(
                self.outputs,
                list(self.layer_outputs.values()),
                self.roots[..., column].to(self.outputs.dtype),
                retain_graph=column < count - 1,
                allow_unused=True,
            )
            yield {
                name: positions(self.module.get_submodule(name), gradient)
                for name, gradient in zip(names, gradients, strict=True)
                if gradient is not None
            }


class Curvature(ABC):
    """A structure of the curvature, accumulated over rows. shapes: (O, D) of each layer whose weights are drawn."""

    name: ClassVar[str]
    backward: bool = True
    """Whether gradients at the layers are needed."""
    parts: ClassVar[tuple[str, ...]]
    """The names of the factors of its covariance root."""

    def __init__(self, shapes: Mapping[str, tuple[int, int]], device: torch.device, last: bool) -> None:
        """last: the only layer is the last, whose outputs are those of the network."""
        self.shapes, self.device, self.last, self.count = dict(shapes), device, last, 0

    @abstractmethod
    def add(self, block: Block) -> None:
        """Add a block of rows."""

    @abstractmethod
    def covariance_root(self, prior: float, n: int) -> CovarianceRoot:
        """The Gaussian posterior of the weights for a prior precision, with the curvature scaled to n rows."""

    @staticmethod
    @abstractmethod
    def deviations(covariance_root: CovarianceRoot, z: State) -> State:
        """The deviation of W (O, D) of each layer from its mean, from standard normal z (O, D) of each layer."""

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.device)


class Full(Curvature):
    """The whole matrix, over the weights of all layers in the order of their names."""

    name: ClassVar[str] = "full"
    parts: ClassVar[tuple[str, ...]] = ("whole",)

    def __init__(self, shapes: Mapping[str, tuple[int, int]], device: torch.device, last: bool) -> None:
        super().__init__(shapes, device, last)
        self.backward = not last
        count = sum(math.prod(shape) for shape in self.shapes.values())
        self.matrix = self._zeros(count, count)

    def add(self, block: Block) -> None:
        """Σᵢ Σ_S of the outer products of gradients; of the last layer Σᵢ Λᵢ ⊗ aᵢaᵢᵀ, one block of rows per output."""
        self.count += len(block.outputs)
        if not self.last:
            for gradients in block.gradients():
                each = [self._gradients(block, name, gradients.get(name)) for name in sorted(self.shapes)]
                flat = torch.cat(each, dim=1).double()
                self.matrix += flat.T @ flat
            return
        (layer,) = self.shapes
        a = block.inputs(layer)[:, 0].double()
        fisher = block.roots @ block.roots.mT
        width = a.shape[1]
        for output in range(fisher.shape[1]):
            right = (fisher[:, output, :, None] * a[:, None, :]).flatten(1)
            self.matrix[output * width : (output + 1) * width] += a.T @ right

    def _gradients(self, block: Block, name: str, g: Tensor | None) -> Tensor:
        """Σₜ gₜaₜᵀ of each row, (n, O·D)."""
        if g is None:
            return block.outputs.new_zeros(len(block.outputs), math.prod(self.shapes[name]))
        return (g.mT @ block.inputs(name)).flatten(1)

    def covariance_root(self, prior: float, n: int) -> CovarianceRoot:
        """R with RRᵀ = (H + τI)⁻¹, cut into the rows of each layer."""
        root = _root_of_inverse(self.matrix * (n / max(self.count, 1)), prior)
        names = sorted(self.shapes)
        parts = root.split([math.prod(self.shapes[name]) for name in names])
        return {"whole": dict(zip(names, parts, strict=True))}

    @staticmethod
    def deviations(covariance_root: CovarianceRoot, z: State) -> State:
        """R z."""
        flat = torch.cat([z[name].flatten() for name in sorted(z)])
        return {name: (covariance_root["whole"][name] @ flat).view_as(each) for name, each in z.items()}


class Diagonal(Curvature):
    """The diagonal of each layer's block, as (O, D)."""

    name: ClassVar[str] = "diagonal"
    parts: ClassVar[tuple[str, ...]] = ("std",)

    def __init__(self, shapes: Mapping[str, tuple[int, int]], device: torch.device, last: bool) -> None:
        super().__init__(shapes, device, last)
        self.backward = not last
        self.sums = {name: self._zeros(*shape) for name, shape in self.shapes.items()}

    def add(self, block: Block) -> None:
        """Σᵢ Σ_S (Σₜ gₜaₜᵀ)²; of the last layer Σᵢ diag(Λᵢ) aᵢ²."""
        if self.last:
            (layer,) = self.shapes
            self.sums[layer] += block.roots.square().sum(-1).T @ block.inputs(layer)[:, 0].double().square()
            self.count += len(block.outputs)
            return
        for gradients in block.gradients():
            for name, g in gradients.items():
                self.sums[name] += _squares(g, block.inputs(name)).double()
        self.count += len(block.outputs)

    def covariance_root(self, prior: float, n: int) -> CovarianceRoot:
        """Standard deviations (h + τ)^−½."""
        share = n / max(self.count, 1)
        return {"std": {name: (value * share + prior).rsqrt() for name, value in self.sums.items()}}

    @staticmethod
    def deviations(covariance_root: CovarianceRoot, z: State) -> State:
        """σ ⊙ z."""
        return {name: covariance_root["std"][name] * each for name, each in z.items()}


class Kronecker(Curvature):
    """Factors A (D, D) and G (O, O) of each layer's block, damped by their eigenvalues."""

    name: ClassVar[str] = "kfac"
    parts: ClassVar[tuple[str, ...]] = ("rows", "columns", "std")

    def __init__(self, shapes: Mapping[str, tuple[int, int]], device: torch.device, last: bool) -> None:
        super().__init__(shapes, device, last)
        self.backward = not last
        self.a = {name: self._zeros(inputs, inputs) for name, (_, inputs) in self.shapes.items()}
        self.g = {name: self._zeros(outputs, outputs) for name, (outputs, _) in self.shapes.items()}

    def add(self, block: Block) -> None:
        """Outer products of inputs, summed over positions, and of gradients, averaged over positions."""
        self.count += len(block.outputs)
        for name in self.shapes:
            a = block.inputs(name).flatten(0, 1)
            self.a[name] += (a.T @ a).double()
        if self.last:
            (layer,) = self.shapes
            self.g[layer] += block.information
            return
        for gradients in block.gradients():
            for name, g in gradients.items():
                flat = g.flatten(0, 1)
                self.g[name] += (flat.T @ flat).double() / g.shape[1]

    def factors(self, name: str) -> tuple[Tensor, Tensor]:
        """A and G, means over rows."""
        rows = max(self.count, 1)
        return self.a[name] / rows, self.g[name] / rows

    @cached_property
    def eigen(self) -> dict[str, tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Eigenvalues and eigenvectors of A and of G of each layer, once for all priors."""
        found = {}
        for name in self.shapes:
            (alpha, columns), (gamma, rows) = (torch.linalg.eigh(factor) for factor in self.factors(name))
            found[name] = alpha.clamp(min=0.0), columns, gamma.clamp(min=0.0), rows
        return found

    def covariance_root(self, prior: float, n: int) -> CovarianceRoot:
        """Eigenvectors of both factors, and standard deviations (nγα + τ)^−½ along their products."""
        root: CovarianceRoot = {"rows": {}, "columns": {}, "std": {}}
        for name, (alpha, columns, gamma, rows) in self.eigen.items():
            precision = n * gamma[:, None] * alpha + prior
            root["rows"][name], root["columns"][name] = rows, columns
            root["std"][name] = precision.rsqrt()
        return root

    @staticmethod
    def deviations(covariance_root: CovarianceRoot, z: State) -> State:
        """U_G (σ ⊙ z) U_Aᵀ."""
        rows, columns, std = (covariance_root[part] for part in ("rows", "columns", "std"))
        return {name: rows[name] @ (std[name] * each) @ columns[name].T for name, each in z.items()}


class FactoredKronecker(Kronecker):
    """The same factors, damped apart."""

    name: ClassVar[str] = "kfac_factored"
    parts: ClassVar[tuple[str, ...]] = ("rows", "columns")

    def covariance_root(self, prior: float, n: int) -> CovarianceRoot:
        """Roots of the inverses of both factors of the precision."""
        root: CovarianceRoot = {"rows": {}, "columns": {}}
        for name in self.shapes:
            a, g = self.factors(name)
            means = float(a.diagonal().mean()), float(g.diagonal().mean())
            if not all(means):  # zero curvature: only the prior remains
                a, g, means = torch.zeros_like(a), torch.zeros_like(g), (1.0, 1.0)
            pi = math.sqrt(means[0] / means[1])
            root["columns"][name] = _root_of_inverse(math.sqrt(n) * a, math.sqrt(prior) * pi)
            root["rows"][name] = _root_of_inverse(math.sqrt(n) * g, math.sqrt(prior) / pi)
        return root

    @staticmethod
    def deviations(covariance_root: CovarianceRoot, z: State) -> State:
        """R_G z R_Aᵀ."""
        rows, columns = covariance_root["rows"], covariance_root["columns"]
        return {name: rows[name] @ each @ columns[name].T for name, each in z.items()}


STRUCTURES: Mapping[str, type[Curvature]] = {kind.name: kind for kind in (Full, Kronecker, Diagonal, FactoredKronecker)}


def _squares(g: Tensor, a: Tensor) -> Tensor:
    """Σᵢ (Σₜ gₜaₜᵀ)², elementwise, for gradients (n, T, O) and inputs (n, T, D)."""
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
            expected="a prior precision with a positive definite posterior precision",
            got=f"{prior:.3g}, too small for a curvature of up to {float(curvature.diagonal().max()):.3g}",
            hint="use a larger prior_precision, or train with more weight decay",
        )
    eye = torch.eye(len(lower), dtype=lower.dtype, device=lower.device)
    return torch.linalg.solve_triangular(lower.T, eye, upper=True)


# -------------------------------------------------------------------------------------------- computation
def curvature_of(
    structure: str,
    names: tuple[str, ...],
    template: Template,
    state: State,
    task: Task,
    rows: Tensor,
    device: torch.device,
    fisher: str = "exact",
    last: bool = False,
) -> Curvature:
    """The curvature over rows of a task, without augmentation or dropout, and with batch norm in evaluation mode.

    last: the only layer is the last one of the network.
    """
    shapes = {name: tuple(matrix(state, name).shape) for name in names}
    curvature = STRUCTURES[structure](shapes, device, last)
    drawn = {f"{name}.{part}" for name in names for part in ("weight", "bias")}
    tensors = {
        name: value.detach().to(device).requires_grad_(curvature.backward and name in drawn)
        for name, value in state.items()
    }
    module = template.module.to(device).eval()
    scale = Scale(tensors["y_mean"], tensors["y_std"])
    task = task.to(device)
    with traced(module, names) as (inputs_of, outputs_of), torch.set_grad_enabled(curvature.backward):
        step = max(1, min(ROWS_AT_ONCE, ROOTS_AT_ONCE // task.likelihood.outputs**2))
        for block in rows.to(device).split(step) if len(rows) else ():
            x, y = task.as_input(task.x[block], scale.std.dtype), task.y[block]
            inputs_of.clear()
            outputs_of.clear()
            outputs = functional_call(module, tensors, (x,))
            _check(names, inputs_of, outputs)
            curvature.add(Block(module, inputs_of, outputs_of, outputs, y, task.likelihood, scale, fisher))
    return curvature


def _check(names: tuple[str, ...], inputs_of: State, outputs: Tensor) -> None:
    """Raise for outputs that are not finite, and for layer inputs whose first axis is not that of the rows."""
    if not bool(torch.isfinite(outputs).all()):
        expected = "a network with finite outputs on its training rows"
        hint = "train again with a lower learning rate, or look for outliers in the data"
        raise TrainingError("curvature", expected=expected, got="NaN or infinite outputs", hint=hint)
    count = len(outputs)
    for name in names:
        if name not in inputs_of or len(inputs_of[name]) != count:
            got = f"shape {tuple(inputs_of[name].shape)}" if name in inputs_of else "no call of the layer"
            expected = f"inputs with the {count} rows as first axis"
            hint = "keep rows as the first axis in forward(), or use another structure or method"
            raise UsageError(f"layer {name}", expected=expected, got=got, hint=hint)


def roots(likelihood: Likelihood, outputs: Tensor, y: Tensor, scale: Scale, fisher: str = "exact") -> Tensor:
    """S (n, O, C) in double precision with SSᵀ = Λ, the Fisher information of outputs (n, O).

    exact: the expectation over y from the predicted distribution. empirical: the outer product of the gradient of
    −log p at the observed y. For classes, diag(p) − ppᵀ = SSᵀ with S = diag(√p) − p√pᵀ.
    """
    wide = outputs.detach().double()
    if fisher == "empirical":
        with torch.enable_grad():
            wide.requires_grad_()
            (gradient,) = torch.autograd.grad(likelihood.nll(wide, y, scale).sum(), wide)
        return gradient[..., None]
    if isinstance(likelihood, Categorical):
        p = torch.softmax(wide, dim=-1)
        return torch.diag_embed(p.sqrt()) - p[..., :, None] * p.sqrt()[..., None, :]
    values, vectors = torch.linalg.eigh(likelihood.fisher(wide))
    return vectors * values.clamp(min=0.0).sqrt()[..., None, :]
