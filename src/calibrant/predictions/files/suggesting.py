"""Columns that bear other names than ours: which options would probably name them. It is said, and never acted on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from calibrant.errors import plain, show

USUAL = {
    "labels": ("label", "labels", "target", "targets", "truth", "true", "y_true", "y", "class", "gold", "outcome"),
    "prob": ("prob", "probability", "p", "proba", "p1", "risk", "score", "y_prob", "y_score"),
    "confidence": ("confidence", "conf"),
    "correct": ("correct", "is_correct", "right"),
    "y": ("y", "y_true", "target", "targets", "truth", "true", "observed", "outcome", "actual", "label"),
    "mean": ("mean", "mu", "pred", "prediction", "y_pred", "predicted", "forecast"),
    "std": ("std", "sigma", "sd", "stddev", "y_std", "uncertainty"),
    "var": ("var", "variance"),
}
"""Names that such columns often bear, lower case, the likeliest first."""
OUTCOMES = ("label", "target", "targets", "truth", "y_true", "gold")
"""Names that hardly anything but what came true has."""
PLACES = {"logits": ("logit", "logits", "z"), "probs": ("p", "prob", "probs", "proba", "probability")}
"""What columns of scores often begin with, before an underscore."""
SHOWN = 40
"""Characters of a name up to which it is suggested."""


def suggested(names: Iterable[str]) -> str:
    """The options that would probably name these columns, or nothing where too little is known."""
    columns = {name.lower(): name for name in names if len(name) <= SHOWN and plain(name) == name}
    found = {key: next((columns[name] for name in usual if name in columns), None) for key, usual in USUAL.items()}
    for key, starts in PLACES.items():
        counted = Counter(name.rpartition("_")[0] for name in columns)
        start = next((start for start in starts if counted[start] > 1), None)
        if start is not None:
            pattern = next(name for low, name in columns.items() if low.startswith(f"{start}_"))[: len(start)] + "_*"
            return _written({"labels": found["labels"], key: pattern})
    spread = "var" if found["std"] is None else "std"
    for wanted in (("confidence", "correct"), ("y", "mean", spread), ("labels", "prob")):
        if all(found[key] is not None for key in wanted):
            return _written({key: found[key] for key in wanted})
    return ""


def outcome_among(columns: Iterable[str]) -> str | None:
    """The column that probably holds what came true."""
    return next((name for name in columns if name.lower() in OUTCOMES), None)


def _written(options: dict[str, str | None]) -> str:
    """Options as they are typed: a pattern or a name with a blank in quotation marks."""
    return " ".join(
        f"--{key} {name if name.replace('_', '').isalnum() else show(name)}" for key, name in options.items() if name
    )
