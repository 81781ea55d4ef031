"""Whole commands, with a fresh and a warm kernel cache, compared with a script that gives the same answers.

    python -m benchmarks.commands [--quick] [--write docs/speed.md]      the first part of the page, the rest stays

Every time is that of a new process, from start to exit, best of three (fresh: once, with an empty folder for compiled
kernels; Python's own bytecode is there in both, as pip leaves it). The script for classes reads the same file and
computes accuracy, NLL, Brier score, entropy and ECE with scikit-learn, netcal and NumPy, and a percentile bootstrap of
1000 resamples for each, which Calibrant's intervals replace; that for regression calls `get_all_metrics` of
uncertainty-toolbox, once. The first table is timed on a pseudo-terminal. The yardstick, NumPy's sort of ten million
floats, tells how fast the machine is.
"""

from __future__ import annotations

import argparse
import compileall
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import calibrant

CLASSES = {"A": (10_000, 10), "B": (10_000, 100), "C": (50_000, 1000)}
FEW = "nll,brier,entropy,accuracy,ece"
ROUNDS = 3
KERNELS = "## Kernels\n"
"""The heading of the next part."""
HEAD = """\
## Whole commands

Seconds from start to exit of a new process on {threads} threads (`python -m benchmarks.commands{quick}`). *Fresh*: the
first run after an installation, when kernels are compiled; *first values*: when they appear on a terminal in that run;
*warm*: every later run. *Script*: the same answers by scikit-learn, netcal and a bootstrap loop, or for regression by
`get_all_metrics` of uncertainty-toolbox, where there is such a script. NumPy sorts ten million floats in
{yardstick:.2f} s on this machine. `import calibrant; calibrant.evaluate` takes {imports:.2f} s (Numba alone
{numba:.2f} s, SciPy's special functions {scipy:.2f} s). A process that imports Typer, NumPy, SciPy's special functions
and Numba and calls one kernel of a single addition, compiled before, takes {floor:.2f} s: no command is faster.

| command | fresh | first values | warm | script | script / warm |
| --- | ---: | ---: | ---: | ---: | ---: |
"""
SCRIPT = """
import sys
import numpy as np
file = np.load(sys.argv[1])
labels = file["labels"]
if "logits" in file:
    z = file["logits"].astype(float)
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
else:
    p = file["probs"].astype(float)
    p = np.stack([1 - p, p], 1)
from netcal.metrics import ECE
from sklearn.metrics import accuracy_score, log_loss
rows = np.arange(len(labels))
nll, brier = -np.log(p[rows, labels]), (p**2).sum(1) - 2 * p[rows, labels] + 1
entropy, hit, confidence = -(p * np.log(np.maximum(p, 1e-300))).sum(1), p.argmax(1) == labels, p.max(1)
print(accuracy_score(labels, p.argmax(1)), log_loss(labels, p, labels=np.arange(p.shape[1])), brier.mean())
print(entropy.mean(), ECE(15).measure(p if p.shape[1] > 2 else p[:, 1], labels))
random = np.random.default_rng(0)
bins = np.minimum((confidence * 15).astype(int), 14)
found = []
for _ in range(1000):
    drawn = random.integers(0, len(labels), len(labels))
    gaps = np.bincount(bins[drawn], (confidence - hit)[drawn], 15)
    found.append([nll[drawn].mean(), brier[drawn].mean(), entropy[drawn].mean(), hit[drawn].mean(),
                  np.abs(gaps).sum() / len(labels)])
print(np.quantile(found, [0.025, 0.975], axis=0))
"""
NUMBERS = """
import sys
import numpy as np
import uncertainty_toolbox as uct
file = np.load(sys.argv[1])
uct.metrics.get_all_metrics(file["mean"], file["std"], file["y"], verbose=False)
"""


class Command(NamedTuple):
    """A command, the file it reads, and the script that gives the same answers."""

    words: str
    file: str
    script: str = ""


def write_inputs(folder: Path, quick: bool) -> None:
    """Simulated predictions, slightly overconfident."""
    rng = np.random.default_rng(0)
    for name, (n, classes) in CLASSES.items():
        if quick and name == "C":
            continue
        z = 2.0 * rng.normal(size=(n, classes)).astype(np.float32)
        labels = (z + rng.gumbel(size=z.shape)).argmax(1)
        np.savez(folder / f"{name}.npz", logits=1.2 * z, labels=labels)
        if name == "A":
            noise = 0.5 * rng.normal(size=(10, *z.shape)).astype(np.float32)
            np.savez(folder / "members.npz", logits=z + noise, labels=labels)
    p = rng.beta(0.6, 3.0, 1_000_000)
    np.savez(folder / "binary.npz", probs=p.astype(np.float32), labels=(rng.random(len(p)) < p).astype(np.int64))
    mean = rng.normal(size=1_000_000)
    np.savez(folder / "regression.npz", mean=mean, std=np.ones_like(mean), y=mean + rng.normal(size=len(mean)))


