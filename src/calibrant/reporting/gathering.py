"""Evaluations brought together: which inputs there are, and what each evaluation says of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from calibrant.evaluation.result import Evaluation, Result
from calibrant.evaluation.verdict import InputVerdict, Verdict, verdict

RANDOM = ("pit_uniformity",)
"""Metrics whose value turns on the seed: by them inputs are not told apart."""
ROUNDING = 1e-6
"""By what share two numbers of one input may differ that were summed in another order or precision."""
ACCURACY = "accuracy"


@dataclass(frozen=True)
class Found:
    """A result, in the evaluation that it is of."""

    evaluation: Evaluation
    result: Result


@dataclass(frozen=True)
class Subject:
    """One input, with the results that speak of it."""

    name: str
    """As it is called on the page: no two have the same."""
    facts: Mapping[str, Any]
    scored: Found | None = None
    """Its metrics and curves."""
    checked: Found | None = None
    """Its posterior predictive checks."""
    every: tuple[Found, ...] = ()
    """All results that speak of it, in the order in which they came."""

    @property
    def curves(self) -> Mapping[str, Mapping[str, list[float]]]:
        """Those that were stored."""
        found = self.having(lambda result: result.curves)
        return {} if found is None else found.result.curves

    def having(self, part: Callable[[Result], object]) -> Found | None:
        """The result that has a part: the one that speaks for the input, or the first of the others."""
        spoken = () if self.scored is None else (self.scored,)
        return next((found for found in (*spoken, *self.every) if part(found.result)), None)

    def checks(self) -> tuple[Found, ...]:
        """Its posterior predictive checks, and those that have statistics or groups which the ones before lack."""
        out: list[Found] = []
        for found in (*(() if self.checked is None else (self.checked,)), *self.every):
            known = set[str]().union(*(_checked_parts(other.result) for other in out))
            out += [found] if _checked_parts(found.result) - known else []
        return tuple(out)


@dataclass(frozen=True)
class Gathered:
    """What a report is made from."""

    evaluations: tuple[Evaluation, ...]
    subjects: tuple[Subject, ...]
    rows: bool = True
    """Whether single rows may be shown."""

    @cached_property
    def verdicts(self) -> Mapping[int, Verdict]:
        """What each evaluation says, in words; by the identity of the evaluation."""
        return {id(evaluation): verdict(evaluation) for evaluation in self.evaluations}

    @cached_property
    def said(self) -> Mapping[int, Mapping[str, InputVerdict]]:
        """The same of each of its inputs, by name."""
        return {key: {item.input: item for item in found.inputs} for key, found in self.verdicts.items()}

    @property
    def several(self) -> bool:
        """Whether there are inputs to choose from."""
        return len(self.subjects) > 1


def gather(evaluations: Iterable[Evaluation], *, rows: bool = True) -> Gathered:
    """Inputs in the order in which they come; metrics and checks of one input belong together.

    An input is known again by its name, its rows, the SHA-256 of its file and the numbers that both have: members of
    one file, and scores of one detection, have all but these in common. Where two evaluations have its metrics, the
    one with more of them speaks for it, and the other for what that one lacks. Models of a comparison are inputs where
    something else is known of them.
    """
    every = tuple(evaluations)
    subjects: list[Subject] = []
    for evaluation in every:
        facts = {item["name"]: item for item in evaluation.inputs}
        for result in evaluation.results if evaluation.comparison is None else ():
            own = facts.get(result.input, {"name": result.input, "n": 0, "members": 1})
            place = next((k for k, known in enumerate(subjects) if _same(known, own, result)), len(subjects))
            before = subjects[place] if place < len(subjects) else Subject(result.input, own)
            subjects[place:] = [_with(before, Found(evaluation, result)), *subjects[place + 1 :]]
    return Gathered(every, tuple(_distinct(subjects)), rows)


def _same(subject: Subject, facts: Mapping[str, Any], result: Result) -> bool:
    """Whether a result is of this input."""
    if subject.name != result.input or any(facts.get(key) != subject.facts.get(key) for key in ("n", "sha256")):
        return False
    return all(_agree(found.result, result) for found in subject.every)


def _agree(one: Result, other: Result) -> bool:
    """Whether no number that both have says that they are of different predictions."""
    first, second = _numbers(one), _numbers(other)
    return all(_equal(first[key], second[key]) for key in first.keys() & second.keys())


def _numbers(result: Result) -> dict[tuple[str, str], float]:
    """What predictions alone determine: metrics, observed statistics, and the accuracy by either."""
    out = {("metric", spec): e.value for spec, e in result.metrics.items() if spec.partition("(")[0] not in RANDOM}
    out |= {("check", key): check.observed for key, check in result.checks.items()}
    known = {ACCURACY: result.metrics[ACCURACY].value} if ACCURACY in result.metrics else {}
    known |= {ACCURACY: result.checks[ACCURACY].observed} if ACCURACY in result.checks else {}
    return out | {("either", key): value for key, value in known.items()}


def _equal(one: float, other: float) -> bool:
    if not (math.isfinite(one) and math.isfinite(other)):
        return one == other or (math.isnan(one) and math.isnan(other))
    return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)


def _with(subject: Subject, found: Found) -> Subject:
    subject = replace(subject, every=(*subject.every, found))
    if found.result.checks and _more_checks(found, subject.checked):
        subject = replace(subject, checked=found)
    if found.result.checks and not found.result.metrics:
        return subject
    known = subject.scored
    if known is None or len(found.result.metrics) > len(known.result.metrics):
        subject = replace(subject, scored=found)
    return subject


def _more_checks(found: Found, known: Found | None) -> bool:
    return known is None or len(_checked_parts(found.result)) > len(_checked_parts(known.result))


def _checked_parts(result: Result) -> set[str]:
    """The statistics that were checked, and the columns whose groups were."""
    return {*result.checks, *(f"by {group.by}" for group in result.groups if group.checks)}


def _distinct(subjects: Iterable[Subject]) -> Iterable[Subject]:
    """Inputs of one name get a number."""
    taken: set[str] = set()
    for subject in subjects:
        name, k = subject.name, 1
        while name in taken:
            k += 1
            name = f"{subject.name} ({k})"
        taken.add(name)
        yield replace(subject, name=name)


def has_band(curves: Iterable[Mapping[str, Sequence[Any]]]) -> bool:
    """Whether a curve tells where those of a calibrated model lie."""
    return any(value is not None for curve in curves for value in curve.get("band_low", ()))


def curve_options(name: str) -> tuple[str, dict[str, str]]:
    """The kind of a curve and the options in its name: `reliability(bins=10,binning=mass)`."""
    kind, _, rest = name.partition("(")
    given = (part.partition("=") for part in rest.removesuffix(")").split(",")) if rest else ()
    return kind, {key: value for key, _, value in given}
