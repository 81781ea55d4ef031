"""Pitfalls of the compared scores, from registry metadata and from results if there are some.

A metric that is not comparable between models is `biased-errors` unless the registry names another pitfall. AURC and
AAC are comparable because they fix the coverage (Ashukha et al. 2020, section 2.4), AUROC for OOD detection because
every model solves the same problem (section 2.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

from calibrant.comparison.name_lists import listed, shown
from calibrant.comparison.pitfalls.setup import Setup, note
from calibrant.errors import UsageError
from calibrant.predictions.base import Note
from calibrant.registry.comparison_scores import COMPARISON_SCORES
from calibrant.registry.metric import Metric
from calibrant.results.comparison import Comparison, Pair

RAW = "uncalibrated-likelihood"
AT_THRESHOLDS = ("accuracy_confidence", "avu")
"""Curves over thresholds of confidence or uncertainty."""
NORMAL = NormalDist()
POWER = 0.8
DETECTABLE = NORMAL.inv_cdf(0.975) + NORMAL.inv_cdf(POWER)
"""The difference detected with 80% power at the 5% level, in standard errors."""
REASONS = {
    "biased-errors": (
        "calibration alone, mostly with a bias that differs between models",
        "compare by cll or a proper score, and test the calibration of each model by itself",
    ),
    "misclassification-auc": (
        "every model makes different errors", "compare by aurc, which fixes the coverage, or by cll",
    ),
    "confidence-thresholds": (
        "at a fixed threshold, models with different temperatures retain different fractions of rows",
        "compare at fixed coverage: aurc, aac, the rejection curve",
    ),
    "spread-alone": ("narrow is better only at equal coverage", "compare by crps, nll or interval_score"),
}  # fmt: skip


def code_of(metric: Metric | None) -> str:
    """The pitfall of comparing by a metric; empty if there is none."""
    if metric is None or (metric.comparable and not metric.pitfall):
        return ""
    return metric.pitfall or "biased-errors"


def incomparable_scores(setup: Setup) -> Iterator[Note]:
    """Metrics that are not comparable between models, except likelihoods."""
    if not setup.several:
        return
    for code, (why, hint) in REASONS.items():
        specs = [text for text, metric in setup.compared.items() if code_of(metric) == code]
        if specs:
            ranked = " and ranked" if setup.rank_by in specs else ""
            yield note(code, f"models are compared{ranked} by {listed(specs, whole=True)} ({why}): {hint}")


def threshold_curves(setup: Setup) -> Iterator[Note]:
    """Curves over confidence thresholds."""
    curves = [name for name in setup.curves if name.partition("(")[0] in AT_THRESHOLDS]
    if setup.several and curves:
        text = "retain different fractions of rows for models with different temperatures"
        yield note(
            "confidence-thresholds",
            f"curves over thresholds ({listed(curves, whole=True)}) {text}: use the rejection curve",
        )


def uncalibrated_likelihood(setup: Setup) -> Iterator[Note]:
    """NLL or Brier score without their calibrated counterparts, or used for ranking."""
    raw = [text for text, metric in setup.compared.items() if code_of(metric) == RAW]
    if not setup.several or setup.kind == "regression" or not raw:
        return
    calibrated = {COMPARISON_SCORES[name].raw for name in setup.compared if name in COMPARISON_SCORES}
    others = [text for text in raw if text.partition("(")[0] not in calibrated]
    if setup.rank_by in raw:
        changes = _rank_changes(setup)
        yield note(RAW, f"models are ranked by {setup.rank_by} before temperature scaling{changes}: rank by cll")
    elif "cll" not in setup.compared and others:
        text = "before temperature scaling, which depends on how each temperature happens to be set"
        yield note(RAW, f"models are compared by {listed(others, whole=True)} {text}: add cll, and rank by it")


def _rank_changes(setup: Setup) -> str:
    """How the ranking by cll differs, if both are known."""
    ranks = {} if setup.comparison is None else setup.comparison.ranks
    if "cll" not in ranks or setup.rank_by not in ranks:
        return ""
    raw, calibrated = ({item.model: item.rank for item in ranks[score]} for score in (setup.rank_by, "cll"))
    moved = [name for name in raw if raw[name] != calibrated.get(name)]
    if not moved:
        return " (the ranking by cll is the same here)"
    first, second = (min(ranks[score], key=lambda item: item.rank).model for score in (setup.rank_by, "cll"))
    best = f", and {shown(second)} is the best, not {shown(first)}" if first != second else ""
    return f" (the ranking by cll differs: {len(moved)} of {len(raw)} models change place{best})"


def no_direction(setup: Setup) -> Iterator[Note]:
    """Ranking by a metric without a direction."""
    metric = setup.compared.get(setup.rank_by)
    if setup.several and metric is not None and metric.direction == "none" and not code_of(metric):
        text = f"models are ranked by {setup.rank_by}, for which neither high nor low is better"
        yield note("no-direction", f"{text}: rank by cll or a proper score")


def too_small(setup: Setup) -> Iterator[Note]:
    """The best two models are not significantly different; how many rows it would take."""
    comparison = setup.comparison
    if comparison is None or len(comparison.ranking) < 2:
        return
    first, second = (item.model for item in comparison.ranking[:2])
    try:
        pair = comparison.pair(first, second, comparison.rank_by)
    except UsageError:  # only pairs with the baseline were compared
        return
    if not math.isfinite(pair.difference) or pair.different or not _can_be_significant(comparison, pair):
        return
    noun, needed = _noun(setup), rows_needed(pair, len(_tested(comparison, pair.score)))
    if pair.difference == 0.0:
        hint = "no difference was observed"
    elif not math.isfinite(needed):
        hint = f"the number of {noun}s needed cannot be estimated"
    elif needed <= pair.n:
        hint = f"slightly more {noun}s are needed"
    else:
        step = 10.0 ** max(math.floor(math.log10(needed)) - 1, 0)  # two digits, rounded up
        hint = f"about {math.ceil(needed / step - 1e-9) * step:,.0f} {noun}s are needed"
    text = f"{shown(first)} and {shown(second)}, the best two by {comparison.rank_by}, are not significantly different"
    yield note("too-small", f"{text} on {_count(pair.n, setup)}: {hint}; do not call either of them better")


def too_few_units(setup: Setup) -> Iterator[Note]:
    """So few units that no p-value can be significant after correction, whatever the models are."""
    comparison = setup.comparison
    tested = [] if comparison is None else _tested(comparison, comparison.rank_by)
    if comparison is None or not tested or _can_be_significant(comparison, tested[0]):
        return
    n, pairs, level = tested[0].n, len(tested), tested[0].level
    others = len(comparison.ranking) - 1
    hint = []
    if comparison.baseline is None and others < pairs and least_units(others, level) <= n:
        hint.append(f"name a baseline ({others} pair{'s' if others > 1 else ''})")
    if pairs > 1 and least_units(1, level) <= n:
        hint.append("compare fewer models")
    hint.append(f"collect at least {least_units(pairs, level)} {_noun(setup)}s")
    floor = smallest_p(n)
    corrected = f", and {min(1.0, pairs * floor):.2f} after correction for {pairs} pairs" if pairs > 1 else ""
    smallest = f"{floor:.4f}" if floor < 0.1 else f"{floor:.2f}"
    text = f"{_count(n, setup)} allow{'s' if n == 1 else ''} p ≥ {smallest}{corrected}: no pair can be significant"
    yield note("too-few-units", f"{text}; {', '.join(hint[:-1])}{', or ' if len(hint) > 1 else ''}{hint[-1]}")


def smallest_p(units: int) -> float:
    """The smallest two-sided p-value of a sign-flip test of this many units."""
    return min(1.0, 2.0 ** (1 - units))


def least_units(pairs: int, level: float) -> int:
    """The smallest number of units with which one of this many pairs can be significant."""
    return max(2, math.ceil(math.log2(2.0 * pairs / (1.0 - level)) - 1e-9))


def _can_be_significant(comparison: Comparison, pair: Pair) -> bool:
    """Whether the smallest p-value passes Holm's first step; over data sets p-values are not from sign flips."""
    if comparison.datasets:
        return True
    return len(_tested(comparison, pair.score)) * smallest_p(pair.n) <= 1.0 - pair.level + 1e-12


