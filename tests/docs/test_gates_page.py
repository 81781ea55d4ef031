"""What the page on gates gives to copy: the workflow, the pytest file, and every gate of its table."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import calibrant as cal
from calibrant.gates.api import Gate

PAGE = (Path(__file__).parents[2] / "docs" / "gates.md").read_text(encoding="utf-8")


def block(title):
    return re.search(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)[1]


def test_the_workflow_is_one_and_its_commands_run(run_here, demo, tmp_path, monkeypatch):
    yaml = pytest.importorskip("yaml")
    flow = yaml.safe_load(block("uncertainty.yml"))
    steps = flow["jobs"]["gates"]["steps"]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    lines = [line for step in steps for line in step.get("run", "").splitlines() if line.startswith("calibrant ")]
    assert [line.split()[1] for line in lines] == ["evaluate", "check", "compare"]
    monkeypatch.chdir(tmp_path)
    shutil.copy(demo["test"], "predictions.npz")
    cal.write(cal.read(demo["test"], member=0), "released.npz")
    for line in lines:
        ran = run_here(*shlex.split(line)[1:])
        assert ran.code == 0, line
        assert "gate passed" in ran.out  # a green build says what it found
        assert re.fullmatch(r"\d gates? passed(, \d of them inconclusively)?\n", ran.err)
    kept = {path.name for path in tmp_path.iterdir()}
    assert {"evaluation.json", "evaluation.html", "check.json", "comparison.json"} <= kept
    judging = [step for step in steps if "calibrant " in step.get("run", "") and "pip" not in step["run"]]
    assert all(step["if"] == "always()" and step["run"].count("calibrant ") == 1 for step in judging)
    shutil.copy(demo["shifted"], "predictions.npz")
    assert run_here(*shlex.split(lines[0])[1:]).code == 1


def test_the_pytest_file_is_red_where_it_should_be(demo, tmp_path):
    (tmp_path / "test_uncertainty.py").write_text(block("test_uncertainty.py"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_uncertainty.py"]
    shutil.copy(demo["shifted"], tmp_path / "predictions.npz")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stdout
    assert "2 failed" in done.stdout
    assert "gate failed: fail-on nll > 0.3: nll 1.2" in done.stdout


def test_the_pytest_file_is_green_where_it_should_be(demo):
    names = {}
    exec(compile(block("test_uncertainty.py"), "test_uncertainty.py", "exec"), names)  # noqa: S102
    held = cal.evaluate(cal.read(demo["test"]), "nll,ece,accuracy")
    tests = [test for name, test in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test(held)


def test_every_gate_that_is_told_is_one():
    table = "".join(
        PAGE.partition(head)[2].partition("\n\n```")[0] for head in ("## Gate syntax", "### Several data sets")
    )
    told = [text for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for text in re.findall(r"`([^`]+)`", row)]
    assert len(told) >= 28
    for text in told:
        Gate.parse(text, "require")
