"""On which axis of each array of the contract its rows lie: members and draws come first."""

from __future__ import annotations

CONSTANTS = ("classes", "member_names", "levels", "meta")
"""Arrays that are not by row."""
MEMBERS_OF_SCORES = ("logits", "log_probs", "probs")
MEMBERS_OF_NUMBERS = ("confidence", "mean", "std", "var", "samples")


def row_axis(key: str, ndim: int) -> int:
    """The axis of the rows of array `key`: 1 in (M, N, C), and in (M, N) or (S, N) of one number a row; else 0."""
    if key in MEMBERS_OF_SCORES:
        return 1 if ndim == 3 else 0
    return 1 if key in MEMBERS_OF_NUMBERS and ndim == 2 else 0
