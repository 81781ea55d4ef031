"""Charts of values against the number of rows: mean and spread, relative to all rows, and improvements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.evaluation.size_curves import COMPANIONS, Curve, Sizes
from calibrant.reporting.document import Columns, Control, Figure
from calibrant.reporting.sections.line_charts import line_rows, lines_chart, lines_drawn
from calibrant.reporting.sections.naming import COLOURS, directed, first_of, labels

ALL = "all metrics"
MOST = 40
VALUES = (
    "Lines: the mean over random subsets of so many rows; shaded: from the 5 % to the 95 % quantile of subsets. The "
    "last point is the value on all rows. An estimator without bias is a flat line."
)
RELATIVE = (
    "The mean at each size as a multiple of the value on all rows (figure 3 of Gruber & Buettner 2022). What rises to "
    "the left is biased by the size of the test set; roots of proper scores, such as rbs, stay flat."
)
GAINED = (
    "The value before less the value after, on the same subsets: mean, and from the 5 % to the 95 % quantile (figure 1 "
    "of Gruber & Buettner 2022). Above 0 the recalibration helped."
)
SHARES = "The mean improvement at each size as a multiple of that on all rows. Near 1 everywhere: size does not matter."


def size_figures(item: Sizes) -> list[Figure]:
    """Those that there are numbers for; nothing of a single size."""
    if len(item.sizes) < 2:
        return []
    made = [_gained(item), _relative(item, item.improvement, "share", SHARES)] if item.after is not None else []
    made += [_values(item)]
    made += [_relative(item, item.specs, "relative", RELATIVE)] if item.after is None else []
    return [figure for figure in made if figure is not None]


# ---------------------------------------------------------------------------------------------- mean and spread
def _values(item: Sizes) -> Figure | None:
    both = item.after is not None
    before, after = labels([item.input or "before", item.after or "after"]).values() if both else ("mean", "")
    data: dict[tuple[str, ...], Columns] = {}
    for spec, curve in list(item.specs.items())[:MOST]:
        lines = {before: _points(item, curve)}
        if spec in item.specs_after:
            lines[after] = _points(item, item.specs_after[spec])
        data[(directed(spec),)] = line_rows(lines)
    return _figure(
        "values",
        "Values by number of rows",
        "value",
        VALUES + first_of(MOST, len(item.specs), "metrics"),
        data,
        band=True,
        legend=both,
    )


def _gained(item: Sizes) -> Figure | None:
    data: dict[tuple[str, ...], Columns] = {
        (spec,): line_rows({"improvement": _points(item, curve)})
        for spec, curve in list(item.improvement.items())[:MOST]
    }
    return _figure("gained", "Improvement by number of rows", "before − after", GAINED, data, band=True, legend=False)


def _points(item: Sizes, curve: Curve) -> list[dict[str, Any]]:
    columns = zip(item.sizes, curve.mean, curve.q05, curve.q95, curve.sd, strict=True)
    return [
        {"x": n, "y": mean, "low": low, "high": high, "note": f"sd {sd:.3g}" if math.isfinite(sd) else "all rows"}
        for n, mean, low, high, sd in columns
    ]


# ----------------------------------------------------------------------------------------------------- relative
def _relative(item: Sizes, curves: Mapping[str, Curve], key: str, caption: str) -> Figure | None:
    """Every metric as a multiple of its value on all rows: all of them, or one beside the root of a proper score."""
    ratios = {spec: ratio for spec, ratio in item.ratios().items() if math.isfinite(ratio) and spec in curves}
    if not ratios:
        return None
    beside = [spec for spec in COMPANIONS if spec in ratios]
    farthest = sorted((s for s in ratios if s not in beside), key=lambda spec: -abs(ratios[spec] - 1.0))
    together = [*beside, *farthest[: COLOURS - len(beside)]]
    data: dict[tuple[str, ...], Columns] = {(ALL,): _multiples(item, curves, together)}
    data |= {(spec,): _multiples(item, curves, [*beside, spec]) for spec in farthest[:MOST]}
    said = f" Together are the {len(together)} that change most." if len(ratios) > len(together) else ""
    title = "Relative to all rows" if key == "relative" else "Improvement, relative to all rows"
    return _figure(key, title, "multiple of the value on all rows", caption + said, data)


def _multiples(item: Sizes, curves: Mapping[str, Curve], specs: Sequence[str]) -> Columns:
    lines = {}
    for spec in dict.fromkeys(specs):
        mean = curves[spec].mean
        lines[spec] = [{"x": n, "y": value / mean[-1]} for n, value in zip(item.sizes, mean, strict=True)]
    return line_rows(lines)


def _figure(
    key: str,
    title: str,
    up: str,
    caption: str,
    data: Mapping[tuple[str, ...], Columns],
    *,
    band: bool = False,
    legend: bool = True,
) -> Figure | None:
    drawn = {option: columns for option, columns in data.items() if lines_drawn(columns)}
    if not drawn:
        return None
    heads = {"name": "line", "x": "rows", "y": up}
    heads |= {"low": "5 % quantile", "high": "95 % quantile", "note": "spread of subsets"} if band else {}
    return Figure(
        key=key,
        title=title,
        chart=lines_chart("rows (logarithmic)", up, kind="log", band=band, legend=legend),
        data=drawn,
        heads=heads,
        said=f"{title}, on random subsets of many sizes",
        caption=caption,
        controls=(Control("metric", tuple(option[0] for option in drawn)),),
    )
