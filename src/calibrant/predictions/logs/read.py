"""Which files are evaluation logs, and reading them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant.errors import FileError, plain
from calibrant.predictions.classification import Classification
from calibrant.predictions.files.binary import DAMAGED, check_size, report_unreadable
from calibrant.predictions.files.tables import ColumnOptions
from calibrant.predictions.judged import Judged
from calibrant.predictions.logs import helm, inspect_ai, lm_eval

INSPECT_EVAL, INSPECT_JSON, LM_EVAL, HELM, TABLE = "inspect eval", "inspect json", "lm_eval", "helm", "table"
MAX_LINE = 1 << 26
"""Bytes of the first line of a file of JSON lines that are read to recognise a log."""


@dataclass(frozen=True)
class LogFile:
    """A file that a tool wrote, and its content where it had to be read to know that."""

    path: Path
    kind: str
    content: Any = None


def find_log(path: Path) -> LogFile | None:
    """The log at a path, by its suffix and the keys it has; None for files of predictions."""
    if path.is_dir():
        return find_log(path / helm.FILE) if (path / helm.FILE).is_file() else None
    if not path.is_file():
        return None
    suffix = path.suffix.lower()
    if suffix == ".eval":
        return LogFile(path, INSPECT_EVAL)
    if suffix == ".jsonl":
        with path.open("rb") as stream:
            try:
                first = json.loads(stream.readline(MAX_LINE))
            except (ValueError, RecursionError):
                return None
        is_log = isinstance(first, dict) and first.keys() >= lm_eval.KEYS
        return LogFile(path, LM_EVAL) if is_log else None
    if suffix != ".json":
        return None
    content = load_json(path)
    if isinstance(content, list) and content and isinstance(content[0], dict) and "instance_id" in content[0]:
        return LogFile(path, HELM, content)
    if isinstance(content, dict):
        if {"eval", "version"} <= content.keys():
            return LogFile(path, INSPECT_JSON, content)
        if {"columns", "data"} <= content.keys():
            return LogFile(path, TABLE, content)
        if {"results", "configs"} <= content.keys():
            hint = "run lm_eval with --log_samples, and name the file samples_*.jsonl"
            raise FileError(str(path), expected="answers", got="the aggregated results of lm_eval", hint=hint)
    expected = "a log of inspect_ai or HELM, or a table with the keys 'columns' and 'data'"
    keys = ", ".join(map(str, list(content)[:6])) if isinstance(content, dict) else type(content).__name__
    hint = "write JSON lines, one object per answer, to a .jsonl file"
    raise FileError(str(path), expected=expected, got=plain(keys, 100) or "nothing", hint=hint)


def read_log(log: LogFile, options: ColumnOptions, name: str) -> Judged | Classification:
    """The answers of a log as predictions; what was taken as confidence and correct is in `info.meta["log"]`."""
    if log.kind == INSPECT_EVAL:
        answers = inspect_ai.read_eval(log.path, options)
    elif log.kind == INSPECT_JSON:
        samples = log.content.get("samples") or []
        answers = inspect_ai.read_samples(log.path, log.content, iter(samples), options)
    elif log.kind == LM_EVAL:
        answers = lm_eval.read_samples(log.path, options)
    else:
        answers = helm.read_run(log.path, log.content, options)
    return answers.predictions(options, name)


def load_json(path: Path) -> Any:
    """The content of a JSON file that fits into memory."""
    check_size(path.stat().st_size, str(path))
    with report_unreadable(path, "JSON", DAMAGED):
        return json.loads(path.read_bytes())
