"""Record which kernels each kind of work calls, with their signatures, in `src/calibrant/kernels/plans.json`.

    python scripts/record_kernels.py

Small inputs of every kind are evaluated metric by metric, with an empty folder of compiled kernels. Run it after a
change of kernels or of who calls them; `tests/kernels/test_compile.py` fails where a plan is incomplete.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

PLANS = Path(__file__).resolve().parents[1] / "src" / "calibrant" / "kernels" / "plans.json"
LOOPS = "calibrant.kernels.loops."
ROWS = 2000
EMPTY = b'{"kernels": [], "plans": {}}\n'


def inputs() -> Iterator[Any]:
    """Small inputs of every kind of work, with scores of type float32."""
    from calibrant import Classification, Detection, Judged, Regression

    rng = np.random.default_rng(0)

    def labels(probs: np.ndarray) -> np.ndarray:
        return (probs.cumsum(1) < rng.uniform(size=(len(probs), 1))).sum(1).clip(max=probs.shape[1] - 1)

    for classes, n in ((10, ROWS), (60, ROWS), (600, 500)):
        for members in (1, 3):
            z = (rng.normal(size=(1, n, classes)) * 2 + rng.normal(size=(members, n, classes)) * 0.5).astype(np.float32)
            z[:, 0, 0] += 40.0  # sums of very different numbers have a kernel of their own
            p = np.exp(z) / np.exp(z).sum(2, keepdims=True)
            y = labels(p.mean(0, dtype=float))
            yield Classification.from_logits(z if members > 1 else z[0], y)
            yield Classification.from_probs(p if members > 1 else p[0], y)
    one = rng.uniform(size=ROWS).astype(np.float32) ** 2
    y = (rng.uniform(size=ROWS) < one).astype(int)
    yield Classification.from_probs(one, y)
    yield Classification.from_logits(np.log(one / (1 - one)), y)
    yield Judged.from_confidence(one, y)
    yield Detection.from_scores(one[y == 0].astype(float), one[y == 1].astype(float))
    mean = rng.normal(size=(3, ROWS))
    std = np.exp(0.2 * rng.normal(size=(3, ROWS)))
    y = mean[0] + std[0] * rng.normal(size=ROWS)
    yield Regression.from_gaussian(mean[0], std[0], y)
    yield Regression.from_gaussian(mean, std, y)
    yield Regression.from_samples(mean[0] + std[0] * rng.normal(size=(20, ROWS)), y)
    levels = np.arange(1, 20) / 20
    from scipy.special import ndtri

    yield Regression.from_quantiles(mean[0][:, None] + std[0][:, None] * ndtri(levels), levels, y)


def works(example: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The parts of a plan, and what to run for each."""
    from calibrant import check, compare, measure, recalibrate, recalibration
    from calibrant.pipeline.compilation import CURVES, VALUE
    from calibrant.pipeline.evaluate import EvaluateOptions, run_evaluation
    from calibrant.pipeline.select_metrics import applicable
    from calibrant.results.evaluation import CHECK, COMPARISON, RECALIBRATION

    plain = EvaluateOptions(curves=False, worst_rows=0, stored=False)
    by_name: dict[str, list[str]] = {}
    for metrics in (None, "report"):
        for spec in applicable(metrics, example)[0]:
            texts = by_name.setdefault(spec.metric.name, [])
            texts += [spec.text] * (spec.text not in texts)
    for name, texts in by_name.items():
        yield VALUE + name, lambda texts=texts: measure(example, texts)
        yield name, lambda texts=texts: run_evaluation(example, texts, plain)
    yield CURVES, lambda: run_evaluation(example, None, EvaluateOptions())
    if example.task != "detection" and getattr(example, "kind", "") != "quantiles":
        yield CHECK, lambda: check(example)
    if example.task == "classification":
        half = example.n // 2
        other = recalibration.TemperatureScaling().fit(example).transform(example)
        yield RECALIBRATION, lambda: recalibrate(example[:half], example[half:])
        yield COMPARISON, lambda: compare({"a": example, "b": other})


