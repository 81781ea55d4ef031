"""Comparisons as tables and words."""

from __future__ import annotations

import math
from collections.abc import Iterable

from calibrant.comparison.datasets import Summary
from calibrant.comparison.records import Equivalent, Pair, Ranked, better_when_higher
from calibrant.comparison.result import Comparison
from calibrant.errors import plain
from calibrant.evaluation.rendering import Table
from calibrant.evaluation.result import Evaluation
from calibrant.evaluation.wording import number, span

NAMES = {"cll": "CLL", "nll": "NLL", "brier": "Brier", "brier_ts": "Brier (ts)", "accuracy": "accuracy"}
BEFORE_AFTER = ("accuracy", "nll", "cll", "brier", "brier_ts")
MOST_MODELS = 6
"""Up to which every pair is shown; beyond it those with the best model and those of neighbouring ranks."""
CURVE_POINTS = (1, 2, 3, 5, 10, 20, 50, 100)


def comparison_tables(evaluation: Evaluation) -> list[Table]:
    """Every table of a comparison, in order; none where there is none."""
    comparison, level = evaluation.comparison, float(evaluation.settings["level"])
    units = evaluation.settings.get("units")
    if comparison is None:
        return []
    if comparison.datasets:
        return _over_data_sets(comparison, level)
    out = [ranking_table(comparison, level), *before_after_table(comparison), *pair_tables(comparison, level, units)]
    out += [*equivalent_tables(comparison, level), *shifted_tables(comparison)]
    return [*out, *([] if evaluation.flips is None else [evaluation.flips.table()])]


# --------------------------------------------------------------------------------------------- ranking
def ranking_table(comparison: Comparison, level: float) -> Table:
    """One row a model, the best first."""
    heads = ["model", _named(comparison.rank_by), f"{100 * level:g} % interval", "rank", "P(best)"]
    temperatures = comparison.best_temperature if comparison.rank_by in ("cll", "brier_ts") else {}
    heads += ["T"] * bool(temperatures)
    rows = []
    for item in comparison.ranking:
        row = [item.model, number(item.value), span(item.low, item.high), _ranks(item), _probability(item.best)]
        row += [f"{temperatures[item.model]:.3f}"] if temperatures else []
        rows.append(tuple(row))
    return Table(f"Ranked by {_named(comparison.rank_by)} · {_how(comparison)}", tuple(heads), tuple(rows))


def _how(comparison: Comparison) -> str:
    """Where the temperatures are from."""
    if comparison.rank_by not in ("cll", "brier_ts"):
        return "higher is better" if better_when_higher(comparison.rank_by) else "lower is better"
    if comparison.temperature == "clean":
        return "temperature of clean rows"
    splits = comparison.splits
    return f"T from the other half, {splits.get('repeats', 0)} times (seed {splits.get('seed', 0)})"


def _named(score: str) -> str:
    return NAMES.get(score, score)


def _ranks(item: Ranked) -> str:
    if item.rank_low == item.rank_high == item.rank:
        return str(item.rank)
    return f"{item.rank} ({item.rank_low}–{item.rank_high})"


