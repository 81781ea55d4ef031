"""A comparison in sentences: which model is best, which differences are not significant, what the columns mean."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibrant.errors import plain
from calibrant.registry.comparison_scores import COMPARISON_SCORES
from calibrant.registry.lookup import metric_label, metrics
from calibrant.render.formatting import count
from calibrant.render.table import elide
from calibrant.results.comparison import Comparison, DatasetsSummary, Pair, Ranked
from calibrant.results.evaluation import COMPARISON, Evaluation

RECALIBRATED = ("cll", "brier_ts")
"""Scores after temperature scaling."""
MAX_NAMES, MAX_NAME = 4, 60
"""Names in one line, and the characters of each."""
BETTER, WORSE, SAME = "significantly better", "significantly worse", "not significantly different"
IDENTICAL = "identical"
OWN_ANSWERS = "own-answers"
"""The code of the note on models that are judged on their own answers."""
UNFIT_SCORES = {
    "misclassification-auc": "every model makes different errors",
    "confidence-thresholds": "models keep different shares of rows at one threshold",
    "spread-alone": "narrow is better only at equal coverage",
}
"""Why the scores of a pitfall cannot rank models; others have a bias that differs between models."""


def model_numbers(comparison: Comparison) -> dict[str, int]:
    """The number of every model in tables and charts: its place in the ranking."""
    return {item.model: place for place, item in enumerate(comparison.ranking, 1)}


def ranking_pairs(comparison: Comparison) -> list[Pair]:
    """The paired differences in the score that models are ranked by."""
    return [pair for pair in comparison.pairs if pair.score == comparison.rank_by]


def join_names(names: Sequence[str], conjunction: str = "") -> str:
    """A list of names, cut after four; `conjunction` joins the last two."""
    if len(names) > MAX_NAMES:
        return f"{', '.join(names[:MAX_NAMES])} and {len(names) - MAX_NAMES} more"
    if conjunction and len(names) > 1:
        return f"{', '.join(names[:-1])} {conjunction} {names[-1]}"
    return ", ".join(names)


# ----------------------------------------------------------------------------------------------- sentences
def comparison_lines(evaluation: Evaluation) -> list[str]:
    """The findings of a comparison of at least two models; empty otherwise."""
    comparison = evaluation.comparison
    if evaluation.kind != COMPARISON or len(comparison.ranking) < 2:
        return []
    unfit = unfit_to_rank(evaluation)
    if comparison.datasets:
        lines = [] if comparison.summary is None else describe_datasets(comparison.summary)
        lines = [unfit, *lines[1:]] if unfit else lines
        lines += [f"{name}: {flips.reading()}" for name, flips in evaluation.flips_by.items()]
    else:
        flips = [] if evaluation.flips is None else [evaluation.flips.reading()]
        lines = [*describe_comparison(comparison, unfit), *flips]
    every = (comparison, *comparison.datasets.values())
    long = {item.model for each in every for item in each.ranking if len(item.model) > MAX_NAME}
    for name in sorted(long, key=lambda name: (-len(name), name)):
        lines = [line.replace(name, elide(plain(name, len(name)), MAX_NAME)) for line in lines]
    return [plain(line) for line in lines]


def unfit_to_rank(evaluation: Evaluation) -> str:
    """Why the ranking score cannot rank these models; empty if it can."""
    score = evaluation.comparison.rank_by
    metric = metrics().get(score.partition("(")[0])
    proper = score in RECALIBRATED or (metric is not None and metric.proper)
    if proper and any(note.code == OWN_ANSWERS for note in evaluation.warnings):
        return f"{metric_label(score)} cannot rank these models: each is judged on its own answers"
    if metric is None or proper or metric.comparable:
        return ""
    return (
        f"{metric_label(score)} cannot rank models: {UNFIT_SCORES.get(metric.pitfall, 'its bias differs between them')}"
    )


def describe_comparison(comparison: Comparison, unfit: str = "") -> list[str]:
    """Which model is best, which are not significantly different, and which scores rank them differently.

    unfit: why the ranking score cannot rank these models; then other scores that can are quoted.
    """
    if unfit:
        fit = [name for name in comparison.ranks if (m := metrics().get(name)) and m.comparable and not m.proper]
        others = [f"by {metric_label(score)} {leader(comparison, score)}" for score in fit]
        return [unfit, *(["; ".join(others)] if others else [])]
    if doubt := describe_instability(comparison):
        return [doubt, *describe_shift(comparison)]
    return [_best_model(comparison), *describe_rank_changes(comparison), *describe_shift(comparison)]


def describe_instability(comparison: Comparison) -> str:
    """That the temperatures behind the ranking are unstable, and what other proper scores say; empty if it is safe.

    It matters if a model that ranks first is unstable, or one that has a better score before temperature scaling.
    """
    if comparison.rank_by not in RECALIBRATED or not comparison.unstable:
        return ""
    raw, first = COMPARISON_SCORES[comparison.rank_by].raw, _first_models(comparison.ranking)
    ranks = {item.model: item.rank for item in comparison.ranks.get(raw, ())}
    best_before = min(ranks.get(name, 0) for name in first)
    if not any(name in first or ranks.get(name, 0) <= best_before for name in comparison.unstable):
        return ""
    pairs, by_units = ranking_pairs(comparison), comparison.splits.get("by_units", False)
    where = count(pairs[0].n, "unit" if by_units else "row") if pairs else "these rows"
    text = f"{metric_label(comparison.rank_by)} is unstable on {where}"
    outcomes: dict[str, list[str]] = {}
    for score in (item.raw for item in COMPARISON_SCORES.values() if item.raw in comparison.ranks):
        outcomes.setdefault(leader(comparison, score), []).append(metric_label(score))
    if not outcomes:
        return f"{text}; add nll and brier to the scores"
    return "; ".join([text, *(f"{join_names(labels, 'and')}: {outcome}" for outcome, labels in outcomes.items())])


def _first_models(ranking: Sequence[Ranked]) -> list[str]:
    best = min(item.rank for item in ranking)
    return [item.model for item in ranking if item.rank == best]


def _not_beaten(comparison: Comparison, score: str, first: Sequence[str]) -> list[str] | None:
    """The other models that are not significantly worse than those ranked first; None without paired differences."""
    pairs = [pair for pair in comparison.pairs if pair.score == score]
    if not pairs:
        return None
    beaten = {pair.first if pair.better == pair.second else pair.second for pair in pairs if pair.better in first}
    return [
        item.model for item in comparison.ranks.get(score, comparison.ranking) if item.model not in {*first, *beaten}
    ]


def leader(comparison: Comparison, score: str) -> str:
    """Which model has the best value of a score, and whether that is significant."""
    first = _first_models(comparison.ranks[score])
    close = _not_beaten(comparison, score, first)
    names = join_names(first, "and")
    if len(first) == len(comparison.ranks[score]):
        return f"{names} tie"
    if close is None:
        return f"{names} {'has' if len(first) == 1 else 'have'} the best value, not tested"
    if close:
        return f"{names} ranks first, but is {SAME} from {join_names(close, 'and')}"
    return f"{names} {'is' if len(first) == 1 else 'are'} {BETTER}"


def _best_model(comparison: Comparison) -> str:
    score, pairs, baseline = metric_label(comparison.rank_by), ranking_pairs(comparison), comparison.baseline
    first, *tied = _first_models(comparison.ranking)
    close = _not_beaten(comparison, comparison.rank_by, [first, *tied])
    if tied and baseline is None:
        within = [pair for pair in pairs if {pair.first, pair.second} <= {first, *tied}]
        identical = bool(within) and all(pair.identical for pair in within)
        text = f"{join_names([first, *tied], 'and')} {'are identical' if identical else 'tie'} by {score}"
        if len(tied) + 1 < len(comparison.ranking) and close is not None:
            text += f", {SAME} from {join_names(close, 'and')}" if close else f", {BETTER} than all others"
        raw = _better_as_given(comparison, {first, *tied}) if identical and len(tied) == 1 else ""
        return f"{text}; {raw}" if raw else text
    if not pairs:
        return f"{first} ranks first by {score}; there are no paired differences to test it"
    if baseline is not None:
        outcomes: dict[str, list[str]] = {BETTER: [], WORSE: [], SAME: [], IDENTICAL: []}
        for pair in pairs:
            other = pair.second if pair.first == baseline else pair.first
            outcome = IDENTICAL if pair.identical else SAME
            outcomes[{other: BETTER, baseline: WORSE}.get(pair.better or "", outcome)].append(other)
        order = model_numbers(comparison)
        parts = [
            f"{join_names(sorted(names, key=order.__getitem__), 'and')} {'is' if len(names) == 1 else 'are'} {outcome}"
            for outcome, names in outcomes.items()
            if names
        ]
        return f"compared with baseline {baseline} by {score}: {'; '.join(parts)}"
    if not close:
        return f"{first} is best by {score}, {BETTER} than all others"
    return f"{first} ranks first by {score}, but is {SAME} from {join_names(close, 'and')}"


def _better_as_given(comparison: Comparison, models: set[str]) -> str:
    """Which of two models that are identical at their best temperatures is better without it, by the raw score."""
    raw = COMPARISON_SCORES[comparison.rank_by].raw if comparison.rank_by in COMPARISON_SCORES else None
    for pair in comparison.pairs:
        if pair.score == raw and {pair.first, pair.second} == models and pair.better is not None:
            return f"without temperature scaling {pair.better} is {BETTER} by {metric_label(pair.score)}"
    return ""


def describe_rank_changes(comparison: Comparison) -> list[str]:
    """Scores that reverse the order of two models; ties do not count."""
    ranks = {item.model: item.rank for item in comparison.ranking}
    out = []
    for score, ranked in comparison.ranks.items():
        other = {item.model: item.rank for item in ranked}
        reversed_pairs = any(ranks[a] < ranks[b] and other[a] > other[b] for a in ranks for b in ranks)
        if score == comparison.rank_by or not reversed_pairs:
            continue
        moved = sum(other[name] != ranks[name] for name in ranks)
        same_leader = _first_models(ranked)[0] in _first_models(comparison.ranking)
        change = f"{count(moved, 'model')} change rank" if same_leader else leader(comparison, score)
        out.append(f"by {metric_label(score)}, {change}")
    return [f"ranked differently than by {metric_label(comparison.rank_by)}: {'; '.join(out)}"] if out else []


def describe_datasets(summary: DatasetsSummary) -> list[str]:
    """Which model is best over data sets, and which were left out."""
    best, datasets, score = summary.models[0], len(summary.datasets), metric_label(summary.rank_by)
    firsts = [item.model for item in summary.models if item.mean_rank == best.mean_rank]
    if len(firsts) > 1:
        line = f"{join_names(firsts, 'and')} have the same mean rank by {score}"
    else:
        line = f"{best.model} has the best mean rank by {score} ({best.mean_rank:.2f})"
        if best.best_beyond_chance is not None:
            line += f"; it is {BETTER} than all others on {best.best_beyond_chance} of {datasets} data sets"
    missing = [f"{name} (not in {join_names(sets)})" for name, sets in summary.left_out.items()]
    return [line, *([f"excluded from the summary: {join_names(missing)}"] if missing else [])]


# --------------------------------------------------------------------------------------------------- shift
def shifted_means(comparison: Comparison, key: str) -> dict[float, dict[str, float]]:
    """By severity and model, the mean over shift types of one field of the cells."""
    out: dict[float, dict[str, float]] = {}
    for severity in sorted({cell.severity for cell in comparison.shifted}):
        cells = [cell for cell in comparison.shifted if cell.severity == severity]
        out[severity] = {}
        for item in comparison.ranking:
            values = [float(getattr(cell, key)) for cell in cells if cell.model == item.model]
            out[severity][item.model] = sum(values) / len(values) if values else math.nan
    return out


def best_models(values: dict[str, float]) -> list[str]:
    """The models with the highest mean; empty where none is defined."""
    defined = [value for value in values.values() if not math.isnan(value)]
    return [name for name, value in values.items() if defined and value == max(defined)]


def describe_shift(comparison: Comparison) -> list[str]:
    """Which model is best at which severities, with temperatures of clean rows and of the same rows."""
    if len({cell.severity for cell in comparison.shifted}) < 2 or len(comparison.ranking) < 2:
        return []
    sources = {"clean": "temperature from clean rows", "same": "temperature from the same rows"}
    winners = {text: _winners(shifted_means(comparison, key)) for key, text in sources.items()}
    winners = {source: text for source, text in winners.items() if text}
    if len(winners) == 2 and len(set(winners.values())) == 1:
        winners = {"whichever rows the temperature is from": next(iter(winners.values()))}
    texts = "; ".join(f"{text} ({source})" for source, text in winners.items())
    return [f"under shift, {texts}; not tested by severity"] if winners else []


def _winners(means: dict[float, dict[str, float]]) -> str:
    """For example 'a has the best CLL at severities 0 to 2, b at severity 3'."""
    best = {severity: (best_models(values) or [""])[0] for severity, values in means.items()}
    names = list(dict.fromkeys(name for name in best.values() if name))
    if len(names) == 1 and all(best.values()):
        return f"{names[0]} has the best CLL at every severity"
    parts, order = list[str](), list(best)
    for name in names:
        own = [severity for severity in best if best[severity] == name]
        contiguous = order[order.index(own[0]) : order.index(own[-1]) + 1] == own
        where = f"y {own[0]:g}" if len(own) == 1 else f"ies {join_names([f'{s:g}' for s in own], 'and')}"
        where = f"ies {own[0]:g} to {own[-1]:g}" if len(own) > 2 and contiguous else where
        parts.append(f"{name}{' has the best CLL' * (not parts)} at severit{where}")
    return ", ".join(parts)


# -------------------------------------------------------------------------------------------------- legend
def comparison_legend(evaluation: Evaluation) -> list[str]:
    """What the columns of the tables mean, for those that are shown."""
    comparison = evaluation.comparison
    if evaluation.kind != COMPARISON:
        return []
    shown = list(comparison.datasets.values()) or [comparison]
    out = []
    if any(item.best_temperature and item.rank_by in RECALIBRATED for item in shown):
        rows = "clean" if comparison.temperature == "clean" else "all"
        out.append(f"T: optimal temperature on {rows} rows; no test of calibration")
    if any(not math.isnan(ranked.best) for item in shown for ranked in item.ranking):
        out.append("rank (3–4): range over bootstrap replicates; P(best): share of them in which it ranks first")
    tested = [pair for item in shown for pair in ranking_pairs(item) if not math.isnan(pair.p_holm)]
    if not comparison.datasets and any(pair.better is None and not pair.identical for pair in tested):
        out.append("n.s.: not significant after Holm correction")
    if any(item.equivalents for item in shown) and comparison.temperature == "clean":
        out.append("DEE: uses CLL at the cross-fitted temperature of the same rows, not of clean rows")
    summary = comparison.summary
    censored = any(item.below + item.above for items in comparison.mean_equivalents.values() for item in items)
    if censored or (summary is not None and any(item.censored for item in summary.models)):
        out.append("DEE < and >: on some data sets below one member, or above all members of the pool")
    if summary is not None and summary.pairs:
        out.append("wins 3:1: data sets on which the first and the second model is better; sig.: significantly")
    return out
