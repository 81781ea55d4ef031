"""What every recalibrator is: a method with options, `fit` and `transform`, and the maps that a fit leaves behind.

A *map* is a frozen record of numbers and the function of predictions that they define; a *recalibrator* finds it. Maps
know what is true of them: `injective` and `keeps_order` belong to the fitted map, `accuracy_preserving` is what the
method promises of every map that it returns.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from calibrant.errors import CalibrantWarning, LabelsError, ShapeError, UsageError, did_you_mean, show
from calibrant.predictions import Classification, Judged, Regression
from calibrant.predictions.base import Note
from calibrant.predictions.marks import marks_of
from calibrant.recalibration.report import Fit
from calibrant.recalibration.seen import seen
from calibrant.recalibration.stored_fields import KINDS
from calibrant.registry.metric import Option, Value

MEMBERS = ("average", "each")
Given = Classification | Judged | Regression


def option(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> Any:
    """A field of a method that is an option: in Python, in a spec string such as "ets(loss=brier)", and in files."""
    known = {"help": help, "choices": choices, "at_least": at_least, "at_most": at_most}
    return field(default=default, metadata={"option": known})


# ---------------------------------------------------------------------------------------------- maps
@dataclass(frozen=True)
class Map:
    """The numbers of a fitted map; each field is a number, a text or an array, and is stored under its name."""

    @property
    def n_parameters(self) -> int:
        """Numbers that were fitted."""
        raise NotImplementedError

    @property
    def injective(self) -> bool:
        """Whether two different predictions are never sent to one, as is known for certain."""
        raise NotImplementedError

    @property
    def keeps_order(self) -> bool:
        """Whether the classes of a row keep their order, so that the predicted class stays; of numbers, their mean."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The fields by name."""
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}

    @classmethod
    def restored(cls, parameters: dict[str, Any]) -> Self:
        """The map of stored fields, each checked by its annotation: lists become arrays again.

        What cannot be is a ValueError, a field too many or too few too.
        """
        known = {item.name: KINDS[item.type] for item in dataclasses.fields(cls)}
        if known.keys() != parameters.keys():
            raise ValueError(f"fields {sorted(parameters)}, not {sorted(known)}")
        return cls(**{name: check(parameters[name], name) for name, check in known.items()})

    def is_for(self, classes: int) -> bool:
        """Whether the sizes of its arrays are those of a map of so many classes."""
        return True


@dataclass(frozen=True)
class Fitted:
    """What a fit leaves: a map and a report for the average, or for each member; and what the map can be used on.

    Members that were fitted together have one report.
    """

    maps: tuple[Map, ...]
    fits: tuple[Fit, ...]
    task: str
    classes: int | None = None
    class_names: tuple[str, ...] | None = None
    member_names: tuple[str, ...] | None = None
    name: str = ""
    """What the fitted rows were called."""
    marks: str = ""
    """By which the fitted rows are known again: see `calibrant.predictions.marks`."""


