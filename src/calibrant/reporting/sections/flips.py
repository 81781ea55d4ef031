"""Rank flips: the rank of each model by one calibration error under many settings of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from calibrant.evaluation.comparison_words import numbers_of
from calibrant.evaluation.flips import RankFlips
from calibrant.evaluation.result import Evaluation
from calibrant.registry import parse
from calibrant.reporting.document import Block, Control, Figure, Fold, Shown, Text
from calibrant.reporting.sections.line_charts import line_rows, lines_chart
from calibrant.reporting.sections.naming import first_of, labels, numbered

MOST_LINES = 40
CAPTION = (
    "The rank of each model by the same error, 1 being the best, as the number of bins changes (figure 7 of Ashukha et "
    "al. 2020). No setting is the right one: where lines cross, the error does not rank these models."
)


def flips_blocks(evaluation: Evaluation) -> list[Block]:
    """What the flips say, the chart and the table."""
    flips = evaluation.flips
    if flips is None or not flips.settings:
        return []
    numbers = numbers_of(evaluation.comparison) if evaluation.comparison else {}
    order = sorted(flips.models, key=lambda name: numbers.get(name, len(numbers)))
    figure = _figure(flips, {name: numbers.get(name, k) for k, name in enumerate(order, 1)})
    said = replace(flips, models=tuple(labels(flips.models).values())).reading()
    return [Text((f"{said}.",)), figure, Fold("Best and worst rank of every model", (Shown(flips.table()),))]


def _figure(flips: RankFlips, numbers: Mapping[str, int]) -> Figure:
    """A line for each model over the numbers of bins; a control chooses the threshold or the kind of binning."""
    options = [parse(setting).options for setting in flips.settings]
    varied = [key for key in options[0] if key != "bins" and len({str(own[key]) for own in options}) > 1]
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, own in enumerate(options):
        said = ", ".join(f"{key} {_written(own[key])}" for key in varied)
        groups.setdefault((said,) if varied else (), []).append(place)
    names = numbered(dict(list(numbers.items())[:MOST_LINES]))
    bins = [str(own.get("bins", "")) for own in options]
    return Figure(
        key="flips",
        title=f"Ranks by {flips.metric} under {len(flips.settings)} settings",
        chart=lines_chart("bins", "rank", kind="steps", ranks=True, height=340),
        data={key: line_rows(_lines(flips, places, bins, names)) for key, places in groups.items()},
        heads={"name": "model", "x": "bins", "y": "rank", "note": "value"},
        said="The rank of every model against the number of bins",
        caption=CAPTION + first_of(MOST_LINES, len(flips.models), "models"),
        controls=(Control("with", tuple(key[0] for key in groups)),) if varied else (),
    )


def _written(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _lines(
    flips: RankFlips, places: list[int], bins: list[str], names: Mapping[str, str]
) -> dict[str, list[dict[str, Any]]]:
    """The points of every model, setting by setting."""
    where = {model: k for k, model in enumerate(flips.models)}
    return {
        label: [
            {"x": bins[k], "y": flips.ranks[k][where[name]], "note": f"{flips.values[k][where[name]]:.4g}"}
            for k in places
        ]
        for name, label in names.items()
    }
