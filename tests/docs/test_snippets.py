"""README and docs are run as they are read: Python blocks, commands with what they print, files, links.

Within a page blocks share one namespace and one folder, in order. A block with a title, such as csv title="a.csv", is
written as a file; json title="x.json" must be part of the file x.json that an earlier block made; text title="output"
must be part of what the Python block before it printed. A line "…" stands for lines left out.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import calibrant
from calibrant.cli.main import app
from calibrant.predictions.base import RESERVED
from calibrant.registry import metrics

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TOURS = (
    "README.md", "index.md", "guide.md", "getting-predictions-in.md", "conventions.md", "theory.md",
    "adding-a-metric.md", "checks.md", "recalibration.md", "adding-a-recalibrator.md", "gates.md", "comparison.md",
    "pitfalls.md",
)  # fmt: skip
STRANGERS = (
    "sklearn", "torch", "torchmetrics", "netcal", "scoringrules", "uncertainty_toolbox", "arviz_base", "pyarrow",
    "safetensors", "pandas", "relplot", "probmetrics", "calibration",
)  # fmt: skip
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\((?!https?://|mailto:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")


def named(page: Path) -> str:
    """The page as tests are called by it."""
    return page.name


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its title, its text, and the line before its first."""

    language: str
    title: str
    body: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        info = match["info"].strip()
        title = re.search(r'title="([^"]*)"', info)
        language = info.split()[0] if info else ""
        line = text.count("\n", 0, match.start("body"))
        yield Block(language, title[1] if title else "", match["body"], line)


def told_in_order(told: str, said: str) -> str | None:
    """The first line of `told` that does not follow in `said`, or None; "…" stands for lines left out."""
    lines = iter(said.splitlines())
    for wanted in filter(None, (line.rstrip() for line in told.splitlines())):
        if wanted.strip() != "…" and not any(alike(wanted, line) for line in lines):
            return wanted
    return None


def alike(told: str, said: str) -> bool:
    """Equal words, and numbers equal to 2 % or half a thousandth: another processor rounds otherwise."""
    pairs = list(zip_longest(told.split(), said.split()))
    return all(a == b or (a is not None and b is not None and close(a, b)) for a, b in pairs)


def close(a: str, b: str) -> bool:
    try:
        x, y = (float(word.strip("(),;=").replace("−", "-")) for word in (a, b))
    except ValueError:
        return False
    return math.isclose(x, y, rel_tol=0.02, abs_tol=5e-4)


def part_of(part: Any, whole: Any) -> bool:
    """Whether a trimmed piece of JSON is in the whole: some keys of an object, the first items of a list."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and part_of(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) <= len(whole) and all(map(part_of, part, whole))
    if isinstance(part, float) and isinstance(whole, float):
        return math.isclose(part, whole, rel_tol=0.02, abs_tol=5e-4)
    return bool(part == whole)


@dataclass
class Tour:
    """One page on its way: what its blocks have defined, and what the last of them has printed."""

    page: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str = ""

    def expect(self, block: Block) -> None:
        """Run, write or compare one block."""
        does: Callable[[Block], None] | None = {"python": self.run, "console": self.command}.get(block.language)
        if does is None and block.title:
            known = {"output": self.compare, ".json": self.compare_json}
            does = known.get(Path(block.title).suffix or block.title, self.write)
        if does is not None:
            does(block)

    def run(self, block: Block) -> None:
        """Execute Python, keeping what it prints."""
        code = compile("\n" * block.line + block.body, str(self.page), "exec")
        with redirect_stdout(StringIO()) as out:
            exec(code, self.names)  # noqa: S102
        self.printed = out.getvalue()

    def command(self, block: Block) -> None:
        """Run each `$ calibrant …`; the lines after it must stand in its output, its exit code below `$ echo $?`."""
        parts = [part.partition("\n") for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]]
        for (line, _, told), (after, _, code) in zip_longest(parts, parts[1:], fillvalue=("", "", "")):
            if not line.startswith("calibrant"):
                continue
            expected = int(code) if after == "echo $?" else 0
            result = CliRunner().invoke(app, shlex.split(line)[1:], prog_name="calibrant")
            where = f"{self.page.name}, line {block.line + 1}: {line}"
            assert result.exit_code == expected, f"{where}: {result.output}{result.exception}"
            missing = told_in_order(told, result.output)
            assert missing is None, f"{where} does not print\n{missing}\nbut\n{result.output}"

    def write(self, block: Block) -> None:
        """Write the block as a file."""
        Path(block.title).write_text(block.body, encoding="utf-8")

    def compare(self, block: Block) -> None:
        """What was told must have been printed."""
        missing = told_in_order(block.body, self.printed)
        assert missing is None, f"{self.page.name}, line {block.line}: not printed\n{missing}\nbut\n{self.printed}"

    def compare_json(self, block: Block) -> None:
        """What was told must stand in the file."""
        whole = json.loads(Path(block.title).read_text(encoding="utf-8"))
        assert part_of(json.loads(block.body), whole), f"{self.page.name}, line {block.line}: not in {block.title}"


def shows_something(page: Path) -> bool:
    """Whether a page has blocks that can be run."""
    return any(block.language in ("python", "console") for block in blocks(page))


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


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = page if not match["path"] else page.parent / match["path"]
        assert target.exists(), f"{page.name} links to {match['path']}"
        if match["anchor"] and target.suffix == ".md":
            assert match["anchor"] in anchors(target), f"{page.name} links to {match[0]}"


# ---------------------------------------------------------------------------- docs against the code
def options_of(command: Any) -> set[str]:
    """The long options of a command and of those under it, --help aside."""
    own = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    return own.union(*map(options_of, getattr(command, "commands", {}).values())) - {"--help"}


COMPLETION = {"--install-completion", "--show-completion"}


def test_guide_and_program_know_the_same_options() -> None:
    text = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) == options_of(get_command(app)) - COMPLETION


def test_guide_tells_every_key_that_is_read() -> None:
    text = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    assert {key for key in RESERVED if f"`{key}`" in text} == set(RESERVED)


def test_api_page_shows_every_public_name() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^::: calibrant\.(\w+)$", text, re.MULTILINE))
    assert shown == set(calibrant.__all__) - {"__version__"}
