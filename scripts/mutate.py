"""Mutation testing: change one operator or constant of the package at a time, and see whether a test fails.

    python scripts/mutate.py --out mutants.json                          300 sampled mutants
    python scripts/mutate.py --only src/calibrant/intervals.py:90        every mutant of one line (repeat for more)
    python scripts/mutate.py --resume mutants.json --retry survived      the survivors again, after tests were added

Each mutant is tried in a copy of the tree that one worker owns, with its own folder of compiled kernels. First the test
files run once, to record which functions each test calls, how long it takes, and which tests fail without any mutant
(those are left out). A mutant is then tried with the tests that call the changed function, those of its own area first
and the fastest first, up to `--budget` seconds of recorded time. Compiled functions cannot be recorded, and constants
of modules are not called: the tests of all functions that mention their name, directly or through others like them,
stand in. The tests of command line, reports and docs are left out.

Results are written after every mutant, so an interrupted run can be resumed. The operators: arithmetic and comparisons
exchanged, constants changed (x + 1, 2x, 1.1x for small floats), `and`/`or`, `not` and signs removed, conditions and
returned values negated, min/max exchanged, indices moved by one.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/calibrant")
AREAS = ("kernels", "calibration", "checks", "comparison", "detection", "recalibration")
TESTS = (*AREAS, "conformal", "contracts", "gates", "monitoring", "pipeline", "registry", "results", "scikit", "scores")
SPEED_ONLY = frozenset({
    "AT_A_TIME", "BATCH", "BLOCK", "BLOCK_ELEMENTS", "CACHE", "CHUNK", "EXTRA_ELEMENTS", "FEWEST_FOR_THREADS", "GRAIN",
    "LANES", "LARGE", "LINE", "MOST_ENTRIES", "MOST_SPANS", "PRIVATE_BYTES", "SAMPLE_BLOCK", "SERIAL_BELOW",
    "SINGLE_THREAD", "SPAN_ENTRIES", "SPAN_ROWS", "TILE", "TOGETHER", "W", "WIDTH",
})  # fmt: skip
"""Constants that decide how work is cut into blocks, and change no result: their definitions are not mutated."""
BINARY = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"), ast.Pow: ("**", "*"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.BitXor: ("^", "&"),
}  # fmt: skip
COMPARISONS = {
    ast.Lt: ("<", ("<=", ">=")), ast.LtE: ("<=", ("<", ">")), ast.Gt: (">", (">=", "<=")), ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)), ast.NotEq: ("!=", ("==",)), ast.Is: ("is", ("is not",)), ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)), ast.NotIn: ("not in", ("in",)),
}  # fmt: skip
CALLS = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any",
    "floor": "ceil", "ceil": "floor", "argmin": "argmax", "argmax": "argmin",
}  # fmt: skip
COPIED = 1_700_000_000
"""The time of last change that copies of the kernels get."""
ENDS = {0: "survived", 1: "killed", 2: "killed", 5: "not covered"}
"""What pytest's exit status means: all passed, a test failed, a test file could not be imported, no test ran."""


@dataclass(frozen=True, order=True)
class Mutant:
    """One change of one file: the text from start to stop (byte offsets) is replaced."""

    file: str
    line: int
    start: int
    stop: int
    before: str
    after: str

    @property
    def key(self) -> str:
        """What identifies the mutant in results."""
        return f"{self.file}:{self.line}:{self.start}:{self.after}"


# Mutants of a file ---------------------------------------------------------------------------------------------------


