"""Maps of predictions to predictions that mend their calibration, each with an honest report of its fit.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Recalibrator": "base",
    "Fit": "report",
    "load": "storing",
    "recalibrator": "methods",
    "methods_for": "methods",
    "CrossFit": "cross_fitting",
    "Identity": "identity",
    "cross_fit": "cross_fitting",
    "HistogramBinning": "histogram",
    "IsotonicCalibration": "isotonic",
    "MulticlassIsotonic": "isotonic_multiclass",
    "IsotonicLevels": "levels",
    "SplineCalibration": "spline",
    "TemperatureScaling": "temperature",
    "EnsembleTemperatureScaling": "ets",
    "AvUTemperatureScaling": "avu",
    "MemberTemperatureScaling": "member_temperatures",
    "VectorScaling": "vector",
    "MatrixScaling": "matrix",
    "DirichletCalibration": "dirichlet",
    "BetaCalibration": "beta",
    "DiagonalNetwork": "networks_diagonal",
    "OrderPreservingNetwork": "order_preserving",
    "OrderInvariantNetwork": "order_preserving",
    "StdScaling": "std",
    "VarianceScaling": "variance",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"calibrant.recalibration.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'calibrant.recalibration' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
