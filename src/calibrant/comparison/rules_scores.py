"""Pitfalls of what models are compared by: read from the facts of the registry, and from results where there are some.

A metric that is no proper score and not comparable is `biased-errors` unless the registry names another pitfall; AURC
and AAC reject by share and are comparable (Ashukha et al. 2020, section 2.4), AUROC of inside against outside rows asks
every model the same question (section 2.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

from calibrant.comparison.listing import listed, shown
from calibrant.comparison.records import Pair, Ranked
from calibrant.comparison.result import Comparison
from calibrant.comparison.setup import CALIBRATED, Setup, note
from calibrant.errors import UsageError
from calibrant.predictions.base import Note
from calibrant.registry import Metric

RAW = "uncalibrated-likelihood"
AT_THRESHOLDS = ("accuracy_confidence", "avu")
"""Curves over thresholds of confidence or uncertainty."""
NORMAL = NormalDist()
POWER = 0.8
SHOWS = NORMAL.inv_cdf(0.975) + NORMAL.inv_cdf(POWER)
"""Standard errors of the difference that is found in four of five cases, at 5 %."""
WHY_AND_DO = {
    "biased-errors": (
        "of calibration alone, and mostly biased by an amount that differs between models",
        "compare by cll or a proper score, and read it as a test of each model alone",
    ),
    "misclassification-auc": (
        "every model has wrong rows of its own", "compare by aurc, which rejects by share, or by cll",
    ),
    "confidence-thresholds": (
        "at one threshold models of other temperatures leave other shares of rows",
        "reject by share instead: aurc, aac, the rejection curve",
    ),
    "spread-alone": ("narrow is good only where it covers", "compare by crps, nll or interval_score"),
}  # fmt: skip


def code_of(metric: Metric | None) -> str:
    """The pitfall that comparing by a metric is, or nothing."""
    if metric is None or (metric.comparable and not metric.pitfall):
        return ""
    return metric.pitfall or "biased-errors"


def incomparable_scores(setup: Setup) -> Iterator[Note]:
    """Metrics that are not comparable between models, the likelihoods apart."""
    if not setup.several:
        return
    for code, (why, do) in WHY_AND_DO.items():
        specs = [text for text, metric in setup.compared.items() if code_of(metric) == code]
        if specs:
            ranked = " and ranked" if setup.rank_by in specs else ""
            yield note(code, f"models are compared{ranked} by {listed(specs, whole=True)} ({why}): {do}")


def threshold_curves(setup: Setup) -> Iterator[Note]:
    """Curves over confidence thresholds."""
    found = [name for name in setup.curves if name.partition("(")[0] in AT_THRESHOLDS]
    if setup.several and found:
        said = "leave other shares of rows for models of other temperatures"
        yield note(
            "confidence-thresholds",
            f"curves over thresholds ({listed(found, whole=True)}) {said}: use the rejection curve",
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
        yield note(
            RAW, f"models are compared by {listed(others, whole=True)} {said}: put cll beside it, and rank by cll"
        )


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
    best = f", and {shown(second)} is the best, not {shown(first)}" if first != second else ""
    return f" (by cll the order is another: {len(moved)} of {len(raw)} models change place{best})"


def _best(ranked: tuple[Ranked, ...]) -> str:
    return min(ranked, key=lambda item: item.rank).model


def no_direction(setup: Setup) -> Iterator[Note]:
    """Ranked by what is neither better high nor low."""
    metric = setup.compared.get(setup.rank_by)
    if setup.several and metric is not None and metric.direction == "none" and not code_of(metric):
        said = f"models are ranked by {setup.rank_by}, of which neither high nor low is better"
        yield note("no-direction", f"{said}: rank by cll or a proper score")


# ------------------------------------------------------------------------------------------------- results
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
    if not math.isfinite(pair.difference) or pair.different or not _can_be_told(comparison, pair):
        return
    said = f"{shown(first)} and {shown(second)}, the best two by {comparison.rank_by}, do not differ beyond chance"
    do = f"{_needed(comparison, pair, setup)}; do not call either of them better"
    yield note("too-small", f"{said} on {_counted(pair.n, setup)}: {do}")


def too_few_units(setup: Setup) -> Iterator[Note]:
    """So few units that no p-value passes the correction for so many pairs, whatever the models are."""
    comparison = setup.comparison
    tested = [] if comparison is None else _tested(comparison, comparison.rank_by)
    if comparison is None or not tested or _can_be_told(comparison, tested[0]):
        return
    n, pairs, level = tested[0].n, len(tested), tested[0].level
    others = len(comparison.ranking) - 1
    do = []
    if comparison.baseline is None and others < pairs and least_units(others, level) <= n:
        do.append(f"name a baseline ({others} pair{'s' if others > 1 else ''})")
    if pairs > 1 and least_units(1, level) <= n:
        do.append("compare fewer models")
    do.append(f"take at least {least_units(pairs, level)} {_what(setup)}s")
    floor = smallest_p(n)
    corrected = f", and {min(1.0, pairs * floor):.2f} after correction for {pairs} pairs" if pairs > 1 else ""
    said = f"{_counted(n, setup)} allow{'s' if n == 1 else ''} p ≥ {_rounded(floor)}{corrected}: no pair can be told"
    yield note("too-few-units", f"{said}; {', '.join(do[:-1])}{', or ' if len(do) > 1 else ''}{do[-1]}")


def smallest_p(units: int) -> float:
    """The least two-sided p-value by flips of the signs of so many units."""
    return min(1.0, 2.0 ** (1 - units))


def least_units(pairs: int, level: float) -> int:
    """The units from which on one of so many pairs can be told at all."""
    return max(2, math.ceil(math.log2(2.0 * pairs / (1.0 - level)) - 1e-9))


def _can_be_told(comparison: Comparison, pair: Pair) -> bool:
    """Whether the least p-value passes Holm's first step; over data sets p-values are no flips."""
    if comparison.datasets:
        return True
    return len(_tested(comparison, pair.score)) * smallest_p(pair.n) <= 1.0 - pair.level + 1e-12


