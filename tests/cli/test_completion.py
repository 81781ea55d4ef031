"""Completion: what shells are offered, quickly, and that the names are those of the registry."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from calibrant.checks.label_statistics import OWN
from calibrant.cli import completion
from calibrant.conformal.lookup import METHODS as CONFORMAL
from calibrant.predictions.arrays import RESERVED
from calibrant.recalibration.lookup import METHODS
from calibrant.registry.lookup import metrics
from calibrant.scores.uncertainty import ROW_SCORES

QUIET = "import atexit, sys; atexit.register(lambda: print('numba' in sys.modules, file=sys.stderr))"
START = f"{QUIET}\nfrom calibrant.cli.start import run; run()"


def asked(shell, words):
    """What a shell is offered for the last of some words."""
    env = {"_CALIBRANT_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        env |= {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    else:
        env |= {"_TYPER_COMPLETE_ARGS": " ".join(words), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(
        [sys.executable, "-c", START], capture_output=True, text=True, timeout=60, env={**os.environ, **env}
    )
    assert done.stderr == "False\n"  # the compiler was not loaded
    return done.stdout


def offered(shell, words):
    """The same as a list of words."""
    out = asked(shell, words)
    if shell == "zsh":
        return [line.split('"')[1] for line in out.splitlines() if '"' in line]
    return [line.split("\t")[0] for line in out.splitlines() if line]


CASES = {
    "command": (["calibrant", "eval"], ["evaluate"]),
    "option": (["calibrant", "evaluate", "--fa"], ["--fail-on"]),
    "metric": (["calibrant", "evaluate", "a.npz", "--metrics", "brier,smooth"], ["brier,smooth_ece"]),
    "method": (["calibrant", "recalibrate", "--method", "isotonic"], ["isotonic", "isotonic_multiclass"]),
    "format": (["calibrant", "check", "--format", "l"], ["latex"]),
    "file": (["calibrant", "evaluate", "digits"], []),
}


@pytest.mark.parametrize(("words", "names"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_offered_what_there_is(shell, words, names):
    assert offered(shell, words) == names


def test_zsh_completes_files_where_nothing_is_offered():
    assert asked("zsh", ["calibrant", "evaluate", "digits"]).strip() == "_files"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_names_the_program(shell, run_here, monkeypatch):
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: shell)
    ran = run_here("--show-completion")
    assert ran.code == 0
    assert "_CALIBRANT_COMPLETE" in ran.out
    assert f"complete_{shell}" in ran.out


def test_names_are_those_that_there_are():
    assert tuple(metrics()) == completion.metric_names()
    assert tuple(METHODS) == completion.method_names()
    assert tuple(CONFORMAL) == completion.CONFORMAL
    assert tuple(ROW_SCORES) == completion.UNCERTAINTIES
    assert tuple(OWN) == completion.LABEL_STATISTICS
    assert set(completion.NOT_COLUMNS) <= set(RESERVED)


def test_names_behind_commas_are_not_offered_twice():
    assert completion.metrics("nll,nl") == []
    assert completion.metrics("ece,nl") == ["ece,nll"]
    assert completion.statistics("nll,conf") == ["nll,confusion"]


def test_columns_are_those_of_the_files(good, tmp_path):
    context = SimpleNamespace(params={"files": (f"{good}::member=0", "not there.npz")}, args=())
    assert completion.columns(context, "") == ["labels", "age", "site"]
    assert completion.columns(context, "s") == ["site"]
    table = tmp_path / "a.csv"
    table.write_text('"kind",p_a\n1,2\n')
    assert completion.columns(SimpleNamespace(params={}, args=[str(table)]), "k") == ["kind"]
