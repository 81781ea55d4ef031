"""Does the verdict say what is true? Simulated models of known truth, judged by every command.

    python -m evidence.truth_table [--repeats 58] [--processes 2]      writes docs/truth-table.md

A model is perfect, or has one known fault of at least 0.05 (in probability, coverage or class-wise error). Every
command judges the same simulated file, and each verdict counts as right, inconclusive or wrong.
"""

from __future__ import annotations

import argparse
import html
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, softmax

import calibrant as cal

SIZES = (200, 2_000, 20_000)
COMMANDS = ("evaluate", "check", "compare", "recalibrate", "monitor", "report")
RIGHT, OPEN, WRONG = "right", "inconclusive", "wrong"
WORDS = (RIGHT, OPEN, WRONG)
NEGLIGIBLE = "negligible"
GREEN, ACCUSED = ("calibrated", NEGLIGIBLE), ("miscalibrated",)
PAGE = Path(__file__).parents[1] / "docs" / "truth-table.md"
TEXT = """\
# Are verdicts right?

Simulated models of known truth, judged by every command. A model is perfect, or has one known fault of at least 0.05
(in probability, coverage or class-wise error), or risks of 2% that are doubled or halved; two models have smaller
errors, and are counted under what is said about them only. Some have weights, units or soft labels, which only some
commands take. This page is written by `python -m evidence.truth_table{arguments}`; the tests run a part of it.{note}

- *Right*: a perfect model is called calibrated, or "detectable, but small"; a faulty one is called miscalibrated, in
  the true direction if it has one.
- *Inconclusive*: no decision, or a fault that was found without its direction. `monitor` never calls a model
  calibrated, so it is inconclusive about every perfect model that it does not reject, and about one that it rejected
  before later rows spoke for it.
- *Wrong*: a perfect model is accused, a faulty one called calibrated, or the direction is the opposite of the truth.
- *Contradiction*: two commands name opposite directions for one file, one calls it calibrated or detectable but small
  and the other miscalibrated, or a command that quotes the stored verdict says something else. `evaluate`, `check` and
  `monitor` estimate the size of an error differently: "detectable, but small" beside "miscalibrated" is none where both
  name the same direction.

The tests of `evaluate` and `check` together accuse a perfect model in at most 5% of data sets by design
([how verdicts are reached](theory.md#verdicts)).

## Summary

{perfect} files of each perfect and {faulty} of each faulty model at each n, {models} models:

{summary}

## By model

Percentages of verdicts that are right / inconclusive / wrong:

{table}
"""

REDUCED = """
This is a reduced run, in which one file of a model is a large percentage; the whole one has 58 files of each perfect
model (leave `--repeats` out)."""


@dataclass(frozen=True)
class Model:
    """A simulated model, and what is true of it."""

    name: str
    make: Callable[[int, np.random.Generator], Any]
    perfect: bool = False
    says: frozenset[str] = frozenset()
    """Directions of which a right verdict names at least one; empty: any, or none."""
    never: frozenset[str] = frozenset()
    """Directions that are the opposite of the truth, or that the model does not err in."""
    small: bool = False
    """Whether its error is below 0.05: 2,000 rows are then too few to find it."""
    commands: tuple[str, ...] = COMMANDS
    """What can judge such rows: only some commands take weights, units and soft labels."""
    units: str | None = None
    """The column of dependent rows."""