# ------------------------------------------------------------------------------------------ methods
@dataclass(eq=False, kw_only=True)
class Recalibrator:
    """A method of recalibration; `fit(predictions)` finds its map, `transform(predictions)` applies it.

    members: what is recalibrated of several members. "average": the average of their probabilities, of which one
    prediction comes out; "each": every member by a map of its own.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    reference: ClassVar[str]
    tasks: ClassVar[frozenset[str]]
    map_class: ClassVar[type[Map]]
    promises_accuracy: ClassVar[bool]
    """Whether every map that this method returns leaves the predicted class (of numbers, the mean) as it is."""
    together: ClassVar[bool] = False
    """Whether all members are fitted together, and have one report."""
    members: str = option("average", "what is recalibrated of several members", choices=MEMBERS)
    fitted: Fitted | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for known in self.options_known():
            value = getattr(self, known.name)
            value = value.item() if isinstance(value, np.generic) else value
            if known.default is not None:
                wide = float(value) if isinstance(known.default, float) and type(value) is int else value
                typed = type(wide) is type(known.default)
                parsed = known.parse(str(wide) if typed else repr(value), self.name)
                if type(value) is not type(parsed) or value != parsed:  # scikit-learn's clone wants the very object
                    setattr(self, known.name, parsed)

    # ------------------------------------------------------------------------------------- facts
    @classmethod
    def options_known(cls) -> tuple[Option, ...]:
        """The options of the method."""
        found = [item for item in dataclasses.fields(cls) if "option" in item.metadata]
        return tuple(Option(item.name, cast(Value, item.default), **item.metadata["option"]) for item in found)

    def options(self) -> dict[str, Value]:
        """The options by name, as they are set."""
        return {known.name: getattr(self, known.name) for known in self.options_known()}

    def get_params(self, deep: bool = True) -> dict[str, Value]:
        """The options by name, as scikit-learn asks for them: to clone, and to tune with `method__bins`."""
        return self.options()

    def set_params(self, **params: Any) -> Self:
        """Set options by name, all or none; what was fitted under others is forgotten."""
        options: dict[str, Any] = self.options()
        for name in (name for name in params if name not in options):
            raise UsageError(
                self.name, expected="an option of it", came=f"got {show(name)}", do=did_you_mean(name, options)
            )
        fresh = type(self)(**(options | params))
        if params:
            for name, value in fresh.options().items():
                setattr(self, name, value)
            self.fitted = None
        return self

    @property
    def spec(self) -> str:
        """The method as it is written in text, defaults left out: "ets(loss=brier)"."""
        said = [f"{o.name}={_plain(getattr(self, o.name))}" for o in self.options_known() if self._set(o)]
        return self.name + (f"({','.join(said)})" if said else "")

    def _set(self, known: Option) -> bool:
        return getattr(self, known.name) != known.default

    @property
    def accuracy_preserving(self) -> bool:
        """Whether the predicted class of no row changes; once fitted, of the map that was found.

        Maps of several members may each keep the order of classes, and the class of their average still changes.
        """
        if self.fitted is None:
            return self.promises_accuracy
        return len(self.fitted.maps) == 1 and self.fitted.maps[0].keeps_order

    @property
    def injective(self) -> bool:
        """Whether the fitted map is known to send no two predictions to one: what proposition 4.5 of Gruber asks."""
        return all(each.injective for each in self.found.maps)

    @property
    def n_parameters(self) -> int:
        """Numbers that the fit found."""
        return sum(each.n_parameters for each in self.found.maps)

    @property
    def found(self) -> Fitted:
        """What the fit left; an error before there was one."""
        if self.fitted is None:
            raise UsageError(self.name, expected="a fitted recalibrator", came="it was not fitted", do="call fit first")
        return self.fitted

    @property
    def report(self) -> Fit:
        """How the fit went; of several members, the first: see `reports`."""
        return self.found.fits[0]

    @property
    def reports(self) -> tuple[Fit, ...]:
        """How the fit of the average, or of each member, went."""
        return self.found.fits

    @property
    def converged(self) -> bool:
        """Whether every fit settled."""
        return all(fit.converged for fit in self.found.fits)

    def parameters(self) -> list[dict[str, Any]]:
        """The numbers of every map by name."""
        return [each.parameters() for each in self.found.maps]

    def notes(self) -> tuple[Note, ...]:
        """What the user should know of the fit."""
        fits, subject = self.found.fits, self.name
        alone = len(fits) == 1
        said = [fit.notes(subject if alone else f"{subject}, member {m}") for m, fit in enumerate(fits)]
        return tuple(note for notes in said for note in notes)

    # ------------------------------------------------------------------------------------- verbs
    def fit(self, predictions: Given, *, threads: int | None = None) -> Self:
        """Find the map that makes these predictions, with what came true, best. Warns where the fit is doubtful."""
        self._check(predictions)
        if not predictions.has_labels:
            raise LabelsError(
                f"{self.name}: {predictions.name}",
                expected="what came true for each row",
                came="there are no labels",
                do="fit on held-out rows with labels",
            )
        self.fitted = replace(self._fitted(predictions, threads), marks=marks_of(predictions))
        for note in self.notes():
            warnings.warn(note.message, CalibrantWarning, stacklevel=2)
        return self

    def transform(self, predictions: Given) -> Any:
        """The same rows with recalibrated predictions; labels, weights and columns stay as they are."""
        self._check(predictions)
        self._check_fits(predictions)
        made = self._transformed(predictions)
        meta = chained(predictions, self._step(predictions), self.found.name)
        meta |= seen(self.found.marks, predictions, made)
        return made._with_info(replace(made.info, meta={**made.info.meta, "recalibration": meta}))

    def save(self, path: Any) -> Any:
        """Write the fitted recalibrator, whole or not at all: a name in .json is text, one in .npz has the arrays."""
        from calibrant.recalibration.storing import save

        return save(self, path)

    @classmethod
    def load(cls, path: Any) -> Self:
        """The recalibrator that `save` wrote; of another method, an error."""
        from calibrant.recalibration.storing import load

        made = load(path)
        if not isinstance(made, cls):
            raise UsageError(
                str(path), expected=f"a fitted {cls.__name__}", came=f"it is {made.name}", do="use recalibration.load"
            )
        return made

    def to_module(self, *, kind: str = "logits", output: str = "log_probs") -> Any:
        """The fitted map as a torch.nn.Module: see `calibrant.recalibration.modules`."""
        from calibrant.recalibration.modules import to_module

        return to_module(self, kind=kind, output=output)

    def to_onnx(self, path: Any, *, kind: str = "logits", output: str = "log_probs", dtype: str = "float32") -> Any:
        """Write the fitted map as ONNX, for any number of rows: see `calibrant.recalibration.modules`."""
        from calibrant.recalibration.modules import to_onnx

        return to_onnx(self, path, kind=kind, output=output, dtype=dtype)

    def _step(self, predictions: Given) -> dict[str, Any]:
        """What is said of the predictions that come out: what was done to them, and what is known of it."""
        return {
            "method": self.spec,
            "injective": self.injective and self._exact(predictions),
            "accuracy_preserving": self.accuracy_preserving,
            "several": len(self.found.maps) > 1,
        }

    def _exact(self, predictions: Any) -> bool:
        """Whether the map sees the prediction itself, and not the Gaussian that stands for a mixture or samples."""
        return predictions.task != "regression" or (predictions.kind == "gaussian" and predictions.members == 1)

    # -------------------------------------------------------------------------------- for methods
    def _fitted(self, predictions: Any, threads: int | None) -> Fitted:
        raise NotImplementedError

    def _transformed(self, predictions: Any) -> Any:
        raise NotImplementedError

    def _check(self, predictions: Any) -> None:
        task = getattr(predictions, "task", None)
        if not isinstance(predictions, Classification | Judged | Regression):
            raise UsageError(
                self.name,
                expected="predictions in memory",
                came=f"got {type(predictions).__name__}",
                do="make them with Classification.from_logits and the like, or read them with cal.read(path)",
            )
        if task not in self.tasks:
            raise UsageError(
                self.name,
                expected=f"{' or '.join(sorted(self.tasks))} predictions",
                came=f"{show(predictions.name)} is {task}",
                do="see `calibrant recalibrate --list` for the methods of each kind",
            )

    def _check_fits(self, predictions: Any) -> None:
        found = self.found
        if predictions.task != found.task:
            raise UsageError(
                self.name, expected=f"{found.task} predictions, as fitted", came=f"these are {predictions.task}",
                do="fit on predictions of the same kind",
            )  # fmt: skip
        if found.classes is not None and predictions.classes != found.classes:
            raise ShapeError(
                self.name,
                expected=f"the {found.classes} classes of the fit",
                came=f"{show(predictions.name)} has {predictions.classes}",
                do="fit on predictions of the same classes",
            )
        self._check_order("class", getattr(predictions, "class_names", None), found.class_names)
        self._check_members(predictions)

    def _check_members(self, predictions: Any) -> None:
        found = self.found
        if self.members != "each":
            return
        if predictions.members != len(found.maps):
            raise ShapeError(
                self.name,
                expected=f"the {len(found.maps)} members of the fit",
                came=f"{show(predictions.name)} has {predictions.members}",
                do="fit on the same members, or recalibrate their average",
            )
        self._check_order("member", getattr(predictions, "member_names", None), found.member_names)

    def _check_order(self, what: str, names: tuple[str, ...] | None, known: tuple[str, ...] | None) -> None:
        """Refuse classes, or members, in another order than that of the fit; what has no names has no order."""
        if not names or not known or names == known:
            return
        odd = next(k for k in range(len(names)) if names[k] != known[k])
        plural = {"class": "classes"}.get(what, f"{what}s")
        raise UsageError(
            self.name,
            expected=f"the {plural} of the fit in their order, {show(known[odd])} as number {odd}",
            came=f"it is {show(names[odd])}",
            do=f"put the {plural} in the order of the fit",
        )


def chained(predictions: Given, step: dict[str, Any], fitted_on: str) -> dict[str, Any]:
    """The meta of recalibrated predictions: every step that led to them, and what is known of all together."""
    steps = [*predictions.info.meta.get("recalibration", {}).get("steps", []), step]
    return {
        "method": ", then ".join(each["method"] for each in steps),
        "injective": all(each["injective"] and not each["several"] for each in steps),
        "accuracy_preserving": all(each["accuracy_preserving"] for each in steps),
        "fitted_on": fitted_on,
        "steps": steps,
    }


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)
