"""Export a fitted recalibrator as a PyTorch module, to append to a network, or as an ONNX file.

The module of a map takes ℓ (n, C) and returns (n, C), and is differentiable. The parameters of the map are buffers in
double precision, and so is the arithmetic; `module.float()` makes both single. Curves are evaluated by binary search
with comparisons and gathers only, which every exporter supports.
"""

from __future__ import annotations

import io
import logging
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from calibrant.errors import MissingExtra, UsageError, check_choice
from calibrant.predictions.arrays import SCORE_KEYS
from calibrant.predictions.files.write import atomic_write
from calibrant.recalibration.base import Map, Recalibrator
from calibrant.recalibration.class_rows import FLOOR, log_floor
from calibrant.recalibration.methods.beta import LN2
from calibrant.recalibration.methods.network_training import positive_tensor, softplus_tensor
from calibrant.recalibration.methods.one_vs_rest import split_curves
from calibrant.recalibration.methods.order_preserving import WIDTH
from calibrant.recalibration.methods.spline import ABOVE


# ------------------------------------------------------------------------------------------ export
def to_module(recalibrator: Recalibrator, *, kind: str = "logits", output: str = "log_probs") -> Any:
    """Convert a fitted recalibrator to a torch.nn.Module of scores (n, C), or (M, n, C) with a map for each member.

    The module has no trainable parameters, and derivatives with respect to its input. It computes in double precision
    unless `.float()` is called, and returns the precision of its input.

    Parameters
    ----------
    recalibrator : Recalibrator
        Fitted on class predictions.
    kind : {"logits", "log_probs", "probs"}
        What the input scores are.
    output : {"log_probs", "probs"}
        What the module returns.

    Returns
    -------
    torch.nn.Module
    """
    check_choice(f"{recalibrator.name}: kind", kind, SCORE_KEYS)
    check_choice(f"{recalibrator.name}: output", output, ("log_probs", "probs"))
    modules = []
    for each in recalibrator.maps:
        module = module_class(type(each))
        if module is None:
            raise UsageError(
                f"{recalibrator.name} as a module", expected="a method for class predictions",
                got=f"{type(each).__name__}, which has no module", hint="apply it with transform",
            )  # fmt: skip
        modules.append(module(each))
    return Recalibration(modules, kind=kind, output=output).eval()


def to_onnx(
    recalibrator: Recalibrator, path: str | Path, *, kind: str = "logits", output: str = "log_probs",
    dtype: str = "float32",
) -> Path:  # fmt: skip
    """Write the module of `to_module` as ONNX, for any number of rows; atomic.

    Parameters
    ----------
    recalibrator : Recalibrator
        Fitted on class predictions.
    path : str or Path
        The file to write.
    kind, output : str
        As for `to_module`.
    dtype : {"float32", "float64"}
        The precision of input and output; the computation is in double precision.

    Returns
    -------
    Path
        The file.
    """
    path = Path(path)
    check_choice(f"{recalibrator.name}: dtype", dtype, ("float32", "float64"))
    module = to_module(recalibrator, kind=kind, output=output)
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            f"{recalibrator.name} as ONNX", expected="onnx and onnxscript", got="neither or one installed",
            hint="pip install 'calibrant[onnx]'",
        ) from error  # fmt: skip
    classes = recalibrator.state.classes or 2  # judged answers are two classes
    with atomic_write(path) as stream:
        stream.write(onnx_bytes(module, classes, output, dtype, recalibrator.spec))
    return path


def onnx_bytes(module: Any, classes: int, output: str, dtype: str, spec: str) -> bytes:
    """Serialise a module as ONNX, for any number of rows."""
    members = len(module.maps)
    shape = (7, classes) if members == 1 else (members, 7, classes)
    example = torch.full(shape, 1.0 / classes, dtype=getattr(torch, dtype))
    rows = {len(shape) - 2: torch.export.Dim("rows", min=1)}
    log_level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # the exporter logs, warns and prints about its internals
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module, (example,), input_names=["scores"], output_names=[output], dynamic_shapes=(rows,), dynamo=True,
                verbose=False,
            )  # fmt: skip
    finally:
        logging.disable(log_level)
    model = program.model_proto
    for key, value in (("producer", "calibrant"), ("method", spec)):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    return bytes(model.SerializeToString())


