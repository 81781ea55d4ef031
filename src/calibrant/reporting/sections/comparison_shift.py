"""Models under graded shift: likelihood before and after temperature by severity, one line a model."""

from __future__ import annotations

import math
from collections.abc import Mapping

from calibrant.comparison.result import Comparison
from calibrant.evaluation.comparison_words import shifted_means
from calibrant.reporting.document import Columns, Figure
from calibrant.reporting.sections.comparison_scopes import by_scope, controls, model_numbers, scopes
from calibrant.reporting.sections.line_charts import line_rows, lines_chart
from calibrant.reporting.sections.naming import first_of, numbered

MOST_LINES = 40
LIKELIHOODS = {"clean": "of clean rows", "same": "of the same rows", "log_likelihood": "none (as it comes)"}
CAPTION = (
    "The mean over types of shift; lower is better. With the temperature of clean rows, which is what a user has, "
    "the model meets what it was not prepared for (Ovadia et al. 2019); with that of the same rows, what its ranking "
    "of classes is still worth (Ashukha et al. 2020)."
)
FITTED = "temperature_same"
BEST = "Fitted on the rows of each severity, the mean over types. Above 1 the model is too sure, below 1 not enough."


def by_severity(comparison: Comparison) -> Figure | None:
    """Likelihood by severity; a control chooses the temperature."""
    known = _shifted(comparison)
    options = {key: label for key, label in LIKELIHOODS.items() if _everywhere(known, key)}
    if not options:
        return None
    names = numbered(model_numbers(comparison))
    return Figure(
        key="shifted",
        title="Likelihood by severity of shift",
        chart=lines_chart("severity", "negative log-likelihood", kind="ordered"),
        data=by_scope(known, options, lambda each, key: _columns(each, key, names, -1.0)),
        heads={"name": "model", "x": "severity", "y": "NLL", "note": "types of shift"},
        said="Negative log-likelihood of every model by severity of shift",
        caption=CAPTION + first_of(MOST_LINES, len(names), "models"),
        controls=controls(known, "temperature", options),
    )


def temperatures(comparison: Comparison) -> Figure | None:
    """The best temperature by severity."""
    known = _shifted(comparison)
    if not _everywhere(known, FITTED):
        return None
    names = numbered(model_numbers(comparison))
    return Figure(
        key="temperatures",
        title="Best temperature by severity of shift",
        chart=lines_chart("severity", "temperature", kind="ordered", height=220),
        data=by_scope(known, {FITTED: ""}, lambda each, key: _columns(each, key, names, 1.0)),
        heads={"name": "model", "x": "severity", "y": "temperature", "note": "types of shift"},
        said="The temperature that fits the rows of each severity best, one line a model",
        caption=BEST + first_of(MOST_LINES, len(names), "models"),
        controls=controls(known, "", {}),
    )


def _shifted(comparison: Comparison) -> dict[str, Comparison]:
    return {scope: each for scope, each in scopes(comparison).items() if each.shifted}


def _everywhere(known: Mapping[str, Comparison], key: str) -> bool:
    """Whether every scope has finite values of a field."""
    return bool(known) and all(
        any(math.isfinite(getattr(cell, key)) for cell in each.shifted) for each in known.values()
    )


def _columns(comparison: Comparison, key: str, names: Mapping[str, str], sign: float) -> Columns:
    """The means over types, severity by severity; a likelihood as a loss, as the tables have it."""
    means = shifted_means(comparison, key)
    types = {s: len({cell.shift for cell in comparison.shifted if cell.severity == s}) for s in means}
    models = [item.model for item in comparison.ranking][:MOST_LINES]
    return line_rows(
        {
            names[name]: [{"x": s, "y": sign * values[name], "note": f"{types[s]}"} for s, values in means.items()]
            for name in models
        }
    )