def _probability(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"


def before_after_table(comparison: Comparison) -> list[Table]:
    """Error, NLL and Brier score before and after temperature, side by side (Ashukha et al. 2020, table 1)."""
    shown = [score for score in BEFORE_AFTER if score in comparison.ranks]
    extra = [score for score in comparison.ranks if score not in BEFORE_AFTER]
    if not {"nll", "cll"} <= set(shown) and not {"brier", "brier_ts"} <= set(shown) and not extra:
        return []
    heads = ("model", *(_column(score) for score in (*shown, *extra)))
    places = {score: {item.model: item for item in ranked} for score, ranked in comparison.ranks.items()}
    rows = [
        (item.model, *(_cell(score, places[score][item.model]) for score in (*shown, *extra)))
        for item in comparison.ranking
    ]
    title = "Before and after temperature (ts); in brackets the rank by each"
    return [Table(title, heads, tuple(rows))]


def _column(score: str) -> str:
    return {"accuracy": "error %", "cll": "NLL (ts)"}.get(score, _named(score))


def _cell(score: str, item: Ranked) -> str:
    value = {"accuracy": 100.0 * (1.0 - item.value), "cll": -item.value}.get(score, item.value)
    shown = f"{value:.2f}" if score == "accuracy" else number(value)
    return f"{shown} ({item.rank})"


# ----------------------------------------------------------------------------------------------- pairs
def pair_tables(comparison: Comparison, level: float, units: str | None = None) -> list[Table]:
    """The differences by the ranking score; of many models those that are read first."""
    of_score = [pair for pair in comparison.pairs if pair.score == comparison.rank_by]
    if not of_score:
        return []
    shown = shown_pairs(comparison)
    heads = ("first − second", "difference", f"{100 * level:g} % interval", "p (Holm)", "better")
    rows = tuple(_pair_row(pair) for pair in shown)
    left = len(of_score) - len(shown)
    more = f" · {left} more in the JSON" if left else ""
    what = f"units of {units}" if units else "rows"
    title = f"Paired differences of {_named(comparison.rank_by)} · {of_score[0].n} {what}{more}"
    return [Table(title, heads, rows)]


def shown_pairs(comparison: Comparison) -> list[Pair]:
    """Pairs by the ranking score in the order of ranks, the better one first; of many models those read first."""
    pairs = [pair for pair in comparison.pairs if pair.score == comparison.rank_by]
    order = {item.model: k for k, item in enumerate(comparison.ranking)}
    turned = [pair if order[pair.first] < order[pair.second] else pair.turned() for pair in pairs]
    if comparison.baseline is not None:
        turned = pairs
    elif len(order) > MOST_MODELS:
        turned = [pair for pair in turned if order[pair.first] == 0 or order[pair.second] - order[pair.first] == 1]
    return sorted(turned, key=lambda pair: (order[pair.first], order[pair.second]))


def _pair_row(pair: Pair) -> tuple[str, ...]:
    ends = span(pair.low, pair.high)
    known = "" if math.isnan(pair.p_holm) else "not told"
    verdict = {pair.first: "first", pair.second: "second"}.get(pair.better or "", known)
    return (
        f"{short(pair.first)} − {short(pair.second)}",
        number(pair.difference),
        ends,
        _p(pair.p_holm),
        verdict,
    )


def short(name: str, most: int = 12) -> str:
    """A name that fits twice into a line, without its middle: both ends tell names apart."""
    name = plain(name)
    return name if len(name) <= most else f"{name[: most - most // 3 - 1]}…{name[-(most // 3) :]}"


def _p(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}"


# -------------------------------------------------------------------------------------------- equivalents
def equivalent_tables(comparison: Comparison, level: float) -> list[Table]:
    """What every model is worth in members of the pool, and by its own number of members."""
    out = []
    if comparison.equivalents:
        heads = ("model", "members", "equivalent", f"{100 * level:g} % interval", "mean ± std")
        rows = tuple((name, *_equivalent_row(item)) for name, item in comparison.equivalents.items())
        out.append(Table(f"Members of {plain(comparison.pool or '')} that are as good (DEE)", heads, rows))
    for name, items in comparison.equivalent_curves.items():
        shown = [item for item in items if item.members in CURVE_POINTS or item.members == len(items)]
        rows = tuple((str(item.members), number(item.cll), *_equivalent_row(item)[1:]) for item in shown)
        heads = ("members", "CLL", "equivalent", f"{100 * level:g} % interval", "mean ± std")
        out.append(Table(f"{name}: equivalent of its first members", heads, rows))
    return out


def _equivalent_row(item: Equivalent) -> tuple[str, ...]:
    sign = {"below": "< ", "above": "> "}.get(item.censored, "")
    value = f"{sign}{item.value:.1f}" if math.isfinite(item.value) else ""
    low = f"{'< ' * item.low_censored}{item.low:.1f}"
    high = f"{'> ' * item.high_censored}{item.high:.1f}"
    known = math.isfinite(item.low) and math.isfinite(item.high)
    ends = math.isfinite(item.lower) and math.isfinite(item.upper)
    return (
        str(item.members),
        value,
        f"{low} to {high}" if known else "",
        f"{item.lower:.1f} to {item.upper:.1f}" if ends else "",
    )


# --------------------------------------------------------------------------------------------------- shift
def shifted_tables(comparison: Comparison) -> list[Table]:
    """By severity, the mean over types of shift: likelihood before, and after temperature of clean and of same rows."""
    if not comparison.shifted:
        return []
    rows = []
    for severity in sorted({cell.severity for cell in comparison.shifted}):
        for ranked in comparison.ranking:
            cells = [c for c in comparison.shifted if c.severity == severity and c.model == ranked.model]
            means = [_mean(getattr(c, key) for c in cells) for key in ("log_likelihood", "clean", "same")]
            shown = ("" if math.isnan(value) else number(-value) for value in means)
            rows.append((f"{severity:g} {ranked.model}", str(len(cells)), *shown))
    heads = ("severity, model", "types", "NLL", "T of clean rows", "T of same rows")
    breaks = frozenset(range(0, len(rows), len(comparison.ranking)))
    title = "Under shift: NLL before, and after a temperature (Ovadia 2019; Ashukha 2020)"
    return [Table(title, heads, tuple(rows), breaks=breaks - {0})]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


# ------------------------------------------------------------------------------------------ many data sets
def _over_data_sets(comparison: Comparison, level: float) -> list[Table]:
    out = [] if comparison.summary is None else _summary_tables(comparison.summary, level)
    for name, items in comparison.mean_equivalents.items():
        shown = [item for item in items if item.members in CURVE_POINTS or item is items[-1]]
        rows = tuple(
            (
                str(x.members),
                f"{x.value:.1f}",
                f"{x.lower:.1f} to {x.upper:.1f}",
                str(x.datasets),
                f"{x.below}, {x.above}",
            )
            for x in shown
        )
        heads = ("members", "mean equivalent", "mean ± std", "data sets", "below, above")
        out.append(Table(f"{name}: equivalent of its first members, mean over data sets", heads, rows))
    for name, each in comparison.datasets.items():
        table = ranking_table(each, level)
        out.append(Table(f"{name} · {table.title}", table.heads, table.rows))
    return out


def _summary_tables(summary: Summary, level: float) -> list[Table]:
    """Models and pairs over all data sets."""
    count = len(summary.datasets)
    worth = any(item.equivalents for item in summary.models)
    heads = ["model", "mean rank", f"mean {_named(summary.rank_by)}", "best in", "beyond chance"] + ["DEE"] * worth
    rows = []
    for item in summary.models:
        sure = "" if item.best_beyond_chance is None else str(item.best_beyond_chance)
        row = [item.model, f"{item.mean_rank:.2f}", number(item.mean_value), str(item.best), sure]
        rows.append(tuple(row + [f"{item.equivalent:.1f}" if item.equivalents else ""] * worth))
    said = "" if math.isnan(summary.friedman) else f" · Friedman p {_p(summary.friedman)}"
    models = Table(f"Over {count} data sets, by {_named(summary.rank_by)}{said}", tuple(heads), tuple(rows))
    tested = any(math.isfinite(pair.wilcoxon) for pair in summary.pairs)
    heads = ["first − second", "mean difference", f"{100 * level:g} % interval", "wins", "beyond chance"]
    heads += ["Wilcoxon p"] * tested
    rows = []
    for pair in summary.pairs:
        row = [f"{pair.first} − {pair.second}", number(pair.difference), span(pair.low, pair.high)]
        row += [f"{pair.wins}:{pair.losses}", f"{pair.wins_beyond_chance}:{pair.losses_beyond_chance}"]
        rows.append(tuple(row + [_p(pair.wilcoxon)] * tested))
    return [models, *([Table("Mean differences on these data sets", tuple(heads), tuple(rows))] if rows else [])]


# ---------------------------------------------------------------------------------------------------- words
def comparison_lines(evaluation: Evaluation) -> list[str]:
    """What a comparison says, in words; nothing where there is none."""
    comparison = evaluation.comparison
    if comparison is None or comparison.datasets or len(comparison.ranking) < 2:
        return []
    flips = [] if evaluation.flips is None else [evaluation.flips.reading()]
    return [plain(line) for line in (*reading(comparison), *flips)]


def reading(comparison: Comparison) -> list[str]:
    """Who is the best, whom these rows do not tell from it, and which scores would have it otherwise."""
    best = comparison.ranking[0]
    pairs = [pair for pair in comparison.pairs if pair.score == comparison.rank_by]
    beaten = {pair.first if pair.better == pair.second else pair.second for pair in pairs if pair.better == best.model}
    others = [item.model for item in comparison.ranking[1:]]
    close = [name for name in others if name not in beaten]
    score = _named(comparison.rank_by)
    out = []
    if not pairs:
        out.append(f"{best.model} is first by {score}; of it there are no paired differences")
    elif not close:
        out.append(f"{best.model} is the best by {score}, beyond chance")
    else:
        said = f"{best.model} is first by {score}, but these rows do not tell it from {_listed(close)}"
        out.append(said if comparison.baseline is None else f"{best.model} is first by {score}")
    return [*out, *_other_orders(comparison)]


def _other_orders(comparison: Comparison) -> list[str]:
    """Scores that put the models into another order."""
    own = [item.model for item in comparison.ranking]
    out = []
    for score, ranked in comparison.ranks.items():
        order = [item.model for item in ranked]
        if score != comparison.rank_by and order != own:
            moved = [name for name in order if order.index(name) != own.index(name)]
            out.append(f"{_named(score)} ({len(moved)} models elsewhere, {order[0]} first)")
    return [f"other orders than by {_named(comparison.rank_by)}: {'; '.join(out)}"] if out else []


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def comparison_rows(comparison: Comparison) -> list[tuple[object, ...]]:
    """All pairs as rows of a table of values: of the first model, in the group of the second."""
    return [
        (pair.first, "pair", pair.second, pair.score, *_known(pair.difference, pair.low, pair.high), pair.level,
         "bootstrap-t", pair.n, "", "", *_known(pair.p_value, pair.detectable, pair.p_holm))
        for pair in comparison.pairs
    ]  # fmt: skip


def _known(*values: float) -> tuple[object, ...]:
    return tuple("" if math.isnan(value) else value for value in values)
