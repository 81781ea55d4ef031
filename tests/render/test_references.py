"""What an evaluation used, as references and works: of real evaluations of the bundled digits, stored and read back."""

import json

import numpy as np
import pytest
from bibtex import entries
from evaluations import evaluate_with

import calibrant as cal
from calibrant.bibliography import unknown_citations, works
from calibrant.demo import demo_path
from calibrant.registry.lookup import find
from calibrant.render.references import references_of, works_of
from calibrant.results.evaluation import Evaluation

NLL = {"good1952rational", "gneiting2007strictly"}
HALL = {"hall1992removal"}
CHECK = {"gopal2021calibration", "rubin1984bayesianly", "gelman1996posterior"}


@pytest.fixture(scope="module")
def digits():
    return cal.read(demo_path("test"))


@pytest.fixture(scope="module")
def shifted():
    return cal.read(demo_path("shifted"))[::4]


def keys(evaluation):
    return {work.key for work in works_of(evaluation)}


def test_nothing_but_what_was_used_is_cited(digits):
    bare = evaluate_with(digits, "nll", curves=False, intervals=False)
    assert references_of(bare) == (find("nll").reference,)
    assert keys(bare) == NLL
    assert keys(cal.evaluate(digits, "nll", curves=False)) == NLL | HALL
    wilson = cal.evaluate(digits, "accuracy", curves=False)
    assert keys(wilson) == {"wilson1927probable"}
    assert len(references_of(wilson)) == 1


def test_curves_are_cited_by_what_is_stored(digits):
    found = evaluate_with(digits, "entropy", intervals=False)
    curves = {name.partition("(")[0] for name in found.results[0].curves}
    assert curves >= {"reliability", "corp", "rejection", "risk_coverage", "avu", "accuracy_confidence"}
    assert keys(found) == {
        "depeweg2018decomposition", "broecker2007increasing", "dimitriadis2021stable", "nadeem2009accuracy",
        "geifman2017selective", "krishnan2020improving", "ovadia2019trust",
    }  # fmt: skip


def test_every_default_metric_brings_its_works_in_the_order_of_the_table(digits):
    found = cal.evaluate(digits, "report", resamples=20)
    references = references_of(found)
    wanted = dict.fromkeys(find(spec.partition("(")[0]).reference for spec in found.results[0].metrics)
    assert references[: len(wanted)] == tuple(wanted)
    assert {"efron1982jackknife", "delong1988comparing"} <= keys(found)


def test_groups_shift_and_sizes(shifted):
    whole = keys(cal.evaluate(shifted, "ece", curves=False, resamples=50))
    groups = keys(cal.evaluate(shifted, "ece", by="severity", curves=False, resamples=50))
    assert groups - whole == {"benjamini1995controlling"}
    under_shift = keys(cal.evaluate_shift(shifted, "ece", units="ids", curves=False, resamples=50))
    assert under_shift - whole == {"ovadia2019trust", "krishnan2020improving"}
    sizes = keys(cal.sample_size_curves(shifted, "ece", curves=False, resamples=50))
    assert sizes - whole == {"gruber2022better"}


def test_checks_exact_and_drawn(digits):
    drawn = cal.check(digits, statistics=["accuracy"], draws=50)
    assert keys(drawn) == CHECK | {"wilson1927probable"}
    exact = cal.check(digits, statistics=["accuracy"], draws="exact")
    assert keys(exact) == keys(drawn) | {"hong2013computing"}


def test_a_recalibration_cites_its_method_and_what_a_gain_means(digits):
    held_out = cal.read(demo_path("validation"))
    for method, key in {"temperature": "guo2017calibration", "ets": "zhang2020mix"}.items():
        found = cal.recalibrate(held_out, digits, method, resamples=20).evaluation
        assert {key, "gruber2022better"} <= keys(found)
        assert keys(found) >= NLL


