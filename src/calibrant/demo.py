"""The demonstration: a deep ensemble of 20 small networks on scikit-learn's digits, whose predictions are bundled.

`scripts/make_demo_predictions.py` in the repository trains the networks and makes the files anew.
"""

from __future__ import annotations

from pathlib import Path

from calibrant.errors import MissingExtra, WriteError, plain
from calibrant.evaluation.check import check
from calibrant.evaluation.compare import compare
from calibrant.evaluation.detect import detect
from calibrant.evaluation.evaluate import Progress, evaluate
from calibrant.evaluation.recalibrate import Recalibration, recalibrate
from calibrant.evaluation.result import Evaluation
from calibrant.predictions import InMemory
from calibrant.predictions.files.reading import read
from calibrant.reporting.report import check_ready, report

FOLDER = Path(__file__).parent / "demo_data"
TITLE = "Calibrant demo: 20 networks on handwritten digits"
SINGLE, CLEAN, SHIFTED, GLYPHS = (
    "one network, clean digits", "ensemble, clean digits", "ensemble, shifted digits", "ensemble, no digits",
)  # fmt: skip
AMONG = "ensemble, no digits among digits"


def demo_path(name: str) -> Path:
    """The bundled file digits_<name>.npz: test, validation, shifted or glyphs."""
    return FOLDER / f"digits_{name}.npz"


def run_demo(out: Path, progress: Progress | None = None) -> tuple[list[Evaluation | Recalibration], list[Path]]:
    """Judge the test digits, their shifted copies and the glyphs; check, detect, mend, compare; write all.

    Where the extra `report` is not installed there is no page among the files.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(
            str(out),
            expected="a folder to write to",
            came=plain(error.strerror or ""),
            do="choose another with --out",
        ) from error
    evaluation = _judged(progress)
    clean, shifted, glyphs = (read(demo_path(name)) for name in ("test", "shifted", "glyphs"))
    checks = check({CLEAN: clean, SHIFTED: shifted}, progress=progress)
    passed = check(shifted.named(SHIFTED), shift=True, progress=progress)
    detected = detect(clean.named(CLEAN), glyphs.named(AMONG), "mutual_information", progress=progress)
    held_out = read(demo_path("validation")).named("clean digits, held out")
    mended = recalibrate(held_out, shifted.named(SHIFTED), units="ids", progress=progress)
    compared = compare(_models(shifted), units="ids", shift=True, clean=_models(held_out), progress=progress)
    found = {
        "evaluation": evaluation,
        "checks": checks,
        "checks-shift": passed,
        "detection": detected,
        "recalibration": mended.evaluation,
        "comparison": compared,
    }
    files = [item.save(out / f"{name}.json") for name, item in found.items()]
    if not lacking():
        files.append(report(found.values(), out / "report.html", title=TITLE))
    return [evaluation, checks, detected, mended, compared], files


def lacking() -> str:
    """What is missing for charts and how to come by it, or nothing."""
    try:
        check_ready()
    except MissingExtra as error:
        return f"{error.came}; {error.do}"
    return ""


def _judged(progress: Progress | None) -> Evaluation:
    """One network and the ensemble on clean digits, on shifted ones by severity, and on what is none."""
    parts = [
        evaluate(read(demo_path("test")).member(0).named(SINGLE), progress=progress),
        evaluate(read(demo_path("test")).named(CLEAN), progress=progress),
        evaluate(
            read(demo_path("shifted")).named(SHIFTED), by=("shift", "severity"), units="ids", shift=True,
            progress=progress,
        ),
        evaluate(read(demo_path("glyphs")).named(GLYPHS), progress=progress),
    ]  # fmt: skip
    return Evaluation(
        version=parts[0].version,
        settings=parts[2].settings,
        inputs=tuple(item for part in parts for item in part.inputs),
        results=tuple(result for part in parts for result in part.results),
        warnings=tuple(note for part in parts for note in part.warnings),
        shift=parts[2].shift,
    )


def _models(digits: InMemory) -> dict[str, InMemory]:
    """One network, five others, and all of them."""
    return {"one network": digits.member(0), "five others": digits.subset(range(1, 6)), "all twenty": digits}
