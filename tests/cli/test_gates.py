"""Gates as a user's build runs them: exit codes, what is written before the end, what is said and what is not."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from gates.comparison_cases import COMPARED

import calibrant as cal

QUICK = ("--resamples", "20")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gates")
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(400, 3))
    labels = (logits + rng.gumbel(size=(400, 3))).argmax(1)
    columns = {"site": np.repeat(["north", "south"], 200)}
    cal.write(cal.Classification.from_logits(logits, labels, columns=columns), folder / "good.npz")
    cal.write(cal.Classification.from_logits(8 * logits, labels, columns=columns), folder / "sure.npz")
    cal.write(cal.Classification.from_logits(0.1 * rng.normal(size=(90, 3))), folder / "other.npz")
    return folder


def one_line(ran):
    assert ran.err.count("\n") == 1, ran.err
    return ran.err


def test_a_gate_that_holds_is_one_line(files, run_here):
    done = run_here("evaluate", files / "good.npz", "-m", "nll", "--fail-on", "nll > 2", "--require", "nll < 2")
    assert done.code == 0
    assert one_line(done) == "2 gates passed\n"
    assert done.out.count("gate passed: ") == 2
    quiet = run_here("evaluate", files / "good.npz", "-m", "nll", "--fail-on", "nll > 2", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_a_gate_that_fails_ends_with_1_after_everything_was_written(files, run_here, tmp_path):
    written = tmp_path / "out.json", tmp_path / "out.html"
    done = run_here("evaluate", files / "sure.npz", "-m", "nll", "--fail-on", "nll > 1", "--fail-on", "nll > 90",
                    "--require", "nll < 1", "--json", written[0], "--html", written[1], "-q")  # fmt: skip
    assert done.code == 1
    assert done.out == ""
    assert [line.partition(": nll ")[0] for line in done.err.splitlines()] == [
        "gate failed: fail-on nll > 1", "gate failed: require nll < 1",
    ]  # fmt: skip
    held = cal.Evaluation.load(written[0])
    assert [(item.gate, item.kind, item.passed) for item in held.gates] == [
        ("nll > 1", "fail_on", False), ("nll > 90", "fail_on", True), ("nll < 1", "require", False),
    ]  # fmt: skip
    assert "nll &gt; 1" in written[1].read_text()
    assert "Failed: fail on nll" in written[1].read_text()


@pytest.mark.parametrize("form", ["table", "markdown", "latex", "json", "csv"])
def test_every_format_is_whole(files, run_here, form):
    common = ("evaluate", files / "sure.npz", "-m", "nll", "--format", form)
    done = run_here(*common, "--fail-on", "nll > 1")
    assert done.code == 1
    assert one_line(done).startswith("gate failed: ")
    if form == "csv":
        assert done.out == run_here(*common).out
    elif form == "json":
        assert json.loads(done.out)["gates"][0]["passed"] is False
    else:
        assert "gate failed" in done.out


@pytest.mark.parametrize(("args", "said"), [
    (("nothing.npz", "--fail-on", "nlll > 1"), "did you mean 'nll'"),  # before files are read
    (("nothing.npz", "--require", "nll = 1"), "use <, <=, > or >="),
    (("nothing.npz", "--require", "nll gain > 0"), "use it with calibrant recalibrate"),
    (("nothing.npz", "--require", "all pass"), "use it with calibrant check"),
    (("nothing.npz", "--fail-on", "ece > 5"), "ece lies in [0, 1], got > 5, which never holds; for 5% write 0.05"),
    (("nothing.npz", "--require", "accuracy > 90"), "for 90% write 0.9"),
    (("nothing.npz", "--require", "nll < 1 and ece < 0.1"), "one condition per gate: repeat --require"),
    (("nothing.npz", "--fail-on", "nonsense"), "write for example 'nll > 0.3', 'accuracy fails'"),
    (("nothing.npz", "--require", "a better than b"), "use it with calibrant compare"),
    (("nothing.npz", "--require", "a worse than b by nll"), "use it with calibrant compare"),
    (("nothing.npz", "--require", "cll > -1"), "use it with calibrant compare"),
    (("nothing.npz", "--require", "worst nll by site < 1"), "add --by site"),
    (("nothing.npz", "--by", "sites", "--require", "nll[site=a] < 1"), "did you mean 'sites'"),
    (("good.npz", "--require", "god: nll < 1"), "did you mean 'good'"),
    (("good.npz", "--require", "roc_auc > 0.5"), "'roc_auc', which was skipped: it needs two classes"),
    (("good.npz", "-m", "nll", "--by", "site", "--require", "nll[site=west] < 1"), "choose from north, south"),
])  # fmt: skip
def test_a_gate_that_cannot_be_answered_is_bad_usage(files, run_here, monkeypatch, tmp_path, args, said):
    monkeypatch.chdir(files)
    out = tmp_path / "out.json"
    done = run_here("evaluate", *args, *QUICK, "--json", out)
    assert done.code == 2
    assert said in one_line(done)
    assert done.out == ""
    assert not out.exists()


def test_metrics_of_gates_are_computed(files, run_here, tmp_path):
    out = tmp_path / "out.json"

    def computed(*args):
        assert run_here("evaluate", files / "good.npz", *args, *QUICK, "--json", out, "-q").code == 0
        return set(json.loads(out.read_text())["results"][0]["metrics"])

    assert computed("-m", "nll", "--fail-on", "ece( bins = 5 ) > 0.9", "--fail-on", "nll > 9") == {"nll", "ece(bins=5)"}
    assert computed("-m", "nll") | {"ece(bins=5)"} < computed("--fail-on", "ece(bins=5) > 0.9")
    assert "accuracy" in computed("--ladder", "--fail-on", "accuracy < 0.1")


def test_groups(files, run_here):
    common = ("evaluate", files / "good.npz", "-m", "nll", "--by", "site", "-q")
    assert run_here(*common, "--require", "worst nll by site < 2", "--fail-on", "nll[site=north] > 2").code == 0
    failed = run_here(*common, "--fail-on", "worst nll by site > 0.01")
    assert failed.code == 1
    assert "the worst of 2 groups" in failed.err


def test_checks(files, run_here):
    common = ("check", files / "good.npz", "--draws", "200", "-q")
    assert run_here(*common, "--require", "all pass", "--fail-on", "nll.two_sided < 0.001").code == 0
    failed = run_here("check", files / "sure.npz", "--draws", "200", "-s", "accuracy", "--fail-on", "nll fails", "-q")
    assert failed.code == 1
    assert "nll" in one_line(failed)
    assert run_here(*common, "--require", "entropy passes").code == 0  # no statistic of the usual ones


def test_recalibration(files, run_here, tmp_path):
    common = ("recalibrate", "--fit", files / "sure.npz", "-q")
    out = tmp_path / "mended.npz"
    assert run_here(*common, "--require", "nll gain > 0", "--fail-on", "nll > 1.5", "-o", out).code == 0
    out.unlink()
    failed = run_here(*common, "--fail-on", "nll gain > 0", "--fail-on", "sce > 0.9", "-o", out)
    assert failed.code == 1
    assert "nll gain" in one_line(failed)
    assert out.exists()


def test_detection(files, run_here):
    common = ("detect", "--inside", files / "good.npz", "--outside", files / "other.npz", *QUICK, "-q")
    assert run_here(*common, "--require", "auroc > 0.6").code == 0
    assert run_here(*common, "--fail-on", "other: auroc > 0.6").code == 1
    assert run_here(*common, "--fail-on", "nll > 0.6").code == 2


def test_a_stored_evaluation(files, run_here, tmp_path):
    stored, gated = tmp_path / "stored.json", tmp_path / "gated.json"
    run_here("evaluate", files / "sure.npz", "-m", "nll", "--json", stored, "-q")
    kept = stored.read_bytes()
    done = run_here("gate", stored, "--fail-on", "nll > 90", "--require", "nll < 1", "--json", gated)
    assert done.code == 1
    assert one_line(done).startswith("gate failed: require nll < 1: nll ")
    assert done.out.startswith("gate passed: fail-on nll > 90: nll ")
    assert done.out.count("\n") == 1
    assert stored.read_bytes() == kept
    assert [item.passed for item in cal.Evaluation.load(gated).gates] == [True, False]
    again = run_here("gate", gated, "--fail-on", "nll > 90", "-q")
    assert (again.code, again.out, again.err) == (0, "", "")
    for args, said in (
        ((stored,), "--fail-on or --require"),
        ((stored, "--require", "brier < 1"), "choose from nll"),
        ((files / "good.npz", "--require", "nll < 1"), "got a file of predictions; evaluate it first"),
        ((stored, "--require", "nll <"), "write for example"),
    ):
        bad = run_here("gate", *args)
        assert bad.code == 2
        assert said in one_line(bad)


def test_a_stored_comparison(run_here, tmp_path):
    path = COMPARED.save(tmp_path / "compared.json")
    assert run_here("gate", path, "--fail-on", "new worse than old by nll", "--require", "new best", "-q").code == 0
    failed = run_here("gate", path, "--require", "new better than old by accuracy", "-q")
    assert failed.code == 1
    assert "accuracy of new minus old" in one_line(failed)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two models of 400 rows and 5 classes; `i` held one label impossible."""
    folder = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(400, 5))
    labels = (logits + rng.gumbel(size=(400, 5))).argmax(1)
    found = {"a": logits, "i": 0.9 * logits, "b": logits + 0.5 * rng.normal(size=logits.shape)}
    for name, z in found.items():
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        if name == "i":
            p[7, labels[7]] = 0.0
            p[7] /= p[7].sum()
        cal.write(cal.Classification.from_probs(p, labels), folder / f"{name}.npz")
    return folder


