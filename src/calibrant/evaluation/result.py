"""The stored evaluation: the JSON of the contract as an object, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.checks.check import Check
from calibrant.comparison.result import Comparison
from calibrant.errors import UsageError, did_you_mean, show
from calibrant.evaluation.gains import Improvement
from calibrant.evaluation.gate_records import GateResult
from calibrant.evaluation.ladder import Ladder
from calibrant.evaluation.passing import PassTable
from calibrant.evaluation.shift import Summary
from calibrant.evaluation.size_curves import Sizes
from calibrant.evaluation.stored import read_stored
from calibrant.predictions.base import Note
from calibrant.predictions.files.writing import atomic_write
from calibrant.registry import metrics, parse
from calibrant.registry.estimate import Estimate

if TYPE_CHECKING:
    from calibrant.evaluation.flips import RankFlips

SCHEMA = 1
Curves = Mapping[str, Mapping[str, list[float]]]
RECALIBRATION = (
    "method", "title", "reference", "parameters", "n_parameters", "members", "converged", "injective",
    "accuracy_preserving", "loss", "before", "after", "fits", "fitted_on", "cross_fitted", "choice",
)  # fmt: skip
"""What `recalibrate` adds to an evaluation."""


@dataclass(frozen=True)
class Group:
    """The rows that share a value of a column."""

    by: str
    value: Any
    n: int
    metrics: Mapping[str, Estimate]
    checks: Mapping[str, Check] = field(default_factory=dict)
    independent: Mapping[str, Check] = field(default_factory=dict)
    curves: Curves = field(default_factory=dict)
    """`reliability` of classes and judged answers, `pit` of regression; of columns with at most 60 groups."""

    def to_json(self) -> dict[str, Any]:
        """As it stands in an evaluation file."""
        metrics = {spec: estimate.to_json() for spec, estimate in self.metrics.items()}
        out = {"by": self.by, "value": self.value, "n": self.n, "metrics": metrics}
        return out | _checks_to_json(self.checks, self.independent) | _curves_to_json(self.curves)


@dataclass(frozen=True)
class Result:
    """What was found for one input."""

    input: str
    metrics: Mapping[str, Estimate]
    groups: tuple[Group, ...] = ()
    curves: Curves = field(default_factory=dict)
    """Columns of numbers by the name of the curve, such as `curves["corp"]["recalibrated"]`.

    Of classes and judged answers: reliability (also with bins=, binning=mass, of=), corp, confidence, entropy,
    mutual_information (classes, several members), accuracy_confidence, rejection (also with score=), risk_coverage,
    avu. Of regression: pit, calibration, central_coverage, width, functions (Gaussian members along a column). Of
    detection: scores, mix.
    """
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Metrics that were left out, and why."""
    curves_skipped: Mapping[str, str] = field(default_factory=dict)
    """Curves that were left out, and why; tables do not show it."""
    ladder: Ladder | None = None
    """What holds between the errors from √BS down to ECE, where it was asked for."""
    checks: Mapping[str, Check] = field(default_factory=dict)
    """Posterior predictive checks by statistic: the Bayesian reading, or the one that was asked for."""
    independent: Mapping[str, Check] = field(default_factory=dict)
    """The same checks with the members read as independent, where both readings were asked for."""
    reading: tuple[str, ...] = ()
    """What the checks say, in words."""
    supported: str | None = None
    """The reading of the members that the data support: bayesian, independent, both or neither."""
    worst_rows: tuple[Mapping[str, Any], ...] = ()
    """The rows of the largest losses, the largest first: what was predicted there, what came true, ids and columns.

    All have `row`, from 0, and `loss`, null with a `status` where it is infinite; `id` and `columns` where there are
    any. Of classes: label, predicted, confidence, entropy, mutual_information (several members), top (up to three
    classes with their probabilities). Of judged answers: confidence, correct. Of regression: y, mean, std, pit; of
    quantiles median, low, high, where their levels were given.
    """
    worst_by: str | None = None
    """The loss by which they are ranked: nll, crps or pinball."""

    def __getitem__(self, spec: str) -> Any:
        """The estimate of a metric, or the check of a statistic."""
        if spec in self.checks:
            return self.checks[spec]
        if self.checks and not self.metrics:
            if spec.partition("(")[0].strip() in metrics() and parse(spec).text in self.checks:
                return self.checks[parse(spec).text]
            hint = did_you_mean(spec, self.checks)
            raise UsageError("result", expected="a statistic that was checked", came=f"got {show(spec)}", do=hint)
        if spec not in self.metrics and spec not in self.skipped:
            spec = parse(spec).text
        if spec not in self.metrics:
            reason = self.skipped.get(spec)
            hint = f"it was skipped: {reason}" if reason else did_you_mean(spec, self.metrics)
            raise UsageError("result", expected="a metric that was computed", came=f"got {show(spec)}", do=hint)
        return self.metrics[spec]

    def to_json(self) -> dict[str, Any]:
        """As it stands in an evaluation file; parts that do not apply are left out."""
        out: dict[str, Any] = {
            "input": self.input,
            "metrics": {spec: estimate.to_json() for spec, estimate in self.metrics.items()},
        }
        out |= _checks_to_json(self.checks, self.independent)
        if self.checks:
            out |= {"reading": list(self.reading), "supported": self.supported}
        out |= _curves_to_json(self.curves)
        if self.ladder is not None:
            out["ladder"] = self.ladder.to_json()
        if self.groups:
            out["groups"] = [group.to_json() for group in self.groups]
        if self.worst_rows:
            out |= {"worst_by": self.worst_by, "worst_rows": [dict(row) for row in self.worst_rows]}
        out["skipped"] = dict(self.skipped)
        return out | ({"curves_skipped": dict(self.curves_skipped)} if self.curves_skipped else {})


