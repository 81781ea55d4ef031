"""Matching citations in free text to works: forms of citations, ambiguous citations, and texts without any."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.bibliography import cited_works, unknown_citations, works
from calibrant.bibliography.references import parse


def keys(*texts, among=None):
    return [work.key for work in cited_works(texts, among)]


def make_works(*entries):
    """Works from (key, authors, title, volume)."""
    fields = (
        "@article{{{},\n  author = {{{}}},\n  title = {{{}}},\n  journal = {{Journal of It}},\n  year = {{2001}},\n"
        "  volume = {{{}}}\n}}"
    )
    return parse("\n\n".join(fields.format(*entry) for entry in entries), "works.bib")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Gneiting & Raftery (2007), section 6.2", ["gneiting2007strictly"]),
        ("Gneiting, Balabdaoui & Raftery (2007), JRSS B 69: 243-268", ["gneiting2007probabilistic"]),
        ("Gneiting and Raftery (2007)", ["gneiting2007strictly"]),
        ("Ashukha et al. (2020), section 2.3", ["ashukha2020pitfalls"]),
        ("Ashukha, Lyzhov et al. (2020)", ["ashukha2020pitfalls"]),
        ("Gopal (2021), equation 2.4", ["gopal2021calibration"]),
        (
            "Widmann, Lindsten & Zachariah (2019), NeurIPS 32: 12257-12267; (2021), ICLR 9, for regression",
            ["widmann2019calibration", "widmann2021calibration"],
        ),
        ("Widmann, Lindsten & Zachariah (2019, 2021)", ["widmann2019calibration", "widmann2021calibration"]),
        ("Anderson &\n    Darling (1952), and (1954), JASA", ["anderson1952asymptotic", "anderson1954test"]),
        ("a line (Cox 1958), or two (Frank & Wolfe 1956; Jaggi 2013)",
         ["cox1958two", "frank1956algorithm", "jaggi2013revisiting"]),
        ("(the Bayesian bootstrap, Rubin 1981)", ["rubin1981bayesian"]),
        ("Gruber & Buettner (2022, theorem 3.1), put it so", ["gruber2022better"]),
        ("Under shift (Ovadia 2019; Ashukha 2020)", ["ovadia2019trust", "ashukha2020pitfalls"]),
        ("Wilson's (1927) interval", ["wilson1927probable"]),
        ("Benjamini and Hochberg’s (1995)", ["benjamini1995controlling"]),
        ("After Gruber & Buettner (2022), figure 1", ["gruber2022better"]),
        ("Van Calster et al. (2019), BMC Medicine 17: 230", ["vancalster2019calibration"]),
        ("Brocker & Smith (2007)", ["broecker2007increasing"]),
        ("Bro\u0308cker & Smith (2007)", ["broecker2007increasing"]),
        ("Guo et al. (2017), with the penalties of Kull et al. (2019)", ["guo2017calibration", "kull2019beyond"]),
        ("Cox (1958); Brier (1950); Cox (1958)", ["cox1958two", "brier1950verification"]),
        ("Good (1952), JRSS B 14: 107-114, after NeurIPS 2019, ICML 2018", ["good1952rational"]),
    ],
)  # fmt: skip
def test_citations_match_works(text, expected):
    assert keys(text) == expected
    assert unknown_citations([text]) == ()


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "The model as it was trained", "JASA 102: 359-378", "in 2019", "(2021), ICLR 9", "arXiv 1811.12709",
        "NeurIPS 2019", "ICML 35: 2020-2030", "figure 7", "Version 1.2 (20210)", "at N = 2000", "QJRMS 140: 1917-1923",
    ],
)  # fmt: skip
def test_texts_without_citations(text):
    assert cited_works([text]) == ()
    assert unknown_citations([text]) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Nobody (2031)", "Nobody (2031)"),
        ("Gopal (2020)", "Gopal (2020)"),
        ("Nobody & Gopal (2021)", "Nobody & Gopal (2021)"),
        ("Raftery & Gneiting (2007)", "Raftery & Gneiting (2007)"),
        ("Balabdaoui, Gneiting & Raftery (2007)", "Balabdaoui & Gneiting & Raftery (2007)"),
        ("Gneiting, Raftery & Nobody (2007)", "Gneiting & Raftery & Nobody (2007)"),
        ("Gopal et al. (2021)", "Gopal et al. (2021)"),
        ("Cox (1958); (1972), JRSS B", "Cox (1972)"),
        ("as in (Nobody 2019)", "Nobody (2019)"),
        ("Gneiting (2007)", "Gneiting (2007)"),
        ("Gneiting et al. (2007)", "Gneiting et al. (2007)"),
        ("Hall (1992)", "Hall (1992)"),
    ],
)
def test_unknown_and_ambiguous_citations(text, expected):
    assert unknown_citations([text, "Brier (1950)", text]) == (expected,)
    assert expected not in [work.text() for work in cited_works([text])]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hall (1992), JRSS B 54: 221–228", "hall1992removal"),
        ("Hall (1992), On the removal of skewness by transformation", "hall1992removal"),
        ("Hall (1992), The bootstrap and Edgeworth expansion, section 3.6", "hall1992bootstrap"),
        ("Gneiting (2007), JASA", "gneiting2007strictly"),
        ("Gneiting et al. (2007), J. R. Statist. Soc. B", "gneiting2007probabilistic"),
        ("Gneiting (2007), pages 359-378", "gneiting2007strictly"),
    ],
)
def test_text_after_the_year_resolves_ambiguity(text, expected):
    assert keys(text) == [expected]
    assert keys(f"Brier (1950), JRSS B, JASA; {text}; Cox (1958), JASA, JRSS B 54") == [
        "brier1950verification", expected, "cox1958two",
    ]  # fmt: skip


def test_ambiguous_works_are_never_guessed():
    works = make_works(("a2001this", "Aa, B.", "On this", 1), ("a2001that", "Aa, B.", "On that", 2))
    assert keys("Aa (2001), Journal of It", among=works) == []
    assert unknown_citations(["Aa (2001), Journal of It"], works) == ("Aa (2001)",)
    assert keys("Aa (2001), On that", among=works) == ["a2001that"]


def test_single_surname_prefers_the_single_author_work():
    pair, single = make_works(("a2001pair", "Aa, B. and Cc, D.", "On that", 1), ("a2001single", "Aa, B.", "On this", 2))
    assert keys("Aa (2001)", among=(pair, single)) == ["a2001single"]
    assert keys("Aa (2001)", among=(pair,)) == ["a2001pair"]
    assert keys("Aa & Cc (2001); Aa (2001)", among=(single, pair)) == ["a2001pair", "a2001single"]


def test_order_of_first_mention_across_texts():
    assert keys("Cox (1958); Brier (1950)", "Wilson (1927); Cox (1958)") == [
        "cox1958two", "brier1950verification", "wilson1927probable",
    ]  # fmt: skip


PIECES = [
    "Gopal", "Cox", "Van Calster", "et al.", "&", "and", "(", ")", "(2021)", "1958", "2019", ", ", "; ", "'s",
    "\x1b[31m", "%", "NeurIPS", "\u202e", "\x00", "{", "}", "\\input{/etc/passwd}", "@comment{", "<script>", "é", "\n",
    "A" * 50,
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=40))
def test_arbitrary_text_gives_known_works_and_printable_citations(pieces):
    text = " ".join(pieces)
    assert set(cited_works([text])) <= set(works())
    assert all(citation.isprintable() for citation in unknown_citations([text]))


@pytest.mark.parametrize(
    "piece", ["A ", "A, ", "Van ", "A & ", "A-", "Gopal (2021); (2021", "A (2001, 2002, ", "(2001"]
)
def test_adversarial_long_texts_are_fast(piece):
    start = time.perf_counter()
    cited_works([piece * (200_000 // len(piece))])
    assert time.perf_counter() - start < 2.0
