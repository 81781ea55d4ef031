"""Where the numbers come from: settings, inputs and their hashes, versions, and the works that they rest on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from calibrant.bibliography import Work
from calibrant.errors import plain
from calibrant.evaluation.references import works_of
from calibrant.evaluation.rendering import Table
from calibrant.evaluation.result import SCHEMA, Evaluation
from calibrant.reporting.document import Block, Copy, Fold, Heading, Section, Shown, Text
from calibrant.reporting.gathering import Gathered
from calibrant.reporting.markup import LONG

SETTINGS = {
    "metrics": "metrics",
    "statistics": "statistics",
    "rank_by": "ranked by",
    "by": "groups by",
    "units": "units of dependent rows",
    "level": "level of intervals",
    "resamples": "replicates of resampled intervals and bands",
    "intervals": "intervals",
    "draws": "draws",
    "members": "members are read as",
    "rule": "what passes",
    "seed": "seed",
}
"""Settings in words, in the order of the table; others follow under their own names."""
SHOWN_APART = ("name", "n", "members", "classes", "sha256", "meta")
MOST_SETTINGS = 5
"""Evaluations whose settings stand side by side."""
MOST_OPEN = 15
"""Inputs that are listed without being opened."""
DIGITS = 8
"""Of a hash in the table; what is stored has all of them."""
LONGEST = 300
"""Characters of what a file says of itself."""


def section(gathered: Gathered) -> Section | None:
    """Settings, inputs and references; nothing where there is no evaluation."""
    if not gathered.evaluations:
        return None
    blocks = (*_settings(gathered.evaluations), *_inputs(gathered.evaluations), *_references(gathered.evaluations))
    return Section("provenance", "Where the numbers come from", blocks, _versions(gathered.evaluations))


def _versions(evaluations: Iterable[Evaluation]) -> str:
    found = ", ".join(dict.fromkeys(plain(str(evaluation.version), 40) for evaluation in evaluations))
    return (
        f"Computed by Calibrant {found} and stored as evaluations of schema {SCHEMA}, from which this page was made; "
        "the page itself computes nothing."
    )


# ------------------------------------------------------------------------------------------------------- settings
def _settings(evaluations: Iterable[Evaluation]) -> list[Block]:
    """The settings of evaluations that differ in them side by side, and as they are stored."""
    kinds = [(_made_by(one), one.settings) for one in {_key(one): one for one in evaluations}.values()]
    shown = kinds[:MOST_SETTINGS]
    used = dict.fromkeys(key for _, settings in shown for key in settings if key != "command")
    keys = [*(key for key in SETTINGS if key in used), *(key for key in used if key not in SETTINGS)]
    rows = [_setting(key, [settings for _, settings in shown]) for key in keys]
    title = (
        f"Settings of {len(shown)} of the {len(kinds)} kinds"
        if len(kinds) > len(shown)
        else "What the evaluations were made with"
    )
    table = Table(title, ("setting", *(made_by for made_by, _ in shown)), tuple(rows), left=1 + len(shown))
    whole = json.dumps([dict(settings) for _, settings in kinds], indent=1, default=str)
    return [Heading("Settings"), Shown(table), Fold("The settings as they are stored", _copied(whole, "settings"))]


def _made_by(evaluation: Evaluation) -> str:
    known = "recalibrate" if evaluation.recalibration is not None else "evaluate"
    return plain(str(evaluation.settings.get("command", known)), 40)


def _key(evaluation: Evaluation) -> str:
    return json.dumps([_made_by(evaluation), dict(evaluation.settings)], sort_keys=True, default=str)


def _setting(key: str, kinds: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    return (SETTINGS.get(key, key.replace("_", " ")), *(_words(kind[key]) if key in kind else "" for kind in kinds))


def _copied(text: str, label: str) -> tuple[Block, ...]:
    """A text to copy, where it is not too long for it."""
    if len(text) > LONG:
        return (Text(("They are too long for this page; the evaluations hold them.",), note=True),)
    return (Copy(text, label),)


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
    """Each input once: its size, its hash, and what its file says of itself."""
    known = {json.dumps(item, sort_keys=True, default=str): item for e in evaluations for item in e.inputs}
    items = list(known.values())
    if not items:
        return []
    heads = ("input", "SHA-256", "known of it", "rows", "members", "classes")
    table = Shown(Table("What was judged", heads, tuple(_input(item) for item in items), left=3))
    whole = json.dumps([dict(item) for item in items], indent=1, default=str)
    stored = Fold("The inputs as they are stored", _copied(whole, "inputs"))
    listed: Block = table if len(items) <= MOST_OPEN else Fold(f"All {len(items)} inputs", (table,))
    return [Heading("Inputs"), listed, stored]


def _input(item: Mapping[str, Any]) -> tuple[str, ...]:
    meta = item.get("meta")
    more = {key: value for key, value in item.items() if key not in SHOWN_APART}
    said = _words({**(meta if isinstance(meta, Mapping) else {}), **more}) if meta or more else ""
    counts = (str(item[key]) if key in item else "" for key in ("n", "members", "classes"))
    found = str(item.get("sha256") or "")
    short = f"{found[:DIGITS]}…" if found else "not from a file"
    return (str(item.get("name", "")), short, plain(said, LONGEST), *counts)


# ----------------------------------------------------------------------------------------------------- references
def _references(evaluations: Iterable[Evaluation]) -> list[Block]:
    """The works behind everything that was used, to read and to copy."""
    works: list[Work] = list(dict.fromkeys(work for evaluation in evaluations for work in works_of(evaluation)))
    if not works:
        return []
    works.sort(key=lambda work: (work.surnames, work.year))
    lines = tuple(f"{work.text()}." for work in works)
    entries = "\n\n".join(work.bibtex() for work in works)
    said = f"{len(works)} work{'s' * (len(works) > 1)} behind the metrics, intervals and tests of this page."
    return [
        Heading("References"),
        Text((said,), note=True),
        Fold("The works", (Text(lines),)),
        Fold("BibTeX of all of them", _copied(entries, "BibTeX")),
    ]
