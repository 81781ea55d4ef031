"""Charts of predictions in one call: `cal.plot.reliability(predictions).save("reliability.svg")`.

Each function evaluates the predictions and returns an Altair chart, which notebooks show and whose `save` writes PNG,
SVG and PDF; with `ax` or `library="matplotlib"` it draws on matplotlib axes instead and returns them. Of results that
are there already, use `result.plot(name)`.
"""

from __future__ import annotations

from typing import Any

from calibrant.pipeline.evaluate import evaluate
from calibrant.predictions import Evaluable
from calibrant.predictions.files.stream import Stream

__all__ = ["confidence", "corp", "coverage", "pit", "rejection", "reliability", "risk_coverage"]
Input = Evaluable | Stream


def reliability(predictions: Input, *, library: str = "altair", ax: Any = None, seed: int = 0) -> Any:
    """Accuracy against confidence, with the range of a calibrated model.

    Parameters
    ----------
    predictions : Classification, Judged or Stream
        Predictions with labels.
    library : {"altair", "matplotlib"}
        What draws it.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on.
    seed : int
        Seed of the range of a calibrated model.

    Returns
    -------
    altair.Chart or matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cal
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.uniform(0.5, 1, 500)
    >>> answers = cal.Judged.from_confidence(confidence, rng.random(500) < confidence)
    >>> chart = cal.plot.reliability(answers)
    >>> axes = cal.plot.reliability(answers, library="matplotlib")
    >>> axes.get_xlabel()
    'Confidence'
    """
    return evaluate(predictions, seed=seed).plot("reliability", library=library, ax=ax)


def corp(predictions: Input, *, seed: int = 0) -> Any:
    """Reliability without bins, by isotonic regression (Dimitriadis, Gneiting & Jordan 2021, PNAS 118).

    Parameters
    ----------
    predictions, seed
        As in `reliability`.
    """
    return evaluate(predictions, seed=seed).plot("corp")


def confidence(predictions: Input, *, seed: int = 0) -> Any:
    """Histogram of the confidence of correct and of wrong rows.

    Parameters
    ----------
    predictions, seed
        As in `reliability`.
    """
    return evaluate(predictions, seed=seed).plot("confidence")


def risk_coverage(predictions: Input, *, library: str = "altair", ax: Any = None, seed: int = 0) -> Any:
    """Error rate among the most confident rows, against their share.

    Parameters
    ----------
    predictions, library, ax, seed
        As in `reliability`.
    """
    return evaluate(predictions, seed=seed).plot("risk_coverage", library=library, ax=ax)


def rejection(predictions: Input, *, seed: int = 0) -> Any:
    """Accuracy after the least certain rows are rejected.

    Parameters
    ----------
    predictions, seed
        As in `reliability`.
    """
    return evaluate(predictions, seed=seed).plot("rejection")


def pit(predictions: Input, *, library: str = "altair", ax: Any = None, seed: int = 0) -> Any:
    """Histogram of the probability integral transform of a regression, with the range of a calibrated model.

    Parameters
    ----------
    predictions, library, ax, seed
        As in `reliability`, of a `Regression` with outcomes.
    """
    return evaluate(predictions, seed=seed).plot("pit", library=library, ax=ax)


def coverage(predictions: Input, *, library: str = "altair", ax: Any = None, seed: int = 0) -> Any:
    """Observed against nominal coverage of the central intervals of a regression.

    Parameters
    ----------
    predictions, library, ax, seed
        As in `reliability`, of a `Regression` with outcomes.
    """
    return evaluate(predictions, seed=seed).plot("coverage", library=library, ax=ax)
