"""Charts that compare models: paired differences, likelihood before and after temperature scaling, probability of being
best, ranks over data sets, and likelihood under shift."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant.registry.comparison_scores import COMPARISON_SCORES
from calibrant.registry.lookup import metric_label
from calibrant.render.comparison import select_pairs
from calibrant.render.comparison_text import model_numbers, shifted_means
from calibrant.reporting.charts import row_charts
from calibrant.reporting.charts.line_charts import line_rows, lines_chart
from calibrant.reporting.charts.row_charts import AFTER, BEFORE, NOT_SIGNIFICANT, SIGNIFICANT
from calibrant.reporting.document import Choices, Columns, Control, Figure
from calibrant.reporting.labels import first_of, labels, numbered_labels, short
from calibrant.results.comparison import Comparison, Pair

MAX_ROWS, MAX_RANKED, MAX_LINES = 30, 100, 40
"""Rows and data sets of a chart of rows, and lines of a line chart."""
MIN_BEST, MIN_PROBABILITY = 3, 0.0005
"""The first models are shown with any probability of being best; others need at least this one."""
NLL = COMPARISON_SCORES["cll"].raw
PAIRS = (
    "Score of the first model minus score of the second on the same rows, with its interval. Filled diamonds: "
    "statistically significant, corrected for all pairs of this score (Holm). Open circles: not significant. Use these "
    "paired intervals, not the overlap of intervals of single models."
)
PAIR_HEADS = {
    "label": "first − second", "value": "difference", "low": "interval from", "high": "interval to",
    "p": "p (Holm)", "verdict": "significance", "text": "better",
}  # fmt: skip
STATES = (
    "Rings: negative log-likelihood without temperature scaling. Squares: with the temperature fitted on {rows}. Lower "
    "is better. A long line is a model with a poor temperature; where lines cross, the ranking by likelihood alone is "
    "misleading."
)
FITTED = {"same": "the other half of the rows", "clean": "clean rows"}
BEST = "Share of resampled test sets on which each model is best."
BEST_HEADS = {"label": "model", "value": "probability of being best", "rank": "rank", "text": "rank and its range"}
RANKS = "Rings: rank on each data set. Diamonds: mean rank, which orders the models."
LIKELIHOODS = {"clean": "fitted on clean rows", "same": "fitted on the same rows", "log_likelihood": "none"}
SHIFT = (
    "Mean over types of shift; lower is better. The temperature of clean rows is the one available in practice (Ovadia "
    "et al. 2019); the temperature of the same rows shows how good the ranking of classes still is (Ashukha et al. "
    "2020)."
)
TEMPERATURES = (
    "Optimal temperature on the rows of each severity, mean over types. Above 1 the model is overconfident, below 1 "
    "underconfident."
)
ALL = "all data sets"
MAX_DATASETS, MAX_SCORES = 24, 12
"""Options of a control."""


# --------------------------------------------------------------------------------------------------- scopes
def scopes(comparison: Comparison, *, with_all: bool = False) -> dict[str, Comparison]:
    """Comparisons by label: all data sets first, if included, then each of them."""
    if not comparison.datasets:
        return {"": comparison}
    names = labels(list(comparison.datasets)[:MAX_DATASETS], taken=(ALL,))
    each = {label: comparison.datasets[name] for name, label in names.items()}
    return ({ALL: comparison} if with_all else {}) | each


def all_model_numbers(comparison: Comparison) -> dict[str, int]:
    """The number of every model as in the first table, followed by models that are only in some data sets."""
    numbers = model_numbers(comparison)
    for each in comparison.datasets.values():
        for item in each.ranking:
            numbers.setdefault(item.model, len(numbers) + 1)
    return numbers


def common_scores(known: Mapping[str, Comparison], scores: Callable[[Comparison], list[str]]) -> dict[str, str]:
    """The labels of the scores that every scope has, the ranking score first."""
    every = [scores(each) for each in known.values()]
    common = [score for score in every[0] if all(score in other for other in every)] if every else []
    ranks = next((each.rank_by for each in known.values()), "")
    return {score: metric_label(score) for score in sorted(common, key=lambda score: score != ranks)[:MAX_SCORES]}


def by_scope(
    known: Mapping[str, Comparison], options: Mapping[str, str], make: Callable[[Comparison, str], Columns]
) -> Choices:
    """Columns by data set, if there are several, and by option; `options` maps the argument of `make` to a label."""
    out: Choices = {}
    for scope, each in known.items():
        for key, label in options.items():
            out[((scope,) if scope else ()) + ((label,) if label else ())] = make(each, key)
    return out


def controls(known: Mapping[str, Comparison], label: str, options: Mapping[str, str]) -> tuple[Control, ...]:
    """A control for the data set, if there are several, and one for the options."""
    sets = () if "" in known else (Control("data set", tuple(known)),)
    return (*sets, *((Control(label, tuple(options.values())),) if any(options.values()) else ()))


# ------------------------------------------------------------------------------------------ differences
def pairs(comparison: Comparison) -> Figure | None:
    """Paired differences with intervals."""
    known = {scope: each for scope, each in scopes(comparison, with_all=True).items() if each.pairs}
    scores = common_scores(known, lambda each: list(dict.fromkeys(pair.score for pair in each.pairs)))
    if not scores:
        return None
    numbers = all_model_numbers(comparison)

    def selected(each: Comparison, score: str) -> list[Pair]:
        return select_pairs(replace(each, rank_by=score))[:MAX_ROWS]

    def columns(each: Comparison, score: str) -> Columns:
        rows = []
        for pair in selected(each, score):
            names = (f"{numbers[name]} {short(name, 28)}" for name in (pair.first, pair.second))
            verdict = "not tested" if math.isnan(pair.p_holm) else NOT_SIGNIFICANT
            better = verdict if pair.better is None else f"{numbers[pair.better]} is better"
            kind = NOT_SIGNIFICANT if pair.better is None else SIGNIFICANT
            rows.append((" − ".join(names), pair.difference, pair.low, pair.high, pair.p_holm, kind, better))
        return {head: [row[k] for row in rows] for k, head in enumerate(PAIR_HEADS)}

    shown = max(len(selected(each, score)) for each in known.values() for score in scores)
    every = max(sum(pair.score == score for pair in each.pairs) for each in known.values() for score in scores)
    cut = f" Shows {shown} of {every} pairs, those of the best models first."
    return Figure(
        key="pairs",
        title="Paired differences",
        chart=row_charts.pairs_chart("difference, first − second"),
        data=by_scope(known, scores, columns),
        heads=PAIR_HEADS,
        description="Paired differences of scores between models with intervals",
        caption=PAIRS + cut * (every > shown),
        controls=controls(known, "score", scores),
    )


# -------------------------------------------------------------------------------------- before and after
def before_after(comparison: Comparison) -> Figure | None:
    """NLL of each model before and after temperature scaling."""
    known = {scope: each for scope, each in scopes(comparison).items() if {NLL, "cll"} <= set(each.ranks)}
    names = numbered_labels(all_model_numbers(comparison))

    def columns(each: Comparison, _: str) -> Columns:
        """Both likelihoods by model in order of the ranking, without models for which neither is finite."""
        before = {item.model: item.value for item in each.ranks[NLL]}
        after = {item.model: -item.value for item in each.ranks["cll"]}
        models = [item.model for item in each.ranking[:MAX_ROWS]]
        models = [name for name in models if math.isfinite(before[name]) or math.isfinite(after[name])]
        return {
            "label": [names[name] for name in models for _ in range(2)],
            "state": [BEFORE, AFTER] * len(models),
            "value": [value for name in models for value in (before[name], after[name])],
        }

    data = by_scope(known, {"": ""}, columns)
    if not any(each["value"] for each in data.values()):
        return None
    count = max(len(each.ranking) for each in known.values())
    return Figure(
        key="before-after",
        title="Likelihood before and after temperature scaling",
        chart=row_charts.dumbbell_chart("negative log-likelihood (lower is better)"),
        data=data,
        heads={"label": "model", "state": "NLL", "value": "value"},
        description="Negative log-likelihood of every model before and after temperature scaling",
        caption=STATES.format(rows=FITTED.get(comparison.temperature, "other rows"))
        + first_of(MAX_ROWS, count, "models"),
        controls=controls(known, "", {}),
    )


# -------------------------------------------------------------------------------------- probability of best
def probability_of_best(comparison: Comparison) -> Figure | None:
    """The share of resampled test sets on which each model is best."""

    def with_probability(each: Comparison) -> list[str]:
        ranks = each.ranks.items()
        return [score for score, items in ranks if len(items) > 1 and any(math.isfinite(x.best) for x in items)]

    known = scopes(comparison)
    scores = common_scores(known, with_probability)
    if not scores:
        return None
    names = numbered_labels(all_model_numbers(comparison))

    def columns(each: Comparison, score: str) -> Columns:
        rows = []
        for k, item in enumerate(each.ranks[score]):
            if k < MIN_BEST or item.best >= MIN_PROBABILITY:
                best = "" if math.isnan(item.best) else f"{item.best:.3f}"
                spread = f" ({item.rank_low}–{item.rank_high})" if item.rank_low != item.rank_high else ""
                rows.append((names[item.model], item.best, item.rank, f"{best} · rank {item.rank}{spread}"))
        return {head: [row[k] for row in rows[:MAX_ROWS]] for k, head in enumerate(BEST_HEADS)}

    count = max(len(each.ranking) for each in known.values())
    cut = f" Omits models with a probability below {MIN_PROBABILITY:g}, and those after the first {MAX_ROWS}."
    return Figure(
        key="best",
        title="Probability of being best",
        chart=row_charts.shares_chart("probability of being best"),
        data=by_scope(known, scores, columns),
        heads=BEST_HEADS,
        description="The probability of each model of being best",
        caption=BEST + cut * (count > MIN_BEST),
        controls=controls(known, "score", scores),
    )


# ------------------------------------------------------------------------------------------------ data sets
def ranks(comparison: Comparison) -> Figure | None:
    """Ranks by data set of the models that all data sets have."""
    summary = comparison.summary
    if summary is None or len(summary.datasets) < 2:
        return None
    names, sets = (
        numbered_labels(all_model_numbers(comparison)),
        labels(list(comparison.datasets)[:MAX_RANKED]),
    )
    rows: list[dict[str, Any]] = []
    for item in summary.models[:MAX_ROWS]:
        row = {"label": names[item.model], "text": f"best in {item.best} of {len(summary.datasets)}"}
        rows.append({**row, "kind": "mean", "dataset": "mean", "value": item.mean_rank})
        for name, label in sets.items():
            own = [ranked.rank for ranked in comparison.datasets[name].ranking if ranked.model == item.model]
            rows += [{**row, "kind": "data set", "dataset": label, "value": rank} for rank in own]
    keys = ("label", "dataset", "value", "kind", "text")
    return Figure(
        key="ranks",
        title=f"Ranks by {metric_label(summary.rank_by)} over {len(summary.datasets)} data sets",
        chart=row_charts.ranks_chart(),
        data={(): {key: [row[key] for row in rows] for key in keys}},
        heads={"label": "model", "dataset": "data set", "value": "rank"},
        description="The rank of every model on each data set, and its mean rank",
        caption=RANKS + first_of(MAX_ROWS, len(summary.models), "models"),
    )


# -------------------------------------------------------------------------------------------------- shift
def by_severity(comparison: Comparison) -> Figure | None:
    """Likelihood by severity; a control selects the temperature."""
    chart = lines_chart("severity", "negative log-likelihood", kind="ordered")
    texts = "Likelihood by shift severity", "Negative log-likelihood of every model by shift severity", SHIFT
    return _severity_figure(comparison, "shifted", "NLL", LIKELIHOODS, chart, texts)


def temperatures(comparison: Comparison) -> Figure | None:
    """The optimal temperature by severity."""
    chart = lines_chart("severity", "temperature", kind="ordered", height=220)
    description = "The optimal temperature of every model by shift severity"
    texts = "Optimal temperature by shift severity", description, TEMPERATURES
    return _severity_figure(comparison, "temperatures", "temperature", {"temperature_same": ""}, chart, texts)


def _severity_figure(
    comparison: Comparison, key: str, y: str, fields: Mapping[str, str], chart: Any, texts: Sequence[str]
) -> Figure | None:
    """Means over types of shift by severity, of the fields that are finite in every scope; a likelihood as a loss."""
    known = {scope: each for scope, each in scopes(comparison).items() if each.shifted}
    options = {
        field: label
        for field, label in fields.items()
        if known and all(any(math.isfinite(getattr(c, field)) for c in each.shifted) for each in known.values())
    }
    if not options:
        return None
    names, sign = numbered_labels(all_model_numbers(comparison)), -1.0 if y == "NLL" else 1.0

    def columns(each: Comparison, field: str) -> Columns:
        means = shifted_means(each, field)
        types = {s: str(len({cell.shift for cell in each.shifted if cell.severity == s})) for s in means}
        models = [item.model for item in each.ranking][:MAX_LINES]
        points = {x: [{"x": s, "y": sign * means[s][x], "note": types[s]} for s in means] for x in models}
        return line_rows({names[model]: points[model] for model in models})

    title, description, caption = texts
    return Figure(
        key=key,
        title=title,
        chart=chart,
        data=by_scope(known, options, columns),
        heads={"name": "model", "x": "severity", "y": y, "note": "types of shift"},
        description=description,
        caption=caption + first_of(MAX_LINES, len(names), "models"),
        controls=controls(known, "temperature", options),
    )
