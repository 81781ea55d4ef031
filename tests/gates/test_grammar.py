"""The language of gates: what is one, what stands for the same, what is said to a text that is none."""

import math
import re

import pytest
from gates.comparison_cases import COMPARED
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calibrant.errors import UsageError
from calibrant.gates.api import Gate
from calibrant.gates.grammar import (  # fmt: skip
    BestModel,
    CheckOutcome,
    GainThreshold,
    Threshold,
    Versus,
    limits_of,
    parse_condition,
)
from calibrant.gates.suggestions import suggest_name
from calibrant.registry.comparison_scores import COMPARISON_SCORES
from calibrant.registry.lookup import aliases, metrics

INF = math.inf
OPS = {"<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}


@pytest.mark.parametrize(("text", "condition"), [
    ("nll<0.3", Threshold(None, "nll", "<", 0.3)),
    (" ece( bins = 10 , norm=l2) >= 1e-2 ", Threshold(None, "ece(bins=10,norm=l2)", ">=", 0.01)),
    ("ece(bins=15) > .5", Threshold(None, "ece", ">", 0.5)),
    ("m-1.5: dss > −3.", Threshold("m-1.5", "dss", ">", -3.0)),
    ("nll < inf", Threshold(None, "nll", "<", INF)),
    ("'a b': nll[site='x]y'] < 1", Threshold("a b", "nll", "<", 1.0, ("site", "x]y"))),
    ("nll[age:4=18 to 30] < 1", Threshold(None, "nll", "<", 1.0, ("age:4", "18 to 30"))),
    ("m: worst ece(of=cat dog) by 'the site' <= 0.5", Threshold("m", "ece(of=cat dog)", "<=", 0.5, None, "the site")),
    ("ece.p_value < 0.01", Threshold(None, "ece", "<", 0.01, field="p_value")),
    ("'my own' passes", CheckOutcome(None, "my own", True)),
    ("class_frequency(k=0) fails", CheckOutcome(None, "class_frequency(k=0)", False)),
    ("x: all pass", CheckOutcome("x", None, True)),
    ("any  fails", CheckOutcome(None, None, False)),
    ("nll gain >0", GainThreshold("nll", ">", 0.0)),
    ("a/b.npz worse than 'c d' by brier", Versus("a/b.npz", "c d", "brier", "worse")),
    ("a not  worse than b by nll margin 0.01", Versus("a", "b", "nll", "not worse", 0.01)),
    ("'a best' best by cll", BestModel("a best", "cll")),
])  # fmt: skip
def test_grammar(text, condition):
    assert parse_condition(text) == condition


@pytest.mark.parametrize(("text", "said"), [
    ("", "write for example"),
    ("nll", "write for example"),
    ("nll == 0.3", "use <, <=, > or >="),
    ("nll = 0.3", "use <, <=, > or >="),
    ("accuracy > 95 %", "0.95 for 95%"),
    ("'a: nll < 1", "close the quotation marks"),
    ("nlll < 0.3", "did you mean 'nll'"),
    ("ece(bin=3) < 1", "did you mean 'bins'"),
    ("ece.p_valu < 1", "did you mean 'p_value'"),
    ("nll < nan", "the bound must be a number"),
    ("nll < __import__('os')", "write for example"),
    ("a not worse than b by nll margin -1", "a finite margin of at least 0"),
    ("a worse than b by nl", "did you mean 'nll'"),
    ("nll < 0.3, ece < 1", "one condition per gate"),
    ("x" * 5000 + " < 1", "write for example"),
])  # fmt: skip
def test_what_is_no_gate_is_told_in_one_line(text, said):
    with pytest.raises(UsageError, match=said) as caught:
        parse_condition(text)
    assert "\n" not in str(caught.value)


WORDS = st.sampled_from([
    "nll", "ece(bins=10)", "worst", "by", "site", "<", "<=", ">", ">=", "0.3", "-1e3", "inf", "[site=1]", "[", "]", ":",
    "'a b'", '"', "'", "passes", "fails", "all", "pass", "any", "gain", "better", "worse", "not", "than", "best",
    "margin", ".p_value", 
    "is", "no", "≤", "and", "beats", "rank", "P", "accuracy", "90", "as good as", "a", "%", ",",
    " ", "(", ")", "=", "\n", "\x00", "é", "١",
])  # fmt: skip


@settings(max_examples=300)
@example("nll < ١")
@example("nll\n< 1")
@given(
    st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=9).map(" ".join), st.lists(WORDS, max_size=9).map("".join))
)
def test_any_text_is_a_gate_or_an_error_of_one_line(text):
    try:
        gate = Gate.parse(text, "fail_on")
    except UsageError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
    else:
        try:
            said = str(gate.judge(COMPARED))
        except UsageError as error:
            said = str(error)
        assert len(said.splitlines()) == 1


