"""The waist: predictions of any model, made anywhere, in one form, read from files and checked."""

from calibrant.predictions.base import Note, Predictions, RowInfo
from calibrant.predictions.classification import Classification
from calibrant.predictions.detection import Detection
from calibrant.predictions.judged import Judged
from calibrant.predictions.regression import Regression

InMemory = Classification | Judged | Regression
Evaluated = InMemory | Detection
"""What can be evaluated: predictions, and scores of rows from inside and outside."""

__all__ = [
    "Classification",
    "Detection",
    "Evaluated",
    "InMemory",
    "Judged",
    "Note",
    "Predictions",
    "Regression",
    "RowInfo",
]
