"""Logs of inspect_ai: `.eval` archives and `.json` files.

A row is one sample in one epoch. Rows of one sample depend on each other, so `sample_id` is the unit where there are
several epochs; the means over epochs that the log also stores are never read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from calibrant.errors import FileError, plain, show
from calibrant.predictions.base import Note
from calibrant.predictions.files.binary import DAMAGED, report_unreadable
from calibrant.predictions.files.tables import ColumnOptions
from calibrant.predictions.logs.answers import NONE, Answers, all_zero, choose, graded, numeric_fields
from calibrant.predictions.logs.archive import Archive

LOGPROB_MEAN, LOGPROB_SUM = "logprob_mean", "logprob_sum"
"""exp of the mean, or the sum, of the log-probabilities of the tokens of the answer."""


def read_eval(path: Path, options: ColumnOptions) -> Answers:
    """Read a `.eval` archive."""
    with path.open("rb") as stream:
        archive = Archive(path, stream)
        start = next((name for name in ("header.json", "_journal/start.json") if name in archive.members), None)
        if start is None:
            hint = "name a log that inspect_ai wrote"
            raise FileError(str(path), expected="header.json in the archive", got="none", hint=hint)
        header = _json(path, start, archive.read(start))

        def samples() -> Iterator[Mapping[str, Any]]:
            for name in sorted(archive.members):
                if name.startswith("samples/") and name.endswith(".json"):
                    yield _json(path, name, archive.read(name))

        return read_samples(path, header, samples(), options)


def read_samples(
    path: Path, header: Mapping[str, Any], samples: Iterator[Mapping[str, Any]], options: ColumnOptions
) -> Answers:
    """The rows of a log from its header and its samples."""
    about = header.get("eval") or {}
    version = (about.get("packages") or {}).get("inspect_ai", "")
    model, task = str(about.get("model", "?")), str(about.get("task", "?"))
    answers = Answers(path, f"inspect_ai {version}".strip(), f"{task}, {model}")
    kept = sorted((_shorten(sample) for sample in samples), key=_order)
    stated = (header.get("results") or {}).get("completed_samples")
    if isinstance(stated, int) and len(kept) < stated:
        expected = f"the {stated} samples that its results are of"
        raise FileError(str(path), expected=expected, got=f"{len(kept)}", hint=DAMAGED)
    names = sorted({name for sample in kept for name in sample["scores"]})
    status = header.get("status", "started")
    if status != "success":
        answers.notes.append(Note("unfinished-log", f"{path.name}: the log has status {show(status)}, not 'success'"))
    failed = [sample for sample in kept if not sample["scores"]]
    if not names:
        errors = sum(sample["error"] for sample in kept)
        got = f"{len(kept)} samples without any ({errors} of them ended with an error)"
        raise FileError(str(path), expected="scores", got=got, hint="score the log first: inspect score LOG")
    scorer = choose(path, "--scorer", "scorer", names, options.scorer)
    ended = sum(sample["error"] for sample in failed)
    if ended:
        answers.dropped["that ended with an error"] = ended
    if len(failed) > ended:
        answers.dropped["without a score"] = len(failed) - ended
    rows = [sample for sample in kept if scorer in sample["scores"]]
    others = len(kept) - len(failed) - len(rows)
    if others:
        answers.dropped[f"without a score of {scorer}"] = others

    epochs = len({sample["epoch"] for sample in rows}) > 1
    answers.ids = [f"{s['id']} epoch {s['epoch']}" if epochs else s["id"] for s in rows]
    values = [sample["scores"][scorer] for sample in rows]
    answers.correct = [graded(value["value"]) for value in values]
    unknown = [v["value"] for v, grade in zip(values, answers.correct, strict=True) if grade is None]
    if unknown and len(unknown) == len(values):
        hint = "name a scorer that grades answers right or wrong with --scorer"
        raise FileError(f"{path}: scorer {show(scorer)}", expected="C or I, or 0 or 1", got=show(unknown[0]), hint=hint)
    answers.correct_from = f"scorer {scorer}"
    answers.columns = {
        "sample_id": [sample["id"] for sample in rows],
        "epoch": [sample["epoch"] for sample in rows],
        "answer": [value["answer"] for value in values],
    }
    for key in _shared_text(rows):  # under the name by which --confidence finds them
        answers.columns[f"metadata.{key}"] = [sample["metadata"].get(key) for sample in rows]
    answers.units = "sample_id" if epochs else ""
    if len(values) == len(kept):  # the tool leaves samples without a score out of some means, and not of others
        answers.reported = _reported(header, scorer)
    _take_confidence(answers, rows, values, options)
    return answers


def _take_confidence(
    answers: Answers, rows: list[dict[str, Any]], values: list[dict[str, Any]], options: ColumnOptions
) -> None:
    """The named field, or the field `confidence` of the scores' metadata."""
    fields = {name for value in values for name in numeric_fields(value["metadata"])}
    more = {name for row in rows for name in numeric_fields(row["metadata"], "metadata.")}
    has_tokens = any(row["logprobs"] is not None for row in rows)
    answers.candidates = (*sorted(fields | more), *((LOGPROB_MEAN, LOGPROB_SUM) if has_tokens else ()))
    name = options.confidence
    if name is None and any("confidence" in (value["metadata"] or {}) for value in values):
        name = "confidence"
    if name is None or name == NONE:
        answers.confidence_from = "left out" if name == NONE else "none in the log"
        answers.candidates = () if name == NONE else answers.candidates
        return
    if name in (LOGPROB_MEAN, LOGPROB_SUM):
        tokens = [row["logprobs"] for row in rows]
        if not has_tokens:
            hint = "run the evaluation with --logprobs, or use --confidence none"
            raise FileError(str(answers.path), expected="log-probabilities of tokens", got="none", hint=hint)
        if all(value == 0.0 for item in tokens if item for value in item):
            raise all_zero(answers.path.name)
        how = "mean" if name == LOGPROB_MEAN else "sum"
        answers.confidence = [
            math.exp(sum(item) / (len(item) if how == "mean" else 1)) if item else None for item in tokens
        ]
        answers.confidence_from = f"{name}, exp of the {how} of the tokens' log-probabilities"
        return
    key = name.removeprefix("metadata.")
    source = [row["metadata"] for row in rows] if name != key else [value["metadata"] for value in values]
    if not any(key in (item or {}) for item in source):
        listed = ", ".join(f"--confidence {plain(other, 60)}" for other in answers.candidates[:8])
        hint = f"choose from {listed}" if listed else "use --confidence none for the accuracy alone"
        expected = f"the field {show(name)} in the log"
        raise FileError(str(answers.path), expected=expected, got="none", hint=hint)
    answers.confidence = [(item or {}).get(key) for item in source]
    answers.confidence_from = f"{name} of the sample" if name != key else f"{name} of the score"


