"""Names of metrics outside the registry: what a metric is used for is declared in its entry, not looked up by name."""

import ast
from fnmatch import fnmatch
from pathlib import Path

import calibrant
from calibrant.registry.lookup import metrics

PACKAGE = Path(calibrant.__file__).parent
MAX_FILES = 15
HOMONYMS = {
    "binning or width of a bar": ({"width"}, (
        "calibration/binning.py", "checks/class_replicates.py", "pipeline/curves/interval_width.py",
        "pipeline/curves/reliability.py", "recalibration/methods/one_vs_rest.py", "render/references.py",
        "comparison/pitfalls/lint.py", "conformal/results.py", "reporting/*", "render/verdicts/regression.py",
    )),
    "the loss that a fit minimises": ({"nll", "brier", "dss", "avu"}, ("recalibration/*",)),
    "a column of the record of rows": ({"pit", "crps", "nll", "mae", "mse", "accuracy", "margin"}, (
        "kernels/*", "checks/gaussian_replicates.py", "pipeline/curves/*", "pipeline/worst_rows.py",
        "recalibration/methods/levels.py", "reporting/sections/*", "render/references.py", "comparison/pitfalls/*",
    )),
    "an uncertainty of rows (`scores.uncertainty.ROW_SCORES`)": (
        {"entropy", "mutual_information", "energy", "margin", "expected_entropy", "variation_ratio",
         "aleatoric_variance", "epistemic_variance"}, (
        "scores/uncertainty.py", "cli/completion.py", "checks/label_statistics.py", "demo.py", "pipeline/ood.py",
        "pipeline/curves/confidence.py", "pipeline/worst_rows.py", "render/references.py", "reporting/sections/*",
        "comparison/pitfalls/*",
    )),
    "a curve": ({"avu", "avu(score=max_probability)"}, (
        "pipeline/curves/confidence.py", "render/references.py", "reporting/sections/uncertainty.py",
        "comparison/pitfalls/*",
    )),
    "a field of a stored record or a heading": ({"sharpness", "log_e_value", "accuracy"}, (
        "results/check.py", "render/checks.py", "bench/gopal/*", "monitoring.py", "cli/recalibrate.py",
        "pipeline/ood.py",
    )),
    "a test of uniformity": ({"ks"}, ("calibration/uniformity.py",)),
    "a word of the grammar": ({"margin"}, ("gates/grammar.py",)),
}  # fmt: skip
"""Strings that equal the name of a metric and mean something else, and where."""


def names_of_metrics(path):
    """The string constants of a file that are the name or spec of a metric, docstrings aside."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in docs}
    return {text for text in strings if isinstance(text, str) and text.partition("(")[0] in metrics()}


def is_homonym(place, text):
    return any(
        text in words and any(fnmatch(str(place), pattern) for pattern in patterns)
        for words, patterns in HOMONYMS.values()
    )


def test_few_files_outside_the_registry_name_metrics():
    found = {}
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE)
        if place.parts[0] != "registry":
            named = {text for text in names_of_metrics(path) if not is_homonym(place, text)}
            if named:
                found[place.as_posix()] = sorted(named)
    assert len(found) <= MAX_FILES, found


def test_every_homonym_is_still_written_somewhere():
    written = {
        (path.relative_to(PACKAGE).as_posix(), text)
        for path in PACKAGE.rglob("*.py")
        for text in names_of_metrics(path)
    }
    for meaning, (words, patterns) in HOMONYMS.items():
        for word in words:
            places = [place for place, text in written if text == word]
            assert any(fnmatch(place, pattern) for place in places for pattern in patterns), (meaning, word)