class Mutations:
    """All mutants of one file, grouped by place: a place has several, of which a sample takes one."""

    def __init__(self, file: str, source: bytes) -> None:
        """Parse the file; positions in bytes, as `ast` counts columns."""
        self.file, self.source = file, source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.places: list[list[Mutant]] = []
        for statement in ast.parse(source).body:
            self._visit(statement, in_index=False)

    def _span(self, node: Any) -> tuple[int, int]:
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _add(self, line: int, start: int, stop: int, *replacements: str) -> None:
        before = self.source[start:stop].decode()
        mutants = [Mutant(self.file, line, start, stop, before, text) for text in replacements if text != before]
        if mutants:
            self.places.append(mutants)

    def _operator(self, left: ast.AST, right: ast.AST, text: str, *replacements: str) -> None:
        start, stop = self._span(left)[1], self._span(right)[0]
        place = self.source.find(text.encode(), start, stop)
        if place >= 0:
            self._add(self.source.count(b"\n", 0, place) + 1, place, place + len(text), *replacements)

    def _visit(self, node: ast.AST, in_index: bool) -> None:
        if _is_left_out(node):
            return
        match node:
            case ast.BinOp() if type(node.op) in BINARY and not (_is_text(node.left) or _is_text(node.right)):
                self._operator(node.left, node.right, *BINARY[type(node.op)])
            case ast.AugAssign() if type(node.op) in BINARY:
                old, new = BINARY[type(node.op)]
                self._operator(node.target, node.value, f"{old}=", f"{new}=")
            case ast.Compare():
                for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
                    old, new = COMPARISONS[type(op)]
                    self._operator(left, right, old, *new)
            case ast.BoolOp():
                old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in zip(node.values, node.values[1:], strict=False):
                    self._operator(left, right, old, new)
            case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
                start = self._span(node)[0]
                self._add(node.lineno, start, start + (3 if isinstance(node.op, ast.Not) else 1), "")
            case ast.Constant():
                self._constant(node, in_index)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in CALLS:
                stop = self._span(node.func)[1]
                self._add(node.func.end_lineno or 0, stop - len(name), stop, CALLS[name])
            case ast.If() | ast.IfExp():
                self._wrap(node.test, "not ")
            case ast.Return(value=ast.BinOp() as value) if not isinstance(value.op, ast.Mod | ast.BitOr | ast.BitAnd):
                self._wrap(value, "-")
        for name, child in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list", "type_params", "type_comment"):
                for item in child if isinstance(child, list) else [child]:
                    if isinstance(item, ast.AST):
                        self._visit(item, isinstance(node, ast.Subscript) and name == "slice")

    def _wrap(self, node: ast.expr, sign: str) -> None:
        start, stop = self._span(node)
        self._add(node.lineno, start, stop, f"({sign}({self.source[start:stop].decode()}))")

    def _constant(self, node: ast.Constant, in_index: bool) -> None:
        value, (start, stop) = node.value, self._span(node)
        text = self.source[start:stop].decode()
        if isinstance(value, bool):
            self._add(node.lineno, start, stop, str(not value))
        elif isinstance(value, int):
            more = (f"({text} - 1)",) if in_index else (f"(2 * {text})",) if value > 1 else ()
            self._add(node.lineno, start, stop, f"({text} + 1)", *more)
        elif isinstance(value, float):
            if value == 0.0:
                self._add(node.lineno, start, stop, "1.0")
                return
            more = (f"({text} + 1.0)",) if 0.25 <= abs(value) < 2.0**52 else ()  # where adding one changes it
            self._add(node.lineno, start, stop, *more, f"(2.0 * {text})", f"(1.1 * {text})")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_left_out(node: ast.AST) -> bool:
    """Whether changes below this node are only of words or types, or of the size of blocks."""
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Assert():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name in SPEED_ONLY or name == "__all__"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in ("warn", "UsageError", "TypeVar", "NewType", "getLogger") or name.endswith("Error")
    return False


def sample(count: int, seed: int) -> list[Mutant]:
    """Mutants of different places, drawn from all areas; the same for the same sources and seed."""
    places = []
    for area in AREAS:
        for path in sorted((ROOT / PACKAGE / area).rglob("*.py")):
            places += Mutations(str(path.relative_to(ROOT)), path.read_bytes()).places
    draw = random.Random(seed)  # noqa: S311
    chosen = draw.sample(places, min(count, len(places)))
    return [draw.choice(place) for place in chosen]