def _tested(comparison: Comparison, score: str) -> list[Pair]:
    """The pairs that the correction counts."""
    return [pair for pair in comparison.pairs if pair.score == score and not math.isnan(pair.p_value)]


def _needed(comparison: Comparison, pair: Pair, setup: Setup) -> str:
    if pair.difference == 0.0:
        return "no difference was seen at all"
    needed = rows_needed(pair, len(_tested(comparison, pair.score)))
    if not math.isfinite(needed):
        return f"how many {_what(setup)}s would be needed cannot be said"
    if needed <= pair.n:
        return f"somewhat more {_what(setup)}s would be needed"
    return f"about {_rounded_up(needed):.0f} {_what(setup)}s would be needed"


def rows_needed(pair: Pair, pairs: int = 1) -> float:
    """Rows at which a difference as large as the observed one passes Holm's first step in four of five cases.

    That step asks of one pair of so many a p-value of at most (1 − level)/pairs: n·((z + z_power)·se/d)² rows.
    """
    error = pair.detectable / SHOWS
    if math.isnan(error):
        error = (pair.high - pair.low) / (2.0 * NORMAL.inv_cdf(0.5 + pair.level / 2.0))
    if pair.difference == 0.0 or not math.isfinite(error):
        return math.inf
    z = NORMAL.inv_cdf(1.0 - (1.0 - pair.level) / (2.0 * max(pairs, 1)))
    return pair.n * ((z + NORMAL.inv_cdf(POWER)) * error / abs(pair.difference)) ** 2


def _rounded_up(value: float) -> float:
    """Two digits, never less."""
    step = 10.0 ** max(math.floor(math.log10(value)) - 1, 0)
    return math.ceil(value / step - 1e-9) * step


def _rounded(p: float) -> str:
    return f"{p:.4f}" if p < 0.1 else f"{p:.2f}"


def _what(setup: Setup) -> str:
    return "row" if setup.units is None else "unit"


def _counted(n: int, setup: Setup) -> str:
    return f"one {_what(setup)}" if n == 1 else f"{n} {_what(setup)}s"


RULES = (incomparable_scores, threshold_curves, uncalibrated_likelihood, no_direction, too_small, too_few_units)
