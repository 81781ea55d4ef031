"""Bring what README and docs show up to date: run their snippets as the tests do, and rewrite the outputs.

`python scripts/refresh_docs.py` refreshes every page, `python scripts/refresh_docs.py README.md docs/guide.md` some of
them. An output that still is what its command prints stays as it is. Of another, each line that is shown is looked for
in what is printed now, by the words that it begins with, and written as it is printed; the first line of what is
printed is shown too, and "…" stands wherever lines are left out. Lines that are no longer printed are listed: what they
were there for is for you to say. JSON is not rewritten: where it differs, the test says so.

Run it in an environment of `make test`, and read the difference before you commit it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from docs.pages import PAGES, Block, Tour, blocks, shows_something, told_in_order  # noqa: E402

LEFT_OUT = "…"
NUMBER = re.compile(r"[(\[]?[−+-]?\d[\d.,e−+%-]*[)\],;:]*")
BULLET = re.compile(r"  [✓!✗·] ")
"""What a point of a verdict begins with."""
RULE = re.compile(r"[─ ]+")


def key(line: str) -> tuple[str, ...]:
    """The words that a line begins with, up to its first number; a line that begins with one is told by it."""
    if RULE.fullmatch(line):
        return ("─",)
    words = BULLET.sub("", line).split()
    place = next((k for k, word in enumerate(words) if NUMBER.fullmatch(word)), len(words))
    return tuple(words[: max(place, 1)][:4])


def refreshed(told: str, said: str, lost: list[str]) -> str:
    """What is to be told now; lines that are found no longer go to `lost`."""
    lines = [line.rstrip() for line in said.rstrip("\n").splitlines()]
    bars = [line.rstrip() for line in told.splitlines() if set(line) & set("┃█")]
    if told_in_order(told, said) is None and set(bars) <= set(lines):  # the test lets bars be drawn otherwise
        return told
    places = _places(told, lines, lost)
    if not places:
        return "\n".join(lines) + "\n"
    return "\n".join(_with_gaps(lines, sorted({0, *places}), told)) + "\n"


def _places(told: str, lines: list[str], lost: list[str]) -> list[int]:
    """Where the lines that were told stand in what is said, in order."""
    places, start = [], 0
    for wanted in (line.rstrip() for line in told.splitlines()):
        if not wanted or wanted.strip() == LEFT_OUT:
            continue
        found = next((k for k in range(start, len(lines)) if lines[k] and key(lines[k]) == key(wanted)), None)
        if found is not None:
            places.append(found)
            start = found + 1
            continue
        moved = next((k for k in range(len(lines)) if _of_verdict(lines, k) and key(lines[k]) == key(wanted)), None)
        if moved is not None:
            places += _bullet(lines, moved)
        elif not wanted.startswith("  "):  # else it went on with the line before it
            lost.append(wanted)
    return places


def _of_verdict(lines: list[str], place: int) -> bool:
    return place == 0 or BULLET.match(lines[place]) is not None


def _bullet(lines: list[str], first: int) -> list[int]:
    """A point of a verdict, and the lines that go on with it."""
    last = first
    while last + 1 < len(lines) and lines[last + 1].startswith("    "):
        last += 1
    return list(range(first, last + 1))


def _with_gaps(lines: list[str], places: list[int], told: str) -> list[str]:
    """The lines at these places, blank ones between them as they are printed, and "…" where others are left out."""
    out, before = [], -1
    for place in places:
        between = lines[before + 1 : place]
        if any(between):
            out.append(LEFT_OUT)
        elif between:
            out.append("")
        out.append(lines[place])
        before = place
    more = any(lines[before + 1 :])
    return [*out, LEFT_OUT] if more else out


class Refresher(Tour):
    """A tour that does not complain of outputs, and keeps what they should be."""

    def __init__(self, page: Path) -> None:
        """Nothing is refreshed yet."""
        super().__init__(page)
        self.new: list[tuple[Block, str]] = []
        self.lost: list[str] = []

    def command(self, block: Block) -> None:
        """Run the commands, and write what they print below them."""
        parts = []
        for line, told, said in self.commands(block):
            now = told if said is None else refreshed(told, said, self.lost)
            parts.append(f"$ {line}\n{now if told else told}")
        self.new.append((block, "".join(parts)))

    def compare(self, block: Block) -> None:
        """Take what was printed."""
        self.new.append((block, refreshed(block.body, self.printed, self.lost)))

    def compare_json(self, block: Block) -> None:
        """Leave JSON alone."""


def refresh(page: Path) -> tuple[bool, list[str]]:
    """Rewrite a page; whether it changed, and the lines that were found no longer."""
    tour = Refresher(page)
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in blocks(page):
                tour.expect(block)
        finally:
            os.chdir(home)
    text = page.read_text(encoding="utf-8")
    new = text
    for block, body in reversed(tour.new):
        start, end = block.place
        new = new[:start] + body + new[end:]
    if new != text:
        page.write_text(new, encoding="utf-8")
    return new != text, tour.lost


def main(arguments: Sequence[str] | None = None) -> int:
    """Refresh the pages that are named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("pages", nargs="*", type=Path, help="pages to refresh; all without")
    pages = parser.parse_args(arguments).pages or list(filter(shows_something, PAGES))
    for page in pages:
        changed, lost = refresh(page.resolve())
        print(f"{page}: {'refreshed' if changed else 'up to date'}")
        for line in lost:
            print(f"  no longer printed: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
