"""The speed table: `python -m benchmarks.run [--quick] [--write docs/speed.md]`."""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import calibrant as cal
from benchmarks import (
    calibration,
    checks,
    commands,
    comparison,
    exact_checks,
    pairwise,
    peers,
    recalibration,
    regression,
    regression_checks,
    temperatures,
)
from benchmarks.data import SIZES, logits_and_labels, member_logits
from benchmarks.timing import Timing, time_all
from calibrant.kernels.rows import MEAN, rows_of

OURS = "calibrant"
SCORES = ["nll", "brier", "entropy", "accuracy", "ece"]


@dataclass(frozen=True)
class Workload:
    """One line of the table: what is done, by whom, and the ratio that the design asks for."""

    name: str
    contestants: dict[str, Callable[[], object]]
    goal: str
    against: tuple[str, ...] = ()
    """Whom the goal speaks of; everyone else where empty."""
    budget: float = 20.0
    """Seconds after which no further round begins."""
    cold: tuple[str, ...] = ()
    """Those that take seconds and have nothing to warm up."""


def workloads(threads: int, quick: bool) -> Iterator[Workload]:
    """Every workload, made when it is its turn so that memory is not held by the others."""
    for size, goals in (("A", ("4", "4")), ("B", ("3", "4")), ("C", ("5", "20"))):
        if quick and size == "C":
            continue
        logits, labels = logits_and_labels(*SIZES[size])
        yield _ece(size, logits, labels, goals[0], threads, are_logits=True)
        yield _ece(size, logits, labels, "", threads, are_logits=False)
        yield _scores(size, logits, labels, goals[1], threads)
        if size == "C":
            yield _read(logits, labels, threads)
    for members, size in ((10, "A"), (50, "A")) if quick else ((10, "A"), (50, "A"), (50, "B")):
        yield _members(members, size, threads)
    every = (calibration, regression, exact_checks, regression_checks, temperatures)
    more = (module.workloads(threads, quick) for module in every)
    for name, contestants, goal, against in itertools.chain.from_iterable(more):
        yield Workload(name, contestants, goal, tuple(who for who in against if who in contestants))
    for module in (pairwise, checks, recalibration, comparison):
        for name, contestants, goal, against in module.workloads(threads, quick):
            yield Workload(name, contestants, goal, against, module.BUDGET, module.SLOW)


def _ece(size: str, logits: np.ndarray, labels: np.ndarray, goal: str, threads: int, are_logits: bool) -> Workload:
    scores = logits if are_logits else peers.numpy_probabilities(logits)
    kind = "logits" if are_logits else "probs"
    predictions = cal.Classification.build(kind, scores, labels)
    tensor, target = torch.from_numpy(scores), torch.from_numpy(labels)
    libraries = peers.ece_libraries(scores, labels, are_logits)
    return Workload(
        f"ECE of the top label, {size}, from {'logits' if are_logits else 'probabilities'}",
        {
            OURS: lambda: cal.measure(predictions, ["ece"], threads=threads),
            **libraries,
            "plain torch": lambda: peers.torch_ece(torch.softmax(tensor, 1) if are_logits else tensor, target),
            "plain NumPy": lambda: peers.numpy_ece(peers.numpy_probabilities(scores) if are_logits else scores, labels),
        },
        goal,
        tuple(libraries),
    )


def _scores(size: str, logits: np.ndarray, labels: np.ndarray, goal: str, threads: int) -> Workload:
    predictions = cal.Classification.from_logits(logits, labels)
    tensor, target = torch.from_numpy(logits), torch.from_numpy(labels)
    return Workload(
        f"NLL + Brier + entropy + accuracy + ECE, {size}",
        {
            OURS: lambda: cal.measure(predictions, SCORES, threads=threads),
            "plain torch": lambda: peers.torch_scores(tensor, target),
            "plain NumPy": lambda: peers.numpy_scores(logits, labels),
        },
        goal,
        ("plain torch",),
    )


