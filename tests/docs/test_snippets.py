"""README and docs are run as they are read: Python blocks, commands with what they print, files, links."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from docs.pages import FENCE, PAGES, ROOT, Tour, blocks, part_of, shows_something, told_in_order
from typer.main import get_command

import calibrant
from calibrant.cli.main import app
from calibrant.predictions.arrays import RESERVED
from calibrant.registry.lookup import metrics

TOURS = (
    "README.md", "index.md", "report.md", "guide.md", "getting-predictions-in.md", "conventions.md", "theory.md",
    "adding-a-metric.md", "checks.md", "recalibration.md", "adding-a-recalibrator.md", "gates.md", "comparison.md",
    "pitfalls.md", "tutorial-csv.md", "tutorial-ensemble.md", "tutorial-llm.md", "training-loops.md",
    "evaluation-logs.md",
)  # fmt: skip
STRANGERS = (
    "sklearn", "torch", "torchmetrics", "netcal", "scoringrules", "uncertainty_toolbox", "arviz_base", "pyarrow",
    "safetensors", "pandas", "relplot", "probmetrics", "calibration",
)  # fmt: skip
LINK = re.compile(r"\[[^\]]+\]\((?!https?://|mailto:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")


def named(page: Path) -> str:
    """The page as tests are called by it."""
    return page.name


@pytest.mark.parametrize("page", list(filter(shows_something, PAGES)), ids=named)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in STRANGERS:
        if re.search(rf"^\s*(import|from) {library}\b", page.read_text(encoding="utf-8"), re.MULTILINE):
            pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    tour = Tour(page)
    for block in blocks(page):
        tour.expect(block)


def test_tours_show_something() -> None:
    assert set(TOURS) <= {page.name for page in PAGES if shows_something(page)}


def test_told_in_order_can_say_no() -> None:
    assert told_in_order("a\n…\nc\n", "a\nb\nc\n") is None
    assert told_in_order("c\na\n", "a\nb\nc\n") == "a"
    assert told_in_order("a b\n", "a c\n") == "a b"
    assert told_in_order("a 0.100\n", "a 0.104\n") == "a 0.100"
    assert told_in_order("a 0.1000\n", "a  0.1001\n") is None


def test_part_of_can_say_no() -> None:
    assert part_of({"a": [1.0]}, {"a": [1.0, 2.0], "b": None})
    assert not part_of({"a": [2.0]}, {"a": [1.0, 2.0]})
    assert not part_of({"c": None}, {"a": 1})


# ------------------------------------------------------------------------------- the metrics page
@pytest.fixture(scope="module")
def maker() -> ModuleType:
    """scripts/make_metric_pages.py as a module."""
    spec = importlib.util.spec_from_file_location("make_metric_pages", ROOT / "scripts" / "make_metric_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_metric_page_is_up_to_date(maker: ModuleType) -> None:
    assert maker.main(["--check"]) == 0


def test_stale_metric_page_is_noticed(maker: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "metrics.md"
    assert maker.main(["--check", "--out", str(page)]) == 1
    assert maker.main(["--out", str(page)]) == 0
    assert maker.main(["--check", "--out", str(page)]) == 0
    page.write_text(page.read_text(encoding="utf-8").replace("lower", "higher"), encoding="utf-8")
    assert maker.main(["--check", "--out", str(page)]) == 1


def test_every_metric_has_its_section(maker: ModuleType) -> None:
    titles = re.findall(r"^## (\S+)$", maker.page(), re.MULTILINE)
    assert titles == list(metrics())


# ------------------------------------------------------------------------------------------- links
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site makes them."""
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", head.replace("`", "")).strip().lower() for head in heads)
    return {re.sub(r"[-\s]+", "-", head) for head in plain}


def gallery() -> set[str]:
    """The pages that `make docs` writes, and that a fresh clone has not."""
    made = (ROOT / "scripts" / "make_gallery.py").read_text(encoding="utf-8").partition("\nPAGES")[2]
    return {f"gallery/{name}.html" for name in re.findall(r'^    "(\w+)": ', made, re.MULTILINE)}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = page if not match["path"] else page.parent / match["path"]
        assert target.exists() or match["path"] in gallery(), f"{page.name} links to {match['path']}"
        if match["anchor"] and target.suffix == ".md":
            assert match["anchor"] in anchors(target), f"{page.name} links to {match[0]}"


# ---------------------------------------------------------------------------- docs against the code
def options_of(command: Any) -> set[str]:
    """The long options of a command and of those under it, --help aside."""
    own = {
        name
        for parameter in command.params
        for name in parameter.opts
        if name.startswith("--") and not getattr(parameter, "hidden", False)
    }
    return own.union(*map(options_of, getattr(command, "commands", {}).values())) - {"--help"}


def test_guide_and_program_know_the_same_options() -> None:
    text = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) == options_of(get_command(app))


def test_guide_tells_every_key_that_is_read() -> None:
    text = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    assert {key for key in RESERVED if f"`{key}`" in text} == set(RESERVED)


def test_api_page_shows_every_public_name() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    shown = re.findall(r"^::: calibrant\.([\w.]+)$", text, re.MULTILINE)
    public = set(calibrant.__all__)
    assert {name for name in shown if "." not in name} == public
    for module in ("checks", "comparison"):
        functions = {name for name in getattr(calibrant, module).__all__ if name[0].islower()} - public
        assert {f"{module}.{name}" for name in functions} <= set(shown)