def mutants_at(place: str) -> list[Mutant]:
    """All mutants of FILE:LINE."""
    file, _, line = place.rpartition(":")
    found = Mutations(file, (ROOT / file).read_bytes()).places
    return [mutant for mutants in found for mutant in mutants if mutant.line == int(line)]


# Inside pytest, where this file is a plugin --------------------------------------------------------------------------


class Recorder:
    """Records for each test whether it passed, its seconds, and the functions of the package that it called.

    What is called while a file is imported or fixtures are set up counts for each of its tests.
    """

    def __init__(self, out: Path, package: str) -> None:
        """Record functions of files below `package`, into the JSON file `out`."""
        self.out, self.package = out, package
        self.shared: set[str] = set()
        self.tests: dict[str, dict[str, Any]] = {}
        self.calls = self.shared
        sys.settrace(self.trace)
        threading.settrace(self.trace)

    def trace(self, frame: Any, event: str, argument: Any) -> None:
        """Note a call; no local trace function is returned, so that lines cost nothing."""
        code = frame.f_code
        if code.co_filename.startswith(self.package):
            self.calls.add(f"{code.co_filename[len(self.package) :]}:{code.co_firstlineno}")

    def pytest_runtest_setup(self, item: Any) -> None:
        """Calls from here on belong to all tests of the file."""
        self.calls = self.shared

    def pytest_runtest_call(self, item: Any) -> None:
        """Calls from here on belong to this test."""
        self.calls = set()
        self.tests[item.nodeid] = {"calls": self.calls}
        if sys.gettrace() is None:
            sys.settrace(self.trace)

    def pytest_runtest_teardown(self, item: Any) -> None:
        """Calls from here on belong to all tests of the file."""
        self.calls = self.shared

    def pytest_runtest_logreport(self, report: Any) -> None:
        """The outcome of the call, and of set-up and teardown where they fail."""
        test = self.tests.setdefault(report.nodeid, {"calls": set()})
        test["seconds"] = test.get("seconds", 0.0) + report.duration
        test["passed"] = test.get("passed", True) and report.outcome == "passed"

    def pytest_sessionfinish(self) -> None:
        """Write what was recorded."""
        sys.settrace(None)
        tests = {name: {**test, "calls": sorted(test["calls"])} for name, test in self.tests.items()}
        self.out.write_text(json.dumps({"shared": sorted(self.shared), "tests": tests}), encoding="utf-8")


class Selection:
    """Runs the listed tests in the listed order, and logs which test is running and which failed."""

    def __init__(self, tests: list[str], log: Path) -> None:
        """The tests by node id."""
        self.order = {test: place for place, test in enumerate(tests)}
        self.log = log

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Keep and order the tests."""
        kept = [item for item in items if item.nodeid in self.order]
        items[:] = sorted(kept, key=lambda item: self.order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self.log.write_text(nodeid, encoding="utf-8")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test failed."""
        if report.failed:
            self.log.with_suffix(".failed").write_text(report.nodeid, encoding="utf-8")


def pytest_configure(config: Any) -> None:
    """Called by pytest when it loads this file as a plugin: what to do is in the environment."""
    if "MUTATE_RECORD" in os.environ:
        package = str(Path.cwd() / PACKAGE) + os.sep
        config.pluginmanager.register(Recorder(Path(os.environ["MUTATE_RECORD"]), package))
    elif "MUTATE_TESTS" in os.environ:
        tests = Path(os.environ["MUTATE_TESTS"])
        config.pluginmanager.register(Selection(tests.read_text(encoding="utf-8").splitlines(), tests.with_name("log")))


# Copies of the tree, and runs of pytest in them ----------------------------------------------------------------------


