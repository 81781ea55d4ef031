"""Evaluations made by hand: estimates with any interval, and a comparison of two models."""

import math

from calibrant.registry.estimate import Estimate
from calibrant.results.comparison import Comparison, Equivalent, Pair, Ranked
from calibrant.results.evaluation import Evaluation, Result

NAN = math.nan


def estimate(value, low=NAN, high=NAN):
    known = not (math.isnan(low) and math.isnan(high))
    return Estimate(value, 100, low, high, 0.95 if known else NAN, "studentised" if known else "none")


def evaluation(*results, **more):
    inputs = tuple({"name": result.input, "sha256": None, "n": 100, "members": 1} for result in results)
    kind = "comparison" if "comparison" in more else "evaluation"
    return Evaluation("0.1.0", {"level": 0.95, "metrics": "default", "by": []}, inputs, results, kind=kind, **more)


def pair(score, difference, low, high, p):
    return Pair(score, "new", "old", difference, low, high, 0.95, p, p, p, 500)


def ranked(model, rank, low, high, value):
    return Ranked(model, rank, value, value - 0.01, value + 0.01, low, high, 0.5)


COMPARED = evaluation(
    Result("new", {"nll": estimate(0.3, 0.28, 0.32)}),
    Result("old", {"nll": estimate(0.35, 0.33, 0.37)}),
    comparison=Comparison(
        rank_by="cll",
        ranking=(ranked("new", 1, 1, 1, -0.29), ranked("old", 2, 2, 2, -0.34)),
        pairs=(
            pair("nll", -0.05, -0.06, -0.04, 0.001),
            pair("cll", 0.05, 0.04, 0.06, 0.001),
            pair("accuracy", -0.005, -0.02, 0.01, 0.4),
            pair("brier", 0.0, 0.0, 0.0, 1.0),
        ),
        ranks={"accuracy": (ranked("old", 1, 1, 2, 0.9), ranked("new", 2, 1, 2, 0.895))},
        equivalents={"new": Equivalent(1, -0.29, 3.5, 3.0, 4.0, 0.95, 3.2, 3.8)},
    ),
)
