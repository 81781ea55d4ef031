"""Temperatures of members, fitted on the first rows, which are then left out of what is checked.

Gopal (2021), appendix G.1: the first 20 % of the clean rows fit the temperatures, and neither they nor their shifted
copies are checked.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.errors import CalibrantWarning, ShapeError, UsageError
from calibrant.evaluation.checking import Checked
from calibrant.evaluation.choosing import Input
from calibrant.predictions import Classification
from calibrant.predictions.base import Note
from calibrant.recalibration.member_temperatures import MemberTemperatureScaling


@dataclass(frozen=True)
class Temperatures:
    """The share of rows that temperatures are fitted on; of each input its own, or of one input for all."""

    share: float
    threads: int | None
    fitted: MemberTemperatureScaling | None = None
    rows: int = 0
    ids: np.ndarray | None = None
    name: str = ""

    @classmethod
    def of(cls, share: float | None, fit: Input | None, threads: int | None) -> Temperatures | None:
        """What was asked for; None where it was nothing."""
        if share is None:
            if fit is not None:
                raise UsageError(
                    "fit",
                    expected="temperatures beside it",
                    came="got it alone",
                    do="say which share of its rows fits them: temperatures=0.2",
                )
            return None
        if not 0.0 < share < 1.0:
            raise UsageError("temperatures", expected="a share between 0 and 1", came=f"got {share}", do="0.2 is usual")
        made = cls(float(share), threads)
        return made if fit is None else made._of(fit)

    def _of(self, source: Input) -> Temperatures:
        """Those of the first rows of an input."""
        head, ids = self._head(source), _ids(source)
        known = None if ids is None else ids[: head.n]
        with warnings.catch_warnings():  # what a fit has to say stands among the notes of the check
            warnings.simplefilter("ignore", CalibrantWarning)
            fitted = MemberTemperatureScaling().fit(head, threads=self.threads)
        return replace(self, fitted=fitted, rows=head.n, ids=known, name=source.name)

    def _head(self, source: Input) -> Classification:
        """The first rows of an input."""
        count = int(self.share * source.n)
        if count < 1:
            raise ShapeError(
                f"{source.name}: temperatures",
                expected="at least one row to fit them on",
                came=f"a share of {self.share:g} of {source.n} rows is none",
                do="give a larger share",
            )
        parts: list[Any] = []
        for block in source.blocks():
            parts.append(block[: count - sum(part.n for part in parts)])
            if sum(part.n for part in parts) == count:
                break
        alone = len(parts) == 1 or not isinstance(parts[0], Classification)  # others are refused by the fit
        return parts[0] if alone else _joined(parts)

    def applied(self, source: Input) -> Checked:
        """The rows that are left, with their temperatures."""
        own = self if self.fitted is not None else self._of(source)
        keep, fitted = own._others(source), own.fitted
        if not keep.any():
            raise ShapeError(
                f"{source.name}: temperatures",
                expected="rows that no temperature was fitted on",
                came="none is left",
                do="fit on a smaller share",
            )
        return Checked(source, keep, fitted)

    def _others(self, source: Input) -> np.ndarray:
        """Rows that are not among those fitted on, nor copies of them: by ids where both have them, or by position."""
        ids = _ids(source)
        if ids is None or self.ids is None:
            return np.arange(source.n) >= self.rows
        return ~np.isin(ids, self.ids)

    def recorded(self) -> dict[str, object]:
        """As it stands in the settings."""
        out: dict[str, object] = {"temperatures": self.share}
        return out | ({"fit": self.name} if self.fitted is not None else {})

    def notes(self, checked: Checked) -> tuple[Note, ...]:
        """What was met in fitting."""
        found = () if checked.scaling is None else checked.scaling.notes()
        return tuple(replace(note, message=f"{checked.name}: {note.message}") for note in found)


def _ids(source: Input) -> np.ndarray | None:
    try:
        return source.column("ids")
    except UsageError:
        return None


def _joined(parts: list[Any]) -> Classification:
    """Successive rows as one; of what is known of them, what a fit needs."""
    first = parts[0]
    labels = None if first.labels is None else np.concatenate([part.labels for part in parts])
    weights = None if first.weights is None else np.concatenate([part.weights for part in parts])
    n = sum(part.n for part in parts)
    return replace(
        first,
        scores=np.concatenate([part.scores for part in parts], axis=1),
        labels=labels,
        label_probs=None,
        info=replace(first.info, n=n, weights=weights, ids=None, columns={}),
    )