class Copy:
    """A copy of the tree, with a cache of compiled kernels of its own."""

    def __init__(self, folder: Path, base: Copy | None = None) -> None:
        """Copy the tree, and the compiled kernels of `base`; without a base, those of an earlier run stay."""
        self.folder, self.cache = folder / "tree", folder / "cache"
        self.base = base
        ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "site")
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(ROOT, self.folder, ignore=ignored)
        for path in (self.folder / PACKAGE / "kernels").rglob("*.py"):
            os.utime(path, (COPIED, COPIED))  # what is compiled stays valid in other copies of the same sources
        if base is not None:
            self.take_kernels(frozenset())

    @property
    def kernels(self) -> Path:
        """The folder of compiled kernels, as `calibrant.kernels.jit.cache_folder` names it."""
        sources = sorted((self.folder / PACKAGE / "kernels").rglob("*.py"))
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
        return self.cache / "calibrant" / f"kernels-{digest}"

    def start(self, *args: str, **env: str) -> subprocess.Popen[bytes]:
        """Start pytest in a process group of its own, which can be ended as a whole."""
        paths = [str(self.folder / "src"), str(self.folder / "scripts"), os.environ.get("PYTHONPATH", "")]
        more = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "XDG_CACHE_HOME": str(self.cache)}
        more |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        more["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mutate", *args]
        environment = {**os.environ, **more, **env}
        output = (self.folder.parent / f"output{threading.get_ident()}").open("wb")
        with output:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=output, stderr=subprocess.STDOUT,
                process_group=0,
            )  # fmt: skip

    def take_kernels(self, stale: frozenset[str]) -> None:
        """The compiled kernels of the base, but those of stale files, where the changed sources look for them.

        Numba compares only the file that a function is in with what it compiled: functions that call a changed one, or
        read a constant of its module, would be loaded as they were.
        """
        from numba.core.caching import _CacheLocator

        assert self.base is not None  # noqa: S101
        shutil.rmtree(self.cache, ignore_errors=True)
        here, there, subpath = self.kernels, self.base.kernels, _CacheLocator.get_suitable_cache_subpath
        here.mkdir(parents=True, mode=0o700)
        for path in {path.parent for path in (self.folder / PACKAGE / "kernels").rglob("*.py")}:
            known = there / subpath(str(self.base.folder / path.relative_to(self.folder) / "x.py"))
            if known.is_dir():
                old = {Path(file).stem for file in stale if (self.folder / file).parent == path}
                ignored = shutil.ignore_patterns(*(f"{stem}.*" for stem in old))
                shutil.copytree(known, here / subpath(str(path / "x.py")), ignore=ignored)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group that we started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# Which tests see a function ------------------------------------------------------------------------------------------


class TestMap:
    """Recorded tests, and the references between names of the package."""

    def __init__(self, recorded: dict[str, Any]) -> None:
        """The tests of each file: {file: {"shared": [function], "tests": {test: {calls, seconds, passed}}}}."""
        self.seconds: dict[str, float] = {}
        self.callers: dict[str, set[str]] = defaultdict(set)
        for file in recorded.values():
            good = {name: test for name, test in file["tests"].items() if test["passed"]}
            for name, test in good.items():
                self.seconds[name] = test["seconds"]
                for function in test["calls"]:
                    self.callers[function].add(name)
            for function in file["shared"]:
                self.callers[function].update(good)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that see the mutant: of its own area first, within that the fastest first."""
        scope = scope_of(mutant)
        tests = self.callers.get(f"{scope.file}:{scope.line}", set()) if scope.line else set()
        tests = tests or self._through_names({scope.name})
        area = f"tests/{Path(mutant.file).parts[2]}/"
        return sorted(tests, key=lambda test: (not test.startswith(area), self.seconds[test], test))

    def _through_names(self, names: set[str]) -> set[str]:
        tests: set[str] = set()
        known: set[str] = set()
        while names:
            known |= names
            further: set[str] = set()
            for scope in _scopes(ROOT):
                if scope.mentions & names and scope.name not in known:
                    called = self.callers.get(f"{scope.file}:{scope.line}", set())
                    tests |= called
                    if not called:
                        further.add(scope.name)
            names = further
        return tests


@dataclass(frozen=True)
class Scope:
    """A function, method, class or constant: the line is that of a function's code, 0 for the others."""

    file: str
    name: str
    line: int
    span: tuple[int, int]
    mentions: frozenset[str]


