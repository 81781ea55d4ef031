"""Training that was killed (SIGKILL) goes on as if nothing had happened, to the last bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from training import interrupted  # noqa: E402
from training.cases import same_bits  # noqa: E402

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder that trainings were killed in."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, str(Path(interrupted.__file__)), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", [*interrupted.CASES, "ensemble-writing"])
def test_what_was_killed_goes_on_to_the_same_end(killed, name):
    case = name.removesuffix("-writing")
    whole, seen = interrupted.fit(case), []
    resumed = interrupted.fit(case, checkpoint=killed / name, progress=lambda what, epoch, of: seen.append(epoch))
    assert seen[0] == interrupted.EPOCH - (name != case)
    assert same_bits(whole, resumed)
    x = interrupted.CASES[case][1]().x
    np.testing.assert_array_equal(whole.predict(x, 2).scores, resumed.predict(x, 2).scores)
    assert [dict(each) for each in whole.about.history] == [dict(each) for each in resumed.about.history]


def test_a_file_that_was_half_written_is_left_alone_and_not_read(killed):
    folder = killed / "ensemble-writing" / "group0"
    assert len(list(folder.glob(".*.part"))) == 1
    assert (folder / "part0.safetensors").exists()
