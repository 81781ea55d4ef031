"""Which of the rows that a map is applied to are rows that it was fitted on; the answer travels with the rows.

`meta["recalibration"]["seen"]` of transformed predictions: `of` rows were transformed, a `share` of the marks of the
fitted rows was met among them, and `marks` are those rows as they look now, so that a part of them can be told from the
rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.predictions.marks import met, read_marks, row_hashes, written

LEAST = 0.1
"""The share of marks that must be met: fewer may be equal by chance."""


def seen(marks: str, before: Any, after: Any) -> dict[str, Any]:
    """What is said of fitted rows among those that a map turned from `before` into `after`; nothing if there is none.

    Rows that an earlier map was fitted on are remembered too.
    """
    earlier = before.info.meta.get("recalibration", {}).get("seen", {})
    known, own = read_marks(earlier.get("marks", "")), read_marks(marks)
    if not len(own) and not earlier:
        return {}
    hashes = row_hashes(before)
    rows = met(own, hashes)
    share = len(np.unique(hashes[rows])) / len(own) if len(own) else 0.0
    rows = rows if share >= LEAST else rows[:0]
    unsliced = earlier.get("share", 0.0) if earlier.get("of") == before.n else 0.0
    both = np.union1d(rows, met(known, hashes))
    share = max(share if len(rows) else 0.0, unsliced)
    if not len(both) and not share:
        return {}
    now = row_hashes(after)
    values = np.unique(now[both])
    found, times = np.unique(now[met(values, now)], return_counts=True)
    alone = found[(times == 1) & (found < 1 << 48)]  # maps with steps make rows equal, and then they say nothing
    return {"seen": {"of": before.n, "share": round(share, 3), "marks": written(alone)}}


def scored_share(predictions: Any) -> float:
    """The share of marks of fitted rows that these predictions, or part of them, still hold; 0 of none."""
    facts = predictions.info.meta.get("recalibration", {})
    found = facts.get("seen", {}) if isinstance(facts, dict) else {}
    if not found or facts.get("cross_fitted"):
        return 0.0
    if found.get("of") == predictions.n:
        return float(found["share"])
    marks = read_marks(found.get("marks", ""))
    hashes = row_hashes(predictions)
    share = len(np.unique(hashes[met(marks, hashes)])) / len(marks) if len(marks) else 0.0
    return share if share >= LEAST else 0.0
