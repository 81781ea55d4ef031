"""The simulated experiment from end to end, by tiny settings: what is in its folder, and what becomes of a stop."""

import json
import os
import shutil
import signal
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from bench.tiny import SETTINGS, TINY, made
from scipy.stats import norm

import calibrant as cal
from calibrant.bench.gopal import Plan, figures, runner, table1, train
from calibrant.bench.gopal.data import GRID
from calibrant.bench.gopal.paper import PAPER
from calibrant.bench.gopal.table import Table1
from calibrant.errors import UsageError

STATISTIC = "calibration_error"
KILLED = """
import os, signal
import calibrant.training.loop
calibrant.training.loop.CHECKPOINT_RATIO = 0.0  # a checkpoint after every epoch, however short
from calibrant.bench.gopal import Plan, table1
def progress(what, done, total):
    if what.startswith("deep_ensemble") and done == 3:
        os.kill(os.getpid(), signal.SIGKILL)
table1({out!r}, plan=Plan(**{settings!r}), progress=progress)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished folder, with figures and page."""
    path = tmp_path_factory.mktemp("gopal") / "whole"
    made(path)
    return path


@pytest.fixture(scope="module")
def table(folder):
    return Table1.load(folder / "table1.json")


def stored(folder):
    return (folder / "table1.json").read_bytes()


def refuse(*args, **known):
    raise AssertionError("this was done already")


# ------------------------------------------------------------------------------------------- what is there
def test_the_folder_holds_every_step(folder):
    assert json.loads((folder / "plan.json").read_text()) == TINY.to_json()
    seed = {path.name for path in (folder / "seed-1").iterdir()}
    assert seed == {
        f"{model}{rest}"
        for model in ("deep_ensemble", "mc_dropout")
        for rest in (".safetensors", "-in.npz", "-out.npz", "-in.json", "-out.json")
    }
    assert not (folder / "checkpoints").exists()


def test_figures_are_pictures_that_say_by_which_settings_they_were_made(folder):
    for number in (3, 4, 5, 10):
        drawn = folder / "figures" / f"figure-{number}"
        text = drawn.with_suffix(".svg").read_text()
        assert ElementTree.fromstring(text).tag.endswith("svg")  # noqa: S314
        assert f"Figure {number}" in text
        assert "own settings" in text
        assert drawn.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text()
    assert "own settings" in page
    assert "seed 1, MC dropout, out of distribution" in page


def test_members_and_rows_are_those_of_the_plan(folder):
    for model, members in (("deep_ensemble", 4), ("mc_dropout", 6)):
        for where, rows in (("in", 120), ("out", 200)):
            found = cal.read(folder / "seed-0" / f"{model}-{where}.npz")
            assert (found.members, found.n) == (members, rows)
            assert np.all(((found.info.columns["x"] >= -1.5) & (found.info.columns["x"] <= 0)) == (where == "out"))


# --------------------------------------------------------------------------------------------- the numbers
def test_numbers_are_those_of_check_on_the_written_files(folder, table):
    for seed, checks in enumerate(table.seeds):
        for (reading, where), check in checks.items():
            model = "mc_dropout" if reading == "MC Dropout" else "deep_ensemble"
            members = "independent" if reading == "Independent Ensemble" else "bayesian"
            file = folder / f"seed-{seed}" / f"{model}-{where}.npz"
            again = cal.check(cal.read(file), STATISTIC, draws=TINY.draws, members=members, rule="range")
            assert again[STATISTIC].to_json() == check.to_json()


def test_the_observed_value_is_the_sum_over_100_levels_of_the_mixture(folder, table):
    found = cal.read(folder / "seed-1" / "mc_dropout-out.npz")
    below = norm.cdf(found.y, found.mean, found.std).mean(axis=0)
    levels = np.arange(1, 101) / 100
    error = sum((level - np.mean(below < level)) ** 2 for level in levels)
    assert table.seeds[1]["MC Dropout", "out"].observed == pytest.approx(error, rel=1e-9)


def test_a_second_run_gives_the_same_table(folder, tmp_path, monkeypatch):
    whats = set()
    again = made(tmp_path / "again", monkeypatch, progress=lambda what, done, total: whats.add(what))
    assert stored(tmp_path / "again") == stored(folder)
    assert "altair is not installed" in again.missing_package
    assert not (tmp_path / "again" / "report.html").exists()
    assert "deep_ensemble, 8 at once" in whats  # both seeds in one computation
    assert "mc_dropout, 2 at once" in whats


def test_seeds_differ(table):
    assert len({checks["MC Dropout", "in"].observed for checks in table.seeds}) == 2


def test_the_table_has_the_papers_numbers_above_ours(folder, table):
    text = (folder / "table1.md").read_text()
    lines = [line.strip("| ").split(" | ") for line in text.splitlines()]
    assert ["Independent Ensemble", "paper", "0.088", "0.002", "1.0", "0.001"] in lines
    assert ["Bayesian Ensemble", "paper", "0.034", "0.008", "0.197", "0.396"] in lines
    assert ["MC Dropout", "paper", "0.227", "0.057", "0.186", "1.319"] in lines
    pairs = [
        (checks["MC Dropout", s].p_value, checks["MC Dropout", s].sharpness)
        for checks in table.seeds
        for s in ("in", "out")
    ]
    assert f"| seed 1 | {pairs[2][0]:.3f} | {pairs[2][1]:.4f} | {pairs[3][0]:.3f} | {pairs[3][1]:.4f} |" in text
    assert f"| median | {(pairs[0][0] + pairs[2][0]) / 2:.3f} |" in text
    assert text.startswith("# Gopal (2021), table 1, own settings: 5 epochs, 300 rows, 4 members")
    assert text.count("reproduced") >= 7


