"""The data of a report: the inputs of all evaluations, each with every result that describes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from calibrant.registry.lookup import metrics, with_role
from calibrant.render.verdicts.api import InputVerdict, Verdict, verdict
from calibrant.reporting.document import Block, Columns, Panel, numbered, present
from calibrant.results.evaluation import COMPARISON, Evaluation, Result

ROUNDING = 1e-6
"""Relative and absolute tolerance of one number that was summed in another order or precision."""


@dataclass(frozen=True)
class ResultView:
    """A result with the evaluation that it belongs to."""

    evaluation: Evaluation
    result: Result


@dataclass(frozen=True)
class Subject:
    """One input of the report, with all results that describe it."""

    name: str
    """Its name on the page, unique among all inputs."""
    facts: Mapping[str, Any]
    metrics_view: ResultView | None = None
    """Its metrics and curves."""
    checks_view: ResultView | None = None
    """Its posterior predictive checks."""
    views: tuple[ResultView, ...] = ()
    """All results that describe it, in the order of the evaluations."""

    @property
    def curves(self) -> Mapping[str, Mapping[str, list[float]]]:
        """Its stored curves."""
        view = self.first_with(lambda result: result.curves)
        return {} if view is None else view.result.curves

    def first_with(self, part: Callable[[Result], object]) -> ResultView | None:
        """The result that has a part: preferably the one with the metrics, otherwise the first."""
        preferred = () if self.metrics_view is None else (self.metrics_view,)
        return next((view for view in (*preferred, *self.views) if part(view.result)), None)

    def check_views(self) -> tuple[ResultView, ...]:
        """Its posterior predictive checks, and others that add statistics or groups to these."""
        out: list[ResultView] = []
        for view in (*(() if self.checks_view is None else (self.checks_view,)), *self.views):
            known = set[str]().union(*(_checked_parts(other.result) for other in out))
            out += [view] if _checked_parts(view.result) - known else []
        return tuple(out)


@dataclass(frozen=True)
class ReportData:
    """The evaluations of a report and their inputs."""

    evaluations: tuple[Evaluation, ...]
    subjects: tuple[Subject, ...]
    rows: bool = True
    """Whether individual rows may be shown."""

    @cached_property
    def verdicts(self) -> Mapping[int, Verdict]:
        """The verdict of each evaluation, by the identity of the evaluation."""
        return {id(evaluation): verdict(evaluation) for evaluation in self.evaluations}

    @cached_property
    def input_verdicts(self) -> Mapping[int, Mapping[str, InputVerdict]]:
        """The verdict of each input, by the identity of the evaluation and by name."""
        return {key: {item.input: item for item in verdict.inputs} for key, verdict in self.verdicts.items()}

    def panels(self, blocks: Callable[[Subject], Iterable[Block | None]]) -> tuple[Panel, ...]:
        """One panel for each input for which there is anything to show; blocks that are None are left out."""
        every = ((k, present(blocks(subject))) for k, subject in enumerate(self.subjects))
        return tuple(Panel(k, content) for k, content in every if content)


def collect(evaluations: Iterable[Evaluation], *, rows: bool = True) -> ReportData:
    """The inputs of all evaluations, in order; metrics and checks of one input are merged.

    An input is identified by its name, its number of rows, the SHA-256 of its file and the numbers that two results
    share: members of one file, and scores of one detection, agree in all but these. Of two evaluations with metrics of
    an input, the one with more metrics describes it, and the other supplies what that one lacks. Models of a comparison
    are inputs only if another evaluation describes them.
    """
    every = tuple(evaluations)
    subjects: list[Subject] = []
    for evaluation in every:
        facts = {item["name"]: item for item in evaluation.inputs}
        for result in evaluation.results if evaluation.kind != COMPARISON else ():
            own = facts.get(result.input, {"name": result.input, "n": 0, "members": 1})
            place = next((k for k, known in enumerate(subjects) if _is_same(known, own, result)), len(subjects))
            before = subjects[place] if place < len(subjects) else Subject(result.input, own)
            subjects[place : place + 1] = [_add(before, ResultView(evaluation, result))]
    names = numbered(subject.name for subject in subjects)
    unique = (replace(subject, name=name) for subject, name in zip(subjects, names, strict=True))
    return ReportData(every, tuple(unique), rows)


def _is_same(subject: Subject, facts: Mapping[str, Any], result: Result) -> bool:
    """Whether a result describes this input: nothing that both know differs."""
    if subject.name != result.input or any(facts.get(key) != subject.facts.get(key) for key in ("n", "sha256")):
        return False
    new = _numbers(result)
    pairs = [
        (known[key], new[key])
        for known in (_numbers(view.result) for view in subject.views)
        for key in known.keys() & new.keys()
    ]
    return all(
        (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)
        for one, other in pairs
    )


def _numbers(result: Result) -> dict[tuple[str, str], float]:
    """The numbers that the predictions alone determine: metrics, observed statistics, and accuracy from either."""
    known = {spec: metrics().get(spec.partition("(")[0]) for spec in result.metrics}
    random = {spec for spec, metric in known.items() if metric is not None and metric.random}
    out = {("metric", spec): e.value for spec, e in result.metrics.items() if spec not in random}
    out |= {("check", key): check.observed for key, check in result.checks.items()}
    shared = {key[1]: value for key, value in out.items() if key[1] in with_role("hit_rate")}
    return out | {("either", name): value for name, value in shared.items()}


def _add(subject: Subject, view: ResultView) -> Subject:
    """The input with one more result, which describes it if it has more metrics or more checks."""
    subject = replace(subject, views=(*subject.views, view))
    result, scored, checked = view.result, subject.metrics_view, subject.checks_view
    if result.is_check and (checked is None or len(_checked_parts(result)) > len(_checked_parts(checked.result))):
        subject = replace(subject, checks_view=view)
    if result.is_check and not result.metrics:
        return subject
    if scored is None or len(result.metrics) > len(scored.result.metrics):
        subject = replace(subject, metrics_view=view)
    return subject


def _checked_parts(result: Result) -> set[str]:
    """The checked statistics, and the columns whose groups were checked."""
    return {*result.checks, *(f"by {group.by}" for group in result.groups if group.checks)}


# ------------------------------------------------------------------------------------------------------ curves
def has_band(curves: Iterable[Mapping[str, Sequence[Any]]]) -> bool:
    """Whether any curve has the band of a calibrated model."""
    return any(value is not None for curve in curves for value in curve.get("band_low", ()))


def select_columns(curve: Mapping[str, Sequence[Any]], names: Iterable[str], like: str) -> Columns:
    """These columns of a curve; None throughout for those it lacks, which are as long as the column `like`."""
    blank = [None] * len(curve[like])
    return {name: curve.get(name, blank) for name in names}


def curve_options(name: str) -> tuple[str, dict[str, str]]:
    """The kind of a curve and the options in its name: `reliability(bins=10,binning=mass)`."""
    kind, _, rest = name.partition("(")
    given = (part.partition("=") for part in rest.removesuffix(")").split(",")) if rest else ()
    return kind, {key: value for key, _, value in given}
