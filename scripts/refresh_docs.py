"""Update the outputs that README and docs quote: run the snippets as the tests do, and rewrite what they print.

`python scripts/refresh_docs.py` refreshes every page, `python scripts/refresh_docs.py README.md docs/guide.md` some of
them. An output that its command still prints is left alone. In any other, each quoted line is searched in the new
output by its first words and replaced; the first line of the new output is always shown, points of a verdict are shown
whole with the headline, the rule of a table comes with its title and heading, and "…" marks omitted lines. Quoted lines
that are no longer printed are listed for you to deal with. JSON is not rewritten: the test reports differences.

Run it in the environment of `make test`, and read the difference before you commit it.
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
"""How a point of a verdict begins."""
WRAPPED = re.compile(r"  [^ ✓!✗·]")
"""How the second line of a note begins."""
RULE = re.compile(r"[─ ]+")


def key(line: str) -> tuple[str, ...]:
    """The words that a line begins with, up to its first number; a line that begins with a number, that number."""
    if RULE.fullmatch(line):
        return ("─",)
    words = BULLET.sub("", line).split()
    place = next((k for k, word in enumerate(words) if NUMBER.fullmatch(word)), len(words))
    return tuple(words[: max(place, 1)][:4])


def refreshed(quoted: str, printed: str, lost: list[str]) -> str:
    """Return the new text of a quoted output; lines that are no longer printed are added to `lost`."""
    lines = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
    bars = [line.rstrip() for line in quoted.splitlines() if set(line) & set("┃█")]
    if told_in_order(quoted, printed) is None and set(bars) <= set(lines):  # the test accepts other bars
        return quoted
    places: set[int] = set()
    start = 0
    for line in (line.rstrip() for line in quoted.splitlines()):
        if not line or line.strip() == LEFT_OUT:
            continue
        found = next((k for k in range(start, len(lines)) if lines[k] and key(lines[k]) == key(line)), None)
        if found is not None:
            start = found + 1
        else:  # points of a verdict change places
            points = (k for k in range(len(lines)) if k == 0 or BULLET.match(lines[k]))
            found = next((k for k in points if key(lines[k]) == key(line)), None)
        if found is not None:
            places |= _whole(lines, found)
        elif not line.startswith("  "):  # else it continues the line before it
            lost.append(line)
    if not places:
        return "\n".join(lines) + "\n"
    out, before = [], -1
    for place in sorted({0, *places}):
        between = lines[before + 1 : place]
        if any(between):
            out.append(LEFT_OUT)
        elif between:
            out.append("")
        out.append(lines[place])
        before = place
    return "\n".join(out + [LEFT_OUT] * any(lines[before + 1 :])) + "\n"


def _whole(lines: list[str], place: int) -> set[int]:
    """The place of a line, with what belongs to it.

    That is the other lines of a point in a verdict and the headline, the title and heading of a table, or the rest of a
    note that is wrapped.
    """
    if RULE.fullmatch(lines[place]):
        return {place, place - 1, *([place - 2] if place > 1 and lines[place - 2] else [])}
    first = place
    while first > 0 and lines[first].startswith("    ") and not BULLET.match(lines[first]):
        first -= 1
    point = BULLET.match(lines[first]) is not None
    if not point:
        first = place
        while first > 0 and WRAPPED.match(lines[first]):
            first -= 1
        if ": " not in lines[first]:
            return {place}
    last, headline = first, first
    while last + 1 < len(lines) and (lines[last + 1].startswith("    ") if point else WRAPPED.match(lines[last + 1])):
        last += 1
    while headline > 0 and lines[headline].startswith("  "):
        headline -= 1
    return {headline, *range(first, last + 1)}


class Refresher(Tour):
    """A tour that collects what outputs should be instead of comparing them."""

    def __init__(self, page: Path) -> None:
        """Start without new outputs."""
        super().__init__(page)
        self.new: list[tuple[Block, str]] = []
        self.lost: list[str] = []

    def command(self, block: Block) -> None:
        """Run the commands, and collect what they print."""
        parts = []
        for line, quoted, printed in self.commands(block):
            new = refreshed(quoted, printed, self.lost) if quoted and printed is not None else quoted
            parts.append(f"$ {line}\n{new}")
        self.new.append((block, "".join(parts)))

    def compare(self, block: Block) -> None:
        """Collect what was printed."""
        self.new.append((block, refreshed(block.body, self.printed, self.lost)))

    def compare_json(self, block: Block) -> None:
        """Leave JSON alone."""


def refresh(page: Path) -> tuple[bool, list[str]]:
    """Rewrite a page; return whether it changed, and the lines that are no longer printed."""
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
    """Refresh the given pages, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("pages", nargs="*", type=Path, help="pages to refresh; all by default")
    pages = parser.parse_args(arguments).pages or list(filter(shows_something, PAGES))
    for page in pages:
        changed, lost = refresh(page.resolve())
        print(f"{page}: {'refreshed' if changed else 'up to date'}")
        for line in lost:
            print(f"  no longer printed: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
