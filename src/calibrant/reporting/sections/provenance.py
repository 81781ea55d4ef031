"""Provenance: settings, inputs with their hashes, versions, and references."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from calibrant.bibliography import Work, bibtex
from calibrant.errors import plain
from calibrant.render.formatting import count
from calibrant.render.references import works_of
from calibrant.render.table import Table
from calibrant.reporting.document import Block, CopyBlock, Details, Heading, Section, TableBlock, Text
from calibrant.reporting.page import MAX_COPY
from calibrant.reporting.report_data import ReportData
from calibrant.results.evaluation import RECALIBRATION, SCHEMA, Evaluation

SETTINGS = {
    "metrics": "metrics", "statistics": "statistics", "rank_by": "ranked by", "by": "grouped by",
    "units": "sampling units", "level": "confidence level", "resamples": "resamples", "intervals": "intervals",
    "draws": "draws", "members": "member assumption", "rule": "pass rule", "seed": "seed",
}  # fmt: skip
"""Labels of settings, in the order of the table; others follow under their own names."""
OWN_COLUMNS = ("name", "task", "n", "members", "classes", "sha256", "meta")
MAX_SETTINGS = 5
"""Maximum columns of the table of settings."""
MAX_OPEN = 15
"""Inputs of a table that is not collapsed."""
DIGITS = 8
"""Digits of a hash in the table; the evaluation has all of them."""
MAX_META = 300
"""Maximum characters of the metadata of a file."""


def section(report: ReportData) -> Section | None:
    """Settings, inputs and references."""
    if not report.evaluations:
        return None
    blocks = (*_settings(report.evaluations), *_inputs(report.evaluations), *_references(report.evaluations))
    versions = ", ".join(dict.fromkeys(plain(str(evaluation.version), 40) for evaluation in report.evaluations))
    stored = f"stored as evaluations of schema {SCHEMA}"
    lead = f"Computed by Calibrant {versions} and {stored}. The report computes nothing."
    return Section("provenance", "Provenance", blocks, lead)


# ------------------------------------------------------------------------------------------------------- settings
def _settings(evaluations: Iterable[Evaluation]) -> list[Block]:
    """The distinct settings of evaluations as a table and as JSON."""
    kinds: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for evaluation in evaluations:
        default = "recalibrate" if evaluation.kind == RECALIBRATION else "evaluate"
        command = plain(str(evaluation.settings.get("command", default)), 40)
        key = json.dumps([command, dict(evaluation.settings)], sort_keys=True, default=str)
        kinds[key] = command, evaluation.settings
    shown = list(kinds.values())[:MAX_SETTINGS]
    used = dict.fromkeys(key for _, settings in shown for key in settings if key != "command")
    keys = [*(key for key in SETTINGS if key in used), *(key for key in used if key not in SETTINGS)]
    rows = []
    for key in keys:
        values = (_words(settings[key]) if key in settings else "" for _, settings in shown)
        rows.append((SETTINGS.get(key, key.replace("_", " ")), *values))
    cut = len(kinds) > len(shown)
    title = f"Settings of {len(shown)} of {len(kinds)} evaluations" if cut else "Evaluation settings"
    table = Table(title, ("setting", *(command for command, _ in shown)), tuple(rows), left=1 + len(shown))
    text = json.dumps([dict(settings) for _, settings in kinds.values()], indent=1, default=str)
    return [Heading("Settings"), TableBlock(table), Details("Settings as JSON", _copied(text, "settings"))]


def _copied(text: str, label: str) -> tuple[Block, ...]:
    """Text to copy, unless it is too long."""
    if len(text) > MAX_COPY:
        return (Text(("Too long for this page; see the stored evaluations.",), note=True),)
    return (CopyBlock(text, label),)


def _words(value: Any) -> str:
    """A setting in words."""
    if value is None or value in ([], (), {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value))
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_words(item)}" for key, item in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


# --------------------------------------------------------------------------------------------------------- inputs
def _inputs(evaluations: Iterable[Evaluation]) -> list[Block]:
    """Each input once: its size, its hash and its metadata."""
    known = {json.dumps(item, sort_keys=True, default=str): item for e in evaluations for item in e.inputs}
    items = list(known.values())
    if not items:
        return []
    rows = []
    for item in items:
        meta = item.get("meta")
        more = {key: value for key, value in item.items() if key not in OWN_COLUMNS}
        metadata = _words({**(meta if isinstance(meta, Mapping) else {}), **more}) if meta or more else ""
        counts = (str(item[key]) if key in item else "" for key in ("n", "members", "classes"))
        sha256 = str(item.get("sha256") or "")
        digest = f"{sha256[:DIGITS]}…" if sha256 else "not from a file"
        rows.append((str(item.get("name", "")), digest, plain(metadata, MAX_META), *counts))
    heads = ("input", "SHA-256", "metadata", "rows", "members", "classes")
    table = TableBlock(Table("Evaluated inputs", heads, tuple(rows), left=3))
    whole = json.dumps([dict(item) for item in items], indent=1, default=str)
    stored = Details("Inputs as JSON", _copied(whole, "inputs"))
    shown: Block = table if len(items) <= MAX_OPEN else Details(f"All {len(items)} inputs", (table,))
    return [Heading("Inputs"), shown, stored]


# ----------------------------------------------------------------------------------------------------- references
def _references(evaluations: Iterable[Evaluation]) -> list[Block]:
    """The works behind all metrics, intervals and tests of the evaluations."""
    works: list[Work] = list(dict.fromkeys(work for evaluation in evaluations for work in works_of(evaluation)))
    if not works:
        return []
    works.sort(key=lambda work: (work.surnames, work.year))
    return [
        Heading("References"),
        Text((f"{count(len(works), 'reference')} for the metrics, intervals and tests of this report.",), note=True),
        Details("List of references", (Text(tuple(f"{work.text()}." for work in works)),)),
        Details("BibTeX", _copied(bibtex(works), "BibTeX")),
    ]
