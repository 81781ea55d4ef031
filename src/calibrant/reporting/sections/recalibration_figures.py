"""The figures of a recalibration: gains about 0, metrics and curves before and after, gains by size of the test set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.evaluation.gains import Gain
from calibrant.evaluation.improvement_tables import BETTER, WORSE, WORST, verdict
from calibrant.evaluation.result import Evaluation, Result
from calibrant.evaluation.size_curves import COMPANIONS, Sizes
from calibrant.evaluation.tables import ARROWS
from calibrant.registry import metrics
from calibrant.reporting.before_after import (
    AFTER,
    BEFORE,
    GAINED,
    LOST,
    OPEN,
    by_size_chart,
    gain_chart,
    joined_chart,
    overlaid_chart,
)
from calibrant.reporting.document import Columns, Control, Figure
from calibrant.reporting.gathering import curve_options, has_band
from calibrant.reporting.naming import distinct
from calibrant.reporting.sections.regression import KINDS as LEVELS
from calibrant.reporting.sections.reliability import KINDS as BINNINGS

OF_BEFORE, AS_IT_IS = "shares of the value before", "values"
GAINS = (
    "Each score on the same rows before and after: the difference, and its paired interval. Only proper scores can be "
    "read as a gain; an interval that holds 0 leaves it open whether there was one."
)
JOINED = (
    "Every metric before (ring) and after (square); arrows say which way is better. Calibration errors are biased, and "
    "more so on few rows: that they fall is no proof, the gains in proper scores above are."
)
CURVES = "Before (dashed) and after (solid)."
SHADED = " Shaded: where the curve after would lie by chance if it were calibrated."
SIZES = (
    "The improvement that random subsets of each size show on average. A level line says the same at every size; "
    "otherwise a test set of another size would have told another story (Gruber & Buettner 2022, figure 1)."
)
CUT = (-1.0, 3.0)
CUT_OFF = f" Shares below {CUT[0]:g} or above {CUT[1]:g} are among the numbers alone."
ALL = "all, as shares of full size"
MOST_LINES, MANY = 7, 60
Curve = Mapping[str, Sequence[float]]


# ----------------------------------------------------------------------------------------------------- gains
def gains(evaluation: Evaluation) -> Figure | None:
    """Gains about 0, as shares of the score before where that is positive, and as they are."""
    found = evaluation.improvement
    known = [] if found is None else [gain for gain in found.gains.values() if math.isfinite(gain.gain)]
    if not known:
        return None
    data: dict[tuple[str, ...], Columns] = {}
    if any(gain.before > 0 for gain in known):
        data[(OF_BEFORE,)] = _gain_columns(known, shares=True)
    data[(AS_IT_IS,)] = _gain_columns(known, shares=False)
    return Figure(
        key="gains",
        title="What was gained",
        chart=gain_chart(len(known)),
        data=data,
        heads={
            "score": "score", "before": "before", "after": "after", "gain": "gain", "low": "interval from",
            "high": "to", "p_value": "p-value", "kind": "verdict",
        },
        said="Gain in each proper score with its interval, beside 0",
        caption=GAINS,
        controls=(Control("gains are", tuple(option for (option,) in data)),),
    )  # fmt: skip


def _gain_columns(known: Sequence[Gain], *, shares: bool) -> Columns:
    names = ("score", "before", "after", "gain", "low", "high", "p_value")
    out: dict[str, list[Any]] = {name: [getattr(gain, name) for gain in known] for name in names}
    out["kind"] = [_kind(gain) for gain in known]
    by = [(gain.before if gain.before > 0 else math.nan) if shares else 1.0 for gain in known]
    for place, name in (("at", "gain"), ("at_low", "low"), ("at_high", "high")):
        out[place] = [getattr(gain, name) / unit for gain, unit in zip(known, by, strict=True)]
    return out


def _kind(gain: Gain) -> str:
    return {BETTER: GAINED, WORSE: LOST, WORST: LOST}.get(verdict(gain), OPEN)


# ---------------------------------------------------------------------------------------------- before and after
def both(evaluation: Evaluation) -> tuple[Result, Result] | None:
    """The results before and after, where there are both."""
    found = evaluation.improvement
    if found is None or len(evaluation.results) != 2 or found.before == found.after:
        return None
    named = {result.input: result for result in evaluation.results}
    if found.before not in named or found.after not in named:
        return None
    return named[found.before], named[found.after]


def joined(evaluation: Evaluation) -> Figure | None:
    """Every metric that both have, as multiples of its value before and as it is."""
    pair = both(evaluation)
    specs = [] if pair is None else [spec for spec in pair[0].metrics if spec in pair[1].metrics]
    if pair is None or not specs:
        return None
    shares, values = (_joined_columns(pair, specs, shares=shares) for shares in (True, False))
    drawn = any(isinstance(at, float) and math.isfinite(at) for at in shares["at"])
    data: dict[tuple[str, ...], Columns] = {(OF_BEFORE,): shares} if drawn else {}
    data[(AS_IT_IS,)] = values
    return Figure(
        key="before-after",
        title="Before and after",
        chart=joined_chart(len(specs), "value; as a share, 1 is the value before"),
        data=data,
        heads={"metric": "metric", "when": "when", "value": "value", "low": "interval from", "high": "to"},
        said="Every metric before and after the recalibration",
        caption=JOINED,
        controls=(Control("metrics are", tuple(option for (option,) in data)),),
    )


def _joined_columns(pair: tuple[Result, Result], specs: list[str], *, shares: bool) -> Columns:
    """Two rows for each metric; a share of nothing, or of less, is not drawn."""
    out: dict[str, list[Any]] = {name: [] for name in ("metric", "when", "value", "low", "high", "at")}
    for spec, shown in zip(specs, distinct(map(_arrowed, specs)), strict=True):
        first = pair[0].metrics[spec].value
        unit = (first if first > 0 and math.isfinite(first) else math.nan) if shares else 1.0
        for when, result in zip((BEFORE, AFTER), pair, strict=True):
            e = result.metrics[spec]
            values = (shown, when, e.value, e.low, e.high, e.value / unit)
            for name, value in zip(out, values, strict=True):
                out[name].append(value)
    return out


def _arrowed(spec: str) -> str:
    metric = metrics().get(spec.partition("(")[0])
    return spec + (ARROWS.get(metric.direction, "") if metric else "")


# ------------------------------------------------------------------------------------------------------- curves
def curves(evaluation: Evaluation) -> list[Figure]:
    """Reliability, or the coverage of numbers, of both over each other."""
    pair = both(evaluation)
    if pair is None:
        return []
    return [figure for figure in (_reliability(pair), _coverage(pair)) if figure is not None]


def _reliability(pair: tuple[Result, Result]) -> Figure | None:
    data: dict[tuple[str, ...], Columns] = {}
    for name in pair[0].curves:
        kind, options = curve_options(name)
        if kind == "reliability" and "of" not in options and name in pair[1].curves:
            chosen = BINNINGS[options.get("binning", "width")], options.get("bins", "15")
            data[chosen] = _overlaid([result.curves[name] for result in pair], "confidence", "accuracy")
    if not data:
        return None
    binnings = tuple(kind for kind in BINNINGS.values() if any(key[0] == kind for key in data))
    bins = sorted({key[1] for key in data}, key=lambda b: (b != "15", int(b)))
    return Figure(
        key="reliability",
        title="Reliability before and after",
        chart=overlaid_chart("confidence", "accuracy"),
        data=data,
        heads=_heads("mean confidence", "accuracy"),
        said="Accuracy against mean confidence of bins, before and after, beside the line on which both are equal",
        caption=CURVES + SHADED * has_band(data.values()),
        controls=(Control("binning", binnings), Control("bins", tuple(bins))),
    )


def _coverage(pair: tuple[Result, Result]) -> Figure | None:
    data: dict[tuple[str, ...], Columns] = {
        (shown,): _overlaid([result.curves[name] for result in pair], "level", "observed")
        for name, shown in LEVELS.items()
        if name in pair[0].curves and name in pair[1].curves
    }
    if not data:
        return None
    return Figure(
        key="coverage",
        title="Coverage before and after",
        chart=overlaid_chart("level", "observed share", dots=all(len(each["x"]) < MANY for each in data.values())),
        data=data,
        heads=_heads("level", "observed share"),
        said="Observed share of outcomes against the level, before and after, beside the line on which both are equal",
        caption=CURVES + SHADED * has_band(data.values()),
        controls=(Control("outcomes that lie", tuple(shown for (shown,) in data)),),
    )


def _heads(x: str, y: str) -> dict[str, str]:
    return {"when": "when", "x": x, "y": y, "n": "rows", "band_low": "if calibrated: from", "band_high": "to"}


def _overlaid(pair: list[Curve], x: str, y: str) -> Columns:
    """Both curves under each other; bins of a curve over levels are the steps between these."""
    names = ("when", "x", "y", "n", "lower", "upper", "band_low", "band_high")
    out: dict[str, list[Any]] = {name: [] for name in names}
    for when, curve in zip((BEFORE, AFTER), pair, strict=True):
        size = len(curve[x])
        known = {"when": [when] * size, "x": curve[x], "y": curve[y]}
        if "lower" not in curve:
            known |= {"lower": [0.0, *curve[x]][:size], "upper": curve[x]}
        for name in names:
            out[name] += known.get(name) or curve.get(name) or [None] * size
    return out


# ------------------------------------------------------------------------------------------------------ by size
def by_size(evaluation: Evaluation) -> list[Figure]:
    """The improvement of the usual errors at several sizes, beside that of a proper score."""
    found = evaluation.improvement
    stored = [] if found is None or found.sizes is None else [found.sizes]
    items = [item for item in (*stored, *evaluation.sizes) if item.after is not None and len(item.sizes) > 1]
    return [figure for item in items[:1] if (figure := _by_size(item)) is not None]


def _by_size(item: Sizes) -> Figure | None:
    first = [spec for spec in COMPANIONS if spec in item.improvement]
    specs = [*first, *(spec for spec in item.improvement if spec not in first)]
    told = [spec for spec in specs if math.isfinite(item.share(spec))][:MOST_LINES]
    data: dict[tuple[str, ...], Columns] = {}
    if told:
        data[(ALL,)] = _size_columns(item, told, shares=True)
    changed = [spec for spec in specs if any(math.isfinite(x) and x != 0.0 for x in item.improvement[spec].mean)]
    for spec, shown in zip(changed, distinct(changed), strict=True):
        data[(shown,)] = _size_columns(item, [spec], shares=False)
    if not data:
        return None
    far = bool(told) and any(x is None for x in data[(ALL,)]["at"])
    return Figure(
        key="sizes",
        title="Improvement by the size of the test set",
        chart=by_size_chart(log=item.sizes[-1] > 4 * item.sizes[0]),
        data=data,
        heads={"metric": "metric", "size": "rows", "mean": "mean improvement", "sd": "standard deviation"}
        | {"q05": "5 %", "q95": "95 %", "at": "shown"},
        said="Mean improvement on random subsets against their size",
        caption=SIZES + CUT_OFF * far,
        controls=(Control("metric", tuple(option for (option,) in data)),),
    )


def _size_columns(item: Sizes, specs: list[str], *, shares: bool) -> Columns:
    """A row for each metric and size; alone a metric has the spread of the subsets too."""
    names = ("metric", "size", "mean", "sd", "q05", "q95", "at", "low", "high", "level")
    rows = []
    for spec in specs:
        curve = item.improvement[spec]
        unit = curve.mean[-1] if shares else 1.0
        for k, size in enumerate(item.sizes):
            share = curve.mean[k] / unit
            at = share if not shares or CUT[0] <= share <= CUT[1] else None
            ends = (None, None) if shares else (curve.q05[k], curve.q95[k])
            numbers = (curve.mean[k], curve.sd[k], curve.q05[k], curve.q95[k])
            rows.append((spec, size, *numbers, at, *ends, 1.0 if shares else 0.0))
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
