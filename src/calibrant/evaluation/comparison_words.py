"""What a comparison says in words: who is best, whom the rows do not tell apart, what the columns mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from calibrant.comparison.datasets import Summary
from calibrant.comparison.records import Pair, Ranked, ShiftedCll
from calibrant.comparison.result import Comparison
from calibrant.errors import plain
from calibrant.evaluation.rendering import elide
from calibrant.evaluation.result import Evaluation

CALIBRATED = ("cll", "brier_ts")
NAMES = {
    "cll": "CLL", "nll": "NLL", "brier": "Brier", "brier_ts": "Brier (ts)", "ece": "ECE", "ace": "ACE", "mce": "MCE",
    "tace": "TACE", "cwce": "CWCE", "crps": "CRPS", "dss": "DSS", "mse": "MSE", "rmse": "RMSE", "mae": "MAE",
    "aurc": "AURC", "aac": "AAC", "pit": "PIT", "roc_auc": "AUROC",
}  # fmt: skip
"""How scores are called in tables and words; others by their spec string."""
MOST_NAMES, LONGEST = 4, 60
"""Names in one line, and the characters of a name in it."""


def named(score: str) -> str:
    """A score as it is written."""
    name, bracket, options = score.partition("(")
    return NAMES.get(name, name) + bracket + options


def p_value(value: float) -> str:
    """A p-value in four digits; a smaller one than replicates can tell is only small."""
    return "" if math.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.4f}"


def numbers_of(comparison: Comparison) -> dict[str, int]:
    """The number of every model in tables and charts: its place in the ranking."""
    return {item.model: place for place, item in enumerate(comparison.ranking, 1)}


# ------------------------------------------------------------------------------------------------- reading
def comparison_lines(evaluation: Evaluation) -> list[str]:
    """What a comparison says, in words; nothing where there is none."""
    comparison = evaluation.comparison
    if comparison is None or len(comparison.ranking) < 2:
        return []
    if comparison.datasets:
        lines = [] if comparison.summary is None else over_data_sets(comparison.summary)
        lines += [f"{name}: {flips.reading()}" for name, flips in evaluation.flips_by.items()]
    else:
        flips = [] if evaluation.flips is None else [evaluation.flips.reading()]
        lines = [*reading(comparison), *flips]
    long = [name for name in _every_name(comparison) if len(name) > LONGEST]
    for name in sorted(long, key=len, reverse=True):
        lines = [line.replace(name, elide(plain(name, len(name)), LONGEST)) for line in lines]
    return [plain(line) for line in lines]


def _every_name(comparison: Comparison) -> dict[str, None]:
    each = (comparison, *comparison.datasets.values())
    return dict.fromkeys(item.model for known in each for item in known.ranking)


def reading(comparison: Comparison) -> list[str]:
    """Who is the best, whom these rows do not tell from it, and which scores would have it otherwise."""
    first = _first(comparison) if comparison.baseline is None else _than_baseline(comparison, comparison.baseline)
    return [*first, *other_orders(comparison), *under_shift(comparison)]


def _first(comparison: Comparison) -> list[str]:
    score, pairs = named(comparison.rank_by), _ranking_pairs(comparison)
    firsts, others = _split(comparison.ranking)
    beaten = {pair.first if pair.better == pair.second else pair.second for pair in pairs if pair.better == firsts[0]}
    close = [name for name in others if name not in beaten]
    if len(firsts) > 1:
        return [f"{listed(firsts, 'and')} are equal by {score}"]
    if not pairs:
        return [f"{firsts[0]} is first by {score}; of it there are no paired differences"]
    if not close:
        return [f"{firsts[0]} is the best by {score}, beyond chance"]
    return [f"{firsts[0]} is first by {score}, but these rows do not tell it from {listed(close)}"]


def _split(ranking: Sequence[Ranked]) -> tuple[list[str], list[str]]:
    """The models of the first rank, and the others."""
    best = min(item.rank for item in ranking)
    return [item.model for item in ranking if item.rank == best], [i.model for i in ranking if i.rank != best]


def _ranking_pairs(comparison: Comparison) -> list[Pair]:
    return [pair for pair in comparison.pairs if pair.score == comparison.rank_by]


def _than_baseline(comparison: Comparison, baseline: str) -> list[str]:
    """Who is better and who is worse than the baseline, and of whom it is not told."""
    score = named(comparison.rank_by)
    found: dict[str, list[str]] = {}
    for pair in _ranking_pairs(comparison):
        other = pair.second if pair.first == baseline else pair.first
        kind = {other: "better", baseline: "worse"}.get(pair.better or "", "not told from it")
        found.setdefault(kind, []).append(other)
    order = numbers_of(comparison)
    found = {kind: sorted(names, key=lambda name: order[name]) for kind, names in found.items()}
    firsts, _ = _split(comparison.ranking)
    if not found:
        return [f"{firsts[0]} is first by {score}; of it there are no paired differences"]
    parts = [f"{listed(found[k], 'and')} {'is' if len(found[k]) == 1 else 'are'} {k}"
             for k in ("better", "worse", "not told from it") if k in found]  # fmt: skip
    return [f"than the baseline {baseline}, by {score}: {'; '.join(parts)}"]


def other_orders(comparison: Comparison) -> list[str]:
    """Scores that put two models the other way round than the ranking does; equal ranks are no other order."""
    own = {item.model: item.rank for item in comparison.ranking}
    firsts, _ = _split(comparison.ranking)
    out = []
    for score, ranked in comparison.ranks.items():
        ranks = {item.model: item.rank for item in ranked}
        if score == comparison.rank_by or not _turned(own, ranks):
            continue
        moved = sum(ranks[name] != own[name] for name in own)
        leading, _ = _split(ranked)
        said = "" if leading[0] in firsts else f", {leading[0]} is first"
        out.append(f"{named(score)} ({moved} models change rank{said})")
    return [f"other orders than by {named(comparison.rank_by)}: {'; '.join(out)}"] if out else []


def _turned(one: dict[str, int], other: dict[str, int]) -> bool:
    names = list(one)
    return any(one[a] < one[b] and other[a] > other[b] for a in names for b in names)


def listed(names: Sequence[str], last: str = "") -> str:
    """Some names after each other, the number of the rest; `last` stands before the last of few."""
    if len(names) > MOST_NAMES:
        return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES} more"
    if last and len(names) > 1:
        return f"{', '.join(names[:-1])} {last} {names[-1]}"
    return ", ".join(names)


# --------------------------------------------------------------------------------------------------- shift
def shifted_means(comparison: Comparison, key: str) -> dict[float, dict[str, float]]:
    """By severity and model, the mean over types of one field of the cells."""
    out: dict[float, dict[str, float]] = {}
    for severity in sorted({cell.severity for cell in comparison.shifted}):
        cells = [cell for cell in comparison.shifted if cell.severity == severity]
        names = [item.model for item in comparison.ranking]
        out[severity] = {name: _mean(cells, name, key) for name in names}
    return out


def _mean(cells: Iterable[ShiftedCll], model: str, key: str) -> float:
    found = [float(getattr(cell, key)) for cell in cells if cell.model == model]
    return sum(found) / len(found) if found else math.nan


def best_of(values: dict[str, float]) -> list[str]:
    """The models with the highest mean, none where none is known."""
    known = [value for value in values.values() if not math.isnan(value)]
    return [name for name, value in values.items() if known and value == max(known)]


def under_shift(comparison: Comparison) -> list[str]:
    """Which model is best at which severities, by the temperature of clean rows and by that of the same rows."""
    if len({cell.severity for cell in comparison.shifted}) < 2 or len(comparison.ranking) < 2:
        return []
    kinds = {"clean": "with the temperature of clean rows", "same": "with that of the same rows"}
    found = {kinds[key]: _winners(shifted_means(comparison, key)) for key in kinds}
    said = {how: text for how, text in found.items() if text}
    if len(said) == 2 and len(set(said.values())) == 1:
        return [f"under shift {next(iter(said.values()))}, {' and '.join(said)}"]
    if len(said) == 1:
        return [f"under shift, with the temperature of the same rows, {next(iter(said.values()))}"]
    return [f"under shift, {'; '.join(f'{how}, {text}' for how, text in said.items())}"] if said else []


def _winners(means: dict[float, dict[str, float]]) -> str:
    """'a is first at severities 0 to 2, b at severity 3'."""
    best = {severity: (best_of(values) or [""])[0] for severity, values in means.items()}
    names = list(dict.fromkeys(name for name in best.values() if name))
    if len(names) == 1 and all(best.values()):
        return f"{names[0]} is first at every severity"
    own = {name: [severity for severity in best if best[severity] == name] for name in names}
    return ", ".join(
        f"{name}{' is first' * (k == 0)} at {_severities(own[name], best)}" for k, name in enumerate(names)
    )


def _severities(own: list[float], every: Iterable[float]) -> str:
    """'severity 2', 'severities 2 to 5', or a list where others lie between."""
    order = list(every)
    together = order[order.index(own[0]) : order.index(own[-1]) + 1] == own
    if len(own) > 2 and together:
        return f"severities {own[0]:g} to {own[-1]:g}"
    return f"severit{'ies' if len(own) > 1 else 'y'} {listed([f'{s:g}' for s in own], 'and')}"


# ----------------------------------------------------------------------------------------------- data sets
def over_data_sets(summary: Summary) -> list[str]:
    """Who is best over data sets, and what was left out."""
    best, count = summary.models[0], len(summary.datasets)
    firsts = [item.model for item in summary.models if item.mean_rank == best.mean_rank]
    if len(firsts) > 1:
        said = f"{listed(firsts, 'and')} have the same mean rank by {named(summary.rank_by)}"
    else:
        sure = best.best_beyond_chance
        beyond = "" if sure is None else f"; it is better than all others beyond chance in {sure} of {count} data sets"
        said = f"{best.model} is first by mean rank of {named(summary.rank_by)} ({best.mean_rank:.2f}){beyond}"
    lacking = [f"{name} (not in {listed(sets)})" for name, sets in summary.left_out.items()]
    return [said, *([f"left out of the summary: {listed(lacking)}"] if lacking else [])]


# -------------------------------------------------------------------------------------------------- legend
def comparison_legend(evaluation: Evaluation) -> list[str]:
    """What the columns of the tables mean, of those that are shown."""
    comparison = evaluation.comparison
    if comparison is None:
        return []
    shown = list(comparison.datasets.values()) or [comparison]

    def some(has: Callable[[Comparison], bool]) -> bool:
        return any(has(item) for item in shown)

    out = []
    if some(lambda item: bool(item.best_temperature) and item.rank_by in CALIBRATED):
        rows = "clean" if comparison.temperature == "clean" else "all"
        out.append(f"T: the temperature fitted on {rows} rows; above 1 the model is too sure")
    if some(lambda item: any(not math.isnan(ranked.best) for ranked in item.ranking)):
        out.append("rank (3–4): range over resampled test sets; P(best): share in which it is first")
    told = [pair for item in shown for pair in _ranking_pairs(item) if not math.isnan(pair.p_holm)]
    if not comparison.datasets and any(pair.better is None for pair in told):
        out.append("not told: no difference beyond chance after Holm's correction")
    out += _of_equivalents(comparison, some(lambda item: bool(item.equivalents)))
    if comparison.summary is not None and comparison.summary.pairs:
        out.append("wins 3:1: data sets in which the first, the second is better; sure: beyond chance")
    return out


def _of_equivalents(comparison: Comparison, counted: bool) -> list[str]:
    """What equivalents are counted by, where the ranking is not, and what their means stand for."""
    out = []
    if counted and comparison.temperature == "clean":
        out.append("DEE: by CLL at the cross-fitted temperature of the same rows, not at that of clean rows")
    means = [item.below + item.above for items in comparison.mean_equivalents.values() for item in items]
    if any(means) or (comparison.summary is not None and any(item.censored for item in comparison.summary.models)):
        out.append("DEE < and >: on some data sets it is below one member, or above all members of the pool")
    return out
