"""What a metric is: the facts that the program, the docs and the report tell of it, and how it is accumulated."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from calibrant.errors import UsageError, did_you_mean, show

if TYPE_CHECKING:
    from calibrant.predictions import Evaluated
    from calibrant.registry.accumulators import Accumulator

Value = int | float | bool | str


@dataclass(frozen=True)
class Option:
    """One option of a metric: its default says its type; `choices` or `at_least` bound it."""

    name: str
    default: Value
    help: str
    choices: tuple[str, ...] = ()
    at_least: float = -math.inf
    at_most: float = math.inf

    def parse(self, text: str, metric: str) -> Value:
        """The value that the text stands for."""
        try:
            value = self._typed(text.strip())
        except ValueError:
            raise self._refuse(metric, text) from None
        if self.choices and value not in self.choices:
            raise self._refuse(metric, text)
        if isinstance(value, int | float) and not self.at_least <= value <= self.at_most:
            raise self._refuse(metric, text)
        return value

    def _typed(self, text: str) -> Value:
        if isinstance(self.default, bool):
            if text.lower() not in ("true", "false"):
                raise ValueError
            return text.lower() == "true"
        return type(self.default)(text)

    def allowed(self) -> str:
        """In words, what may be given."""
        if self.choices:
            return " or ".join(self.choices)
        if isinstance(self.default, bool):
            return "true or false"
        kind = {int: "a whole number", float: "a number"}.get(type(self.default), "a name or number")
        limits = [f"at least {self.at_least:g}"] * math.isfinite(self.at_least)
        limits += [f"at most {self.at_most:g}"] * math.isfinite(self.at_most)
        return " ".join([kind, " and ".join(limits)]).strip()

    def _refuse(self, metric: str, text: str) -> UsageError:
        return UsageError(
            f"{metric}({self.name}=…)",
            expected=self.allowed(),
            came=f"got {show(text)}",
            do=f"the default is {self.default}",
        )


@dataclass(frozen=True)
class Metric:
    """A metric and everything that is known of it."""

    name: str
    title: str
    definition: str
    reference: str
    direction: str
    limits: tuple[float, float]
    cost: str
    merge: str
    accumulate: Callable[[Spec, Any], Accumulator]
    needs: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset({"classification", "judged"})
    proper: bool = False
    comparable: bool = True
    bias: str = ""
    pitfall: str = ""
    """Code of the pitfall that comparing models by it is; where it is not comparable and none is named, its bias."""
    interval: str = "none"
    options: tuple[Option, ...] = ()
    wanted: Callable[[Spec, Any], frozenset[Hashable]] = lambda spec, predictions: frozenset()
    default: bool = True
    refuses: Callable[[Spec, Any], str | None] = lambda spec, predictions: None
    """Why an option does not fit these predictions, or None."""
    keeps_rows: Callable[[Spec], bool] = lambda spec: spec.metric.merge == "rows"
    """Whether a few numbers of every row must be kept until the end, so that memory grows with the rows."""
    every_class: bool = False
    """Whether numbers of every class of every row are kept."""
    redraws: bool = False
    """Whether labels are redrawn from the predictions, for a band of what a calibrated model would give."""
    by_unit: bool = True
    """Whether it is defined where rows depend on each other."""
    of_many: bool = True
    """Whether it is taken of millions of rows without being named."""
    light: bool = False
    """Whether confidence, hits and p(label) are all it reads, so that a pass for it alone can be shorter.

    Of a regression: whether it reads neither mean nor variances.
    """

    def option(self, name: str) -> Option:
        """The option of this name, or an error that lists those there are."""
        return option_named(self, name)

    def lacks(self, spec: Spec, predictions: Evaluated) -> str | None:
        """Why these predictions cannot give the metric, or None if they can."""
        if predictions.task not in self.tasks:
            return f"it is not defined for {predictions.task} predictions"
        for need in sorted(self.needs):
            met, reason = NEEDS[need]
            if not met(predictions):
                return "it needs y" if need.endswith("labels") and predictions.task == "regression" else reason
        refused = self.refuses(spec, predictions)
        if refused:
            return refused
        if predictions.task == "judged" and spec.options.get("of", "top") != "top":
            return "judged answers have no classes"
        if "k" in spec.options and int(spec["k"]) >= getattr(predictions, "classes", math.inf):
            return f"k = {spec['k']} is not below the number of classes"
        return None


def option_named(entry: Any, name: str) -> Option:
    """The option of an entry, a metric or another, or an error that lists those it has."""
    for option in entry.options:
        if option.name == name:
            return option
    names = [option.name for option in entry.options]
    known = did_you_mean(name, names) if names else "leave the brackets out"
    raise UsageError(
        entry.name,
        expected=f"one of its options: {', '.join(names)}" if names else "no option, for it has none",
        came=f"got {show(name)}",
        do=known,
    )


def _hard(predictions: Evaluated) -> bool:
    return predictions.has_labels and not getattr(predictions, "soft", False)


NEEDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "labels": (lambda predictions: predictions.has_labels, "it needs labels"),
    "hard_labels": (_hard, "it needs hard labels"),
    "members": (lambda predictions: predictions.members > 1, "it needs more than one member"),
    "logits": (lambda predictions: getattr(predictions, "kind", "") == "logits", "it needs logits"),
    "mean": (lambda predictions: getattr(predictions, "kind", "") in ("gaussian", "samples"), "it needs a mean"),
    "density": (lambda predictions: getattr(predictions, "kind", "") == "gaussian", "it needs a density"),
    "distribution": (
        lambda predictions: getattr(predictions, "kind", "") in ("gaussian", "samples"),
        "it needs a whole distribution, not quantiles",
    ),
    "binary": (lambda predictions: getattr(predictions, "classes", 0) == 2, "it needs two classes"),
}
"""What a metric may need of predictions, and what is said where they lack it."""


@dataclass(frozen=True)
class Spec:
    """A metric with its options, as written: `ece(bins=10)`."""

    metric: Metric
    options: dict[str, Value]

    def __getitem__(self, name: str) -> Value:
        return self.options[name]

    @cached_property
    def text(self) -> str:
        """The canonical form: no spaces, defaults left out."""
        given = [
            f"{option.name}={_written(self.options[option.name])}"
            for option in self.metric.options
            if self.options[option.name] != option.default
        ]
        return self.metric.name + (f"({','.join(given)})" if given else "")

    @classmethod
    def make(cls, metric: Metric, **given: Value) -> Spec:
        """A spec from Python values."""
        options = {option.name: option.default for option in metric.options}
        for name, value in given.items():
            options[name] = metric.option(name).parse(_written(value), metric.name)
        return cls(metric, options)


def _written(value: Value) -> str:
    """Every digit of a number, and 1 for 1.0."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
