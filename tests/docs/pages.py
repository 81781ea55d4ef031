"""Pages of README and docs as they are read: their blocks, what these do, and whether what is told is what is said.

Within a page blocks share one namespace and one folder, in order. A block with a title, such as csv title="a.csv", is
written as a file; json title="x.json" must be part of the file x.json that an earlier block made; text title="output"
must be part of what the Python block before it printed. A line "…" stands for lines left out.
"""

from __future__ import annotations

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
from typing import Any

from typer.testing import CliRunner

from calibrant.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its title, its text, the line before its first, and where its text stands."""

    language: str
    title: str
    body: str
    line: int
    place: tuple[int, int]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        info = match["info"].strip()
        title = re.search(r'title="([^"]*)"', info)
        language = info.split()[0] if info else ""
        line = text.count("\n", 0, match.start("body"))
        yield Block(language, title[1] if title else "", match["body"], line, match.span("body"))


def told_in_order(told: str, said: str) -> str | None:
    """The first line of `told` that does not follow in `said`, or None; "…" stands for lines left out."""
    lines = iter(said.splitlines())
    for wanted in filter(None, (line.rstrip() for line in told.splitlines())):
        if wanted.strip() != "…" and not any(alike(wanted, line) for line in lines):
            return wanted
    return None


def alike(told: str, said: str) -> bool:
    """Equal words, and numbers equal to 2 % or half a thousandth: another processor rounds and draws otherwise."""
    pairs = list(zip_longest(_without_bar(told).split(), _without_bar(said).split()))
    return all(a == b or (a is not None and b is not None and close(a, b)) for a, b in pairs)


def _without_bar(line: str) -> str:
    """A row of a table without its bar; that there is one is all that counts."""
    return re.sub(r"[─░▒┃█┊ ]*[┃█][─░▒┃█┊ ]*$", " bar", line)


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
        for line, told, said in self.commands(block):
            missing = None if said is None else told_in_order(told, said)
            where = f"{self.page.name}, line {block.line + 1}: {line}"
            assert missing is None, f"{where} does not print\n{missing}\nbut\n{said}"

    def commands(self, block: Block) -> Iterator[tuple[str, str, str | None]]:
        """Every command line of a block, what is told of it, and what it says: None of what is not run."""
        parts = [part.partition("\n") for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]]
        for (line, _, told), (after, _, code) in zip_longest(parts, parts[1:], fillvalue=("", "", "")):
            if not line.startswith("calibrant"):
                yield line, told, None
                continue
            expected = int(code) if after == "echo $?" else 0
            result = CliRunner().invoke(app, shlex.split(line)[1:], prog_name="calibrant")
            where = f"{self.page.name}, line {block.line + 1}: {line}"
            assert result.exit_code == expected, f"{where}: {result.output}{result.exception}"
            yield line, told, result.output

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