@cache
def _scopes(root: Path) -> list[Scope]:
    scopes = []
    for path in sorted((root / PACKAGE).rglob("*.py")):
        file = str(path.relative_to(root / PACKAGE))
        scopes += list(_scopes_in(file, ast.parse(path.read_bytes()).body, ""))
    return scopes


def _scopes_in(file: str, body: list[ast.stmt], owner: str) -> Iterator[Scope]:
    for node in body:
        mentions = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        mentions |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
        first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", ()))])
        span = (first, node.end_lineno or first)
        match node:
            case ast.FunctionDef(name=name):
                yield Scope(file, owner if name.startswith("__") and owner else name, first, span, frozenset(mentions))
                nested = [part for part in ast.walk(node) if isinstance(part, ast.FunctionDef) and part is not node]
                yield from _scopes_in(file, nested, owner)
            case ast.ClassDef(name=name):
                yield Scope(file, name, 0, span, frozenset())
                yield from _scopes_in(file, node.body, name)
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        yield Scope(file, owner or part.id, 0, span, frozenset(mentions))


def scope_of(mutant: Mutant) -> Scope:
    """The innermost function or constant around the mutant."""
    file = str(Path(mutant.file).relative_to(PACKAGE))
    around = [scope for scope in _scopes(ROOT) if scope.file == file and scope.span[0] <= mutant.line <= scope.span[1]]
    if not around:
        return Scope(file, Path(file).stem, 0, (0, 0), frozenset())
    return min(around, key=lambda scope: (scope.span[1] - scope.span[0], not scope.line))


@cache
def kernels_that_import(file: str) -> frozenset[str]:
    """The files of the kernels that contain this one's code once compiled: those that import it, and itself."""
    names = {}
    for path in (ROOT / PACKAGE / "kernels").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
        froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
        names[str(path.relative_to(ROOT))] = {node.module for node in froms} | {
            f"{node.module}.{alias.name}" for node in froms for alias in node.names
        }
    found, last = {file}, set[str]()
    while last != found:
        last = set(found)
        modules = {".".join(Path(one).relative_to("src").with_suffix("").parts) for one in found}
        found |= {name for name, imports in names.items() if imports & modules}
    return frozenset(found)


# The run -------------------------------------------------------------------------------------------------------------


