"""Curves as plain data, apart from any plot: `result.curves[name][column]` is a list of numbers.

Of classes and judged answers: `reliability`, also `(bins=B,binning=mass)` and `(of=NAME)`, `corp`, `confidence`,
`entropy`, `mutual_information`, `accuracy_confidence`, `rejection`, also `(score=…)`, `risk_coverage`, `avu`. Of
regression: `pit`, `calibration`, `central_coverage`, `width`, and `functions`, which is of a few rows and not of the
record. Of detection: `scores`, and `mix` from `detect`. Groups have `reliability` or `pit`. Columns are said where each
is made; how to add one, in `curves.curve`.
"""

from calibrant.evaluation.curves.choosing import chosen, curves_of
from calibrant.evaluation.curves.curve import Columns, Curve, Drawn, TakenIn

__all__ = ["Columns", "Curve", "Drawn", "TakenIn", "chosen", "curves_of"]
