"""The methods by name, and those that a text such as "ets(loss=brier)" asks for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from calibrant.errors import UsageError, did_you_mean, show
from calibrant.recalibration.base import Recalibrator
from calibrant.registry import options_of

METHODS: dict[str, tuple[str, str]] = {
    "none": ("identity", "Identity"),
    "temperature": ("temperature", "TemperatureScaling"),
    "ets": ("ets", "EnsembleTemperatureScaling"),
    "avu_temperature": ("avu", "AvUTemperatureScaling"),
    "member_temperatures": ("member_temperatures", "MemberTemperatureScaling"),
    "vector": ("vector", "VectorScaling"),
    "matrix": ("matrix", "MatrixScaling"),
    "dirichlet": ("dirichlet", "DirichletCalibration"),
    "beta": ("beta", "BetaCalibration"),
    "isotonic": ("isotonic", "IsotonicCalibration"),
    "isotonic_multiclass": ("isotonic_multiclass", "MulticlassIsotonic"),
    "histogram": ("histogram", "HistogramBinning"),
    "spline": ("spline", "SplineCalibration"),
    "diag": ("networks_diagonal", "DiagonalNetwork"),
    "op": ("order_preserving", "OrderPreservingNetwork"),
    "order_invariant": ("order_preserving", "OrderInvariantNetwork"),
    "levels": ("levels", "IsotonicLevels"),
    "std": ("std", "StdScaling"),
    "variance": ("variance", "VarianceScaling"),
}
"""The name of each method, the module that holds it, and its class."""


def method_class(name: str) -> type[Recalibrator]:
    """The class of a method; what it needs is imported now."""
    if name not in METHODS:
        raise UsageError(
            "method", expected="a method of recalibration", came=f"got {show(name)}", do=did_you_mean(name, METHODS)
        )
    module, found = METHODS[name]
    return getattr(import_module(f"calibrant.recalibration.{module}"), found)


def recalibrator(text: str) -> Recalibrator:
    """The method, not yet fitted, that is written as "temperature" or "ets(loss=brier,members=each)"."""
    name = text.partition("(")[0].strip()
    if "(" in text and not text.rstrip().endswith(")"):
        do = "write for example ets(loss=brier)"
        raise UsageError("method", expected="NAME or NAME(option=value,…)", came=f"got {show(text)}", do=do)
    if name == "auto":
        raise UsageError(
            "method",
            expected="a method of recalibration",
            came="auto stands for a choice of them",
            do="use it in recalibrate, or fit what cal.choose(predictions).best names",
        )
    method = method_class(name)
    options: dict[str, Any] = options_of(text, _Entry(name, method))
    return method(**options)


class _Entry:
    """A method as the parser of options sees it."""

    def __init__(self, name: str, method: type[Recalibrator]) -> None:
        self.name, self.options = name, method.options_known()


def methods_for(task: str) -> list[str]:
    """The names of the methods for predictions of a kind: classification, judged or regression."""
    return [name for name in METHODS if task in method_class(name).tasks]
