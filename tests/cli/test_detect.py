"""`calibrant detect` as a user runs it: files in, tables and JSON out, bad input in one line."""

import json

import numpy as np
import pytest

import calibrant as cal


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    inside = 3 * rng.normal(size=(2, 80, 4))
    known = cal.Classification.from_logits(inside, inside.mean(0).argmax(1), columns={"patient": np.arange(80) // 2})
    cal.write(known, tmp_path / "inside.npz")
    for name, spread in (("near", 2.0), ("far", 0.3)):
        other = cal.Classification.from_logits(spread * rng.normal(size=(2, 50, 4)), columns={"patient": np.arange(50)})
        cal.write(other, tmp_path / f"{name}.npz")
    return tmp_path


def test_a_table_for_each_outside(files, run_here):
    out = run_here("detect", "--inside", files / "inside.npz", "--outside", files / "near.npz", "--outside",
                   files / "far.npz", "--resamples", "40").out  # fmt: skip
    assert "near · 130 rows · 50 OOD" in out
    assert "far · 130 rows · 50 OOD" in out
    for name in ("auroc ↑", "aupr_in ↑", "aupr_out ↑", "detection_accuracy ↑", "fpr95 ↓", "wasserstein ↑"):
        assert out.count(name) == 2


def test_the_same_numbers_as_from_python(files, run_here):
    out = files / "out.json"
    run_here("detect", "--inside", files / "inside.npz", "--outside", files / "far.npz", "-s", "mutual_information",
             "-s", "energy", "-m", "auroc,fpr95(level=0.8)", "--resamples", "40", "--json", out, "-q")  # fmt: skip
    stored = json.loads(out.read_text())
    expected = cal.detect(
        cal.read(files / "inside.npz"), [cal.read(files / "far.npz")], ["mutual_information", "energy"],
        "auroc,fpr95(level=0.8)", resamples=40,
    )  # fmt: skip
    assert stored["results"] == json.loads(expected.dumps())["results"]
    assert [item["meta"]["score"] for item in stored["inputs"]] == ["mutual_information", "energy"]
    assert all(len(item["sha256"]) == len(item["inside_sha256"]) == 64 for item in stored["inputs"])
    assert set(stored["results"][0]["curves"]) == {"scores", "mix"}


def test_block_by_block_is_the_same(files, run_here):
    common = ("detect", "--inside", files / "inside.npz", "--outside", files / "far.npz", "--resamples", "40")
    assert run_here(*common).out == run_here(*common, "--blocks").out


def test_units_and_a_page(files, run_here):
    page = files / "page.html"
    run_here("detect", "--inside", files / "inside.npz", "--outside", files / "far.npz", "--units", "patient",
             "--resamples", "40", "--html", page, "-q")  # fmt: skip
    shown = page.read_text()
    assert "Histograms of the score" in shown
    assert "auroc" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-s", "entrpy"), "did you mean 'entropy'?"),
        (("-s", "variance"), "not defined for classification"),
        (("-m", "nll"), "it is not defined for detection predictions"),
        (("--units", "person"), "got 'person'; choose from labels, patient"),
        (("--level", "2"), "level"),
    ],
)
def test_bad_options_are_one_line(files, run_here, expect_refusal, arguments, said):
    common = ("detect", "--inside", files / "inside.npz", "--outside", files / "far.npz")
    expect_refusal(run_here, (*common, *arguments), [said])


def test_both_sides_are_of_one_model(files, run_here, expect_refusal):
    cal.write(cal.Classification.from_probs(np.full((20, 3), 1 / 3)), files / "three.npz")
    common = ("detect", "--inside", files / "inside.npz", "--outside", files / "three.npz")
    expect_refusal(run_here, common, ["predictions of one model on both sides", "4 classes inside, 3 in"])


def test_a_file_that_is_not_there(files, run_here, expect_refusal):
    expect_refusal(
        run_here, ("detect", "--inside", files / "inside.npz", "--outside", files / "none.npz"), ["none.npz"]
    )


def test_shift_on_the_command_line(tmp_path, run_here, expect_refusal):
    rng = np.random.default_rng(0)
    columns = {"shift": np.repeat(["clean", "fog"], 60), "severity": np.repeat([0, 1, 3], [60, 30, 30])}
    predictions = cal.Classification.from_logits(rng.normal(size=(120, 3)), rng.integers(0, 3, 120), columns=columns)
    cal.write(predictions, tmp_path / "p.npz")
    out = run_here(
        "evaluate", tmp_path / "p.npz", "--shift", "--over", "median", "-m", "nll,ece", "--resamples", "40"
    ).out
    assert "p · nll ↓ over 1 shift type · Spearman ρ" in out
    expect_refusal(run_here, ("evaluate", tmp_path / "p.npz", "--shift", "--over", "mode"), ["'mean' or 'median'"])
    expect_refusal(
        run_here,
        ("evaluate", tmp_path / "p.npz", "--over", "median"),
        ["expected --shift too", "add --shift"],
    )
    cal.write(cal.Classification.from_logits(rng.normal(size=(9, 3)), rng.integers(0, 3, 9)), tmp_path / "q.npz")
    expect_refusal(run_here, ("evaluate", tmp_path / "q.npz", "--shift"), ["'severity'", "meta of every input"])
