"""What a metric is: the facts that the program, the docs and the report use, and how it is accumulated."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from calibrant.errors import UsageError, did_you_mean, range_text, show
from calibrant.records import Record

if TYPE_CHECKING:
    from calibrant.predictions import Evaluable
    from calibrant.registry.state.accumulators import Accumulator

Value = int | float | bool | str
ROLES = {
    "default": "computed by `evaluate` by default, in addition to the tests behind the verdict",
    "main": "shown first where a table or chart has room for a few metrics",
    "group": "computed for groups and shifted data by default",
    "group_column": "a column of the tables of groups and of shifted data by default",
    "row_loss": "ranks the worst rows and groups: the first that applies",
    "comparison": "compared by default",
    "hit_rate": "a share of rows, in which different models can agree row by row",
    "recalibration": "shown before and after a recalibration by default; the proper ones measure the improvement",
    "quantile_score": "the score of quantiles: at their own levels, then at levels that two models may share",
    "sample_size": "followed over sample sizes by default",
    "regression_sample_size": "the same for regression",
    "sample_size_reference": "shown next to them: roots or means of proper scores, which hardly depend on the size",
    "check": "checked by default",
    "demo": "shown by `calibrant demo`",
    "verdict_error": "carries the verdict on calibration: the first that was computed",
    "verdict_coverage": "the coverage that the verdict on regression reports",
    "test_binary": "a test behind the verdict on binary predictions, of P(positive)",
    "test_classes": "the same for three classes or more",
    "test_judged": "the same for confidence and correctness",
    "test_regression": "the same for predictive distributions",
    "test_direction": "shows in which direction a classifier is miscalibrated",
    "shift_trend": "the verdict reports how it changes with severity",
    "shift_uncertainty": "should grow with severity: the first that was computed",
}
"""What a metric may be used for elsewhere. Options belong to the role, as in `sample_size(bins=100)`."""


@dataclass(frozen=True)
class Skipped:
    """Why something is not computed: a code for programs, a text for people."""

    code: str
    text: str

    def __str__(self) -> str:
        return self.text


NEEDS_LABELS = Skipped("needs_labels", "it needs labels")
NEEDS_Y = Skipped("needs_labels", "it needs y")
"""The same reason, worded for regression."""


NEEDS_CONFIDENCE = Skipped("needs_confidence", "it needs a confidence")


@dataclass(frozen=True)
class Option(Record):
    """One option of a metric. Its type is that of the default; `choices`, `at_least` and `at_most` bound it."""

    name: str
    default: Value
    help: str
    choices: tuple[str, ...] = ()
    at_least: float = -math.inf
    at_most: float = math.inf

    def parse(self, text: str, metric: str) -> Value:
        """Parse the value."""
        value: Value | None
        try:
            if isinstance(self.default, bool):
                value = {"true": True, "false": False}[text.strip().lower()]
            else:
                value = type(self.default)(text.strip())
        except (KeyError, ValueError):
            value = None
        in_range = not isinstance(value, int | float) or self.at_least <= value <= self.at_most
        if value is None or not in_range or (self.choices and value not in self.choices):
            hint = f"the default is {self.default}"
            raise UsageError(f"{metric}({self.name}=…)", expected=self.allowed(), got=show(text), hint=hint)
        return value

    def allowed(self) -> str:
        """The permitted values, in words."""
        if self.choices:
            return " or ".join(self.choices)
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, str):
            return "a name or number"
        return range_text(self.at_least, self.at_most, integer=isinstance(self.default, int))


@dataclass(frozen=True)
class Metric(Record):
    """A metric: its facts, and how it is computed."""

    REPR_FIELDS = ("name", "title", "direction", "family")

    name: str
    title: str
    definition: str
    reference: str
    direction: str
    limits: tuple[float, float]
    cost: str
    merge: str
    accumulate: Callable[[Spec, Any], Accumulator]
    family: str = ""
    """Metrics of a family follow each other in tables."""
    axis: str = ""
    """The report draws metrics of one axis in one chart; empty: in none."""
    label: str = ""
    """How tables and sentences write it, such as NLL; empty: by its name."""
    aliases: tuple[str, ...] = ()
    """Its names in other libraries."""
    roles: Mapping[str, int] = field(default_factory=dict)
    """Its roles (`ROLES`), each with its position among the metrics that share it."""
    surprise: tuple[str, str] = ("", "")
    """What it means if a check observes less than the model expects, or more."""
    expected: float = math.nan
    """The value of a calibrated model, where the metric tests that."""
    relevant_error: float = math.nan
    """The deviation from it that matters in practice, where that has a natural size."""
    divergence: str = ""
    """The calibration error that belongs to this proper score."""
    root_of: str = ""
    """The mean over rows of which it is the root."""
    needs: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset({"classification", "judged"})
    proper: bool = False
    comparable: bool = True
    bias: str = ""
    pitfall: str = ""
    """Code of the pitfall that comparing models by it is; where it is not comparable and none is named, its bias."""
    interval: str = "none"
    options: tuple[Option, ...] = ()
    required_columns: Callable[[Spec, Any], frozenset[Hashable]] = lambda spec, predictions: frozenset()
    interval_columns: Callable[[Spec, Any], frozenset[Hashable]] = lambda spec, predictions: frozenset()
    """Columns that only intervals and null bands require."""
    in_report: bool = True
    """Whether `report` computes it; `all` has every metric."""
    refuses: Callable[[Spec, Any], Skipped | str | None] = lambda spec, predictions: None
    """Why an option does not fit these predictions, or None; a plain text has the code `not_applicable`."""
    keeps_rows: Callable[[Spec], bool] = lambda spec: spec.metric.merge == "rows"
    """Whether it stores a few numbers per row until the end, so that memory grows with the rows."""
    needs_all_classes: bool = False
    """Whether it stores the probabilities of every class of every row."""
    has_null_band: bool = False
    """Whether labels are redrawn from the predictions to show what a calibrated model would give."""
    supports_units: bool = True
    """Whether it is defined for dependent rows (`--units`)."""
    random: bool = False
    """Whether its value depends on the seed."""
    slow: bool = False
    """Whether it is skipped above 2M rows unless requested by name."""
    short_pass: bool = False
    """Whether it reads only confidence, correctness and p(label) (regression: neither mean nor variances).

    A pass for such metrics alone skips the other columns.
    """
    needs_confidence: bool = True
    """Whether graded answers need a confidence for it."""

    @property
    def is_calibration_error(self) -> bool:
        """Whether it is an error, compared with what a calibrated model would give by chance."""
        return self.has_null_band and self.direction == "lower"

    @property
    def tests_calibration(self) -> bool:
        """Whether requesting it asks for a verdict on calibration."""
        return self.is_calibration_error or not math.isnan(self.expected)

    def option(self, name: str) -> Option:
        """The option of this name, or an error that lists those there are."""
        return option_named(self, name)

    def unsupported_reason(self, spec: Spec, predictions: Evaluable) -> Skipped | None:
        """Why these predictions cannot give the metric, or None if they can."""
        if predictions.task not in self.tasks:
            return Skipped("other_task", f"it is not defined for {predictions.task} predictions")
        for need in sorted(self.needs):
            is_met, reason = NEEDS[need]
            if not is_met(predictions):
                return NEEDS_Y if need.endswith("labels") and predictions.task == "regression" else reason
        if self.needs_confidence and not getattr(predictions, "has_confidence", True):
            return NEEDS_CONFIDENCE
        refused = self.refuses(spec, predictions)
        if refused:
            return Skipped("not_applicable", refused) if isinstance(refused, str) else refused
        if predictions.task == "judged" and spec.options.get("of", "top") != "top":
            return Skipped("needs_classes", "judged answers have no classes")
        if "k" in spec.options and int(spec["k"]) >= getattr(predictions, "classes", math.inf):
            return Skipped("too_few_classes", f"k = {spec['k']} is not below the number of classes")
        return None


def option_named(entry: Any, name: str) -> Option:
    """The option of a metric (or similar entry), or an error that lists the options there are."""
    options: dict[str, Option] = {option.name: option for option in entry.options}
    if name not in options:
        expected = f"one of its options: {', '.join(options)}" if options else "no options"
        hint = did_you_mean(name, options) if options else f"write {entry.name}"
        raise UsageError(entry.name, expected=expected, got=show(name), hint=hint)
    return options[name]


def refuse_weights(reason: str) -> Callable[[Spec, Any], str | None]:
    """A `refuses` of metrics without a weighted form."""
    return lambda spec, predictions: reason if getattr(predictions, "weights", None) is not None else None


def _is_of_kind(*kinds: str) -> Callable[[Any], bool]:
    return lambda predictions: getattr(predictions, "kind", "") in kinds


NEEDS: dict[str, tuple[Callable[[Any], bool], Skipped]] = {
    "labels": (lambda predictions: predictions.has_labels, NEEDS_LABELS),
    "hard_labels": (
        lambda predictions: predictions.has_labels and not getattr(predictions, "soft", False),
        Skipped("needs_hard_labels", "it needs hard labels"),
    ),
    "members": (lambda predictions: predictions.members > 1, Skipped("needs_members", "it needs more than one member")),
    "logits": (_is_of_kind("logits"), Skipped("needs_logits", "it needs logits")),
    "mean": (_is_of_kind("gaussian", "samples"), Skipped("needs_mean", "it needs a mean")),
    "density": (_is_of_kind("gaussian"), Skipped("needs_density", "it needs a density")),
    "distribution": (
        _is_of_kind("gaussian", "samples"),
        Skipped("needs_distribution", "it needs a whole distribution, not quantiles"),
    ),
    "binary": (
        lambda predictions: getattr(predictions, "classes", 0) == 2,
        Skipped("needs_two_classes", "it needs two classes"),
    ),
}
"""What a metric may need of predictions: a test, and the reason to give where it fails."""
OF_KIND = frozenset({"members", "logits", "mean", "density", "distribution", "binary"})
"""Needs that depend on the kind of predictions: default metrics without them are not listed as skipped."""


@dataclass(frozen=True)
class Spec(Record):
    """A metric with its options, as written: `ece(bins=10)`."""

    metric: Metric
    options: dict[str, Value]

    def __getitem__(self, name: str) -> Value:
        return self.options[name]

    def __repr__(self) -> str:
        return f"Spec({self.text!r})"

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
