"""Recalibrations as tables and sentences: what improved, the fit, and the candidates it was selected from."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import Any

from calibrant.registry.lookup import metrics
from calibrant.render import table as rendering
from calibrant.render.formatting import (
    blank_if_nan,
    count,
    format_interval,
    format_level,
    format_number,
    format_p_value,
)
from calibrant.render.table import Bar, Table, bar_legend
from calibrant.results.evaluation import RECALIBRATION, Evaluation
from calibrant.results.improvement import REFERENCE, Gain, Improvement, root_of

MAX_PARAMETERS = 4
"""Parameters that one cell lists."""
NO_SCORE = "no proper score is defined for both inputs"
BETTER, WORSE, NOT_SIGNIFICANT = "significantly better", "significantly worse", "not significant"
UNCHANGED, NOW_INFINITE = "unchanged", "now infinite because a label has probability 0"


def recalibration_tables(evaluation: Evaluation) -> list[Table]:
    """The improvement, the fit and the candidates; empty without a recalibration."""
    if evaluation.kind != RECALIBRATION:
        return []
    facts = evaluation.recalibration
    out = [gain_table(evaluation.improvement)] if evaluation.improvement else []
    out += [_fit_table(facts)] if facts["n_parameters"] else []
    return out + ([candidates_table(facts["choice"])] if "choice" in facts else [])


# ------------------------------------------------------------------------------------------------- the fit
def _fit_table(facts: Mapping[str, Any]) -> Table:
    """One row per fitted map: one for all rows, or one per member."""
    fits, rows = facts["fits"], []
    for place, fit in enumerate(fits):
        name = "map" if len(fits) == 1 else f"member {place}"
        status = "at bound" if fit["at_bound"] else "converged" if fit["converged"] else "not converged"
        losses = [math.nan if fit[key] is None else fit[key] for key in ("before", "after")]
        parameters: list[tuple[str, float]] = []
        for key, value in (facts["parameters"][place] if facts["parameters"] else {}).items():
            if isinstance(value, list):
                numbers = [item for item in value if not isinstance(item, list)]
                parameters += [(f"{key}[{k}]", float(item)) for k, item in enumerate(numbers)]
                parameters += [(key, math.nan)] * (MAX_PARAMETERS + 1) * (len(numbers) != len(value))  # a matrix
            elif not (isinstance(value, bool | str) or value is None or key.startswith("least_")):  # a bound
                parameters.append((key, float(value)))
        text = ", ".join(f"{key} {format_number(value)}" for key, value in parameters)
        if not parameters or len(parameters) > MAX_PARAMETERS:
            text = count(facts["n_parameters"] // max(len(fits), 1), "parameter")
        rows.append((name, text, *map(format_number, losses), status))
    folds = f" · {facts['cross_fitted']} folds; shown: the map of all rows" if "cross_fitted" in facts else ""
    title = f"{facts['title']} by {facts['loss']} · fitted on {facts['fitted_on']}{folds}"
    return Table(title, ("fit", "parameters", "before", "after", "status"), tuple(rows), left=2)


def candidates_table(choice: Mapping[str, Any]) -> Table:
    """The candidates of a selection, the best first, from its stored form."""
    rows = []
    for place, item in enumerate(choice["candidates"]):
        if item["failed"]:
            rows.append((item["method"], "failed", "", ""))
            continue
        score, *margin = (math.inf if item[key] is None else item[key] for key in ("score", "behind", "error"))
        rows.append((item["method"], format_number(score), *(map(format_number, margin) if place else ("", ""))))
    title = f"Candidates · {choice['score']} over {choice['folds']} folds (seed {choice['seed']})"
    return Table(title, ("method", choice["score"], "difference to best", "standard error"), tuple(rows))


# --------------------------------------------------------------------------------------------- improvement
def gain_table(improvement: Improvement) -> Table:
    """One row per score: before, after, the gain with its interval, and the p-value of no difference."""
    gains = improvement.gains.values()
    method = f" · {improvement.method}" if improvement.method else ""
    title = f"{improvement.before} → {improvement.after} · {count(improvement.n, 'row')}{method}"
    heads = ("score", "before", "after", "gain", format_level(improvement.level), "p")
    rows = tuple(
        (gain.score, *map(format_number, (gain.before, gain.after, gain.gain)), format_interval(gain.low, gain.high),
         format_p_value(gain.p_value))
        for gain in gains
    )  # fmt: skip
    return Table(title, heads, rows, bars=tuple(Bar(gain.gain, gain.low, gain.high, zero=0.0) for gain in gains))


def gain_rows(improvement: Improvement) -> list[tuple[object, ...]]:
    """The gains as CSV rows: of the input after, in the group of the one before."""
    rows: list[tuple[object, ...]] = []
    for gain in improvement.gains.values():
        numbers = (gain.gain, gain.low, gain.high, improvement.level, gain.method, improvement.n)
        row = (improvement.after, "gain", improvement.before, gain.score, *numbers, "", "", gain.p_value, "", "")
        rows.append(tuple(map(blank_if_nan, row)))
    return rows


def describe_improvement(improvement: Improvement) -> tuple[str, ...]:
    """Which scores improved significantly, what that says of calibration, and what it does not."""
    by_outcome: dict[str, list[str]] = {}
    for gain in improvement.gains.values():
        by_outcome.setdefault(describe_gain(gain), []).append(gain.score)
    outcomes = "; ".join(f"{outcome}: {', '.join(scores)}" for outcome, scores in by_outcome.items())
    by_size = "" if improvement.sizes is None else improvement.sizes.reading()
    lines = (outcomes or NO_SCORE, *_proposition(improvement), f"by test set size: {by_size}" if by_size else "")
    return tuple(filter(None, lines))


def describe_gain(gain: Gain) -> str:
    """The outcome of one score by the interval of its gain."""
    if math.isinf(gain.after):
        return "infinite before and after" if math.isinf(gain.before) else NOW_INFINITE
    if math.isinf(gain.before):
        return "no longer infinite"
    if gain.gain == 0.0 and math.isnan(gain.low):
        return UNCHANGED
    return BETTER if gain.low > 0 else WORSE if gain.high < 0 else NOT_SIGNIFICANT


def _proposition(improvement: Improvement) -> list[str]:
    """What proposition 4.5 of Gruber & Buettner (2022) says of these gains, and what it does not."""
    known = [(gain, metrics().get(gain.score.partition("(")[0])) for gain in improvement.gains.values()]
    divergences = [(gain, metric.divergence) for gain, metric in known if metric is not None]
    relevant = [(gain, name) for gain, name in divergences if name and math.isfinite(gain.gain) and gain.gain != 0.0]
    if not relevant:
        return []
    if improvement.map in ("not known", "several"):
        reason = "each fold or member has its own map" if improvement.map == "several" else "the map is unknown"
        return [f"{reason}: gains in scores mix calibration and sharpness"]
    each = "; ".join(f"{gain.score} {format_number(gain.gain)}: {name}" for gain, name in relevant)
    roots = [score for score in improvement.gains if root_of(score)]
    limits = "the gain does not say how large that error is, before or after"
    limits += f"; the gain in {', '.join(roots)} does not estimate it" if roots else ""
    if improvement.map == "injective":
        text = "the map is injective, so the gain in a score estimates the reduction of its calibration error"
        return [f"{text} ({each}); {REFERENCE}", limits]
    text = "the map may not be injective and may lose sharpness, so the gain in a score is at most the reduction of its"
    return [f"{text} calibration error ({each})", limits]


def _tables(improvement: Improvement) -> list[Table]:
    from calibrant.render.evaluation import size_table

    return [gain_table(improvement), *([] if improvement.sizes is None else [size_table(improvement.sizes)])]


def as_text(improvement: Improvement, width: int = 80) -> str:
    """Tables and sentences in plain text."""
    tables = [rendering.text(table, width) for table in _tables(improvement)]
    lines = [*filter(None, [bar_legend("\n".join(tables))]), *describe_improvement(improvement)]
    return "\n\n".join([*tables, "\n".join(part for line in lines for part in rendering.wrap(line, width))])


def as_html(improvement: Improvement) -> str:
    """The same as an HTML fragment."""
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in describe_improvement(improvement))
    return "".join(rendering.as_html(table) for table in _tables(improvement)) + lines
