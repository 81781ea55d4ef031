"""The statistics that can be checked: metrics that use labels, statistics of the labels, and user functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from calibrant.calibration.norms import NORMS
from calibrant.checks.label_statistics import CLASS_FREQUENCY, MEAN, OWN, LabelStatistic
from calibrant.errors import NotApplicable, UsageError, did_you_mean, show
from calibrant.pipeline.select_metrics import second_class
from calibrant.registry import lookup
from calibrant.registry.metric import Metric, Spec, Value
from calibrant.registry.metrics.calibration import ECE, MCE, TCE
from calibrant.registry.metrics.classwise import CWCE, SCE
from calibrant.registry.state.pairs import of_class

Function = Callable[[np.ndarray, Any], Any]
GAPS = (ECE, MCE, TCE)
"""Metrics that are a norm of the gaps between accuracy and confidence in bins."""
CLASSWISE = (CWCE, SCE)
"""Metrics that are a norm of the gaps of every class in bins of its probability."""
MOST_EXPANDED = 100
"""The largest number of classes, or cells of the confusion matrix, that a name without options expands to."""


@dataclass(frozen=True)
class Statistic:
    """A statistic ``T(labels, predictions)`` of your own, to be checked with `check`.

    Parameters
    ----------
    function : callable
        Takes labels and predictions and returns a number. Labels, observed or replicated, are class indices (N,),
        outcomes of a regression, or whether answers are correct. Predictions are averaged over members:
        ``predictions.scores[0]`` holds probabilities (N, C) for any kind of classification, `mean` and `std` those of
        the mixture of Gaussian members.
    name : str, optional
        Name in the results; by default that of the function.
    vectorised : bool
        Whether the function takes many sets of labels (R, N) at once and returns (R,).
    options : mapping
        Options that appear in the name.

    Examples
    --------
    >>> import calibrant as cal
    >>> predictions = cal.Classification.from_probs([0.1, 0.4, 0.8, 0.9], [0, 0, 1, 1])
    >>> positives = cal.checks.Statistic(lambda labels, predictions: labels.sum(-1), "positives", vectorised=True)
    >>> cal.check(predictions, positives, draws=100)["positives"].observed
    2.0
    """

    function: Function | None = None
    name: str = ""
    vectorised: bool = False
    options: Mapping[str, Value] = field(default_factory=dict, compare=False)
    spec: Spec | None = None
    title: str = ""
    text: str = field(default="", repr=False)
    """The name in results, if it does not follow from name and options."""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", getattr(self.function, "__name__", "statistic"))

    @property
    def entry(self) -> Metric | LabelStatistic | None:
        """The metric or statistic of labels that it is; None for functions of your own."""
        if self.spec is not None:
            return self.spec.metric
        own = OWN.get(self.name)
        return own if own is not None and self.title == own.title else None

    @property
    def gap_power(self) -> float:
        """The power of the norm that it is, if it is one of `GAPS`."""
        if self.entry is TCE:
            return float(self.options["p"])
        return math.inf if self.entry is MCE else NORMS[str(self.options["norm"])]

    def class_of(self, example: Any) -> int | None:
        """The class whose pairs it is computed from; None for the top label."""
        return None if self.spec is None or "of" not in self.options else of_class(self.spec, example)

    @property
    def key(self) -> str:
        """The name in results."""
        if self.text:
            return self.text
        if self.spec is not None:
            return self.spec.text
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        return self.name + (f"({options})" if options else "")


def statistics_of(
    requested: str | Function | Statistic | Iterable[Any] | None, example: Any, of: str | None = None
) -> list[Statistic]:
    """The requested statistics: specs, functions, `Statistic`s or several of them; None for the default ones.

    of: the class whose share and calibration error are among the defaults; class 1 of two by default.
    """
    if requested is None:
        requested = defaults(example, of)
    if isinstance(requested, str):
        requested = lookup.split(requested)
    items = [requested] if callable(requested) or isinstance(requested, Statistic) else list(requested)
    statistics = [statistic for item in items for statistic in _parse(item, example)]
    if not statistics:
        raise UsageError("statistics", expected="at least one", got="none", hint="omit them for the default ones")
    # each once; functions that share a name are numbered
    built_in = {statistic.key: statistic for statistic in statistics if statistic.entry is not None}
    out: dict[str, Statistic] = {}
    for statistic in statistics:
        other = out.get(statistic.key) or built_in.get(statistic.key)
        if other is not None and other.function is not statistic.function and statistic.entry is None:
            number = next(k for k in range(2, len(statistics) + 2) if f"{statistic.name}#{k}" not in out)
            statistic = Statistic(statistic.function, f"{statistic.name}#{number}", statistic.vectorised)
        out.setdefault(statistic.key, statistic)
    return list(out.values())


def defaults(example: Any, of: str | None = None) -> list[str]:
    """The default statistics of the task that these predictions support, those of classes among them.

    The top label is blind to classes that are predicted too often: two classes have the share and the calibration error
    of the positive one, more have the class-wise error that `evaluate` tests too.
    """
    specs = [lookup.parse(text) for text in lookup.with_role("check", example.task)]
    labels = []
    if example.task == "classification":
        of = second_class(example) if of is None else of
        role = "test_classes" if example.classes > 2 else "test_binary"
        tests = [lookup.parse(text) for text in lookup.with_role(role, example.task)]
        specs += [spec for spec in tests if spec.metric in CLASSWISE]
        if of is not None:
            gaps = [spec for spec in tests if spec.metric in GAPS]
            specs += [Spec.make(spec.metric, of=of) for spec in gaps]
            labels = [f"{CLASS_FREQUENCY.name}(of={of})"]
    elif example.task == "regression":
        labels = [MEAN.name]
    return [spec.text for spec in specs if spec.metric.unsupported_reason(spec, example) is None] + labels


def _parse(item: Any, example: Any) -> list[Statistic]:
    """The statistics that one name, function or `Statistic` stands for."""
    if isinstance(item, Statistic):
        return [item]
    if not isinstance(item, str):
        if callable(item):
            return [Statistic(item)]
        got = type(item).__name__
        raise UsageError("statistics", expected="names or functions", got=got, hint="for example 'ece(bins=10)'")
    name = item.partition("(")[0].strip()
    if name == "default":
        return [statistic for text in defaults(example) for statistic in _parse(text, example)]
    own = OWN.get(name)
    if own is not None and (example.task in own.tasks or name not in lookup.metrics()):
        return _expand_label_statistic(own, item, example)
    if name not in lookup.metrics():
        names = [n for n, metric in lookup.metrics().items() if "detection" not in metric.tasks] + list(OWN)
        hint = did_you_mean(name, names)
        raise UsageError("statistic", expected="a metric or a statistic of labels", got=show(name), hint=hint)
    spec = lookup.parse(item)
    skipped = spec.metric.unsupported_reason(spec, example)
    reason = None if skipped is None else skipped.text
    if reason is None and not spec.metric.needs & {"labels", "hard_labels"}:
        reason = "it does not depend on labels, so every replicate has the same value"
    if reason is not None:
        raise NotApplicable(
            spec.text, expected="a statistic that these predictions support", got=reason, hint="omit it"
        )
    return [Statistic(name=spec.metric.name, options=spec.options, spec=spec, title=spec.metric.title)]


def _expand_label_statistic(own: LabelStatistic, text: str, example: Any) -> list[Statistic]:
    """The statistic for the given classes, or for every class where none is given."""
    if example.task not in own.tasks:
        expected = f"{' or '.join(sorted(own.tasks))} predictions"
        raise NotApplicable(own.name, expected=expected, got=f"{example.task} predictions", hint="omit it")
    options = lookup.options_of(text, own)
    class_options = [option.name for option in own.options if option.default == ""]
    choices: list[dict[str, Value]] = [{}]
    for option in own.options:
        values: list[Any] = [options[option.name]]
        if option.name in class_options:
            label = str(options[option.name])
            values = [example.class_index(label)] if label else list(range(example.classes))
        choices = [{**before, option.name: value} for before in choices for value in values]
    if len(choices) > MOST_EXPANDED:
        hint = f"name some of them, such as {own.name}({class_options[0]}=0)"
        expected = f"at most {MOST_EXPANDED} cells at a time"
        raise UsageError(own.name, expected=expected, got=f"{len(choices)}", hint=hint)
    statistics = []
    for chosen in choices:
        shown = {o.name: chosen[o.name] for o in own.options if chosen[o.name] != o.default}
        texts = []
        for name, value in shown.items():
            word = str(value)
            if isinstance(value, int) and example.class_names:  # a class: by name if it can be parsed back
                known = example.class_names[value]
                parseable = known and known == known.strip() and not set(known) & set("(),=")
                word = known if parseable and example.class_index(known) == value else word
            texts.append(f"{name}={word}")
        key = f"{own.name}({','.join(texts)})" if texts else own.name
        function = partial(own.function, **chosen)
        statistics.append(Statistic(function, own.name, vectorised=True, options=shown, title=own.title, text=key))
    return statistics
