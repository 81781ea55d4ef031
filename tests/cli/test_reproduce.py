"""calibrant reproduce: what is listed, what is refused, and what is printed of a finished folder."""

import json
import shutil
import sys

import pytest
from bench.tiny import TINY, made

from calibrant.bench.gopal import Plan

NO_TORCH = "import sys; sys.modules['torch'] = None"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished folder without pictures."""
    path = tmp_path_factory.mktemp("reproduced") / "tiny"
    with pytest.MonkeyPatch.context() as patch:
        made(path, patch)
    return path


@pytest.fixture
def folder(finished, tmp_path, monkeypatch):
    """A copy of it, which the settings of the command belong to; nothing can be drawn."""
    monkeypatch.setattr(Plan, "of", classmethod(lambda cls, seeds=3, *, quick=False: TINY))
    monkeypatch.setitem(sys.modules, "altair", None)
    return shutil.copytree(finished, tmp_path / "copy")


@pytest.mark.parametrize("args", [[], ["gopal"]], ids=["all", "one-paper"])
def test_without_a_table_there_is_a_list(args, run_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = run_here("reproduce", *args)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("gopal: Gopal (2021)")
    assert "\n  table1: " in ran.out
    assert not list(tmp_path.iterdir())


REFUSED = {
    "paper": (["gopel"], ["'gopel'", "did you mean 'gopal'?"]),
    "paper-with-table": (["gopel", "table1"], ["'gopel'", "did you mean 'gopal'?"]),
    "table": (["gopal", "tabel1"], ["table of gopal", "'tabel1'", "did you mean 'table1'?"]),
    "device": (["gopal", "table1", "--device", "cdua"], ["--device", "did you mean 'cuda'?"]),
    "seeds": (["gopal", "table1", "--seeds", "0"], ["seeds", "got 0"]),
    "json-over-predictions": (["gopal", "table1", "--json", "a.npz"], ["--json", "a.npz"]),
}


@pytest.mark.parametrize(("args", "says"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_told_in_one_line(args, says, run_here, told_in_one_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told_in_one_line(run_here("reproduce", *args), says)
    assert not list(tmp_path.iterdir())


def test_without_pytorch_it_says_what_to_install(run_cli, told_in_one_line, tmp_path):
    ran = run_cli("reproduce", "gopal", "table1", "--quick", "--out", tmp_path / "out", before=NO_TORCH)
    told_in_one_line(ran, ["PyTorch", "calibrant[torch]"])
    assert not (tmp_path / "out").exists()


def test_the_table_is_printed_with_what_the_paper_says(folder, run_here):
    ran = run_here("reproduce", "gopal", "table1", "--out", folder)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == TINY.title
    assert max(len(line) for line in lines if not line.startswith(("written", "no figures"))) <= 80
    assert ["Bayesian", "Ensemble", "paper", "0.034", "0.008", "0.197", "0.396"] in [line.split() for line in lines]
    assert sum(line[:2] in ("✓ ", "! ", "✗ ") for line in lines) == 7
    assert f"written: {folder / 'table1.json'}" in lines
    assert lines[-1] == "no figures and no report: altair is not installed; run `pip install 'calibrant[report]'`"


def test_quiet_prints_nothing_and_json_is_the_stored_table(folder, run_here, tmp_path):
    ran = run_here("reproduce", "gopal", "table1", "--out", folder, "-q", "--json", tmp_path / "out.json")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (tmp_path / "out.json").read_text() == (folder / "table1.json").read_text()
    printed = run_here("reproduce", "gopal", "table1", "--out", folder, "--json", "-").out
    assert printed == (folder / "table1.json").read_text()


def test_check_of_a_written_file_gives_the_numbers_of_the_table(folder, run_here):
    told = json.loads((folder / "table1.json").read_text())
    file = folder / "seed-1" / "deep_ensemble-out.npz"
    ran = run_here("check", file, "-s", "calibration_error", "--draws", TINY.draws, "--rule", "range", "--json", "-")
    (found,) = json.loads(ran.out)["results"]
    cells = {(cell["reading"], cell["set"]): cell["seeds"][1] for cell in told["results"]}
    for reading, key in (("Bayesian Ensemble", "checks"), ("Independent Ensemble", "checks_independent")):
        assert {**found[key]["calibration_error"], "seed": 1} == cells[reading, "out"]


def test_another_plan_in_the_folder_is_refused(finished, run_here, told_in_one_line):
    told_in_one_line(run_here("reproduce", "gopal", "table1", "--out", finished), ["plan.json", "--out"])
