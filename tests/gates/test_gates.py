"""Gates: what they show of intervals in every position, of groups, checks and recalibrations, and what they say."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from gates.comparison_cases import estimate, evaluation
from hypothesis import given
from hypothesis import strategies as st

import calibrant as cal
from calibrant.errors import UsageError
from calibrant.gates.api import Gate
from calibrant.registry.estimate import Estimate
from calibrant.registry.metric import Skipped
from calibrant.results.evaluation import Evaluation, Group, Result

INF, NAN = math.inf, math.nan
OPS = ("<", "<=", ">", ">=")
NOT = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def one(**metrics):
    return evaluation(Result("model", metrics))


def passes(held, **gates):
    return bool(cal.gates.gate(held, **gates))


# ------------------------------------------------------------------------------------- where intervals lie
@pytest.mark.parametrize(("low", "high", "shown"), [
    (0.1, 0.2, {"<", "<="}),
    (0.1, 0.3, {"<="}),  # the upper end is the bound
    (0.2, 0.4, set()),
    (0.3, 0.4, {">="}),
    (0.35, 0.4, {">", ">="}),
    (0.3, 0.3, {"<=", ">="}),
    (0.2, INF, set()),
    (0.4, INF, {">", ">="}),
    (-INF, 0.2, {"<", "<="}),
    (-INF, INF, set()),
])  # fmt: skip
def test_the_whole_interval_must_be_beyond(low, high, shown):
    held = one(nll=estimate(0.3, low, high))
    for op in OPS:
        assert passes(held, fail_on=f"nll {op} 0.3") == (op not in shown)
        assert passes(held, require=f"nll {op} 0.3") == (op in shown)
        assert held == one(nll=estimate(0.3, low, high))
        stored = Evaluation.from_json(json.loads(held.dumps()))
        assert passes(stored, fail_on=f"nll {op} 0.3") == (op not in shown)
        assert passes(stored, require=f"nll {op} 0.3") == (op in shown)


@pytest.mark.parametrize(("value", "shown"), [(0.2, {"<", "<="}), (0.3, {"<=", ">="}), (0.5, {">", ">="})])
def test_without_an_interval_a_value_may_stop_a_build_and_proves_nothing(value, shown):
    held = one(mce=estimate(value))
    for op in OPS:
        assert passes(held, fail_on=f"mce {op} 0.3") == (op not in shown)
        assert not passes(held, require=f"mce {op} 0.3")
        assert passes(held, require=f"mce.value {op} 0.3") == (op in shown)
    (refused,) = cal.gates.gate(held, require="mce < 0.9")
    assert refused.undecided
    assert "without an interval" in refused.reason
    assert ".value" in refused.reason


@pytest.mark.parametrize("value", [INF, -INF])
def test_infinite_values_are_what_they_are(value):
    held = one(nll=Estimate(value, 100))
    for found in (held, Evaluation.from_json(json.loads(held.dumps()))):
        assert passes(found, fail_on="nll > 0.3") == (value < 0)
        assert passes(found, require="nll > 0.3") == (value > 0)
        assert not passes(found, require="nll < inf") or value < 0
    assert "infinite" in cal.gates.gate(held, require="nll > 1").results[0].reason


def test_of_an_undefined_value_nothing_is_told():
    held = one(roc_auc=Estimate(NAN, 100))
    for op in OPS:
        (allowed,) = cal.gates.gate(held, fail_on=f"roc_auc {op} 0.5")
        (refused,) = cal.gates.gate(held, require=f"roc_auc {op} 0.5")
        assert (allowed.passed, refused.passed) == (True, False)
        assert allowed.undecided
        assert refused.undecided
        assert "undefined" in allowed.reason
        assert "inconclusive" in str(allowed)


def test_the_interval_speaks_where_the_value_lies_beyond_it():
    """A plug-in calibration error is biased upwards, and may lie above the interval of the true error."""
    held = one(ece=estimate(0.06, 0.0, 0.04))
    assert passes(held, require="ece < 0.05", fail_on="ece > 0.05")


numbers = st.floats(allow_nan=True, allow_infinity=True, width=32)


@given(numbers, numbers, numbers, st.floats(-5, 5), st.sampled_from(OPS), st.booleans())
def test_one_is_never_refused_for_what_the_other_has_proved(value, low, high, bound, op, known):
    if known and not math.isnan(low) and not math.isnan(high):
        found = estimate(value, min(low, high), max(low, high))
    else:
        found = estimate(value)
    held = one(nll=found)
    fires = not passes(held, fail_on=f"nll {op} {bound!r}")
    opposite = passes(held, require=f"nll {NOT[op]} {bound!r}")
    same = passes(held, require=f"nll {op} {bound!r}")
    assert not (fires and opposite)  # shown, and its opposite shown
    assert not same or fires  # what is proved for the one is shown for the other
    if not fires and not opposite:
        assert not same
        assert cal.gates.gate(held, fail_on=f"nll {op} {bound!r}").results[0].undecided or math.isnan(found.low)


# ---------------------------------------------------------------------------------------------- inputs
TWO = evaluation(Result("a", {"nll": estimate(0.2, 0.1, 0.25)}), Result("b", {"nll": estimate(0.5, 0.4, 0.6)}))


def test_without_an_input_every_input_is_meant():
    assert not passes(TWO, fail_on="nll > 0.3")
    assert not passes(TWO, require="nll < 0.3")
    assert passes(TWO, require="nll < 0.7", fail_on="nll > 0.7")
    assert "b: nll 0.5000" in str(cal.gates.gate(TWO, fail_on="nll > 0.3"))
    assert "a: nll" not in str(cal.gates.gate(TWO, fail_on="nll > 0.3"))


def test_an_input_by_name():
    assert passes(TWO, fail_on="a: nll > 0.3", require=["a:nll<0.3", "'b' : nll > 0.3"])
    odd = evaluation(replace(TWO.results[1], input='it\'s a: "name"'))
    assert passes(odd, require="'it''s a: \"name\"': nll > 0.3")
    assert passes(odd, require='"it\'s a: ""name""" : nll > 0.3')


