"""Comparisons as rows of values with full precision: one row a model and score, a pair and score, an equivalent."""

from __future__ import annotations

import math

from calibrant.comparison.records import Pair, Ranked
from calibrant.comparison.result import Comparison
from calibrant.evaluation.comparison_words import CALIBRATED
from calibrant.evaluation.result import Evaluation

HEADS = (
    "kind", "input", "other", "metric", "value", "low", "high", "level", "n", "rank", "rank_low", "rank_high", "best",
    "temperature", "p_value", "p_bootstrap", "p_holm", "detectable", "better", "members", "censored",
)  # fmt: skip
Row = tuple[object, ...]


def comparison_rows(evaluation: Evaluation) -> list[Row]:
    """Rows with the columns of `HEADS`; with several data sets those of each have its name before the model's."""
    comparison = evaluation.comparison
    if comparison is None:
        return []
    level = float(evaluation.settings["level"])
    counts: dict[str, object] = {
        result.input: next((e.n for e in result.metrics.values()), "") for result in evaluation.results
    }
    out = _of(comparison, "", level, counts)
    for name, each in comparison.datasets.items():
        out += _of(each, f"{name}/", level, counts)
    return out


def _of(comparison: Comparison, prefix: str, level: float, counts: dict[str, object]) -> list[Row]:
    ranks = comparison.ranks or {comparison.rank_by: comparison.ranking}
    rows = []
    for score, ranked in ranks.items():
        temperatures = comparison.best_temperature if score in CALIBRATED else {}
        rows += [_model(item, score, prefix, level, counts, temperatures.get(item.model, "")) for item in ranked]
    rows += [_pair(pair, prefix) for pair in comparison.pairs]
    for name, item in comparison.equivalents.items():
        where = {"kind": "equivalent", "input": prefix + name, "other": comparison.pool or "", "metric": "dee"}
        found = {"value": item.value, "low": item.low, "high": item.high, "level": item.level}
        rows.append(_row(**where, **found, members=item.members, censored=item.censored))
    return rows


def _model(item: Ranked, score: str, prefix: str, level: float, counts: dict[str, object], temperature: object) -> Row:
    known = level if math.isfinite(item.low) else ""
    return _row(
        kind="model", input=prefix + item.model, metric=score, value=item.value, low=item.low, high=item.high,
        level=known, n=counts.get(prefix + item.model, ""), rank=item.rank, rank_low=item.rank_low,
        rank_high=item.rank_high, best=item.best, temperature=temperature,
    )  # fmt: skip


def _pair(pair: Pair, prefix: str) -> Row:
    return _row(
        kind="pair", input=prefix + pair.first, other=prefix + pair.second, metric=pair.score, value=pair.difference,
        low=pair.low, high=pair.high, level=pair.level, n=pair.n, p_value=pair.p_value, p_bootstrap=pair.p_bootstrap,
        p_holm=pair.p_holm, detectable=pair.detectable, better="" if pair.better is None else prefix + pair.better,
    )  # fmt: skip


def _row(**known: object) -> Row:
    """One row; what is not known or undefined is empty."""
    values = (known.get(name, "") for name in HEADS)
    return tuple("" if isinstance(value, float) and math.isnan(value) else value for value in values)