def test_what_is_stored_comes_back(folder, table):
    assert table.dumps() + "\n" == (folder / "table1.json").read_text()
    cells = json.loads(table.dumps())["results"]
    assert {
        (cell["reading"], cell["set"]): (cell["paper"]["p_value"], cell["paper"]["sharpness"]) for cell in cells
    } == PAPER


# ------------------------------------------------------------------------------------------------- figures
def test_functions_are_smooth_where_members_draw_them_whole_and_noisy_where_not(folder):
    along = {model: cal.read(folder / "seed-0" / f"{model}-along.npz") for model in ("deep_ensemble", "mc_dropout")}
    drawn = figures.readings_along(along)
    every = along["deep_ensemble"].mean
    assert np.array_equal(drawn["Bayesian Ensemble"], every)
    noisy = drawn["Independent Ensemble"]
    assert np.all(np.any(noisy[:, None] == every[None], axis=1))  # at each x some member
    assert not any(np.array_equal(one, member) for one in noisy for member in every)
    rough = {name: np.square(np.diff(lines, 2)).mean() for name, lines in drawn.items()}
    assert rough["Independent Ensemble"] > 100 * max(rough["Bayesian Ensemble"], rough["MC Dropout"])
    assert drawn["MC Dropout"].shape == (6, len(GRID))


def test_total_uncertainty_is_the_spread_of_the_mixture(folder):
    found = cal.read(folder / "seed-0" / "mc_dropout-along.npz")
    squares = (found.mean**2 + found.std**2).mean(axis=0)
    assert np.allclose(figures.total_std(found) ** 2, squares - found.mean.mean(axis=0) ** 2)


# ---------------------------------------------------------------------------------------- stops and folders
def test_a_killed_run_goes_on_from_its_last_epoch_and_gives_the_same_table(folder, tmp_path, monkeypatch):
    out = tmp_path / "killed"
    code = KILLED.format(out=str(out), settings=SETTINGS)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, env={**os.environ})
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not list(out.glob("seed-*/*.safetensors"))
    told = []
    made(out, monkeypatch, progress=lambda what, done, total: told.append((what, done)))
    assert min(done for what, done in told if what.startswith("deep_ensemble")) == 3
    assert stored(out) == stored(folder)


def test_what_is_finished_is_not_done_again(folder, tmp_path, monkeypatch):
    copy = shutil.copytree(folder, tmp_path / "copy")
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*.*") if path.parent != copy}
    for name in ("train_posteriors", "predict"):
        monkeypatch.setattr(runner, name, refuse)
    table1(copy, plan=TINY)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    for path in copy.glob("seed-*/*"):  # judged elsewhere: checks alone are left
        if path.suffix != ".json":
            path.unlink()
    table1(copy, plan=TINY)
    assert stored(copy) == stored(folder)


def test_networks_trained_elsewhere_are_judged_here(folder, tmp_path, monkeypatch):
    there, here = tmp_path / "there", tmp_path / "here"
    files = train(there, plan=TINY)
    assert len(files) == 4
    for file in (there / "plan.json", *files):
        place = here / file.relative_to(there)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    monkeypatch.setattr(runner, "train_posteriors", refuse)
    made(here, monkeypatch)
    assert stored(here) == stored(folder)


def test_another_plan_is_refused_before_anything_is_done(folder, monkeypatch):
    monkeypatch.setattr(runner, "train_posteriors", refuse)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    with pytest.raises(UsageError, match="kind 'own', not 'full'"):
        table1(folder)
    with pytest.raises(UsageError, match="seeds '2', not '3'"):
        table1(folder, plan=Plan(**{**SETTINGS, "seeds": 3}))
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize("seeds", [0, -1, 101, True, 1.5])
def test_seeds_are_a_whole_number(seeds):
    with pytest.raises(UsageError, match="seeds: expected an integer"):
        Plan.of(seeds)


def test_the_papers_settings_are_those_of_appendix_f():
    plan = Plan.of()
    assert (plan.members, plan.masks, plan.dropout, plan.draws) == (50, 128, 0.1, 1000)
    assert (plan.hidden, plan.activation, plan.epochs, plan.batch) == ((128, 128, 128), "elu", 500, 128)
    assert (plan.rate, plan.halved_every) == (5e-3, 100)


def test_only_the_papers_settings_go_without_a_mark():
    assert Plan.of(7).title == "Gopal (2021), table 1"
    assert Plan.of(7, quick=True).title == "Gopal (2021), table 1, quick run: 20 epochs, 5000 rows, 10 members"
    assert Plan(epochs=499).title == "Gopal (2021), table 1, own settings: 499 epochs, 10000 rows, 50 members"
    assert [Plan.of(quick=quick).to_json()["kind"] for quick in (False, True)] == ["full", "quick"]
