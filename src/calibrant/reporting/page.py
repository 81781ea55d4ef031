"""A plain page: the tables of an evaluation and a reliability diagram each, in one HTML file without scripts."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path

from calibrant.comparison.facts import FACTS
from calibrant.errors import plain
from calibrant.evaluation import rendering
from calibrant.evaluation.check_tables import pass_tables
from calibrant.evaluation.improvement_tables import reading
from calibrant.evaluation.ladder_tables import ladder_lines, links_table
from calibrant.evaluation.recalibration_tables import recalibration_tables
from calibrant.evaluation.references import facts_used
from calibrant.evaluation.rendering import Table
from calibrant.evaluation.result import Evaluation, Result
from calibrant.evaluation.tables import group_table, main_table, shift_tables, size_tables
from calibrant.predictions.files.writing import atomic_write
from calibrant.registry import find, metrics
from calibrant.reporting.check_figures import check_section
from calibrant.reporting.comparison_figures import comparison_section

STYLE = """
:root{color-scheme:light dark;--ink:#1b1b1f;--soft:#5c5f66;--line:#d5d8de;--paper:#fff;--bar:#2166ac;--gap:#d6604d}
@media(prefers-color-scheme:dark){:root{--ink:#e8e8ea;--soft:#a3a7b0;--line:#3a3d45;--paper:#17181c;--bar:#6baed6;--gap:#f4a582}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem;overflow-wrap:anywhere}
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}
caption{display:block;position:sticky;left:0;text-align:left;color:var(--soft);padding-bottom:.3rem}
th,td{padding:.25rem .8rem;border-bottom:1px solid var(--line);text-align:right}
th.name,tbody th{text-align:left;min-width:8rem;overflow-wrap:anywhere}td{white-space:nowrap}thead th{color:var(--soft);font-weight:600}tbody th{font-weight:500}
tbody+tbody tr:first-child>*{border-top:2px solid var(--soft)}
svg{max-width:100%;height:auto}text{fill:var(--soft);font:12px system-ui,sans-serif}figure{margin:1rem 0}
.wide{overflow-x:auto}.wide svg{max-width:none}li{margin:.3rem 0;overflow-wrap:anywhere}p{overflow-wrap:anywhere}
.note{color:var(--soft)}details{margin:.5rem 0}dt{font-weight:600;margin-top:.6rem}dd{margin-left:1rem}
"""
SIZE = 260


def write_page(evaluation: Evaluation, path: str | Path, title: str = "Calibrant evaluation") -> Path:
    """Write the page, whole or not at all."""
    path = Path(path)
    with atomic_write(path) as stream:
        stream.write(page(evaluation, title).encode())
    return path


def page(evaluation: Evaluation, title: str = "Calibrant evaluation") -> str:
    """The page as text."""
    sections = _recalibration(evaluation)
    if evaluation.comparison is None:
        sections += "".join(_section(evaluation, result) for result in evaluation.results)
    if evaluation.shift:
        summaries = "".join(rendering.as_html(table) for table in shift_tables(evaluation))
        sections += f"<section><h2>Under shift</h2>{summaries}</section>"
    if evaluation.passed:
        passed = "".join(rendering.as_html(table) for table in pass_tables(evaluation))
        sections += f"<section><h2>Checks under shift</h2>{passed}</section>"
    if evaluation.sizes:
        tables = "".join(rendering.as_html(table) for table in size_tables(evaluation))
        sections += f"<section><h2>By the size of the test set</h2>{tables}</section>"
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none';style-src 'unsafe-inline'\">"
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f"<h1>{html.escape(title)}</h1>{_opening(evaluation)}{sections}{_glossary(evaluation)}{_footer(evaluation)}"
        "</main></body></html>"
    )


def _recalibration(evaluation: Evaluation) -> str:
    """What was gained, what may be concluded from it, and how the map was found."""
    if evaluation.recalibration is None:
        return ""
    said = () if evaluation.improvement is None else reading(evaluation.improvement)
    lines = "".join(f"<p>{html.escape(line)}.</p>" for line in said)
    tables = "".join(rendering.as_html(table) for table in recalibration_tables(evaluation))
    source = f"<p class='note'>{html.escape(plain(evaluation.recalibration['reference']))}</p>"
    return f"<section><h2>What the recalibration gained</h2>{tables}{lines}{source}</section>"


def _section(evaluation: Evaluation, result: Result) -> str:
    parts = [f"<section><h2>{html.escape(plain(result.input))}</h2>"]
    if result.checks:
        parts.append(check_section(evaluation, result))
        return "".join([*parts, "</section>"])
    parts.append(rendering.as_html(main_table(evaluation, result)))
    if result.ladder is not None:
        parts.append(rendering.as_html(links_table("", result.ladder)))
        parts += [f"<p class='note'>{html.escape(line)}</p>" for line in ladder_lines(result.ladder)]
    if "reliability" in result.curves:
        parts.append(_reliability(result.curves["reliability"]))
    if "pit" in result.curves:
        parts.append(_pit(result.curves["pit"]))
    if "scores" in result.curves:
        parts.append(_scores(result.curves["scores"]))
    if "mix" in result.curves:
        parts.append(rendering.as_html(_mix(result.curves["mix"])))
    for by in dict.fromkeys(group.by for group in result.groups):
        parts.append(rendering.as_html(group_table(evaluation, result, by)))
    if result.skipped:
        items = "; ".join(f"{plain(name)} ({plain(why)})" for name, why in result.skipped.items())
        parts.append(f"<p class='note'>Skipped: {html.escape(items)}.</p>")
    return "".join([*parts, "</section>"])


def _reliability(curve: Mapping[str, list[float]]) -> str:
    """Accuracy of each bin as a bar, the mean confidence as a mark; equal heights are what calibration means."""
    bars = []
    names = ("lower", "upper", "confidence", "accuracy", "n")
    rows = zip(*(curve[name] for name in names), strict=True)
    for low, high, confidence, accuracy, n in rows:
        x, w = 40 + SIZE * low, SIZE * (high - low) - 1
        hint = f"{n:g} rows: confidence {confidence:.3f}, accuracy {accuracy:.3f}"
        bars.append(
            f"<g><title>{hint}</title>"
            f"<rect x='{x:.1f}' y='{10 + SIZE * (1 - accuracy):.1f}' width='{w:.1f}' height='{SIZE * accuracy:.1f}' "
            "fill='var(--bar)' opacity='.75'/>"
            f"<line x1='{x:.1f}' x2='{x + w:.1f}' y1='{10 + SIZE * (1 - confidence):.1f}' "
            f"y2='{10 + SIZE * (1 - confidence):.1f}' stroke='var(--gap)' stroke-width='3'/></g>"
        )
    frame = (
        f"<line x1='40' y1='{10 + SIZE}' x2='{40 + SIZE}' y2='10' stroke='var(--soft)' stroke-dasharray='4 4'/>"
        f"<rect x='40' y='10' width='{SIZE}' height='{SIZE}' fill='none' stroke='var(--line)'/>"
        f"<text x='{40 + SIZE / 2}' y='{SIZE + 42}' text-anchor='middle'>confidence</text>"
        f"<text x='14' y='{10 + SIZE / 2}' text-anchor='middle' transform='rotate(-90 14 {10 + SIZE / 2})'>accuracy</text>"
        f"<text x='34' y='{14 + SIZE}' text-anchor='end'>0</text><text x='34' y='18' text-anchor='end'>1</text>"
        f"<text x='{40 + SIZE}' y='{SIZE + 26}' text-anchor='middle'>1</text>"
    )
    label = "Reliability diagram: accuracy (bars) and mean confidence (marks) by confidence"
    return (
        f"<figure><svg viewBox='0 0 {SIZE + 60} {SIZE + 50}' width='{SIZE + 60}' role='img' aria-label='{label}'>"
        f"{''.join(bars)}{_band(curve, SIZE, 1.0)}{frame}</svg><figcaption class='note'>Bars: accuracy. Marks: mean confidence. A mark above "
        f"its bar is over-confidence.{_band_note(curve)}</figcaption></figure>"
    )


def _band(curve: Mapping[str, list[float]], height: float, top: float) -> str:
    """Where the bars of a model that is right would end, as light areas; heights are shares of `top`."""
    if "band_low" not in curve:
        return ""
    areas = []
    rows = zip(*(curve[name] for name in ("lower", "upper", "band_low", "band_high")), strict=True)
    for left, right, low, high in rows:
        y, h = 10 + height * (1 - high / top), max(height * (high - low) / top, 1.0)
        areas.append(
            f"<rect x='{40 + SIZE * left:.1f}' y='{y:.1f}' width='{SIZE * (right - left) - 1:.1f}' height='{h:.1f}'/>"
        )
    return f"<g fill='var(--soft)' opacity='.3'>{''.join(areas)}</g>"


def _band_note(curve: Mapping[str, list[float]]) -> str:
    return " Light areas: where bars of a calibrated model would end." if "band_low" in curve else ""


def _pit(curve: Mapping[str, list[float]]) -> str:
    """Share of rows in each range of F(y) as a bar; equal heights are what a right distribution gives."""
    bins, top = len(curve["share"]), max(*curve["share"], *curve.get("band_high", []), 2.0 / len(curve["share"]))
    bars = []
    for low, high, share in zip(curve["lower"], curve["upper"], curve["share"], strict=True):
        x, w, h = 40 + SIZE * low, SIZE * (high - low) - 1, SIZE / 2 * share / top
        hint = f"{low:.2f} to {high:.2f}: {100 * share:.2f} % of the rows"
        bars.append(
            f"<g><title>{hint}</title><rect x='{x:.1f}' y='{10 + SIZE / 2 - h:.1f}' width='{w:.1f}' height='{h:.1f}' "
            "fill='var(--bar)' opacity='.75'/></g>"
        )
    even = 10 + SIZE / 2 * (1 - 1 / bins / top)
    frame = (
        f"<line x1='40' x2='{40 + SIZE}' y1='{even:.1f}' y2='{even:.1f}' stroke='var(--gap)' stroke-width='2' "
        "stroke-dasharray='4 4'/>"
        f"<rect x='40' y='10' width='{SIZE}' height='{SIZE / 2}' fill='none' stroke='var(--line)'/>"
        f"<text x='{40 + SIZE / 2}' y='{SIZE / 2 + 42}' text-anchor='middle'>F(y)</text>"
        f"<text x='14' y='{10 + SIZE / 4}' text-anchor='middle' transform='rotate(-90 14 {10 + SIZE / 4})'>rows</text>"
        f"<text x='40' y='{SIZE / 2 + 26}' text-anchor='middle'>0</text>"
        f"<text x='{40 + SIZE}' y='{SIZE / 2 + 26}' text-anchor='middle'>1</text>"
    )
    label = "Histogram of the probability integral transform"
    return (
        f"<figure><svg viewBox='0 0 {SIZE + 60} {SIZE / 2 + 50}' width='{SIZE + 60}' role='img' aria-label='{label}'>"
        f"{''.join(bars)}{_band(curve, SIZE / 2, top)}{frame}</svg><figcaption class='note'>Where the outcome lies in the predicted distribution. "
        "Even: right. High at both ends: over-confident. A hump in the middle: under-confident."
        f"{_band_note(curve)}</figcaption></figure>"
    )


def _scores(curve: Mapping[str, list[float]]) -> str:
    """Share of inside and outside rows in each range of the score, as bars that lie over each other."""
    top = max(*curve["inside"], *curve["outside"])
    low, high = curve["lower"][0], curve["upper"][-1]
    bars = []
    for side, colour in (("inside", "var(--bar)"), ("outside", "var(--gap)")):
        for left, right, share in zip(curve["lower"], curve["upper"], curve[side], strict=True):
            x, w = 40 + SIZE * (left - low) / (high - low), SIZE * (right - left) / (high - low)
            h = SIZE / 2 * (share / top) ** 0.5
            hint = f"{side}, {left:.3g} to {right:.3g}: {100 * share:.2f} %"
            bars.append(
                f"<g><title>{hint}</title><rect x='{x:.1f}' y='{10 + SIZE / 2 - h:.1f}' width='{w:.1f}' "
                f"height='{h:.1f}' fill='{colour}' opacity='.6'/></g>"
            )
    frame = (
        f"<rect x='40' y='10' width='{SIZE}' height='{SIZE / 2}' fill='none' stroke='var(--line)'/>"
        f"<text x='{40 + SIZE / 2}' y='{SIZE / 2 + 42}' text-anchor='middle'>score</text>"
        f"<text x='40' y='{SIZE / 2 + 26}' text-anchor='middle'>{low:.3g}</text>"
        f"<text x='{40 + SIZE}' y='{SIZE / 2 + 26}' text-anchor='middle'>{high:.3g}</text>"
    )
    label = "Histograms of the score: inside rows (blue) and outside rows (red)"
    return (
        f"<figure><svg viewBox='0 0 {SIZE + 60} {SIZE / 2 + 50}' width='{SIZE + 60}' role='img' aria-label='{label}'>"
        f"{''.join(bars)}{frame}</svg><figcaption class='note'>Share of rows by score: inside in blue, outside in red. "
        "Heights are square roots, so that thin parts can be seen."
        "</figcaption></figure>"
    )


def _mix(curve: Mapping[str, list[float]]) -> Table:
    """Accuracy of the rows of both sides that the model is confident of, outside rows counting as wrong."""
    rows = zip(curve["confidence"], curve["accuracy"], curve["share"], strict=True)
    lines = tuple((f"{c:.2f}", f"{a:.4f}", f"{s:.4f}") for c, a, s in rows)
    title = "Inside and outside rows together, outside rows counting as wrong"
    return Table(title, ("confidence at least", "accuracy", "share of rows"), lines)


def _opening(evaluation: Evaluation) -> str:
    """Notes and gates; of a comparison gates and the answer come first, as its notes may be long."""
    if evaluation.comparison is None:
        return _notes(evaluation) + _gates(evaluation)
    return _gates(evaluation) + comparison_section(evaluation)


def _notes(evaluation: Evaluation) -> str:
    return "".join(f"<p class='note'>{html.escape(plain(note.message))}</p>" for note in evaluation.warnings)


def _gates(evaluation: Evaluation) -> str:
    """Which gates were set, and what became of them."""
    if not evaluation.gates:
        return ""
    rows = tuple(
        ("passed" if item.passed else "failed", f"{item.kind.replace('_', '-')} {plain(item.gate)}", plain(item.reason))
        for item in evaluation.gates
    )
    table = rendering.as_html(Table("", ("", "gate", "what was found"), rows, left=3))
    return f"<section><h2>Gates</h2>{table}</section>"


def _glossary(evaluation: Evaluation) -> str:
    """What each metric means, from the registry, with its reference."""
    every = [spec for result in evaluation.results for spec in (*result.metrics, *result.checks)]
    names = [name for name in dict.fromkeys(spec.partition("(")[0] for spec in every) if name in metrics()]
    items = []
    for name in names:
        metric = find(name)
        facts = " ".join(filter(None, (metric.definition, metric.bias, f"Reference: {metric.reference}.")))
        items.append(f"<dt>{html.escape(metric.title)} ({html.escape(name)})</dt><dd>{html.escape(facts)}</dd>")
    items += [_fact(name) for name in facts_used(evaluation)]
    return f"<details><summary>What the metrics mean</summary><dl>{''.join(items)}</dl></details>"


def _fact(name: str) -> str:
    fact = FACTS[name]
    said = html.escape(f"{fact.definition} Reference: {fact.reference}.")
    return f"<dt>{html.escape(fact.title)} ({html.escape(name)})</dt><dd>{said}</dd>"


def _footer(evaluation: Evaluation) -> str:
    facts = {
        "version": evaluation.version,
        "settings": dict(evaluation.settings),
        "inputs": list(evaluation.inputs),
    }
    body = html.escape(json.dumps(facts, indent=1))
    return f"<details><summary>Settings and inputs</summary><pre>{body}</pre></details>"
