"""Where compiled kernels are kept, and that threads survive a fork."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

PRINT_FOLDER = "from calibrant.kernels.jit import cache_folder; print(cache_folder())"


def folder_under(cache_home, **more):
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache_home), **more}
    done = subprocess.run(
        [sys.executable, "-c", PRINT_FOLDER], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_compiled_kernels_live_in_a_private_folder(tmp_path):
    folder = Path(folder_under(tmp_path))
    assert folder.is_relative_to(tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path):
    folder = Path(folder_under(tmp_path))
    folder.chmod(0o777)
    assert folder_under(tmp_path) == "None"


def test_no_folder_at_all_is_no_reason_to_fail(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert folder_under(blocked) == "None"


def test_other_numba_code_keeps_its_own_cache(tmp_path):
    code = "import numba as n; a = n.config.CACHE_DIR; import calibrant.kernels.rows; print(n.config.CACHE_DIR == a)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_can_use_threads_again():
    code = """
import os, numpy as np
from calibrant.kernels.rows import rows_of
from calibrant.predictions import Classification
p = Classification.from_logits(np.zeros((120_000, 10), np.float32), np.zeros(120_000, int))
rows_of(p, threads=2)
child = os.fork()
if child == 0:
    rows_of(p, threads=2)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "7", done.stderr
