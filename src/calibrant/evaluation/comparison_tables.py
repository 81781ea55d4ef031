"""Comparisons as tables. Models are numbered by the ranking, and pairs are told by these numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from calibrant.comparison.datasets import PairSummary, Summary
from calibrant.comparison.records import Equivalent, MeanEquivalent, Pair, Ranked, better_when_higher, mean_shown
from calibrant.comparison.result import Comparison
from calibrant.errors import plain
from calibrant.evaluation.bars import Bar, shared
from calibrant.evaluation.comparison_words import (
    CALIBRATED,
    best_of,
    named,
    numbers_of,
    p_value,
    shifted_means,
)
from calibrant.evaluation.rendering import Table, elide
from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.wording import number, short, short_span, span

BEFORE_AFTER = ("accuracy", "nll", "cll", "brier", "brier_ts")
MOST_MODELS = 6
"""Up to which every pair is shown; beyond it those with the best model and those of neighbouring ranks."""
CURVE_POINTS = (1, 2, 3, 5, 10, 20, 50, 100)
JOINT = " − "
BEST = "* "
"""Before the best value of each severity."""


def comparison_tables(evaluation: Evaluation) -> list[Table]:
    """Every table of a comparison, in order; none where there is none."""
    comparison, level = evaluation.comparison, float(evaluation.settings["level"])
    units = evaluation.settings.get("units")
    if comparison is None:
        return []
    if comparison.datasets:
        return _over_data_sets(evaluation, comparison, level)
    out = [ranking_table(comparison, level), *score_tables(comparison), *pair_tables(comparison, level, units)]
    out += [*equivalent_tables(comparison, level), *shifted_tables(comparison)]
    return [*out, *([] if evaluation.flips is None else [evaluation.flips.table()])]


def _numbered(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], joint: str = "") -> Table:
    """A table whose first column is the number of a model or of a pair, the second its name."""
    return Table(title, ("#", *heads), tuple(map(tuple, rows)), left=0, names=1, joint=joint)


# --------------------------------------------------------------------------------------------- ranking
def ranking_table(comparison: Comparison, level: float) -> Table:
    """One row a model, the best first."""
    heads = ["model", named(comparison.rank_by), f"{100 * level:g} % interval", "rank", "P(best)"]
    temperatures = comparison.best_temperature if comparison.rank_by in CALIBRATED else {}
    heads += ["T"] * bool(temperatures)
    rows = []
    for place, item in enumerate(comparison.ranking, 1):
        row = [str(place), item.model, number(item.value), span(item.low, item.high), _ranks(item)]
        row.append("" if math.isnan(item.best) else f"{item.best:.3f}")
        rows.append(row + ([f"{temperatures[item.model]:.3f}"] if temperatures else []))
    pooled = len({cell.severity for cell in comparison.shifted}) > 1
    title = f"Ranked by {named(comparison.rank_by)}{', all severities pooled' * pooled} · {_how(comparison)}"
    drawn = shared(Bar(item.value, item.low, item.high) for item in comparison.ranking)
    return replace(_numbered(title, heads, rows), bars=drawn)


def _how(comparison: Comparison) -> str:
    """Where the temperatures are from."""
    if comparison.rank_by not in CALIBRATED:
        return "higher is better" if better_when_higher(comparison.rank_by) else "lower is better"
    if comparison.temperature == "clean":
        return "temperature of clean rows"
    splits = comparison.splits
    return f"T from the other half, {splits.get('repeats', 0)} times (seed {splits.get('seed', 0)})"


def _ranks(item: Ranked) -> str:
    if item.rank_low == item.rank_high == item.rank:
        return str(item.rank)
    return f"{item.rank} ({item.rank_low}–{item.rank_high})"


def score_tables(comparison: Comparison) -> list[Table]:
    """All scores; of classes error, NLL and Brier before and after temperature (Ashukha et al. 2020, table 1)."""
    if set(comparison.ranks) <= {comparison.rank_by}:
        return []
    shown = [score for score in BEFORE_AFTER if score in comparison.ranks]
    shown += [score for score in comparison.ranks if score not in BEFORE_AFTER]
    places = {score: {item.model: item for item in ranked} for score, ranked in comparison.ranks.items()}
    rows = [
        (str(place), item.model, *(_score(score, places[score][item.model]) for score in shown))
        for place, item in enumerate(comparison.ranking, 1)
    ]
    both = {"nll", "cll"} <= set(shown) or {"brier", "brier_ts"} <= set(shown)
    title = f"{'Before and after temperature (ts)' if both else 'All scores'}; in brackets the rank by each"
    heads = ["model", *({"accuracy": "error %", "cll": "NLL (ts)"}.get(score, named(score)) for score in shown)]
    return [_numbered(title, heads, rows)]


def _score(score: str, item: Ranked) -> str:
    value = {"accuracy": 100.0 * (1.0 - item.value), "cll": -item.value}.get(score, item.value)
    shown = f"{value:.2f}" if score == "accuracy" else number(value)
    return f"{shown} ({item.rank})"


# ----------------------------------------------------------------------------------------------- pairs
def pair_tables(comparison: Comparison, level: float, units: str | None = None) -> list[Table]:
    """The differences by the ranking score; of many models those that are read first."""
    of_score = [pair for pair in comparison.pairs if pair.score == comparison.rank_by]
    if not of_score:
        return []
    shown, numbers = shown_pairs(comparison), numbers_of(comparison)
    rows = [_pair_row(pair, numbers) for pair in shown]
    left = len(of_score) - len(shown)
    more = f" · {left} more in the JSON" if left else ""
    what = f"units of {units}" if units else "rows"
    title = f"Paired differences of {named(comparison.rank_by)}{_negative(comparison.rank_by)} · {of_score[0].n} {what}"
    heads = ("first − second", "difference", f"{100 * level:g} % interval", "p (Holm)", "better")
    drawn = shared(Bar(pair.difference, pair.low, pair.high, zero=0.0) for pair in shown)
    few = tuple((*row[:2], short(p.difference), short_span(p.low, p.high), *row[4:])
                for row, p in zip(rows, shown, strict=True))  # fmt: skip
    return [replace(_numbered(title + more, heads, rows, JOINT), bars=drawn, short=few)]


def _negative(score: str) -> str:
    """What a difference of losses must be told with."""
    return "" if better_when_higher(score) else " (negative: the first is better)"


def shown_pairs(comparison: Comparison) -> list[Pair]:
    """Pairs by the ranking score in the order of ranks, the better one first; of many models those read first."""
    pairs = [pair for pair in comparison.pairs if pair.score == comparison.rank_by]
    order = numbers_of(comparison)
    turned = [pair if order[pair.first] < order[pair.second] else pair.turned() for pair in pairs]
    if comparison.baseline is not None:
        turned = [pair if pair.second == comparison.baseline else pair.turned() for pair in pairs]
    elif len(order) > MOST_MODELS:
        turned = [pair for pair in turned if order[pair.first] == 1 or order[pair.second] - order[pair.first] == 1]
    return sorted(turned, key=lambda pair: (order[pair.first], order[pair.second]))


def _pair_row(pair: Pair, numbers: dict[str, int]) -> tuple[str, ...]:
    verdict = "" if math.isnan(pair.p_holm) else "not told"
    return (
        f"{numbers[pair.first]}{JOINT}{numbers[pair.second]}",
        f"{pair.first}{JOINT}{pair.second}",
        number(pair.difference),
        span(pair.low, pair.high),
        p_value(pair.p_holm),
        verdict if pair.better is None else str(numbers[pair.better]),
    )


# -------------------------------------------------------------------------------------------- equivalents
def equivalent_tables(comparison: Comparison, level: float) -> list[Table]:
    """What every model is worth in members of the pool, and by its own number of members."""
    out, percent = [], f"{100 * level:g} % interval"
    if comparison.equivalents:
        heads = ("model", "members", "equivalent", percent, "mean ± std")
        known = [
            (k, item.model) for k, item in enumerate(comparison.ranking, 1) if item.model in comparison.equivalents
        ]
        rows = [(str(k), name, *_equivalent_row(comparison.equivalents[name])) for k, name in known]
        out.append(
            _numbered(f"Members of {elide(plain(comparison.pool or ''), 40)} that are as good (DEE)", heads, rows)
        )
    for name, items in comparison.equivalent_curves.items():
        shown = [item for item in items if item.members in CURVE_POINTS or item.members == len(items)]
        of_members = tuple((str(item.members), number(item.cll), *_equivalent_row(item)[1:]) for item in shown)
        columns = ("members", "CLL", "equivalent", percent, "mean ± std")
        out.append(Table(f"{name}: equivalent of its first members", columns, of_members))
    return out


def _equivalent_row(item: Equivalent) -> tuple[str, ...]:
    value, interval = item.shown()
    ends = math.isfinite(item.lower) and math.isfinite(item.upper)
    return str(item.members), value, interval, f"{item.lower:.1f} to {item.upper:.1f}" if ends else ""


# --------------------------------------------------------------------------------------------------- shift
def shifted_tables(comparison: Comparison) -> list[Table]:
    """By severity, the mean over types of shift: likelihood before, and after temperature of clean and of same rows."""
    if not comparison.shifted:
        return []
    keys = [key for key in ("clean", "same") if any(not math.isnan(getattr(c, key)) for c in comparison.shifted)]
    before = shifted_means(comparison, "log_likelihood")
    after = {key: (shifted_means(comparison, key), shifted_means(comparison, f"temperature_{key}")) for key in keys}
    types = {s: len({cell.shift for cell in comparison.shifted if cell.severity == s}) for s in before}
    alike = len(set(types.values())) == 1
    rows = []
    for severity, likelihoods in before.items():
        for place, name in enumerate(likelihoods, 1):
            row = [f"{severity:g}", f"{place} {name}", *([str(types[severity])] * (not alike))]
            row.append(_marked(likelihoods, name))
            for means, temperatures in after.values():
                row += [_marked(means[severity], name), _temperature(temperatures[severity][name])]
            rows.append(tuple(row))
    heads = ["severity", "model", *(["types"] * (not alike)), "NLL"]
    heads += [head for key in keys for head in (f"NLL (T {key})", f"T {key}")]
    breaks = frozenset(range(len(comparison.ranking), len(rows), len(comparison.ranking)))
    count = next(iter(types.values()))
    over = f"of {count} type{'s' * (count != 1)}" if alike else "over types"
    title = f"Under shift, the mean {over}; * the best (Ovadia 2019; Ashukha 2020)"
    return [Table(title, tuple(heads), tuple(rows), left=0, breaks=breaks, names=1)]


def _marked(values: dict[str, float], name: str) -> str:
    """The loss of a model, marked where it is the best of several."""
    if math.isnan(values[name]):
        return ""
    return BEST * (len(values) > 1 and name in best_of(values)) + number(-values[name])


def _temperature(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"


# ------------------------------------------------------------------------------------------ many data sets
def _over_data_sets(evaluation: Evaluation, comparison: Comparison, level: float) -> list[Table]:
    out = [] if comparison.summary is None else _summary_tables(comparison.summary, level)
    for name, items in comparison.mean_equivalents.items():
        rows = tuple(_mean_row(x) for x in items if x.members in CURVE_POINTS or x is items[-1])
        heads = ("members", "mean equivalent", "mean ± std", "data sets", "below, above")
        out.append(Table(f"{name}: equivalent of its first members, mean over data sets", heads, rows))
    for name, each in comparison.datasets.items():
        table = ranking_table(each, level)
        rows = tuple(row[1:] for row in table.rows)  # numbers are those of all data sets
        out.append(Table(f"{name} · {table.title}", table.heads[1:], rows, bars=table.bars))
        if name in evaluation.flips_by:
            flips = evaluation.flips_by[name].table()
            out.append(replace(flips, title=f"{name} · {flips.title}"))
    return out


def _mean_row(x: MeanEquivalent) -> tuple[str, ...]:
    spread = f"{x.lower:.1f} to {x.upper:.1f}" if math.isfinite(x.lower + x.upper) else ""
    return str(x.members), x.shown(), spread, str(x.datasets), f"{x.below}, {x.above}"


def _summary_tables(summary: Summary, level: float) -> list[Table]:
    """Models and pairs over all data sets."""
    worth = any(item.equivalents for item in summary.models)
    heads = ["model", "mean rank", f"mean {named(summary.rank_by)}", "best in", "beyond chance"] + ["DEE"] * worth
    rows = []
    for place, item in enumerate(summary.models, 1):
        sure = "" if item.best_beyond_chance is None else str(item.best_beyond_chance)
        row = [str(place), item.model, f"{item.mean_rank:.2f}", number(item.mean_value), str(item.best), sure]
        rows.append(row + [mean_shown(item.equivalent, item.below, item.censored - item.below)] * worth)
    said = "" if math.isnan(summary.friedman) else f" · Friedman p {p_value(summary.friedman)}"
    count = len(summary.models)
    which = f"the {count} models that all of them have" if summary.left_out else f"{count} models"
    title = f"Over {len(summary.datasets)} data sets, {which}, by {named(summary.rank_by)}{said}"
    return [_numbered(title, heads, rows), *_summary_pairs(summary, level)]


def _summary_pairs(summary: Summary, level: float) -> list[Table]:
    """Mean differences, the better model first."""
    if not summary.pairs:
        return []
    tested = any(math.isfinite(pair.wilcoxon) for pair in summary.pairs)
    heads = ["first − second", "difference", f"{100 * level:g} % interval", "wins", "sure wins"]
    heads += ["Wilcoxon p"] * tested
    numbers = {item.model: place for place, item in enumerate(summary.models, 1)}
    rows = []
    turned = [_turned(pair, numbers) for pair in summary.pairs]
    turned.sort(key=lambda p: (numbers[p.first], numbers[p.second]))
    for pair in turned:
        row = [f"{numbers[pair.first]}{JOINT}{numbers[pair.second]}", f"{pair.first}{JOINT}{pair.second}"]
        row += [number(pair.difference), span(pair.low, pair.high), f"{pair.wins}:{pair.losses}"]
        row += [f"{pair.wins_beyond_chance}:{pair.losses_beyond_chance}"]
        rows.append(row + [p_value(pair.wilcoxon)] * tested)
    title = f"Mean differences on these data sets{_negative(summary.rank_by)}"
    drawn = shared(Bar(pair.difference, pair.low, pair.high, zero=0.0) for pair in turned)
    return [replace(_numbered(title, heads, rows, JOINT), bars=drawn)]


def _turned(pair: PairSummary, numbers: dict[str, int]) -> PairSummary:
    """The pair with the better model first."""
    if numbers[pair.first] < numbers[pair.second]:
        return pair
    return PairSummary(
        pair.second, pair.first, pair.losses, pair.wins, pair.losses_beyond_chance, pair.wins_beyond_chance,
        -pair.difference, -pair.high, -pair.low, pair.level, pair.wilcoxon,
    )  # fmt: skip
