"""`calibrant conformal` as a user runs it: files in, a table, JSON and arrays out, bad input in one line."""

import json

import numpy as np
import pytest

import calibrant as cal
from calibrant.conformal import ConformalQuantiles, ConformalSets, SplitConformal


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("val", 150), ("test", 120), ("few", 5)):
        logits = 2 * rng.normal(size=(3, n, 4))
        labels = (logits[0] + rng.gumbel(size=(n, 4))).argmax(1)
        cal.write(cal.Classification.from_logits(logits, labels, classes=list("abcd")), tmp_path / f"{name}.npz")
        mean, std = rng.normal(size=n), rng.uniform(0.5, 2, n)
        y = mean + std * rng.normal(size=n)
        cal.write(cal.Regression.from_gaussian(mean, std, y), tmp_path / f"{name}_y.npz")
        cuts = cal.Regression.from_quantiles(mean[:, None] + [-1.0, 0.0, 1.0], [0.05, 0.5, 0.95], y)
        cal.write(cuts, tmp_path / f"{name}_q.npz")
    np.savetxt(tmp_path / "val.csv", np.c_[y[:5], mean[:5], std[:5]], delimiter=",", header="out,mu,sd", comments="")
    return tmp_path


@pytest.mark.parametrize("method", ["lac", "aps", "raps", "split", "scaled", "cqr"])
def test_the_same_numbers_as_from_python(files, run_here, method):
    ending = {"cqr": "_q", "split": "_y", "scaled": "_y"}.get(method, "")
    val, test = files / f"val{ending}.npz", files / f"test{ending}.npz"
    done = run_here("conformal", "--fit", val, "--apply", test, "--method", method, "--level", "0.9",
                    "--json", files / "out.json", "-o", files / "out.npz")  # fmt: skip
    assert done.code == 0, done.err
    assert f"{method} · level 0.9" in done.out
    made = {
        "split": SplitConformal(), "scaled": SplitConformal(score="scaled"), "cqr": ConformalQuantiles(),
    }.get(method) or ConformalSets(score=method)  # fmt: skip
    expected = made.fit(cal.read(val)).predict(cal.read(test))
    assert json.loads((files / "out.json").read_text()) == expected.to_json()
    assert done.out.strip() == str(expected)
    with np.load(files / "out.npz") as held:
        for key, value in expected.arrays().items():
            np.testing.assert_array_equal(held[key], value)


def test_rows_that_were_fitted_on_are_noticed(files, run_here):
    same, other = (run_here("conformal", "--fit", files / "val.npz", "--apply", files / f"{name}.npz", "--method",
                            "lac").out for name in ("val", "test"))  # fmt: skip
    assert "were fitted on" in same
    assert "were fitted on" not in other


def test_options_and_forms(files, run_here):
    common = ("conformal", "--fit", files / "val.npz", "--apply", files / "test.npz", "--method", "raps")
    own = ("--penalty", "0.2", "--k-reg", "1", "--deterministic", "--level", "0.8")
    printed = json.loads(run_here(*common, *own, "--format", "json").out)
    assert printed == json.loads(run_here(*common, *own, "--json", "-").out)
    made = ConformalSets(level=0.8, score="raps", randomised=False, penalty=0.2, k_reg=1)
    assert printed == made.fit(cal.read(files / "val.npz")).predict(cal.read(files / "test.npz")).to_json()
    assert run_here(*common, "-q").out == ""
    assert run_here(*common, "--seed", "1").out != run_here(*common, "--seed", "2").out


def test_tables(files, run_here):
    columns = ("--y", "out", "--mean", "mu", "--std", "sd")
    table = files / "val.csv"
    done = run_here("conformal", "--fit", table, "--apply", table, "--method", "split", "--level", "0.5", *columns)
    assert done.code == 0, done.err
    assert "5 rows" in done.out


def test_few_rows_are_told_below_the_table(files, run_here):
    common = ("conformal", "--fit", files / "few.npz", "--apply", files / "test.npz", "--method", "lac")
    done = run_here(*common)
    assert done.code == 0
    assert (
        "ConformalSets: 5 rows are too few for a level of 0.9, which needs 9: every set contains all classes"
        in done.out
    )
    assert run_here(*common, "--strict").code == 2


@pytest.mark.parametrize(("args", "said"), [
    (("--method", "lca"), "did you mean 'lac'?"),
    (("--method", "split"), "got classification predictions"),
    (("--method", "lac", "--level", "1.5"), "between 0 and 1"),
    (("--method", "aps", "--penalty", "1"), "--penalty: expected a method with this option, got --method aps"),
    (("--method", "lac", "--deterministic"), "--deterministic"),
    (("--method", "raps", "--penalty", "-1"), "a number of at least 0"),
    (("--method", "lac", "--format", "csv"), "'table' or 'json'"),
    (("--method", "lac", "-o", "out.csv"), "ending in .npz"),
    (("--method", "lac", "-o", "test.npz"), ", an input; "),
    (("--method", "lac", "--json", "test.npz"), "is for predictions"),
    (("--method", "lac", "--fit", "nothing.npz"), "nothing.npz"),
])  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(files, run_here, monkeypatch, args, said):
    monkeypatch.chdir(files)
    before = {path: path.read_bytes() for path in files.iterdir()}
    done = run_here("conformal", "--fit", "val.npz", "--apply", "test.npz", *args)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert {path: path.read_bytes() for path in files.iterdir()} == before


def test_an_input_under_another_name_is_not_written_over(files, run_here, monkeypatch):
    monkeypatch.chdir(files)
    before = (files / "test.npz").read_bytes()
    (files / "link.npz").symlink_to("test.npz")
    for name in (f"../{files.name}/test.npz", "link.npz"):
        done = run_here("conformal", "--fit", "val.npz", "--apply", "test.npz", "--method", "lac", "-o", name)
        assert done.code == 2
        assert ", an input; " in done.err
    assert (files / "test.npz").read_bytes() == before