def _tested(comparison: Comparison, score: str) -> list[Pair]:
    """The pairs that are corrected for."""
    return [pair for pair in comparison.pairs if pair.score == score and not math.isnan(pair.p_value)]


def rows_needed(pair: Pair, pairs: int = 1) -> float:
    """Rows at which a difference as large as the observed one passes Holm's first step with 80% power.

    That step requires a p-value of at most (1 − level)/pairs: n·((z + z_power)·se/d)² rows.
    """
    error = pair.detectable / DETECTABLE
    if math.isnan(error):
        error = (pair.high - pair.low) / (2.0 * NORMAL.inv_cdf(0.5 + pair.level / 2.0))
    if pair.difference == 0.0 or not math.isfinite(error):
        return math.inf
    z = NORMAL.inv_cdf(1.0 - (1.0 - pair.level) / (2.0 * max(pairs, 1)))
    return pair.n * ((z + NORMAL.inv_cdf(POWER)) * error / abs(pair.difference)) ** 2


def _noun(setup: Setup) -> str:
    return "row" if setup.units is None else "unit"


def _count(n: int, setup: Setup) -> str:
    return f"one {_noun(setup)}" if n == 1 else f"{n} {_noun(setup)}s"


RULES = (incomparable_scores, threshold_curves, uncalibrated_likelihood, no_direction, too_small, too_few_units)
