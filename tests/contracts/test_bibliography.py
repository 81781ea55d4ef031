"""Every reference in the package and the docs names works of references.bib, and every work there is cited."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import calibrant as cal
from calibrant.bibliography import cited_works, unknown_citations, works
from calibrant.comparison.pitfalls import PITFALLS
from calibrant.conformal.lookup import METHODS as CONFORMAL
from calibrant.pipeline.curves.selection import curves_of
from calibrant.recalibration.lookup import METHODS, method_class
from calibrant.registry.comparison_scores import COMPARISON_SCORES
from calibrant.registry.lookup import metrics
from calibrant.render import references

ROOT = Path(__file__).parents[2]
SOURCE = Path(cal.__file__).parent
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path.parent.name != "bibliography"]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
UNSOURCED = {"none"}
"""The recalibration that changes nothing."""


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def note_references() -> Iterator[tuple[str, str]]:
    """References of `Note(...)` calls in the source: literals or named constants; those of pitfalls are in a table."""
    for path, tree in TREES.items():
        for call in ast.walk(tree):
            if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Note"):
                continue
            values = [*call.args[2:3], *(word.value for word in call.keywords if word.arg == "reference")]
            for value in values:
                where = f"{path.name}:{value.lineno}"
                if isinstance(value, ast.Constant):
                    yield where, value.value
                elif isinstance(value, ast.Name):
                    yield where, getattr(import_module(module_name(path)), value.id)
                else:
                    assert ast.unparse(value) == "PITFALLS[code].reference", (
                        f"{where}: expected a literal or a constant as reference"
                    )


def docstring_references() -> Iterator[tuple[str, str]]:
    """Text after "Reference:" in module docstrings, except web addresses of file formats."""
    for path, tree in TREES.items():
        for text in re.findall(r"References?: (.*)", ast.get_docstring(tree) or "", re.DOTALL):
            if ".org/" not in text:
                yield path.relative_to(SOURCE).as_posix(), text


def constant_references() -> Iterator[tuple[str, str]]:
    """Module constants named REFERENCE, and the constants and tables of `references`."""
    for path, tree in TREES.items():
        names = [
            getattr(target, "id", "") for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
        ]
        if "REFERENCE" in names:
            yield f"{path.name} REFERENCE", import_module(module_name(path)).REFERENCE
    tables = {"interval": references.INTERVALS, "curve": references.CURVES}
    yield from ((f"{kind} {name}", text) for kind, table in tables.items() for name, text in table.items() if text)
    single = {
        name: text
        for name, text in vars(references).items()
        if name.isupper() and isinstance(text, str) and " " in text
    }
    yield from ((f"used {name}", text) for name, text in single.items())


def collect_references() -> dict[str, str]:
    out = {f"metric {name}": metric.reference for name, metric in metrics().items()}
    out |= {f"score {name}": fact.reference for name, fact in COMPARISON_SCORES.items()}
    out |= {f"pitfall {code}": pitfall.reference for code, pitfall in PITFALLS.items()}
    out |= {f"recalibration {name}": method_class(name).reference for name in METHODS if name not in UNSOURCED}
    out |= {f"conformal {name}": method.reference for name, (method, _) in CONFORMAL.items()}
    out |= {f"note {where}": text for where, text in note_references()}
    out |= {f"docstring {where}": text for where, text in docstring_references()}
    return out | dict(constant_references())


REFERENCES = collect_references()
"""By source: "metric ece", "docstring calibration/binning.py"."""


def test_all_kinds_of_references_are_collected():
    kinds = ("metric", "score", "pitfall", "recalibration", "conformal", "note", "docstring", "interval", "curve")
    counts = {kind: sum(key.startswith(kind) for key in REFERENCES) for kind in (*kinds, "used")}
    assert all(counts.values()), counts
    assert {
        "improvement.py REFERENCE",
        "rank_flips.py REFERENCE",
        "docstring pipeline/curves/reliability.py",
    } <= set(REFERENCES)
    assert len(REFERENCES) > 180


@pytest.mark.parametrize("source", REFERENCES)
def test_every_reference_names_known_works(source):
    assert unknown_citations([REFERENCES[source]]) == ()
    assert cited_works([REFERENCES[source]]), "cites no work: write surnames and year, as in Gneiting & Raftery (2007)"


def test_source_and_docs_cite_only_known_works():
    texts = {path: [*strings(path)] for path in FILES} | {path: paragraphs(path) for path in PAGES}
    missing = {path.name: unknown_citations(text) for path, text in texts.items()}
    assert {name: citations for name, citations in missing.items() if citations} == {}


def test_every_work_is_cited_somewhere():
    cited = cited_works(
        [text for path in FILES for text in strings(path)] + [text for page in PAGES for text in paragraphs(page)]
    )
    assert sorted(work.key for work in set(works()) - set(cited)) == []


def strings(path: Path) -> Iterator[str]:
    """All string literals of a module, including docstrings."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def paragraphs(path: Path) -> list[str]:
    """Paragraphs and list items of a page."""
    return re.split(r"\n\s*\n|\n(?=- )", path.read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------- tables of `references`
def test_every_curve_is_in_the_reference_table():
    labels = np.array([0, 1])
    classes = cal.Classification.from_logits(np.zeros((2, 2, 2)), labels)
    numbers = np.zeros(2)
    samples = cal.Regression.from_samples(np.arange(6.0).reshape(3, 2), numbers)
    examples = [
        classes, classes.member(0), cal.Judged.from_confidence([0.5, 0.6], labels), samples,
        cal.Regression.from_gaussian(numbers, numbers + 1.0, numbers),
        cal.Regression.from_quantiles(np.array([[0.0, 1.0]] * 2), np.array([0.1, 0.9]), numbers),
        cal.Detection.from_scores([0.0], [1.0]),
    ]  # fmt: skip
    names = {curve.name.partition("(")[0] for example in examples for curve in curves_of(example)}
    assert names | {"mix", "functions"} == set(references.CURVES)


def test_every_interval_method_is_in_the_reference_table():
    calls = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    intervals = [call for call in calls if getattr(call.func, "id", "") in ("Interval", "_logit")]
    names = {
        arg.value
        for call in intervals
        for arg in call.args
        if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
    }
    assert names == set(references.INTERVALS)
