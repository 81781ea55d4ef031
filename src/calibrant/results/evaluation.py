"""The stored evaluation: the JSON of the contract as an object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from calibrant.errors import UsageError, did_you_mean, show
from calibrant.predictions.base import Note
from calibrant.predictions.files.write import atomic_write
from calibrant.registry.estimate import Estimate
from calibrant.registry.lookup import metrics, parse
from calibrant.registry.metric import Skipped
from calibrant.results import display
from calibrant.results.check import Check
from calibrant.results.comparison import Comparison
from calibrant.results.error_hierarchy import ErrorHierarchy
from calibrant.results.gates import GateResult
from calibrant.results.improvement import Improvement
from calibrant.results.json import Stored, read_stored
from calibrant.results.pass_rates import PassTable
from calibrant.results.rank_flips import RankFlips
from calibrant.results.sample_size import SampleSizeCurves
from calibrant.results.shift import ACROSS, ShiftSummary
from calibrant.results.verdict import Verdict

SCHEMA = 2
EVALUATION, CHECK, COMPARISON, RECALIBRATION, DETECTION = KINDS = (
    "evaluation", "check", "comparison", "recalibration", "detection",
)  # fmt: skip
"""What an evaluation can be, after the function that makes it."""
OLD_CODES = {  # of schema 1
    "it needs labels": "needs_labels",
    "it needs y": "needs_labels",
    "it needs hard labels": "needs_hard_labels",
}
Curves = Mapping[str, Mapping[str, list[float]]]
RECALIBRATION_KEYS = (
    "method", "title", "reference", "parameters", "n_parameters", "members", "converged", "injective",
    "accuracy_preserving", "loss", "before", "after", "fits", "fitted_on", "cross_fitted", "choice",
)  # fmt: skip
"""The keys that `recalibrate` adds to the JSON."""


@dataclass(frozen=True)
class Group(Stored):
    """The rows that share a value of a column."""

    JSON_OPTIONAL = ("checks", "independent", "curves")
    JSON_NAMES = MappingProxyType({"independent": "checks_independent"})

    by: str
    value: Any
    n: int
    metrics: Mapping[str, Estimate]
    checks: Mapping[str, Check] = field(default_factory=dict)
    independent: Mapping[str, Check] = field(default_factory=dict)
    curves: Curves = field(default_factory=dict)
    """`reliability` (classification, judged answers) or `pit` (regression), for columns with at most 60 groups."""


@dataclass(frozen=True)
class Result(Stored):
    """The metrics, or checks, of one input."""

    JSON_OPTIONAL = ("groups", "curves", "curves_skipped", "ladder", "checks", "independent", "verdict", "worst_rows")
    JSON_NAMES = Group.JSON_NAMES
    REPR_FIELDS = ("input", "metrics", "groups", "checks")

    input: str
    metrics: Mapping[str, Estimate]
    groups: tuple[Group, ...] = ()
    curves: Curves = field(default_factory=dict)
    """Columns of numbers by the name of the curve, such as `curves["corp"]["recalibrated"]`.

    Classification and judged answers: reliability (also with bins=, binning=mass, of=), corp, confidence, entropy,
    mutual_information (several members), accuracy_confidence, rejection (also with score=), risk_coverage, avu.
    Regression: pit, calibration, central_coverage, width, functions (Gaussian members along a column). Detection:
    scores, mix.
    """
    skipped: Mapping[str, Skipped] = field(default_factory=dict)
    """Skipped metrics, and why."""
    curves_skipped: Mapping[str, Skipped] = field(default_factory=dict)
    """Skipped curves, and why; not shown in tables."""
    ladder: ErrorHierarchy | None = None
    """The hierarchy of calibration errors from √BS down to ECE, if requested."""
    checks: Mapping[str, Check] = field(default_factory=dict)
    """Posterior predictive checks by statistic: the Bayesian reading, or the requested one."""
    independent: Mapping[str, Check] = field(default_factory=dict)
    """The same checks with independent members, if both readings were requested."""
    reading: tuple[str, ...] = ()
    """The checks in words."""
    supported: str | None = None
    """The reading that the data support: bayesian, independent, both or neither."""
    worst_rows: tuple[Mapping[str, Any], ...] = ()
    """The rows with the largest losses, the largest first.

    All have `row` (from 0) and `loss` (null with a `status` if infinite), and `id` and `columns` if the input has them.
    Classification: label, predicted, confidence, entropy, mutual_information (several members), top (up to three
    classes with their probabilities). Judged answers: confidence, correct. Regression: y, mean, std, pit; quantiles:
    median, low, high, if their levels are present.
    """
    verdict: Verdict | None = None
    """The verdict on calibration, or on the checks, as it was reached when the rows were read."""
    worst_by: str | None = None
    """The loss that ranks them: nll, crps or pinball."""

    @property
    def is_check(self) -> bool:
        """Whether it holds posterior predictive checks instead of metrics."""
        return bool(self.checks)

    def __getitem__(self, spec: str) -> Any:
        """The estimate of a metric, or the check of a statistic."""
        if spec in self.checks:
            return self.checks[spec]
        if self.checks and not self.metrics:
            if spec.partition("(")[0].strip() in metrics() and parse(spec).text in self.checks:
                return self.checks[parse(spec).text]
            hint = did_you_mean(spec, self.checks)
            raise UsageError("result", expected="a checked statistic", got=show(spec), hint=hint)
        if spec not in self.metrics and spec not in self.skipped:
            spec = parse(spec).text
        if spec not in self.metrics:
            reason = self.skipped.get(spec)
            hint = f"it was skipped: {reason}" if reason else did_you_mean(spec, self.metrics)
            raise UsageError("result", expected="a computed metric", got=show(spec), hint=hint)
        return self.metrics[spec]

    def to_json(self) -> dict[str, Any]:
        """As it is stored; parts that do not apply are left out."""
        out = super().to_json()
        unused: tuple[str, ...] = () if self.checks else ("reading", "supported")
        unused += () if self.worst_rows else ("worst_by",)
        return {key: value for key, value in out.items() if key not in unused}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        """The result that was written; of schema 1 the reasons of what was skipped have no code."""
        reasons = {
            key: {
                name: {"code": OLD_CODES.get(why, "not_applicable"), "text": why} if isinstance(why, str) else why
                for name, why in data[key].items()
            }
            for key in ("skipped", "curves_skipped")
            if key in data
        }
        result = super().from_json({**data, **reasons, "ladder": None})
        return replace(result, ladder=ErrorHierarchy.of(result.metrics)) if "ladder" in data else result


@dataclass(frozen=True)
class Evaluation(Stored):
    """The stored results of `evaluate`, `check`, `compare`, `recalibrate` or `detect`; `kind` says of which.

    Printed, it is the verdict, the tables and the remarks. `evaluation["nll"]` is the estimate of a metric where there
    is one input, `evaluation["input"]["nll"]` where there are several; `save` and `load` write and read its JSON.

    Examples
    --------
    >>> import calibrant as cal
    >>> predictions = cal.Classification.from_probs([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]], [0, 1, 1])
    >>> evaluation = cal.evaluate(predictions, "accuracy")
    >>> evaluation
    Evaluation(kind='evaluation', inputs=['predictions'], metrics=1)
    >>> round(evaluation["accuracy"].value, 4)
    0.6667
    """

    JSON_OPTIONAL = (
        "shift", "sizes", "passed", "improvement", "recalibration", "comparison", "flips", "flips_by", "gates",
    )  # fmt: skip

    version: str
    settings: Mapping[str, Any]
    inputs: tuple[Mapping[str, Any], ...]
    results: tuple[Result, ...]
    warnings: tuple[Note, ...] = ()
    shift: tuple[ShiftSummary, ...] = ()
    """Metrics over types and severities of shift, if requested."""
    sizes: tuple[SampleSizeCurves, ...] = ()
    """Metrics against the size of the test set, if requested."""
    passed: tuple[PassTable, ...] = ()
    """How many checks pass at each severity of shift, if requested."""
    improvement: Improvement | None = None
    """The gains of a recalibration on labelled rows; `results` are then those before and after it."""
    recalibration: Mapping[str, Any] = None  # type: ignore[assignment]
    """The method, its parameters and its fit; None unless `kind` is "recalibration"."""
    comparison: Comparison = None  # type: ignore[assignment]
    """Ranks, paired differences and equivalents of models on the same rows; None unless `kind` is "comparison"."""
    flips: RankFlips | None = None
    """How ranks by a calibration error change with its options, if requested."""
    flips_by: Mapping[str, RankFlips] = field(default_factory=dict)
    """The same by data set, if there are several."""
    gates: tuple[GateResult, ...] = ()
    """The outcome of every gate."""
    kind: str = EVALUATION
    """One of `KINDS`: evaluation, check, comparison, recalibration or detection."""

    @property
    def verdict(self) -> Verdict | dict[str, Verdict | None] | None:
        """The verdict on calibration: of the only input, else by the name of the input; None where none was stored.

        Examples
        --------
        >>> import numpy as np
        >>> import calibrant as cal
        >>> rng = np.random.default_rng(0)
        >>> confidence = rng.uniform(0.7, 0.9, 2000)
        >>> answers = cal.Judged.from_confidence(confidence, rng.random(2000) < confidence - 0.1)
        >>> verdict = cal.evaluate(answers, "ece").verdict
        >>> verdict.status, verdict.direction
        ('miscalibrated', ('overconfident',))
        >>> print(verdict.headline)
        Overconfident: mean confidence 80%, accuracy 70%
        """
        verdicts = {result.input: result.verdict for result in self.results}
        return next(iter(verdicts.values())) if len(verdicts) == 1 else verdicts

    @property
    def across_inputs(self) -> bool:
        """Whether each input is one type and severity of shift, of which there may be a hundred."""
        return any(item.input == ACROSS for item in self.shift) or any(item.input == ACROSS for item in self.passed)

    def __getitem__(self, key: str) -> Any:
        """The result of an input by name; if there is one input, the estimate of a metric or a check."""
        for result in self.results:
            if result.input == key:
                return result
        if len(self.results) == 1:
            return self.results[0][key]
        hint = did_you_mean(key, [result.input for result in self.results])
        raise UsageError("evaluation", expected="the name of an input", got=show(key), hint=hint)

    # ------------------------------------------------------------------------------------- files
    def to_json(self) -> dict[str, Any]:
        """The contract's JSON as Python objects."""
        out = {"schema": SCHEMA, "kind": self.kind, **super().to_json()}
        out |= out.pop("recalibration", {})
        out |= out.pop("comparison", {})
        for name, flips in out.pop("flips_by", {}).items():
            out["comparison"]["datasets"][name]["flips"] = flips
        return out

    def dumps(self) -> str:
        """The contract's JSON as text."""
        return json.dumps(self.to_json(), indent=1, allow_nan=False)

    def save(self, path: str | Path) -> Path:
        """Write the JSON; an interrupted write leaves no file behind.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Path

        Examples
        --------
        >>> import calibrant as cal
        >>> predictions = cal.Classification.from_probs([[0.8, 0.2], [0.3, 0.7]], [0, 1])
        >>> path = cal.evaluate(predictions, "nll").save("evaluation.json")
        >>> cal.Evaluation.load(path)
        Evaluation(kind='evaluation', inputs=['predictions'], metrics=1)
        """
        path = Path(path)
        with atomic_write(path) as stream:
            stream.write((self.dumps() + "\n").encode())
        return path

    @classmethod
    def load(cls, path: str | Path) -> Evaluation:
        """Read a file that `save` wrote.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Evaluation

        Examples
        --------
        >>> import calibrant as cal
        >>> predictions = cal.Classification.from_probs([[0.8, 0.2], [0.3, 0.7]], [0, 1])
        >>> path = cal.evaluate(predictions, "accuracy").save("evaluation.json")
        >>> cal.Evaluation.load(path)["accuracy"].value
        1.0
        """
        return read_stored(
            path,
            cls.from_json,
            expected=f"an evaluation written by calibrant (schema {SCHEMA})",
            hint="write one with `calibrant evaluate FILE --json OUT`",
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evaluation:
        """The evaluation that was written."""
        if data["schema"] not in (1, SCHEMA):
            raise ValueError(f"schema {data['schema']}")
        kind = data["kind"] if data["schema"] == SCHEMA else _kind_of_schema_1(data)
        if kind not in KINDS:
            raise ValueError(f"kind {kind}")
        parts: dict[str, Any] = {**data, "kind": kind}
        if kind == RECALIBRATION:
            parts["recalibration"] = {key: data[key] for key in RECALIBRATION_KEYS if key in data}
        if kind == COMPARISON:
            datasets = data["comparison"].get("datasets", {})
            parts["comparison"] = data
            parts["flips_by"] = {name: item["flips"] for name, item in datasets.items() if "flips" in item}
        return super().from_json(parts)

    def to_frame(self, library: str | None = None) -> Any:
        """The numbers as a tidy data frame: one row per input, group and metric.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            By default pandas, or polars where pandas is not installed.

        Examples
        --------
        >>> import calibrant as cal
        >>> predictions = cal.Classification.from_probs([[0.8, 0.2], [0.3, 0.7]], [0, 1])
        >>> frame = cal.evaluate(predictions, "accuracy,brier").to_frame()
        >>> frame[["input", "metric", "value"]].round(6).values.tolist()
        [['predictions', 'accuracy', 1.0], ['predictions', 'brier', 0.13]]
        """
        return display.evaluation_frame(self, library)

    def plot(self, name: str, result: str | None = None, *, library: str = "altair", ax: Any = None) -> Any:
        """One chart: an Altair chart, whose `save` writes SVG, PNG and PDF, or matplotlib axes.

        Parameters
        ----------
        name : str
            ``"reliability"``, ``"corp"``, ``"confidence"``, ``"risk_coverage"``, ``"rejection"``, ``"errors"``,
            ``"metrics"``, ``"entropy"``, … of classifiers; ``"pit"``, ``"coverage"``, ``"width"`` of regression; of a
            check the name of a statistic; of a comparison ``"pairs"`` and ``"best"``. A wrong name lists the charts.
        result : str, optional
            The input to draw; by default the first.
        library : {"altair", "matplotlib"}
            matplotlib draws reliability, risk_coverage, pit and coverage.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on.

        Examples
        --------
        >>> import calibrant as cal
        >>> predictions = cal.Classification.from_probs([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]], [0, 1, 1])
        >>> chart = cal.evaluate(predictions).plot("reliability")
        >>> type(chart).__name__
        'LayerChart'
        """
        return display.evaluation_plot(self, name, result, library, ax)

    def bibtex(self) -> str:
        """The works behind the metrics, intervals and methods used here, as BibTeX: each once, in ASCII."""
        return display.evaluation_bibtex(self)

    # ----------------------------------------------------------------------------------- display
    def __str__(self) -> str:
        return str(display.terminal().as_text(self))

    def __repr__(self) -> str:
        inputs = [str(item["name"]) for item in self.inputs]
        metrics = len({spec for result in self.results for spec in (*result.metrics, *result.checks)})
        return f"Evaluation(kind={self.kind!r}, inputs={inputs}, metrics={metrics})"

    def _repr_html_(self) -> str:
        return display.evaluation_html(self)


def task_of(facts: Mapping[str, Any]) -> str:
    """The task of an input: classification, judged, regression or detection; older files do not store it."""
    if "task" in facts:
        return str(facts["task"])
    marks = {"outside": "detection", "kind": "regression", "classes": "classification"}
    return next((task for key, task in marks.items() if key in facts), "judged")


def _kind_of_schema_1(data: Mapping[str, Any]) -> str:
    """The kind of a file of schema 1, which does not store it, from its parts."""
    if "comparison" in data:
        return COMPARISON
    if "fits" in data:
        return RECALIBRATION
    if any("checks" in result for result in data["results"]):
        return CHECK
    return DETECTION if data["settings"].get("command") == "detect" else EVALUATION
