"""Written whole or not at all: a killed process, a full disk and a broken value leave the old file, or none."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import calibrant as cal
from calibrant.errors import UsageError, WriteError
from calibrant.predictions.files import numpy_files

RNG = np.random.default_rng(8)
OLD = cal.Classification.from_logits(RNG.normal(size=(5, 3)), [0, 1, 2, 0, 1])
NEW = cal.Classification.from_logits(RNG.normal(size=(3000, 3)), RNG.integers(0, 3, 3000))
FILES = ("npz", "csv", "jsonl")
WRITER = """
import sys, numpy as np, calibrant as cal
rng = np.random.default_rng(0)
n = int(sys.argv[2])
made = cal.Classification.from_logits(rng.normal(size=(n, 20)), np.zeros(n, int))
print("ready", flush=True)
cal.write(made, sys.argv[1])
print("done", flush=True)
"""


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def start_writer(path, rows):
    command = [sys.executable, "-c", WRITER, str(path), str(rows)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def kill_during_the_write(folder, path, rows):
    """Kill -9 as soon as anything but the final name holds bytes; whether it was in time."""
    with start_writer(path, rows) as process:
        assert process.stdout.readline() == "ready\n"
        while process.poll() is None:
            begun = [part for part in folder.rglob("*") if part.name.startswith(".") and part.is_file()]
            if any(part.exists() and part.stat().st_size for part in begun):
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.001)
        return process.wait() == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
@pytest.mark.parametrize("form", FILES)
def test_killed_write_leaves_the_old_file(form, tmp_path):
    path = tmp_path / f"p.{form}"
    cal.write(OLD, path)
    before = path.read_bytes()
    rows = {"npz": 100_000, "csv": 20_000, "jsonl": 20_000}[form]
    assert kill_during_the_write(tmp_path, path, rows), "the write was over before it could be killed"
    assert path.read_bytes() == before
    assert (cal.read(path).scores == OLD.scores).all()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_killed_write_of_a_folder_leaves_none_or_all(tmp_path):
    path = tmp_path / "p"
    kill_during_the_write(tmp_path, f"{path}/", 100_000)
    assert not path.exists() or cal.read(path).n == 100_000


@pytest.mark.parametrize("form", FILES)
def test_readers_see_the_old_or_the_new_file_only(form, tmp_path):
    """While one process writes over a file, another can read it at any time."""
    path = tmp_path / f"p.{form}"
    cal.write(OLD, path)
    seen = set()
    with start_writer(path, 2000) as process:
        while process.poll() is None:
            seen.add(cal.read(path).n)
    seen.add(cal.read(path).n)
    assert seen == {5, 2000}


def test_file_that_is_replaced_while_it_is_read(tmp_path, monkeypatch):
    """Every array, and the fingerprint, come from one and the same file."""
    path = cal.write(OLD, tmp_path / "p.npz")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    other = cal.Classification.from_logits(OLD.scores[0] + 1, (OLD.labels + 1) % 3)
    original = numpy_files.read_body

    def replace_after_reading(*args):
        array = original(*args)
        cal.write(other, path)
        return array

    monkeypatch.setattr("calibrant.predictions.files.numpy_files.read_body", replace_after_reading)
    read = cal.read(path)
    assert (read.scores == OLD.scores).all()
    assert (read.labels == OLD.labels).all()
    assert read.info.sha256 == sha256


@pytest.mark.parametrize("limit", [0, 1, 10_000])
@pytest.mark.parametrize("older", [False, True], ids=["new", "over-an-old-one"])
@pytest.mark.parametrize("form", [*FILES, "folder"])
def test_full_disk_leaves_nothing_behind(form, older, limit, tmp_path):
    resource = pytest.importorskip("resource")
    path = f"{tmp_path / 'p'}/" if form == "folder" else tmp_path / f"p.{form}"
    if older and form != "folder":
        cal.write(OLD, path)
    before = content(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(WriteError, match="nothing was written"):
            cal.write(NEW, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert content(tmp_path) == before
    assert not any(part.is_dir() for part in tmp_path.iterdir())


@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("form", FILES)
def test_failure_of_the_last_step_leaves_nothing_behind(form, call, tmp_path, monkeypatch):
    path = tmp_path / f"p.{form}"
    cal.write(OLD, path)
    before = content(tmp_path)

    def no_space(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, no_space)
    with pytest.raises(WriteError, match="No space left on device"):
        cal.write(NEW, path)
    assert content(tmp_path) == before


def test_interrupt_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cal.write(NEW, tmp_path / "p.npz")
    assert content(tmp_path) == {}


@pytest.mark.parametrize("form", [*FILES, "folder"])
def test_text_that_no_file_can_carry_is_refused_or_kept(form, tmp_path):
    """A lone surrogate is no UTF-8; it may be refused or escaped, but not half-written."""
    made = cal.Classification.from_logits(np.zeros((2, 2)), [0, 1], columns={"site": ["a\ud800", "b"]})
    path = f"{tmp_path / 'p'}/" if form == "folder" else tmp_path / f"p.{form}"
    try:
        cal.write(made, path)
    except cal.CalibrantError:
        assert content(tmp_path) == {}
    else:
        assert cal.read(path).columns["site"].tolist() == ["a\ud800", "b"]


def test_missing_folder_and_unknown_ending(tmp_path):
    with pytest.raises(WriteError, match="No such file or directory"):
        cal.write(OLD, tmp_path / "no" / "p.npz")
    for name in ("p.pkl", "p"):
        with pytest.raises(UsageError, match=r"ends in .npz, .*.jsonl or '/'"):
            cal.write(OLD, tmp_path / name)
    assert content(tmp_path) == {}


def test_too_long_a_name_is_refused(tmp_path):
    with pytest.raises(WriteError, match="File name too long"):
        cal.write(OLD, tmp_path / ("x" * 300 + ".npz"))


def test_folder_that_holds_files_is_not_written_into(tmp_path):
    (tmp_path / "notes.txt").write_text("keep me")
    with pytest.raises(UsageError, match="got a folder with files"):
        cal.write(OLD, tmp_path)
    assert content(tmp_path) == {"notes.txt": b"keep me"}


def test_folders_above_are_made_for_a_folder(tmp_path):
    path = cal.write(OLD, f"{tmp_path / 'a' / 'b'}/")
    assert (cal.read(path).scores == OLD.scores).all()


@pytest.mark.skipif(os.name != "posix", reason="POSIX rights")
def test_files_get_the_rights_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        path = cal.write(OLD, tmp_path / "p.npz")
        folder = cal.write(OLD, f"{tmp_path / 'p'}/")
        evaluation = cal.evaluate(OLD, "nll").save(tmp_path / "e.json")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    assert evaluation.stat().st_mode & 0o777 == 0o640
    assert folder.stat().st_mode & 0o777 == 0o750


def test_the_same_predictions_make_the_same_bytes(tmp_path, monkeypatch):
    """Files can be compared by their hash, whenever they were written."""
    first = cal.write(OLD, tmp_path / "a.npz").read_bytes()
    later = time.time() + 1000
    monkeypatch.setattr(time, "time", lambda: later)
    assert cal.write(OLD, tmp_path / "b.npz").read_bytes() == first
