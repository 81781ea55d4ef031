"""What tests of several folders share: where data lie, and how the program is run."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import numpy as np
import pytest

import calibrant

# Two workers, and the small matrices of tests: threads of BLAS and PyTorch would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# How long an example takes depends on what else the machine does: no test fails for that.
hypothesis.settings.register_profile("calibrant", deadline=None)
hypothesis.settings.load_profile("calibrant")

GPU_REASON = "needs a GPU: make test-gpu"


def pytest_collection_modifyitems(items):
    """Skip the tests marked `gpu` on a machine without one, unless CALIBRANT_GPU=required."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked or os.environ.get("CALIBRANT_GPU") == "required":
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=GPU_REASON))


def pytest_terminal_summary(terminalreporter):
    """Name the tests that were skipped for want of a GPU."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if "gpu" in report.keywords]
    if skipped:
        terminalreporter.section(f"skipped, {GPU_REASON}")
        for report in skipped:
            terminalreporter.line(report.nodeid)


ENTRY = "from calibrant.cli.main import run; run()"


@dataclass(frozen=True)
class Ran:
    """What a run of the program left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def data_folder():
    """`CALIBRANT_DATA`, or shared/data beside the repository."""
    given = os.environ.get("CALIBRANT_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real data are not at {folder}; set CALIBRANT_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def networks(data_folder):
    """networks(file): what a file of real predictions holds."""

    def read(name):
        path = data_folder / "predictions" / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"{path} is not there")
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)

    return read


@pytest.fixture(scope="session")
def demo():
    """The bundled prediction files by name: test, validation, shifted, glyphs."""
    folder = Path(calibrant.__file__).parent / "demo_data"
    return {path.stem.removeprefix("digits_"): path for path in sorted(folder.glob("digits_*.npz"))}


@pytest.fixture(scope="session")
def run_cli():
    """Run the program in a process of its own: run_cli("evaluate", path, CALIBRANT_THREADS="1")."""

    def run(*args, before="", stdout=subprocess.PIPE, **env):
        start = ["-c", f"{before}\n{ENTRY}"] if before else ["-m", "calibrant"]
        command = [sys.executable, *start, *map(str, args)]
        done = subprocess.run(
            command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120, env={**os.environ, **env}
        )
        return Ran(done.returncode, done.stdout or "", done.stderr)

    return run


@pytest.fixture
def run_here(monkeypatch, capsys):
    """Run the program in this process, which is fast; warnings are errors here, as everywhere in the tests."""
    from calibrant.cli.main import run

    def run_in_process(*args):
        monkeypatch.setattr(sys, "argv", ["calibrant", *map(str, args)])
        monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # typer sets its own
        capsys.readouterr()
        code = 0
        try:
            run()
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run_in_process
