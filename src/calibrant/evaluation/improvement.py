"""`improvement`: the gain in proper scores from one prediction of some rows to another of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from calibrant import registry
from calibrant.errors import LabelsError, NotApplicable, UsageError, show
from calibrant.evaluation.choosing import applicable
from calibrant.evaluation.evaluate import score_rows
from calibrant.evaluation.gains import KNOWN, ROOTS, Gain, Improvement
from calibrant.evaluation.sizes import check_pair, value_by_size
from calibrant.predictions import InMemory

CLASSES, NUMBERS = ("nll", "brier", "rbs"), ("dss", "nll", "crps", "pinball(levels=19)")
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

    scores: proper scores that are means over rows, and rbs; nll, brier and rbs by default, of numbers dss, nll and crps
    (pinball where they are quantiles). injective: whether `after` is an injective map of `before`; what `transform`
    made says so itself. sizes: beside them the differences of the usual calibration errors (or `metrics`) on random
    subsets of many sizes, or of those given, `repeats` of each; False leaves them out. units: a column of dependent
    rows.
    """
    check_pair(before, after)
    if not before.has_labels:
        raise LabelsError(before.name, expected="labels", came="there are none", do="give what came true for each row")
    if not 0.0 < level < 1.0:
        raise UsageError("level", expected="a number between 0 and 1", came=f"got {level}", do="0.95 is usual")
    made = after.info.meta.get("recalibration", {})
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
    known = _known(injective, made)
    return Improvement(before.name, after.name, before.n, float(level), known, made.get("method"), gains, found)


def _known(injective: bool | None, made: Mapping[str, Any]) -> str:
    if injective is None:
        injective = made.get("injective")
        if made.get("cross_fitted") or (made.get("members") == "each" and not injective):
            return KNOWN[2]
    return {True: KNOWN[0], False: KNOWN[1], None: KNOWN[3]}[injective]


def _scores(scores: str | Iterable[str] | None, before: InMemory, after: InMemory) -> list[str]:
    """The scores that both can give; one that is named and cannot be had, or is not proper, is refused."""
    if scores is None:
        usual = NUMBERS if before.task == "regression" else CLASSES
        able = [{spec.text for spec in applicable(list(usual), item)[0]} for item in (before, after)]
        found = [text for text in (registry.parse(name).text for name in usual) if all(text in known for known in able)]
        quantiles = getattr(after, "quantiles", None) is not None or getattr(before, "quantiles", None) is not None
        return found if quantiles else [text for text in found if not text.startswith("pinball")]
    wanted = registry.split(scores) if isinstance(scores, str) else list(scores)
    for text in wanted:
        spec = registry.parse(text)
        if not spec.metric.proper:
            proper = ", ".join(name for name, metric in registry.metrics().items() if metric.proper)
            raise UsageError(
                "improvement",
                expected="proper scores, whose differences can be read",
                came=f"got {show(text)}",
                do=f"name it in `metrics`; proper ones are {proper}",
            )
        for item in (before, after):
            for name, reason in applicable([text], item)[1].items():
                raise NotApplicable(name, expected="predictions that can give it", came=reason, do="leave it out")
    return [registry.parse(text).text for text in wanted]
