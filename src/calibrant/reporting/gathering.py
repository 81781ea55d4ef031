"""Evaluations brought together: which inputs there are, and what each evaluation says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from calibrant.evaluation.result import Evaluation, Result
from calibrant.evaluation.verdict import InputVerdict, Verdict, verdict


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

    @property
    def curves(self) -> Mapping[str, Mapping[str, list[float]]]:
        """Those that were stored."""
        return {} if self.scored is None else self.scored.result.curves


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

    An input is known again by its name, its rows and the SHA-256 of its file. Where two evaluations have its metrics,
    the one with more of them speaks for it. Models of a comparison are inputs where something else is known of them.
    """
    every = tuple(evaluations)
    subjects: dict[tuple[Any, ...], Subject] = {}
    for evaluation in every:
        facts = {item["name"]: item for item in evaluation.inputs}
        for result in evaluation.results if evaluation.comparison is None else ():
            own = facts.get(result.input, {"name": result.input, "n": 0, "members": 1})
            key = (result.input, own.get("n"), own.get("sha256"))
            before = subjects.get(key, Subject(result.input, own))
            subjects[key] = _with(before, Found(evaluation, result))
    return Gathered(every, tuple(_distinct(subjects.values())), rows)


def _with(subject: Subject, found: Found) -> Subject:
    if found.result.checks and subject.checked is None:
        subject = replace(subject, checked=found)
    if found.result.checks and not found.result.metrics:
        return subject
    known = subject.scored
    if known is None or len(found.result.metrics) > len(known.result.metrics):
        subject = replace(subject, scored=found)
    return subject


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


def curve_options(name: str) -> tuple[str, dict[str, str]]:
    """The kind of a curve and the options in its name: `reliability(bins=10,binning=mass)`."""
    kind, _, rest = name.partition("(")
    given = (part.partition("=") for part in rest.removesuffix(")").split(",")) if rest else ()
    return kind, {key: value for key, _, value in given}
