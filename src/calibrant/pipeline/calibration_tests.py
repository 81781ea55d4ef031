"""The tests behind a verdict on calibration: one fixed family per kind of predictions, in the same pass as the metrics.

The family is computed whenever a calibration error is requested, whichever that is, so that two commands about one file
cannot disagree. What it decides is said in `render.verdicts.calibration`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import stdtr

from calibrant.calibration.null_mean import p_value
from calibrant.errors import plain
from calibrant.intervals import normal_quantile
from calibrant.kernels.loops.optional_columns import FIXED
from calibrant.pipeline.select_metrics import MAX_KEPT_ROWS, Input, kind_of, verdict_specs
from calibrant.predictions import Classification, Judged, Regression
from calibrant.predictions.files.stream import Stream
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Spec
from calibrant.registry.metrics.classwise import CWCE, CWCE_OF_ROWS
from calibrant.registry.state.accumulators import Accumulated, Reduced
from calibrant.registry.state.binned_state import FEWEST_UNITS, BinnedPairs
from calibrant.registry.state.class_rows import MOST_KEPT, ClassRows
from calibrant.registry.state.classwise_state import MOST_JOINT, Table
from calibrant.registry.state.pairs import KeptPairs
from calibrant.render.verdicts.direction import holm
from calibrant.results.verdict import ClassShare, Evidence


@dataclass(frozen=True)
class Family:
    """The tests of one kind of predictions."""

    kind: str
    """binary, classes, judged or regression."""
    tests: tuple[Spec, ...]
    direction: tuple[Spec, ...]
    """Statistics that show a direction, and are no tests of the family."""
    missing: Mapping[str, str]
    """Specs that these predictions cannot give, and why."""
    of_rows: Mapping[str, Spec] = field(default_factory=dict)
    """For tests that need whole predictions here: what is computed in their place."""
    by_unit: bool = False
    """Whether rows depend on each other."""

    @property
    def specs(self) -> tuple[Spec, ...]:
        """Everything that has to be computed."""
        return (*self.tests, *self.direction, *self.of_rows.values())


def family_of(source: Input, by_unit: bool) -> Family | None:
    """The family of these predictions; None without labels or without a confidence."""
    example = source.example
    kind = kind_of(example)
    if kind is None or not example.has_labels or not getattr(example, "has_confidence", True):
        return None
    tests, missing, of_rows = verdict_specs(example), {}, {}
    for spec in tests:
        if spec.metric is CWCE and (by_unit or example.weights is not None or getattr(example, "soft", False)):
            if reason := whole_predictions_refused(source, int(spec["bins"])):
                missing[spec.text] = reason
            else:
                of_rows[spec.text] = Spec(CWCE_OF_ROWS, spec.options)
        elif unsupported := spec.metric.unsupported_reason(spec, example):
            missing[spec.text] = unsupported.text
        elif by_unit and not spec.metric.supports_units:
            missing[spec.text] = "rows of a unit are dependent"
        elif isinstance(source, Stream) and source.n > MAX_KEPT_ROWS and spec.metric.keeps_rows(spec):
            missing[spec.text] = f"it keeps every row, and there are {source.n}"
    direction = verdict_specs(example, "test_direction") if kind == "classes" else []
    known = tuple(spec for spec in tests if spec.text not in missing and spec.text not in of_rows)
    return Family(kind, known, tuple(direction), missing, of_rows, by_unit)


def whole_predictions_refused(source: Input, bins: int) -> str:
    """Why class-wise errors cannot be tested with weights, units or soft labels; empty if they can."""
    classes = int(getattr(source.example, "classes", 1))
    if classes * bins > MOST_JOINT:
        return f"with weights, units or soft labels it is tested for up to {MOST_JOINT // bins} classes"
    if source.n * classes > MOST_KEPT:
        return "with weights, units or soft labels it needs whole predictions, and there are too many rows"
    return ""


def collect_evidence(
    family: Family,
    metrics: Accumulated,
    estimates: Mapping[str, Estimate],
    settings: Settings,
    example: Classification | Judged | Regression,
) -> Evidence:
    """The evidence of one input, after its pass."""
    tests, missing = {}, dict(family.missing)
    soft = bool(getattr(example, "soft", False))
    computed = {**{spec.text: spec for spec in family.tests}, **family.of_rows}
    order = [spec.text for spec in verdict_specs(example)]
    for text in sorted(computed, key=order.index):
        spec = computed[text]
        e = estimates[spec.text]
        if soft and e.high - e.low <= ROUNDING:
            missing[text], e = NO_SPREAD_LEFT, replace(e, p_value=math.nan)
        elif math.isnan(e.p_value) and math.isfinite(e.low) and e.high > e.low and math.isfinite(spec.metric.expected):
            if spec.metric.is_calibration_error or not family.by_unit:
                missing[text] = untested_reason(family, e, soft)
            elif (units := number_of_units(metrics.each[spec.text])) < FEWEST_UNITS:
                missing[text] = f"{units} units are too few"
            else:  # a robust interval by units, symmetric about the value: Student's t with one degree less than units
                error = 0.5 * (e.high - e.low) / normal_quantile(e.level)
                t = abs(e.value - spec.metric.expected) / error
                e = replace(e, p_value=float(2.0 * stdtr(units - 1, -t)))
        elif math.isnan(e.p_value):
            missing[text] = untested_reason(family, e, soft)
        tests[text] = e
    return Evidence(
        family.kind,
        tests,
        {spec.text: estimates[spec.text] for spec in family.direction},
        missing,
        class_shares(metrics, example) if family.kind == "classes" else (),
        mean_and_share(metrics, family),
    )


ROUNDING = 1e-12
"""Width of an interval up to which it shows no spread."""
NO_SPREAD_LEFT = "soft labels equal to the predictions are no evidence"


def untested_reason(family: Family, e: Estimate, soft: bool) -> str:
    """Why a test has no p-value."""
    if math.isnan(e.value) or math.isinf(e.value):
        return "not estimable from these outcomes"
    if soft:
        return NO_SPREAD_LEFT if math.isnan(e.low) else "no test is known for soft labels"
    if family.by_unit and family.kind == "regression":
        return "no test is known for dependent rows"
    return "too few units" if family.by_unit else "not estimable from these outcomes"


def number_of_units(accumulator: Any) -> int:
    """Of the rows that an accumulator keeps."""
    units = accumulator.state.arrays()[3] if isinstance(getattr(accumulator, "state", None), KeptPairs) else None
    return 0 if units is None else len(np.unique(units))


def mean_and_share(metrics: Accumulated, family: Family) -> tuple[float, float] | None:
    """Mean prediction and observed share, from the bins of the family's ECE."""
    for spec in family.tests:
        accumulator = metrics.each[spec.text]
        state = accumulator.state if isinstance(accumulator, Reduced) else None
        if isinstance(state, BinnedPairs) and state.sums is not None:
            table = state.table()
            if (mass := float(table.w.sum())) > 0:
                return float(table.wp.sum()) / mass, float(table.wy.sum()) / mass
    return None


