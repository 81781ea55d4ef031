from calibrant import checks as checks
from calibrant import comparison as comparison
from calibrant import conformal as conformal
from calibrant import gates as gates
from calibrant import methods as methods
from calibrant import monitoring as monitoring
from calibrant import networks as networks
from calibrant import plot as plot
from calibrant import predictions as predictions
from calibrant import recalibration as recalibration
from calibrant import sklearn as sklearn
from calibrant.checks.api import check as check
from calibrant.comparison.api import compare as compare
from calibrant.errors import CalibrantError as CalibrantError
from calibrant.errors import CalibrantWarning as CalibrantWarning
from calibrant.pipeline.evaluate import error_hierarchy as error_hierarchy
from calibrant.pipeline.evaluate import evaluate as evaluate
from calibrant.pipeline.evaluate import evaluate_shift as evaluate_shift
from calibrant.pipeline.evaluate import sample_size_curves as sample_size_curves
from calibrant.pipeline.measure import measure as measure
from calibrant.pipeline.measure import score_rows as score_rows
from calibrant.pipeline.ood import detect as detect
from calibrant.predictions.classification import Classification as Classification
from calibrant.predictions.detection import Detection as Detection
from calibrant.predictions.files.read import read as read
from calibrant.predictions.files.stream import scan as scan
from calibrant.predictions.files.write import write as write
from calibrant.predictions.judged import Judged as Judged
from calibrant.predictions.regression import Regression as Regression
from calibrant.recalibration.api import recalibrate as recalibrate
from calibrant.registry.estimate import Estimate as Estimate
from calibrant.registry.lookup import metrics as metrics
from calibrant.reporting.report import report as report
from calibrant.results.evaluation import Evaluation as Evaluation
from calibrant.version import __version__ as __version__

MODULES: tuple[str, ...]
__all__: list[str]
