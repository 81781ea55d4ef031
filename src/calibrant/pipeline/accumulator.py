"""`Accumulator`: batches of predictions, evaluated at any moment, and merged across processes.

With `rows=True` the batches are kept, so that every metric is there, in the bits of one `evaluate` of all rows; the
memory is that of the arrays, `nbytes`. With `rows=False` only the metrics that need no rows are computed, from sums of
constant size, which are exact and therefore the same for any batches.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from calibrant.errors import NotApplicable, UsageError, check_choice, show
from calibrant.pipeline.evaluate import describe_input, evaluate
from calibrant.pipeline.runner import PassPlan, PassState
from calibrant.pipeline.select_metrics import applicable
from calibrant.predictions import Classification, InMemory, Judged
from calibrant.predictions.arrays import as_array
from calibrant.registry.estimate import Estimate, Settings
from calibrant.registry.metric import Skipped
from calibrant.results.evaluation import Evaluation, Result
from calibrant.version import __version__

KINDS = ("logits", "log_probs", "probs", "confidence")
NO_ROWS = Skipped("keeps_rows", "it keeps every row; use Accumulator(rows=True)")


class Accumulator:
    """Metrics over batches, as in a training or serving loop.

    Parameters
    ----------
    kind : {"logits", "log_probs", "probs", "confidence"}
        What `add` takes as its first argument.
    metrics : str or iterable of str, optional
        As in `evaluate`.
    rows : bool
        Whether batches are kept. Without them memory is constant, and metrics that sort or redraw rows are skipped.
    level, seed
        As in `evaluate`.
    name : str
        The name in results.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cal
    >>> rng = np.random.default_rng(0)
    >>> logits, labels = rng.normal(size=(300, 4)), rng.integers(0, 4, 300)
    >>> accumulator = cal.Accumulator("logits")
    >>> for start in range(0, 300, 100):
    ...     accumulator.add(logits[start : start + 100], labels[start : start + 100])
    >>> whole = cal.evaluate(cal.Classification.from_logits(logits, labels))
    >>> accumulator.result()["nll"] == whole["nll"]
    True
    """

    def __init__(
        self,
        kind: str = "logits",
        metrics: str | Iterable[str] | None = None,
        *,
        rows: bool = True,
        level: float = 0.95,
        seed: int = 0,
        name: str = "predictions",
    ) -> None:
        self.kind = check_choice("Accumulator: kind", kind, KINDS)
        self.metrics = metrics if metrics is None or isinstance(metrics, str) else list(metrics)
        self.rows, self.level, self.seed, self.name = rows, level, seed, name
        self.n = 0
        self._weighted = False
        self._batches: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = []
        self._state: PassState | None = None
        self._skipped: Mapping[str, Skipped] = {}

    @property
    def nbytes(self) -> int:
        """The memory of the kept batches."""
        return sum(part.nbytes for batch in self._batches for part in batch if part is not None)

    def add(self, scores: Any, labels: Any, weights: Any = None) -> None:
        """Add a batch of NumPy, torch (CPU or CUDA) or JAX arrays, or of anything with DLPack.

        Parameters
        ----------
        scores : array_like of shape (N, C), (M, N, C) or (N,)
            Logits, log-probabilities, probabilities or confidences, as `kind` says.
        labels : array_like of shape (N,)
            Class indices; for confidences, whether the answers are correct.
        weights : array_like of shape (N,), optional
            Sampling weights; for every batch or for none.
        """
        given = (as_numpy(scores, "scores"), as_numpy(labels, "labels"))
        batch = (*given, None if weights is None else as_numpy(weights, "weights"))
        if self.n and self._weighted != (weights is not None):
            hint = "pass weights to every call of add, or to none"
            raise UsageError("Accumulator: weights", expected="weights in every batch", got="some without", hint=hint)
        predictions = self._predictions(batch)
        self._weighted = weights is not None
        if self.rows:
            if (
                self._batches
                and self._batches[0][0].shape[self._row_axis + 1 :] != batch[0].shape[self._row_axis + 1 :]
            ):
                expected, got = f"shape {self._batches[0][0].shape}", f"shape {batch[0].shape}"
                raise UsageError("Accumulator: scores", expected=f"batches like the first, of {expected}", got=got,
                                 hint="start a new Accumulator")  # fmt: skip
            self._batches.append(tuple(None if part is None else part.copy() for part in batch))  # type: ignore[arg-type]
        else:
            self._add_sums(predictions)
        self.n += predictions.n

    @property
    def _row_axis(self) -> int:
        return 1 if self._batches[0][0].ndim == 3 else 0

    def _predictions(self, batch: tuple[np.ndarray, np.ndarray, np.ndarray | None]) -> InMemory:
        scores, labels, weights = batch
        if self.kind == "confidence":
            return Judged.from_confidence(scores, labels, weights=weights, name=self.name)
        return Classification.build(self.kind, scores, labels, weights=weights, name=self.name)

    def _add_sums(self, predictions: InMemory) -> None:
        if self._state is None:
            specs, skipped = applicable(self.metrics, predictions)
            keeping = [spec for spec in specs if spec.metric.keeps_rows(spec) or spec.metric.has_null_band]
            self._skipped = {**skipped, **{spec.text: NO_ROWS for spec in keeping}}
            light = [spec for spec in specs if spec not in keeping]
            if not light:
                hint = "use Accumulator(rows=True), or name metrics such as nll, brier and accuracy"
                raise NotApplicable("Accumulator", expected="a metric that needs no rows", got="none", hint=hint)
            settings = Settings(self.level, 1000, self.seed, True, 1)
            self._state = PassState(PassPlan(light, predictions, settings, [], notes=False))
        self._state.add(predictions, self.n, 1)

    def merge(self, other: Accumulator) -> None:
        """Add the batches of another accumulator, of another process for example; its rows follow the own ones."""
        one, two = (self.kind, self.rows, self.metrics), (other.kind, other.rows, other.metrics)
        if one != two:
            hint = "make both with the same arguments"
            raise UsageError("merge", expected=f"an accumulator of {show(self.kind)}", got=repr(other), hint=hint)
        if other.n and self.n and self._weighted != other._weighted:
            raise UsageError(
                "merge", expected="weights in both or none", got="in one", hint="pass weights to every add"
            )
        if other.n:
            self._weighted = other._weighted
        self._batches += other._batches
        if self._state is None:
            self._state, self._skipped = copy.deepcopy(other._state), other._skipped
        elif other._state is not None:
            self._state.merge(copy.deepcopy(other._state))
        self.n += other.n

    def reset(self) -> None:
        """Forget all batches."""
        self.n, self._batches, self._state = 0, [], None

    def result(self) -> Evaluation:
        """The evaluation of all batches so far; more may be added afterwards."""
        if not self.n:
            hint = "call add(scores, labels) first"
            raise UsageError("Accumulator", expected="at least one batch", got="none", hint=hint)
        if self.rows:
            scores, labels, weights = zip(*self._batches, strict=True)
            whole = (np.concatenate(scores, axis=self._row_axis), np.concatenate(labels))
            weight = np.concatenate(weights) if self._weighted else None
            return evaluate(self._predictions((*whole, weight)), self.metrics, level=self.level, seed=self.seed)
        state: Any = copy.deepcopy(self._state)
        estimates: dict[str, Estimate] = state.metrics.estimates(state.plan.settings)
        facts = describe_input(state.plan.example) | {"n": self.n}
        recorded = {"level": self.level, "seed": self.seed, "rows": False, "metrics": self.metrics or "default"}
        result = Result(self.name, estimates, skipped=self._skipped)
        return Evaluation(__version__, recorded, (facts,), (result,))

    def __repr__(self) -> str:
        return f"Accumulator({self.kind!r}, n={self.n}, rows={self.rows})"


def as_numpy(value: Any, what: str) -> np.ndarray:
    """A NumPy array of a batch; arrays that speak DLPack alone, also those of other devices, are copied to the host."""
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        value = np.from_dlpack(value)
    return as_array(value, what)
