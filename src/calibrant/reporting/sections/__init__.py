"""The sections of a report, one file each, in the order in which they stand.

A section is a function `section(gathered: Gathered) -> Section | None`: it looks for its data in what was gathered, and
is not there where there is none. It computes no metric. To add one, write a file in this folder and name it in `ORDER`.
"""

from __future__ import annotations

from calibrant.reporting.document import Section
from calibrant.reporting.gathering import Gathered
from calibrant.reporting.sections import (
    checks,
    comparison,
    detection,
    errors,
    overview,
    pitfalls,
    provenance,
    recalibration,
    regression,
    reliability,
    rows,
    scores,
    selective,
    shift,
    sizes,
    slices,
    uncertainty,
    verdict,
)

ORDER = (
    verdict,
    overview,
    comparison,
    scores,
    reliability,
    regression,
    errors,
    checks,
    recalibration,
    selective,
    uncertainty,
    shift,
    detection,
    slices,
    rows,
    sizes,
    pitfalls,
    provenance,
)


def sections(gathered: Gathered) -> tuple[Section, ...]:
    """Every section that has data."""
    made = (module.section(gathered) for module in ORDER)
    return tuple(section for section in made if section is not None)
