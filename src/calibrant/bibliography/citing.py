"""Which works a text names: "Widmann, Lindsten & Zachariah (2019), NeurIPS 32; (2021), ICLR 9" names two.

A citation is surnames and a year: "Gneiting & Raftery (2007)", "Ashukha et al. (2020), section 2.3", "(Cox 1958)",
"Hall's (1992)", "(2019, 2021)" for two works of the same authors. It names the work of that year whose authors are
these, all of them or the first ones before "et al."; a single surname may also stand for a work of several authors. Of
several such works the one is meant whose title, venue or pages follow in the text, and none where that leaves a doubt.
Accents do not matter. Texts may come from anywhere: nothing of them is returned but what `unknown` quotes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from calibrant.bibliography.venues import SHORT
from calibrant.bibliography.work import Work
from calibrant.bibliography.works import WORKS
from calibrant.errors import plain

LONGEST = 20_000
"""Characters of a text that are looked at."""
LETTERS = str.maketrans({"ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "ß": "ss", "–": "-", "’": "'"})
WORD = r"[A-Z][\w'-]*+"
PARTICLE = r"(?:[Vv]an|[Vv]on|[Dd]er|[Dd]en|[Dd]e|[Dd]i|[Dd]u|[Ll]a) "
NAME = rf"(?:{PARTICLE}){{0,2}}{WORD}(?: {WORD}){{0,2}}"
NAMES = rf"(?<![\w'-]){NAME}(?:, {NAME}){{0,11}}(?:,? (?:&|and) {NAME}|,? et al\.)?"
YEARS = r"(?:1[89]|20)\d\d[a-z]?(?:, (?:1[89]|20)\d\d[a-z]?){0,9}(?![\w:-]|\.\d)"
CITATION = re.compile(rf"(?P<names>{NAMES}),? (?P<open>\()?(?P<years>{YEARS})|(?:[;,]|and) \((?P<again>{YEARS})")
VENUES = frozenset(name for names in SHORT.values() for name in names)
SAID = 4
"""Words of a title that name it."""


class Citation(NamedTuple):
    """Surnames, whether there are more of them, a year, and the text up to the next citation."""

    names: tuple[str, ...]
    more: bool
    year: int
    rest: str


def cited(texts: Iterable[str], works: Iterable[Work] = WORKS) -> tuple[Work, ...]:
    """The works that texts name, in the order of first mention, each once."""
    years = _by_year(works)
    found = (_named(citation, years) for text in texts for citation in _citations(text))
    return tuple(dict.fromkeys(work for work in found if work is not None))


def unknown(texts: Iterable[str], works: Iterable[Work] = WORKS) -> tuple[str, ...]:
    """What texts cite that is none of the works, or might be several of them: "Surnames (year)", each once."""
    years = _by_year(works)
    lacking = (one for text in texts for one in _citations(text) if _named(one, years) is None)
    return tuple(dict.fromkeys(f"{' & '.join(one.names)}{' et al.' * one.more} ({one.year})" for one in lacking))


# --------------------------------------------------------------------------------------------- reading
def _folded(text: str) -> str:
    """On one line, without accents."""
    known = unicodedata.normalize("NFD", " ".join(plain(text, LONGEST).split()))
    return "".join(c for c in known if not unicodedata.combining(c)).translate(LETTERS)


def _citations(text: str) -> Iterator[Citation]:
    """What a text cites, in order."""
    line = _folded(text)
    found = [match for match in CITATION.finditer(line) if _meant(match, line)]
    names: tuple[str, ...] = ()
    more = False
    for match, following in zip_longest(found, found[1:]):
        if match["names"]:
            more = match["names"].endswith(" et al.")
            names = tuple(map(_surname, re.split(r",? (?:&|and) |, ", match["names"].removesuffix(" et al."))))
        for year in re.findall(r"\d{4}", match["years"] or match["again"]) if names else ():
            yield Citation(names, more, int(year), line[match.end() : following.start() if following else None])


def _meant(match: re.Match[str], line: str) -> bool:
    """Whether a year without a bracket of its own is one: after several names, or a name that begins a clause."""
    if match["open"] or match["again"]:
        return True
    if " & " in match["names"] or match["names"].endswith(" et al."):
        return True
    clause = line[max(match.start() - 2, 0) : match.start()].rstrip()[-1:] in ("(", ";", ":", ",")
    return clause and not match["names"].isupper() and match["names"] not in VENUES


def _surname(text: str) -> str:
    return text.rstrip(",").removesuffix("'s")


# --------------------------------------------------------------------------------------------- finding
def _by_year(works: Iterable[Work]) -> dict[int, list[Work]]:
    out: dict[int, list[Work]] = {}
    for work in works:
        out.setdefault(work.year, []).append(work)
    return out


def _named(citation: Citation, years: dict[int, list[Work]]) -> Work | None:
    """The one work that a citation can mean; words before a first surname, as in "After Cox", are passed over."""
    first = citation.names[0].split(" ")
    for k in range(len(first)):
        names = [name.casefold() for name in (" ".join(first[k:]), *citation.names[1:])]
        meant = [work for work in years.get(citation.year, []) if _written_by(work, names, citation.more)]
        alone = [work for work in meant if len(work.surnames) == len(names)]
        meant = alone or meant
        if len(meant) > 1:
            meant = [work for work in meant if _described(work, citation.rest)]
        if len(meant) > 1:  # in one volume
            meant = [work for work in meant if _described(work, citation.rest, venue=False)]
        if len(meant) == 1:
            return meant[0]
    return None


def _written_by(work: Work, names: list[str], more: bool) -> bool:
    known = [_folded(name).casefold() for name in work.surnames]
    if more or len(names) == 1:
        return known[: len(names)] == names and len(known) >= len(names) + more
    return known == names


def _described(work: Work, rest: str, venue: bool = True) -> bool:
    """Whether the text behind a citation says the title, the venue, the pages or the number of the work."""
    said = rest.casefold()
    title = " ".join(_folded(work.title).casefold().split(" ")[:SAID])
    marks = [title]
    if venue:
        marks += [_folded(name).casefold() for name in (work.venue, *SHORT.get(work.venue, ()))]
    marks += [mark.casefold() for mark in (work.pages, work.doi, work.arxiv) if mark]
    return any(re.search(rf"(?<!\w){re.escape(mark)}(?!\w)", said) for mark in marks)