def _shorten(sample: Mapping[str, Any]) -> dict[str, Any]:
    """What is needed of a sample, so that its messages can be released."""
    scores = sample.get("scores")
    if scores is None and isinstance(sample.get("score"), Mapping):  # logs of 2024
        scores = {"score": sample["score"]}
    flat: dict[str, dict[str, Any]] = {}
    for name, score in (scores or {}).items():
        if not isinstance(score, Mapping):
            continue
        parts = score.get("value")
        named = {f"{name}.{key}": part for key, part in parts.items()} if isinstance(parts, Mapping) else {name: parts}
        for key, part in named.items():
            metadata = score.get("metadata")
            flat[key] = {
                "value": part,
                "answer": score.get("answer"),
                "metadata": metadata if isinstance(metadata, Mapping) else None,
            }
    metadata = sample.get("metadata")
    return {
        "id": str(sample.get("id", "")),
        "epoch": int(sample.get("epoch") or 1),
        "scores": flat,
        "metadata": dict(metadata) if isinstance(metadata, Mapping) else {},
        "logprobs": _token_logprobs(sample),
        "error": bool(sample.get("error")),
    }


def _token_logprobs(sample: Mapping[str, Any]) -> list[float] | None:
    try:
        content = sample["output"]["choices"][0]["logprobs"]["content"]
        return [float(token["logprob"]) for token in content] or None
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _order(sample: dict[str, Any]) -> tuple[int, str, int]:
    """Numbered samples in the order of their numbers; the epochs of a sample follow each other."""
    number = sample["id"]
    return (int(number) if number.isdecimal() and len(number) < 19 else -1, number, sample["epoch"])


def _shared_text(rows: list[dict[str, Any]]) -> list[str]:
    """Short fields of the samples' metadata by which rows can be grouped."""
    names = {key for row in rows for key in row["metadata"]}
    simple = (str, int, float, bool)
    return [
        key for key in sorted(names)
        if key.isidentifier() and all(isinstance(row["metadata"].get(key, ""), simple) for row in rows)
        and all(len(str(row["metadata"].get(key, ""))) <= 60 for row in rows)
    ][:12]  # fmt: skip


def _reported(header: Mapping[str, Any], scorer: str) -> float | None:
    """The accuracy that the log states for a scorer."""
    for score in (header.get("results") or {}).get("scores") or []:
        accuracy = (score.get("metrics") or {}).get("accuracy")
        is_mean = score.get("reducer") in (None, "mean")
        if score.get("name") == scorer and is_mean and isinstance(accuracy, Mapping):
            value = accuracy.get("value")
            return float(value) if isinstance(value, int | float) else None
    return None


def _json(path: Path, name: str, data: bytes) -> Any:
    with report_unreadable(path, f"JSON in {show(name)}", DAMAGED):
        record = json.loads(data)
        if not isinstance(record, dict):
            raise ValueError("not an object")
        return record
