"""Curves as plain data, apart from any plot: `result.curves[name][column]` is a list of numbers.

Classification and judged answers: `reliability`, also `(bins=B,binning=mass)` and `(of=NAME)`, `corp`, `confidence`,
`entropy`, `mutual_information`, `accuracy_confidence`, `rejection`, also `(score=…)`, `risk_coverage`, `avu`.
Regression: `pit`, `calibration`, `central_coverage`, `width`, and `functions`, which is computed from a few rows.
Detection: `scores`, and `mix` from `detect`. Groups have `reliability` or `pit`. The module of each curve describes its
columns; `curves.base` says how to add one.
"""
