"""What the paper says is asked of the checks, and can be found or not."""

from dataclasses import fields, replace

import pytest

from calibrant.bench.gopal.paper import CLAIMS, PAPER, statements_of
from calibrant.bench.papers import Statement
from calibrant.results.check import Check

ALL_IN, WORSE, SHARP_IN, FAILS, BAYES, MASKED, SHARP_OUT = CLAIMS
ENSEMBLE, BAYESIAN, DROPOUT = "Independent Ensemble", "Bayesian Ensemble", "MC Dropout"
OBSERVED = {ENSEMBLE: 0.002, BAYESIAN: 0.002, DROPOUT: 0.03}


def check(p, sharpness, observed):
    """A check of which these numbers are known."""
    known = dict.fromkeys((item.name for item in fields(Check)), 0.0)
    known |= {"p_value": p, "q95": sharpness, "observed": observed, "passed_range": 0.0 < p < 1.0}
    return Check(**known)


@pytest.fixture
def paper():
    """The paper's table as checks."""
    return {(r, s): check(*numbers, OBSERVED[r]) for (r, s), numbers in PAPER.items()}


CHANGES = {
    ALL_IN: ((DROPOUT, "in"), {"passed_range": False}),
    WORSE: ((DROPOUT, "in"), {"observed": 0.001}),
    SHARP_IN: ((BAYESIAN, "in"), {"q95": 0.06}),
    FAILS: ((ENSEMBLE, "out"), {"passed_range": True}),
    BAYES: ((BAYESIAN, "out"), {"passed_range": False}),
    MASKED: ((DROPOUT, "out"), {"passed_range": False}),
    SHARP_OUT: ((ENSEMBLE, "out"), {"q95": 0.4}),
}


def test_the_papers_own_table_shows_all_of_them(paper):
    assert all(one.holds for one in statements_of([paper]))


@pytest.mark.parametrize("claim", CLAIMS)
def test_each_is_lost_by_the_change_that_it_speaks_of_and_by_no_other(paper, claim):
    place, change = CHANGES[claim]
    changed = {**paper, place: replace(paper[place], **change)}
    found = {one.claim: one.reproduced for one in statements_of([paper, changed])}
    assert found == {other: (True, other != claim) for other in CLAIMS}


def test_what_is_told_of_seeds():
    told = [Statement("s", found).outcome for found in ((True,), (False,), (True, True), (True, False), (False, False))]
    assert told == [
        "reproduced",
        "not reproduced",
        "reproduced with every seed",
        "reproduced with 1 of 2 seeds",
        "not reproduced",
    ]
