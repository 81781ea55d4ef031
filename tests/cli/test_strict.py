"""--strict: exit code 2 after everything is written, for every command; gates alone give 1."""

import json

import numpy as np
import pytest

import calibrant as cal


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 3)) * 2
    labels = np.array([rng.choice(3, p=np.exp(z) / np.exp(z).sum()) for z in logits])
    np.savez(tmp_path / "clean.npz", logits=logits, labels=labels)
    np.savez(tmp_path / "other.npz", logits=rng.normal(size=(200, 3)), labels=labels)
    np.savez(tmp_path / "stray.npz", logits=logits, labels=labels, stray=np.zeros((2, 2)))
    confidence = rng.uniform(0.2, 0.9, 300)
    cal.write(cal.Judged.from_confidence(confidence, rng.random(300) < confidence), tmp_path / "judged.npz")
    stray = dict(np.load(tmp_path / "judged.npz"), stray=np.zeros((2, 2)))
    np.savez(tmp_path / "judged_stray.npz", **stray)
    return tmp_path


COMMANDS = {
    "evaluate": ("evaluate", "{file}", "-m", "nll", "--json", "{out}"),
    "check": ("check", "{file}", "--draws", "20", "--json", "{out}"),
    "compare": ("compare", "a={file}", "b={other}", "--scores", "cll,nll", "--resamples", "50", "--json", "{out}"),
    "recalibrate": ("recalibrate", "--fit", "{other}", "--apply", "{file}", "--resamples", "50", "--json", "{out}"),
    "conformal": ("conformal", "--fit", "{other}", "--apply", "{file}", "--json", "{out}"),
    "detect": ("detect", "--inside", "{other}", "--outside", "{file}", "--json", "{out}"),
    "describe": ("describe", "{file}"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_outputs_are_written_and_the_code_is_2(run_here, folder, command):
    arguments = [
        part.format(file=folder / "stray.npz", other=folder / "other.npz", out=folder / "out.json")
        for part in COMMANDS[command]
    ]
    loose = run_here(*arguments)
    assert loose.code == 0, loose.err
    written = (folder / "out.json").read_text() if command != "describe" else ""
    (folder / "out.json").unlink(missing_ok=True)
    strict = run_here(*arguments, "--strict")
    if command == "conformal":  # its notes are those of the prediction
        assert strict.code in (0, 2)
        return
    assert strict.code == 2
    assert strict.out == loose.out
    assert "calibrant: --strict: " in strict.err
    assert strict.err.count("\n") == 1
    if written:
        assert (folder / "out.json").read_text() == written


def test_without_a_warning_the_code_is_0(run_here, folder):
    assert run_here("evaluate", folder / "clean.npz", "-m", "nll,brier,accuracy", "--strict").code == 0
    assert run_here("describe", folder / "clean.npz", "--strict").code == 0


def test_a_failed_gate_alone_gives_1_and_a_warning_2(run_here, folder):
    for file, strict, code in (
        ("clean", [], 1),
        ("clean", ["--strict"], 1),
        ("stray", [], 1),
        ("stray", ["--strict"], 2),
    ):
        out = folder / "gated.json"
        ran = run_here("evaluate", folder / f"{file}.npz", "-m", "nll", "--require", "nll<0.01", "--json", out, *strict)
        assert ran.code == code, (file, strict, ran.err)
        assert json.loads(out.read_text())["gates"]
        out.unlink()


def test_intervals_that_may_under_cover_count(run_here, folder):
    ran = run_here("evaluate", folder / "clean.npz", "-m", "ce", "--json", "-")
    assert json.loads(ran.out)["results"][0]["metrics"]["ce"]["method"].endswith("-approximate")
    strict = run_here("evaluate", folder / "clean.npz", "-m", "ce", "--strict")
    assert strict.code == 2
    assert "the interval of ce may under-cover" in strict.err