def commands(quick: bool) -> list[Command]:
    """What users wait for."""
    listed = [
        Command(f"evaluate A.npz --metrics {FEW}", "A.npz", SCRIPT),
        Command("evaluate A.npz", "A.npz"),
        Command("check members.npz", "members.npz"),
        Command("evaluate B.npz", "B.npz", SCRIPT),
        Command("evaluate C.npz", "C.npz", SCRIPT),
        Command("evaluate binary.npz", "binary.npz", SCRIPT),
        Command("evaluate regression.npz", "regression.npz", "" if quick else NUMBERS),
        Command("evaluate A.npz --metrics report", "A.npz"),
    ]
    return [command for command in listed if not (quick and command.file == "C.npz")]


def environment(cache: Path) -> dict[str, str]:
    """The variables of a run with this folder of compiled kernels."""
    return {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONDONTWRITEBYTECODE": ""}


def seconds(words: list[str], folder: Path, cache: Path) -> float:
    """One run in a new process."""
    started = time.perf_counter()
    subprocess.run(words, cwd=folder, check=True, capture_output=True, env=environment(cache))
    return time.perf_counter() - started


def first_values(words: list[str], folder: Path, cache: Path) -> float:
    """Seconds until values are shown on a terminal, in a run that still compiles; NaN if they are not shown early."""
    ours, theirs = os.openpty()
    started, shown = time.perf_counter(), float("nan")
    running = subprocess.Popen(
        words, cwd=folder, stdout=subprocess.DEVNULL, stderr=theirs, env={**environment(cache), "TERM": "xterm"}
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other side was closed
            part = b""
        if not part:
            break
        text += part
        if shown != shown and b"intervals follow" in text:
            shown = time.perf_counter() - started
    running.wait()
    os.close(ours)
    return shown


KERNEL = """
import numba
@numba.njit(cache=True)
def add(x):
    return x + 1.0
"""


def floor(folder: Path) -> float:
    """Seconds of a process that loads what every command needs and calls one compiled kernel; best of five."""
    (folder / "one_kernel.py").write_text(KERNEL, encoding="utf-8")
    words = [sys.executable, "-c", "import typer, numpy, scipy.special, one_kernel; one_kernel.add(1.0)"]
    return min(seconds(words, folder, folder) for _ in range(6))


def importing(statement: str) -> float:
    """Seconds of a process that only imports, less those of one that does nothing; best of five."""
    best = {}
    for code in ("pass", statement) * 5:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment(Path(tempfile.gettempdir())))
        best[code] = min(best.get(code, 9.0), time.perf_counter() - began)
    return best[statement] - best["pass"]


def yardstick() -> float:
    """Seconds to sort ten million floats."""
    values = np.random.default_rng(0).random(10_000_000)
    started = time.perf_counter()
    np.sort(values)
    return time.perf_counter() - started


def rows(folder: Path, quick: bool) -> list[str]:
    """One line of the table for each command."""
    lines = []
    for command in commands(quick):
        words = [sys.executable, "-m", "calibrant", *command.words.split()]
        with tempfile.TemporaryDirectory() as cache:
            early = first_values(words, folder, Path(cache)) if words[3] == "evaluate" else float("nan")
        with tempfile.TemporaryDirectory() as cache:
            fresh = seconds(words, folder, Path(cache))
            ours, theirs = [], []
            for _ in range(ROUNDS):  # in turns, so that a busy moment hits both
                ours.append(seconds(words, folder, Path(cache)))
                if command.script and len(theirs) < (1 if command.file in ("C.npz", "regression.npz") else ROUNDS):
                    theirs.append(seconds([sys.executable, "-c", command.script, command.file], folder, Path(cache)))
        warm = min(ours)
        script = f"{min(theirs):.1f} | {min(theirs) / warm:.1f}" if theirs else "– | –"
        values = "–" if early != early else f"{early:.1f}"
        lines.append(f"| `{command.words}` | {fresh:.1f} | {values} | {warm:.2f} | {script} |")
        print(lines[-1], flush=True)
    return lines


def section(quick: bool) -> str:
    """The part of the page on whole commands."""
    compileall.compile_dir(str(Path(calibrant.__file__).parent), quiet=1)
    speed = yardstick()
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(Path(folder), quick)
        statements = {"numba": "import numba", "scipy": "import scipy.special"}
        statements["imports"] = "import calibrant; calibrant.evaluate"
        imports = {name: importing(statement) for name, statement in statements.items()}
        imports["floor"] = floor(Path(folder))
        head = HEAD.format(
            threads=len(os.sched_getaffinity(0)), yardstick=speed, quick=" --quick" if quick else "", **imports
        )
        print(head, end="", flush=True)
        return head + "\n".join(rows(Path(folder), quick)) + "\n"


def main() -> None:
    """Time everything, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without 50,000 rows of 1000 classes")
    parser.add_argument("--write", type=Path, help="replace this part of a page that benchmarks.run wrote")
    settings = parser.parse_args()
    text = section(settings.quick)
    if settings.write:
        before, _, rest = settings.write.read_text(encoding="utf-8").partition("## Whole commands\n")
        _, sign, kernels = rest.partition(KERNELS)
        settings.write.write_text(f"{before}{text}\n{sign}{kernels}", encoding="utf-8")


if __name__ == "__main__":
    main()