@dataclass(frozen=True)
class Evaluation:
    """Results of one or more inputs, with the settings that made them and what should be known of them."""

    version: str
    settings: Mapping[str, Any]
    inputs: tuple[Mapping[str, Any], ...]
    results: tuple[Result, ...]
    warnings: tuple[Note, ...] = ()
    shift: tuple[Summary, ...] = ()
    """Metrics over types of shift and severities, where they were asked for."""
    sizes: tuple[Sizes, ...] = ()
    """Metrics against the size of the test set, where they were asked for."""
    passed: tuple[PassTable, ...] = ()
    """How many checks pass at each severity of shift, where it was asked for."""
    improvement: Improvement | None = None
    """What a recalibration gained, where the results are before and after it."""
    recalibration: Mapping[str, Any] | None = None
    """The method of a recalibration, its parameters and how its fit went."""
    comparison: Comparison | None = None
    """Ranks, paired differences and equivalents, where the inputs are models of the same rows."""
    flips: RankFlips | None = None
    """How ranks by a calibration error change with its options, where it was asked for."""
    flips_by: Mapping[str, RankFlips] = field(default_factory=dict)
    """The same by data set, where there are several; in a file they stand with their data sets."""
    gates: tuple[GateResult, ...] = ()
    """The gates that were set, and what became of them."""

    def __getitem__(self, key: str) -> Any:
        """The estimate of a metric, or a check, where there is one input; the result of an input by name."""
        for result in self.results:
            if result.input == key:
                return result
        if len(self.results) == 1:
            return self.results[0][key]
        names = [result.input for result in self.results]
        raise UsageError(
            "evaluation",
            expected="the name of an input",
            came=f"got {show(key)}",
            do=did_you_mean(key, names),
        )

    # ------------------------------------------------------------------------------------- files
    def to_json(self) -> dict[str, Any]:
        """The contract's JSON as Python objects."""
        out: dict[str, Any] = {
            "schema": SCHEMA,
            "version": self.version,
            "settings": dict(self.settings),
            "inputs": [dict(item) for item in self.inputs],
            "results": [result.to_json() for result in self.results],
            "warnings": [vars(note) for note in self.warnings],
        }
        out |= {"shift": [summary.to_json() for summary in self.shift]} if self.shift else {}
        out |= {"passed": [table.to_json() for table in self.passed]} if self.passed else {}
        out |= {"sizes": [item.to_json() for item in self.sizes]} if self.sizes else {}
        out |= {} if self.recalibration is None else dict(self.recalibration)
        out |= {} if self.comparison is None else self.comparison.to_json()
        out |= {} if self.flips is None else {"flips": self.flips.to_json()}
        for name, item in self.flips_by.items():
            out["comparison"]["datasets"][name]["flips"] = item.to_json()
        out |= {"gates": [item.to_json() for item in self.gates]} if self.gates else {}
        return out | ({} if self.improvement is None else {"improvement": self.improvement.to_json()})

    def dumps(self) -> str:
        """The contract's JSON as text."""
        return json.dumps(self.to_json(), indent=1, allow_nan=False)

    def save(self, path: str | Path) -> Path:
        """Write the JSON, whole or not at all."""
        path = Path(path)
        with atomic_write(path) as stream:
            stream.write((self.dumps() + "\n").encode())
        return path

    @classmethod
    def load(cls, path: str | Path) -> Evaluation:
        """Read what `save` has written."""
        return read_stored(
            path,
            cls.from_json,
            expected=f"an evaluation written by calibrant (schema {SCHEMA})",
            do="make it with `calibrant evaluate FILE --json OUT`",
        )

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Evaluation:
        """The evaluation that was written."""
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']}")
        return cls(
            version=data["version"],
            settings=data["settings"],
            inputs=tuple(data["inputs"]),
            results=tuple(_result(item) for item in data["results"]),
            warnings=tuple(Note(**item) for item in data["warnings"]),
            shift=tuple(Summary.from_json(item) for item in data.get("shift", [])),
            sizes=tuple(Sizes.from_json(item) for item in data.get("sizes", [])),
            passed=tuple(PassTable.from_json(item) for item in data.get("passed", [])),
            improvement=Improvement.from_json(data["improvement"]) if "improvement" in data else None,
            recalibration={key: data[key] for key in RECALIBRATION if key in data} if "fits" in data else None,
            comparison=Comparison.from_json(data) if "comparison" in data else None,
            flips=_flips(data["flips"]) if "flips" in data else None,
            flips_by=_flips_by(data.get("comparison", {}).get("datasets", {})),
            gates=tuple(GateResult.from_json(item) for item in data.get("gates", [])),
        )

    def bibtex(self) -> str:
        """The works behind all that was used, from metrics to the method of a recalibration, as BibTeX to copy.

        Entries are ASCII, in the order in which the parts of the evaluation name them, each once.
        """
        from calibrant.bibliography import bibtex
        from calibrant.evaluation.references import works_of

        return bibtex(works_of(self))

    # ----------------------------------------------------------------------------------- display
    def __str__(self) -> str:
        from calibrant.evaluation.printing import as_text

        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from calibrant.evaluation.showing import notebook_html

        return notebook_html(self)


