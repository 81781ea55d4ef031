"""Rows from inside and from outside: how their scores are spread."""

from __future__ import annotations

from calibrant.reporting.document import Section
from calibrant.reporting.gathering import Gathered


def section(gathered: Gathered) -> Section | None:
    """The section, or None where there is nothing to show."""
    del gathered
    return None
