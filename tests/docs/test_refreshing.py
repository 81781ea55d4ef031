"""scripts/refresh_docs.py: what a page shows becomes what is printed, and what it leaves out stays left out."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from docs.pages import ROOT, blocks, told_in_order

SAID = """Well calibrated
  · right in 98.0 % of rows
  ✓ a point that goes on
    in a second line

name · 10 rows
metric   value    95 % interval
───────  ─────  ───────────────  ───
acc ↑     0.98     0.96 to 0.99  ─┃─
nll ↓     0.07     0.04 to 0.16  ┃──

skipped: roc_auc
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("refresh_docs", ROOT / "scripts" / "refresh_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_shown_lines_are_found_by_their_words_and_gaps_are_marked(script: ModuleType) -> None:
    lost: list[str] = []
    told = "name · 10 rows\nmetric  value\n─────  ────\nnll ↓    0.05\n…\nskipped: roc_auc, ce\nnote: gone\n"
    now = script.refreshed(told, SAID, lost)
    assert now.splitlines() == [
        "Well calibrated", "…", "name · 10 rows", "metric   value    95 % interval",
        "───────  ─────  ───────────────  ───", "…", "nll ↓     0.07     0.04 to 0.16  ┃──", "…",
    ]  # fmt: skip
    assert lost == ["skipped: roc_auc, ce", "note: gone"]
    assert told_in_order(now, SAID) is None
    assert script.refreshed(now, SAID, lost) == now


def test_what_still_holds_is_left_alone(script: ModuleType) -> None:
    lost: list[str] = []
    told = "nll ↓     0.07     0.04 to 0.16  ┃──\n"
    assert script.refreshed(told, SAID, lost) == told
    redrawn = script.refreshed(told.replace("┃──", "─┃─"), SAID, lost)
    assert told.strip() in redrawn.splitlines()
    assert lost == []


def test_a_point_that_moved_comes_with_all_of_its_lines(script: ModuleType) -> None:
    lost: list[str] = []
    now = script.refreshed("acc ↑  0.5\n…\na point that goes elsewhere\n", SAID, lost)
    assert now.splitlines()[:4] == ["Well calibrated", "…", "  ✓ a point that goes on", "    in a second line"]
    assert not lost


def test_a_page_is_rewritten_in_its_place(script: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    before = "# A page\n\n```python\nprint('a 1')\nprint('b 2')\n```\n\n```text title=\"output\"\na 7\n…\n```\n\n"
    page.write_text(
        before + "```console\n$ make\n$ calibrant --version\ncalibrant 9\n```\n\nThe end.\n", encoding="utf-8"
    )
    assert script.refresh(page) == (True, [])
    output, console = [block.body for block in blocks(page)][1:]
    assert output == "a 1\n…\n"
    assert console.startswith("$ make\n$ calibrant --version\ncalibrant 0")
    assert page.read_text(encoding="utf-8").endswith("```\n\nThe end.\n")
    assert script.refresh(page) == (False, [])
