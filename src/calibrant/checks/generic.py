"""Any statistic at all: labels are replicated, and the statistic is computed anew on each set of them.

Metrics of the registry go through their accumulators, functions are called. Replicates of samples are judged by the
samples that are left, as in `SampleReplicates`. Of an input that comes in one block the replicates go by one after
another, and memory is that of one; of a stream each replicate has its own accumulators.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.checks.draws import draw_outcomes, judges_of, replicates_of
from calibrant.checks.labels import draw_labels
from calibrant.checks.laws import Law, Replicates
from calibrant.checks.plan import Plan, Targets
from calibrant.checks.statistics import Statistic
from calibrant.errors import CalibrantError, UsageError, plain, show
from calibrant.kernels.rows import rows_of
from calibrant.predictions import Classification, Judged, Regression
from calibrant.registry.accumulated import Accumulated
from calibrant.registry.estimate import Settings
from calibrant.registry.metric import Spec

BATCH = 1 << 22
"""Labels that are drawn at a time."""
MOST_HELD = 1 << 19
VALUES_ONLY = Settings(intervals=False)


class Generic:
    """The engine that takes whatever no other does."""

    wanted: frozenset[Hashable] = frozenset()

    def __init__(self, statistics: Sequence[Statistic], example: Any, plan: Plan, targets: Targets) -> None:
        self.plan, self.targets, self.example = plan, targets, example
        self.specs = {s.key: s.spec for s in statistics if s.spec is not None}
        self.functions = {s.key: s for s in statistics if s.spec is None}
        self.draws = replicates_of(example, plan) if isinstance(example, Regression) else plan.draws
        shape = (len(targets.parts), self.draws + 1)
        self.values = {s.key: np.full(shape, np.nan) for s in statistics}
        self.held: dict[tuple[int, int], Accumulated] = {}
        if not plan.whole:
            self._refuse_rows()
            self._refuse_many()

    def _refuse_rows(self) -> None:
        """Functions, and metrics that keep rows, need all of them at once."""
        keep = [key for key, spec in self.specs.items() if spec.metric.keeps_rows(spec)]
        for key in [*self.functions, *keep]:
            raise UsageError(
                f"statistic {show(key)}",
                expected="predictions in memory, for it needs all rows at once",
                came="these are read block by block",
                do="read them with cal.read, or leave it out",
            )

    def _refuse_many(self) -> None:
        """Each replicate of each group has accumulators of its own, some of them with numbers of every class."""
        held = len(self.targets.parts) * self.draws * getattr(self.example, "classes", 1)
        if held > MOST_HELD:
            raise UsageError(
                f"statistic {show(next(iter(self.specs)))}",
                expected=f"at most {MOST_HELD} groups times draws times classes, of rows read block by block",
                came=f"there are {held}",
                do="read the input with cal.read, or take fewer draws",
            )

    @classmethod
    def takes(cls, statistic: Statistic, example: Any) -> bool:
        """Anything."""
        return True

    # ---------------------------------------------------------------------------------------------- rows
    def add(self, block: Any, rows: Any, cells: np.ndarray, first: int) -> None:
        """Take in a block: the observed labels first, as replicate number `draws`."""
        parts = [np.flatnonzero(np.isin(cells, part)) for part in self.targets.parts]
        judges = self._judges(_averaged(block), parts)
        for numbers, labels in self._labels(block, rows, first):
            if _has_samples(block) and numbers[0] < self.draws:
                judges = self._judges(judges_of(block, self.plan, int(numbers[0]), first), parts)
            for k, part, shown in judges:
                self._call(k, numbers, shown, labels[..., parts[k]])
                self._measure(k, numbers, part, labels[..., parts[k]])

    def _judges(self, judged: Any, parts: list[np.ndarray]) -> list[tuple[int, Any, Any]]:
        """Of each target that has rows: the predictions that labels are judged by, and what functions see of them."""
        shown = _probabilities(judged) if self.functions else judged
        return [(k, _part(judged, some), _part(shown, some)) for k, some in enumerate(parts) if len(some)]

    def _labels(self, block: Any, rows: Any, first: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Numbers of replicates and their labels (R, n), the observed ones first."""
        yield np.array([self.draws]), _observed(block)[None]
        draw = draw_outcomes if isinstance(block, Regression) else draw_labels
        step = 1 if _has_samples(block) else max(1, BATCH // block.n)
        for start in range(0, self.draws, step):
            numbers = np.arange(start, min(start + step, self.draws))
            yield numbers, draw(block, rows, self.plan, numbers, first)

    def _call(self, k: int, numbers: np.ndarray, part: Any, labels: np.ndarray) -> None:
        for key, statistic in self.functions.items():
            self.values[key][k, numbers] = _called(statistic, labels, part)

    def _measure(self, k: int, numbers: np.ndarray, part: Any, labels: np.ndarray) -> None:
        for number, given in zip(numbers.tolist(), labels, strict=True) if self.specs else ():
            found = self.held.get((k, number)) or Accumulated.of(list(self.specs.values()), part)
            found.add(_record(part, given, list(self.specs.values())), spread=False)
            if not self.plan.whole:
                self.held[k, number] = found
                continue
            for key, value in found.estimates(VALUES_ONLY).items():
                self.values[key][k, number] = value.value

    def laws(self) -> list[dict[str, Law]]:
        """The replicates of each target."""
        for (k, number), found in self.held.items():
            for key, value in found.estimates(VALUES_ONLY).items():
                self.values[key][k, number] = value.value
        return [
            {key: Replicates(float(values[k, -1]), values[k, :-1]) for key, values in self.values.items()}
            for k in range(len(self.targets.parts))
        ]


def _averaged(block: Any) -> Any:
    """What statistics are functions of beside the labels: the averaged prediction, without the observed labels."""
    if isinstance(block, Classification):
        return replace(block.average() if block.members > 1 else block, labels=None, label_probs=None)
    if isinstance(block, Judged):
        return replace(block.average(), correct=None)
    return replace(block, y=None)


def _has_samples(block: Any) -> bool:
    """Whether every replicate is judged by samples of its own."""
    return isinstance(block, Regression) and block.samples is not None


def _probabilities(judged: Any) -> Any:
    """The same with probabilities (1, N, C) for scores, whatever they came as: functions need not tell kinds apart."""
    if not isinstance(judged, Classification):
        return judged
    probs = np.concatenate([_as_probs(scores[0], judged.kind) for _, scores in judged.score_blocks()])
    return replace(judged, kind="probs", scores=probs[None])


def _as_probs(scores: np.ndarray, kind: str) -> np.ndarray:
    scores = scores.astype(np.float64)
    shares = scores if kind == "probs" else np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def _part(judged: Any, rows: np.ndarray) -> Any:
    return judged if len(rows) == judged.n else judged[rows]


def _observed(block: Any) -> np.ndarray:
    return getattr(block, _labels_of(block))


def _labels_of(predictions: Any) -> str:
    """Where these predictions keep what was so."""
    return "correct" if isinstance(predictions, Judged) else "y" if isinstance(predictions, Regression) else "labels"


def _record(part: Any, labels: np.ndarray, specs: list[Spec]) -> Any:
    """The record of predictions that have these labels."""
    given = replace(part, **{_labels_of(part): labels})
    wanted = frozenset().union(*(spec.metric.wanted(spec, given) for spec in specs))
    with np.errstate(over="ignore", invalid="ignore"):
        return rows_of(given, wanted, threads=1, light=all(spec.metric.light for spec in specs))


# ----------------------------------------------------------------------------------------- functions of users
def _called(statistic: Statistic, labels: np.ndarray, predictions: Any) -> np.ndarray:
    """The values (R,) of a function, checked."""
    if statistic.vectorised:
        return _checked(statistic, _call(statistic, labels, predictions), (len(labels),))
    values = [_checked(statistic, _call(statistic, given, predictions), ()) for given in labels]
    return np.array(values, np.float64)


def _call(statistic: Statistic, labels: np.ndarray, predictions: Any) -> Any:
    labels = labels.view()
    labels.flags.writeable = False  # the next statistic sees them too
    try:
        return statistic.function(labels, predictions)  # type: ignore[misc]
    except CalibrantError:
        raise
    except Exception as error:
        said = plain(f"{type(error).__name__}: {error}", 150)
        raise _refused(statistic, f"it raised {said}", "try it on the observed labels alone") from error


def _checked(statistic: Statistic, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    one = "a number" if not shape else f"{shape[0]} numbers, one for each row of labels"
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise _refused(statistic, f"it returned {type(value).__name__}", f"return {one}") from None
    if array.shape != shape:
        hint = f"return {one}" if shape else "return one number; several are several statistics"
        raise _refused(statistic, f"it returned shape {array.shape}", hint)
    if np.isnan(array).any():
        raise _refused(statistic, f"it returned {math.nan}", "give a value for every set of labels, or infinity")
    return array


def _refused(statistic: Statistic, came: str, do: str) -> UsageError:
    return UsageError(f"statistic {show(statistic.name)}", expected="a number from it", came=came, do=do)
