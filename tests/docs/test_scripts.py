"""Scripts, benchmarks and simulations import: renaming a function of the package must not break them."""

import importlib
import json
import math
import sys

import numpy as np
import pytest
from docs.pages import ROOT

import calibrant as cal

MODULES = sorted(
    f"{folder}.{path.stem}"
    for folder in ("benchmarks", "evidence", "scripts")
    for path in (ROOT / folder).glob("*.py")
    if path.stem != "__init__"
)


@pytest.mark.parametrize("name", MODULES)
def test_scripts_import(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("torch", "matplotlib", "altair"):
        if library in (ROOT / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8"):
            pytest.importorskip(library)
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setattr(sys, "argv", [name])
    assert importlib.import_module(name).__doc__


def test_tables_of_evidence_are_found_on_the_page_that_they_were_written_to() -> None:
    run = importlib.import_module("evidence.run")
    count = run.counts_for(run.FULL)
    parts = {name: [f"| {name} |", "| --- |", f"| {k} |"] for k, name in enumerate(run.jobs_for(run.FULL, count))}
    page = run.page_of(parts, run.FULL, count)
    found = run.tables_on(page)
    assert found["binned"] == parts["binned"]
    assert run.page_of({name: found[name] for name in parts}, run.FULL, count) == page


def test_simulations_of_null_bands_leave_out_intervals_and_keep_bands():
    """What the simulations replace must exist, and the bands must stay those of the library."""
    from evidence.simulation import null_bands_only

    rng = np.random.default_rng(0)
    p, logits, y = rng.uniform(0.5, 1.0, 400), rng.normal(size=(400, 3)), rng.normal(size=400)
    models = {
        "ece,ks": cal.Judged.from_confidence(p, rng.random(400) < p),
        "cwce": cal.Classification.from_logits(logits, rng.integers(0, 3, 400)),
        "mace": cal.Regression.from_gaussian(np.zeros(400), np.ones(400), y=y),
    }
    for metrics, predictions in models.items():
        whole = cal.evaluate(predictions, metrics, resamples=200, curves=False)
        with null_bands_only():
            bands = cal.evaluate(predictions, metrics, resamples=200, curves=False)
        for name in metrics.split(","):
            assert math.isfinite(whole[name].high)
            assert math.isnan(bands[name].high)
            assert (bands[name].null_low, bands[name].null_high) == (whole[name].null_low, whole[name].null_high)
            assert bands[name].p_value == whole[name].p_value


def test_golden_files_continue_after_a_command_that_fails(tmp_path, monkeypatch, capsys) -> None:
    golden = importlib.import_module("scripts.golden")
    commands = {"bad": "evaluate nothing.npz", "evaluate": "evaluate small.npz -m nll --resamples 20"}
    monkeypatch.setattr(golden, "COMMANDS", commands | {"monitor": golden.COMMANDS["monitor"]})
    assert golden.write(tmp_path / "a", []) == 1
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["evaluate.json", "monitor.json"]
    assert "bad: exit code 2" in capsys.readouterr().err


def test_golden_files_list_every_changed_number(tmp_path, capsys) -> None:
    golden = importlib.import_module("scripts.golden")
    for name, shift in (("one", 0), ("two", 1)):
        rows = [{"label": k + shift, "p": 0.5, "title": name} for k in range(60)]
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(json.dumps({"version": shift, "warnings": [name], "worst_rows": rows}))
    assert golden.compare(tmp_path / "one", tmp_path / "two") == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 61
    assert lines[0] == "a.json/worst_rows/0/label: 0 -> 1"
