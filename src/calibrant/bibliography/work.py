"""One work of the literature: what is known of it, as a BibTeX entry and as a line of text.

Names and titles are stored as they are printed, in Unicode, titles in the case of a sentence; BibTeX is written in
ASCII (`latex`). What is not certain is left out. Pages of NeurIPS are those that its proceedings give.
"""

from __future__ import annotations

from dataclasses import dataclass

from calibrant.bibliography.latex import protected, tex

VENUE = {
    "article": "journal",
    "inproceedings": "booktitle",
    "incollection": "booktitle",
    "book": "publisher",
    "phdthesis": "school",
    "techreport": "institution",
    "misc": "howpublished",
}
"""The kinds of works, and what BibTeX calls the place where one of the kind appeared."""
MOST_NAMED = 6
"""Authors that a line of text names; of more the first."""


@dataclass(frozen=True)
class Work:
    """An article, a paper in proceedings, a book, a thesis or a preprint."""

    key: str
    """What BibTeX cites it by: surname, year, first word of the title."""
    kind: str
    """One of `VENUE`."""
    authors: str
    """All of them, as BibTeX wants it: "Gneiting, Tilmann and Raftery, Adrian E."."""
    title: str
    venue: str
    """The journal, the proceedings, the publisher of a book, the school of a thesis."""
    year: int
    volume: str = ""
    number: str = ""
    pages: str = ""
    """From-to with one hyphen, or the number of the article."""
    series: str = ""
    publisher: str = ""
    """Of a collection."""
    edition: str = ""
    doi: str = ""
    arxiv: str = ""
    formula: str = ""
    """The title in LaTeX where it holds mathematics."""

    @property
    def surnames(self) -> tuple[str, ...]:
        """Of all authors, in order."""
        return tuple(author.partition(",")[0] for author in self.authors.split(" and "))

    @property
    def url(self) -> str:
        """Where it can be found, by its DOI or its number at arXiv; nothing where neither is known."""
        if self.doi:
            return f"https://doi.org/{self.doi}"
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else ""

    def bibtex(self) -> str:
        """The entry, in ASCII; capitals that styles must keep stand in braces."""
        known = (
            ("author", tex(self.authors)),
            ("title", self.formula or protected(self.title)),
            (VENUE[self.kind], f"arXiv:{self.arxiv}" if self.kind == "misc" else tex(self.venue)),
            ("publisher", tex(self.publisher)),
            ("year", str(self.year)),
            ("series", tex(self.series)),
            ("volume", self.volume),
            ("number", self.number.replace("-", "--")),
            ("pages", self.pages.replace("-", "--")),
            ("edition", self.edition),
            ("doi", self.doi),
            ("eprint", self.arxiv),
            ("archiveprefix", "arXiv" if self.arxiv else ""),
        )
        fields = ",\n".join(f"  {name} = {{{text}}}" for name, text in known if text)
        return f"@{self.kind}{{{self.key},\n{fields}\n}}"

    def text(self) -> str:
        """One line: authors (year), title, where."""
        end = f", doi:{self.doi}" if self.doi else f", arXiv {self.arxiv}" if self.arxiv else ""
        return f"{self._named()} ({self.year}), {self.title}{self._where()}{end}"

    def _named(self) -> str:
        names = self.surnames
        if len(names) > MOST_NAMED:
            return f"{names[0]} et al."
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} & {names[-1]}"

    def _where(self) -> str:
        if self.kind == "misc":
            return ""
        edition = f"{self.edition} edition, " if self.edition else "PhD thesis, " * (self.kind == "phdthesis")
        volume = f", {self.series}" if self.series else ""
        volume += f" {self.volume}" if self.volume else ""
        volume += f"({self.number})" if self.number else ""
        return f", {edition}{self.venue}{volume}" + (f": {self.pages}" if self.pages else "")
