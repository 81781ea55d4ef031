"""The demonstration: a deep ensemble of 20 small networks on scikit-learn's digits, whose predictions are bundled.

`scripts/make_demo_predictions.py` in the repository trains the networks and makes the files anew.
"""

from __future__ import annotations

from pathlib import Path

from calibrant.errors import WriteError, plain
from calibrant.evaluation.check import check
from calibrant.evaluation.compare import compare
from calibrant.evaluation.evaluate import Progress, evaluate
from calibrant.evaluation.recalibrate import Recalibration, recalibrate
from calibrant.evaluation.result import Evaluation
from calibrant.predictions import InMemory
from calibrant.predictions.files.reading import read
from calibrant.reporting.page import write_page

FOLDER = Path(__file__).parent / "demo_data"
TITLE = "Calibrant demo: 20 networks on handwritten digits"
CHECKS = "Calibrant demo: is it what 20 networks expect?"
MENDED = "Calibrant demo: can 20 networks be mended?"
COMPARED = "Calibrant demo: are 20 networks better than one?"


def demo_path(name: str) -> Path:
    """The bundled file digits_<name>.npz: test, validation, shifted or glyphs."""
    return FOLDER / f"digits_{name}.npz"


def run_demo(out: Path, progress: Progress | None = None) -> tuple[list[Evaluation | Recalibration], list[Path]]:
    """Evaluate the test digits, their shifted copies by severity, and the glyphs; check, mend, compare; write all."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(
            str(out),
            expected="a folder to write to",
            came=plain(error.strerror or ""),
            do="choose another with --out",
        ) from error
    shifted = read(demo_path("shifted"))
    parts = [
        evaluate(read(demo_path("test")).member(0).named("one network, clean digits"), progress=progress),
        evaluate(read(demo_path("test")).named("ensemble, clean digits"), progress=progress),
        evaluate(
            shifted.named("ensemble, shifted digits"),
            by=("shift", "severity"),
            units="ids",
            progress=progress,
        ),
        evaluate(read(demo_path("glyphs")).named("ensemble, no digits"), progress=progress),
    ]
    evaluation = Evaluation(
        version=parts[0].version,
        settings=parts[2].settings,
        inputs=tuple(item for part in parts for item in part.inputs),
        results=tuple(result for part in parts for result in part.results),
        warnings=tuple(note for part in parts for note in part.warnings),
    )
    digits = {"ensemble, clean digits": read(demo_path("test")), "ensemble, shifted digits": shifted}
    checks = check(digits, progress=progress)
    held_out = read(demo_path("validation")).named("clean digits, held out")
    mended = recalibrate(held_out, shifted.named("ensemble, shifted digits"), units="ids", progress=progress)
    compared = compare(
        _models(shifted), units="ids", shift=True, clean=_models(held_out), progress=progress,
    )  # fmt: skip
    files = [
        evaluation.save(out / "evaluation.json"),
        write_page(evaluation, out / "report.html", TITLE),
        checks.save(out / "checks.json"),
        write_page(checks, out / "checks.html", CHECKS),
        mended.evaluation.save(out / "recalibration.json"),
        write_page(mended.evaluation, out / "recalibration.html", MENDED),
        compared.save(out / "comparison.json"),
        write_page(compared, out / "comparison.html", COMPARED),
    ]
    return [evaluation, checks, mended, compared], files


def _models(digits: InMemory) -> dict[str, InMemory]:
    """One network, five others, and all of them."""
    return {"one network": digits.member(0), "five others": digits.subset(range(1, 6)), "all twenty": digits}
