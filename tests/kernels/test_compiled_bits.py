"""The same bits from kernels that were just compiled and from those loaded from the cache, by any number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import hashlib
import numpy as np
import calibrant as cal
from calibrant.kernels.kernel_pairs import skce_sums
from calibrant.kernels.rows import rows_of

rng = np.random.default_rng(0)
p = rng.dirichlet(np.ones(3), 1200)
y = rng.integers(0, 3, 1200)
z = rng.normal(size=(2, 300, 100)).astype(np.float32)
members = cal.Classification.from_logits(z, rng.integers(0, 100, 300))
for threads in (1, 2, 2, 1, 2):
    sums = skce_sums(p, y, 0.5, threads)
    print(sums.total.hex(), sums.squares.hex(), hashlib.sha256(sums.rows.tobytes()).hexdigest())
record = rows_of(members)
print("members", *(hashlib.sha256(x.tobytes()).hexdigest() for x in (record.confidence, record.entropy, record.lse)))
"""


def _bits(cache: Path) -> tuple[set[str], str]:
    """The distinct sums over pairs of several runs in one new process, and the record of averaged members."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    *pairs, members = run.stdout.splitlines()
    return set(pairs), members


def test_a_run_that_compiles_and_one_that_loads_give_the_same_bits(tmp_path: Path) -> None:
    (compiled,), members = _bits(tmp_path)
    assert _bits(tmp_path) == ({compiled}, members)