def class_shares(metrics: Accumulated, example: Classification | Judged | Regression) -> tuple[ClassShare, ...]:
    """The classes whose mean probability differs significantly from their share, from the class-wise table or rows."""
    rows = next((state for state in metrics.states.values() if isinstance(state, ClassRows)), None)
    if rows is not None and rows.p and isinstance(example, Classification):
        return significant_shares(example, *rows.mean_gaps())
    state = next((state for state in metrics.states.values() if isinstance(state, Table)), None)
    if state is None or state.weighted or state.by_unit or not isinstance(example, Classification) or not state.n:
        return ()
    layers = state.table.astype(np.float64) / FIXED
    if len(layers) < 5:
        return ()
    count, p, squares, y = layers[:4]
    cubes = squares * p / np.where(count > 0, count, 1.0)
    total, variance = (p - y).sum(axis=1), (p - squares).sum(axis=1)
    third = -(p - 3.0 * squares + 2.0 * cubes).sum(axis=1)
    p_values = [p_value(t, max(v, 0.0), g, 1.0) for t, v, g in zip(total, variance, third, strict=True)]
    return significant_shares(example, p.sum(axis=1) / state.n, y.sum(axis=1) / state.n, p_values)


def significant_shares(
    example: Classification, predicted: np.ndarray, observed: np.ndarray, p_values: Sequence[float]
) -> tuple[ClassShare, ...]:
    """The classes whose p-value is significant after correction for their number."""
    adjusted = holm(p_values)
    names = example.class_names or tuple(str(k) for k in range(example.classes))
    return tuple(
        ClassShare(plain(str(names[k])), float(predicted[k]), float(observed[k]), p_values[k], adjusted[k])
        for k in range(len(p_values))
        if adjusted[k] <= 0.05
    )
