"""Track which transformed rows a map was fitted on; the information travels with the predictions.

`meta["recalibration"]["seen"]` of transformed predictions: `of` rows were transformed, a `share` of the fingerprints of
the fitted rows matched one of them, and `marks` are the fingerprints of those rows after the transformation, so that
they are recognised in any subset.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.predictions.row_fingerprints import format_fingerprints, matching_rows, parse_fingerprints, row_hashes

MIN_SHARE = 0.1
"""The share of fingerprints that must match: fewer may match by chance."""


def fitted_rows_meta(marks: str, before: Any, after: Any) -> dict[str, Any]:
    """The entry `seen` on fitted rows among those that a map turned from `before` into `after`; {} if there are none.

    Rows that an earlier map was fitted on are carried over.
    """
    earlier = before.info.meta.get("recalibration", {}).get("seen", {})
    earlier_marks, own_marks = parse_fingerprints(earlier.get("marks", "")), parse_fingerprints(marks)
    if not len(own_marks) and not earlier:
        return {}
    hashes = row_hashes(before)
    rows = matching_rows(own_marks, hashes)
    share = len(np.unique(hashes[rows])) / len(own_marks) if len(own_marks) else 0.0
    rows = rows if share >= MIN_SHARE else rows[:0]
    earlier_share = earlier.get("share", 0.0) if earlier.get("of") == before.n else 0.0
    both = np.union1d(rows, matching_rows(earlier_marks, hashes))
    share = max(share if len(rows) else 0.0, earlier_share)
    if not len(both) and not share:
        return {}
    new_hashes = row_hashes(after)
    candidates = np.unique(new_hashes[both])
    values, counts = np.unique(new_hashes[matching_rows(candidates, new_hashes)], return_counts=True)
    unique = values[(counts == 1) & (values < 1 << 48)]  # step functions make rows equal: those identify nothing
    return {"seen": {"of": before.n, "share": round(share, 3), "marks": format_fingerprints(unique)}}


def leaked_share(predictions: Any) -> float:
    """The share of the fingerprints of fitted rows that these predictions, or a subset of them, contain."""
    meta = predictions.info.meta.get("recalibration", {})
    entry = meta.get("seen", {}) if isinstance(meta, dict) else {}
    if not entry or meta.get("cross_fitted"):
        return 0.0
    if entry.get("of") == predictions.n:
        return float(entry["share"])
    marks = parse_fingerprints(entry.get("marks", ""))
    hashes = row_hashes(predictions)
    share = len(np.unique(hashes[matching_rows(marks, hashes)])) / len(marks) if len(marks) else 0.0
    return share if share >= MIN_SHARE else 0.0
