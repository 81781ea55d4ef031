"""Several sampled answers per question as one answer with a confidence: the most frequent one, and its share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.errors import UsageError
from calibrant.predictions.base import Note
from calibrant.predictions.judged import Judged


def vote_shares(samples: Judged, answer: str, question: str | None = None) -> Judged:
    """One row per question: its most frequent answer, the first of tied ones, with its share as the confidence.

    Parameters
    ----------
    samples : Judged
        One row per sampled answer, graded; a confidence is ignored.
    answer : str
        The column of answers: equal answers are equal values of it.
    question : str, optional
        The column of questions; by default the units of a log, or the ids.

    Notes
    -----
    Wang et al. (2023), ICLR, call the most frequent answer self-consistent. A share of k samples is a multiple of 1/k:
    with few samples per question it is a coarse confidence.
    """
    if samples.correct is None:
        expected, hint = "graded answers", "name the column of grades with --correct"
        raise UsageError("--vote-share", expected=expected, got="no column correct", hint=hint)
    name = question or samples.info.meta.get("log", {}).get("units") or "ids"
    if name == "ids" and samples.info.ids is None:
        hint = "name it in the file: FILE::ids=question"
        raise UsageError("--vote-share", expected="the column of questions", got="no ids", hint=hint)
    questions, answers = samples.column(str(name)), samples.column(answer)
    _, first, group = np.unique(questions, return_index=True, return_inverse=True)
    if len(first) == samples.n:
        got, hint = "one sample per question", "run the evaluation with several samples (epochs) per question"
        raise UsageError("--vote-share", expected="several samples of some question", got=got, hint=hint)
    kind = np.unique(answers, return_inverse=True)[1].ravel()
    group = group.ravel()
    chosen = np.empty(len(first), np.int64)
    share = np.empty(len(first))
    conflicts = 0
    parts = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    for k, rows in enumerate(parts):
        kinds, starts, counts = np.unique(kind[rows], return_index=True, return_counts=True)
        best = min(range(len(kinds)), key=lambda place: (-counts[place], starts[place]))
        own = rows[kind[rows] == kinds[best]]
        conflicts += len(np.unique(samples.correct[own])) > 1
        chosen[k], share[k] = rows[starts[best]], counts[best] / len(rows)
    order = np.argsort(first)
    out = samples[chosen[order]]
    notes: tuple[Note, ...] = ()
    if conflicts:
        text = f"{samples.name}: in {conflicts} questions equal answers have different grades; the first one counts"
        notes = (Note("different-grades", text),)
    meta = dict(out.info.meta)
    if "log" in meta:
        meta["log"] = {**meta["log"], "confidence": f"share of the samples with the answer ({answer})", "units": ""}
        meta["log"]["rows"] = out.n
    info = replace(out.info, ids=questions[chosen[order]], meta=meta, notes=out.info.notes + notes)
    return replace(out, confidence=share[order][None], info=info)
