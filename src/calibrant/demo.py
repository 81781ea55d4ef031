"""The demos, with bundled predictions: an ensemble on scikit-learn's digits, and six language models on MMLU-Pro.

`scripts/make_demo_predictions.py` in the repository trains the networks and writes the files of the digits;
`scripts/make_llm_demo.py` cuts the slice of a published study, whose licence is beside it.
"""

from __future__ import annotations

from pathlib import Path

from calibrant.checks.api import check
from calibrant.comparison.api import compare
from calibrant.errors import MissingExtra, WriteError, plain
from calibrant.pipeline.evaluate import Progress, evaluate, evaluate_shift
from calibrant.pipeline.ood import detect
from calibrant.predictions import InMemory
from calibrant.predictions.files.read import read
from calibrant.predictions.files.several_models import read_models_of
from calibrant.predictions.files.sources import Source
from calibrant.predictions.files.tables import ColumnOptions
from calibrant.recalibration.api import recalibrate
from calibrant.registry.lookup import REPORT
from calibrant.registry.metrics.proper import ACCURACY, BRIER
from calibrant.reporting.report import check_ready, report
from calibrant.results.evaluation import Evaluation

FOLDER = Path(__file__).parent / "demo_data"
TITLE = "Calibrant demo: 20 networks on handwritten digits"
LLM_TITLE = "Calibrant demo: six language models on MMLU-Pro"


def demo_path(name: str) -> Path:
    """The path of the bundled file digits_<name>.npz: test, validation, shifted or glyphs."""
    return FOLDER / f"digits_{name}.npz"


def run_demo(out: Path, progress: Progress | None = None) -> tuple[list[Evaluation], list[Path]]:
    """Evaluate, check, detect, recalibrate and compare, and write the results and a report to a folder.

    Returns the main evaluation, the checks, the detection, the recalibration and the comparison, and the files. There
    is no report among them if the extra `report` is not installed.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = f"an error ({plain(error.strerror or type(error).__name__)})"
        raise WriteError(
            str(out), expected="a folder to write to", got=got, hint="choose another with --out"
        ) from error
    clean, shifted, glyphs = (read(demo_path(name)) for name in ("test", "shifted", "glyphs"))
    clean, shifted = clean.named("ensemble, clean digits"), shifted.named("ensemble, shifted digits")
    held_out = read(demo_path("validation")).named("clean digits, held out")
    parts = [
        evaluate(clean.member(0).named("one network, clean digits"), REPORT, progress=progress),
        evaluate(clean, REPORT, progress=progress),
        evaluate_shift(shifted, REPORT, by=("shift", "severity"), units="ids", progress=progress),
        evaluate(glyphs.named("ensemble, not digits"), REPORT, progress=progress),
    ]
    evaluation = Evaluation(
        version=parts[0].version,
        settings=parts[2].settings,
        inputs=tuple(item for part in parts for item in part.inputs),
        results=tuple(result for part in parts for result in part.results),
        warnings=tuple(note for part in parts for note in part.warnings),
        shift=parts[2].shift,
    )
    checks = check({item.name: item for item in (clean, shifted)}, progress=progress)
    checks_shift = check(shifted, shift=True, progress=progress)
    detection = detect(clean, glyphs.named("not digits, among digits"), "mutual_information", progress=progress)
    recalibration = recalibrate(held_out, shifted, units="ids", progress=progress).evaluation
    comparison = compare(_models(shifted), units="ids", shift=True, clean=_models(held_out), progress=progress)
    stored = {
        "evaluation": evaluation,
        "checks": checks,
        "checks-shift": checks_shift,
        "detection": detection,
        "recalibration": recalibration,
        "comparison": comparison,
    }
    files = [item.save(out / f"{name}.json") for name, item in stored.items()]
    if not missing_extra():
        files.append(report(stored.values(), out / "report.html", title=TITLE))
    return [evaluation, checks, detection, recalibration, comparison], files


def run_llm_demo(out: Path, progress: Progress | None = None) -> tuple[list[Evaluation], list[Path]]:
    """Evaluate and compare six language models by the confidence that they state, and write results and a report.

    Returns the evaluation by category and the comparison, and the files.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = plain(error.strerror or "")
        raise WriteError(
            str(out), expected="a folder to write to", got=got, hint="choose another with --out"
        ) from error
    source = Source(FOLDER / "mmlu_pro.npz", {})
    models = read_models_of(source, ColumnOptions(drop_missing=True), "models")
    evaluation = evaluate(dict(models), by="category", progress=progress)
    comparison = compare(
        dict(models), [ACCURACY.name, BRIER.name], rank_by=ACCURACY.name, units="ids", progress=progress
    )  # fmt: skip
    files = [evaluation.save(out / "evaluation.json"), comparison.save(out / "comparison.json")]
    if not missing_extra():
        files.append(report([evaluation, comparison], out / "report.html", title=LLM_TITLE))
    return [evaluation, comparison], files


def missing_extra() -> str:
    """Say what a report needs that is not installed, and how to install it; empty if nothing is missing."""
    try:
        check_ready()
    except MissingExtra as error:
        return f"{error.got}; {error.hint}"
    return ""


def _models(digits: InMemory) -> dict[str, InMemory]:
    return {"one network": digits.member(0), "five others": digits.subset(range(1, 6)), "all twenty": digits}
