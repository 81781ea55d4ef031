"""Works of the literature, read from `references.bib`, and the matching of citations in free text to them.

`parse` reads a strict subset of BibTeX, described at the top of that file, and refuses everything else. A `Work` keeps
its entry as written, for `bibtex`, and its fields in Unicode, for lines of text and for matching citations.

"Widmann, Lindsten & Zachariah (2019), NeurIPS 32; (2021), ICLR 9" cites two works. A citation is surnames and a year:
"Gneiting & Raftery (2007)", "Ashukha et al. (2020), section 2.3", "(Cox 1958)", "Hall's (1992)", or "(2019, 2021)" for
two works of the same authors. It names the work of that year by exactly these authors, by these first authors if "et
al." follows, or with this first author if only one surname is given. If several works match, the title, venue, pages or
identifier in the text that follows decides; if that leaves a doubt, none is chosen. Accents are ignored. The texts may
be untrusted: only known works are returned, and `unknown_citations` returns cleaned names and years.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from calibrant.errors import FileError, plain, show

PATH = Path(__file__).with_name("references.bib")
VENUE_FIELDS = {
    "article": "journal", "inproceedings": "booktitle", "incollection": "booktitle", "book": "publisher",
    "phdthesis": "school", "techreport": "institution", "misc": "howpublished",
}  # fmt: skip
"""Entry type -> the field that names the venue."""
FIELDS = {
    "author", "title", "year", "series", "volume", "number", "pages", "publisher", "edition", "doi", "eprint",
    "archiveprefix", *VENUE_FIELDS.values(),
}  # fmt: skip
MAX_AUTHORS = 6
"""Authors listed in a line of text; with more of them, the first author and "et al."."""

BRACED = r"(?:[^{}\n]|\{(?:[^{}\n]|\{(?:[^{}\n]|\{[^{}\n]*\})*\})*\})+"
FIELD = rf"  (\w+) = \{{({BRACED})\}}"
ENTRY = re.compile(rf"@(\w+)\{{([^\s,{{}}]+),\n({FIELD}(?:,\n{FIELD})*)\n\}}")
ACCENTS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", "=": "\u0304", "u": "\u0306", ".": "\u0307",
    '"': "\u0308", "r": "\u030a", "H": "\u030b", "v": "\u030c", "c": "\u0327", "k": "\u0328",
}  # fmt: skip
"""LaTeX accent command -> combining character."""
ACCENTED = re.compile(r"\{\\(?:([`'^~=.\"])\\?([A-Za-z])|([urHvck])\{\\?([A-Za-z])\})\}")
SYMBOLS = {
    r"{\l}": "ł", r"{\L}": "Ł", r"{\o}": "ø", r"{\O}": "Ø", r"{\ss}": "ß", r"{\ae}": "æ", r"{\AE}": "Æ",
    r"{\oe}": "œ", r"{\OE}": "Œ", r"{\i}": "ı", r"\&": "&", r"\%": "%", r"\#": "#", r"\_": "_",
    "---": "—", "--": "–", "``": "“", "''": "”",
}  # fmt: skip
MATH_SYMBOLS = {r"\exp": "exp", r"\mathrm": "", r"\leq": "≤", r"\infty": "∞", r"\,": " ", "^2": "²", "_": ""}
"""Commands that are understood between dollar signs."""


@dataclass(frozen=True)
class Work:
    """An article, conference paper, book, thesis or preprint; text fields are in Unicode, and empty if unknown."""

    entry: str
    """The BibTeX entry as written in the file."""
    key: str
    kind: str
    """The entry type, one of `VENUE_FIELDS`."""
    authors: str
    """In the form of BibTeX: "Gneiting, Tilmann and Raftery, Adrian E."."""
    title: str
    venue: str
    """Journal, proceedings, publisher of a book, school of a thesis, or "arXiv"."""
    year: int
    series: str
    volume: str
    number: str
    pages: str
    """A range with one hyphen, or an article number."""
    edition: str
    doi: str
    arxiv: str

    @property
    def surnames(self) -> tuple[str, ...]:
        return tuple(author.partition(",")[0] for author in self.authors.split(" and "))

    @property
    def url(self) -> str:
        """The address of its DOI or arXiv page, or an empty string."""
        if self.doi:
            return f"https://doi.org/{self.doi}"
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else ""

    def text(self) -> str:
        """One line of text: authors (year), title, venue, identifier."""
        names = self.surnames
        authors = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} & {names[-1]}"
        line = f"{authors if len(names) <= MAX_AUTHORS else f'{names[0]} et al.'} ({self.year}), {self.title}"
        if self.kind != "misc":
            line += f", {self.edition} edition" * bool(self.edition) + ", PhD thesis" * (self.kind == "phdthesis")
            line += f", {self.venue}" + f", {self.series}" * bool(self.series) + f" {self.volume}" * bool(self.volume)
            line += f"({self.number})" * bool(self.number) + f": {self.pages}" * bool(self.pages)
        if self.doi:
            return f"{line}, doi:{self.doi}"
        return f"{line}, arXiv {self.arxiv}" if self.arxiv else line


@cache
def works() -> tuple[Work, ...]:
    """All works of `references.bib`, sorted by key."""
    return parse(PATH.read_text(encoding="utf-8"), PATH.name)


def bibtex(works: Iterable[Work]) -> str:
    """BibTeX entries of works, separated by blank lines."""
    return "\n\n".join(work.entry for work in works)


def parse(text: str, name: str) -> tuple[Work, ...]:
    """Read the works of the BibTeX file `name`, sorted by key; a `FileError` names the first malformed entry."""
    found: dict[str, Work] = {}
    for block in re.split(r"\n\s*\n", text.strip()):
        if all(line.startswith("%") for line in block.splitlines()):
            continue
        entry = ENTRY.fullmatch(block)
        kind, key = entry.group(1, 2) if entry else ("", "")
        fields = dict(re.findall(FIELD, block))
        required = ("author", "title", "year", VENUE_FIELDS.get(kind, ""))
        expected = ""
        if entry is None:
            expected = "'@type{key,', then one '  name = {value}' per line with commas between, then '}'"
        elif kind not in VENUE_FIELDS:
            expected = f"one of the types {', '.join(VENUE_FIELDS)}"
        elif key in found:
            expected = "every key once"
        elif not set(required) <= set(fields) <= FIELDS or block.count("\n") != len(fields) + 1:
            expected = f"the fields {', '.join(required)} and others of {', '.join(sorted(FIELDS))}, each once"
        elif not fields["year"].isdecimal():
            expected = "a year in digits"
        values = {field: _unicode(latex) for field, latex in fields.items()}
        if not block.isascii() or any("\\" in value or "$" in value for value in values.values()):
            expected = expected or r"ASCII with LaTeX accents such as {\"o}, {\v{s}} or {\l}"
        if expected:
            raise FileError(name, expected=expected, got=show(block), hint="see the top of references.bib")
        found[key] = Work(
            entry=block, key=key, kind=kind, authors=values["author"], year=int(values["year"]),
            venue="arXiv" if kind == "misc" else values[VENUE_FIELDS[kind]], arxiv=values.get("eprint", ""),
            **{field: values.get(field, "") for field in ("title", "series", "volume", "edition", "doi")},
            **{field: values.get(field, "").replace("–", "-") for field in ("number", "pages")},
        )  # fmt: skip
    return tuple(found[key] for key in sorted(found))


def _unicode(latex: str) -> str:
    """A LaTeX value in Unicode, without the braces that protect capitals; unknown commands stay."""
    out = re.sub(r"\$[^$]*\$", lambda math: _replace_all(math[0].strip("$"), MATH_SYMBOLS), latex)
    out = ACCENTED.sub(lambda m: unicodedata.normalize("NFC", (m[2] or m[4]) + ACCENTS[m[1] or m[3]]), out)
    return _replace_all(out, SYMBOLS).replace("{", "").replace("}", "")


def _replace_all(text: str, replacements: dict[str, str]) -> str:
    for old, new in replacements.items():
        text = text.replace(old, new)
    return text


# -------------------------------------------------------------------------------------- citations
VENUE_ABBREVIATIONS = {
    "Advances in Neural Information Processing Systems": ("NeurIPS",),
    "Conference on Uncertainty in Artificial Intelligence": ("UAI",),
    "European Conference on Computer Vision": ("ECCV",),
    "IEEE Conference on Computer Vision and Pattern Recognition": ("CVPR",),
    "IEEE International Conference on Computer Vision": ("ICCV",),
    "International Conference on Artificial Intelligence and Statistics": ("AISTATS",),
    "International Conference on Learning Representations": ("ICLR",),
    "International Conference on Machine Learning": ("ICML",),
    "Journal of Machine Learning Research": ("JMLR",),
    "Journal of the American Statistical Association": ("JASA",),
    "Journal of the Royal Statistical Society. Series A (General)": ("JRSS A", "J. R. Statist. Soc. A"),
    "Journal of the Royal Statistical Society: Series A (Statistics in Society)": ("JRSS A", "J. R. Statist. Soc. A"),
    "Journal of the Royal Statistical Society: Series B (Methodological)": ("JRSS B", "J. R. Statist. Soc. B"),
    "Journal of the Royal Statistical Society: Series B (Statistical Methodology)": ("JRSS B", "J. R. Statist. Soc. B"),
    "Quarterly Journal of the Royal Meteorological Society": ("QJRMS",),
}
ABBREVIATIONS = frozenset(name for names in VENUE_ABBREVIATIONS.values() for name in names)
MAX_CHARACTERS = 20_000
"""Longer texts are cut."""
TITLE_WORDS = 4
"""First words of a title that identify it."""

PLAIN_LETTERS = str.maketrans({"ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "ß": "ss", "–": "-", "’": "'"})
WORD = r"[A-Z][\w'-]*+"
PARTICLE = r"(?:[Vv]an|[Vv]on|[Dd]er|[Dd]en|[Dd]e|[Dd]i|[Dd]u|[Ll]a) "
NAME = rf"(?:{PARTICLE}){{0,2}}{WORD}(?: {WORD}){{0,2}}"
NAMES = rf"(?<![\w'-]){NAME}(?:, {NAME}){{0,11}}(?:,? (?:&|and) {NAME}|,? et al\.)?"
YEARS = r"(?:1[89]|20)\d\d[a-z]?(?:, (?:1[89]|20)\d\d[a-z]?){0,9}(?![\w:-]|\.\d)"
CITATION = re.compile(rf"(?P<names>{NAMES}),? (?P<open>\()?(?P<years>{YEARS})|(?:[;,]|and) \((?P<again>{YEARS})")


class Citation(NamedTuple):
    surnames: tuple[str, ...]
    et_al: bool
    year: int
    context: str
    """The text up to the next citation."""


def cited_works(texts: Iterable[str], among: Iterable[Work] | None = None) -> tuple[Work, ...]:
    """The works that texts cite, in order of first mention; `among` defaults to all works."""
    matches = [work for _, work in _matches(texts, among) if work is not None]
    return tuple(dict.fromkeys(matches))


def unknown_citations(texts: Iterable[str], among: Iterable[Work] | None = None) -> tuple[str, ...]:
    """Citations that match no work, or several, as "Surname & Surname (year)"."""
    unmatched = [citation for citation, work in _matches(texts, among) if work is None]
    return tuple(dict.fromkeys(f"{' & '.join(c.surnames)}{' et al.' * c.et_al} ({c.year})" for c in unmatched))


def _matches(texts: Iterable[str], among: Iterable[Work] | None) -> Iterator[tuple[Citation, Work | None]]:
    by_year: dict[int, list[Work]] = {}
    for work in works() if among is None else among:
        by_year.setdefault(work.year, []).append(work)
    for text in texts:
        for citation in _citations(text):
            yield citation, _match(citation, by_year.get(citation.year, []))


def _citations(text: str) -> Iterator[Citation]:
    line = _without_accents(text)
    matches = [match for match in CITATION.finditer(line) if _is_citation(match, line)]
    surnames: tuple[str, ...] = ()
    et_al = False
    for match, following in zip_longest(matches, matches[1:]):
        if match["names"]:
            et_al = match["names"].endswith(" et al.")
            names = re.split(r",? (?:&|and) |, ", match["names"].removesuffix(" et al."))
            surnames = tuple(name.rstrip(",").removesuffix("'s") for name in names)
        for year in re.findall(r"\d{4}", match["years"] or match["again"]) if surnames else ():
            yield Citation(surnames, et_al, int(year), line[match.end() : following.start() if following else None])


def _is_citation(match: re.Match[str], line: str) -> bool:
    """A year without its own bracket counts only after several names, or after a name that begins a clause."""
    names = match["names"]
    if match["open"] or match["again"] or " & " in names or names.endswith(" et al."):
        return True
    begins_clause = line[max(match.start() - 2, 0) : match.start()].rstrip()[-1:] in ("(", ";", ":", ",")
    return begins_clause and not names.isupper() and names not in ABBREVIATIONS


def _match(citation: Citation, candidates: list[Work]) -> Work | None:
    """The only work that a citation can mean; words before the first surname, as in "After Cox", are skipped."""
    first = citation.surnames[0].split(" ")
    for k in range(len(first)):
        names = [name.casefold() for name in (" ".join(first[k:]), *citation.surnames[1:])]
        matches = [work for work in candidates if _has_authors(work, names, citation.et_al)]
        matches = [work for work in matches if len(work.surnames) == len(names)] or matches
        if len(matches) > 1:
            matches = [work for work in matches if _is_described(work, citation.context)]
        if len(matches) > 1:  # in the same volume
            matches = [work for work in matches if _is_described(work, citation.context, by_venue=False)]
        if len(matches) == 1:
            return matches[0]
    return None


def _has_authors(work: Work, names: list[str], et_al: bool) -> bool:
    surnames = [_without_accents(name).casefold() for name in work.surnames]
    if et_al or len(names) == 1:
        return surnames[: len(names)] == names and len(surnames) >= len(names) + et_al
    return surnames == names


def _is_described(work: Work, context: str, by_venue: bool = True) -> bool:
    """Whether the text after a citation mentions the title, venue, pages or identifier of the work."""
    marks = [" ".join(work.title.split(" ")[:TITLE_WORDS]), work.pages, work.doi, work.arxiv]
    if by_venue:
        marks += [work.venue.removeprefix("The "), *VENUE_ABBREVIATIONS.get(work.venue, ())]
    patterns = [re.escape(_without_accents(mark).casefold()) for mark in marks if mark]
    return any(re.search(rf"(?<!\w){pattern}(?!\w)", context.casefold()) for pattern in patterns)


def _without_accents(text: str) -> str:
    """The text on one line, cut to `MAX_CHARACTERS`, without accents."""
    decomposed = unicodedata.normalize("NFD", " ".join(plain(text, MAX_CHARACTERS).split()))
    return "".join(c for c in decomposed if not unicodedata.combining(c)).translate(PLAIN_LETTERS)
