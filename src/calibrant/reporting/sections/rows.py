"""The rows with the largest losses, filtered by two of their columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from calibrant.errors import plain
from calibrant.registry.lookup import with_role
from calibrant.reporting.document import Block, RowBrowser, Section, Text
from calibrant.reporting.estimates import metric_title
from calibrant.reporting.report_data import ReportData, Subject

MAX_COLUMNS = 6
HEADS = {
    "row": "row", "id": "id", "loss": "loss", "label": "label", "predicted": "predicted", "correct": "prediction",
    "confidence": "confidence", "top": "top classes", "entropy": "entropy", "mutual_information": "mutual information",
    "y": "y", "mean": "mean", "std": "standard deviation", "median": "median", "low": "interval from",
    "high": "interval to", "pit": "F(y)", "z": "|y − mean| / std", "scaled_error": "|y − median| / width",
}  # fmt: skip
"""Columns of the table and their heads, in order."""


def section(report: ReportData) -> Section | None:
    """A panel for each input with stored rows, unless rows must not be shown."""
    if not report.rows:
        return None
    panels = report.panels(lambda subject: _blocks(report, subject))
    lead = "Which rows are worst? Those with the largest losses are often mislabelled or unlike the training data."
    return Section("rows", "Worst rows", panels, lead) if panels else None


def _blocks(report: ReportData, subject: Subject) -> tuple[Block, ...]:
    view = subject.first_with(lambda result: result.worst_rows)
    if view is None:
        return ()
    worst = view.result.worst_rows
    names = list(dict.fromkeys(name for row in worst for name in row.get("columns", {})))[:MAX_COLUMNS]
    rows = tuple(_row(row, names) for row in worst)
    known = {key for row in rows for key, value in row.items() if value is not None}
    heads = [(key, title) for key, title in HEADS.items() if key in known]
    heads += [(f"column{k}", plain(name, 80)) for k, name in enumerate(names)]
    spec = view.result.worst_by or with_role("row_loss")[0]
    loss = metric_title(spec) or plain(spec)
    note = f"The loss is the {loss[0].lower()}{loss[1:]}. Sliders hide rows below a value; infinite losses always stay."
    first = next((key for key in ("confidence", "z", "scaled_error") if key in known), "row")
    sliders = ((first, f"minimum {HEADS[first]}"), ("loss", "minimum loss"))
    key = f"worst-{report.subjects.index(subject)}"
    return (Text((note,), note=True), RowBrowser(key, "Rows with the largest losses", tuple(heads), rows, sliders))


def _row(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """One row of the table, whose values are numbers or text."""
    out = {key: row.get(key) for key in HEADS}
    out["loss"] = plain(str(row.get("status", "undefined"))) if row.get("loss") is None else row["loss"]
    out["top"] = ", ".join(f"{plain(str(name), 60)}: {p:.2g}" for name, p in row["top"]) if row.get("top") else None
    if isinstance(row.get("correct"), int | float):
        out["correct"] = {1: "correct", 0: "wrong"}.get(row["correct"], row["correct"])
    out["z"] = _distance(row.get("y"), row.get("mean"), row.get("std"))
    width = None if row.get("low") is None or row.get("high") is None else row["high"] - row["low"]
    out["scaled_error"] = _distance(row.get("y"), row.get("median"), width)
    columns = row.get("columns", {})
    return out | {f"column{k}": columns.get(name) for k, name in enumerate(names)}


def _distance(y: float | None, centre: float | None, unit: float | None) -> float | None:
    """The distance of the outcome from the centre of its distribution, in units of its spread."""
    if y is None or centre is None or not unit:
        return None
    distance = abs(y - centre) / unit
    return distance if math.isfinite(distance) else None
