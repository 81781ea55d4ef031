"""The engine for any statistic: labels are replicated, and the statistic is computed on every set of them.

Registry metrics go through their accumulators, user functions are called. Replicates of samples are scored by the
remaining samples, as in `SampleReplicates`. If the input comes in one block, replicates are processed one after
another in the memory of one; in a stream each replicate has its own accumulators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.checks.distributions import Law, Replicates
from calibrant.checks.draws import draw_labels, draw_outcomes, reference_samples, replicates_of
from calibrant.checks.plan import Engine, Plan, Targets
from calibrant.checks.statistics import Statistic
from calibrant.errors import CalibrantError, UsageError, plain, show
from calibrant.kernels.rows import rows_of
from calibrant.predictions import Classification, Judged, Regression
from calibrant.registry.estimate import Settings
from calibrant.registry.state.accumulators import Accumulated

BATCH = 1 << 22
"""Labels that are drawn at a time."""
MOST_ACCUMULATORS = 1 << 19
VALUES_ONLY = Settings(intervals=False)


class Generic(Engine):
    """The engine for statistics that no other engine supports."""

    def __init__(self, statistics: Sequence[Statistic], example: Any, plan: Plan, targets: Targets) -> None:
        super().__init__(statistics, example, plan, targets)
        self.specs = {s.key: s.spec for s in statistics if s.spec is not None}
        self.functions = {s.key: s for s in statistics if s.spec is None}
        self.draws = replicates_of(example, plan) if isinstance(example, Regression) else plan.draws
        shape = (len(targets.parts), self.draws + 1)
        self.values = {s.key: np.full(shape, np.nan) for s in statistics}
        self.accumulators: dict[tuple[int, int], Accumulated] = {}
        if plan.whole:
            return
        for key in [*self.functions, *(key for key, spec in self.specs.items() if spec.metric.keeps_rows(spec))]:
            expected = "predictions in memory, because it needs all rows at once"
            hint = "read the file with cal.read, or omit the statistic"
            raise UsageError(f"statistic {show(key)}", expected=expected, got="a stream", hint=hint)
        count = len(targets.parts) * self.draws * getattr(example, "classes", 1)  # some keep numbers of every class
        if count > MOST_ACCUMULATORS:
            subject = f"statistic {show(next(iter(self.specs)))}"
            expected = f"at most {MOST_ACCUMULATORS} for groups x draws x classes of a stream"
            hint = "read the file with cal.read, or use fewer draws"
            raise UsageError(subject, expected=expected, got=f"{count}", hint=hint)

    @classmethod
    def supports(cls, statistic: Statistic, example: Any) -> bool:
        """Any statistic."""
        return True

    def add(self, block: Any, rows: Any, cells: np.ndarray, first: int) -> None:
        """Add a block; the observed labels are replicate number `draws`."""
        parts = [np.flatnonzero(np.isin(cells, part)) for part in self.targets.parts]
        by_samples = isinstance(block, Regression) and block.samples is not None
        if isinstance(block, Classification):
            average: Any = replace(block.average() if block.members > 1 else block, labels=None, label_probs=None)
            draw: Any = draw_labels
        elif isinstance(block, Judged):
            average, draw = replace(block.average(), correct=None), draw_labels
        else:
            average, draw = replace(block, y=None), draw_outcomes
        predictions = self._by_target(average, parts)
        self._add_replicates(predictions, np.array([self.draws]), getattr(block, _label_field(block))[None], parts)
        step = 1 if by_samples else max(1, BATCH // block.n)  # every replicate of samples is scored by its own
        for start in range(0, self.draws, step):
            numbers = np.arange(start, min(start + step, self.draws))
            labels = draw(block, rows, self.plan, numbers, first)
            if by_samples:
                predictions = self._by_target(reference_samples(block, self.plan, start, first), parts)
            self._add_replicates(predictions, numbers, labels, parts)

    def _by_target(self, predictions: Any, parts: list[np.ndarray]) -> list[tuple[int, Any, Any]]:
        """For each target with rows: its predictions, and those that functions get (classes as probabilities)."""
        for_functions = predictions
        if self.functions and isinstance(predictions, Classification):
            pieces = []
            for _, scores in predictions.score_blocks():
                p = scores[0].astype(np.float64)
                p = p if predictions.kind == "probs" else np.exp(p - p.max(axis=1, keepdims=True))
                pieces.append(p / p.sum(axis=1, keepdims=True))
            for_functions = replace(predictions, kind="probs", scores=np.concatenate(pieces)[None])
        return [
            (k, *(item if len(rows) == item.n else item[rows] for item in (predictions, for_functions)))
            for k, rows in enumerate(parts)
            if len(rows)
        ]

    def _add_replicates(
        self, predictions: list[tuple[int, Any, Any]], numbers: np.ndarray, labels: np.ndarray, parts: list[np.ndarray]
    ) -> None:
        """Compute every statistic of these replicates, with labels (R, n)."""
        specs = list(self.specs.values())
        for k, part, for_functions in predictions:
            own = labels[..., parts[k]]
            for key, statistic in self.functions.items():
                if statistic.vectorised:
                    self.values[key][k, numbers] = _call(statistic, own, for_functions, (len(own),))
                else:
                    self.values[key][k, numbers] = [_call(statistic, one, for_functions, ()) for one in own]
            for number, one in zip(numbers.tolist(), own, strict=True) if specs else ():
                state = self.accumulators.get((k, number)) or Accumulated.of(specs, part)
                labelled = replace(part, **{_label_field(part): one})
                columns = frozenset().union(*(spec.metric.required_columns(spec, labelled) for spec in specs))
                with np.errstate(over="ignore", invalid="ignore"):
                    light = all(spec.metric.short_pass for spec in specs)
                    state.add(rows_of(labelled, columns, threads=1, light=light), spread=False)
                if self.plan.whole:
                    self._store(k, number, state)
                else:
                    self.accumulators[k, number] = state

    def _store(self, k: int, number: int, state: Accumulated) -> None:
        for key, estimate in state.estimates(VALUES_ONLY).items():
            self.values[key][k, number] = estimate.value

    def laws(self) -> list[dict[str, Law]]:
        """The replicates of each target."""
        for (k, number), state in self.accumulators.items():
            self._store(k, number, state)
        return [
            {key: Replicates(float(values[k, -1]), values[k, :-1]) for key, values in self.values.items()}
            for k in range(len(self.targets.parts))
        ]


def _label_field(predictions: Any) -> str:
    """The field of the labels."""
    return "correct" if isinstance(predictions, Judged) else "y" if isinstance(predictions, Regression) else "labels"


def _call(statistic: Statistic, labels: np.ndarray, predictions: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The value of a user function on a set of labels (n,), or values (R,) on many of them (R, n), validated."""

    def error(got: str, hint: str) -> UsageError:
        return UsageError(f"statistic {show(statistic.name)}", expected="a number", got=got, hint=hint)

    labels = labels.view()
    labels.flags.writeable = False  # later statistics use the same array
    try:
        value = statistic.function(labels, predictions)  # type: ignore[misc]
    except CalibrantError:
        raise
    except Exception as problem:
        text = plain(f"{type(problem).__name__}: {problem}", 150)
        raise error(f"it raised {text}", "call the function on the observed labels") from problem
    returned = f"{shape[0]} numbers, one for each set of labels" if shape else "a number"
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise error(f"it returned {type(value).__name__}", f"return {returned}") from None
    if array.shape != shape:
        hint = f"return {returned}" if shape else "return one number, or make several statistics"
        raise error(f"it returned shape {array.shape}", hint)
    if np.isnan(array).any():
        raise error(f"it returned {math.nan}", "return a value, or infinity, for every set of labels")
    return array
