"""`calibrant check` as a user runs it: files in, tables, JSON and a page out, bad input in one line."""

import csv
import io
import json

import numpy as np
import pytest

import calibrant as cal


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(120, 3)) + 0.5 * rng.normal(size=(4, 120, 3))
    labels = (logits[0] + rng.gumbel(size=(120, 3))).argmax(1)
    columns = {"shift": np.repeat(["none", "blur"], 60), "severity": np.repeat([0, 2], 60)}
    known = cal.Classification.from_logits(logits, labels, columns=columns, ids=np.arange(120))
    cal.write(known, tmp_path / "members.npz")
    cal.write(known.member(0), tmp_path / "one.npz")
    cal.write(cal.Classification.from_logits(logits), tmp_path / "unlabelled.npz")
    return tmp_path


def test_it_tells_both_readings_and_what_the_data_support(files, run_here):
    out = run_here("check", files / "members.npz", "--draws", "500").out
    assert "members · 120 rows · 4 members · 3 classes · bayesian, 500 draws" in out
    assert "rows are independent given the predictions" in " ".join(out.split())
    for name in ("accuracy", "ece", "nll", "brier"):
        assert out.count(f"\n{name} ") == 2
    said = " ".join(out.partition("members ·")[0].split())
    assert "calibration error alone" in said
    assert "of 5 pass when one member draws all rows (Bayesian)" in said
    assert "reading" in said


def test_the_same_numbers_as_from_python(files, run_here):
    out = files / "out.json"
    run_here("check", files / "members.npz", "-s", "accuracy,ece(bins=5)", "-s", "entropy", "--draws", "40", "--by",
             "shift", "--by", "predicted", "--shift", "--rule", "range", "--temperatures", "0.25", "--seed", "3",
             "--json", out, "-q")  # fmt: skip
    expected = cal.check(
        cal.read(files / "members.npz"), "accuracy,ece(bins=5),entropy", draws=40, by=["shift", "predicted"],
        shift=True, rule="range", temperatures=0.25, seed=3,
    )  # fmt: skip
    assert json.loads(out.read_text()) == json.loads(expected.dumps())
    assert cal.Evaluation.load(out).to_json() == expected.to_json()


def test_block_by_block_and_with_one_thread_is_the_same(files, run_here):
    common = ("check", files / "members.npz", "--draws", "40")
    assert run_here(*common).out == run_here(*common, "--blocks").out == run_here(*common, "--threads", "1").out


@pytest.mark.parametrize("form", ["markdown", "latex", "csv", "json"])
def test_every_format(files, run_here, form):
    out = run_here("check", files / "members.npz", "--draws", "20", "--by", "shift", "--format", form).out
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(out)))
        assert {(row["members"], row["group"]) for row in rows} == {
            (reading, group) for reading in ("bayesian", "independent") for group in ("", "blur", "none")
        }
        assert all(0 <= float(row["p_value"]) <= 1 for row in rows)
    elif form == "json":
        assert json.loads(out)["results"][0]["checks"]["ece"]["draws"] == 20
    else:
        assert "accuracy" in out
        assert "member assumption" in out


def test_a_page_with_box_plots(files, run_here):
    page = files / "page.html"
    run_here("check", files / "members.npz", "--draws", "20", "--shift", "--html", page, "-q")
    shown = page.read_text()
    assert '<section id="checks"' in shown
    assert '<section id="shift"' in shown
    assert "Bayesian" in shown


def test_exact_laws(files, run_here):
    out = run_here("check", files / "members.npz", "--draws", "exact").out
    assert "bayesian, exact" in out


def test_one_member_is_said_and_goes_on(files, run_here):
    done = run_here("check", files / "one.npz", "--draws", "20")
    assert done.code == 0
    assert "with one member, the Bayesian and independent readings are the same" in done.out.replace("\n  ", " ")
    assert "member assumption" not in done.out
    assert run_here("check", files / "one.npz", "--draws", "20", "--strict").code == 2


@pytest.mark.parametrize(("args", "said"), [
    (("unlabelled.npz",), "no hard labels"),
    (("members.npz", "--draws", "0"), "an integer from 1"),
    (("members.npz", "--draws", "-3"), "an integer from 1"),
    (("members.npz", "--draws", "some"), "--draws: expected an integer from 1, or 'exact', got 'some'"),
    (("members.npz", "-s", "acuracy"), "did you mean 'accuracy'?"),
    (("members.npz", "-s", "mutual_information"), "it does not depend on labels"),
    (("members.npz", "--members", "one"), "'both', 'bayesian' or 'independent'"),
    (("members.npz", "--by", "labels"), "groups that would select rows by what is being checked"),
    (("members.npz", "--by", "region"), "got 'region'"),
    (("members.npz", "--fit", "members.npz"), "temperatures together with fit"),
    (("members.npz", "--temperatures", "2"), "a number between 0 and 1"),
    (("members.npz", "--json", "out.npz"), "is for predictions"),
    (("nothing.npz",), "nothing.npz"),
])  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(files, run_here, monkeypatch, args, said):
    monkeypatch.chdir(files)
    done = run_here("check", *args)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (files / "out.npz").exists()
