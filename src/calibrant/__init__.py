"""Calibrant: does a model know what it does not know?

    import calibrant as cal
    preds = cal.Classification.from_logits(logits, labels)
    print(cal.evaluate(preds))

Names are loaded when they are first used (PEP 562), so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calibrant.version import __version__ as __version__

if TYPE_CHECKING:
    from calibrant.checks.check import Check as Check
    from calibrant.checks.statistics import Statistic as Statistic
    from calibrant.comparison.cll import cll as cll
    from calibrant.comparison.cll import cll_curve as cll_curve
    from calibrant.comparison.equivalent import equivalent as equivalent
    from calibrant.errors import CalibrantError as CalibrantError
    from calibrant.errors import CalibrantWarning as CalibrantWarning
    from calibrant.evaluation.check import check as check
    from calibrant.evaluation.choice import choose as choose
    from calibrant.evaluation.compare import compare as compare
    from calibrant.evaluation.detect import detect as detect
    from calibrant.evaluation.evaluate import evaluate as evaluate
    from calibrant.evaluation.evaluate import measure as measure
    from calibrant.evaluation.evaluate import score_rows as score_rows
    from calibrant.evaluation.flips import rank_flips as rank_flips
    from calibrant.evaluation.gates import gate as gate
    from calibrant.evaluation.improvement import improvement as improvement
    from calibrant.evaluation.lint import lint as lint
    from calibrant.evaluation.monitor import Monitor as Monitor
    from calibrant.evaluation.recalibrate import recalibrate as recalibrate
    from calibrant.evaluation.result import Evaluation as Evaluation
    from calibrant.predictions.classification import Classification as Classification
    from calibrant.predictions.detection import Detection as Detection
    from calibrant.predictions.files.reading import read as read
    from calibrant.predictions.files.stream import Stream as Stream
    from calibrant.predictions.files.stream import scan as scan
    from calibrant.predictions.files.writing import write as write
    from calibrant.predictions.judged import Judged as Judged
    from calibrant.predictions.regression import Regression as Regression
    from calibrant.recalibration.conformal.classes import ConformalSets as ConformalSets
    from calibrant.recalibration.conformal.numbers import ConformalQuantiles as ConformalQuantiles
    from calibrant.recalibration.conformal.numbers import SplitConformal as SplitConformal
    from calibrant.recalibration.cross_fitting import cross_fit as cross_fit
    from calibrant.recalibration.temperature import TemperatureScaling as TemperatureScaling
    from calibrant.registry import metrics as metrics
    from calibrant.registry.estimate import Estimate as Estimate
    from calibrant.reporting.report import report as report

_HOMES = {
    "CalibrantError": "calibrant.errors",
    "CalibrantWarning": "calibrant.errors",
    "Classification": "calibrant.predictions.classification",
    "ConformalQuantiles": "calibrant.recalibration.conformal.numbers",
    "ConformalSets": "calibrant.recalibration.conformal.classes",
    "Detection": "calibrant.predictions.detection",
    "Estimate": "calibrant.registry.estimate",
    "Evaluation": "calibrant.evaluation.result",
    "Judged": "calibrant.predictions.judged",
    "Monitor": "calibrant.evaluation.monitor",
    "Check": "calibrant.checks.check",
    "Regression": "calibrant.predictions.regression",
    "SplitConformal": "calibrant.recalibration.conformal.numbers",
    "Statistic": "calibrant.checks.statistics",
    "Stream": "calibrant.predictions.files.stream",
    "TemperatureScaling": "calibrant.recalibration.temperature",
    "check": "calibrant.evaluation.check",
    "choose": "calibrant.evaluation.choice",
    "compare": "calibrant.evaluation.compare",
    "cll": "calibrant.comparison.cll",
    "cll_curve": "calibrant.comparison.cll",
    "cross_fit": "calibrant.recalibration.cross_fitting",
    "detect": "calibrant.evaluation.detect",
    "equivalent": "calibrant.comparison.equivalent",
    "evaluate": "calibrant.evaluation.evaluate",
    "gate": "calibrant.evaluation.gates",
    "improvement": "calibrant.evaluation.improvement",
    "lint": "calibrant.evaluation.lint",
    "measure": "calibrant.evaluation.evaluate",
    "metrics": "calibrant.registry",
    "rank_flips": "calibrant.evaluation.flips",
    "read": "calibrant.predictions.files.reading",
    "recalibrate": "calibrant.evaluation.recalibrate",
    "report": "calibrant.reporting.report",
    "scan": "calibrant.predictions.files.stream",
    "score_rows": "calibrant.evaluation.evaluate",
    "write": "calibrant.predictions.files.writing",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in ("methods", "networks", "recalibration"):
        return import_module(f"calibrant.{name}")
    raise AttributeError(f"module 'calibrant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
