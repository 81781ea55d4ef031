"""Sample logs of lm-evaluation-harness: `samples_<task>_<time>.jsonl`, written with `--log_samples`.

Every question has a row for each filter. The log-likelihoods of choices are text. They become probabilities by a
softmax over the choices: of the raw log-likelihoods for the score `acc`, of log-likelihoods divided by the length of
the choice in characters for `acc_norm`, and in bytes for `acc_bytes`, as the tool itself decides on the answer.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from calibrant.errors import FileError, plain, show
from calibrant.predictions.files.tables import ColumnOptions
from calibrant.predictions.logs.answers import NONE, Answers, choose, graded

KEYS = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps"}
"""The keys of every row of a log of samples."""
OTHERS = {*KEYS, "filter", "metrics", "doc_hash", "prompt_hash", "target_hash"}
LENGTHS = {
    "acc": ("raw log-likelihoods", lambda text: 1.0),
    "acc_norm": ("log-likelihoods per character", lambda text: float(len(text))),
    "acc_bytes": ("log-likelihoods per byte", lambda text: float(len(text.encode()))),
}
"""How a score compares choices."""
DELIMITER = " "
"""What the tool puts between a question and a choice; it is no part of the choice."""


def read_samples(path: Path, options: ColumnOptions) -> Answers:
    """Read a log of samples."""
    records: list[dict[str, Any]] = []
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                got = f"line {number}: {plain(str(error), 60)}"
                hint = "the file is truncated or damaged; run the evaluation again"
                raise FileError(str(path), expected="a JSON object in every line", got=got, hint=hint) from error
            if not isinstance(record, dict) or not record.keys() >= KEYS:
                lacking = ", ".join(sorted(KEYS - set(record if isinstance(record, dict) else ())))
                hint = "write it with lm_eval --log_samples"
                raise FileError(
                    str(path), expected="samples of lm_eval", got=f"line {number} without {lacking}", hint=hint
                )
            records.append(record)
    name = path.name.removeprefix("samples_").removesuffix(".jsonl")
    answers = Answers(path, "lm-evaluation-harness", name)
    filters = list(dict.fromkeys(str(record.get("filter", NONE)) for record in records))
    chosen = choose(path, "--filter", "filter", filters, options.filter)
    records = [record for record in records if str(record.get("filter", NONE)) == chosen]
    names = list(dict.fromkeys(name for record in records for name in _scores(record)))
    if not names:
        hint = "grade the answers with a metric such as acc or exact_match"
        raise FileError(str(path), expected="a score of 0 or 1 for each answer", got="none", hint=hint)
    scorer = choose(path, "--scorer", "score", names, options.scorer)
    hashes = [str(record.get("doc_hash", record["doc_id"])) for record in records]
    repeated, occurrence = Counter(hashes), Counter[str]()
    for record, own in zip(records, hashes, strict=True):
        occurrence[own] += 1
        answers.ids.append(own if repeated[own] == 1 else f"{own} {occurrence[own]}")
        answers.correct.append(graded(record.get(scorer)))
    answers.columns = {"doc_id": [record["doc_id"] for record in records]}
    answers.correct_from = f"{scorer}" + (f", filter {chosen}" if len(filters) > 1 or chosen != NONE else "")
    if options.confidence not in (None, NONE):
        hint = "leave --confidence out; choices are compared as --scorer does"
        raise FileError(str(path), expected="no field of that name", got=show(options.confidence), hint=hint)
    if options.confidence == NONE:
        answers.confidence_from = "left out"
    elif scorer in LENGTHS and all(_is_choice(record) for record in records):
        how, length = LENGTHS[scorer]
        answers.confidence_from = f"softmax over the choices of their {how}"
        answers.log_likelihoods = [_log_likelihoods(path, record, length) for record in records]
        answers.targets = [_index(record["target"], len(record["filtered_resps"])) for record in records]
    else:
        kind = "choices with log-likelihoods" if all(_is_choice(record) for record in records) else "generated text"
        answers.confidence_from = f"none in the log ({kind})"
    return answers


def _scores(record: dict[str, Any]) -> list[str]:
    """The metrics of a row that grade the answer."""
    names = record.get("metrics")
    names = names if isinstance(names, list) else [key for key in record if key not in OTHERS]
    return [name for name in names if isinstance(record.get(name), bool | int | float)]


def _is_choice(record: dict[str, Any]) -> bool:
    """Whether each response is the log-likelihood of one choice."""
    responses = record["filtered_resps"]
    return (
        isinstance(responses, list)
        and len(responses) > 1
        and all(isinstance(item, list) and len(item) == 2 for item in responses)
        and isinstance(record["arguments"], dict)
        and len(record["arguments"]) == len(responses)
    )


def _log_likelihoods(path: Path, record: dict[str, Any], length: Any) -> list[float]:
    out = []
    for number, (value, _) in enumerate(record["filtered_resps"]):
        try:
            choice = str(record["arguments"][f"gen_args_{number}"]["arg_1"]).removeprefix(DELIMITER)
            out.append(float(value) / max(length(choice), 1.0))
        except (KeyError, TypeError, ValueError) as error:
            got, hint = show(value), "use --confidence none for the accuracy alone"
            subject = f"{path}: question {record['doc_id']}"
            raise FileError(subject, expected="a log-likelihood of each choice", got=got, hint=hint) from error
    return out


def _index(target: Any, choices: int) -> int | None:
    """The index of the right choice, which is written as text; None for anything else."""
    text = str(target)
    return int(text) if text.isdecimal() and int(text) < choices else None
