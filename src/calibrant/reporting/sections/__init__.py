"""The sections of a report, one file each, in order.

A section is a function `section(report: ReportData) -> Section | None` that returns None if there is no data for it.
It computes no metrics. To add one, write a file in this folder and list it in `ORDER`.
"""

from __future__ import annotations

from calibrant.reporting.document import Section
from calibrant.reporting.report_data import ReportData
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


def sections(report: ReportData) -> tuple[Section, ...]:
    """Every section that has data."""
    return tuple(section for module in ORDER if (section := module.section(report)) is not None)
