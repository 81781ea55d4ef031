"""Works as BibTeX and as text, against a reader of BibTeX and against what styles do."""

import re
from dataclasses import replace

import pytest
from bibtex import entries, lowered, unicode_of

from calibrant.bibliography import WORKS, Work, bibtex, cited, unknown
from calibrant.bibliography.latex import protected, tex

NEEDED = {
    "article": {"author", "title", "journal", "year"},
    "book": {"author", "title", "publisher", "year"},
    "incollection": {"author", "title", "booktitle", "publisher", "year"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "misc": {"author", "title", "howpublished", "year", "eprint", "archiveprefix"},
    "phdthesis": {"author", "title", "school", "year"},
    "techreport": {"author", "title", "institution", "year"},
}
"""What BibTeX wants of each kind; of preprints, what finds them."""
KNOWN = NEEDED["article"] | NEEDED["incollection"] | NEEDED["misc"] | NEEDED["phdthesis"] | NEEDED["techreport"] | {
    "kind", "volume", "number", "pages", "series", "edition", "doi"
}  # fmt: skip
by_key = pytest.mark.parametrize("work", WORKS, ids=lambda work: work.key)


def test_all_entries_together_are_one_bibliography():
    read = entries(bibtex(WORKS))
    assert list(read) == [work.key for work in WORKS]
    assert bibtex([]) == ""


@by_key
def test_an_entry_is_whole_ascii_and_says_what_is_stored(work):
    entry = work.bibtex()
    assert entry.isascii()
    assert entry.isprintable() or set(filter(lambda c: not c.isprintable(), entry)) == {"\n"}
    fields = entries(entry)[work.key]
    assert set(fields) <= KNOWN
    assert NEEDED[fields["kind"]] <= set(fields)
    assert all(text.strip() == text and text for text in fields.values())
    assert fields["kind"] == work.kind
    assert unicode_of(fields["author"]) == work.authors
    assert int(fields["year"]) == work.year
    assert {name: fields.get(name, "") for name in ("doi", "volume")} == {"doi": work.doi, "volume": work.volume}


@by_key
def test_no_style_changes_the_capitals_of_a_title(work):
    title = entries(work.bibtex())[work.key]["title"]
    assert work.formula or unicode_of(lowered(title)) == work.title


@by_key
def test_facts_have_the_form_of_such_facts(work):
    assert re.fullmatch(r"[a-z]+\d{4}[a-z]+", work.key)
    assert str(work.year) in work.key
    assert re.fullmatch(r"(\d+-\d+|e?\d+)?", work.pages)
    first, _, last = work.pages.partition("-")
    assert not last or int(first) < int(last)
    assert re.fullmatch(r"(10\.\d{4,9}/\S+)?", work.doi)
    assert re.fullmatch(r"(\d{4}\.\d{4,5})?", work.arxiv)
    assert all(re.fullmatch(r"[^,]+, [^,]+", author) for author in work.authors.split(" and "))
    if work.arxiv and work.kind == "misc":
        assert 2000 + int(work.arxiv[:2]) == work.year
    elif work.arxiv:
        assert 2000 + int(work.arxiv[:2]) <= work.year + 1


@by_key
def test_the_text_of_a_work_is_one_line_that_names_it_and_nothing_else(work):
    line = work.text()
    assert line.isprintable()
    assert work.title in line
    assert cited([line]) == (work,)
    assert unknown([line]) == ()


def test_no_work_is_there_twice():
    for of in ("key", "title", "doi", "arxiv"):
        values = [getattr(work, of).casefold() for work in WORKS if getattr(work, of)]
        assert len(values) == len(set(values)), of


def test_an_entry_as_it_is_printed():
    work = next(work for work in WORKS if work.key == "kull2019beyond")
    assert work.bibtex() == "\n".join([
        "@inproceedings{kull2019beyond,",
        r"  author = {Kull, Meelis and Perell{\'o} Nieto, Miquel and K{\"a}ngsepp, Markus and Silva Filho, Telmo and "
        "Song, Hao and Flach, Peter},",
        "  title = {Beyond temperature scaling: obtaining well-calibrated multi-class probabilities with {Dirichlet} "
        "calibration},",
        "  booktitle = {Advances in Neural Information Processing Systems},",
        "  year = {2019},",
        "  volume = {32},",
        "  pages = {12316--12326},",
        "  eprint = {1910.12656},",
        "  archiveprefix = {arXiv}",
        "}",
    ])  # fmt: skip


def test_where_a_work_can_be_found():
    work = Work("a2001b", "article", "A, B", "C", "D", 2001)
    assert work.url == ""
    assert replace(work, arxiv="2001.00001").url == "https://arxiv.org/abs/2001.00001"
    assert replace(work, arxiv="2001.00001", doi="10.1000/x").url == "https://doi.org/10.1000/x"


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("Błasiok, Jarosław", r"B{\l}asiok, Jaros{\l}aw"),
        ("Demšar", r"Dem{\v{s}}ar"),
        ("Martín Ångström", r"Mart{\'\i}n {\r{A}}ngstr{\"o}m"),
        ("François Garçon", r"Fran{\c{c}}ois Gar{\c{c}}on"),
        ("Erdős & Rényi", r"Erd{\H{o}}s \& R{\'e}nyi"),
        ("100 % of {a_b} at $3", r"100 \% of \{a\_b\} at \$3"),
        ("2^2 ~ \\x", r"2{\textasciicircum}2 {\textasciitilde} {\textbackslash}x"),
        ("o\u0308", r"{\"o}"),
    ],
)  # fmt: skip
def test_text_in_latex(text, latex):
    assert tex(text) == latex


@pytest.mark.parametrize(
    ("title", "latex"),
    [
        ("The Bayesian bootstrap", "The {Bayesian} bootstrap"),
        ("Smooth ECE: Principled diagrams", "Smooth {ECE}: Principled diagrams"),
        ("ImageNet and after", "{ImageNet} and after"),
        ("Curves (ARCs) for all", "Curves ({ARCs}) for all"),
        ("Whose? Ours, by Brier.", "Whose? {Ours}, by {Brier}."),
        ("A", "A"),
        ("", ""),
    ],
)
def test_capitals_that_must_stay_stand_in_braces(title, latex):
    assert protected(title) == latex
