"""Rows of an evaluation log, and how they become predictions: what is correct, what is the confidence, what is dropped.

Nothing is converted unless it is asked for: a confidence in percent needs `confidence_scale`, a row without one needs
`drop_missing`, and an answer that is graded neither right nor wrong needs `partial`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.errors import FileError, check_choice, plain, show
from calibrant.predictions.base import Note
from calibrant.predictions.classification import Classification
from calibrant.predictions.files.confidence import dropped_note, usable_confidence
from calibrant.predictions.files.tables import ColumnOptions
from calibrant.predictions.judged import Judged

NONE = "none"
"""The value of --confidence that leaves it out."""
MAX_TEXT = 200
TOLERANCE = 1e-6
"""The difference from the accuracy that the log reports which is not worth a note."""


@dataclass
class Answers:
    """The rows of one log, as the tool wrote them."""

    path: Path
    tool: str
    """The tool, with its version where the log has it."""
    title: str
    """Task and model."""
    ids: list[str] = field(default_factory=list)
    correct: list[float | None] = field(default_factory=list)
    """The score of each answer: 1 right, 0 wrong, None without a score."""
    correct_from: str = ""
    """What was taken as correct, in words."""
    confidence: list[Any] | None = None
    confidence_from: str = ""
    """What was taken as confidence; or why there is none."""
    candidates: tuple[str, ...] = ()
    """Fields that may be a confidence, for the hint."""
    log_likelihoods: list[list[float]] | None = None
    """Of the choices of each question, normalised here."""
    targets: list[int | None] = field(default_factory=list)
    """The index of the right choice, where the log has it."""
    columns: dict[str, list[Any]] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    """Rows left out before, by reason."""
    reported: float | None = None
    """The accuracy that the tool reports."""
    notes: list[Note] = field(default_factory=list)
    units: str = ""
    """The column of dependent rows, if some repeat."""

    def predictions(self, options: ColumnOptions, name: str) -> Judged | Classification:
        """The predictions, with what was taken in `meta["log"]`."""
        where = self.path.name
        if not self.ids:
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.dropped.items())
            hint = "check that the evaluation has finished"
            raise FileError(str(self.path), expected="scored samples", got=reasons or "none", hint=hint)
        total = len(self.ids) + sum(self.dropped.values())
        correct, keep = self._graded(options)
        self._check_reported(correct[keep])
        scores = None if self.log_likelihoods is None else self._choices(where)
        confidence = None
        if scores is None and self.confidence is not None:
            confidence, usable = usable_confidence(self.confidence, options, where, self.dropped, keep)
            keep &= usable
        if not keep.any():
            reasons = ", ".join(f"{count} {reason}" for reason, count in self.dropped.items())
            hint = "name another field with --confidence, or use --confidence none"
            raise FileError(str(self.path), expected="at least one usable row", got=reasons, hint=hint)
        rows = np.flatnonzero(keep)
        meta = {"log": self._facts(options, total, len(rows))}
        columns = {key: _column(values, rows) for key, values in self.columns.items()}
        ids = np.array(self.ids)[rows]
        out: Judged | Classification
        if scores is not None and self._has_classes(scores):
            probs = np.array([scores[row] for row in rows])
            labels = np.array([self.targets[row] for row in rows])
            out = Classification.from_probs(probs, labels, ids=ids, columns=columns, meta=meta, name=name)
        else:
            if scores is not None:
                confidence = np.array([max(row) for row in scores])
            graded = correct[rows].astype(bool)
            if confidence is None:
                out = Judged.from_correct(graded, ids=ids, columns=columns, meta=meta, name=name)
            else:
                out = Judged.from_confidence(
                    confidence[rows], graded, ids=ids, columns=columns, meta=meta, name=name
                )  # fmt: skip
        if self.dropped:
            self.notes.append(dropped_note(where, total, self.dropped))
        return out.with_notes(tuple(self.notes))

    # ------------------------------------------------------------------------------------- correctness
    def _graded(self, options: ColumnOptions) -> tuple[np.ndarray, np.ndarray]:
        """Whether each answer is correct, and which rows have a grade."""
        values = np.array([math.nan if value is None else value for value in self.correct], np.float64)
        missing = np.isnan(values)
        if missing.any():
            self.dropped["without a score"] += int(missing.sum())
        between = ~missing & (values != 0.0) & (values != 1.0)
        keep = ~missing
        if between.any():
            if options.partial is None:
                got = f"{int(between.sum())} scores that are neither 0 nor 1, such as {values[between][0]:g}"
                hint = "add --partial wrong, --partial right or --partial drop, or name another --scorer"
                raise FileError(f"{self.path}: {self.correct_from}", expected="right or wrong", got=got, hint=hint)
            check_choice("--partial", options.partial, ("wrong", "right", "drop"))
            if options.partial == "drop":
                self.dropped["graded neither right nor wrong"] += int(between.sum())
                keep &= ~between
            values[between] = float(options.partial == "right")
        return values, keep

    def _check_reported(self, correct: np.ndarray) -> None:
        """A note if the accuracy of these rows is not the one that the log reports."""
        if self.reported is None or not correct.size or abs(float(correct.mean()) - self.reported) <= TOLERANCE:
            return
        text = f"the log reports accuracy {self.reported:.4g}, its rows give {float(correct.mean()):.4g}"
        self.notes.append(Note("reported-accuracy", f"{self.path.name}: {text}"))

    # ----------------------------------------------------------------------------------------- choices
    def _choices(self, where: str) -> list[np.ndarray]:
        """Softmax of the log-likelihoods over the choices of each question."""
        given = self.log_likelihoods or []
        if all(value == 0.0 for row in given for value in row):
            raise all_zero(where)
        out = []
        for place, row in enumerate(given):
            values = np.array(row, np.float64)
            if not len(values) or np.isnan(values).any() or values.max() == -np.inf:
                hint = "use --confidence none for the accuracy alone"
                expected = "finite log-likelihoods of the choices"
                raise FileError(f"{where}: row {place}", expected=expected, got=show(row), hint=hint)
            weights = np.exp(values - values.max())
            out.append(weights / weights.sum())
        return out

    def _has_classes(self, scores: list[np.ndarray]) -> bool:
        """Whether the questions have equally many choices and known targets, and the tool's grades follow from them."""
        size = len(scores[0])
        if any(len(row) != size for row in scores) or any(target is None for target in self.targets):
            return False
        differs = sum(
            float(int(np.argmax(row)) == target) != grade
            for row, target, grade in zip(scores, self.targets, self.correct, strict=True)
        )
        if differs:
            text = f"in {differs} rows the largest normalised likelihood is not the answer that the tool graded"
            self.notes.append(Note("graded-differently", f"{self.path.name}: {text}; its grades are used"))
        return not differs

    # ------------------------------------------------------------------------------------------- facts
    def _facts(self, options: ColumnOptions, total: int, used: int) -> dict[str, Any]:
        """What was taken, for `describe`, tables and JSON."""
        facts: dict[str, Any] = {"tool": self.tool, "title": plain(self.title, MAX_TEXT), "correct": self.correct_from}
        facts["confidence"] = self.confidence_from or "none in the log"
        if self.confidence is None and self.log_likelihoods is None and self.candidates:
            listed = ", ".join(f"--confidence {plain(name, 60)}" for name in self.candidates[:4])
            facts["confidence"] += f" (numbers that may be one: {listed})"
        if options.confidence_scale:
            facts["confidence"] += f", divided by {options.confidence_scale}"
        facts |= {"rows": used, "read": total, "dropped": dict(self.dropped)}
        if self.units:
            facts["units"] = self.units
        return facts


