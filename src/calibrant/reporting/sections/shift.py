"""Under shift: box plots by severity over types, checks passed by severity, rank correlations."""

from __future__ import annotations

from calibrant.reporting.document import Section
from calibrant.reporting.gathering import Gathered


def section(gathered: Gathered) -> Section | None:
    """The section, or None where there is nothing to show."""
    del gathered
    return None