def test_an_infinite_loss_decides_live_and_stored(models, run_here, monkeypatch, tmp_path):
    monkeypatch.chdir(models)
    stored = tmp_path / "stored.json"
    hold = ("--require", "a better than i by cll", "--require", "a not worse than i by nll", "--require", "a best")
    fail = ("--fail-on", "i worse than a by nll")
    done = run_here("compare", "a=a.npz", "i=i.npz", *QUICK, "-q", "--json", stored, *hold, *fail)
    assert done.code == 1
    assert one_line(done).startswith("gate failed: fail-on i worse than a by nll: nll of i minus a is infinite")
    again = run_here("gate", stored, *hold, *fail, "-q")
    assert (again.code, again.err) == (1, done.err)


def test_data_sets(models, run_here, monkeypatch, tmp_path):
    monkeypatch.chdir(models)
    stored = tmp_path / "stored.json"
    given = ("d/a=a.npz", "d/b=b.npz", "e/a=b.npz", "e/b=a.npz")
    gates = ("--require", "d/a better than d/b by cll", "--fail-on", "e/a better than e/b", "--require", "a: cll > -2")
    assert run_here("compare", *given, *QUICK, "-q", "--json", stored, *gates).code == 0
    assert run_here("gate", stored, *gates, "-q").code == 0
    failed = run_here("gate", stored, "--fail-on", "a best", "--require", "a better than b", "-q")
    assert failed.code == 1
    first, second = failed.err.splitlines()
    assert "d/a has rank 1" in first
    assert "cll of a minus b 0.0000" in second


def test_a_reader_that_leaves_early_does_not_open_the_gate(files):
    """`calibrant evaluate … | true` fails as it should."""
    command = [sys.executable, "-m", "calibrant", "evaluate", files / "sure.npz", "-m", "nll", "--fail-on", "nll > 1"]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stdout:
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("gate failed: ")
