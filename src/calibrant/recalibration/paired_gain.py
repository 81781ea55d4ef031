"""`improvement`: the gain in proper scores from one set of predictions to another of the same rows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from calibrant.errors import LabelsError, NotApplicable, UsageError, check_range, show
from calibrant.pipeline.measure import score_rows
from calibrant.pipeline.sample_size import Progress, check_pair, value_by_size
from calibrant.predictions import InMemory
from calibrant.registry import lookup
from calibrant.registry.metric import Spec
from calibrant.results.improvement import KNOWN, Gain, Improvement, root_of


def improvement(
    before: InMemory, after: InMemory, scores: str | Iterable[str] | None = None, *, injective: bool | None = None,
    metrics: str | Iterable[str] | None = None, sizes: bool | Iterable[int] = True, repeats: int | None = None,
    units: str | None = None, level: float = 0.95, seed: int = 0, threads: int | None = None,
    progress: Progress | None = None,
) -> Improvement:  # fmt: skip
    """Measure the gain in proper scores from `before` to `after`, with paired intervals.

    Parameters
    ----------
    before, after : Classification, Judged or Regression
        Predictions of the same rows.
    scores : str or iterable of str, optional
        Proper scores that are means over rows, or rbs; by default nll, brier and rbs, for regression dss, nll and
        crps, for quantiles pinball at the shared levels.
    injective : bool, optional
        Whether `after` is an injective map of `before`; predictions from `transform` know.
    metrics : str or iterable of str, optional
        The metrics to compare on subsets; by default the usual calibration errors.
    sizes : bool or iterable of int
        Whether to also compare `metrics` on random subsets of different sizes, or these sizes.
    repeats : int, optional
        The number of subsets of each size.
    units : str, optional
        A column that identifies dependent rows.
    level : float
        The level of the intervals.
    seed : int
        The seed of the subsets.
    threads : int, optional
        Number of threads; by default all cores.
    progress : callable, optional
        Called with a text, the number of steps done and their total.

    Returns
    -------
    Improvement
        A `Gain` for each score by its name; prints as a table.

    Examples
    --------
    >>> import calibrant as cal
    >>> p = cal.Classification.from_logits([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]] * 50, [0, 1, 0, 0] * 25)
    >>> after = cal.recalibration.TemperatureScaling().fit(p).transform(p)
    >>> gain = cal.recalibration.improvement(p, after, "nll", sizes=False)
    >>> round(gain["nll"].gain, 3), gain.map
    (0.109, 'injective')
    """
    check_pair(before, after)
    if not before.has_labels:
        hint = "give the observed outcome of each row"
        raise LabelsError(before.name, expected="labels", got="no labels", hint=hint)
    level = check_range("level", level, 0, 1, inclusive="neither", hint="use level=0.95")
    # The recalibration steps that led from one to the other, as far as the predictions know.
    earlier, steps = (item.info.meta.get("recalibration", {}).get("steps", []) for item in (before, after))
    steps = steps[len(earlier) :] if steps[: len(earlier)] == earlier else steps
    codes = None if units is None else np.unique(before.column(units), return_inverse=True)[1].ravel()
    gains = {}
    for score in _scores_of_both(scores, before, after):
        pair = [score_rows(item, root_of(score) or score, threads=threads) for item in (before, after)]
        (rows_before,), (rows_after,) = (rows.values() for rows in pair)
        gains[score] = Gain.of(score, rows_before, rows_after, before.weights, codes, level)
    by_size = None
    if sizes is not False:
        by_size = value_by_size(
            before, metrics, after=after, sizes=None if sizes is True else sizes, repeats=repeats, seed=seed,
            units=units, threads=threads, progress=progress,
        )  # fmt: skip
    method = ", then ".join(step["method"] for step in steps) or None
    if injective is None and steps:
        unknown = any(step["several"] for step in steps)
        kind = KNOWN[2] if unknown else KNOWN[0] if all(step["injective"] for step in steps) else KNOWN[1]
    else:
        kind = {True: KNOWN[0], False: KNOWN[1], None: KNOWN[3]}[injective]
    return Improvement(before.name, after.name, before.n, level, kind, method, gains, by_size)


def default_scores(task: str) -> list[str]:
    """Proper scores among those of a recalibration, and their roots; quantile scores depend on the levels."""
    specs = [lookup.parse(text) for text in lookup.with_role("recalibration", task)]
    quantiles = lookup.with_role("quantile_score")
    return [s.text for s in specs if (s.metric.proper or s.metric.root_of) and s.text not in quantiles]


def _scores_of_both(scores: str | Iterable[str] | None, before: InMemory, after: InMemory) -> list[str]:
    """The named scores; one that is not proper, or that either side does not support, is refused.

    By default the scores that both support; for quantiles the pinball loss, at the levels of both.
    """

    def unsupported(spec: Spec) -> str:
        reasons = (spec.metric.unsupported_reason(spec, item) for item in (before, after))
        return next((reason.text for reason in reasons if reason), "")

    def supported(texts: list[str]) -> list[str]:
        return [spec.text for spec in map(lookup.parse, texts) if not unsupported(spec)]

    if scores is not None:
        specs = [lookup.parse(text) for text in (lookup.split(scores) if isinstance(scores, str) else scores)]
        for spec in specs:
            if not spec.metric.proper and not root_of(spec.text):
                hint = ", ".join(name for name, metric in lookup.metrics().items() if metric.proper)
                hint = f"pass it as `metrics`; proper scores are {hint}"
                raise UsageError("improvement", expected="proper scores", got=show(spec.text), hint=hint)
            if got := unsupported(spec):
                raise NotApplicable(spec.text, expected="predictions that support it", got=got, hint="leave it out")
        return [spec.text for spec in specs]
    at_own_levels, *at_shared_levels = lookup.with_role("quantile_score")
    scores = supported(default_scores(before.task))
    levels = [getattr(item, "levels", None) for item in (before, after)]
    if levels[0] is None and levels[1] is None:
        return scores
    if levels[0] is not None and levels[1] is not None and np.array_equal(levels[0], levels[1]):
        return [*scores, at_own_levels]
    return scores + supported(at_shared_levels)[:1]
