"""Names of metrics outside the registry: what a metric is used for is declared in its entry, not looked up by name."""

import ast
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import calibrant
from calibrant.registry import lookup
from calibrant.registry.lookup import metrics
from calibrant.registry.metric import Metric

PACKAGE = Path(calibrant.__file__).parent
MAX_FILES = 22
"""Files that name a metric: verdicts, which speak of their tests; the formulas behind `check`; the hierarchy of errors;
the metric for torchmetrics. The goal is 15."""
ROW_SCORE_NAMES = {
    "aleatoric_variance", "energy", "entropy", "epistemic_variance", "expected_entropy", "margin", "mutual_information",
    "variation_ratio",
}  # fmt: skip
HOMONYMS = {
    "binning or width of a bar": {
        "calibration/binning.py": {"width"},
        "checks/class_replicates.py": {"width"},
        "checks/classwise_replicates.py": {"width"},
        "conformal/results.py": {"width"},
        "pipeline/curves/interval_width.py": {"width"},
        "pipeline/curves/reliability.py": {"width"},
        "recalibration/methods/one_vs_rest.py": {"width"},
        "render/references.py": {"width"},
        "render/verdicts/regression.py": {"width"},
        "reporting/charts/base.py": {"width"},
        "reporting/charts/row_charts.py": {"width"},
        "reporting/figures.py": {"width"},
        "reporting/sections/regression.py": {"width"},
        "reporting/sections/reliability.py": {"width"},
    },
    "the loss that a fit minimises": {
        "recalibration/lookup.py": {"avu"},
        "recalibration/methods/beta.py": {"nll"},
        "recalibration/methods/ets.py": {"brier", "nll"},
        "recalibration/methods/linear_maps.py": {"nll"},
        "recalibration/methods/member_temperatures.py": {"nll"},
        "recalibration/methods/network_training.py": {"nll"},
        "recalibration/methods/one_vs_rest.py": {"brier"},
        "recalibration/methods/std.py": {"nll"},
        "recalibration/methods/temperature.py": {"nll"},
        "recalibration/methods/variance.py": {"dss"},
    },
    "a column of the record of rows": {
        "checks/gaussian_replicates.py": {"crps", "mae", "mse", "nll"},
        "kernels/regression.py": {"crps", "nll", "pit"},
        "kernels/regression_rows.py": {"crps", "nll", "pit"},
        "kernels/replicates/regression.py": {"crps", "mae", "mse", "nll"},
        "kernels/replicates/samples.py": {"crps", "mae", "mse"},
        "kernels/rows.py": {"margin"},
        "pipeline/curves/coverage.py": {"pit"},
        "pipeline/curves/selection.py": {"pit"},
        "pipeline/worst_rows.py": {"pit"},
        "recalibration/methods/levels.py": {"pit"},
        "render/references.py": {"pit"},
        "reporting/sections/detection.py": {"accuracy"},
        "reporting/sections/recalibration.py": {"accuracy"},
        "reporting/sections/regression.py": {"pit"},
        "reporting/sections/reliability.py": {"accuracy"},
        "reporting/sections/rows.py": {"pit"},
        "reporting/sections/selective.py": {"accuracy"},
        "reporting/sections/slices.py": {"pit"},
        "reporting/single_chart.py": {"accuracy", "pit"},
        "plot.py": {"pit"},
    },
    "an uncertainty of rows (`scores.uncertainty.ROW_SCORES`)": {
        "checks/label_statistics.py": {"entropy"},
        "cli/completion.py": ROW_SCORE_NAMES,
        "demo.py": {"mutual_information"},
        "pipeline/curves/confidence.py": {"entropy", "mutual_information"},
        "pipeline/ood.py": {"entropy"},
        "pipeline/worst_rows.py": {"entropy", "mutual_information"},
        "render/references.py": {"entropy", "mutual_information"},
        "reporting/sections/rows.py": {"entropy", "mutual_information"},
        "reporting/sections/selective.py": {"entropy", "mutual_information"},
        "reporting/sections/uncertainty.py": {"entropy", "mutual_information"},
        "scores/uncertainty.py": ROW_SCORE_NAMES,
    },
    "a curve or a column of one": {
        "comparison/pitfalls/scores.py": {"avu"},
        "pipeline/curves/confidence.py": {"avu", "avu(score=max_probability)"},
        "render/references.py": {"avu"},
        "reporting/sections/uncertainty.py": {"avu", "p_accurate_certain", "p_uncertain_inaccurate"},
    },
    "a field of a stored record or a heading": {
        "bench/gopal/table.py": {"sharpness"},
        "cli/recalibrate.py": {"accuracy"},
        "monitoring.py": {"log_e_value"},
        "pipeline/ood.py": {"accuracy"},
        "render/checks.py": {"sharpness"},
        "results/check.py": {"sharpness"},
    },
    "a test of uniformity": {
        "calibration/uniformity.py": {"ks"},
    },
    "a field of an evaluation log, or a data set": {
        "data/catalogue.py": {"energy"},
        "predictions/logs/helm.py": {"accuracy"},
        "predictions/logs/inspect_ai.py": {"accuracy"},
    },
    "a word of the grammar": {
        "gates/grammar.py": {"margin"},
    },
}  # fmt: skip
"""Strings that equal the name of a metric and mean something else, and where."""
FAMILIES = [import_module(f"calibrant.registry.metrics.{module}") for module in lookup.MODULES]
CONSTANTS = {name for family in FAMILIES for name, value in vars(family).items() if isinstance(value, Metric)}
"""Names of the entries, such as ACCURACY."""


def trees():
    """The syntax trees of the files outside the registry."""
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE)
        if place.parts[0] != "registry":
            yield place.as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def strings(tree):
    """The string constants that are the name or spec of a metric, docstrings aside."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in docs}
    return {text for text in found if isinstance(text, str) and text.partition("(")[0] in metrics()}


def imported(tree):
    """The entries of the registry that are imported by their own names."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    names = (alias.name for node in imports if "registry.metrics" in str(node.module) for alias in node.names)
    return set(names) & CONSTANTS


def homonyms(place):
    """The strings that mean something else in a file."""
    return set().union(*(files.get(place, set()) for files in HOMONYMS.values()))


def test_few_files_outside_the_registry_name_metrics():
    found = {}
    for place, tree in trees():
        named = (strings(tree) - homonyms(place)) | imported(tree)
        if named:
            found[place] = sorted(named)
    assert len(found) <= MAX_FILES, found


def test_an_import_of_an_entry_counts():
    tree = ast.parse("from calibrant.registry.metrics.proper import ACCURACY, mean_nll\nx = 'nll'")
    assert imported(tree) == {"ACCURACY"}
    assert strings(tree) == {"nll"}


def test_every_homonym_is_still_written_where_it_is_listed():
    written = defaultdict(set, {place: strings(tree) for place, tree in trees()})
    for meaning, files in HOMONYMS.items():
        for place, words in files.items():
            assert words <= written[place], (meaning, place)