def draw(p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One label per row."""
    return np.minimum((p.cumsum(1) < rng.random((len(p), 1))).sum(1), p.shape[1] - 1)


def classes(
    spread: float, count: int, distort: Callable[[np.ndarray], np.ndarray] = lambda z: z
) -> Callable[[int, np.random.Generator], Any]:
    """Labels from softmax(z); the model predicts softmax(distort(z))."""

    def make(n: int, rng: np.random.Generator) -> Any:
        z = spread * rng.normal(size=(n, count))
        return cal.Classification.from_logits(distort(z), draw(softmax(z, axis=1), rng))

    return make


def by_predicted_class(n: int, rng: np.random.Generator) -> Any:
    """Three classes: predictions of class 0 are right 15 points less often than said, those of class 1 more often."""
    p = softmax(1.5 * rng.normal(size=(n, 3)), axis=1)
    truth, top = p.copy(), p.argmax(1)
    moved = np.where(top < 2, np.minimum(0.15, p[:, 0]), 0.0)
    truth[:, 0] -= moved
    truth[:, 1] += moved
    return cal.Classification.from_probs(p, draw(truth, rng))


def risk(
    a: float, b: float, distort: Callable[[np.ndarray], np.ndarray] = lambda p: p
) -> Callable[[int, np.random.Generator], Any]:
    """Events with probability p ~ Beta(a, b); the model predicts distort(p)."""

    def make(n: int, rng: np.random.Generator) -> Any:
        p = rng.beta(a, b, n)
        return cal.Classification.from_probs(distort(p), (rng.random(n) < p).astype(int))

    return make


def answers(distort: Callable[[np.ndarray], np.ndarray] = lambda p: p) -> Callable[[int, np.random.Generator], Any]:
    """Answers that are right with probability p; the model says distort(p)."""

    def make(n: int, rng: np.random.Generator) -> Any:
        p = rng.beta(4.0, 2.0, n)
        return cal.Judged.from_confidence(distort(p), rng.random(n) < p)

    return make


def numbers(width: float = 1.0, shift: float = 0.0) -> Callable[[int, np.random.Generator], Any]:
    """y ~ N(m, s²); the model predicts N(m + shift·s, (width·s)²)."""

    def make(n: int, rng: np.random.Generator) -> Any:
        m, s = rng.normal(size=n), np.exp(0.3 * rng.normal(size=n))
        return cal.Regression.from_gaussian(m + shift * s, width * s, m + s * rng.normal(size=n))

    return make


def ensemble(n: int, rng: np.random.Generator) -> Any:
    """Ten members with labels from their average: the averaged prediction is calibrated."""
    z = 1.5 * rng.normal(size=(n, 4)) + 0.7 * rng.normal(size=(10, n, 4))
    return cal.Classification.from_logits(z, draw(softmax(z, axis=2).mean(0), rng))


def cancelling(n: int, rng: np.random.Generator) -> Any:
    """Overconfident above 75%, underconfident below, right on average."""
    p = np.where(rng.random(n) < 0.5, rng.uniform(0.55, 0.65, n), rng.uniform(0.85, 0.95, n))
    chance = np.where(p < 0.75, p + 0.12, p - 0.12)
    return cal.Judged.from_confidence(p, rng.random(n) < chance)


def with_weights(n: int, rng: np.random.Generator, off: bool = False) -> Any:
    """Three classes with unequal weights."""
    p, truth = by_class(n, rng, off)
    return cal.Classification.from_probs(p, draw(truth, rng), weights=rng.choice([0.5, 1.0, 2.0], n))


def with_units(n: int, rng: np.random.Generator, off: bool = False) -> Any:
    """Three classes; every sixth row repeats the one before."""
    unit = np.arange(n) * 5 // 6
    p, truth = by_class(int(unit[-1]) + 1, rng, off)
    return cal.Classification.from_probs(p[unit], draw(truth, rng)[unit], columns={"unit": unit})


def with_soft_labels(n: int, rng: np.random.Generator, off: bool = False) -> Any:
    """Three classes with soft labels about the truth."""
    p, truth = by_class(n, rng, off)
    noise = rng.gamma(20.0 * truth + 1e-9) + 1e-300
    return cal.Classification.from_probs(p, label_probs=noise / noise.sum(axis=1, keepdims=True))


def by_class(n: int, rng: np.random.Generator, off: bool) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and truth: the top label is right; if off, class 2 is predicted at 17% and occurs at 4%."""
    a = rng.uniform(0.4, 0.9, n)
    p = np.stack([a, (1.0 - a) / 2.0, (1.0 - a) / 2.0], axis=1)
    return p, np.stack([a, (1.0 - a) * 0.9, (1.0 - a) * 0.1], axis=1) if off else p


def sharp(accuracy: float, confidence: float = 0.999) -> Callable[[int, np.random.Generator], Any]:
    """Three classes, always of the same confidence."""

    def make(n: int, rng: np.random.Generator) -> Any:
        top, p = rng.integers(3, size=n), np.full((n, 3), (1.0 - confidence) / 2.0)
        p[np.arange(n), top] = confidence
        wrong = rng.random(n) >= accuracy
        return cal.Classification.from_probs(p, np.where(wrong, (top + rng.integers(1, 3, size=n)) % 3, top))

    return make


OVER, UNDER = frozenset({"overconfident"}), frozenset({"underconfident"})
HIGH, LOW = frozenset({"overestimates"}), frozenset({"underestimates"})
EXTREME, TIMID = frozenset({"too_extreme"}), frozenset({"not_extreme_enough"})
NARROW, WIDE = frozenset({"too_narrow"}), frozenset({"too_wide"})
ABOVE, BELOW = frozenset({"biased_high"}), frozenset({"biased_low"})
BIASED, OFF = ABOVE | BELOW, HIGH | LOW
ONE, TWO = ("evaluate",), ("evaluate", "check")
MODELS = (
    Model("perfect, 3 classes", classes(1.5, 3), perfect=True),
    Model("perfect, 10 classes, sharp", classes(4.0, 10), perfect=True),
    Model("perfect, average of 10 members", ensemble, perfect=True),
    Model("perfect risk, 17% positives", risk(0.6, 3.0), perfect=True),
    Model("perfect risk, 2% positives", risk(0.3, 15.0), perfect=True),
    Model("perfect answers", answers(), perfect=True),
    Model("perfect regression", numbers(), perfect=True),
    Model("logits x 1.8, 4 classes", classes(1.5, 4, lambda z: 1.8 * z), says=OVER, never=UNDER),
    Model("logits x 0.5, 4 classes", classes(1.5, 4, lambda z: 0.5 * z), says=UNDER, never=OVER),
    Model("15 points off by predicted class", by_predicted_class),
    Model("one class too likely (label shift)", classes(1.5, 3, lambda z: z + np.array([1.2, 0.0, 0.0]))),
    Model("risk doubled", risk(0.6, 3.0, lambda p: np.minimum(2.0 * p, 0.999)), says=HIGH, never=LOW | TIMID),
    Model("risk halved", risk(0.6, 3.0, lambda p: 0.5 * p), says=LOW, never=HIGH | EXTREME),
    Model("risk doubled, 2% positives", risk(0.3, 15.0, lambda p: np.minimum(2.0 * p, 0.999)), says=HIGH, never=LOW),
    Model("risk halved, 2% positives", risk(0.3, 15.0, lambda p: 0.5 * p), says=LOW, never=HIGH),
    Model("positives 3.3 times too likely", risk(0.6, 4.0, lambda p: expit(logit(p) + 2.2)), says=HIGH, never=LOW),
    Model("risk too extreme", risk(2.0, 2.0, lambda p: expit(2.5 * logit(p))), says=EXTREME, never=TIMID | OFF),
    Model("risk not extreme enough", risk(0.7, 0.7, lambda p: expit(0.4 * logit(p))), says=TIMID, never=EXTREME | OFF),
    Model("confidence 10 points too high", answers(lambda p: np.minimum(p + 0.1, 0.999)), says=OVER, never=UNDER),
    Model("confidence 10 points too low", answers(lambda p: np.maximum(p - 0.1, 0.001)), says=UNDER, never=OVER),
    Model("errors of confidence that cancel", cancelling),
    Model("too narrow (0.7)", numbers(0.7), says=NARROW, never=WIDE | BIASED),
    Model("too wide (1.5)", numbers(1.5), says=WIDE, never=NARROW | BIASED),
    Model("biased by 0.4 sd", numbers(1.0, 0.4), says=ABOVE, never=BELOW),
    Model("perfect, weights", with_weights, perfect=True, commands=TWO),
    Model("perfect, units", with_units, perfect=True, commands=ONE, units="unit"),
    Model("perfect, soft labels", with_soft_labels, perfect=True, commands=ONE),
    Model("perfect, confidence 99.9%", sharp(0.999), perfect=True, commands=TWO),
    Model("classes off, weights", partial(with_weights, off=True), commands=TWO),
    Model("classes off, units", partial(with_units, off=True), commands=ONE, units="unit"),
    Model("classes off, soft labels", partial(with_soft_labels, off=True), commands=ONE),
    Model("confidence 99.9%, accuracy 95%", sharp(0.95), says=OVER, never=UNDER, commands=TWO),
    Model("confidence 99.9%, accuracy 97%", sharp(0.97), says=OVER, never=UNDER, small=True, commands=TWO),
    Model("confidence 3 points too high", answers(lambda p: np.minimum(p + 0.03, 0.999)), says=OVER, never=UNDER,
          small=True),
)  # fmt: skip


class Said(NamedTuple):
    """What one command says about one file."""

    command: str
    status: str
    direction: tuple[str, ...]


def judge(model: Model, said: Said) -> str:
    """Right, inconclusive or wrong.

    Wrong: a perfect model accused, a faulty one called calibrated, or the opposite direction. Inconclusive: no
    decision, or a fault that is found without its direction.
    """
    if said.status not in (*GREEN, *ACCUSED):
        return OPEN
    if model.perfect:
        return RIGHT if said.status in GREEN else WRONG
    if said.status in GREEN or model.never & set(said.direction):
        return WRONG
    return RIGHT if not model.says or model.says & set(said.direction) else OPEN


OPPOSITES = tuple(
    frozenset(pair)
    for pair in (
        ("overconfident", "underconfident"), ("overestimates", "underestimates"), ("too_extreme", "not_extreme_enough"),
        ("too_narrow", "too_wide"), ("biased_high", "biased_low"),
    )
)  # fmt: skip
QUOTING = frozenset({"evaluate", "compare", "recalibrate", "report"})
"""Commands that quote one stored verdict, and so must agree to the letter."""


def contradictions(verdicts: Iterable[Said]) -> list[str]:
    """Pairs of commands that contradict each other about one file.

    Commands that quote the stored verdict must say the same. Any two must not name opposite directions, nor may one
    call a model calibrated, or negligibly miscalibrated without the same direction, that another calls miscalibrated.
    """
    found = []
    for a, b in combinations(verdicts, 2):
        quoted = {a.command, b.command} <= QUOTING and (a.status, a.direction) != (b.status, b.direction)
        opposite = any(x != y and frozenset((x, y)) in OPPOSITES for x in a.direction for y in b.direction)
        cleared = {a.status in GREEN, b.status in GREEN} == {True, False} and ACCUSED[0] in (a.status, b.status)
        agree = NEGLIGIBLE in (a.status, b.status) and bool(set(a.direction) & set(b.direction))
        if quoted or opposite or (cleared and not agree):
            found.append(f"{a.command} {a.status} {a.direction}, {b.command} {b.status} {b.direction}")
    return found


def verdicts(
    predictions: Any, other: Any, seed: int, commands: Iterable[str] = COMMANDS, units: str | None = None
) -> list[Said]:
    """What each command says of one file; `other` has rows of the same model, for a recalibration that does nothing."""
    metrics = "default" if isinstance(predictions, cal.Regression) else "accuracy,nll,ece"
    evaluation = cal.evaluate(predictions, metrics, curves=False, units=units, seed=seed, threads=1)
    found: dict[str, Any] = {"evaluate": evaluation.results[0].verdict}
    if commands != ONE:
        check = cal.check(predictions, draws=1000, seed=seed, threads=1)
        found["check"] = check.results[0].verdict
    settings: dict[str, Any] = {"resamples": 1000, "seed": seed, "threads": 1}
    if "compare" in commands:
        found["compare"] = cal.compare({"a": predictions, "b": predictions}, **settings).results[0].verdict
    if "recalibrate" in commands:
        fixed = cal.recalibrate(other, predictions, "none", **settings)
        found["recalibrate"] = fixed.evaluation.results[1].verdict
    if "monitor" in commands and not isinstance(predictions, cal.Regression):
        found["monitor"] = cal.monitoring.Monitor().add(predictions).verdict
    out = [Said(name, verdict.status, verdict.direction) for name, verdict in found.items()]
    if "report" in commands:
        with tempfile.TemporaryDirectory() as folder:
            page = cal.report([evaluation, check], Path(folder) / "report.html").read_text(encoding="utf-8")
        quotes = all(html.escape(found[name].headline, quote=False) in page for name in ("evaluate", "check"))
        out.append(Said("report", *(out[0][1:] if quotes else ("not quoted", ()))))
    return out


class Outcome(NamedTuple):
    """What was said about one simulated file."""

    model: int
    n: int
    judged: tuple[tuple[str, str], ...]
    """Command, and right, inconclusive or wrong."""
    opposite: tuple[str, ...]
    """Commands that named the opposite direction."""
    contradictions: tuple[str, ...]
    sizes: bool = False
    """Whether one command calls the error negligible, and another does not."""


def simulate(task: tuple[int, int, int]) -> Outcome:
    """One file of one model, judged by every command."""
    place, n, seed = task
    model = MODELS[place]
    predictions, other = (model.make(rows, np.random.default_rng([seed, place, rows])) for rows in (n, 199))
    said = verdicts(predictions, other, seed, model.commands, model.units)
    opposite = tuple(item.command for item in said if model.never & set(item.direction))
    judged = tuple((item.command, judge(model, item)) for item in said)
    statuses = {item.status for item in said}
    return Outcome(place, n, judged, opposite, tuple(contradictions(said)), {NEGLIGIBLE, *ACCUSED} <= statuses)


# ------------------------------------------------------------------------------------------------ tables
def model_table(outcomes: list[Outcome]) -> list[str]:
    """By model and n: shares of right, inconclusive and wrong verdicts of each command."""
    counts: dict[tuple[int, int, str], Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        for command, judged in outcome.judged:
            counts[outcome.model, outcome.n, command][judged] += 1
    lines = ["| model | n | " + " | ".join(COMMANDS) + " |", "| --- | ---: |" + " ---: |" * len(COMMANDS)]
    for place, model in enumerate(MODELS):
        for n in SIZES:
            cells = []
            for command in COMMANDS:
                count = counts[place, n, command]
                total = count.total()
                cells.append(" / ".join(f"{100 * count[word] / total:.0f}" for word in WORDS) if total else "–")
            lines.append(f"| {model.name} | {n:,} | " + " | ".join(cells) + " |")
    return lines


def summary_table(outcomes: list[Outcome]) -> list[str]:
    """By n: how often perfect models are accused or green, faulty ones found, and what must never happen."""
    lines = [
        "| n | perfect, accused by `evaluate` or `check` | perfect, green in `evaluate` | "
        "faulty, right in `evaluate` | faulty, called calibrated | opposite direction | contradictions | "
        "negligible in one, miscalibrated in another |",
        "| ---: |" + " ---: |" * 7,
    ]
    for n in SIZES:
        some = [outcome for outcome in outcomes if outcome.n == n]
        perfect = [dict(outcome.judged) for outcome in some if MODELS[outcome.model].perfect]
        faulty = [outcome for outcome in some if not MODELS[outcome.model].perfect]
        accused = sum(WRONG in (said["evaluate"], said.get("check")) for said in perfect)
        large = [outcome for outcome in faulty if not MODELS[outcome.model].small]
        green = sum(said["evaluate"] == RIGHT for said in perfect)
        right = sum(dict(outcome.judged)["evaluate"] == RIGHT for outcome in large)
        cleared = sum(WRONG in dict(outcome.judged).values() and not outcome.opposite for outcome in faulty)
        counted = ("opposite", "contradictions", "sizes")
        opposite, clashes, sizes = (sum(bool(getattr(o, name)) for o in some) for name in counted)
        lines.append(
            f"| {n:,} | {accused} of {len(perfect)} | {green / len(perfect):.1%} | {right / len(large):.1%} | "
            f"{cleared} of {len(faulty)} | {opposite} of {len(some)} | {clashes} of {len(some)} | "
            f"{sizes} of {len(some)} |"
        )
    return lines


def main() -> None:
    """Simulate, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=58, help="files of a perfect model; a third of a faulty")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", type=Path, default=PAGE)
    settings = parser.parse_args()
    tasks = [
        (place, n, seed)
        for n in sorted(settings.sizes, reverse=True)
        for place, model in enumerate(MODELS)
        for seed in range(settings.repeats if model.perfect else max(settings.repeats // 3, 1))
    ]
    with ProcessPoolExecutor(settings.processes, mp_context=get_context("spawn")) as pool:
        outcomes = list(pool.map(simulate, tasks, chunksize=4))
    for outcome in outcomes:
        for text in outcome.contradictions:
            print(f"{MODELS[outcome.model].name}, n = {outcome.n}: {text}")
        for command, judged in outcome.judged:
            if judged == WRONG:
                print(f"{MODELS[outcome.model].name}, n = {outcome.n}: {command} is wrong")
    arguments = "" if settings.repeats == 58 else f" --repeats {settings.repeats}"
    page = TEXT.format(
        arguments=arguments, note=REDUCED * bool(arguments),
        models=len(MODELS), perfect=settings.repeats, faulty=max(settings.repeats // 3, 1),
        summary="\n".join(summary_table(outcomes)), table="\n".join(model_table(outcomes)),
    )  # fmt: skip
    settings.write.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
