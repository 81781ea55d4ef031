"""Which curves are computed: all that the predictions can give without reading more than the metrics do.

If metrics are named, the pass may lack what a curve reads, and the curve is skipped. So is a curve that keeps all rows,
unless a metric keeps the same rows anyway, above `MAX_KEPT_ROWS` rows; if metrics are named above `MAX_ROWS_NAMED`, so
that metrics which need little memory stay that way. Whether rows are in memory or in a file does not matter.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from calibrant.pipeline.curves import confidence, coverage, detection, interval_width, reliability
from calibrant.pipeline.curves.base import KEPT, Curve
from calibrant.pipeline.groups import Grouping
from calibrant.pipeline.select_metrics import MAX_KEPT_ROWS
from calibrant.predictions import Classification, Detection, Evaluable, Regression
from calibrant.registry.metric import NEEDS, NEEDS_Y, Skipped, Spec
from calibrant.registry.state.accumulators import Reduced

MAX_ROWS_NAMED = 1 << 16
"""Rows up to which curves that keep them are computed if metrics were named and none of them keeps rows."""
FOR_ANY_N = ("reliability", "pit", "calibration", "scores", "mix")
"""Curves that are computed for any number of rows: the others would take longer than reading them."""
GROUP_CURVES = ("reliability", "pit")
FOR_VERDICT = ("reliability", "rejection", "central_coverage")
"""Curves that verdicts quote: the only ones where nothing is stored or drawn."""
MAX_GROUPS = 60
"""Groups of a column up to which they have curves."""
READS_MORE = Skipped("reads_more", "it reads more of the predictions than the metrics that were named")
KEEPS_ROWS = Skipped(
    "keeps_rows", "it keeps every row, which takes much memory; name a metric that keeps them too, such as ks or avu"
)
MANY_ROWS = Skipped("many_rows", "above 2 million rows only the main curve is computed")


def curves_of(example: Evaluable) -> Iterator[Curve]:
    """Every curve that predictions like these may have."""
    if not getattr(example, "has_confidence", True):
        return
    if isinstance(example, Regression):
        yield from coverage.curves(example)
        yield from interval_width.curves(example)
    elif isinstance(example, Detection):
        yield from detection.curves(example)
    else:
        yield from reliability.curves(example)
        yield from confidence.curves(example)


def select_curves(
    example: Evaluable, n: int, specs: list[Spec], columns: frozenset[Hashable], named: bool
) -> tuple[list[Curve], dict[str, Skipped]]:
    """The curves of n rows with these metrics, named or not, and why others are skipped.

    columns: the columns that the metrics require.
    """
    accumulators = [spec.metric.accumulate(spec, example) for spec in specs]
    shared = {item.key for item in accumulators if isinstance(item, Reduced)}
    light = isinstance(example, Classification) and all(spec.metric.short_pass for spec in specs)
    selected: list[Curve] = []
    skipped: dict[str, Skipped] = {}
    for curve in curves_of(example):
        reason = None
        for need in sorted(curve.needs):
            applies, missing = NEEDS[need]
            if reason is None and not applies(example):
                reason = NEEDS_Y if need == "labels" and example.task == "regression" else missing
        if reason is None and (not curve.required_columns <= columns or (curve.full_pass and light)):
            reason = READS_MORE
        if reason is None and n > (MAX_ROWS_NAMED if named else MAX_KEPT_ROWS):
            key = curve.accumulate(example).key
            if key[0] == KEPT and key not in shared:
                reason = KEEPS_ROWS
        if reason is None and n > MAX_KEPT_ROWS and curve.name not in FOR_ANY_N:
            reason = MANY_ROWS
        if reason is None:
            selected.append(curve)
        else:
            skipped[curve.name] = reason
    return selected, skipped


def select_group_curves(
    grouping: Grouping, example: Evaluable, n: int, columns: frozenset[Hashable], named: bool
) -> tuple[Curve, ...]:
    """The curves of each group; none if there are many groups."""
    if not grouping.intervals or len(grouping.names) > MAX_GROUPS:
        return ()
    selected, _ = select_curves(example, n, grouping.specs, columns, named)
    return tuple(curve for curve in selected if curve.name in GROUP_CURVES)
