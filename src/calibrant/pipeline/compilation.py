"""Which kernels an evaluation is going to call, so that the first run after an installation compiles them ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from calibrant.kernels.compile import Compilation, Kernel, planned
from calibrant.kernels.loops.softmax import NARROW, PAD_BELOW
from calibrant.predictions import Classification, Evaluable, Judged, Regression
from calibrant.registry.metric import Spec

VALUE, CURVES, PASS = "value of ", "curves", "pass"
"""Parts of a plan: a metric has its name, and its value alone this prefix; `PASS` marks what reading the rows calls.

Other commands with their default settings have the kind of their results, as in `results.evaluation`.
"""
COMPILING = "compiling kernels"

Progress = Callable[[str, float, float], None]


def kind_of_work(example: Evaluable) -> tuple[str, str]:
    """The kind of work that predictions make, as `kernels/plans.json` names it, and the type of their scores."""
    many = " of members" if example.members > 1 else ""
    if isinstance(example, Classification):
        dtype = "float64" if example.scores.dtype.itemsize == 8 else "float32"
        scores = "probabilities" if example.kind == "probs" else "logits"
        if example.scores.shape[2] == 1:
            return f"binary {scores}{many}", dtype
        width = "few" if example.classes < NARROW else "many" if example.classes < PAD_BELOW else "very many"
        return f"{scores} of {width} classes{many}", dtype
    if isinstance(example, Regression):
        return f"{example.kind}{many}", "float32"
    return f"{'confidences' if isinstance(example, Judged) else 'detection'}{many}", "float32"


def kernels_of(
    example: Evaluable, specs: Iterable[Spec], intervals: bool, curves: bool
) -> tuple[list[Kernel], list[Kernel]]:
    """The kernels behind reading the rows and the values of these metrics, and those behind all of an evaluation."""
    work, dtype = kind_of_work(example)
    names = list(dict.fromkeys(spec.metric.name for spec in specs))
    values = planned(work, [VALUE + name for name in names], dtype)
    if not intervals:
        return values, values
    every = list(dict.fromkeys([*values, *planned(work, [*names, *([CURVES] if curves else [])], dtype)]))
    read = {*planned(work, [PASS], dtype), *values}
    return [kernel for kernel in every if kernel in read], every


def compile_ahead(example: Evaluable, part: str, threads: int | None, progress: Progress | None) -> None:
    """Compile what a whole command calls for such predictions, where that was not done before."""
    work, dtype = kind_of_work(example)
    kernels = planned(work, [part], dtype)

    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(compiling(done, total), 0.0, 0.0)

    with Compilation(kernels, threads, report) as compilation:
        compilation.until(kernels)


def compiling(done: int, total: int) -> str:
    """What the progress says meanwhile."""
    return f"{COMPILING} (first run only): {done} of {total}"
