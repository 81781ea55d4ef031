"""What can be checked: every metric of the registry that looks at labels, a few statistics of the labels themselves,
and functions of the user's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant import registry
from calibrant.checks.own import OWN, Own
from calibrant.errors import NotApplicable, UsageError, did_you_mean, show
from calibrant.registry.metric import Spec, Value

Function = Callable[[np.ndarray, Any], Any]
DEFAULTS = {
    "classification": ("accuracy", "ece", "nll", "brier"),
    "judged": ("accuracy", "ece", "nll", "brier"),
    "gaussian": ("calibration_error", "picp", "mse", "nll", "crps"),
    "samples": ("calibration_error", "picp", "mse", "crps"),
}
"""What is checked where nothing is named."""
MOST_SPELT_OUT = 100
"""Classes, or cells of the confusion table, that a name without options stands for."""


@dataclass(frozen=True)
class Statistic:
    """A statistic T(labels, predictions): labels as observed or replicated, predictions averaged over members.

    (Of Gaussians the average is the mixture: `mean` and `std` are those of the members.)

    Of your own: `Statistic(function, name="worst class")`. Labels are class numbers (N,), what came true of a
    regression, or whether judged answers were right. `predictions.scores[0]` of a classification are probabilities
    (N, C), whatever they came as. A vectorised function takes labels (R, N) and returns (R,).
    """

    function: Function | None = None
    name: str = ""
    vectorised: bool = False
    options: Mapping[str, Value] = field(default_factory=dict, compare=False)
    spec: Spec | None = None
    title: str = ""
    text: str = field(default="", repr=False)
    """How it is named in results, where that is not made of its name and options."""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", getattr(self.function, "__name__", "statistic"))

    @property
    def key(self) -> str:
        """How it is named in results."""
        if self.text:
            return self.text
        if self.spec is not None:
            return self.spec.text
        given = ",".join(f"{name}={value}" for name, value in self.options.items())
        return self.name + (f"({given})" if given else "")


# ------------------------------------------------------------------------------------------- by name
def statistics_of(wanted: str | Function | Statistic | Iterable[Any] | None, example: Any) -> list[Statistic]:
    """What was asked for: spec strings, functions, statistics, or several of them; by default those of the task."""
    if wanted is None:
        wanted = _usual(example)
    if isinstance(wanted, str):
        wanted = registry.split(wanted)
    items = [wanted] if callable(wanted) or isinstance(wanted, Statistic) else list(wanted)
    found = [statistic for item in items for statistic in _statistics(item, example)]
    if not found:
        raise UsageError(
            "statistics", expected="at least one", came="none was named", do="leave them out for the usual"
        )
    return _distinct(found)


def _usual(example: Any) -> list[str]:
    """The statistics of the task that these predictions can be checked by."""
    usual = DEFAULTS[getattr(example, "kind", example.task) if example.task == "regression" else example.task]
    return [text for text in usual if (spec := registry.parse(text)).metric.lacks(spec, example) is None]


def _distinct(found: list[Statistic]) -> list[Statistic]:
    """Each once; functions that share a name get a number, so that results can be told apart."""
    ours = {statistic.key: statistic for statistic in found if _is_ours(statistic)}
    out: dict[str, Statistic] = {}
    for statistic in found:
        known = out.get(statistic.key) or ours.get(statistic.key)
        if known is not None and known.function is not statistic.function and not _is_ours(statistic):
            number = next(k for k in range(2, len(found) + 2) if f"{statistic.name}#{k}" not in out)
            statistic = Statistic(statistic.function, f"{statistic.name}#{number}", statistic.vectorised)
        out.setdefault(statistic.key, statistic)
    return list(out.values())


def _is_ours(statistic: Statistic) -> bool:
    """Whether it is a metric or a statistic of labels, and keeps its name."""
    own = OWN.get(statistic.name)
    return statistic.spec is not None or (own is not None and statistic.title == own.title)


def _statistics(item: Any, example: Any) -> list[Statistic]:
    if isinstance(item, Statistic):
        return [item]
    if not isinstance(item, str):
        if callable(item):
            return [Statistic(item)]
        came = f"got {type(item).__name__}"
        raise UsageError("statistics", expected="names or functions", came=came, do="write for example 'ece(bins=10)'")
    name = item.partition("(")[0].strip()
    if name == "default":
        return [statistic for text in _usual(example) for statistic in _statistics(text, example)]
    own = OWN.get(name)
    if own is not None and (example.task in own.tasks or name not in registry.metrics()):
        return _own(own, item, example)
    if name not in registry.metrics():
        known = [n for n, metric in registry.metrics().items() if "detection" not in metric.tasks] + list(OWN)
        hint = did_you_mean(name, known)
        raise UsageError("statistic", expected="a metric or a statistic of labels", came=f"got {show(name)}", do=hint)
    return [_metric(registry.parse(item), example)]


def _metric(spec: Spec, example: Any) -> Statistic:
    """A metric of the registry; one that does not look at labels has one value for all of them."""
    reason = spec.metric.lacks(spec, example)
    if reason is None and not spec.metric.needs & {"labels", "hard_labels"}:
        reason = "it does not look at labels, so that every replicate gives the same value"
    if reason is not None:
        raise NotApplicable(
            spec.text, expected="a statistic that these predictions can be checked by", came=reason, do="leave it out"
        )
    return Statistic(name=spec.metric.name, options=spec.options, spec=spec, title=spec.metric.title)


def _own(own: Own, text: str, example: Any) -> list[Statistic]:
    if example.task not in own.tasks:
        raise NotApplicable(
            own.name,
            expected=f"{' or '.join(sorted(own.tasks))} predictions",
            came=f"these are {example.task}",
            do="leave it out",
        )
    options = registry.options_of(text, own)
    classes = [option.name for option in own.options if option.default == ""]
    given: list[dict[str, Value]] = [{}]
    for option in own.options:
        values: list[Any] = [options[option.name]]
        if option.name in classes:
            text_of = str(options[option.name])
            values = [example.class_index(text_of)] if text_of else list(range(example.classes))
        given = [{**before, option.name: value} for before in given for value in values]
    if len(given) > MOST_SPELT_OUT:
        raise UsageError(
            own.name,
            expected=f"at most {MOST_SPELT_OUT} cells at a time",
            came=f"there are {len(given)}",
            do=f"name some, as in {own.name}({classes[0]}=0)",
        )
    return [_bound(own, chosen, example) for chosen in given]


def _bound(own: Own, chosen: dict[str, Value], example: Any) -> Statistic:
    def function(labels: np.ndarray, predictions: Any) -> Any:
        return own.function(labels, predictions, **chosen)

    shown = {o.name: chosen[o.name] for o in own.options if chosen[o.name] != o.default}
    written = [f"{k}={_written(v, example) if isinstance(v, int) else v}" for k, v in shown.items()]
    text = f"{own.name}({','.join(written)})" if written else own.name
    return Statistic(function, own.name, vectorised=True, options=shown, title=own.title, text=text)


def _written(k: int, example: Any) -> str:
    """A class by its name, where that can be written and read back; else by its number."""
    name = example.class_names[k] if example.class_names else ""
    plain = name and name == name.strip() and not set(name) & set("(),=")
    return name if plain and example.class_index(name) == k else str(k)
