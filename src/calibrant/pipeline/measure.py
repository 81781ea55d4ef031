"""Values without intervals: `measure` for whole inputs, `score_rows` for single rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from calibrant.errors import NotApplicable, UsageError, show
from calibrant.kernels.rows import rows_of
from calibrant.pipeline.evaluate import KINDS, inputs_of
from calibrant.pipeline.runner import InputRunner
from calibrant.pipeline.select_metrics import Input, applicable, requested_by_name
from calibrant.predictions import Classification, Judged, Regression
from calibrant.predictions.files.stream import Stream
from calibrant.registry.estimate import Settings
from calibrant.registry.metric import Skipped, Spec
from calibrant.registry.state.accumulators import Mean


def measure(
    predictions: Input, metrics: str | Iterable[str] | None = None, *, threads: int | None = None
) -> dict[str, float]:
    """Compute metric values alone, without intervals, null bands or curves.

    Parameters
    ----------
    predictions : Classification, Judged, Regression, Detection or Stream
        One input.
    metrics : str or iterable of str, optional
        Spec strings such as ``"nll,ece(bins=10)"``; ``"default"``, as without any, for about ten main metrics,
        ``"report"`` for every metric of linear or sort cost that applies, and ``"all"`` for every metric that applies.
    threads : int, optional
        Threads; all cores by default.

    Returns
    -------
    dict of str to float
        The value of each metric by its spec string.

    Raises
    ------
    NotApplicable
        If a metric is named that these predictions cannot give.

    Examples
    --------
    >>> import calibrant as cal
    >>> predictions = cal.Classification.from_probs([[0.8, 0.2], [0.4, 0.6]], [0, 1])
    >>> cal.measure(predictions, "accuracy")
    {'accuracy': 1.0}
    """
    settings = Settings(intervals=False, threads=threads)
    (source,) = inputs_of(predictions) if isinstance(predictions, KINDS) else inputs_of([predictions])
    result = InputRunner(source, metrics, settings).result(values_only=True)
    _refuse_skipped(result.skipped, metrics)
    return {spec: estimate.value for spec, estimate in result.metrics.items()}


def score_rows(
    predictions: Classification | Judged | Regression, metrics: str | Iterable[str], *, threads: int | None = None
) -> dict[str, np.ndarray]:
    """Compute the score of each row whose mean is the metric: proper scores, row uncertainties, PIT values.

    Parameters
    ----------
    predictions : Classification, Judged or Regression
        Predictions in memory.
    metrics : str or iterable of str
        Spec strings of metrics that are means over rows, such as ``"nll,brier"``; ``"default"``, ``"report"``
        or ``"all"`` for those of a set of metrics that apply and are such means.
    threads : int, optional
        Threads; all cores by default.

    Returns
    -------
    dict of str to ndarray of shape (N,)
        The scores of all rows by spec string.

    Examples
    --------
    >>> import calibrant as cal
    >>> predictions = cal.Classification.from_probs([[0.75, 0.25], [0.5, 0.5]], [0, 1])
    >>> cal.score_rows(predictions, "brier")["brier"].tolist()
    [0.125, 0.5]
    """
    (source,) = inputs_of([predictions])
    if isinstance(source, Stream):
        raise UsageError(
            "score_rows",
            expected="predictions in memory",
            got="a stream",
            hint="call it for each block of stream.blocks()",
        )
    specs, skipped = applicable(metrics, source)
    _refuse_skipped(skipped, metrics)
    named = requested_by_name(metrics)
    means: dict[str, tuple[Spec, Mean]] = {}
    for spec in specs:
        accumulator = spec.metric.accumulate(spec, source)
        if isinstance(accumulator, Mean) and accumulator.transform is float:
            means[spec.text] = (spec, accumulator)
        elif spec.text in named:
            expected, got = "a metric that is the mean of a score of each row", "another kind of metric"
            raise NotApplicable(spec.text, expected=expected, got=got, hint="see `calibrant metrics`")
    columns = frozenset().union(*(spec.metric.required_columns(spec, source) for spec, _ in means.values()))
    rows = rows_of(source, columns, threads=threads)
    return {text: np.array(mean.score(rows), np.float64) for text, (_, mean) in means.items()}


def _refuse_skipped(skipped: Mapping[str, Skipped], metrics: str | Iterable[str] | None) -> None:
    """Raise for a metric that was named and cannot be computed."""
    named = requested_by_name(metrics)
    for text, reason in skipped.items():
        if text in named:
            raise NotApplicable(
                text, expected="a metric that applies", got=f"{show(text)} ({reason.text})", hint="leave it out"
            )