def _read(logits: np.ndarray, labels: np.ndarray, threads: int) -> Workload:
    from calibrant.kernels.jit import over_rows

    predictions = cal.Classification.from_logits(logits, labels)
    flat = logits.reshape(-1).view(np.int64)

    def read() -> None:
        over_rows(lambda a, b: int(np.bitwise_xor.reduce(flat[a:b])), flat.size, flat.size, threads)

    return Workload(
        "The same five scores beside reading the array once, C",
        {OURS: lambda: cal.measure(predictions, SCORES, threads=threads), "reading": read},
        "at most 3x reading",
    )


def _members(members: int, size: str, threads: int) -> Workload:
    logits, labels = member_logits(members, *SIZES[size])
    predictions = cal.Classification.from_logits(logits, labels)
    tensor = torch.from_numpy(logits)
    contestants: dict[str, Callable[[], object]] = {
        OURS: lambda: rows_of(predictions, frozenset({MEAN}), threads=threads),
        "plain torch": lambda: peers.torch_members(tensor),
        "plain NumPy": lambda: peers.numpy_members(logits),
    }
    return Workload(f"Ensemble mean + mutual information, M = {members}, {size}", contestants, "6", ("plain torch",))


# ------------------------------------------------------------------------------------------ output
def line(workload: Workload, timings: dict[str, Timing], goal: str) -> str:
    """One row of the Markdown table; goals are set for one thread."""
    ours = timings[OURS]
    others = {name: timing for name, timing in timings.items() if name != OURS}
    rivals = {name: others[name] for name in workload.against or others}
    told = ", ".join(f"{name} {t.milliseconds:.3g} ({t.peak_mb:.0f})" for name, t in others.items())
    if not rivals:
        return f"| {workload.name} | {ours.milliseconds:.3g} ({ours.peak_mb:.0f}) |  |  | {goal} |"
    best = min(rivals, key=lambda name: rivals[name].milliseconds)
    ratio = rivals[best].milliseconds / ours.milliseconds
    said = f"{1 / ratio:.2f}x the time" if workload.goal.startswith("at most") else f"**{ratio:.1f}** ({best})"
    return f"| {workload.name} | {ours.milliseconds:.3g} ({ours.peak_mb:.0f}) | {told} | {said} | {goal} |"


def table(threads: int, quick: bool) -> list[str]:
    """The Markdown table for a number of threads; rows appear as they are ready."""
    torch.set_num_threads(threads)
    lines = [
        f"### {threads} thread{'s' * (threads > 1)}",
        "",
        "| work | calibrant, ms (MB) | others, ms (MB) | ahead by | goal |",
        "| --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines), flush=True)
    for workload in workloads(threads, quick):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            timings = time_all(workload.contestants, 5 if quick else 9, workload.budget, workload.cold)
        row = line(workload, timings, workload.goal if threads == 1 else "")
        lines.append(row)
        print(row, flush=True)
    return lines


INTRODUCTION = """# Speed

Written by `make bench`: what a user waits for, whole commands, and then the work inside them.
"""
KERNEL_INTRODUCTION = f"""{commands.KERNELS}
Everyone takes turns in one process, so that ratios can be trusted where milliseconds cannot;
medians; memory is the most that was taken beyond the input. Sizes: A = 10 000 rows x 10 classes, B = 10 000 x 100,
C = 50 000 x 1000, float32 logits; libraries that want probabilities get them from torch's softmax, within their time.
"Ahead by" is the time of the fastest of those the goal speaks of, divided by ours. `calibrant` is `cal.measure`: values
that do not depend on the order of rows, from a pass that also checks every number it reads. Goals are for one thread;
with two, inputs of fewer than a million entries are still read by one, for starting threads costs more than it saves.
"""


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--write", type=Path, help="also write the page to this file")
    arguments = parser.parse_args()
    parts = [INTRODUCTION.rstrip(), commands.section(arguments.quick).rstrip(), KERNEL_INTRODUCTION.rstrip()]
    for threads in (1, 2):
        parts.append("\n".join(table(threads, arguments.quick)))
        print(flush=True)
    if arguments.write:
        arguments.write.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
