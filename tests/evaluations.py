"""Evaluations with options that the public functions do not expose."""

from calibrant.pipeline.evaluate import EvaluateOptions, run_evaluation


def evaluate_with(predictions, metrics=None, **options):
    """Evaluate with any of `EvaluateOptions`."""
    return run_evaluation(predictions, metrics, EvaluateOptions(**options))
