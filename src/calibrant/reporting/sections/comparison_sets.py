"""Models over several data sets: the rank in each of them and the mean rank."""

from __future__ import annotations

from typing import Any

from calibrant.comparison.result import Comparison
from calibrant.evaluation.comparison_words import named
from calibrant.reporting.document import Figure
from calibrant.reporting.sections.comparison_scopes import model_numbers
from calibrant.reporting.sections.naming import first_of, labels, numbered
from calibrant.reporting.sections.row_charts import ranks_chart

MOST_ROWS, MOST_SETS = 30, 100
CAPTION = "Rings: the rank in each data set. Diamonds: the mean rank, by which models are in order."


def ranks(comparison: Comparison) -> Figure | None:
    """Ranks by data set, of the models that all of them have."""
    summary = comparison.summary
    if summary is None or len(summary.datasets) < 2:
        return None
    names, sets = numbered(model_numbers(comparison)), labels(list(comparison.datasets)[:MOST_SETS])
    rows: list[dict[str, Any]] = []
    for item in summary.models[:MOST_ROWS]:
        row = {"label": names[item.model], "said": f"best in {item.best} of {len(summary.datasets)}"}
        rows.append({**row, "kind": "mean", "dataset": "mean", "value": item.mean_rank})
        for name, label in sets.items():
            found = [ranked.rank for ranked in comparison.datasets[name].ranking if ranked.model == item.model]
            rows += [{**row, "kind": "data set", "dataset": label, "value": rank} for rank in found]
    keys = ("label", "dataset", "value", "kind", "said")
    return Figure(
        key="ranks",
        title=f"Ranks by {named(summary.rank_by)} over {len(summary.datasets)} data sets",
        chart=ranks_chart(),
        data={(): {key: [row[key] for row in rows] for key in keys}},
        heads={"label": "model", "dataset": "data set", "value": "rank"},
        said="The rank of every model in each data set, and its mean rank",
        caption=CAPTION + first_of(MOST_ROWS, len(summary.models), "models"),
    )
