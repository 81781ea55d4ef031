"""All works, and their entries."""

from __future__ import annotations

from collections.abc import Iterable

from calibrant.bibliography import calibration, computing, forecasting, networks, statistics, uncertainty
from calibrant.bibliography.work import Work

WORKS: tuple[Work, ...] = tuple(
    sorted(
        (
            *calibration.WORKS,
            *computing.WORKS,
            *forecasting.WORKS,
            *networks.WORKS,
            *statistics.WORKS,
            *uncertainty.WORKS,
        ),
        key=lambda work: work.key,
    )
)
"""By key."""


def bibtex(works: Iterable[Work]) -> str:
    """The entries of works, with an empty line between two."""
    return "\n\n".join(work.bibtex() for work in works)
