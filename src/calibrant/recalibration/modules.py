"""A fitted recalibrator as a module of PyTorch, to stand behind a network, or as a file of ONNX.

Every map has its module in `torch_maps`; a map that inherits from another has that of its parent unless it is named.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from calibrant.errors import MissingExtra, UsageError, show
from calibrant.predictions.checking import KINDS
from calibrant.predictions.files.writing import atomic_write
from calibrant.recalibration.base import Map, Recalibrator
from calibrant.recalibration.networks_training import need_torch

MODULES = {
    "IdentityMap": "Same",
    "TemperatureMap": "Temperature",
    "EnsembleTemperatureMap": "EnsembleTemperature",
    "VectorMap": "Vector",
    "MatrixMap": "Matrix",
    "DirichletMap": "Dirichlet",
    "BetaMap": "Beta",
    "IsotonicMap": "Isotonic",
    "MulticlassIsotonicMap": "MulticlassIsotonic",
    "HistogramMap": "Histogram",
    "SplineMap": "Spline",
    "DiagonalMap": "Diagonal",
    "OrderPreservingMap": "OrderPreserving",
}
"""The class of each map, and that of its module."""
OUTPUTS = ("log_probs", "probs")


def has_module(made: type[Map]) -> bool:
    """Whether maps of a class have a module."""
    return any(each.__name__ in MODULES for each in made.__mro__)


def to_module(made: Recalibrator, *, kind: str = "logits", output: str = "log_probs") -> Any:
    """A fitted recalibrator as a torch.nn.Module of scores (n, C); of several maps, of (M, n, C), one for each member.

    kind: what the scores are: logits, log_probs or probs; output: what comes out, log_probs or probs. It has no
    parameters to be trained, and derivatives with respect to its input. It computes in double precision unless
    `.float()` is called, and returns the precision that it is given.
    """
    for name, value, known in (("kind", kind, tuple(KINDS)), ("output", output, OUTPUTS)):
        if value not in known:
            raise UsageError(
                f"{made.name}: {name}", expected=" or ".join(known), came=f"got {show(value)}", do="choose one"
            )
    need_torch(f"{made.name} as a module")
    from calibrant.recalibration import torch_maps
    from calibrant.recalibration.torch_behind import Behind

    found = [getattr(torch_maps, _module_name(made, each))(each) for each in made.found.maps]
    return Behind(found, kind=kind, output=output).eval()


def _module_name(made: Recalibrator, found: Map) -> str:
    for each in type(found).__mro__:
        if each.__name__ in MODULES:
            return MODULES[each.__name__]
    raise UsageError(
        f"{made.name} as a module",
        expected="a method whose map is one of class predictions",
        came=f"{type(found).__name__} has no module",
        do="apply it with transform",
    )


# ---------------------------------------------------------------------------------------------- ONNX
def to_onnx(
    made: Recalibrator, path: str | Path, *, kind: str = "logits", output: str = "log_probs", dtype: str = "float32"
) -> Path:
    """Write the module of `to_module` as ONNX, for any number of rows; whole or not at all.

    dtype: the precision of input and output, float32 or float64; within, it is double.
    """
    path = Path(path)
    if dtype not in ("float32", "float64"):
        raise UsageError(f"{made.name}: dtype", expected="float32 or float64", came=f"got {show(dtype)}", do="choose")
    module = to_module(made, kind=kind, output=output)
    _need_onnx(f"{made.name} as ONNX")
    with atomic_write(path) as stream:
        stream.write(exported(module, _classes(made), output, dtype, made.spec))
    return path


def _classes(made: Recalibrator) -> int:
    """Judged answers are two classes, wrong and right."""
    return made.found.classes or 2


def exported(module: Any, classes: int, output: str, dtype: str, spec: str) -> bytes:
    """The bytes of a module in ONNX, for any number of rows."""
    import torch

    members = len(module.maps)
    shape = (7, classes) if members == 1 else (members, 7, classes)
    example = torch.full(shape, 1.0 / classes, dtype=getattr(torch, dtype))
    rows = {len(shape) - 2: torch.export.Dim("rows", min=1)}
    with _quiet():
        program = torch.onnx.export(
            module,
            (example,),
            input_names=["scores"],
            output_names=[output],
            dynamic_shapes=(rows,),
            dynamo=True,
            verbose=False,
        )
    model = program.model_proto
    for key, value in (("producer", "calibrant"), ("method", spec)):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    return bytes(model.SerializeToString())


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter tells of its own affairs, none of which is the user's."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _need_onnx(subject: str) -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            subject, expected="onnx and onnxscript", came="they are not installed", do="pip install 'calibrant[onnx]'"
        ) from error