@contextmanager
def recording(calls: dict[tuple[str, str, str], bool]) -> Iterator[None]:
    """Note the kernels that Python calls, each of which loads its code again; True: while the rows are read."""
    from numba.core.caching import FunctionCache

    from calibrant.pipeline.runner import InputRunner

    load, read = FunctionCache.load_overload, InputRunner._read_blocks
    reading = False

    def marked(self: InputRunner, plan: Any) -> Any:
        nonlocal reading
        reading = True
        try:
            return read(self, plan)
        finally:
            reading = False

    def noted(self: Any, signature: Any, target: Any) -> Any:
        found = load(self, signature, target)
        module = self._py_func.__module__
        if found is not None and module.startswith(LOOPS):
            calls.setdefault((module.removeprefix(LOOPS), self._py_func.__name__, str(tuple(signature))), reading)
        return found

    FunctionCache.load_overload, InputRunner._read_blocks = noted, marked  # type: ignore[method-assign]
    try:
        yield
    finally:
        FunctionCache.load_overload, InputRunner._read_blocks = load, read  # type: ignore[method-assign]


def forget() -> None:
    """Make every kernel load its code again when it is next called."""
    from numba.core.dispatcher import Dispatcher

    for dispatcher in (thing for thing in gc.get_objects() if isinstance(thing, Dispatcher)):
        if dispatcher.py_func.__module__.startswith(LOOPS):
            dispatcher._reset_overloads()
            dispatcher.overloads.clear()


def record() -> dict[str, Any]:
    """The plans, from runs in this process, whose folder of compiled kernels is empty."""
    from numba.core import event

    from calibrant.pipeline.compilation import PASS, kind_of_work

    seconds: dict[tuple[str, str, str], float] = {}

    class Clock(event.Listener):
        depth = 0

        def on_start(self, happened: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                self.since = time.process_time()

        def on_end(self, happened: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                function = happened.data["dispatcher"].py_func
                key = function.__module__.removeprefix(LOOPS), function.__name__, str(tuple(happened.data["args"]))
                seconds[key] = time.process_time() - self.since

    event.register("numba:compile", Clock())
    numbers: dict[tuple[str, str, str], int] = {}
    plans: dict[str, dict[str, list[int]]] = {}
    for example in inputs():
        work, _ = kind_of_work(example)
        parts = plans.setdefault(work, {})
        for part, run in works(example):
            run()  # compiles
            forget()
            calls: dict[tuple[str, str, str], bool] = {}
            with recording(calls):
                run()
            parts[part] = [numbers.setdefault(call, len(numbers)) for call in calls]
            read = {numbers[call] for call, reading in calls.items() if reading}
            parts[PASS] = sorted({*parts.get(PASS, []), *read})
            print(f"{work}: {part}: {len(calls)} kernels", file=sys.stderr)
    kernels = [[*call, round(seconds.get(call, 0.5), 2)] for call in numbers]
    return {"kernels": kernels, "plans": plans}


def main() -> None:
    """Record in a process whose folder of compiled kernels is empty, and write the file."""
    if "--here" in sys.argv:
        warnings.simplefilter("ignore")
        print(json.dumps(record()))
        return
    before = PLANS.read_bytes() if PLANS.exists() else EMPTY
    PLANS.write_bytes(EMPTY)  # nothing is compiled ahead while calls are recorded
    try:
        with tempfile.TemporaryDirectory() as cache:
            environment = os.environ | {"XDG_CACHE_HOME": cache, "CALIBRANT_THREADS": "1"}
            done = subprocess.run(
                [sys.executable, __file__, "--here"], env=environment, stdout=subprocess.PIPE, check=True, text=True
            )
        plans = json.loads(done.stdout)
    except BaseException:
        PLANS.write_bytes(before)
        raise
    lines = ",\n".join(f"  {json.dumps(kernel)}" for kernel in plans["kernels"])
    works = ",\n".join(f"  {json.dumps(work)}: {json.dumps(parts)}" for work, parts in plans["plans"].items())
    PLANS.write_text(f'{{"kernels": [\n{lines}\n],\n"plans": {{\n{works}\n}}}}\n', encoding="utf-8")
    print(f"{PLANS}: {len(plans['kernels'])} kernels, {len(plans['plans'])} kinds of work")


if __name__ == "__main__":
    main()
