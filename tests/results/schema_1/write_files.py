"""Writes the files of this folder with commit cc38934, the last version of schema 1.

    git worktree add /tmp/before cc38934
    cd tests/results/schema_1 && PYTHONPATH=/tmp/before/src python write_files.py

It uses names of that version and does not run with later ones. The files are read by `tests/results/test_old_files.py`.
"""

import warnings

import numpy as np

import calibrant as cal
from calibrant import methods
from calibrant.networks import MLP

RECALIBRATORS = (
    "none", "temperature", "ets", "vector", "matrix", "dirichlet", "beta", "isotonic", "isotonic_multiclass",
    "histogram", "spline", "diag", "op", "order_invariant",
)  # fmt: skip
"""For one model; `avu_temperature`, `member_temperatures`, `levels`, `std` and `variance` have inputs of their own."""


def inputs() -> dict[str, np.ndarray]:
    """Predictions of every kind: 60 rows to fit on, 40 to apply to."""
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(3, 100, 3)) * 1.5 + rng.normal(size=(100, 3))
    p = np.exp(logits[0]) / np.exp(logits[0]).sum(1, keepdims=True)
    x = rng.normal(size=100)
    levels = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    return {
        "logits": logits.round(3),
        "labels": (p.cumsum(1) > rng.random((100, 1))).argmax(1),
        "site": rng.integers(0, 2, 100),
        "mean": x.round(3),
        "y": (x + 0.7 * rng.normal(size=100)).round(3),
        "quantiles": (x[:, None] + 0.6 * np.array([-1.28, -0.67, 0.0, 0.67, 1.28])).round(3),
        "levels": levels,
        "points": rng.normal(size=(80, 2)).round(3).astype(np.float32),
    }


def main() -> None:
    """Write the files."""
    warnings.simplefilter("ignore")
    data = inputs()
    np.savez_compressed("inputs.npz", **data)
    fit, test = slice(0, 60), slice(60, 100)

    def classes(rows: slice, members: slice = slice(0, 1)) -> cal.Classification:
        columns = {"site": data["site"][rows]}
        return cal.Classification.from_logits(data["logits"][members, rows], data["labels"][rows], columns=columns)

    def gaussian(rows: slice) -> cal.Regression:
        return cal.Regression.from_gaussian(data["mean"][rows], np.full(len(data["y"][rows]), 0.5), data["y"][rows])

    def quantiles(rows: slice) -> cal.Regression:
        return cal.Regression.from_quantiles(data["quantiles"][rows], data["levels"], data["y"][rows])

    few = {"resamples": 50}
    every = slice(0, 3)
    cal.evaluate(classes(test), "accuracy,nll,ece", by="site", curves=False, **few).save("evaluation.json")
    cal.evaluate(gaussian(test), "nll,crps,mace", curves=False, **few).save("regression.json")
    cal.check(classes(test, every), ["accuracy", "ece"], draws=60).save("check.json")
    cal.compare({"a": classes(test), "b": classes(test, every)}, "nll,brier", **few).save("comparison.json")
    cal.recalibrate(classes(fit), classes(test), "temperature", metrics="nll", **few).evaluation.save(
        "recalibration.json"
    )
    unlabelled = cal.Classification.from_logits(data["logits"][:, test] * 0.3)
    cal.detect(classes(test, every), unlabelled, **few).save("detection.json")

    applied = {}
    cases = {name: (name, classes(fit), classes(test)) for name in RECALIBRATORS}
    cases["avu_temperature"] = ("avu_temperature", classes(fit, every), classes(test, every))
    cases["member_temperatures"] = ("member_temperatures", classes(fit, every), classes(test, every))
    cases |= {name: (name, gaussian(fit), gaussian(test)) for name in ("levels", "std", "variance")}
    for name, (method, held_out, new) in cases.items():
        fitted = cal.recalibration.recalibrator(method).fit(held_out)
        fitted.save(f"recalibrator_{name}.json")
        after = fitted.transform(new)
        parts = ("scores",) if isinstance(new, cal.Classification) else ("mean", "std", "quantiles")
        applied |= {
            f"{name}/{part}": np.asarray(getattr(after, part))
            for part in parts
            if getattr(after, part, None) is not None
        }
    conformal = {
        "sets": (cal.ConformalSets, classes), "split": (cal.SplitConformal, gaussian),
        "cqr": (cal.ConformalQuantiles, quantiles),
    }  # fmt: skip
    for name, (kind, make) in conformal.items():
        fitted = kind(level=0.8).fit(make(fit))
        fitted.save(f"conformal_{name}.json")
        found = fitted.predict(make(test))
        for part in ("included", "lower", "upper"):
            value = getattr(found, part, None)
            if isinstance(value, np.ndarray):
                applied[f"{name}/{part}"] = value

    monitor = cal.Monitor()
    monitor.add(classes(fit))
    monitor.save("monitor.json")
    applied["monitor/log_e_value"] = np.array(monitor.log_e_value)

    x = data["points"]
    training = methods.Training(epochs=20, batch=20, rate=0.05)
    labels = (x[:60, 0] * x[:60, 1] > 0).astype(int)
    task = methods.Task.classification(x[:60], labels, classes=2, name="quadrants")
    for name in ("Vanilla", "DeepEnsemble", "MCDropout", "LastLayerDropout", "SnapshotEnsemble",
                 "FastGeometricEnsemble", "SWAG", "CyclicalSGLD", "Laplace"):  # fmt: skip
        posterior = getattr(methods, name)(training).fit(task, MLP(2, 2, hidden=(3,)), seed=0)
        posterior.save(f"posterior_{name}.safetensors")
        members = 3 if "Dropout" in name else None
        applied[f"{name}/scores"] = np.asarray(posterior.predict(x[60:], members=members).scores)
    task = methods.Task.regression(x[:60], x[:60, 0].astype(float), name="line")
    posterior = methods.BayesianRidge().fit(task)
    posterior.save("posterior_BayesianRidge.safetensors")
    applied["BayesianRidge/mean"] = np.asarray(posterior.predict(x[60:]).mean)
    np.savez_compressed("outputs.npz", **applied)


if __name__ == "__main__":
    main()
