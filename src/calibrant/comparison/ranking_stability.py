"""Rank flips: rankings of models by one calibration error under many settings (Ashukha et al. 2020, figure 7).

TACE has a number of bins and a threshold, ECE a number of bins and a kind of binning. No setting is the right one, and
each may rank a different model first. Rank 1 is the smallest error; ties share the smaller rank, and undefined values
come last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calibrant.errors import UsageError, show
from calibrant.pipeline.evaluate import inputs_of
from calibrant.pipeline.measure import measure
from calibrant.pipeline.select_metrics import Input
from calibrant.registry import lookup
from calibrant.registry.metric import Spec
from calibrant.results.rank_flips import RankFlips

BINS = (5, 10, 15, 20, 50, 100)
THRESHOLDS = (0.0, 1e-4, 1e-3, 1e-2, 0.1)


def rank_flips(
    models: Mapping[str, Input] | Iterable[Input],
    metric: str = "tace",
    *,
    bins: Sequence[int] = BINS,
    thresholds: Sequence[float] = THRESHOLDS,
    threads: int | None = None,
) -> RankFlips:
    """Rank models by a calibration error for every number of bins and threshold, or kind of binning.

    Parameters
    ----------
    models
        At least two predictions, or a mapping of names to predictions.
    metric : str
        The spec of a metric with `bins`, such as "tace", "ece" or "cwce(p=1)".
    bins : sequence of int
        Numbers of bins.
    thresholds : sequence of float
        Thresholds, for a metric with `threshold`. A metric with `binning` gets equal-width and equal-mass bins instead.
    threads : int, optional
        Number of threads; all cores by default.

    Returns
    -------
    RankFlips
        Values and ranks by setting and model; printing shows how the ranks change.

    Examples
    --------
    >>> import calibrant as cal
    >>> one = cal.Classification.from_probs([0.1, 0.4, 0.8, 0.9], [0, 0, 1, 1])
    >>> two = cal.Classification.from_probs([0.2, 0.3, 0.6, 0.7], [0, 0, 1, 1])
    >>> flips = cal.comparison.rank_flips({"one": one, "two": two}, "ece", bins=(5, 10))
    >>> flips.first
    {'one': 4, 'two': 0}
    """
    inputs = inputs_of(models, "rank_flips")
    if len(inputs) < 2:
        raise UsageError("rank_flips", expected="at least two models", got=f"{len(inputs)}", hint="give them by name")
    spec = lookup.parse(metric)
    options = [option.name for option in spec.metric.options]
    if "bins" not in options:
        hint = "use tace, ece, cwce or mce"
        raise UsageError("rank_flips", expected="a metric with bins", got=show(spec.text), hint=hint)
    second: list[dict[str, Any]] = [{}]
    if "threshold" in options:
        second = [{"threshold": float(value)} for value in thresholds]
    elif "binning" in options:
        second = [{"binning": value} for value in spec.metric.option("binning").choices]
    variants = [{**spec.options, **other, "bins": int(count)} for other in second for count in bins]
    settings = list(dict.fromkeys(Spec.make(spec.metric, **variant).text for variant in variants))
    if not settings:
        raise UsageError("rank_flips", expected="at least one setting", got="none", hint="omit bins")
    measured = [measure(item, settings, threads=threads) for item in inputs]
    values = tuple(tuple(float(own[setting]) for own in measured) for setting in settings)
    return RankFlips(spec.text, tuple(item.name for item in inputs), tuple(settings), values)
