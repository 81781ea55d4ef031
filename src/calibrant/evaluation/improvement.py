"""`improvement`: the gain in proper scores from one prediction of some rows to another of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from calibrant import registry
from calibrant.errors import LabelsError, NotApplicable, UsageError, show
from calibrant.evaluation.evaluate import score_rows
from calibrant.evaluation.gains import KNOWN, ROOTS, Gain, Improvement
from calibrant.evaluation.sizes import check_pair, value_by_size
from calibrant.predictions import InMemory

CLASSES, NUMBERS = ("nll", "brier", "rbs"), ("dss", "nll", "crps")
LEVELS = ("pinball(levels=19)", "pinball(levels=9)", "pinball(levels=3)", "pinball(level=0.5)")
"""Of quantiles that are given at different levels: the first of these that both have."""
Progress = Callable[[str, float, float], None]


def improvement(
    before: InMemory,
    after: InMemory,
    scores: str | Iterable[str] | None = None,
    *,
    injective: bool | None = None,
    metrics: str | Iterable[str] | None = None,
    sizes: bool | Iterable[int] = True,
    repeats: int | None = None,
    units: str | None = None,
    level: float = 0.95,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Improvement:
    """The gain in proper scores from `before` to `after`, two predictions of the same rows, with paired intervals.

    scores: proper scores that are means over rows, and rbs; nll, brier and rbs by default, of numbers dss, nll and
    crps, of quantiles pinball at the levels that both have. injective: whether `after` is an injective map of `before`;
    what `transform` made says so itself. sizes: beside them the differences of the usual calibration errors (or
    `metrics`) on random subsets of many sizes, or of those given, `repeats` of each; False leaves them out. units: a
    column of dependent rows.
    """
    check_pair(before, after)
    if not before.has_labels:
        raise LabelsError(before.name, expected="labels", came="there are none", do="give what came true for each row")
    if not 0.0 < level < 1.0:
        raise UsageError("level", expected="a number between 0 and 1", came=f"got {level}", do="0.95 is usual")
    steps = _steps(before, after)
    codes = None if units is None else np.unique(before.column(units), return_inverse=True)[1].ravel()
    gains = {}
    for score in _scores(scores, before, after):
        rows = [score_rows(item, ROOTS.get(score, score), threads=threads) for item in (before, after)]
        (one,), (two,) = (found.values() for found in rows)
        gains[score] = Gain.of(score, one, two, before.weights, codes, level)
    found = None
    if sizes is not False:
        asked = None if sizes is True else sizes
        found = value_by_size(
            before, metrics, after=after, sizes=asked, repeats=repeats, seed=seed, units=units, threads=threads,
            progress=progress,
        )  # fmt: skip
    known = _known(injective, steps)
    method = ", then ".join(step["method"] for step in steps) or None
    return Improvement(before.name, after.name, before.n, float(level), known, method, gains, found)


def _steps(before: InMemory, after: InMemory) -> list[Mapping[str, Any]]:
    """The recalibrations that led from one to the other, as far as predictions tell."""
    first, last = (item.info.meta.get("recalibration", {}).get("steps", []) for item in (before, after))
    return last[len(first) :] if last[: len(first)] == first else last


def _known(injective: bool | None, steps: list[Mapping[str, Any]]) -> str:
    if injective is not None or not steps:
        return {True: KNOWN[0], False: KNOWN[1], None: KNOWN[3]}[injective]
    if any(step["several"] for step in steps):
        return KNOWN[2]
    return KNOWN[0] if all(step["injective"] for step in steps) else KNOWN[1]


def _scores(scores: str | Iterable[str] | None, before: InMemory, after: InMemory) -> list[str]:
    """The scores that both can give; one that is named and cannot be had, or is not proper, is refused."""
    if scores is None:
        return _usual(before, after)
    wanted = registry.split(scores) if isinstance(scores, str) else list(scores)
    for text in wanted:
        spec = registry.parse(text)
        if not spec.metric.proper and spec.text not in ROOTS:
            proper = ", ".join(name for name, metric in registry.metrics().items() if metric.proper)
            raise UsageError(
                "improvement",
                expected="proper scores, whose differences can be read",
                came=f"got {show(text)}",
                do=f"name it in `metrics`; proper ones are {proper}",
            )
        for item in (before, after):
            reason = spec.metric.lacks(spec, item)
            if reason:
                raise NotApplicable(spec.text, expected="predictions that can give it", came=reason, do="leave it out")
    return [registry.parse(text).text for text in wanted]


def _usual(before: InMemory, after: InMemory) -> list[str]:
    """Those of the task that both can give; of quantiles the pinball loss, at the levels of both."""
    found = _able(NUMBERS if before.task == "regression" else CLASSES, before, after)
    own = [getattr(item, "levels", None) for item in (before, after)]
    if own[0] is None and own[1] is None:
        return found
    if own[0] is not None and own[1] is not None and np.array_equal(own[0], own[1]):
        return [*found, "pinball"]
    return found + _able(LEVELS, before, after)[:1]


def _able(texts: tuple[str, ...], before: InMemory, after: InMemory) -> list[str]:
    specs = [registry.parse(text) for text in texts]
    return [spec.text for spec in specs if not any(spec.metric.lacks(spec, item) for item in (before, after))]
