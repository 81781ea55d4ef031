"""Base classes of recalibration: a `Recalibrator` has options, `fit` and `transform`; a `Map` has fitted parameters.

A map is a frozen record of parameters and the function of predictions that they define. `injective` and `keeps_order`
are properties of a fitted map; `promises_accuracy` is what a method guarantees for every map that it returns.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from calibrant.errors import (
    CalibrantWarning,
    LabelsError,
    MissingExtra,
    ShapeError,
    UsageError,
    ValuesError,
    did_you_mean,
    show,
)
from calibrant.kernels.exact import exact_sum
from calibrant.predictions import Classification, Judged, Regression
from calibrant.predictions.base import Note
from calibrant.predictions.row_fingerprints import row_fingerprints
from calibrant.recalibration.file_fields import PARSERS
from calibrant.recalibration.fit_report import FitReport
from calibrant.recalibration.leakage import fitted_rows_meta
from calibrant.records import Record, abbreviate
from calibrant.registry.metric import Option, Value

MEMBERS = ("average", "each")
Predictions = Classification | Judged | Regression


def option(
    default: Any, help: str, *, choices: tuple[str, ...] = (), at_least: float = -math.inf, at_most: float = math.inf
) -> Any:
    """Declare a dataclass field as an option, settable in Python, in a spec such as "ets(loss=brier)" and in files."""
    declaration = {"help": help, "choices": choices, "at_least": at_least, "at_most": at_most}
    return field(default=default, metadata={"option": declaration})


# ---------------------------------------------------------------------------------------------- maps
@dataclass(frozen=True)
class Map(Record):
    """The parameters of a fitted map. Each field is a number, a string or an array, and is saved under its name."""

    @property
    def n_parameters(self) -> int:
        """The number of fitted parameters; by default all numbers in the fields."""
        return sum(np.size(value) for value in self.parameters().values() if not isinstance(value, str))

    @property
    def injective(self) -> bool:
        """Whether the map provably never sends two different predictions to the same one."""
        raise NotImplementedError

    @property
    def keeps_order(self) -> bool:
        """Whether the ranking of the classes, and with it the predicted class, stays; in regression, the mean."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The fields by name."""
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Rebuild a map from saved fields, each validated by its annotation; anything invalid is a ValueError."""
        parsers = {item.name: PARSERS[item.type] for item in dataclasses.fields(cls)}
        if parsers.keys() != parameters.keys():
            raise ValueError(f"fields {sorted(parameters)}, not {sorted(parsers)}")
        return cls(**{name: parse(parameters[name], name) for name, parse in parsers.items()})

    def matches_classes(self, classes: int) -> bool:
        """Whether the shapes of its arrays fit this number of classes."""
        return True

    def is_usable(self, classes: int) -> bool:
        """Whether applying it to a few rows gives valid probabilities, standard deviations or levels."""
        return True


@dataclass(frozen=True)
class FitState(Record):
    """What `fit` leaves behind: one map and report for the average, or one for each member, and what they apply to.

    Members that are fitted jointly share one report.
    """

    maps: tuple[Map, ...]
    fits: tuple[FitReport, ...]
    task: str
    classes: int | None = None
    class_names: tuple[str, ...] | None = None
    member_names: tuple[str, ...] | None = None
    name: str = ""
    """The name of the predictions it was fitted on."""
    marks: str = ""
    """Fingerprints of the fitted rows: see `calibrant.predictions.row_fingerprints`."""

    @classmethod
    def of(cls, predictions: Any, maps: list[Any], fits: list[FitReport], members: str) -> FitState:
        """The state after a fit to these predictions; class and member names are checked by later transforms."""
        keys = ("classes", "class_names", *(("member_names",) if members == "each" else ()))
        names: dict[str, Any] = {key: getattr(predictions, key, None) for key in keys}
        return cls(tuple(maps), tuple(fits), predictions.task, **names, name=predictions.name)


# ------------------------------------------------------------------------------------------ methods
@dataclass(eq=False, kw_only=True, repr=False)
class Recalibrator:
    """A recalibration method: `fit` it on held-out predictions with labels, then `transform` new predictions.

    Parameters
    ----------
    members : {"average", "each"}
        What is recalibrated if there are several members: the average of their probabilities, which gives a single
        prediction, or each member by a map of its own.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    reference: ClassVar[str]
    tasks: ClassVar[frozenset[str]]
    map_class: ClassVar[type[Map]]
    promises_accuracy: ClassVar[bool]
    """Whether every map of this method keeps the predicted class (in regression, the mean)."""
    joint_members: ClassVar[bool] = False
    """Whether all members are fitted jointly and share one report."""
    members: str = option("average", "what is recalibrated of several members", choices=MEMBERS)
    _state: FitState | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for declared in self.declared_options():
            value = getattr(self, declared.name)
            value = value.item() if isinstance(value, np.generic) else value
            if declared.default is not None:
                wide = float(value) if isinstance(declared.default, float) and type(value) is int else value
                typed = type(wide) is type(declared.default)
                parsed = declared.parse(str(wide) if typed else repr(value), self.name)
                if type(value) is not type(parsed) or value != parsed:  # scikit-learn's clone needs the same object
                    setattr(self, declared.name, parsed)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]  # so that @dataclass does not generate another

    def __repr__(self) -> str:
        options = self.options().items()
        settings = [f"{key}={value!r}" for key, value in options if (key, value) != ("members", "average")]
        text = f"{type(self).__name__}({', '.join(settings)})"
        if self._state is None:
            return text
        maps = self.parameters()
        values = maps[0] if len(maps) == 1 else {key: [each[key] for each in maps] for key in maps[0]}
        items = [f"{key}={abbreviate(value)}" for key, value in values.items()]
        return f"{text}: {', '.join([*items, f'fitted on {self.report.n} rows'])}"

    # ------------------------------------------------------------------------------------- facts
    @classmethod
    def declared_options(cls) -> tuple[Option, ...]:
        """The options of the method."""
        items = [item for item in dataclasses.fields(cls) if "option" in item.metadata]
        return tuple(Option(item.name, cast(Value, item.default), **item.metadata["option"]) for item in items)

    def options(self) -> dict[str, Value]:
        """The current value of each option."""
        return {declared.name: getattr(self, declared.name) for declared in self.declared_options()}

    def get_params(self, deep: bool = True) -> dict[str, Value]:
        """The options, for scikit-learn's `clone` and for grid searches over `method__bins`."""
        return self.options()

    def set_params(self, **params: Any) -> Self:
        """Set options by name, all or none; any earlier fit is discarded."""
        options: dict[str, Any] = self.options()
        for name in (name for name in params if name not in options):
            raise UsageError(self.name, expected="a known option", got=show(name), hint=did_you_mean(name, options))
        validated = type(self)(**(options | params))
        if params:
            for name, value in validated.options().items():
                setattr(self, name, value)
            self._state = None
        return self

    @property
    def spec(self) -> str:
        """The method as text without default options, such as "ets(loss=brier)"."""
        changed = [(item.name, getattr(self, item.name), item.default) for item in self.declared_options()]
        options = [
            f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value, default in changed
            if value != default
        ]
        return self.name + (f"({','.join(options)})" if options else "")

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called."""
        return self._state is not None

    @property
    def state(self) -> FitState:
        """What `fit` left behind; a UsageError before."""
        if self._state is None:
            raise UsageError(self.name, expected="a fitted recalibrator", got="an unfitted one", hint="call fit first")
        return self._state

    @property
    def maps(self) -> tuple[Map, ...]:
        """The fitted map of the average, or of each member."""
        return self.state.maps

    def parameters(self) -> list[dict[str, Any]]:
        """The parameters of every map by name."""
        return [each.parameters() for each in self.maps]

    @property
    def n_parameters(self) -> int:
        """The number of fitted parameters."""
        return sum(each.n_parameters for each in self.maps)

    @property
    def fits_members(self) -> bool:
        """Whether each member has a map; one without parameters, the identity, serves every member."""
        return self.members == "each" and bool(dataclasses.fields(self.map_class))

    @property
    def accuracy_preserving(self) -> bool:
        """Whether the predicted class of no row changes: before fitting of any map, afterwards of the fitted one.

        If several members are fitted, each may keep its ranking of classes while the class of their average changes.
        """
        if self._state is None:
            return self.promises_accuracy
        return len(self.maps) == 1 and self.maps[0].keeps_order

    @property
    def injective(self) -> bool:
        """Whether the fitted map is known to be injective, as proposition 4.5 of Gruber & Buettner (2022) requires."""
        return all(each.injective for each in self.maps)

    @property
    def reports(self) -> tuple[FitReport, ...]:
        """How the fit of the average, or of each member, went."""
        return self.state.fits

    @property
    def report(self) -> FitReport:
        """How the fit went; for several members, the first of `reports`."""
        return self.reports[0]

    @property
    def converged(self) -> bool:
        """Whether every fit converged."""
        return all(fit.converged for fit in self.reports)

    def notes(self) -> tuple[Note, ...]:
        """Warnings about the fit."""
        several = len(self.reports) > 1
        pairs = [(f"{self.name}, member {m}" if several else self.name, fit) for m, fit in enumerate(self.reports)]
        return tuple(note for subject, fit in pairs for note in fit.notes(subject))

    # ------------------------------------------------------------------------------------- verbs
    def fit(self, predictions: Predictions, *, threads: int | None = None) -> Self:
        """Fit the map to held-out predictions with observed outcomes; warn if the fit is doubtful.

        Parameters
        ----------
        predictions : Classification, Judged or Regression
            Rows that the model was not trained on.
        threads : int, optional
            Number of threads; by default all cores.

        Returns
        -------
        Self
            This recalibrator, fitted.
        """
        self._check_task(predictions)
        if not predictions.has_labels:
            raise LabelsError(
                f"{self.name}: {predictions.name}", expected="an observed outcome for each row", got="no labels",
                hint="fit on held-out rows with labels",
            )  # fmt: skip
        self._state = replace(self._fit(predictions, threads), marks=row_fingerprints(predictions))
        for note in self.notes():
            warnings.warn(note.message, CalibrantWarning, stacklevel=2)
        return self

    def transform(self, predictions: Predictions) -> Any:
        """Recalibrate predictions; labels, weights and columns stay as they are.

        Parameters
        ----------
        predictions : Classification, Judged or Regression
            Predictions of the same kind and classes as those of the fit; labels are optional.

        Returns
        -------
        Classification, Judged or Regression
            The same rows with recalibrated predictions.
        """
        self._check_task(predictions)
        state = self.state
        if predictions.task != state.task:
            raise UsageError(
                self.name, expected=f"{state.task} predictions, as in the fit", got=f"{predictions.task} predictions",
                hint="fit on predictions of the same kind",
            )  # fmt: skip
        check_same_classes(self.name, predictions, state.classes, state.class_names)
        if self.fits_members:
            if predictions.members != len(state.maps):
                raise ShapeError(
                    self.name, expected=f"the {len(state.maps)} members of the fit",
                    got=f"{predictions.members} in {show(predictions.name)}",
                    hint="fit on the same members, or recalibrate their average with members='average'",
                )  # fmt: skip
            check_same_order(self.name, "members", getattr(predictions, "member_names", None), state.member_names)
        after = self._transform(predictions)
        # A mixture or samples are replaced by the Gaussian with their moments, which is not injective.
        exact = not isinstance(predictions, Regression) or (predictions.kind == "gaussian" and predictions.members == 1)
        step = {
            "method": self.spec,
            "injective": self.injective and exact,
            "accuracy_preserving": self.accuracy_preserving,
            "several": len(self.maps) > 1,
        }
        meta = meta_with_step(predictions, step, state.name) | fitted_rows_meta(state.marks, predictions, after)
        return after._with_info(replace(after.info, meta={**after.info.meta, "recalibration": meta}))

    def save(self, path: Any) -> Any:
        """Write the fitted recalibrator to a .json or .npz file atomically."""
        from calibrant.recalibration.serialization import save

        return save(self, path)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Load a recalibrator of this class that `save` wrote."""
        from calibrant.recalibration.serialization import load

        recalibrator, hint = load(path), "use recalibration.load"
        if not isinstance(recalibrator, cls):
            raise UsageError(str(path), expected=f"a fitted {cls.__name__}", got=recalibrator.name, hint=hint)
        return recalibrator

    def to_module(self, *, kind: str = "logits", output: str = "log_probs") -> Any:
        """The fitted map as a torch.nn.Module: see `calibrant.recalibration.export`."""
        need_torch(f"{self.name} as a module")
        from calibrant.recalibration.export import to_module

        return to_module(self, kind=kind, output=output)

    def to_onnx(self, path: Any, *, kind: str = "logits", output: str = "log_probs", dtype: str = "float32") -> Any:
        """Write the fitted map as ONNX, for any number of rows: see `calibrant.recalibration.export`."""
        need_torch(f"{self.name} as a module")
        from calibrant.recalibration.export import to_onnx

        return to_onnx(self, path, kind=kind, output=output, dtype=dtype)

    # -------------------------------------------------------------------------------- for subclasses
    def _fit(self, predictions: Any, threads: int | None) -> FitState:
        raise NotImplementedError

    def _transform(self, predictions: Any) -> Any:
        raise NotImplementedError

    def _check_task(self, predictions: Any) -> None:
        check_in_memory(self.name, predictions)
        if predictions.task not in self.tasks:
            raise UsageError(
                self.name,
                expected=f"{' or '.join(sorted(self.tasks))} predictions",
                got=f"{predictions.task} predictions, {show(predictions.name)}",
                hint="list the methods of each kind with `calibrant recalibrate --list`",
            )


