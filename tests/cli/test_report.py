"""The command `report`: from evaluations, folders and predictions to one page, and what it says when it cannot."""

import json
import re

import numpy as np
import pytest

import calibrant as cal

QUICK = ("--resamples", "20")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(2, 150, 3))
    labels = (logits[0] + rng.gumbel(size=(150, 3))).argmax(1)
    columns = {"site": np.repeat(["north", "south"], 75)}
    ids = [f"patient-{k}" for k in range(150)]
    good = cal.Classification.from_logits(logits, labels, columns=columns, ids=ids)
    sure = cal.Classification.from_logits(8 * logits, labels, columns=columns, ids=ids)
    cal.write(good, folder / "good.npz")
    cal.write(sure, folder / "sure.npz")
    (folder / "stored").mkdir()
    cal.evaluate(good.named("good"), resamples=20).save(folder / "stored" / "a.json")
    cal.check(good.named("good"), draws=50).save(folder / "stored" / "b.json")
    return folder


def refused(ran, *words):
    assert ran.code == 2
    assert ran.err.count("\n") == 1, ran.err
    assert all(word in ran.err for word in words), ran.err


def sections(path):
    return re.findall(r'<section id="([a-z]+)"', path.read_text(encoding="utf-8"))


def test_stored_evaluations_and_folders_of_them(files, run_here, tmp_path):
    done = run_here("report", files / "stored", "-o", tmp_path / "a.html")
    assert (done.code, done.out) == (0, f"written: {tmp_path / 'a.html'}\n")
    one_by_one = run_here("report", *sorted((files / "stored").iterdir()), "-o", tmp_path / "b.html", "--quiet")
    assert (one_by_one.code, one_by_one.out) == (0, "")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert {"verdict", "reliability", "checks"} <= set(sections(tmp_path / "a.html"))


def test_predictions_are_judged_first(files, run_here, tmp_path):
    done = run_here("report", files / "good.npz", *QUICK, "--by", "site", "-o", tmp_path / "a.html")
    assert done.code == 0, done.err
    assert {"verdict", "scores", "checks", "slices"} <= set(sections(tmp_path / "a.html"))


def test_several_inputs_are_compared(files, run_here, tmp_path):
    given = (f"good={files / 'good.npz'}", f"too sure={files / 'sure.npz'}")
    done = run_here("report", *given, *QUICK, "-o", tmp_path / "a.html", "--title", "Two models")
    assert done.code == 0, done.err
    assert {"comparison", "overview"} <= set(sections(tmp_path / "a.html"))
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<h1>Two models</h1>" in text
    assert '<option value="1">too sure</option>' in text


def test_what_cannot_be_compared_is_reported_all_the_same(files, run_here, tmp_path):
    other = cal.Judged.from_confidence(np.linspace(0.1, 0.9, 20), np.arange(20) > 9)
    cal.write(other, tmp_path / "judged.npz")
    done = run_here("report", files / "good.npz", tmp_path / "judged.npz", *QUICK, "-o", tmp_path / "a.html")
    assert done.code == 0, done.err
    assert "not compared" in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "comparison" not in sections(tmp_path / "a.html")


def test_rows_are_left_out_where_that_is_asked_for(files, run_here, tmp_path):
    for more, there in (((), True), (("--no-rows",), False)):
        run_here("report", files / "stored", "-o", tmp_path / "a.html", *more)
        assert ("patient-" in (tmp_path / "a.html").read_text(encoding="utf-8")) is there


def test_figures_are_written(files, run_here, tmp_path):
    folder = tmp_path / "figures"
    done = run_here(
        "report", files / "stored" / "a.json", "-o", tmp_path / "a.html", "--figures", folder, "--forms", "csv"
    )
    assert done.out.splitlines() == [f"written: {tmp_path / 'a.html'}", f"written: {folder}"]
    names = [path.name for path in folder.iterdir()]
    assert "reliability-diagram-good.csv" in names
    assert all(name.endswith(".csv") for name in names)


def test_bad_input_is_one_line(files, run_here, tmp_path):
    page = tmp_path / "a.html"
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.json").write_text(json.dumps({"a": 1}))
    (tmp_path / "broken.json").write_text("{")
    refused(run_here("report", tmp_path / "no.json", "-o", page), "no.json")
    refused(run_here("report", tmp_path / "no.npz", "-o", page), "no.npz")
    refused(run_here("report", tmp_path / "empty", "-o", page), "got a folder without any")
    refused(run_here("report", tmp_path / "other.json", "-o", page), "an evaluation written by calibrant")
    refused(run_here("report", tmp_path / "broken.json", "-o", page), "broken.json")
    refused(run_here("report", files / "stored", "-o", tmp_path / "out.npz"), "is for predictions")
    refused(run_here("report", files / "good.npz", "-o", tmp_path / "no" / "a.html"), "an existing folder", "mkdir -p")
    refused(run_here("report", files / "stored", "-o", page, "--figures", tmp_path / "f", "--forms", "gif"), "svg")
    refused(run_here("report", files / "stored", "-o", page, "--forms", "gif"), "svg")
    assert not page.exists()
    assert not (tmp_path / "f").exists()


def test_a_page_that_is_there_survives_what_fails(files, run_here, tmp_path):
    page = tmp_path / "a.html"
    page.write_text("before")
    refused(run_here("report", tmp_path / "no.json", "-o", page), "no.json")
    assert page.read_text() == "before"


def test_other_commands_write_the_same_page(files, run_here, tmp_path):
    done = run_here(
        "evaluate", files / "good.npz", *QUICK, "--json", tmp_path / "e.json", "--html", tmp_path / "e.html", "-q"
    )
    assert done.code == 0, done.err
    run_here("report", tmp_path / "e.json", "-o", tmp_path / "r.html")
    assert (tmp_path / "e.html").read_bytes() == (tmp_path / "r.html").read_bytes()


def test_a_stored_evaluation_that_is_not_there_is_told_from_a_damaged_one(files, run_here):
    refused(run_here("report", files / "stored" / "aa.json"), "expected an existing file", "did you mean 'a.json'?")
