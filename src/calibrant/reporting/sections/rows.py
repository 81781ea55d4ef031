"""The worst rows of an input, filtered by two of their numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from calibrant.errors import plain
from calibrant.evaluation.result import Result
from calibrant.reporting.document import Block, Panel, Rows, Section, Text
from calibrant.reporting.gathering import Gathered

MOST_COLUMNS = 6
HEADS = {
    "row": "row",
    "id": "id",
    "loss": "loss",
    "label": "label",
    "predicted": "predicted",
    "correct": "answer",
    "confidence": "confidence",
    "top": "most probable",
    "entropy": "entropy",
    "mutual_information": "mutual information",
    "y": "y",
    "mean": "mean",
    "std": "standard deviation",
    "median": "median",
    "low": "interval from",
    "high": "to",
    "pit": "F(y)",
    "away": "|y − mean| / std",
    "off": "|y − median| / width",
}
"""What may be known of a row, in the order of the table."""
LOSSES = {
    "nll": "minus the logarithm of the probability, or density, of what came true",
    "crps": "the continuous ranked probability score",
    "pinball": "the pinball loss",
}


def section(gathered: Gathered) -> Section | None:
    """A panel for each input whose rows are known; nothing where rows are not to be shown."""
    if not gathered.rows:
        return None
    panels = [
        Panel(k, found)
        for k, subject in enumerate(gathered.subjects)
        if (told := subject.having(lambda result: result.worst_rows)) and (found := _blocks(told.result, k))
    ]
    lead = "Where was it most wrong? Rows with the largest losses, which often are wrong labels or unlike all others."
    return Section("rows", "Worst rows", tuple(panels), lead) if panels else None


def _blocks(result: Result, place: int) -> tuple[Block, ...]:
    worst = result.worst_rows
    if not worst:
        return ()
    names = list(dict.fromkeys(name for row in worst for name in row.get("columns", {})))[:MOST_COLUMNS]
    rows = tuple(_row(row, names) for row in worst)
    heads = [(key, title) for key, title in HEADS.items() if any(row.get(key) is not None for row in rows)]
    heads += [(f"column{k}", plain(name, 80)) for k, name in enumerate(names)]
    said = "The sliders leave out rows below; rows of infinite loss always stay."
    note = Text((f"The loss is {_loss(result)}. {said}",), note=True)
    return (note, Rows(f"worst-{place}", "The rows with the largest losses", tuple(heads), rows, _ranges(rows)))


def _loss(result: Result) -> str:
    by = (result.worst_by or "nll").partition("(")[0]
    return LOSSES.get(by, plain(by))


def _row(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """One row of the table; every value is a number or a text."""
    out = {key: row.get(key) for key in HEADS}
    out["loss"] = plain(str(row.get("status", "undefined"))) if row.get("loss") is None else row["loss"]
    out["top"] = ", ".join(f"{_name(name)}: {p:.2g}" for name, p in row["top"]) if row.get("top") else None
    if isinstance(row.get("correct"), int | float):
        out["correct"] = {1: "right", 0: "wrong"}.get(row["correct"], row["correct"])
    out["away"] = _distance(row.get("y"), row.get("mean"), row.get("std"))
    width = None if row.get("low") is None or row.get("high") is None else row["high"] - row["low"]
    out["off"] = _distance(row.get("y"), row.get("median"), width)
    columns = row.get("columns", {})
    return out | {f"column{k}": columns.get(name) for k, name in enumerate(names)}


def _name(name: Any) -> str:
    return plain(str(name), 60)


def _distance(y: float | None, middle: float | None, unit: float | None) -> float | None:
    """How far the outcome is from the middle of what was predicted, in units of its spread."""
    if y is None or middle is None or not unit:
        return None
    away = abs(y - middle) / unit
    return away if math.isfinite(away) else None


def _ranges(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], tuple[str, str]]:
    """Confidence of classes; of numbers the distance from the middle; and the loss."""
    known = (key for key in ("confidence", "away", "off") if any(row.get(key) is not None for row in rows))
    first = next(known, "row")
    return (first, f"{HEADS[first]} at least"), ("loss", "loss at least")
