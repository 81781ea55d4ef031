"""Comparisons as tables and CSV rows. Models are numbered by rank, and pairs refer to these numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from calibrant.errors import plain
from calibrant.registry.comparison_scores import COMPARISON_SCORES
from calibrant.registry.lookup import metric_label, with_role
from calibrant.render.comparison_text import RECALIBRATED, best_models, model_numbers, ranking_pairs, shifted_means
from calibrant.render.formatting import (
    blank_if_nan,
    count,
    format_interval,
    format_level,
    format_number,
    format_p_value,
    format_short,
)
from calibrant.render.table import Bar, Table, as_csv, elide, on_shared_scale, text
from calibrant.results.comparison import Comparison, DatasetsSummary, Equivalent, Pair, better_when_higher, mean_shown
from calibrant.results.evaluation import Evaluation
from calibrant.results.rank_flips import RankFlips

MAX_MODELS = 6
"""Up to which every pair is shown; beyond it pairs with the best model and of neighbouring ranks."""
CURVE_POINTS = (1, 2, 3, 5, 10, 20, 50, 100)
MINUS = " − "
LOWER_IS_BETTER = " (negative: first is better)"
BEST = "* "
"""Marks the best value of each severity."""
CSV_HEADS = (
    "kind", "input", "other", "metric", "value", "low", "high", "level", "n", "rank", "rank_low", "rank_high", "best",
    "temperature", "p_value", "p_bootstrap", "p_holm", "detectable", "better", "members", "censored",
)  # fmt: skip
Row = tuple[object, ...]


def comparison_tables(evaluation: Evaluation) -> list[Table]:
    """Every table of a comparison, in order."""
    comparison, level = evaluation.comparison, float(evaluation.settings["level"])
    if comparison.datasets:
        return _dataset_tables(evaluation, comparison, level)
    return [
        ranking_table(comparison, level),
        *_score_tables(comparison),
        *_pair_tables(comparison, level, evaluation.settings.get("units")),
        *_equivalent_tables(comparison, level),
        *_shift_tables(comparison),
        *([rank_flips_table(evaluation.flips)] if evaluation.flips else []),
    ]


def _numbered(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], joint: str = "") -> Table:
    """A table whose first column numbers a model or pair and whose second names it."""
    return Table(title, ("#", *heads), tuple(map(tuple, rows)), left=0, names=1, joint=joint)


# --------------------------------------------------------------------------------------------- ranking
def ranking_table(comparison: Comparison, level: float) -> Table:
    """One row per model, the best first."""
    score = comparison.rank_by
    heads = ["model", metric_label(score), format_level(level), "rank", "P(best)"]
    temperatures = comparison.best_temperature if score in RECALIBRATED else {}
    heads += ["T"] * bool(temperatures)
    rows = []
    for place, item in enumerate(comparison.ranking, 1):
        ranks = f" ({item.rank_low}–{item.rank_high})" * (not item.rank_low == item.rank_high == item.rank)
        row = [str(place), item.model, format_number(item.value), format_interval(item.low, item.high)]
        row += [f"{item.rank}{ranks}", "" if math.isnan(item.best) else f"{item.best:.3f}"]
        rows.append(row + ([f"{temperatures[item.model]:.3f}"] if temperatures else []))
    note = "higher is better" if better_when_higher(score) else "lower is better"
    if score in RECALIBRATED:
        repeats, seed = (comparison.splits.get(key, 0) for key in ("repeats", "seed"))
        note = f"T cross-fitted on halves, {repeats} repeats (seed {seed})"
        note = "T from clean rows" if comparison.temperature == "clean" else note
    pooled = ", all severities pooled" * (len({cell.severity for cell in comparison.shifted}) > 1)
    title = f"Ranking by {metric_label(score)}{pooled} · {note}"
    bars = on_shared_scale(Bar(item.value, item.low, item.high) for item in comparison.ranking)
    return replace(_numbered(title, heads, rows), bars=bars)


def _score_tables(comparison: Comparison) -> list[Table]:
    """All scores; for classes error, NLL and Brier before and after temperature (Ashukha et al. 2020, table 1)."""
    if set(comparison.ranks) <= {comparison.rank_by}:
        return []
    calibrated = {score.raw: name for name, score in COMPARISON_SCORES.items() if score.raw}
    first = [form for name in with_role("main") for form in (name, calibrated.get(name, name))]
    shown = list(dict.fromkeys([*(score for score in first if score in comparison.ranks), *comparison.ranks]))
    items = {score: {item.model: item for item in ranked} for score, ranked in comparison.ranks.items()}
    accuracy, rows = with_role("hit_rate")[0], []
    for place, model in enumerate(comparison.ranking, 1):
        cells = []
        for score in shown:
            item = items[score][model.model]
            number = format_number(-item.value if score == "cll" else item.value)
            number = f"{100.0 * (1.0 - item.value):.2f}" if score == accuracy else number
            cells.append(f"{number} ({item.rank})")
        rows.append((str(place), model.model, *cells))
    both = any({raw, name} <= set(shown) for raw, name in calibrated.items())
    title = f"{'Before and after temperature scaling (ts)' if both else 'All scores'}; rank in brackets"
    labels = {accuracy: "error %", "cll": "NLL (ts)"}
    heads = ["model", *(labels.get(score, metric_label(score)) for score in shown)]
    return [_numbered(title, heads, rows)]


# ----------------------------------------------------------------------------------------------- pairs
def _pair_tables(comparison: Comparison, level: float, units: str | None) -> list[Table]:
    """Paired differences in the ranking score; with many models the most relevant pairs."""
    pairs = ranking_pairs(comparison)
    if not pairs:
        return []
    shown, numbers = select_pairs(comparison), model_numbers(comparison)
    rows, short = [], []
    for pair in shown:
        names = (f"{numbers[pair.first]}{MINUS}{numbers[pair.second]}", f"{pair.first}{MINUS}{pair.second}")
        better = "" if math.isnan(pair.p_holm) else "same" if pair.identical else "n.s."
        tail = (format_p_value(pair.p_holm), better if pair.better is None else str(numbers[pair.better]))
        rows.append((*names, format_number(pair.difference), format_interval(pair.low, pair.high), *tail))
        interval = format_interval(pair.low, pair.high, short=True)
        short.append((*names, format_short(pair.difference), interval, *tail))
    hidden = len(pairs) - len(shown)
    size = f"{pairs[0].n} {f'units of {units}' if units else 'rows'}"
    sign = "" if better_when_higher(comparison.rank_by) else LOWER_IS_BETTER
    title = f"Paired differences in {metric_label(comparison.rank_by)}{sign} · {size}"
    title += f" · {hidden} more in the JSON" if hidden else ""
    heads = ("first − second", "difference", format_level(level), "p (Holm)", "better")
    bars = on_shared_scale(Bar(pair.difference, pair.low, pair.high, zero=0.0) for pair in shown)
    return [replace(_numbered(title, heads, rows, MINUS), bars=bars, short=tuple(short))]


def select_pairs(comparison: Comparison) -> list[Pair]:
    """Pairs by rank, the better model first; with many models those with the best and of neighbouring ranks."""
    pairs, order = ranking_pairs(comparison), model_numbers(comparison)
    if comparison.baseline is not None:
        oriented = [pair if pair.second == comparison.baseline else pair.turned() for pair in pairs]
    else:
        oriented = [pair if order[pair.first] < order[pair.second] else pair.turned() for pair in pairs]
        if len(order) > MAX_MODELS:
            oriented = [p for p in oriented if order[p.first] == 1 or order[p.second] - order[p.first] == 1]
    return sorted(oriented, key=lambda pair: (order[pair.first], order[pair.second]))


# -------------------------------------------------------------------------------------------- equivalents
def _equivalent_tables(comparison: Comparison, level: float) -> list[Table]:
    """Deep-ensemble equivalents of every model, and of its first members."""
    out, interval = [], format_level(level)
    if comparison.equivalents:
        heads = ("model", "members", "equivalent", interval, "mean ± std")
        rows = [
            (str(place), item.model, *_equivalent_row(comparison.equivalents[item.model]))
            for place, item in enumerate(comparison.ranking, 1)
            if item.model in comparison.equivalents
        ]
        pool = elide(plain(comparison.pool or ""), 40)
        out.append(_numbered(f"Deep-ensemble equivalent (DEE): members of {pool} that score as well", heads, rows))
    for name, items in comparison.equivalent_curves.items():
        shown = [item for item in items if item.members in CURVE_POINTS or item.members == len(items)]
        by_members = tuple((str(item.members), format_number(item.cll), *_equivalent_row(item)[1:]) for item in shown)
        columns = ("members", "CLL", "equivalent", interval, "mean ± std")
        out.append(Table(f"{name}: equivalent of its first members", columns, by_members))
    return out


def _equivalent_row(item: Equivalent) -> tuple[str, ...]:
    value, interval = item.shown()
    finite = math.isfinite(item.lower) and math.isfinite(item.upper)
    return str(item.members), value, interval, f"{item.lower:.1f} to {item.upper:.1f}" if finite else ""


# --------------------------------------------------------------------------------------------------- shift
def _shift_tables(comparison: Comparison) -> list[Table]:
    """By severity, the mean over shift types: NLL before, and after temperature from clean and from the same rows."""
    if not comparison.shifted:
        return []
    keys = [key for key in ("clean", "same") if any(not math.isnan(getattr(c, key)) for c in comparison.shifted)]
    before = shifted_means(comparison, "log_likelihood")
    after = {key: (shifted_means(comparison, key), shifted_means(comparison, f"temperature_{key}")) for key in keys}
    types = {s: len({cell.shift for cell in comparison.shifted if cell.severity == s}) for s in before}
    uniform = len(set(types.values())) == 1
    rows = []
    for severity, likelihoods in before.items():
        for place, name in enumerate(likelihoods, 1):
            row = [f"{severity:g}", f"{place} {name}", *([str(types[severity])] * (not uniform))]
            row.append(_loss_cell(likelihoods, name))
            for means, temperatures in after.values():
                temperature = temperatures[severity][name]
                row += [_loss_cell(means[severity], name), "" if math.isnan(temperature) else f"{temperature:.3f}"]
            rows.append(tuple(row))
    heads = ["severity", "model", *(["types"] * (not uniform)), "NLL"]
    heads += [head for key in keys for head in (f"NLL (T {key})", f"T {key}")]
    breaks = frozenset(range(len(comparison.ranking), len(rows), len(comparison.ranking)))
    over = count(next(iter(types.values())), "shift type") if uniform else "shift types"
    title = f"Under shift, mean over {over}; * best (Ovadia 2019; Ashukha 2020)"
    return [Table(title, tuple(heads), tuple(rows), left=0, breaks=breaks, names=1)]


def _loss_cell(values: dict[str, float], name: str) -> str:
    """The NLL of a model, marked if it is the best of several."""
    if math.isnan(values[name]):
        return ""
    return BEST * (len(values) > 1 and name in best_models(values)) + format_number(-values[name])


# ------------------------------------------------------------------------------------------------ data sets
def _dataset_tables(evaluation: Evaluation, comparison: Comparison, level: float) -> list[Table]:
    out = [] if comparison.summary is None else _summary_tables(comparison.summary, level)
    for name, items in comparison.mean_equivalents.items():
        rows = []
        for x in items:
            if x.members in CURVE_POINTS or x is items[-1]:
                spread = f"{x.lower:.1f} to {x.upper:.1f}" if math.isfinite(x.lower + x.upper) else ""
                rows.append((str(x.members), x.shown(), spread, str(x.datasets), f"{x.below}, {x.above}"))
        heads = ("members", "mean equivalent", "mean ± std", "data sets", "below, above")
        out.append(Table(f"{name}: equivalent of its first members, mean over data sets", heads, tuple(rows)))
    for name, each in comparison.datasets.items():
        table = ranking_table(each, level)
        unnumbered = tuple(row[1:] for row in table.rows)  # numbers refer to the summary
        out.append(Table(f"{name} · {table.title}", table.heads[1:], unnumbered, bars=table.bars))
        if name in evaluation.flips_by:
            flips = evaluation.flips_by[name].table()
            out.append(replace(flips, title=f"{name} · {flips.title}"))
    return out


def _summary_tables(summary: DatasetsSummary, level: float) -> list[Table]:
    """Models and pairs over all data sets."""
    score, equivalents = metric_label(summary.rank_by), any(item.equivalents for item in summary.models)
    heads = ["model", "mean rank", f"mean {score}", "best on", "best (sig.)"] + ["DEE"] * equivalents
    rows = []
    for place, item in enumerate(summary.models, 1):
        significant = "" if item.best_beyond_chance is None else str(item.best_beyond_chance)
        row = [str(place), item.model, f"{item.mean_rank:.2f}", format_number(item.mean_value), str(item.best)]
        mean = mean_shown(item.equivalent, item.below, item.censored - item.below)
        rows.append([*row, significant] + [mean] * equivalents)
    friedman = "" if math.isnan(summary.friedman) else f" · Friedman {format_p_value(summary.friedman, 'p')}"
    models = f"{len(summary.models)} models{' present in all' * bool(summary.left_out)}"
    title = f"Ranking by {score} over {len(summary.datasets)} data sets · {models}{friedman}"
    out = [_numbered(title, heads, rows)]
    if not summary.pairs:
        return out
    tested = any(math.isfinite(pair.wilcoxon) for pair in summary.pairs)
    heads = ["first − second", "difference", format_level(level), "wins", "wins (sig.)"] + ["Wilcoxon p"] * tested
    numbers = {item.model: place for place, item in enumerate(summary.models, 1)}
    pairs = [pair if numbers[pair.first] < numbers[pair.second] else pair.turned() for pair in summary.pairs]
    pairs.sort(key=lambda pair: (numbers[pair.first], numbers[pair.second]))
    rows = []
    for pair in pairs:
        row = [f"{numbers[pair.first]}{MINUS}{numbers[pair.second]}", f"{pair.first}{MINUS}{pair.second}"]
        row += [format_number(pair.difference), format_interval(pair.low, pair.high), f"{pair.wins}:{pair.losses}"]
        row += [f"{pair.wins_beyond_chance}:{pair.losses_beyond_chance}"]
        rows.append(row + [format_p_value(pair.wilcoxon)] * tested)
    bars = on_shared_scale(Bar(pair.difference, pair.low, pair.high, zero=0.0) for pair in pairs)
    title = f"Mean differences over data sets{'' if better_when_higher(summary.rank_by) else LOWER_IS_BETTER}"
    return [*out, replace(_numbered(title, heads, rows, MINUS), bars=bars)]


# ----------------------------------------------------------------------------------------------- rank flips
def rank_flips_table(flips: RankFlips) -> Table:
    """One row per model: its best and worst rank, and how often it ranks first."""
    rows = []
    for name in flips.models:
        best, worst = flips.rank_range(name)
        rows.append((name, str(best), str(worst), f"{flips.first[name]} of {len(flips.settings)}"))
    heads = ("model", "best rank", "worst rank", "first")
    return Table(f"Ranks by {flips.metric} under {len(flips.settings)} settings", heads, tuple(rows))


def rank_flips_text(flips: RankFlips) -> str:
    """The table and its conclusion."""
    return f"{text(rank_flips_table(flips))}\n\n{flips.reading()}"


def rank_flips_csv(flips: RankFlips) -> str:
    """One line per setting and model, with value and rank."""
    rows: list[Row] = [
        (setting, name, value, rank)
        for setting, values, ranks in zip(flips.settings, flips.values, flips.ranks, strict=True)
        for name, value, rank in zip(flips.models, values, ranks, strict=True)
    ]
    return as_csv(("setting", "model", "value", "rank"), rows)


# ------------------------------------------------------------------------------------------------------ CSV
def comparison_rows(evaluation: Evaluation) -> list[Row]:
    """Full-precision rows with the columns `CSV_HEADS`; data sets prefix the names of their models."""
    comparison = evaluation.comparison
    level = float(evaluation.settings["level"])
    sizes = {result.input: next((e.n for e in result.metrics.values()), "") for result in evaluation.results}
    rows: list[dict[str, object]] = []
    scopes = [("", comparison), *((f"{name}/", item) for name, item in comparison.datasets.items())]
    for prefix, each in scopes:
        for score, ranked in (each.ranks or {each.rank_by: each.ranking}).items():
            temperatures = each.best_temperature if score in RECALIBRATED else {}
            for item in ranked:
                row: dict[str, object] = {"kind": "model", "input": prefix + item.model, "metric": score}
                row |= {key: getattr(item, key) for key in ("value", "low", "high", "rank", "rank_low", "rank_high")}
                known = level if math.isfinite(item.low) else ""
                row |= {"best": item.best, "level": known, "n": sizes.get(prefix + item.model, "")}
                rows.append(row | {"temperature": temperatures.get(item.model, "")})
        for pair in each.pairs:
            row = {"kind": "pair", "input": prefix + pair.first, "other": prefix + pair.second, "metric": pair.score}
            row |= {key: getattr(pair, key) for key in ("low", "high", "level", "n", "p_value", "p_bootstrap")}
            row |= {"value": pair.difference, "p_holm": pair.p_holm, "detectable": pair.detectable}
            rows.append(row | {"better": "" if pair.better is None else prefix + pair.better})
        for name, worth in each.equivalents.items():
            row = {"kind": "equivalent", "input": prefix + name, "other": each.pool or "", "metric": "dee"}
            fields = ("value", "low", "high", "level", "members", "censored")
            rows.append(row | {key: getattr(worth, key) for key in fields})
    return [tuple(blank_if_nan(row.get(name, "")) for name in CSV_HEADS) for row in rows]
