"""Posterior predictive checks as box plots with the observed value as a cross (figures 5 and 6 of Gopal 2021)."""

from __future__ import annotations

from calibrant.reporting.document import Section
from calibrant.reporting.gathering import Gathered


def section(gathered: Gathered) -> Section | None:
    """The section, or None where there is nothing to show."""
    del gathered
    return None
