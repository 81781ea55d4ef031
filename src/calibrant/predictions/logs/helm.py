"""Runs of HELM: `per_instance_stats.json`, alone or in the folder of the run.

A row is one instance in one trial, without perturbations. Of the statistics, one grades the answer; `max_prob` is the
confidence by HELM's own definition, which is useless where the tool recorded no log-probabilities.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calibrant.errors import FileError
from calibrant.predictions.base import Note
from calibrant.predictions.files.binary import DAMAGED, check_size, report_unreadable
from calibrant.predictions.files.tables import ColumnOptions
from calibrant.predictions.logs.answers import NONE, Answers, all_zero, choose

FILE = "per_instance_stats.json"
GRADES = ("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match")
"""Statistics that grade an answer; others do if they end in one of these words."""
WORDS = ("_match", "accuracy", "correct")
MAX_PROB, LOGPROB = "max_prob", "logprob"


def read_run(path: Path, records: list[Any], options: ColumnOptions) -> Answers:
    """The rows of the statistics by instance."""
    answers = Answers(path, "HELM", _title(path))
    rows: list[tuple[str, int, dict[str, dict[str, float]]]] = []
    perturbed = 0
    for record in records:
        if record.get("perturbation"):
            perturbed += 1
            continue
        by_split: dict[str, dict[str, float]] = {}
        for stat in record.get("stats") or []:
            name = stat.get("name") or {}
            if name.get("perturbation") or not stat.get("count"):
                continue
            by_split.setdefault(str(name.get("split", "")), {})[str(name.get("name"))] = float(stat.get("mean", "nan"))
        rows.append((str(record.get("instance_id")), int(record.get("train_trial_index") or 0), by_split))
    splits = sorted({split for _, _, by_split in rows for split in by_split})
    if not splits:
        hint = "name a run with per-instance statistics"
        raise FileError(str(path), expected="statistics of instances", got="none", hint=hint)
    split = choose(path, "--split", "split", splits, options.split)
    chosen = [(own, trial, by_split[split]) for own, trial, by_split in rows if split in by_split]
    names = [name for name in dict.fromkeys(key for *_, stats in chosen for key in stats) if _is_grade(name, chosen)]
    if not names:
        hint = "run HELM with a metric that grades answers, such as exact_match"
        raise FileError(str(path), expected="a statistic that is 0 or 1", got="none", hint=hint)
    scorer = choose(path, "--scorer", "statistic", names, options.scorer)
    if perturbed:
        answers.dropped["of perturbed instances"] = perturbed
    if len(rows) > len(chosen):
        answers.dropped[f"of other splits than {split}"] = len(rows) - len(chosen)
    trials = len({trial for _, trial, _ in chosen}) > 1
    answers.ids = [f"{own} trial {trial}" if trials else own for own, trial, _ in chosen]
    answers.correct = [stats.get(scorer) for *_, stats in chosen]
    answers.correct_from = f"{scorer}, split {split}"
    answers.columns = {"instance_id": [own for own, *_ in chosen], "trial": [trial for _, trial, _ in chosen]}
    answers.units = "instance_id" if trials else ""
    answers.reported = _reported(path, scorer, split)
    name = options.confidence
    zero = all(stats.get(LOGPROB, 0.0) == 0.0 for *_, stats in chosen)
    if name == NONE:
        answers.confidence_from = "left out"
    elif name is None and zero and any(MAX_PROB in stats for *_, stats in chosen):
        answers.confidence_from = "none: every log-probability in the log is 0, so the tool did not record them"
        answers.notes.append(Note("no-log-probabilities", f"{path.name}: {answers.confidence_from}"))
    elif name is not None or any(MAX_PROB in stats for *_, stats in chosen):
        name = name or MAX_PROB
        if not any(name in stats for *_, stats in chosen):
            hint = "use --confidence max_prob, or --confidence none for the accuracy alone"
            raise FileError(str(path), expected=f"the statistic '{name}'", got="none", hint=hint)
        if zero and name == MAX_PROB:
            raise all_zero(path.name)
        answers.confidence = [stats.get(name) for *_, stats in chosen]
        answers.confidence_from = name
    return answers


def _is_grade(name: str, rows: list[tuple[str, int, dict[str, float]]]) -> bool:
    """Whether a statistic grades answers, by its name; never those of the first k answers."""
    return "@" not in name and (name in GRADES or name.endswith(WORDS))


def _title(path: Path) -> str:
    spec = _beside(path, "run_spec.json")
    return str(spec.get("name", path.parent.name)) if isinstance(spec, Mapping) else path.parent.name


def _reported(path: Path, scorer: str, split: str) -> float | None:
    """The mean that the run reports."""
    stats = _beside(path, "stats.json")
    for stat in stats if isinstance(stats, list) else []:
        name = stat.get("name") or {}
        if name.get("name") == scorer and name.get("split") == split and not name.get("perturbation"):
            return float(stat["mean"]) if "mean" in stat else None
    return None


def _beside(path: Path, name: str) -> Any:
    """Another file of the run, if it is there."""
    other = path.parent / name
    if not other.is_file():
        return None
    check_size(other.stat().st_size, str(other))
    with report_unreadable(other, "JSON", DAMAGED):
        return json.loads(other.read_bytes())