def choose(
    path: Path, option: str, what: str, names: Sequence[str], given: str | None, preferred: str | None = None
) -> str:
    """The one that is named or the only one; otherwise an error that asks, with the option to type."""
    if given is not None:
        if given not in names:
            got = f"{show(given)}"
            hint = f"choose from {', '.join(f'{option} {plain(name, 60)}' for name in names[:12])}"
            raise FileError(str(path), expected=f"a known {what}", got=got, hint=hint)
        return given
    if len(names) == 1:
        return names[0]
    if preferred in names:
        return str(preferred)
    listed = " or ".join(f"{option} {plain(name, 60)}" for name in names[:8])
    raise FileError(str(path), expected=f"one {what}", got=f"{len(names)}", hint=f"add {listed}")


def all_zero(where: str) -> FileError:
    """The error for log-probabilities that a tool did not record."""
    got, hint = "0 in every row, so the tool did not record them", "use --confidence none for the accuracy alone"
    return FileError(where, expected="log-probabilities of the answers", got=got, hint=hint)


def _column(values: list[Any], rows: np.ndarray) -> np.ndarray:
    """A column of the kept rows: numbers where all are numbers, else text."""
    chosen = [values[row] for row in rows]
    if all(isinstance(item, bool) for item in chosen):
        return np.array(chosen)
    if all(isinstance(item, int | float) and not isinstance(item, bool) for item in chosen):
        return np.array(chosen)
    return np.array(["" if item is None else plain(str(item), MAX_TEXT) for item in chosen])


def graded(value: Any) -> float | None:
    """A score as a number: 1 right, 0 wrong; None for what is no grade.

    inspect_ai writes C, I, P (partial, 0.5) and N (no answer, 0); others write booleans, numbers and yes or no.
    """
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        word = value.strip()
        known = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}.get(word)
        if known is not None:
            return known
        known = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}.get(word.lower())
        if known is not None:
            return known
        try:
            return float(word)
        except ValueError:
            return None
    return None


def numeric_fields(record: Mapping[str, Any] | None, prefix: str = "") -> list[str]:
    """The names of the numbers in a mapping."""
    items = (record or {}).items()
    return [prefix + key for key, value in items if isinstance(value, int | float) and not isinstance(value, bool)]
