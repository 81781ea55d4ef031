"""How many files and functions of the package a reader has to follow: a profile of three ways to evaluate.

    python scripts/profile_files.py            counts for the command line, its default, and the Python call
    python scripts/profile_files.py --files    every file too, with the functions called in it

A file counts if at least one of its functions is called; code that runs when a module is imported or a kernel compiled
does not count, and neither do class bodies, lambdas and comprehensions as functions of their own. Each case runs in a
fresh process.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

CASES = {
    "calibrant evaluate FILE -m nll": ["evaluate", "{file}", "-m", "nll"],
    "calibrant evaluate FILE": ["evaluate", "{file}"],
    'cal.evaluate(p, "nll")': [],
}
LIMITS = {"calibrant evaluate FILE -m nll": 50, "calibrant evaluate FILE": 85, 'cal.evaluate(p, "nll")': 30}
CODE_OF_IMPORTS = frozenset({"<module>", "<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"})


def write_logits(path: Path, n: int = 10_000, classes: int = 10) -> None:
    """Logits and labels of an overconfident model."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(n, classes)) * 2.0
    gumbel = -np.log(-np.log(rng.random((n, classes))))
    np.savez(path, logits=(2.0 * logits).astype(np.float32), labels=(logits + gumbel).argmax(axis=1))


class CallRecorder:
    """The calls of functions defined in a package, in order of their first call."""

    def __init__(self, package: Path) -> None:
        """Record functions of the files below `package`."""
        self.package = str(package)
        self.calls: dict[tuple[str, str], int] = {}
        self.order: list[tuple[str, str]] = []
        """The functions in the order of their first call, as (file, qualified name)."""

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Count a call; the hook for `sys.setprofile`."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self.package) or code.co_name in CODE_OF_IMPORTS:
            return
        if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a class
            return
        if self.is_preparing(frame):
            return
        key = (code.co_filename.removeprefix(self.package + "/"), code.co_qualname)
        if key not in self.calls:
            self.order.append(key)
        self.calls[key] = self.calls.get(key, 0) + 1

    def is_preparing(self, frame: FrameType | None) -> bool:
        """Whether a module of the package is being imported or a kernel compiled, which is not part of the path."""
        while frame is not None:
            file = frame.f_code.co_filename
            if "/numba/" in file or (frame.f_code.co_name == "<module>" and file.startswith(self.package)):
                return True
            frame = frame.f_back
        return False


def record(arguments: list[str], file: str) -> list[tuple[str, str]]:
    """Run one case in this process; every function of the package that it calls, in order of the first call."""
    import threading

    import calibrant as cal

    recorder = CallRecorder(Path(cal.__file__).parent)
    predictions: Any = None if arguments else cal.read(file)
    if arguments:
        from calibrant.cli.start import run
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        if arguments:
            sys.argv = ["calibrant", *(part.format(file=file) for part in arguments)]
            run()
        else:
            cal.evaluate(predictions, "nll")
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return recorder.order


def profile(arguments: list[str], file: Path) -> list[tuple[str, str]]:
    """As `record`, in a fresh process; a run before it compiles the kernels, which is not part of the path."""
    command = [sys.executable, __file__, "--record", str(file), *arguments]
    subprocess.run(command, capture_output=True, check=True)  # compiles what was not compiled yet
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return [(path, name) for path, name in json.loads(process.stdout.splitlines()[-1])]


def main() -> None:
    """Print the counts and, with --files, the files."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "logits.npz"
        write_logits(file)
        for case, arguments in CASES.items():
            functions = profile(arguments, file)
            files = Counter(path for path, _ in functions)
            print(f"{case}: {len(files)} files (at most {LIMITS[case]}), {len(functions)} functions")
            if "--files" in sys.argv:
                for path, count in sorted(files.items()):
                    names = [name for where, name in functions if where == path]
                    print(f"    {path} {count}: {', '.join(names)}")


if __name__ == "__main__":
    if "--record" in sys.argv:
        print("\n" + json.dumps(record(sys.argv[3:], sys.argv[2])))
    else:
        main()
