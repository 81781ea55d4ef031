"""Kernels that are compiled ahead: plans are complete, helpers may die, and nothing but the wait changes."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from calibrant.kernels import compile as ahead
from calibrant.kernels import jit
from calibrant.kernels.compile import Compilation, Kernel, every_kernel, planned
from calibrant.kernels.loops.floats import log64

SMALL = Kernel("floats", "log64", "(float64,)", 0.1)
STALE = Kernel("sums", "limbs", "(int64, int64, int64)", 5.0)
MISSED = """
import sys
from numba.core import event
from calibrant.kernels import compile as ahead
missed, depth, planned = [], 0, 0
class Listener(event.Listener):
    def on_start(self, happened):
        global depth
        if depth == 0 and not planned:
            missed.append(happened.data["dispatcher"].py_func.__name__)
        depth += 1
    def on_end(self, happened):
        global depth
        depth -= 1
compile = ahead.Kernel.compile
def counted(kernel):
    global planned
    planned += 1
    try:
        compile(kernel)
    finally:
        planned -= 1
ahead.Kernel.compile = counted
event.register("numba:compile", Listener())
from calibrant.cli.main import app
try:
    app(prog_name="calibrant")
finally:
    sys.stderr.write(f"missed: {missed}")
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty folder of compiled kernels, for this process and those that it starts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for function in (jit.cache_folder, jit.compiled_list, jit.compiled_keys):
        function.cache_clear()
    yield tmp_path / "cache"
    for function in (jit.cache_folder, jit.compiled_list, jit.compiled_keys):
        function.cache_clear()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Small inputs, scores of float32 and float64."""
    folder = tmp_path_factory.mktemp("inputs")
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4000, 10)) * 2
    labels = (z + rng.gumbel(size=z.shape)).argmax(1)
    np.savez(folder / "classes.npz", logits=z.astype(np.float32), labels=labels)
    members = (z + rng.normal(size=(3, 4000, 10)) * 0.5).astype(np.float64)
    np.savez(folder / "members.npz", logits=members, labels=labels)
    p = rng.uniform(size=3000)
    np.savez(folder / "binary.npz", probs=p, labels=(rng.uniform(size=3000) < p).astype(int))
    np.savez(folder / "numbers.npz", mean=p, std=np.ones(3000), y=p + rng.normal(size=3000))
    return folder


@pytest.mark.parametrize(
    "words",
    ["evaluate classes.npz", "evaluate binary.npz --metrics nll,ece", "check members.npz", "evaluate numbers.npz"],
)
def test_plans_name_every_kernel_that_a_first_run_calls(words, files, cache):
    done = subprocess.run(
        [sys.executable, "-c", MISSED, *words.split()], cwd=files, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("missed: []")


def test_plans_fit_the_kernels():
    for kernel in every_kernel():
        assert (Path(ahead.__file__).parent / "loops" / f"{kernel.module.replace('.', '/')}.py").exists()
        assert "float16" not in kernel.signature
    assert planned("logits of few classes", ["nll"], "float64")
    assert not any("float32" in kernel.signature for kernel in planned("logits of few classes", ["nll"], "float64"))
    assert planned("no such work", ["nll"]) == []


def test_fresh_and_warm_runs_print_the_same(files, cache):
    words = [sys.executable, "-m", "calibrant", "evaluate", "classes.npz", "--metrics", "nll,brier"]
    fresh, warm = (subprocess.run(words, cwd=files, capture_output=True, text=True) for _ in range(2))
    assert fresh.returncode == warm.returncode == 0
    assert fresh.stdout == warm.stdout
    assert fresh.stderr == warm.stderr == ""


def test_what_was_compiled_is_not_compiled_again(cache):
    counts = []
    with Compilation([SMALL], 1, lambda done, total: counts.append((done, total))) as first:
        assert not first.has([SMALL])
        first.until([SMALL])
        assert first.has([SMALL])
    assert counts == [(1, 1)]
    assert Compilation([SMALL], 1).total == 0
    jit.compiled_keys.cache_clear()  # as another process, which reads the list
    assert Compilation([SMALL], 1).total == 0


def test_helpers_compile_into_the_same_folder(cache):
    kernels = [SMALL._replace(seconds=2.0), Kernel("floats", "exp64", "(float64,)", 2.0)]
    with Compilation(kernels, 2) as compilation:
        assert len(compilation.helpers) == 1
        with compilation.changed:  # the helper alone
            assert compilation.changed.wait_for(lambda: not compilation.unfinished, timeout=60)
    assert Compilation(kernels, 2).total == 0
    assert len(list(cache.rglob("*.nbc"))) == 2


def test_a_helper_that_dies_leaves_its_kernel_to_the_caller(cache, monkeypatch):
    monkeypatch.setattr(ahead.sys, "executable", "/bin/false")
    kernels = [SMALL._replace(seconds=2.0), Kernel("floats", "exp64", "(float64,)", 2.0)]
    with Compilation(kernels, 3) as compilation:
        compilation.until(kernels)
        assert compilation.done == 2
    assert Compilation(kernels, 1).total < 2  # at least one was compiled here, and none is listed that was not
    assert np.log(2.0) == pytest.approx(log64(2.0))


def test_no_interpreter_means_no_helper(cache, monkeypatch):
    monkeypatch.setattr(ahead.sys, "executable", "/no/such/python")
    kernels = [SMALL._replace(seconds=2.0), Kernel("floats", "exp64", "(float64,)", 2.0)]
    with Compilation(kernels, 2) as compilation:
        compilation.until(kernels)
        assert compilation.helpers == []
    assert Compilation(kernels, 2).total == 0


def test_a_stale_plan_stops_nothing(cache):
    with Compilation([STALE, STALE._replace(name="gone"), SMALL], 2) as compilation:
        compilation.until([STALE, SMALL])
        compilation.until(compilation.unfinished)
    assert Compilation([SMALL], 1).total == 0
    assert Compilation([STALE], 1).total == 1


def test_without_a_private_folder_nothing_is_compiled_ahead(monkeypatch):
    monkeypatch.setattr(jit, "compiled_list", lambda: None)
    assert Compilation([SMALL], 4).total == 0


def test_the_script_of_a_user_runs_once(tmp_path, cache):
    script = tmp_path / "mine.py"  # no `if __name__ == "__main__"`, and a module of a name that helpers import
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    script.write_text(
        "import sys; sys.path.pop(0)\nprint('started')\nimport numpy as np, calibrant as cal\n"
        "z = np.random.default_rng(0).normal(size=(3000, 4))\n"
        "print(cal.evaluate(cal.Classification.from_logits(z, z.argmax(1)), 'nll')['nll'].n)\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "started\n3000\n", "")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_an_interrupt_ends_helpers_too(files, cache):
    words = [sys.executable, "-c", "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
             "from calibrant.cli.main import run; run()", "evaluate", "classes.npz"]  # fmt: skip
    running = subprocess.Popen(words, cwd=files, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    helper = wait_for(lambda: children.read_text().split())[0]
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert (out, err) == ("", "calibrant: interrupted\n")
    state = Path(f"/proc/{helper}/stat")
    assert wait_for(lambda: not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z")


def wait_for(condition, seconds=30.0):
    """The first true value of the condition."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if value := condition():
            return value
        time.sleep(0.05)
    return pytest.fail("waited in vain")


def test_a_helper_answers_what_it_is_asked(cache):
    lines = json.dumps(SMALL) + "\n" + json.dumps(STALE._replace(name="gone")) + "\n"
    done = subprocess.run(
        [sys.executable, "-m", "calibrant.kernels.compile"], input=lines, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == [SMALL.key, "AttributeError"]
    assert done.returncode == 0