class Run:
    """Records the tests, then tries mutants in parallel."""

    def __init__(self, args: argparse.Namespace) -> None:
        """Nothing is copied or run yet."""
        self.args = args
        self.work = Path(args.work).resolve()
        self.end = time.monotonic() + args.seconds
        self.results: dict[str, dict[str, Any]] = {}
        self.lock = threading.Lock()

    @cached_property
    def base(self) -> Copy:
        """The unchanged copy, whose compiled kernels all others start from."""
        return Copy(self.work / "base")

    def record(self) -> dict[str, Any]:
        """The recorded tests: those of test files that are new or have changed run now, twice (see `record_file`)."""
        stored = Path(self.args.tests)
        recorded: dict[str, Any] = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {}
        files = sorted(
            path for folder in self.args.folders.split(",") for path in (ROOT / "tests" / folder).glob("test_*.py")
        )
        digests = {str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        recorded = {file: recorded[file] for file in digests if recorded.get(file, {}).get("sha256") == digests[file]}
        missing = sorted(set(digests) - set(recorded), key=lambda file: -(ROOT / file).stat().st_size)
        is_compiled = self.base.kernels.is_dir()
        with ThreadPoolExecutor(self.args.workers) as pool:
            list(pool.map(lambda file: self.record_file(file, "compile"), missing if is_compiled else digests))
            for file, tests in pool.map(lambda file: self.record_file(file, "record"), missing):
                recorded[file] = {**tests, "sha256": digests[file]}
                stored.write_text(json.dumps(recorded), encoding="utf-8")
        tests = [test for file in recorded.values() for test in file["tests"].values()]
        passed = sum(test["passed"] for test in tests)
        print(f"{len(recorded)} test files, {passed} of {len(tests)} tests pass; {self._left():.0f} s left", flush=True)
        return recorded

    def record_file(self, file: str, purpose: str) -> tuple[str, dict[str, Any]]:
        """One test file in the unchanged copy: first without tracing, which would slow the compiler down."""
        out = self.base.folder.parent / f"{file.replace('/', '_')}.json"
        env = {"MUTATE_RECORD": str(out)} if purpose == "record" else {}
        process = self.base.start(file, **env)
        try:
            process.wait(timeout=2 * self.args.limit)
        except subprocess.TimeoutExpired:
            _end(process)
        if purpose == "record" and out.exists():
            return file, json.loads(out.read_text(encoding="utf-8"))
        return file, {"shared": [], "tests": {}}

    def all(self, mutants: list[Mutant], tests: TestMap) -> None:
        """Try the mutants, each in a copy that is free, until the time is over."""
        copies: SimpleQueue[Copy] = SimpleQueue()
        count = min(self.args.workers, len(mutants))
        with ThreadPoolExecutor(count) as pool:
            for copy in pool.map(lambda k: Copy(self.work / f"worker{k}", self.base), range(count)):
                copies.put(copy)
            list(pool.map(lambda mutant: self.one(mutant, tests, copies), mutants))

    def one(self, mutant: Mutant, tests: TestMap, copies: SimpleQueue[Copy]) -> None:
        """Try one mutant and store its result; nothing if the time is over."""
        if self._left() < 0:
            return
        copy = copies.get()
        began = time.monotonic()
        chosen = tests.tests_of(mutant)
        changed = copy.folder / mutant.file
        original, times = changed.read_bytes(), changed.stat()
        try:
            changed.write_bytes(original[: mutant.start] + mutant.after.encode() + original[mutant.stop :])
            compiled = changed.is_relative_to(copy.folder / PACKAGE / "kernels")
            if compiled:
                copy.take_kernels(kernels_that_import(mutant.file))
            result, test = self._try(copy, mutant, chosen, tests, compiled)
        finally:
            changed.write_bytes(original)
            os.utime(changed, ns=(times.st_atime_ns, times.st_mtime_ns))
            for stale in changed.parent.glob(f"__pycache__/{changed.stem}.*"):
                stale.unlink()
            if changed.is_relative_to(copy.folder / PACKAGE / "kernels"):
                copy.take_kernels(frozenset())
            copies.put(copy)
        if result == "out of time":
            return
        seconds = round(time.monotonic() - began, 1)
        entry = asdict(mutant) | {"result": result, "test": test, "tests": len(chosen), "seconds": seconds}
        with self.lock:
            self.results[mutant.key] = entry
            self.write()
            print(f"{result:11} {seconds:6.1f} s  {mutant.file}:{mutant.line}  {mutant.before!r} -> {mutant.after!r}"
                  f"  {test}", flush=True)  # fmt: skip

    def _try(
        self, copy: Copy, mutant: Mutant, chosen: list[str], tests: TestMap, compiled: bool
    ) -> tuple[str, str | None]:
        """Tests of the mutant's area, then the others: in two runs, so that the first imports less."""
        area = f"tests/{Path(mutant.file).parts[2]}/"
        budget, result, test = self.args.budget, "not covered", None
        for group in ([t for t in chosen if t.startswith(area)], [t for t in chosen if not t.startswith(area)]):
            kept = []
            for name in group:
                budget -= tests.seconds[name] + 0.01
                if budget > 0 or (result == "not covered" and not kept):
                    kept.append(name)
            if kept:
                result, test = self._pytest(copy, kept, tests, compiled)
                if result != "survived":
                    break
        return result, test

    def _pytest(self, copy: Copy, kept: list[str], tests: TestMap, compiled: bool) -> tuple[str, str | None]:
        """Run these tests: a test that takes far longer than it did is ended, and counts as a timeout."""
        listed, log = copy.folder.parent / "tests", copy.folder.parent / "log"
        listed.write_text("\n".join(kept), encoding="utf-8")
        for stale in (log, log.with_suffix(".failed")):
            stale.unlink(missing_ok=True)
        files = list(dict.fromkeys(test.partition("::")[0] for test in kept))
        process = copy.start("-x", *files, MUTATE_TESTS=str(listed))
        current, since, began = "", time.monotonic(), time.monotonic()
        while process.poll() is None:
            time.sleep(0.1)
            now = log.read_text(encoding="utf-8") if log.exists() else ""
            if now != current:
                current, since = now, time.monotonic()
            patience = 60.0 + 10.0 * tests.seconds.get(current, 3.0) + (90.0 if compiled else 0.0)
            if self._left() < -self.args.grace:
                _end(process)
                return "out of time", None
            if time.monotonic() - since > patience:
                _end(process)
                return "timeout", current
            if time.monotonic() - began > self.args.limit:
                _end(process)
                return "survived", f"ended after {self.args.limit:.0f} s at {current}"
        failed = log.with_suffix(".failed")
        test = failed.read_text(encoding="utf-8") if failed.exists() else None
        if process.returncode < 0:
            return "killed", f"crash in {current}"
        return ENDS.get(process.returncode, f"pytest ended with {process.returncode}"), test

    def write(self) -> None:
        """Write all results, whole at any time."""
        out = Path(self.args.out)
        new = out.with_suffix(".new")
        ordered = sorted(self.results.values(), key=lambda entry: (entry["file"], entry["line"], entry["start"]))
        new.write_text(json.dumps(ordered, indent=1), encoding="utf-8")
        new.replace(out)

    def _left(self) -> float:
        return float(self.end - time.monotonic())


def main() -> None:
    """Record, try, and print what survived."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=300, help="number of mutants")
    parser.add_argument("--seed", type=int, default=21, help="of the sample")
    parser.add_argument("--workers", type=int, default=max((os.cpu_count() or 2) - 1, 1), help="copies of the tree")
    parser.add_argument("--only", action="append", metavar="FILE:LINE", help="all mutants of a line instead")
    parser.add_argument("--tests", default="build/mutate/tests.json", metavar="MAP", help="the record; made if missing")
    parser.add_argument("--folders", default=",".join(TESTS), help="folders of tests to use")
    parser.add_argument("--out", default="build/mutate/mutants.json", help="results")
    parser.add_argument("--resume", metavar="JSON", help="earlier results: these mutants are not tried again")
    parser.add_argument("--retry", action="append", default=[], metavar="RESULT", help="but those with this result are")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no further mutant after this time")
    parser.add_argument("--grace", type=float, default=0.0, help="seconds after that until running ones are ended")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of tests for each mutant, as recorded")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a run of pytest is ended")
    parser.add_argument("--work", default="build/mutate", metavar="DIR", help="where the copies are made")
    args = parser.parse_args()
    for file in (args.tests, args.out):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
    run = Run(args)
    mutants = (
        [mutant for place in args.only for mutant in mutants_at(place)] if args.only else sample(args.sample, args.seed)
    )
    if args.resume and Path(args.resume).exists():
        for entry in json.loads(Path(args.resume).read_text(encoding="utf-8")):
            mutant = Mutant(*(entry[name] for name in ("file", "line", "start", "stop", "before", "after")))
            if entry["result"] not in args.retry:
                run.results[mutant.key] = entry
    tests = TestMap(run.record())
    run.all([mutant for mutant in mutants if mutant.key not in run.results], tests)
    run.write()
    counts = Counter(entry["result"] for entry in run.results.values())
    print(", ".join(f"{count} {result}" for result, count in counts.most_common()), f"of {len(mutants)} mutants")
    for entry in run.results.values():
        if entry["result"] in ("survived", "not covered"):
            print(f"{entry['result']}: {entry['file']}:{entry['line']}  {entry['before']!r} -> {entry['after']!r}")


if __name__ == "__main__":
    main()