def test_a_comparison_cites_its_scores_tests_and_equivalents(digits):
    models = {"one": digits.member(0), "two": digits.subset([1, 2])}
    found = cal.compare(models, pool=digits.subset(range(3, 8)), resamples=50)
    wanted = {"ashukha2020pitfalls", "brier1950verification", "holm1979simple", "ernst2004permutation",
              "hall1992bootstrap", "rubin1981bayesian", "busing1999delete"}  # fmt: skip
    assert wanted <= keys(found)
    assert not {"demsar2006statistical"} & keys(found)
    without = cal.compare(models, resamples=50)
    assert not {"rubin1981bayesian", "busing1999delete"} & keys(without)


def test_detection_and_regression_cite_their_own(digits):
    found = cal.detect(digits, cal.read(demo_path("glyphs")), metrics="auroc", resamples=20)
    assert keys(found) == {
        "hendrycks2017baseline", "delong1988comparing", "lakshminarayanan2017simple", "ovadia2019trust",
    }  # fmt: skip
    rng = np.random.default_rng(0)
    numbers = cal.Regression.from_gaussian(np.zeros(200), np.ones(200), rng.normal(size=200))
    assert keys(evaluate_with(numbers, ["dss", "pit"], intervals=False)) == {
        "dawid1999coherent", "dawid1984present", "gneiting2007probabilistic", "czado2009predictive",
        "kuleshov2018accurate",
    }  # fmt: skip


def test_bibtex_is_the_works_in_order_and_the_same_after_storing(digits, tmp_path):
    found = cal.evaluate(digits, ["brier", "nll", "tce"], resamples=20)
    read = entries(found.bibtex())
    assert list(read) == [work.key for work in works_of(found)]
    assert list(read)[:2] == ["brier1950verification", "good1952rational"]
    assert Evaluation.load(found.save(tmp_path / "a.json")).bibtex() == found.bibtex()


# ------------------------------------------------------------------------------------------- hostile files
HOSTILE = [
    "} @comment{ \\input{/etc/passwd} Evil & Worse (2021)",
    "\x1b[2J Gopal (2021)\x00\u202e",
    "<script>alert(1)</script> Ashukha et al. (2020)",
    "Nobody, Nowhere & Never (2031); (2032)\n@book{x,",
    "A, " * 100_000,
    None,
    7,
    ["Cox (1958)"],
    {"a": "Cox (1958)"},
]


def test_hostile_texts_of_a_loaded_file_name_works_at_most(digits, tmp_path):
    found = cal.evaluate(digits, "nll", resamples=20)
    data = json.loads(found.dumps())
    data["warnings"] = [{"code": "c", "message": "m", "reference": text} for text in HOSTILE]
    data["results"][0]["curves"]["} @book{(score=1)"] = {"x": [1.0]}
    data["results"][0]["curves"]["reliability(bins=5"] = {"x": [1.0]}
    data["results"][0]["metrics"]["\\ece} (2021"] = {"value": 1.0, "n": 1, "method": ["wilson"], "q_value": "no"}
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(data))
    loaded = Evaluation.load(path)
    assert keys(loaded) == keys(found) | {"gopal2021calibration", "ashukha2020pitfalls"}
    assert all(text.isprintable() and len(text) <= 600 for text in references_of(loaded))
    assert set(works_of(loaded)) <= set(works())
    assert list(entries(loaded.bibtex())) == [work.key for work in works_of(loaded)]
    assert unknown_citations(references_of(loaded))  # they are there to be seen, and no entry is made of them


def test_a_recalibration_of_a_loaded_file_may_say_anything(digits, tmp_path):
    made = cal.recalibrate(cal.read(demo_path("validation")), digits, resamples=20).evaluation
    for reference in HOSTILE:
        data = json.loads(made.dumps()) | {"reference": reference}
        loaded = Evaluation.from_json(data)
        assert keys(loaded) - keys(made) <= {"gopal2021calibration", "ashukha2020pitfalls"}
        assert list(entries(loaded.bibtex()))
