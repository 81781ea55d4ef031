"""Shell completion of option values, without loading the compiler.

Most names are repeated here, and a test compares them with those of the package: shell completion must answer within
a few tenths of a second. If nothing is offered, the shell offers files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

FORMATS = ("table", "json", "csv", "markdown", "latex")
LABEL_STATISTICS = ("class_frequency", "confusion", "entropy", "mean", "min", "max", "quantile")
"""Statistics of `calibrant check` that are not metrics."""
COMPARISON_SCORES = ("cll", "brier_ts")
"""Scores of `calibrant compare` that are not metrics."""
CONFORMAL = ("lac", "aps", "raps", "split", "scaled", "cqr")
UNCERTAINTIES = (
    "max_probability", "entropy", "expected_entropy", "mutual_information", "variation_ratio", "margin", "energy",
    "variance", "aleatoric_variance", "epistemic_variance",
)  # fmt: skip
NOT_COLUMNS = (
    "logits", "log_probs", "probs", "classes", "member_names", "weights", "label_probs", "meta", "confidence",
    "correct", "mean", "std", "var", "samples", "quantiles",
)  # fmt: skip
"""Keys of prediction files that rows cannot be grouped by."""


# ------------------------------------------------------------------------------------------------- options
def metric_names() -> tuple[str, ...]:
    """The names of all metrics, without importing them."""
    from calibrant.registry.lookup import names

    return names()


def detection_metrics() -> tuple[str, ...]:
    """The names of the metrics of OOD detection, read from source."""
    from calibrant.registry.lookup import names_in

    return names_in("detection")


def method_names() -> tuple[str, ...]:
    """The names of all recalibration methods, read from source because importing them loads the compiler."""
    source = Path(__file__).parents[1] / "recalibration" / "lookup.py"
    return tuple(re.findall(r'^    "(\w+)": \("\w+", "\w+"\),$', source.read_text("utf-8"), re.MULTILINE))


def one_of(*names: str | Callable[[], tuple[str, ...]]) -> Callable[[str], list[str]]:
    """The completion of an option that is one of these names, or of those that a function returns."""

    def complete(incomplete: str) -> list[str]:
        every = dict.fromkeys(name for item in names for name in ([item] if isinstance(item, str) else item()))
        return [name for name in every if name.startswith(incomplete)]

    return complete


def some_of(*names: str | Callable[[], tuple[str, ...]]) -> Callable[[str], list[str]]:
    """The completion of the last name of a list with commas, with names that are not in it yet."""
    complete_one = one_of(*names)

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in complete_one(last) if name not in before.split(",")]

    return complete


metrics = some_of(metric_names, "all", "default", "report")
metric = one_of(metric_names, *LABEL_STATISTICS)
statistics = some_of(metric_names, *LABEL_STATISTICS)
scores = some_of(*COMPARISON_SCORES, metric_names)
rank_by = one_of(*COMPARISON_SCORES, metric_names)
detection = some_of(detection_metrics)
methods = one_of(method_names, "auto")
candidates = some_of(method_names)
conformal = one_of(*CONFORMAL)
uncertainties = one_of(*UNCERTAINTIES)
formats = one_of(*FORMATS)
members = one_of("bayesian", "independent", "both")
rules = one_of("interval", "range")
over = one_of("mean", "median")
temperatures = one_of("same", "clean")


def columns(ctx: Any, incomplete: str) -> list[str]:
    """Complete --by and --units: the columns of the files on the command line."""
    files = ctx.params.get("files") or ctx.params.get("models") or ctx.args
    paths = [Path(str(file).partition("::")[0].rpartition("=")[2]) for file in files]
    columns = dict.fromkeys(name for path in paths for name in _columns_of(path) if name not in NOT_COLUMNS)
    return one_of(*columns)(incomplete)


def _columns_of(path: Path) -> list[str]:
    """The names in an archive or in the header of a table; none if it cannot be read."""
    import zipfile

    try:
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist()]
        elif path.suffix == ".csv":
            with path.open(encoding="utf-8") as stream:
                names = [name.strip().strip('"') for name in stream.readline(1 << 16).split(",")]
        else:
            return []
    except (OSError, ValueError, zipfile.BadZipFile):
        return []
    return [name for name in names if name.isprintable() and " " not in name]