# ------------------------------------------------------------------------------------- shared pieces
def check_in_memory(subject: str, predictions: Any) -> None:
    """Refuse anything that is not a set of predictions in memory."""
    if not isinstance(predictions, Classification | Judged | Regression):
        raise UsageError(
            subject, expected="predictions in memory", got=type(predictions).__name__,
            hint="build them with cal.Classification.from_logits and the like, or read them with cal.read(path)",
        )  # fmt: skip


def need_torch(subject: str) -> Any:
    """Import PyTorch, or raise `MissingExtra`."""
    try:
        import torch
    except ImportError as error:
        hint = "pip install 'calibrant[torch]'"
        raise MissingExtra(subject, expected="PyTorch", got="none installed", hint=hint) from error
    return torch


def check_same_classes(
    subject: str, predictions: Any, classes: int | None, class_names: tuple[str, ...] | None
) -> None:
    """Refuse predictions with other classes than those of the fit, or with the same ones in another order."""
    if classes is not None and predictions.classes != classes:
        raise ShapeError(
            subject, expected=f"the {classes} classes of the fit",
            got=f"{predictions.classes} in {show(predictions.name)}", hint="fit on predictions of the same classes",
        )  # fmt: skip
    check_same_order(subject, "classes", getattr(predictions, "class_names", None), class_names)


