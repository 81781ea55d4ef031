"""The recalibration methods by name, and from specs such as "ets(loss=brier)"."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

from calibrant.errors import UsageError, did_you_mean, show
from calibrant.recalibration.base import Recalibrator
from calibrant.registry.lookup import options_of

METHODS: dict[str, tuple[str, str]] = {
    "none": ("identity", "Identity"),
    "temperature": ("temperature", "TemperatureScaling"),
    "ets": ("ets", "EnsembleTemperatureScaling"),
    "avu_temperature": ("avu", "AvUTemperatureScaling"),
    "member_temperatures": ("member_temperatures", "MemberTemperatureScaling"),
    "vector": ("linear_maps", "VectorScaling"),
    "matrix": ("odir", "MatrixScaling"),
    "dirichlet": ("odir", "DirichletCalibration"),
    "beta": ("beta", "BetaCalibration"),
    "isotonic": ("one_vs_rest", "IsotonicCalibration"),
    "isotonic_multiclass": ("one_vs_rest", "MulticlassIsotonic"),
    "histogram": ("one_vs_rest", "HistogramBinning"),
    "spline": ("spline", "SplineCalibration"),
    "diag": ("order_preserving", "DiagonalNetwork"),
    "op": ("order_preserving", "OrderPreservingNetwork"),
    "order_invariant": ("order_preserving", "OrderInvariantNetwork"),
    "levels": ("levels", "IsotonicLevels"),
    "std": ("std", "StdScaling"),
    "variance": ("variance", "VarianceScaling"),
}
"""The module and the class of each method, by its name."""


ALIASES = {
    "platt": "beta(form=am)",
    "platt_scaling": "beta(form=am)",
    "sigmoid": "beta(form=am)",
    "logistic": "beta(form=am)",
    "temperature_scaling": "temperature",
    "temp": "temperature",
    "ts": "temperature",
    "ensemble_temperature_scaling": "ets",
    "vector_scaling": "vector",
    "matrix_scaling": "matrix",
    "dirichlet_calibration": "dirichlet",
    "beta_calibration": "beta",
    "isotonic_regression": "isotonic",
    "iso": "isotonic",
    "histogram_binning": "histogram",
    "hb": "histogram",
    "spline_calibration": "spline",
    "variance_scaling": "variance",
    "std_scaling": "std",
    "identity": "none",
}
"""Names of methods in papers and other libraries. Platt scaling, logit q = a·logit p + c, is beta calibration with
equal slopes."""


def default_method(predictions: Any) -> str:
    """The method if none is named: temperature scaling; for Gaussian regression a variance map, else levels."""
    if predictions.task != "regression":
        return "temperature"
    return "variance" if predictions.kind == "gaussian" else "levels"


def _without_alias(spec: str) -> str:
    """The spec with the name of its method here; options after an alias are kept."""
    name, bracket, options = spec.strip().partition("(")
    known = ALIASES.get(name.strip().lower().replace("-", "_").replace(" ", "_"))
    if name.strip() in METHODS or known is None:
        return spec
    if bracket and options.strip(" )"):
        own, has_own, preset = known.partition("(")
        return f"{own}({preset.removesuffix(')')},{options}" if has_own else f"{own}({options}"
    return known


def method_class(name: str) -> type[Recalibrator]:
    """The class of a method; its module is imported now."""
    if name not in METHODS:
        raise UsageError("method", expected="a recalibration method", got=show(name), hint=did_you_mean(name, METHODS))
    module, class_name = METHODS[name]
    return getattr(import_module(f"calibrant.recalibration.methods.{module}"), class_name)


def recalibrator(spec: str) -> Recalibrator:
    """Create an unfitted recalibrator from a spec.

    Parameters
    ----------
    spec : str
        A name of `METHODS`, with options if they differ from their defaults: "ets(loss=brier,members=each)".

    Returns
    -------
    Recalibrator

    Examples
    --------
    >>> from calibrant.recalibration import recalibrator
    >>> recalibrator("ets(loss=brier)")
    EnsembleTemperatureScaling(loss='brier')
    """
    spec = _without_alias(spec)
    name = spec.partition("(")[0].strip()
    if "(" in spec and not spec.rstrip().endswith(")"):
        hint = "write for example ets(loss=brier)"
        raise UsageError("method", expected="NAME or NAME(option=value,…)", got=show(spec), hint=hint)
    if name == "auto":
        raise UsageError(
            "method", expected="a recalibration method", got="'auto', which selects one",
            hint="use it in cal.recalibrate, or fit cal.recalibration.choose(predictions).best",
        )  # fmt: skip
    method = method_class(name)
    options: dict[str, Any] = options_of(spec, SimpleNamespace(name=name, options=method.declared_options()))
    return method(**options)


def methods_for(task: str) -> list[str]:
    """The names of the methods for a task.

    Parameters
    ----------
    task : {"classification", "judged", "regression"}
        The kind of predictions.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from calibrant.recalibration import methods_for
    >>> methods_for("regression")
    ['none', 'levels', 'std', 'variance']
    """
    return [name for name in METHODS if task in method_class(name).tasks]
