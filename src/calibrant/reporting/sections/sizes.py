"""Sensitivity to the size of the test set (Gruber & Buettner 2022, figures 1 and 3) and to the options of a calibration
error, which change the ranks of models (Ashukha et al. 2020, figure 7)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant.registry.lookup import parse, with_role
from calibrant.render.comparison_text import model_numbers
from calibrant.render.evaluation import size_table
from calibrant.reporting import document as doc
from calibrant.reporting import labels as naming
from calibrant.reporting.charts.line_charts import has_points, line_rows, lines_chart
from calibrant.reporting.document import Block, Choices, Columns, Figure, Section, TableBlock, Text
from calibrant.reporting.labels import MAX_COLOURS, as_sentence, first_of, label_with_direction, labels, short
from calibrant.reporting.report_data import ReportData
from calibrant.results.evaluation import COMPARISON, Evaluation
from calibrant.results.sample_size import SampleSizeCurve, SampleSizeCurves

LEAD = "Would a test set of another size, or other options of a metric, change the answer?"
ALL = "all metrics"
MAX_METRICS, MAX_LINES = 40, 40
VALUES = (
    "Lines: mean over random subsets of each size. Shaded: 5% to 95% quantile of subsets. The last point is the value "
    "on all rows. An unbiased estimator gives a flat line."
)
RELATIVE = (
    "Mean at each size, divided by the value on all rows (figure 3 of Gruber & Buettner 2022). Metrics that rise to "
    "the left are biased in small test sets; square roots of proper scores, such as rbs, stay flat."
)
IMPROVEMENT = (
    "Value before minus value after on the same subsets: mean and 5% to 95% quantile (figure 1 of Gruber & Buettner "
    "2022). Above 0, recalibration helped."
)
RELATIVE_IMPROVEMENT = (
    "Mean improvement at each size, divided by that on all rows. A flat line at 1 does not depend on the test set size."
)
FLIPS = (
    "Rank of each model (1 is the best) by the same error as the number of bins changes (figure 7 of Ashukha et al. "
    "2020). No setting is more correct than another: where lines cross, the error cannot rank these models."
)


def section(report: ReportData) -> Section | None:
    """SampleSizeCurves of several inputs in their panels, of one input or of pairs for all; then rank flips."""
    items = [(evaluation, item) for evaluation in report.evaluations for item in evaluation.sizes]
    blocks: list[Block] = []
    for evaluation, item in items:
        place = None
        if len(items) > 1 and item.after is None:
            views = ((k, view) for k, subject in enumerate(report.subjects) for view in subject.views)
            own = (k for k, view in views if view.evaluation is evaluation and view.result.input == item.input)
            place = next(own, None)
        content = _blocks(item, headed=place is None and len(items) > 1)
        blocks += content if place is None else [doc.Panel(place, tuple(content))]
    blocks += [block for evaluation in report.evaluations for block in flips_blocks(evaluation)]
    return Section("sizes", "Sample size and metric options", tuple(blocks), LEAD) if blocks else None


def _blocks(item: SampleSizeCurves, *, headed: bool) -> list[Block]:
    """The conclusion, charts and table of one item."""
    name = short(item.input) if item.after is None else f"{short(item.input)} before, {short(item.after)} after"
    blocks: list[Block] = [doc.Heading(name)] if headed else []
    reading = item.reading()
    blocks += [Text((f"{as_sentence(reading)}.",))] if reading else []
    return [*blocks, *size_figures(item), doc.Details("Table by number of rows", (TableBlock(size_table(item)),))]


# ------------------------------------------------------------------------------------------------- sample sizes
def size_figures(item: SampleSizeCurves) -> list[Figure]:
    """Values, improvements and ratios by size, before and after if there are both; empty for a single size."""
    if len(item.sizes) < 2:
        return []
    both = item.after is not None
    before, after = labels([item.input or "before", item.after or "after"]).values() if both else ("mean", "")
    data: Choices = {}
    for spec, curve in list(item.specs.items())[:MAX_METRICS]:
        more = {after: _points(item, item.specs_after[spec])} if spec in item.specs_after else {}
        data[(label_with_direction(spec),)] = line_rows({before: _points(item, curve), **more})
    caption = VALUES + first_of(MAX_METRICS, len(item.specs), "metrics")
    values = _figure("values", "Values by number of rows", "value", caption, data, bands=True, legend=both)
    if not both:
        relative = _relative(item, item.specs, "relative", "Values relative to all rows", RELATIVE)
        return [figure for figure in (values, relative) if figure is not None]
    improvement = list(item.improvement.items())[:MAX_METRICS]
    data = {(spec,): line_rows({"improvement": _points(item, curve)}) for spec, curve in improvement}
    gained = _figure("gained", "Improvement by number of rows", "before − after", IMPROVEMENT, data, bands=True)
    title = "Improvement relative to all rows"
    share = _relative(item, item.improvement, "share", title, RELATIVE_IMPROVEMENT)
    return [figure for figure in (gained, share, values) if figure is not None]


def _points(item: SampleSizeCurves, curve: SampleSizeCurve) -> list[dict[str, Any]]:
    columns = zip(item.sizes, curve.mean, curve.q05, curve.q95, curve.sd, strict=True)
    return [
        {"x": n, "y": mean, "low": low, "high": high, "note": f"sd {sd:.3g}" if math.isfinite(sd) else "all rows"}
        for n, mean, low, high, sd in columns
    ]


def _relative(
    item: SampleSizeCurves, curves: Mapping[str, SampleSizeCurve], key: str, title: str, caption: str
) -> Figure | None:
    """Every metric divided by its value on all rows: all together, or one with the root of a proper score."""
    ratios = {spec: ratio for spec, ratio in item.ratios().items() if math.isfinite(ratio) and spec in curves}
    if not ratios:
        return None

    def columns(specs: Iterable[str]) -> Columns:
        points = {spec: zip(item.sizes, curves[spec].mean, strict=True) for spec in dict.fromkeys(specs)}
        return line_rows({spec: [{"x": n, "y": y / curves[spec].mean[-1]} for n, y in points[spec]] for spec in points})

    companions = [spec for spec in with_role("sample_size_reference") if spec in ratios]
    farthest = sorted((s for s in ratios if s not in companions), key=lambda spec: -abs(ratios[spec] - 1.0))
    together = [*companions, *farthest[: MAX_COLOURS - len(companions)]]
    data: Choices = {(ALL,): columns(together)}
    data |= {(spec,): columns([*companions, spec]) for spec in farthest[:MAX_METRICS]}
    caption += f" The common chart shows the {len(together)} that change most." if len(ratios) > len(together) else ""
    return _figure(key, title, "ratio to all rows", caption, data, legend=True)


def _figure(
    key: str, title: str, y_title: str, caption: str, data: Choices, *, bands: bool = False, legend: bool = False
) -> Figure | None:
    drawn = {option: columns for option, columns in data.items() if has_points(columns)}
    if not drawn:
        return None
    heads = {"name": "line", "x": "rows", "y": y_title}
    heads |= {"low": "5% quantile", "high": "95% quantile", "note": "spread of subsets"} if bands else {}
    return Figure(
        key=key,
        title=title,
        chart=lines_chart("rows (logarithmic)", y_title, kind="log", band=bands, legend=legend),
        data=drawn,
        heads=heads,
        description=f"{title}, on random subsets of several sizes",
        caption=caption,
        controls=(doc.Control("metric", tuple(option[0] for option in drawn)),),
    )


# --------------------------------------------------------------------------------------------------- rank flips
def flips_blocks(evaluation: Evaluation) -> list[Block]:
    """The conclusion on rank flips, the chart and the table."""
    flips = evaluation.flips
    if flips is None or not flips.settings:
        return []
    known = model_numbers(evaluation.comparison) if evaluation.kind == COMPARISON else {}
    order = sorted(flips.models, key=lambda name: known.get(name, len(known)))
    numbers = {name: known.get(name, k) for k, name in enumerate(order[:MAX_LINES], 1)}
    options = [parse(setting).options for setting in flips.settings]
    varied = [key for key in options[0] if key != "bins" and len({str(own[key]) for own in options}) > 1]
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, own in enumerate(options):
        values = ((key, own[key]) for key in varied)
        label = ", ".join(f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}" for key, value in values)
        groups.setdefault((label,) if varied else (), []).append(place)

    def points(model: str, places: Sequence[int]) -> list[dict[str, Any]]:
        k = flips.models.index(model)
        settings = ((str(options[p].get("bins", "")), flips.ranks[p][k], flips.values[p][k]) for p in places)
        return [{"x": bins, "y": rank, "note": f"{value:.4g}"} for bins, rank, value in settings]

    names = naming.numbered_labels(numbers).items()
    figure = Figure(
        key="flips",
        title=f"Ranks by {flips.metric} under {len(flips.settings)} settings",
        chart=lines_chart("bins", "rank", kind="steps", ranks=True, height=340),
        data={key: line_rows({label: points(name, own) for name, label in names}) for key, own in groups.items()},
        heads={"name": "model", "x": "bins", "y": "rank", "note": "value"},
        description="The rank of every model against the number of bins",
        caption=FLIPS + first_of(MAX_LINES, len(flips.models), "models"),
        controls=(doc.Control("options", tuple(key[0] for key in groups)),) if varied else (),
    )
    reading = replace(flips, models=tuple(labels(flips.models).values())).reading()
    table = doc.Details("Best and worst rank of every model", (TableBlock(flips.table()),))
    return [Text((f"{reading}.",)), figure, table]
