"""Where a result cannot be written, one line says so and nothing half-written is left behind."""

import errno
import os
from pathlib import Path

import pytest

FULL = Path("/dev/full")
WITH_LIMIT = """
import resource, sys, calibrant
calibrant.evaluate(calibrant.read(sys.argv[2]))  # compiled kernels are stored before the disk is "full"
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
"""
needs_dev_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")


def no_space(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_in_the_midst_of_a_result(good, tmp_path, run_cli, expect_refusal):
    expect_refusal(
        lambda *args: run_cli(*args, before=WITH_LIMIT), ["evaluate", good], ["out.json", "nothing was written"]
    )
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_full_disk_at_the_very_end_of_a_result(option, good, tmp_path, monkeypatch, run_here, expect_refusal):
    out = tmp_path / "result"
    monkeypatch.setattr(os, "fsync", no_space)
    for older in (None, b"an older result"):
        if older is not None:
            out.write_bytes(older)
        ran = run_here("evaluate", good, option, out)
        assert (ran.code, ran.out) == (2, "")
        assert "No space left on device" in ran.err
        assert ran.err.count("\n") == 1
        assert (out.read_bytes() if out.exists() else None) == older
        assert {path.name for path in tmp_path.iterdir()} <= {"good.npz", "result"}


@needs_dev_full
@pytest.mark.parametrize("option", ["--json", "--html"])
def test_full_device_for_a_result(option, good, run_here):
    ran = run_here("evaluate", good, option, FULL)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("calibrant: /dev/full: expected ")
    assert "No space left on device" in ran.err


@needs_dev_full
@pytest.mark.parametrize("command", ["evaluate", "describe"])
def test_full_device_for_what_is_printed(command, good, run_cli):
    with FULL.open("w") as full:
        ran = run_cli(command, good, stdout=full)
    assert "Traceback" not in ran.err
    assert ran.code == 2
    assert ran.err.startswith("calibrant: ")
    assert "No space left on device" in ran.err


def test_reader_that_has_gone_is_no_failure(good, run_cli):
    """`calibrant evaluate FILE | head -1`: exit code 1 would mean that a gate has failed."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ran = run_cli("evaluate", good, stdout=writer)
    finally:
        os.close(writer)
    assert ran.err == ""
    assert ran.code == 0


def test_interrupted(good, tmp_path, monkeypatch, run_here):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("calibrant.pipeline.evaluate.run_evaluation", interrupt)
    ran = run_here("evaluate", good, "--json", tmp_path / "out.json")
    assert (ran.code, ran.out) == (130, "")
    assert "Traceback" not in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["good.npz"]


def test_exhausted_memory_is_one_line(good, tmp_path, monkeypatch, run_here, expect_refusal):
    def exhaust(*_, **__):
        raise MemoryError

    monkeypatch.setattr("calibrant.pipeline.evaluate.run_evaluation", exhaust)
    expect_refusal(run_here, ["evaluate", good], ["memory"])