def check_same_order(
    subject: str, what: str, names: tuple[str, ...] | None, fitted_names: tuple[str, ...] | None
) -> None:
    """Refuse classes or members in another order than in the fit; without names there is nothing to compare."""
    if not names or not fitted_names or names == fitted_names:
        return
    k = next(k for k in range(len(names)) if names[k] != fitted_names[k])
    expected = f"the {what} in the order of the fit, with {show(fitted_names[k])} at position {k}"
    raise UsageError(subject, expected=expected, got=show(names[k]), hint=f"put the {what} in the order of the fit")


def normalized_weights(predictions: Classification | Regression) -> np.ndarray:
    """The weight (n,) of each row, normalised to sum to one: a loss is Σ row_weights · loss of the row."""
    weights = predictions.weights
    if weights is None:
        return np.full(predictions.n, 1.0 / predictions.n)
    weights = weights.astype(np.float64) / predictions.info.weight_unit
    total = exact_sum(weights)
    if not total > 0:
        raise ValuesError("weights", expected="a positive weight", got="zeros only", hint="use weights above 0")
    return weights / total


def meta_with_step(predictions: Predictions, step: dict[str, Any], fitted_on: str) -> dict[str, Any]:
    """The `recalibration` metadata of recalibrated predictions: all steps so far and their joint properties."""
    steps = [*predictions.info.meta.get("recalibration", {}).get("steps", []), step]
    return {
        "method": ", then ".join(each["method"] for each in steps),
        "injective": all(each["injective"] and not each["several"] for each in steps),
        "accuracy_preserving": all(each["accuracy_preserving"] for each in steps),
        "fitted_on": fitted_on,
        "steps": steps,
    }
