"""The works of references.bib, checked with an independent BibTeX reader, and the files that the parser refuses."""

import re
import subprocess
import sys

import pytest
from bibtex import entries, lowered, unicode_of

from calibrant.bibliography import bibtex, cited_works, unknown_citations, works
from calibrant.bibliography.references import PATH, parse
from calibrant.errors import FileError

REQUIRED = {
    "article": {"author", "title", "journal", "year"},
    "book": {"author", "title", "publisher", "year"},
    "incollection": {"author", "title", "booktitle", "publisher", "year"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "misc": {"author", "title", "howpublished", "year", "eprint", "archiveprefix"},
    "phdthesis": {"author", "title", "school", "year"},
    "techreport": {"author", "title", "institution", "year"},
}
"""Fields that BibTeX requires by entry type; for preprints, those that locate them."""
ALLOWED = set.union(*REQUIRED.values()) | {"kind", "volume", "number", "pages", "series", "edition", "doi"}
each_work = pytest.mark.parametrize("work", works(), ids=lambda work: work.key)


def test_all_entries_form_one_bibliography():
    read = entries(bibtex(works()))
    assert list(read) == [work.key for work in works()] == sorted(read)
    assert bibtex([]) == ""


def test_the_file_is_sorted_and_its_comments_hold_no_entry():
    text = PATH.read_text(encoding="utf-8")
    comments = [line for line in text.splitlines() if line.startswith("%")]
    assert comments
    assert not any("@" in line for line in comments)  # BibTeX would read it as an entry
    assert text.endswith(f"\n\n{bibtex(works())}\n")


def test_the_file_is_read_on_first_use():
    code = (
        "import calibrant, calibrant.cli.main, calibrant.bibliography as b\n"
        "from calibrant.bibliography.references import works\n"
        "assert works.cache_info().currsize == 0\n"
        "assert b.cited_works(['Brier (1950)']) and works.cache_info().currsize == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@each_work
def test_entry_is_complete_ascii_and_agrees_with_the_work(work):
    assert work.entry.isascii()
    assert all(c.isprintable() or c == "\n" for c in work.entry)
    fields = entries(work.entry)[work.key]
    assert set(fields) <= ALLOWED
    assert REQUIRED[fields["kind"]] <= set(fields)
    assert all(text.strip() == text and text for text in fields.values())
    assert fields["kind"] == work.kind
    assert unicode_of(fields["author"]) == work.authors
    assert int(fields["year"]) == work.year
    assert {name: fields.get(name, "") for name in ("doi", "volume")} == {"doi": work.doi, "volume": work.volume}
    assert fields.get("eprint", "") == work.arxiv
    if work.arxiv:
        assert fields["archiveprefix"] == "arXiv"
    if work.kind == "misc":
        assert fields["howpublished"] == f"arXiv:{work.arxiv}"


@each_work
def test_no_style_changes_the_capitals_of_a_title(work):
    title = entries(work.entry)[work.key]["title"]
    assert "$" in title or unicode_of(lowered(title)) == work.title


@each_work
def test_fields_have_valid_formats(work):
    assert re.fullmatch(r"[a-z]+\d{4}[a-z]+", work.key)
    assert str(work.year) in work.key
    assert re.fullmatch(r"(\d+-\d+|e?\d+)?", work.pages)
    first, _, last = work.pages.partition("-")
    assert not last or int(first) < int(last)
    assert not re.search(r"\d-\d", work.entry.partition("pages = ")[2].partition("\n")[0].replace("--", ""))
    assert re.fullmatch(r"(10\.\d{4,9}/\S+)?", work.doi)
    assert re.fullmatch(r"(\d{4}\.\d{4,5})?", work.arxiv)
    assert all(re.fullmatch(r"[^,]+, [^,]+", author) for author in work.authors.split(" and "))
    if work.arxiv and work.kind == "misc":
        assert 2000 + int(work.arxiv[:2]) == work.year
    elif work.arxiv:
        assert 2000 + int(work.arxiv[:2]) <= work.year + 1


@each_work
def test_text_of_a_work_is_one_line_that_cites_only_it(work):
    line = work.text()
    assert line.isprintable()
    assert work.title in line
    assert cited_works([line]) == (work,)
    assert unknown_citations([line]) == ()


def test_no_work_is_listed_twice():
    for field in ("key", "title", "doi", "arxiv"):
        values = [getattr(work, field).casefold() for work in works() if getattr(work, field)]
        assert len(values) == len(set(values)), field


def test_entry_as_printed():
    work = next(work for work in works() if work.key == "kull2019beyond")
    assert bibtex([work]) == "\n".join([
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


def test_titles_with_mathematics():
    titles = {work.key: work.title for work in works()}
    assert titles["popordanoska2022consistent"].startswith("A consistent and differentiable Lp canonical")
    assert titles["shepherd1981chebyshev"] == "Chebyshev approximation of (1 + 2x)exp(x²)erfc x in 0 ≤ x < ∞"


# --------------------------------------------------------------------------------------------------------- parser
def entry(author="A, B", title="C", more="", kind="article"):
    fields = f"  author = {{{author}}},\n  title = {{{title}}},\n  journal = {{D}},\n  year = {{2001}}{more}"
    return f"@{kind}{{a2001b,\n{fields}\n}}"


def parse_one(*args, **fields):
    (work,) = parse(entry(*args, **fields), "works.bib")
    return work


def test_url():
    assert parse_one().url == ""
    assert parse_one(more=",\n  eprint = {2001.00001}").url == "https://arxiv.org/abs/2001.00001"
    both = parse_one(more=",\n  doi = {10.1000/x},\n  eprint = {2001.00001}")
    assert both.url == "https://doi.org/10.1000/x"


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"B{\l}asiok, Jaros{\l}aw", "Błasiok, Jarosław"),
        (r"Dem{\v{s}}ar, J.", "Demšar, J."),
        (r"Mart{\'\i}n {\r{A}}ngstr{\"o}m, A.", "Martín Ångström, A."),
        (r"Fran{\c{c}}ois Gar{\c{c}}on, A.", "François Garçon, A."),
        (r"Erd{\H{o}}s \& R{\'e}nyi, A.", "Erdős & Rényi, A."),
        (r"100 \% of a\_b", "100 % of a_b"),
        (r"{Dem{\v{s}}ar}", "Demšar"),
    ],
)
def test_latex_as_unicode(latex, text):
    assert parse_one(author=latex).authors == text
    assert unicode_of(latex) == text


@pytest.mark.parametrize(
    ("latex", "title"),
    [
        ("The {Bayesian} bootstrap", "The Bayesian bootstrap"),
        ("Smooth {ECE}: Principled diagrams", "Smooth ECE: Principled diagrams"),
        ("{ImageNet} and after", "ImageNet and after"),
        ("Curves ({ARCs}) for all", "Curves (ARCs) for all"),
        ("Whose? {Ours}, by {Brier}.", "Whose? Ours, by Brier."),
        ("A", "A"),
    ],
)
def test_braces_protect_capitals(latex, title):
    assert parse_one(title=latex).title == unicode_of(lowered(latex)) == title


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stray text", "'@type{key,'"),
        (entry() + "\nstray text", "'@type{key,'"),
        (entry().removesuffix("\n}"), "'@type{key,'"),
        (entry().replace("},", "}", 1), "'@type{key,'"),
        (entry().replace("2001}\n", "2001},\n"), "'@type{key,'"),
        (entry().replace("{C}", '"C"'), "'@type{key,'"),
        (entry(title="C} {D"), "'@type{key,'"),
        (entry(title="{C"), "'@type{key,'"),
        (entry(title=""), "'@type{key,'"),
        (entry(kind="online"), "one of the types article"),
        (f"{entry()}\n\n{entry()}", "every key once"),
        (entry().replace("journal", "booktitle"), "the fields author, title, year, journal"),
        (entry(more=",\n  note = {x}"), "the fields author"),
        (entry(more=",\n  year = {2002}"), "each once"),
        (entry().replace("2001}", "MMI}"), "a year in digits"),
        (entry(author="Demšar, J."), "ASCII with LaTeX accents"),
        (entry(title=r"\input{/etc/passwd}"), "ASCII with LaTeX accents"),
        (entry(title="$x"), "ASCII with LaTeX accents"),
    ],
)
def test_malformed_files_are_refused_in_one_line(text, expected):
    with pytest.raises(FileError) as caught:
        parse(text, "works.bib")
    message = str(caught.value)
    assert message.startswith("works.bib: expected ")
    assert expected in message
    assert message.isprintable()


def test_a_long_malformed_file_is_refused_quickly():
    for piece in ("{", "}", "{}", "{a", "@article{", "  title = {", "\n"):
        with pytest.raises(FileError):
            parse(entry(title=f"C {piece * 20_000}") + "x", "works.bib")