# ---------------------------------------------------------------------------------------- synonyms and slips
names = st.one_of(st.sampled_from(["a", "m-1.5", "d/a", "is", "best", "not"]), st.text("ab 'é:<", min_size=1))
scores = st.sampled_from(["nll", "cll", "ece(bins=10)", None])


def quoted(name):
    return "'" + name.replace("'", "''") + "'"


@given(names, names, scores, st.sampled_from(["better", "worse", "not worse"]), st.sampled_from(["", "0.25"]))
def test_synonyms_mean_the_canonical_form(first, second, score, relation, margin):
    a, b = quoted(first), quoted(second)
    by = "" if score is None else f" by {score}"
    more = f" margin {margin}" if relation == "not worse" and margin else ""
    meant = Versus(first, second, score, relation, 0.25 if more else 0.0)
    for said in {relation, f"is {relation}", relation.replace("not", "no"), "is  " + relation.replace("not", "no")}:
        assert parse_condition(f"{a} {said} than {b}{by}{more}") == meant
    for said in ("best", "is best"):
        assert parse_condition(f"{a} {said}{by}") == BestModel(first, score)


@pytest.mark.parametrize(("sign", "op"), [("≤", "<="), ("≥", ">=")])
def test_signs_of_the_trade(sign, op):
    for form in ("nll {} 0.3", "a: worst nll by site{}0.3", "nll[site=x] {} 0.3", "ece.p_value {}0.3", "nll gain {} 0"):
        assert parse_condition(form.format(sign)) == parse_condition(form.format(op))


SLIPS = [
    ("candidate beats baseline", "candidate better than baseline by nll"),
    ("candidate beats baseline by cll", "candidate better than baseline by cll"),
    ("'a b' beats c", "'a b' better than c by nll"),
    ("nll(candidate) < nll(baseline)", "candidate better than baseline by nll"),
    ("nll(candidate) > nll(baseline)", "candidate worse than baseline by nll"),
    ("acc(a) > acc(b)", "a better than b by accuracy"),
    ("candidate.nll < baseline.nll", "candidate better than baseline by nll"),
    ("a: brier < b: brier", "a better than b by brier"),
    ("candidate > baseline", "candidate better than baseline by nll"),
    ("candidate < baseline", "candidate worse than baseline by nll"),
    ("candidate as good as baseline", "candidate not worse than baseline by nll margin 0.01"),
    ("nll(candidate) < 0.3", "candidate: nll < 0.3"),
    ("candidate.nll < 0.3", "candidate: nll < 0.3"),
    ("0.3 > nll", "nll < 0.3"),
    ("0.3 ≤ a: nll", "a: nll >= 0.3"),
    ("P(best) > 0.9", "candidate best"),
    ("a: P(best) > 0.9", "a best"),
    ("p(ece) > .05", "ece.p_value > 0.05"),
    ("p < 0.05", "ece.p_value < 0.05"),
    ("rank(candidate) = 1", "candidate best by cll"),
    ("candidate: rank == 1", "candidate best by cll"),
    ("a better than b by nll margin 0.1", "a not worse than b by nll margin 0.1"),
    ("acc > 0.9", "accuracy"),
    ("auc > 0.9", "roc_auc"),
    ("logloss < 1", "nll"),
    ("log_loss < 1", "nll"),
    ("cross_entropy < 1", "nll"),
    ("NLL < 1", "nll"),
    ("a better than b by loss", "nll"),
]


@pytest.mark.parametrize(("text", "meant"), SLIPS)
def test_a_slip_is_answered_with_the_gate_that_was_meant(text, meant):
    with pytest.raises(UsageError) as caught:
        parse_condition(text)
    said = re.search(r"(?:did you mean|put the bound on the right:|as in) ('.*'|\".*\")\??$", caught.value.hint)
    assert said, caught.value.hint
    assert said[1][1:-1] == meant
    parse_condition(meant if " " in meant else f"{meant} > 0.5")


