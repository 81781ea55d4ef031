"""Every reference of the package names a work that the bibliography knows: a newcomer that does not is found here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import calibrant as cal
from calibrant.bibliography import WORKS, cited, unknown
from calibrant.comparison.facts import FACTS
from calibrant.comparison.pitfalls import PITFALLS
from calibrant.evaluation import references
from calibrant.evaluation.curves.choosing import curves_of
from calibrant.recalibration.conformal.methods import METHODS as CONFORMAL
from calibrant.recalibration.methods import METHODS, method_class
from calibrant.registry import metrics

ROOT = Path(__file__).parents[2]
SOURCE = Path(cal.__file__).parent
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path.parent.name != "bibliography"]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
UNSOURCED = {"none"}
"""The recalibration that does nothing."""


def name_of(path: Path) -> str:
    """The module of a file."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def of_notes() -> Iterator[tuple[str, str]]:
    """References of notes as they stand in the source: texts, and names of texts; those of pitfalls are in a table."""
    for path, tree in TREES.items():
        for call in ast.walk(tree):
            if not (isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Note"):
                continue
            given = [*call.args[2:3], *(word.value for word in call.keywords if word.arg == "reference")]
            for value in given:
                where = f"{path.name}:{value.lineno}"
                if isinstance(value, ast.Constant):
                    yield where, value.value
                elif isinstance(value, ast.Name):
                    yield where, getattr(import_module(name_of(path)), value.id)
                else:
                    assert ast.unparse(value) == "PITFALLS[code].reference", f"{where}: a reference that is not seen"


def of_modules() -> Iterator[tuple[str, str]]:
    """What docstrings say behind "Reference:"; formats of files have an address there."""
    for path, tree in TREES.items():
        for said in re.findall(r"References?: (.*)", ast.get_docstring(tree) or "", re.DOTALL):
            if ".org/" not in said:
                yield path.relative_to(SOURCE).as_posix(), said


def constants() -> Iterator[tuple[str, str]]:
    """What modules keep as REFERENCE, and the tables by what was used in an evaluation."""
    for path, tree in TREES.items():
        names = [
            getattr(target, "id", "") for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
        ]
        if "REFERENCE" in names:
            yield f"{path.name} REFERENCE", import_module(name_of(path)).REFERENCE
    tables = {"interval": references.INTERVALS, "curve": references.CURVES}
    yield from ((f"{kind} {name}", text) for kind, table in tables.items() for name, text in table.items() if text)
    single = {name: text for name, text in vars(references).items() if name.isupper() and isinstance(text, str)}
    yield from ((f"used {name}", text) for name, text in single.items())


def collected() -> dict[str, str]:
    """Every reference, by what it is the reference of."""
    out = {f"metric {name}": metric.reference for name, metric in metrics().items()}
    out |= {f"score {name}": fact.reference for name, fact in FACTS.items()}
    out |= {f"pitfall {code}": pitfall.reference for code, pitfall in PITFALLS.items()}
    out |= {f"recalibration {name}": method_class(name).reference for name in METHODS if name not in UNSOURCED}
    out |= {f"conformal {name}": method.reference for name, (method, _) in CONFORMAL.items()}
    out |= {f"note {where}": text for where, text in of_notes()}
    out |= {f"docstring {where}": text for where, text in of_modules()}
    return out | dict(constants())


REFERENCES = collected()


def test_references_are_found_where_there_are_some():
    kinds = ("metric", "score", "pitfall", "recalibration", "conformal", "note", "docstring", "interval", "curve")
    counts = {kind: sum(key.startswith(kind) for key in REFERENCES) for kind in (*kinds, "used")}
    assert all(counts.values()), counts
    assert {"gains.py REFERENCE", "flips.py REFERENCE", "docstring evaluation/curves/corp.py"} <= set(REFERENCES)
    assert len(REFERENCES) > 180


@pytest.mark.parametrize("of", REFERENCES)
def test_every_reference_names_works_that_are_known(of):
    assert unknown([REFERENCES[of]]) == ()
    assert cited([REFERENCES[of]]), "no work is named: write surnames and year, as in Gneiting & Raftery (2007)"


def test_whatever_the_source_and_the_pages_cite_is_known():
    texts = {path: [*strings(path)] for path in FILES} | {path: paragraphs(path) for path in PAGES}
    found = {path.name: unknown(said) for path, said in texts.items()}
    assert {name: lacking for name, lacking in found.items() if lacking} == {}


def test_no_work_stands_here_that_nothing_cites():
    found = cited(
        [text for path in FILES for text in strings(path)] + [text for page in PAGES for text in paragraphs(page)]
    )
    assert sorted(work.key for work in set(WORKS) - set(found)) == []


def strings(path: Path) -> Iterator[str]:
    """Every text of a module, docstrings among them."""
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def paragraphs(path: Path) -> list[str]:
    """Paragraphs and items of lists of a page, each a text."""
    return re.split(r"\n\s*\n|\n(?=- )", path.read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------- tables by what was used
def test_every_curve_has_a_reference_or_is_known_to_need_none():
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


def test_every_method_of_intervals_has_a_reference_or_is_known_to_need_none():
    calls = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [call for call in calls if getattr(call.func, "id", "") == "Interval"]
    names = {
        arg.value for call in made for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
    }
    assert names == set(references.INTERVALS)
