"""Write the reports of the gallery, docs/gallery/*.html, from real predictions: `python scripts/make_gallery.py`.

Sources with licences that allow it: scikit-learn's digits and diabetes data (BSD), and, if the folder `CALIBRANT_DATA`
has them, ResNet-110 logits on CIFAR-10 (Kull et al. 2019, MIT) and predictions of movie reviews (cleanlab, Apache 2.0).
Reports whose predictions are missing are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import calibrant as cal
from calibrant.demo import demo_path, run_demo
from calibrant.pipeline.evaluate import EvaluateOptions, run_evaluation

DOCS = Path(__file__).parents[1] / "docs"
FOLDER = DOCS / "gallery"


def data_file(name: str) -> Path | None:
    """A file of real predictions; None if it does not exist."""
    setting = os.environ.get("CALIBRANT_DATA")
    folder = Path(setting) if setting else Path(__file__).parents[2] / "shared" / "data"
    path = folder / "predictions" / name
    return path if path.is_file() else None


def demo(path: Path) -> Path | None:
    """The report of `calibrant demo`."""
    with TemporaryDirectory() as name:
        _, files = run_demo(Path(name))
        page = next(file for file in files if file.suffix == ".html")
        return Path(path.write_bytes(page.read_bytes()) and path)


def classifier(path: Path) -> Path | None:
    """One network on CIFAR-10, before and after temperature scaling."""
    source = data_file("cifar10_nn_calibration_logits.npz")
    if source is None:
        return None
    with np.load(source, allow_pickle=False) as stored:
        held_out = cal.Classification.from_logits(stored["logits_val"][0], stored["labels_val"])
        test = cal.Classification.from_logits(
            stored["logits_test"][0], stored["labels_test"], ids=np.arange(len(stored["labels_test"]))
        )
    test = test.named("ResNet-110 on CIFAR-10")
    evaluations = [
        cal.evaluate(test, "default,skce", by="labels"),
        cal.check(test),
        cal.recalibrate(held_out.named("validation"), test),
    ]
    return cal.report(evaluations, path, title="One classifier: ResNet-110 on CIFAR-10")


def shifted(path: Path) -> Path | None:
    """An ensemble of 20 networks on rotated and noisy digits."""
    digits, glyphs = cal.read(demo_path("shifted")), cal.read(demo_path("glyphs"))
    clean = cal.read(demo_path("test"))
    models = {"one network": digits.member(0), "five networks": digits.subset(range(5)), "twenty networks": digits}
    evaluations = [
        cal.evaluate_shift(models, by=("severity", "shift"), units="ids"),
        cal.check(models, shift=True),
        cal.detect(clean, {"glyphs": glyphs, "shifted digits": digits}, "mutual_information"),
        cal.compare(models, units="ids", shift=True, pool="twenty networks"),
    ]
    return cal.report(evaluations, path, title="An ensemble under shift: rotated and noisy digits")


def regression(path: Path) -> Path | None:
    """Bagged networks that predict disease progression in diabetes from the body-mass index."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    names = list(data.feature_names)
    bmi, age = (data.data[:, names.index(name)] for name in ("bmi", "age"))
    mean, spread, y, test = _bagged(bmi[:, None], data.target)
    columns = {"bmi": bmi[test], "age": age[test]}
    predictions = cal.Regression.from_gaussian(mean, spread, y, columns=columns, ids=test)
    predictions = predictions.named("progression of diabetes")
    evaluations = [
        run_evaluation(predictions, None, EvaluateOptions(by=("bmi:4", "age:4"), along="bmi")),
        cal.check(predictions),
    ]
    return cal.report(
        evaluations, path, title="A regression model: progression of diabetes by body-mass index, ten networks"
    )


def _bagged(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Means and standard deviations (10, N) for half of the rows, from networks trained on resamples of the others."""
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    train, test = order[: len(y) // 2], np.sort(order[len(y) // 2 :])
    means, spreads = [], []
    for seed in range(10):
        rows = rng.choice(train, len(train))
        network = MLPRegressor(
            hidden_layer_sizes=(32,), alpha=1e-2, max_iter=5000, learning_rate_init=0.01, random_state=seed
        )
        fitted = make_pipeline(StandardScaler(), network).fit(x[rows], y[rows])
        left = np.setdiff1d(train, rows)
        means.append(fitted.predict(x[test]))
        spreads.append(np.full(len(test), np.sqrt(np.mean((fitted.predict(x[left]) - y[left]) ** 2))))
    return np.array(means), np.array(spreads), y[test], test


def judged(path: Path) -> Path | None:
    """Answers with a confidence and a correctness each, as in an evaluation of a language model."""
    source = data_file("imdb_test_set_cleanlab_cv_probs.npz")
    if source is None:
        return None
    with np.load(source, allow_pickle=False) as stored:
        probs, labels = stored["probs"].astype(np.float64), stored["labels"]
    probs /= probs.sum(axis=1, keepdims=True)
    answer = probs.argmax(axis=1)
    columns = {"answer": np.where(answer == 1, "positive", "negative")}
    predictions = cal.Judged.from_confidence(
        probs.max(axis=1), answer == labels, ids=np.arange(len(labels)), columns=columns
    ).named("is this review positive?")
    evaluations = [cal.evaluate(predictions, by="answer"), cal.check(predictions)]
    return cal.report(evaluations, path, title="Confidence and correctness: 25,000 movie reviews")


PAGES: dict[str, Callable[[Path], Path | None]] = {
    "demo": demo,
    "classifier": classifier,
    "shifted": shifted,
    "regression": regression,
    "judged": judged,
}


def main() -> None:
    """Write every report whose predictions exist."""
    FOLDER.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        path = make(FOLDER / f"{name}.html")
        print(f"{name}: {f'{path.stat().st_size / 1e6:.2f} MB' if path else 'skipped: predictions are missing'}")


if __name__ == "__main__":
    main()
