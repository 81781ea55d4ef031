"""A temperature for each member, fitted on the first rows, which are then not checked.

Gopal (2021), appendix G.1: the first 20% of the clean rows fit the temperatures, and neither they nor their shifted
copies are checked.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.checks.runner import CheckedRows
from calibrant.errors import CalibrantWarning, ShapeError, UsageError, check_range
from calibrant.pipeline.select_metrics import Input
from calibrant.predictions import Classification
from calibrant.predictions.base import Note
from calibrant.recalibration.methods.member_temperatures import MemberTemperatureScaling


@dataclass(frozen=True)
class Temperatures:
    """The fraction of rows that fit temperatures: of each input for itself, or of one input for all."""

    fraction: float
    threads: int | None
    fitted: MemberTemperatureScaling | None = None
    rows: int = 0
    """The number of rows that fitted the temperatures."""
    ids: np.ndarray | None = None
    """Their ids."""
    name: str = ""

    @classmethod
    def of(cls, fraction: float | None, fit: Input | None, threads: int | None) -> Temperatures | None:
        """From the arguments of `check`; None without temperatures."""
        if fraction is None:
            if fit is not None:
                hint = "name the fraction of rows that fit them: temperatures=0.2"
                raise UsageError("fit", expected="temperatures together with fit", got="fit alone", hint=hint)
            return None
        fraction = check_range("temperatures", fraction, 0, 1, inclusive="neither", hint="use temperatures=0.2")
        unfitted = cls(fraction, threads)
        return unfitted if fit is None else unfitted._fit(fit)

    def _fit(self, source: Input) -> Temperatures:
        """Fit the temperatures on the first rows of an input."""
        count = int(self.fraction * source.n)
        if count < 1:
            expected, got = "at least one row to fit them on", f"0 rows ({self.fraction:g} of {source.n})"
            hint = "use a larger fraction, such as temperatures=0.2"
            raise ShapeError(f"{source.name}: temperatures", expected=expected, got=got, hint=hint)
        parts: list[Any] = []
        for block in source.blocks():
            parts.append(block[: count - sum(part.n for part in parts)])
            if sum(part.n for part in parts) == count:
                break
        head = parts[0]
        if len(parts) > 1 and isinstance(head, Classification):  # the fit refuses other types
            weights = None if head.weights is None else np.concatenate([part.weights for part in parts])
            head = replace(
                head,
                scores=np.concatenate([part.scores for part in parts], axis=1),
                labels=None if head.labels is None else np.concatenate([part.labels for part in parts]),
                label_probs=None,
                info=replace(head.info, n=count, weights=weights, ids=None, columns={}),
            )
        with warnings.catch_warnings():  # warnings of the fit are among the notes of the check
            warnings.simplefilter("ignore", CalibrantWarning)
            fitted = MemberTemperatureScaling().fit(head, threads=self.threads)
        ids = _ids(source)
        return replace(self, fitted=fitted, rows=head.n, ids=None if ids is None else ids[: head.n], name=source.name)

    def apply(self, source: Input) -> CheckedRows:
        """The rows of an input that were not used for fitting, by ids or by position, with their temperatures."""
        own = self if self.fitted is not None else self._fit(source)
        ids = _ids(source)
        by_position = ids is None or own.ids is None
        keep = np.arange(source.n) >= own.rows if by_position else ~np.isin(ids, own.ids)  # type: ignore[arg-type]
        if not keep.any():
            expected = "rows that no temperature was fitted on"
            hint = "fit on a smaller fraction, such as temperatures=0.2"
            raise ShapeError(f"{source.name}: temperatures", expected=expected, got="0 rows", hint=hint)
        return CheckedRows(source, keep, own.fitted)

    def settings(self) -> dict[str, object]:
        """The entries of the settings."""
        out: dict[str, object] = {"temperatures": self.fraction}
        return out | ({"fit": self.name} if self.fitted is not None else {})

    def notes(self, rows: CheckedRows) -> tuple[Note, ...]:
        """The warnings of the fit."""
        notes = () if rows.scaling is None else rows.scaling.notes()
        return tuple(replace(note, message=f"{rows.name}: {note.message}") for note in notes)


def _ids(source: Input) -> np.ndarray | None:
    try:
        return source.column("ids")
    except UsageError:
        return None
