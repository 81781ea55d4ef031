"""Every object of Calibrant that a public function returns, or that can be reached from one, has a repr of one line."""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest

import calibrant as cal
from calibrant import checks, comparison, conformal, gates, monitoring, predictions, recalibration

LONGEST = 260


def classes(seed=0, n=80, members=1, **columns):
    rng = np.random.default_rng(seed)
    labels = np.random.default_rng(7).integers(0, 3, n)
    return cal.Classification.from_logits(rng.normal(size=(members, n, 3)), labels, columns=columns or None)


def regression(n=80):
    rng = np.random.default_rng(1)
    mean = rng.normal(size=n)
    return cal.Regression.from_gaussian(mean, np.ones(n), mean + rng.normal(size=n), columns={"site": np.arange(n) % 2})


def shifted():
    columns = {"shift": np.repeat(["clean", "noise"], 40), "severity": np.repeat([0, 1], 40), "site": np.arange(80) % 2}
    return classes(members=2, **columns)


def monitor():
    return monitoring.Monitor().add(classes())


def unlabelled():
    return cal.Classification.from_logits(np.random.default_rng(5).normal(size=(60, 3)))


def scanned(tmp_path):
    return cal.scan(cal.write(classes(), tmp_path / "classes.npz"))


FEW = {"resamples": 20}
MODELS = {"a": classes(0), "b": classes(1, members=2)}
RETURNED = {
    "predictions": lambda: [classes(), regression(), unlabelled(), cal.Judged.from_confidence([0.5, 0.7], [1, 0])],
    "detection scores": lambda: cal.Detection.from_scores([0.1, 0.4], [0.6, 0.9]),
    "evaluate": lambda: cal.evaluate({"x": shifted(), "y": regression()}, by="site", **FEW),
    "evaluate_shift": lambda: cal.evaluate_shift(shifted(), "nll,ece", **FEW),
    "sample_size_curves": lambda: cal.sample_size_curves(classes(), "nll", sizes=(20, 40), repeats=2, **FEW),
    "error_hierarchy": lambda: cal.error_hierarchy(classes(), **FEW),
    "check": lambda: cal.check(classes(members=2), draws=40, members="both"),
    "check of shift": lambda: cal.check(shifted(), ["accuracy"], draws=40, shift=True, by="site"),
    "statistic": lambda: checks.Statistic(lambda labels, predictions: float((labels == 0).mean()), "share of class 0"),
    "compare": lambda: cal.compare(MODELS, "nll", resamples=20),
    "comparison functions": lambda: [
        comparison.cll(classes()), comparison.lint(cal.compare(MODELS, "nll", **FEW)),
        comparison.rank_flips(MODELS, "ece"), comparison.cll_curve(MODELS["b"]),
    ],
    "recalibrate": lambda: cal.recalibrate(classes(), classes(2), "auto", candidates=["temperature", "vector"], **FEW),
    "recalibrators": lambda: [
        recalibration.recalibrator(name).fit(regression() if name in ("levels", "std", "variance") else
                                             classes(members=2 if "member" in name else 1))
        for name in (*recalibration.methods_for("classification"), *recalibration.methods_for("regression"))
    ],
    "recalibration functions": lambda: [
        recalibration.choose(classes(), ["temperature", "vector"]), recalibration.cross_fit(
            classes(), recalibration.TemperatureScaling()), recalibration.improvement(classes(0), classes(1)),
        recalibration.TemperatureScaling(),
    ],
    "detect": lambda: cal.detect(classes(), unlabelled(), **FEW),
    "gate": lambda: gates.gate(cal.evaluate(classes(), "nll", **FEW), require="nll < 3"),
    "conformal": lambda: [
        conformal.ConformalSets(), conformal.ConformalSets().fit(classes()).predict(classes(2)),
        conformal.SplitConformal().fit(regression()).predict(regression()),
    ],
    "monitor": monitor,
    "metrics": cal.metrics,
    "scan": scanned,
    "notes": lambda: predictions.Note("dependent-rows", "a note"),
}  # fmt: skip


def reachable(value, known):
    """The objects of Calibrant's classes that a value holds, itself included, by identity."""
    if id(value) in known or isinstance(value, str | bytes | np.ndarray):
        return
    if isinstance(value, list | tuple | set | frozenset):
        for item in value:
            reachable(item, known)
    elif hasattr(value, "values") and hasattr(value, "keys"):
        for item in value.values():
            reachable(item, known)
    elif type(value).__module__.startswith("calibrant."):
        known[id(value)] = value
        names = (
            [item.name for item in fields(value)]
            if is_dataclass(value)
            else vars(value)
            if hasattr(value, "__dict__")
            else ()
        )
        properties = [
            name for kind in type(value).__mro__ for name, item in vars(kind).items() if isinstance(item, property)
        ]
        for name in (*names, *properties):
            if not name.startswith("_"):
                try:
                    item = getattr(value, name)
                except (cal.CalibrantError, KeyError):  # undefined for this object
                    continue
                known.setdefault(("kept", id(item)), item)  # alive, so that its identity stays its own
                reachable(item, known)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RETURNED)
def test_reprs_are_one_short_line(name, tmp_path):
    known = {}
    reachable(RETURNED[name](tmp_path) if RETURNED[name] is scanned else RETURNED[name](), known)
    objects = [value for key, value in known.items() if not isinstance(key, tuple)]
    assert objects
    long = {
        type(value).__name__: repr(value)[:300]
        for value in objects
        if len(repr(value)) > LONGEST or "\n" in repr(value)
    }
    assert not long, "\n".join(f"{kind}: {text}" for kind, text in long.items())