def _result(data: dict[str, Any]) -> Result:
    groups = tuple(
        Group(item["by"], item["value"], item["n"], _estimates(item["metrics"]), *_checks(item), item.get("curves", {}))
        for item in data.get("groups", [])
    )
    metrics = _estimates(data["metrics"])
    return Result(
        data["input"],
        metrics,
        groups,
        data.get("curves", {}),
        data.get("skipped", {}),
        data.get("curves_skipped", {}),
        Ladder.of(metrics) if "ladder" in data else None,
        *_checks(data),
        tuple(data.get("reading", ())),
        data.get("supported"),
        tuple(data.get("worst_rows", ())),
        data.get("worst_by"),
    )


def _flips(data: dict[str, Any]) -> RankFlips:
    from calibrant.evaluation.flips import RankFlips

    return RankFlips.from_json(data)


def _flips_by(datasets: dict[str, Any]) -> dict[str, RankFlips]:
    return {name: _flips(item["flips"]) for name, item in datasets.items() if "flips" in item}


def _estimates(data: dict[str, Any]) -> dict[str, Estimate]:
    return {spec: Estimate.from_json(item) for spec, item in data.items()}


def _curves_to_json(curves: Curves) -> dict[str, Any]:
    return {"curves": {name: dict(columns) for name, columns in curves.items()}} if curves else {}


def _checks_to_json(checks: Mapping[str, Check], independent: Mapping[str, Check]) -> dict[str, Any]:
    out: dict[str, Any] = {"checks": {key: check.to_json() for key, check in checks.items()}} if checks else {}
    beside = {key: check.to_json() for key, check in independent.items()}
    return out | ({"checks_independent": beside} if beside else {})


def _checks(data: dict[str, Any]) -> tuple[dict[str, Check], dict[str, Check]]:
    first, second = (data.get(key, {}) for key in ("checks", "checks_independent"))
    return tuple({key: Check.from_json(item) for key, item in part.items()} for part in (first, second))  # type: ignore[return-value]