def test_an_input_that_lacks_a_metric_is_not_meant_and_one_must_have_it():
    held = evaluation(*TWO.results[:1], Result("c", {"ece": estimate(0.1, 0.0, 0.2)}))
    assert passes(held, require=["nll < 0.3", "ece < 0.3"])
    with pytest.raises(UsageError, match=r"got 'brier'; choose from ece, nll"):
        cal.gates.gate(held, require="brier < 0.3")
    skipped = evaluation(
        Result("c", {"ece": estimate(0.1)}, skipped={"roc_auc": Skipped("needs_two_classes", "it needs two classes")})
    )
    with pytest.raises(UsageError, match="'roc_auc', which was skipped: it needs two classes"):
        cal.gates.gate(skipped, require="roc_auc > 0.5")


def test_reasons_stay_short_of_many_inputs():
    many = evaluation(*(replace(TWO.results[1], input=f"m{k}") for k in range(9)))
    assert "; and 6 more of 9" in str(cal.gates.gate(many, fail_on="nll > 0.3"))


# ---------------------------------------------------------------------------------------------- groups
def grouped(spec, *estimates):
    groups = tuple(Group("site", k, 10, {spec: found}) for k, found in enumerate(estimates))
    return evaluation(Result("model", {spec: estimate(0.5, 0.4, 0.6)}, groups))


GOOD, DOUBTFUL, BAD = estimate(0.1, 0.05, 0.2), estimate(0.28, 0.2, 0.4), estimate(0.5, 0.4, 0.6)
UNKNOWN = estimate(NAN)


@pytest.mark.parametrize(("groups", "fires", "proved"), [
    ((GOOD, GOOD), False, True),
    ((GOOD, DOUBTFUL), False, False),
    ((DOUBTFUL, BAD), True, False),
    ((GOOD, UNKNOWN), False, False),
    ((UNKNOWN, BAD), True, False),
    ((UNKNOWN,), False, False),
    ((GOOD,), False, True),
])  # fmt: skip
def test_the_worst_group(groups, fires, proved):
    held = grouped("nll", *groups)
    assert passes(held, fail_on="worst nll by site > 0.3") == (not fires)
    assert passes(held, require="worst nll by site <= 0.3") == proved
    turned = grouped("accuracy", *(
        Estimate(1 - e.value, e.n, 1 - e.high, 1 - e.low, e.level, e.method) for e in groups
    ))  # fmt: skip
    assert passes(turned, fail_on="worst accuracy by site < 0.7") == (not fires)
    assert passes(turned, require="worst accuracy by site >= 0.7") == proved


