"""What a shell offers behind an option: names that are known without loading the compiler.

The names stand here once more, and a test holds them to the registry: completion has a few tenths of a second. Where
nothing is offered, the shell offers files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

FORMATS = ("table", "json", "csv", "markdown", "latex")
METRICS = (
    "accuracy", "top_k", "nll", "brier", "rbs", "upper_bound", "ece", "mce", "tce", "top_k_ece", "uce", "sweep_ece",
    "kde_tce", "ks", "mmce", "smooth_ece", "cwce", "sce", "ace", "tace", "ce", "skce", "slope", "intercept",
    "spiegelhalter_z", "o_e", "ici", "hosmer_lemeshow", "log_e_value", "roc_auc", "average_precision",
    "misclassification_auroc", "misclassification_aupr", "aurc", "e_aurc", "aac", "avu", "avu_auc",
    "p_accurate_certain", "p_uncertain_inaccurate", "entropy", "expected_entropy", "mutual_information",
    "variation_ratio", "margin", "energy", "brier_reliability", "brier_resolution", "brier_uncertainty", "brier_within",
    "corp_miscalibration", "corp_discrimination", "corp_uncertainty", "mse", "mae", "dss", "crps", "pinball",
    "interval_score", "pit", "aleatoric_variance", "epistemic_variance", "calibration_error", "mace", "rmsce", "picp",
    "width", "sharpness", "se_var_ratio", "ence", "pit_uniformity", "auroc", "aupr_in", "aupr_out",
    "detection_accuracy", "fpr95", "wasserstein",
)  # fmt: skip
OF_LABELS = ("class_frequency", "confusion", "entropy", "mean", "min", "max", "quantile")
"""Statistics of checks beside the metrics."""
COMPARED = ("cll", "brier_ts")
"""Scores of comparisons beside the metrics."""
METHODS = (
    "none", "temperature", "ets", "avu_temperature", "member_temperatures", "vector", "matrix", "dirichlet", "beta",
    "isotonic", "isotonic_multiclass", "histogram", "spline", "diag", "op", "order_invariant", "levels", "std",
    "variance",
)  # fmt: skip
CONFORMAL = ("lac", "aps", "raps", "split", "scaled", "cqr")
UNCERTAINTIES = (
    "max_probability", "entropy", "expected_entropy", "mutual_information", "variation_ratio", "margin", "energy",
    "variance", "aleatoric_variance", "epistemic_variance",
)  # fmt: skip
NO_COLUMNS = (
    "logits", "log_probs", "probs", "classes", "member_names", "weights", "label_probs", "meta", "confidence",
    "correct", "mean", "std", "var", "samples", "quantiles",
)  # fmt: skip
"""Keys of prediction files that rows are not sliced by."""


# ------------------------------------------------------------------------------------------------- offers
def metrics(incomplete: str) -> list[str]:
    """Behind --metrics."""
    return _behind_commas(incomplete, (*METRICS, "all", "default"))


def statistics(incomplete: str) -> list[str]:
    """Behind --statistics."""
    return _behind_commas(incomplete, tuple(dict.fromkeys((*METRICS, *OF_LABELS))))


def scores(incomplete: str) -> list[str]:
    """Behind --scores of a comparison."""
    return _behind_commas(incomplete, (*COMPARED, *METRICS))


def rank_by(incomplete: str) -> list[str]:
    """Behind --rank-by."""
    return _starting(incomplete, (*COMPARED, *METRICS))


def metric(incomplete: str) -> list[str]:
    """Behind `calibrant metrics`."""
    return _starting(incomplete, tuple(dict.fromkeys((*METRICS, *OF_LABELS))))


def methods(incomplete: str) -> list[str]:
    """Behind --method of recalibrate."""
    return _starting(incomplete, (*METHODS, "auto"))


def candidates(incomplete: str) -> list[str]:
    """Behind --candidates."""
    return _behind_commas(incomplete, METHODS)


def conformal(incomplete: str) -> list[str]:
    """Behind --method of conformal."""
    return _starting(incomplete, CONFORMAL)


def uncertainties(incomplete: str) -> list[str]:
    """Behind --score of detect."""
    return _starting(incomplete, UNCERTAINTIES)


def formats(incomplete: str) -> list[str]:
    """Behind --format."""
    return _starting(incomplete, FORMATS)


def members(incomplete: str) -> list[str]:
    """Behind --members."""
    return _starting(incomplete, ("bayesian", "independent", "both"))


def rules(incomplete: str) -> list[str]:
    """Behind --rule."""
    return _starting(incomplete, ("interval", "range"))


def over(incomplete: str) -> list[str]:
    """Behind --over."""
    return _starting(incomplete, ("mean", "median"))


def temperatures(incomplete: str) -> list[str]:
    """Behind --temperature."""
    return _starting(incomplete, ("same", "clean"))


def columns(ctx: Any, incomplete: str) -> list[str]:
    """Behind --by and --units: the columns of the files that were named before it."""
    files = ctx.params.get("files") or ctx.params.get("models") or ctx.args
    named = [str(file).partition("::")[0].rpartition("=")[2] for file in files]
    found = dict.fromkeys(name for file in named for name in _columns_of(Path(file)))
    return _starting(incomplete, tuple(name for name in found if name not in NO_COLUMNS))


# ------------------------------------------------------------------------------------------------- making
def _starting(incomplete: str, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _behind_commas(incomplete: str, names: tuple[str, ...]) -> list[str]:
    """Names that begin like the last of some with commas between them; those that stand there are not offered again."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in taken]


def _columns_of(path: Path) -> list[str]:
    """The names in an archive or in the first line of a table; none where it cannot be read."""
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