@pytest.mark.parametrize(("text", "kind", "said"), [
    ("nll < 0.3 and ece < 0.05", "require", "write one condition per gate: repeat --require to ask for both"),
    ("nll > 0.3 or ece > 0.05", "fail_on", "write one condition per gate: repeat --fail-on to fail if either holds"),
    ("0.1 < nll < 0.3", "require", "one condition per gate"),
    ("nll < 0,3", "require", "use a decimal point: 0.3"),
    ("my model better than old one by nll", "require", "marks: 'my model' better than 'old one' by nll"),
    ("my model best", "require", "marks: 'my model' best"),
    ("my model: nll < 0.3", "require", "marks: 'my model': nll < 0.3"),
    ("worst nll < 0.3", "require", "'worst nll by COLUMN < 0.3'"),
    ("A Better Than B", "require", "use lower case"),
    ("error < 0.1", "require", "use accuracy, which is 1 − the error rate"),
    ("nll < brier", "require", "the bound must be a number"),
    ("xyz < 1", "require", "run `calibrant metrics` for the list"),
    ("???", "require", "'candidate better than baseline by nll'"),
    ("???", "fail_on", "'candidate worse than baseline by nll'"),
])  # fmt: skip
def test_what_is_said_to_other_slips(text, kind, said):
    with pytest.raises(UsageError) as caught:
        parse_condition(text, kind)
    assert said in caught.value.hint
    assert len(caught.value.hint) < 200
    assert "…" not in str(caught.value)


def test_the_forms_that_are_expected_name_all_relations():
    with pytest.raises(
        UsageError, match=r"better \(worse, not worse\) than MODEL by SCORE, MODEL best, or verdict = WORD, got"
    ):
        parse_condition("???")


def test_other_names_are_of_metrics_that_there_are():
    assert set(aliases().values()) <= {*metrics(), *COMPARISON_SCORES}
    assert not set(aliases()) & {*metrics(), *COMPARISON_SCORES}


def test_lists_of_names_are_whole_or_none():
    many = [f"model-{k:03d}" for k in range(300)]
    assert suggest_name("zzz", many).startswith("choose from 300 names, for example model-000, model-001")
    assert len(suggest_name("zzz", many)) < 200
    assert suggest_name("zzz", ["a", "b"]) == "choose from a, b"
    assert suggest_name("zzz", []) == "there are none"


# ---------------------------------------------------------------------------------------------------- bounds
@pytest.mark.parametrize(("text", "said"), [
    ("ece > 5", r"ece lies in \[0, 1\], got > 5, which never holds; for 5% write 0.05"),
    ("accuracy > 90", r"accuracy lies in \[0, 1\], got > 90, which never holds; for 90% write 0.9"),
    ("accuracy < 90", "which always holds"),
    ("accuracy >= 0", "which always holds"),
    ("ece.p_value < 5", r"ece.p_value lies in \[0, 1\]"),
    ("worst ece by site > 1", "which never holds"),
    ("ece[site=a] < -1", "which never holds"),
    ("cll > 0.5", "cll is at most 0, got > 0.5, which never holds"),
    ("dee < 1", "dee is at least 1, got < 1, which never holds"),
    ("brier gain > 3", r"brier gain lies in \[-2, 2\]"),
    ("a not worse than b by accuracy margin 5", "margin 5, which always holds; for 5% write 0.05"),
])  # fmt: skip
def test_a_bound_that_decides_nothing_is_refused(text, said):
    with pytest.raises(UsageError, match=said):
        parse_condition(text)


@given(st.sampled_from([*metrics(), *COMPARISON_SCORES]), st.sampled_from(sorted(OPS)), st.floats(-3, 3), st.booleans())
def test_a_bound_is_refused_only_where_every_value_is_on_one_side(name, op, bound, whole):
    bound = float(round(bound)) if whole else bound
    low, high = limits_of(name)
    low, high = max(low, -1e9), min(high, 1e9)
    found = {OPS[op](low + (high - low) * share, bound) for share in (0.0, 1e-9, 0.5, 1 - 1e-9, 1.0)}
    try:
        parse_condition(f"{name} {op} {bound!r}")
    except UsageError:
        assert len(found) == 1
    else:
        assert OPS[op](low, bound) != OPS[op](high, bound)