def test_the_worst_group_is_the_maximum_of_all():
    """Whatever is asked of it: the worst is below a bound where all are, above it where one is."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        ends = np.sort(rng.uniform(0, 1, (4, 3)), axis=1)
        held = grouped("nll", *(estimate(m, low, high) for low, m, high in ends))
        low, high = ends[:, 0].max(), ends[:, 2].max()
        for op in OPS:
            expected = Gate.parse(f"nll {op} 0.5", "require").judge(one(nll=estimate(0.5, low, high))).passed
            assert passes(held, require=f"worst nll by site {op} 0.5") == expected


def test_the_reason_tells_of_the_group_that_decides():
    said = str(cal.gates.gate(grouped("nll", GOOD, BAD, DOUBTFUL), fail_on="worst nll by site > 0.3"))
    assert "nll[site=1] 0.5000, 95% interval 0.4000 to 0.6000, the worst of 3 groups" in said
    said = str(cal.gates.gate(grouped("nll", GOOD, DOUBTFUL), require="worst nll by site < 0.3"))
    assert "nll[site=1] 0.2800" in said
    assert "contains 0.3" in said


def test_one_group():
    held = grouped("nll", GOOD, BAD)
    assert passes(held, require=["nll[site=0] < 0.3", "nll[ 'site' = '1' ] > 0.3", "model: nll[site=0]<0.3"])
    for text, said in (("nll[site=2] < 1", "a value of 'site'"), ("nll[place=2] < 1", "did you mean|choose from site"),
                       ("ece[site=1] < 1", "choose from nll")):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            cal.gates.gate(held, require=text)
    with pytest.raises(UsageError, match="an evaluation without groups; evaluate with --by site"):
        cal.gates.gate(one(nll=GOOD), require="worst nll by site < 1")
    with pytest.raises(UsageError, match="after 'worst', got 'entropy'"):
        cal.gates.gate(held, require="worst entropy by site < 1")


# ------------------------------------------------------------------------------------ checks, recalibration
@pytest.fixture(scope="module")
def checked():
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(300, 3))
    labels = (logits + rng.gumbel(size=(300, 3))).argmax(1)
    half = {"half": np.repeat(["first", "second"], 150)}
    right = cal.Classification.from_logits(logits, labels, name="right", columns=half)
    sure = cal.Classification.from_logits(5 * logits, labels, name="too sure", columns=half)
    return cal.check([right, sure], "accuracy,nll", draws=200, by="half")


def test_checks(checked):
    assert passes(checked, require=["right: all pass", "right: accuracy passes", "'too sure': nll fails"])
    assert passes(checked, fail_on=["right: any fails", "right: nll fails"])
    assert not passes(checked, require="all pass")
    assert not passes(checked, fail_on="any fails")
    assert not passes(checked, fail_on="nll fails")
    assert passes(checked, require=["'too sure': nll[half=first] fails", "right: nll.two_sided > 0.01"])
    assert passes(checked, fail_on="right: nll.observed > 2")
    said = str(cal.gates.gate(checked, require="all pass"))
    assert "too sure: accuracy" in said
    assert "is higher than expected (" in said


def test_what_checks_cannot_answer(checked):
    with pytest.raises(UsageError, match="a metric, got the check 'right: nll'; write nll passes"):
        cal.gates.gate(checked, require="nll < 0.3")
    with pytest.raises(UsageError, match="got 'brier'; choose from accuracy, nll"):
        cal.gates.gate(checked, require="brier passes")
    with pytest.raises(UsageError, match="posterior predictive checks, got an evaluation without checks"):
        cal.gates.gate(TWO, require="nll passes")
    with pytest.raises(UsageError, match="got 'value'"):
        cal.gates.gate(checked, require="nll.value < 1")


def test_an_undefined_check_tells_nothing(checked):
    known = checked.results[0]
    none = replace(known.checks["nll"], passed_interval=None)
    held = replace(checked, results=(replace(known, checks={**known.checks, "nll": none}),))
    assert passes(held, fail_on=["nll fails", "nll passes", "any fails"], require="accuracy passes")
    for text in ("all pass", "nll passes", "nll fails", "any fails"):
        assert not passes(held, require=text)


def test_gains_and_sides_of_a_recalibration():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(600, 3))
    labels = (logits + rng.gumbel(size=(600, 3))).argmax(1)
    sure = cal.Classification.from_logits(6 * logits, labels)
    held = cal.recalibrate(sure[::2], sure[1::2], metrics="nll,accuracy").evaluation
    before, after = (held[name]["nll"] for name in ("before", "after"))
    between = (after.high + before.low) / 2
    assert after.high < between < before.low
    assert passes(held, require=["nll gain > 0", f"nll < {between}", f"after: nll < {between}",
                                 f"before: nll > {between}"])  # fmt: skip
    assert not passes(held, fail_on="brier gain > 0")
    with pytest.raises(UsageError, match="a score with a gain"):
        cal.gates.gate(held, require="accuracy gain > 0")
    with pytest.raises(UsageError, match="a recalibration, got an evaluation without one"):
        cal.gates.gate(TWO, require="nll gain > 0")


# ------------------------------------------------------------------------------------------- as a whole
def test_gates_read_as_text_and_as_json(tmp_path):
    held = one(nll=estimate(0.4, 0.35, 0.5), ece=estimate(0.02, 0.01, 0.09))
    gates = cal.gates.gate(held, fail_on=["nll > 0.3", "ece > 0.05"], require="nll < 0.6")
    assert not gates
    assert len(gates) == 3
    assert [item.passed for item in gates] == [False, True, True]
    assert repr(gates) == "Gates(passed=2, failed=1)"
    assert str(gates) == "gate failed: fail-on nll > 0.3: nll 0.4000, 95% interval 0.3500 to 0.5000"
    assert str(cal.gates.gate(held, require="nll < 0.6")) == "1 gate passed"
    assert str(cal.gates.gate(held, fail_on=["ece > 0.05", "nll > 1"])) == "2 gates passed, 1 of them inconclusively"
    stored = replace(held, gates=gates.results)
    assert Evaluation.load(stored.save(tmp_path / "held.json")) == stored
    assert stored.to_json()["gates"] == gates.to_json()
    assert set(gates.to_json()[0]) == {"gate", "kind", "passed", "reason", "undecided"}
    assert "gates" not in held.to_json()
    assert cal.gates.gate(str(tmp_path / "held.json"), require="nll < 0.6")
    for shown in (str(stored), stored._repr_html_()):
        assert "gate failed: fail-on nll" in shown


def test_bad_calls():
    with pytest.raises(UsageError, match="at least one gate"):
        cal.gates.gate(TWO)
    with pytest.raises(UsageError, match="gates as text, got int"):
        cal.gates.gate(TWO, require=[3])
    with pytest.raises(UsageError, match="an evaluation or the path of one, got dict"):
        cal.gates.gate({}, require="nll < 1")
    with pytest.raises(cal.CalibrantError, match=r"nothing\.json"):
        cal.gates.gate("nothing.json", require="nll < 1")


def test_a_set_of_metrics_stands_beside_other_metrics():
    rng = np.random.default_rng(0)
    known = cal.Classification.from_logits(rng.normal(size=(60, 3)), rng.integers(0, 3, 60),
                                           columns={"site": np.repeat(["a", "b"], 30)})  # fmt: skip
    plain = cal.evaluate(known, "report", by="site", resamples=20)
    more = cal.evaluate(known, "report,ece(bins=4),ce(rows=50)", by="site", resamples=20)
    added = {"ece(bins=4)", "ce(rows=50)"}
    assert set(more["predictions"].metrics) == set(plain["predictions"].metrics) | added
    assert set(more["predictions"].groups[0].metrics) == set(plain["predictions"].groups[0].metrics) | added
    assert more["nll"] == plain["nll"]
    assert "ce" in more.results[0].skipped  # of all rows it is not meant, only of those that were named
