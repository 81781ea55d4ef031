"""Pitfalls of what models are compared by: read from the facts of the registry, and from results where there are some.

A metric that is no proper score and not comparable is `biased-errors` unless the registry names another pitfall; AURC
and AAC reject by share and are comparable (Ashukha et al. 2020, section 2.4), AUROC of inside against outside rows asks
every model the same question (section 2.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

from calibrant.comparison.records import Pair, Ranked
from calibrant.comparison.setup import CALIBRATED, PITFALLS, Setup, note
from calibrant.errors import UsageError
from calibrant.predictions.base import Note
from calibrant.registry import Metric

RAW = "uncalibrated-likelihood"
AT_THRESHOLDS = ("accuracy_confidence", "avu")
"""Curves over thresholds of confidence or uncertainty."""
SHOWS = 2.801585
"""Standard errors of the difference that is found in four of five cases, at 5 %."""
DO = {
    "biased-errors": "compare by cll or a proper score, and read it as a test of each model alone",
    "misclassification-auc": "compare by aurc, which rejects by share, or by cll",
    "confidence-thresholds": "reject by share instead: aurc, aac, the rejection curve",
    "spread-alone": "compare by crps, nll or interval_score",
}


def code_of(metric: Metric | None) -> str:
    """The pitfall that comparing by a metric is, or nothing."""
    if metric is None or (metric.comparable and not metric.pitfall):
        return ""
    return metric.pitfall or "biased-errors"


def incomparable_scores(setup: Setup) -> Iterator[Note]:
    """Metrics that are not comparable between models, the likelihoods apart."""
    if not setup.several:
        return
    for code, do in DO.items():
        specs = {text: metric for text, metric in setup.compared.items() if code_of(metric) == code}
        if specs:
            ranked = " and ranked" if setup.rank_by in specs else ""
            first = next(metric for metric in specs.values() if metric is not None)
            why = first.bias.partition(". ")[0].rstrip(".") or PITFALLS[code].title
            yield note(code, f"models are compared{ranked} by {_listed(specs)} ({why}): {do}")


def threshold_curves(setup: Setup) -> Iterator[Note]:
    """Curves over confidence thresholds."""
    found = [name for name in setup.curves if name.partition("(")[0] in AT_THRESHOLDS]
    if setup.several and found:
        said = "leave other shares of rows for models of other temperatures"
        yield note(
            "confidence-thresholds", f"curves over thresholds ({_listed(found)}) {said}: use the rejection curve"
        )


def uncalibrated_likelihood(setup: Setup) -> Iterator[Note]:
    """NLL or Brier score without the calibrated one beside it, or ranked by."""
    raw = [text for text, metric in setup.compared.items() if code_of(metric) == RAW]
    if not setup.several or setup.kind == "regression" or not raw:
        return
    beside = [text for text in setup.compared if text in CALIBRATED]
    others = [text for text in raw if not ("brier_ts" in beside and text.startswith("brier"))]
    if setup.rank_by in raw:
        yield note(RAW, f"models are ranked by {setup.rank_by} before temperature{_turned(setup)}: rank by cll")
    elif "cll" not in beside and others:
        said = "before temperature, which mixes a model with its temperature"
        yield note(RAW, f"models are compared by {_listed(others)} {said}: put cll beside it, and rank by cll")


def _turned(setup: Setup) -> str:
    """Whether the order by cll is another, where both are known."""
    ranks = {} if setup.comparison is None else setup.comparison.ranks
    if "cll" not in ranks or setup.rank_by not in ranks:
        return ""
    raw, calibrated = ({item.model: item.rank for item in ranks[score]} for score in (setup.rank_by, "cll"))
    moved = [name for name in raw if raw[name] != calibrated.get(name)]
    if not moved:
        return " (by cll the order is the same here)"
    first, second = _best(ranks[setup.rank_by]), _best(ranks["cll"])
    best = f", and {second} is the best, not {first}" if first != second else ""
    return f" (by cll the order is another: {len(moved)} of {len(raw)} models change place{best})"


def _best(ranked: tuple[Ranked, ...]) -> str:
    return min(ranked, key=lambda item: item.rank).model


def no_direction(setup: Setup) -> Iterator[Note]:
    """Ranked by what is neither better high nor low."""
    metric = setup.compared.get(setup.rank_by)
    if setup.several and metric is not None and metric.direction == "none" and not code_of(metric):
        said = f"models are ranked by {setup.rank_by}, of which neither high nor low is better"
        yield note("no-direction", f"{said}: rank by cll or a proper score")


def too_small(setup: Setup) -> Iterator[Note]:
    """The best two do not differ beyond chance: with how many rows they would."""
    comparison = setup.comparison
    if comparison is None or len(comparison.ranking) < 2:
        return
    first, second = (item.model for item in comparison.ranking[:2])
    try:
        pair = comparison.pair(first, second, comparison.rank_by)
    except UsageError:  # only pairs with the baseline were asked for
        return
    if math.isnan(pair.difference) or pair.different:
        return
    what = "rows" if setup.units is None else "units"
    said = f"{first} and {second}, the best two by {comparison.rank_by}, do not differ beyond chance on {pair.n} {what}"
    needed = rows_needed(pair)
    do = "no difference was seen at all"
    if math.isfinite(needed):
        do = f"about {float(f'{needed:.2g}'):.0f} {what} would be needed"
    yield note("too-small", f"{said}: {do}; do not call either of them better")


def rows_needed(pair: Pair) -> float:
    """Rows at which a difference as large as the observed one is found in four of five cases."""
    detectable = pair.detectable
    if math.isnan(detectable):
        detectable = SHOWS * (pair.high - pair.low) / (2.0 * NormalDist().inv_cdf(0.5 + pair.level / 2.0))
    if pair.difference == 0.0 or not math.isfinite(detectable):
        return math.inf
    return max(pair.n * (detectable / abs(pair.difference)) ** 2, pair.n + 1.0)


def _listed(names: object) -> str:
    texts = [str(name) for name in names]  # type: ignore[attr-defined]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


RULES = (incomparable_scores, threshold_curves, uncalibrated_likelihood, no_direction, too_small)