# ------------------------------------------------------------------------------------------ modules
class MapModule(nn.Module):  # type: ignore[misc]
    """One map: `forward` takes ℓ (n, C) and returns log-probabilities, or probabilities, as `kind` says."""

    kind = "log_probs"
    floored = True
    """Whether ℓ is clipped to the floor first."""

    def __init__(self, fitted_map: Any) -> None:
        super().__init__()
        for name, value in fitted_map.parameters().items():
            if isinstance(value, float | np.ndarray):
                self.add_array(name, value)

    def add_array(self, name: str, value: Any) -> None:
        """Register numbers as a buffer in double precision."""
        self.register_buffer(name, torch.tensor(np.asarray(value, np.float64)))


class Recalibration(nn.Module):  # type: ignore[misc]
    """Scores of any kind in, recalibrated predictions out: one map for (n, C), or one per member for (M, n, C)."""

    def __init__(self, maps: list[MapModule], *, kind: str, output: str) -> None:
        super().__init__()
        self.maps, self.kind, self.output = nn.ModuleList(maps), kind, output

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Log-probabilities or probabilities, in the precision of the scores."""
        if len(self.maps) == 1:
            return self._apply_map(self.maps[0], scores)
        return torch.stack([self._apply_map(each, scores[m]) for m, each in enumerate(self.maps)])

    def _apply_map(self, module: MapModule, scores: torch.Tensor) -> torch.Tensor:
        wide = scores.to(next(module.buffers()).dtype)
        if self.kind == "probs":
            wide = torch.log(torch.clamp(wide, min=torch.finfo(wide.dtype).tiny))
        log_probs = torch.log_softmax(wide, dim=-1)
        out = module(torch.clamp(log_probs, min=log_floor(self.kind)) if module.floored else log_probs)
        if module.kind != self.output:
            out = torch.log(out) if self.output == "log_probs" else torch.exp(out)
        return out.to(scores.dtype)


# ------------------------------------------------------------------------------------ few parameters
class Temperature(MapModule):
    """log softmax(ℓ/T)."""

    floored = False

    def forward(self, log_probs: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(log_probs / self.temperature, dim=-1)


class Identity(Temperature):
    """A temperature of one."""

    def __init__(self, fitted_map: Any) -> None:
        super().__init__(fitted_map)
        self.add_array("temperature", 1.0)


class EnsembleTemperature(MapModule):
    """log(w₁ softmax(ℓ/T) + w₂ softmax(ℓ) + w₃/C); terms of weight 0 are left out."""

    def __init__(self, fitted_map: Any) -> None:
        nn.Module.__init__(self)
        self.terms = np.flatnonzero(fitted_map.weights > 0).tolist()
        self.add_array("temperature", fitted_map.temperature)
        self.add_array("log_weights", np.log(fitted_map.weights[self.terms]))

    def forward(self, log_probs: torch.Tensor) -> torch.Tensor:
        uniform = torch.zeros_like(log_probs) - float(np.log(log_probs.shape[-1]))
        scaled = torch.log_softmax(log_probs / self.temperature, dim=-1)
        terms = (scaled, torch.log_softmax(log_probs, dim=-1), uniform)
        parts = [terms[k] + self.log_weights[place] for place, k in enumerate(self.terms)]
        return torch.logsumexp(torch.stack(parts), dim=0)


class Vector(MapModule):
    """log softmax(w∘ℓ + b)."""

    def forward(self, log_probs: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(log_probs * self.slopes + self.intercepts, dim=-1)


class Dirichlet(MapModule):
    """log softmax(Wℓ + b)."""

    def forward(self, log_probs: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(log_probs @ self.weights.T + self.intercepts, dim=-1)


class Matrix(Dirichlet):
    """The same for centred ℓ."""

    def forward(self, log_probs: torch.Tensor) -> torch.Tensor:
        return super().forward(log_probs - log_probs.mean(dim=-1, keepdim=True))


class Beta(MapModule):
    """log σ(a ln p − b ln(1 − p) + c), normalised."""

    def forward(self, log_probs: torch.Tensor) -> torch.Tensor:
        if self.a.shape[0] == 1:
            logits = self.a * log_probs[:, 1:] - self.b * log_probs[:, :1] + self.c
            return -softplus_tensor(torch.cat([logits, -logits], dim=1))
        out = -softplus_tensor(-(self.a * log_probs - self.b * log_rest(log_probs) + self.c))
        return torch.log_softmax(out, dim=-1)


# ------------------------------------------------------------------------------------------ networks
class Diagonal(MapModule):
    """log softmax(m(ℓ)), where m is a Chebyshev series."""

    def __init__(self, fitted_map: Any) -> None:
        nn.Module.__init__(self)
        self.add_array("coefficients", fitted_map.coefficients)

    def forward(self, log_probs: torch.Tensor) -> torch.Tensor:
        basis = chebyshev(chebyshev_x(log_probs), self.coefficients.shape[0])
        return torch.log_softmax(basis @ self.coefficients, dim=-1)


def chebyshev(x: torch.Tensor, count: int) -> torch.Tensor:
    """T_0 … T_{count − 1} of x (…, count), twice as many at a time: T_{k+j} = 2 T_k T_j − T_{k−j}."""
    terms = torch.stack([torch.ones_like(x), x], dim=-1)
    while terms.shape[-1] < count:
        more = 2.0 * terms[..., -1:] * terms[..., 1:] - terms[..., :-1].flip(-1)
        terms = torch.cat([terms, more], dim=-1)
    return terms[..., :count]


class OrderPreserving(MapModule):
    """Scaled gaps between sorted scores, summed and put back in the original order."""

    def __init__(self, fitted_map: Any) -> None:
        super().__init__(fitted_map)
        self.sees_sorted = fitted_map.sees_sorted

    def forward(self, log_probs: torch.Tensor) -> torch.Tensor:
        ranked, order = torch.topk(log_probs, log_probs.shape[1], dim=1)
        x = chebyshev_x(ranked if self.sees_sorted else log_probs)
        units = torch.tanh(x @ self.weights + self.offsets)
        scales = self.beta * positive_tensor(units @ self.outputs + self.biases)
        sums = torch.cumsum((ranked[:, 1:] - ranked[:, :-1]) * scales, dim=1)
        sums = torch.cat([torch.zeros_like(log_probs[:, :1]), sums], dim=1)
        return torch.log_softmax(torch.zeros_like(log_probs).scatter(1, order, sums), dim=-1)


def chebyshev_x(log_probs: torch.Tensor) -> torch.Tensor:
    """x in [−1, 1] of each score, the input of the networks."""
    return torch.log1p(-torch.clamp(log_probs, FLOOR, 0.0)) * (2.0 / WIDTH) - 1.0


# -------------------------------------------------------------------------------------------- curves
class Curves(nn.Module):  # type: ignore[misc]
    """Functions of one number, given by points: linear between them, or steps.

    The points of each are padded to a power of two above the longest, and stored end to end.
    """

    def __init__(self, x: list[np.ndarray], values: list[np.ndarray], *, steps: bool) -> None:
        super().__init__()
        self.steps, self.halvings = steps, max(map(len, values)).bit_length()
        width = 1 << self.halvings
        arrays: dict[str, list[np.ndarray]] = {"x": [], "slopes": [], "values": []}
        for points, heights in zip(x, values, strict=True):
            slopes = np.zeros(len(heights)) if steps else np.append(np.diff(heights) / np.diff(points), 0.0)
            padding = {"x": (points, np.inf), "slopes": (slopes, 0.0), "values": (heights, heights[-1])}
            for name, (array, fill) in padding.items():
                arrays[name].append(np.append(array, np.full(width - len(array), fill)))
        for name, rows in arrays.items():
            self.register_buffer(name, torch.tensor(np.concatenate(rows)))
        self.register_buffer("first", torch.arange(len(x)) * width)

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """The curves at scores (n, curves); one curve serves any number of columns."""
        # Binary search for the number of points below each score (for steps), or not above it.
        place = self.first + torch.zeros_like(scores, dtype=torch.int64)
        for power in reversed(range(self.halvings)):
            x = self.x[place + ((1 << power) - 1)]
            place = place + (x < scores if self.steps else x <= scores).to(torch.int64) * (1 << power)
        if self.steps:
            return self.values[place] + 0.0 * scores  # so that there is a derivative, of 0
        at = torch.maximum(place - 1, self.first)
        out = self.values[at] + self.slopes[at] * torch.clamp(scores - self.x[at], min=0.0)
        start, end = self.values[at], self.values[place]
        return torch.minimum(torch.maximum(out, torch.minimum(start, end)), torch.maximum(start, end))


class OneVsRest(MapModule):
    """A curve for class 1 of two, or for each class; rows are divided by their sums, uniform if these are 0."""

    kind = "probs"
    curves: Any

    def __init__(self, fitted_map: Any) -> None:
        del fitted_map
        nn.Module.__init__(self)

    def forward(self, log_probs: torch.Tensor) -> torch.Tensor:
        probs = torch.exp(log_probs)
        if log_probs.shape[1] == 2:
            out = self.curves(probs[:, 1:])
            return torch.cat([1.0 - out, out], dim=1)
        out = self.curves(probs)
        total = out.sum(dim=1, keepdim=True)
        positive = total > 0
        uniform = torch.full_like(out, 1.0 / log_probs.shape[1])
        return torch.where(positive, out / torch.where(positive, total, torch.ones_like(total)), uniform)


class Isotonic(OneVsRest):
    """Curves that are linear between points."""

    def __init__(self, fitted_map: Any) -> None:
        super().__init__(fitted_map)
        x, values = (split_curves(each, fitted_map.sizes) for each in (fitted_map.x, fitted_map.values))
        self.curves = Curves(x, values, steps=False)


class Histogram(OneVsRest):
    """Curves that are steps."""

    def __init__(self, fitted_map: Any) -> None:
        super().__init__(fitted_map)
        edges = [each[:-1] for each in split_curves(fitted_map.edges, fitted_map.sizes)]
        self.curves = Curves(edges, split_curves(fitted_map.values, fitted_map.sizes), steps=True)


class MulticlassIsotonic(MapModule):
    """log((1 − ε) f(p) + ε p), normalised."""

    def __init__(self, fitted_map: Any) -> None:
        nn.Module.__init__(self)
        self.curves = Curves([fitted_map.x], [fitted_map.values], steps=False)
        self.add_array("identity", fitted_map.identity)

    def forward(self, log_probs: torch.Tensor) -> torch.Tensor:
        probs = torch.exp(log_probs)
        mixed = (1.0 - self.identity) * self.curves(probs) + self.identity * probs
        return torch.log_softmax(torch.log(mixed), dim=-1)


class SplineCurves(nn.Module):  # type: ignore[misc]
    """The slope of a spline over the rows of a score, added to the score for form="gap"."""

    def __init__(self, fitted_map: Any) -> None:
        super().__init__()
        self.slopes = Curves(split_curves(fitted_map.scores, fitted_map.sizes), fitted_map.slopes, steps=False)
        self.gap, self.margin = fitted_map.form == "gap", fitted_map.margin

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """The curves at scores (n, curves)."""
        slope = self.slopes(scores)
        return torch.clamp(slope + scores if self.gap else slope, self.margin, 1.0 - self.margin)


class Spline(OneVsRest):
    """Replace the probability of the predicted class and rescale the others, or replace that of every class."""

    def __init__(self, fitted_map: Any) -> None:
        super().__init__(fitted_map)
        self.top = fitted_map.of == "top"
        self.curves = SplineCurves(fitted_map)

    def forward(self, log_probs: torch.Tensor) -> torch.Tensor:
        if not self.top:
            return super().forward(log_probs)
        top = is_top(log_probs)
        others = torch.softmax(log_probs.masked_fill(top, 16.0 * FLOOR), dim=-1)
        others = others.masked_fill(top, 0.0)
        largest = others.amax(dim=1, keepdim=True)
        least = largest / (1.0 + largest) + ABOVE
        calibrated = self.curves(torch.exp(log_probs.amax(dim=1, keepdim=True)))
        calibrated = torch.clamp(torch.maximum(calibrated, least), max=1.0)
        return torch.where(top, calibrated, others * (1.0 - calibrated))


def is_top(log_probs: torch.Tensor) -> torch.Tensor:
    """Whether each class is the predicted one, the first of the most probable."""
    return torch.arange(log_probs.shape[1], device=log_probs.device) == log_probs.argmax(dim=1, keepdim=True)


def log_rest(log_probs: torch.Tensor) -> torch.Tensor:
    """ln(1 − p) from ln p; for the predicted class from the sum of the others."""
    top = is_top(log_probs)
    others = log_probs.masked_fill(top, 16.0 * FLOOR)
    rest = torch.log1p(-torch.exp(torch.clamp(others, max=-LN2)))
    return torch.where(top, torch.clamp(torch.logsumexp(others, dim=1, keepdim=True), max=0.0), rest)


MODULES = {
    f"{module.__name__}Map": module
    for module in (
        Beta, Diagonal, Dirichlet, EnsembleTemperature, Histogram, Identity, Isotonic, Matrix, MulticlassIsotonic,
        OrderPreserving, Spline, Temperature, Vector,
    )
}  # fmt: skip
"""The module of each map, by the name of the map's class."""


def module_class(map_class: type[Map]) -> type[MapModule] | None:
    """The module of a map, or that of the map it inherits from; None if it cannot be exported."""
    return next((MODULES[each.__name__] for each in map_class.__mro__ if each.__name__ in MODULES), None)
