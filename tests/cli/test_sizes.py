"""`calibrant evaluate --sizes` as a user runs it."""

import json

import numpy as np
import pytest

import calibrant as cal


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(300, 3))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    for name, temperature in (("before", 2.0), ("after", 1.0)):
        cal.write(cal.Classification.from_logits(temperature * z, labels), tmp_path / f"{name}.npz")
    cal.write(cal.Classification.from_logits(z, labels[::-1].copy()), tmp_path / "other.npz")
    return tmp_path


COMMON = ("--metrics", "ece,brier", "--resamples", "20", "--repeats", "6")


def test_a_table_by_size(files, run_here):
    out = run_here("evaluate", files / "before.npz", "--sizes", *COMMON).out
    assert "before by test set size · mean ± sd of 6 subsets" in out
    heads = next(line for line in out.splitlines() if line.endswith("drift"))
    assert heads.split() == ["metric", "20", "50", "100", "200", "300", "drift"]
    assert "test set size: ece at n = 20 is" in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_same_numbers_as_from_python(files, run_here):
    out = files / "out.json"
    run_here("evaluate", files / "before.npz", files / "after.npz", "--pairs", "--at", "50, 100", *COMMON,
             "--seed", "3", "--json", out, "-q")  # fmt: skip
    inputs = [cal.read(files / f"{name}.npz") for name in ("before", "after")]
    expected = cal.sample_size_curves(inputs, "ece,brier", sizes=[50, 100], repeats=6, pairs=True, resamples=20, seed=3)
    assert cal.Evaluation.load(out) == expected
    stored = json.loads(out.read_text())["sizes"]
    assert [(item["input"], item["after"], item["sizes"], item["repeats"]) for item in stored] == [
        ("before", "after", [50, 100, 300], 6)
    ]


def test_block_by_block_is_the_same(files, run_here):
    common = ("evaluate", files / "before.npz", files / "after.npz", "--sizes", "--pairs", *COMMON)
    assert run_here(*common).out == run_here(*common, "--blocks", "--threads", "1").out


@pytest.mark.parametrize("form", ["csv", "markdown", "latex", "json"])
def test_other_forms(files, run_here, form):
    out = run_here("evaluate", files / "before.npz", "--at", "50", *COMMON, "--format", form).out
    assert {"csv": ",size,50,ece,", "markdown": "± sd of 6 subsets", "latex": "drift", "json": '"drift"'}[form] in out


@pytest.mark.parametrize(
    ("names", "options", "says"),
    [
        (["before"], ["--at", "301"], ["integers from 2 to 300", "301"]),
        (["before"], ["--at", "1"], ["integers from 2 to 300"]),
        (["before"], ["--at", "1e2"], ["--at", "integers separated by commas"]),
        (["before"], ["--at", ""], ["--at", "integers separated by commas"]),
        (["before"], ["--sizes", "--repeats", "1"], ["repeats"]),
        (["before"], ["--repeats", "10"], ["expected --sizes too"]),
        (["before"], ["--sizes", "--pairs"], ["an even number of inputs"]),
        (["before", "after"], ["--pairs"], ["expected --sizes too"]),
        (["before", "other"], ["--sizes", "--pairs"], ["the same labels", "first in row"]),
    ],
)
def test_bad_requests_are_refused_in_one_line(files, run_here, expect_refusal, names, options, says):
    expect_refusal(run_here, ["evaluate", *(files / f"{name}.npz" for name in names), *options], says)
