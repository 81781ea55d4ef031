"""Temperatures of members, fitted on the first rows, which are then left out of what is checked.

Gopal (2021), appendix G.1: the first 20 % of the clean rows fit the temperatures, and neither they nor their shifted
copies are checked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibrant.errors import ShapeError, UsageError
from calibrant.evaluation.checking import Checked
from calibrant.evaluation.choosing import Input
from calibrant.predictions import Classification
from calibrant.predictions.base import Note
from calibrant.recalibration.member_temperatures import MemberTemperatures


@dataclass(frozen=True)
class Temperatures:
    """The share of rows that temperatures are fitted on; of each input its own, or of one input for all."""

    share: float
    threads: int | None
    fitted: MemberTemperatures | None = None
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
        if fit is None:
            return made
        head = made._head(fit)
        ids = head.info.ids
        return replace(made, fitted=made._fit(head), rows=head.n, ids=ids, name=fit.name)

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
        return next(iter(source.blocks(count)))[:count]  # type: ignore[return-value]

    def _fit(self, head: Classification) -> MemberTemperatures:
        return MemberTemperatures.fit(head, threads=self.threads)

    def applied(self, source: Input) -> Checked:
        """The rows that are left, with their temperatures."""
        if self.fitted is None:
            head = self._head(source)
            keep = np.arange(source.n) >= head.n
            fitted = self._fit(head)
        else:
            keep, fitted = self._others(source), self.fitted
        if not keep.any():
            raise ShapeError(
                f"{source.name}: temperatures",
                expected="rows that no temperature was fitted on",
                came="none is left",
                do="fit on a smaller share",
            )
        return Checked(source, keep, fitted)

    def _others(self, source: Input) -> np.ndarray:
        """Rows that are not among those fitted on: by ids where both have them, or by position."""
        if self.ids is not None:
            try:
                return ~np.isin(source.column("ids"), self.ids)
            except UsageError:
                pass
        return np.arange(source.n) >= self.rows

    def recorded(self) -> dict[str, object]:
        """As it stands in the settings."""
        out: dict[str, object] = {"temperatures": self.share}
        return out | ({"fit": self.name} if self.fitted is not None else {})

    def notes(self, checked: Checked) -> tuple[Note, ...]:
        """What was met in fitting."""
        found = () if checked.scaling is None else checked.scaling.notes()
        return tuple(replace(note, message=f"{checked.name}: {note.message}") for note in found)
