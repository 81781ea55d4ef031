"""The docstrings of public names: NumPy style, with examples that run."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import calibrant as cal

VERBS = [name for name in cal.__all__ if inspect.isfunction(inspect.unwrap(getattr(cal, name)))]
CLASSES = [name for name in cal.__all__ if inspect.isclass(getattr(cal, name))]


def public_objects() -> Iterator[tuple[str, Any]]:
    """Every public function and class, and the public methods of the classes, by dotted name."""
    places = [("cal", cal), *((f"cal.{name}", import_module(f"calibrant.{name}")) for name in cal.MODULES)]
    seen = set()
    for place, module in places:
        for name in module.__all__:
            value = getattr(module, name)
            value = value if inspect.isclass(value) else inspect.unwrap(value)  # of a cache
            if not (inspect.isfunction(value) or inspect.isclass(value)) or id(value) in seen:
                continue
            seen.add(id(value))
            yield f"{place}.{name}", value
            for key, member in vars(value).items() if inspect.isclass(value) else ():
                member = getattr(member, "__func__", member)
                if not key.startswith("_") and inspect.isfunction(member):
                    yield f"{place}.{name}.{key}", member


OBJECTS = dict(public_objects())


@pytest.mark.parametrize(
    "name", [name for name, value in OBJECTS.items() if re.search(r">>>(?!.*\+SKIP)", value.__doc__ or "")]
)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    value = OBJECTS[name]
    (test,) = (test for test in doctest.DocTestFinder(recurse=False).find(value, name, globs={}) if test.examples)
    lines: list[str] = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.DocTestRunner(optionflags=flags, verbose=False).run(test, out=lines.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(lines)


@pytest.mark.parametrize("name", VERBS)
def test_verbs_say_what_they_take_and_return(name: str) -> None:
    function = getattr(cal, name)
    text = inspect.getdoc(function) or ""
    assert "Examples\n--------" in text
    assert "Returns\n-------" in text
    missing = [key for key in inspect.signature(function).parameters if not _describes(text, key)]
    assert not missing, f"not described under Parameters: {missing}"


def _describes(text: str, parameter: str) -> bool:
    """Whether the Parameters section has a line that opens with the name, alone or among others."""
    lines = text.partition("Parameters\n----------")[2].splitlines()
    heads = [line.split(":")[0] for line in lines if line and not line.startswith(" ")]
    return any(parameter in (name.strip(" *") for name in head.split(",")) for head in heads)


MADE_BY = {
    "cal.Classification": "from_logits", "cal.Regression": "from_gaussian", "cal.Judged": "from_confidence",
    "cal.Detection": "from_scores",
}  # fmt: skip
"""Classes whose example is that of the method that makes them."""


@pytest.mark.parametrize("name", [f"cal.{name}" for name in cal.__all__ if name != "CalibrantWarning"])
def test_public_names_have_an_example(name: str) -> None:
    method = MADE_BY.get(name)
    assert ">>>" in (inspect.getdoc(OBJECTS[f"{name}.{method}" if method else name]) or "")


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_documented(name: str) -> None:
    assert len((getattr(cal, name).__doc__ or "").strip()) > 20


def test_returned_types_are_importable() -> None:
    """What a public verb returns can be imported from a public module, to annotate one's own code with."""
    reachable = {id(value) for value in OBJECTS.values()}
    for name in VERBS:
        annotation = inspect.get_annotations(getattr(cal, name), eval_str=False).get("return", "None")
        for word in str(annotation).replace("[", " ").replace("]", " ").replace(",", " ").replace("|", " ").split():
            module = inspect.getmodule(getattr(cal, name))
            value = getattr(module, word, None)
            if inspect.isclass(value) and value.__module__.startswith("calibrant"):
                assert id(value) in reachable, f"{name} returns {word}, which no public module exports"
