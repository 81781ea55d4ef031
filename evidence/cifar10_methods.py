"""Every method for classes on CIFAR-10 with ResNet-20: `python -m evidence.cifar10_methods train`, then `judge`.

`train --out DIR` needs a GPU and a quarter of an hour, and writes predictions of each method and seed, and
facts.json; `--only` names some of the jobs, `--checkpoint DIR` continues an interrupted one. `judge --out DIR` needs
neither and writes docs/methods-cifar10.md. The data are in the folder that CALIBRANT_DATA names.

Of the first seed all members are written, of the others the average of members, and all members of ensembles.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "methods-cifar10.md"
DRAWS = 20
CURVATURE_ROWS = 10_000
HELD_OUT_SEED = 100
JOBS = (
    "deep_ensemble", "mc_dropout", "last_layer_dropout", "snapshot_ensemble", "fge", "swag", "csgld",
)  # fmt: skip
LAPLACE = {
    "laplace_last_layer": {"layers": "last"},
    "laplace_diagonal": {"layers": "all", "structure": "diagonal"},
    "laplace_kfac": {"layers": "all", "structure": "kfac"},
}


# ---------------------------------------------------------------------------------------------- training
def base(epochs: int) -> Any:
    """The training of every method."""
    from calibrant import methods

    return methods.Training(
        epochs=epochs, batch=128, rate=0.1, nesterov=True, decay=5e-4, precision="bfloat16",
        schedule=methods.schedules.Cosine(warm_up=0.05),
    )  # fmt: skip


def jobs(epochs: int) -> dict[str, Callable[[], Any]]:
    """The methods that train networks, each with its settings."""
    from calibrant import methods

    same = base(epochs)
    longer = round(epochs / 3) * 4
    walk = replace(same, schedule=methods.schedules.LinearDecay(hold=0.5, end=0.9, least=0.05))
    return {
        "deep_ensemble": lambda: methods.DeepEnsemble(replace(same, compile=True), members=10),
        "mc_dropout": lambda: methods.MCDropout(same, p=0.05),
        "last_layer_dropout": lambda: methods.LastLayerDropout(same, p=0.2),
        "snapshot_ensemble": lambda: methods.SnapshotEnsemble(replace(same, epochs=longer), cycles=4),
        "fge": lambda: methods.FastGeometricEnsemble(walk, start=epochs * 3 // 5, cycle=4, high=0.2, low=0.005),
        "swag": lambda: methods.SWAG(same, start=epochs * 3 // 5, rank=20, draws=DRAWS),
        "csgld": lambda: methods.CyclicalSGLD(replace(same, epochs=longer, nesterov=False), cycles=4, samples=3),
    }


def train(
    out: Path, only: list[str], epochs: int, seeds: list[int], device: str, checkpoint: Path | None = None
) -> None:
    """Train the jobs, all seeds of one at the same time, and write predictions of the test images."""
    from calibrant import methods
    from calibrant.data.cifar10 import cifar10
    from calibrant.networks import ResNet

    out.mkdir(parents=True, exist_ok=True)
    task = methods.Task.classification(*cifar10("train"), classes=10, augment=methods.Augmentation(), name="cifar10")
    test = cifar10("test")
    facts_path = out / "facts.json"
    facts = json.loads(facts_path.read_text()) if facts_path.exists() else {}
    for job in only:
        begun = time.monotonic()
        cells = [methods.Cell(jobs(epochs)[job](), task, ResNet(20), seed) for seed in seeds]
        folder = None if checkpoint is None else checkpoint / job
        fitted = methods.fit_together(cells, device=device, checkpoint=folder)
        print(f"{job}: trained in {time.monotonic() - begun:.0f} s", flush=True)
        scales = laplace_scales(task, device, epochs) if job == "deep_ensemble" else {}
        for seed, posterior in zip(seeds, fitted, strict=True):
            for name, each in derived(job, posterior, task, device, scales):
                predictions = each.predict(test[0], each.max_members or DRAWS, y=test[1], device=device, name=name)
                mean = mean_probs(predictions.scores)
                whole = seed == seeds[0] or name == "deep_ensemble"
                write(predictions if whole else averaged(mean, test[1], name), out / f"{name}-{seed}.npz")
                wall = time.monotonic() - begun
                settings = {"members": predictions.members, "wall": wall, "scale": getattr(each, "scale", None)}
                facts.setdefault(name, {})[str(seed)] = {**each.about.to_json(), **settings}
                print(
                    f"{name}, seed {seed}: accuracy {(mean.argmax(1) == test[1]).mean():.4f}, {wall:.0f} s", flush=True
                )
        facts_path.write_text(json.dumps(facts))


def derived(job: str, posterior: Any, task: Any, device: str, scales: dict[str, float]) -> Iterator[tuple[str, Any]]:
    """The posterior itself, and of the ensemble its first network, with what needs no further training."""
    from calibrant import methods

    yield job, posterior
    if job != "deep_ensemble":
        return
    about = replace(
        posterior.about, method="vanilla", history=posterior.about.history[:1],
        seconds=posterior.about.seconds / len(posterior.states), cost=replace(
            posterior.about.cost, stored=posterior.about.cost.stored // len(posterior.states)
        ),
    )  # fmt: skip
    single = methods.posterior.WeightSamples(
        posterior.states[:1], recipe=posterior.recipe, likelihood=posterior.likelihood, seed=posterior.seed, about=about
    )  # the network of Vanilla with this seed
    yield "vanilla", single
    yield "vanilla+augmentation", methods.augmented(single, methods.Augmentation())
    for name, settings in LAPLACE.items():
        method = methods.Laplace(**settings, scale=scales[name], draws=DRAWS, rows=CURVATURE_ROWS)
        yield name, method.around(single, task, device=device)


def laplace_scales(task: Any, device: str, epochs: int) -> dict[str, float]:
    """The scale of each approximation, tuned with a network that did not see 2000 of the images (Ashukha et al.)."""
    from calibrant import methods
    from calibrant.networks import ResNet

    held = task.split(0.04, seed=0)
    network = methods.Vanilla(base(epochs)).fit(held, ResNet(20), HELD_OUT_SEED, device=device)
    found = {}
    for name, settings in LAPLACE.items():
        method = methods.Laplace(**settings, tune="scale", rows=CURVATURE_ROWS)
        found[name] = method.around(network, held, device=device).scale
        print(f"{name}: scale {found[name]:.3g}", flush=True)
    return found


def mean_probs(logits: np.ndarray) -> np.ndarray:
    """The averaged prediction (N, C) of logits (M, N, C)."""
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return (shifted / shifted.sum(-1, keepdims=True)).mean(0)


def averaged(probs: np.ndarray, y: np.ndarray, name: str) -> Any:
    """The averaged prediction as one of a single member."""
    from calibrant.predictions import Classification

    return Classification.from_logits(np.log(np.maximum(probs, 1e-30)).astype(np.float32), y, name=name)


def write(predictions: Any, path: Path) -> None:
    """Predictions as a file."""
    from calibrant.predictions.files.write import write as write_predictions

    write_predictions(predictions, path)


def main() -> None:
    """Train, or judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("train", "judge"))
    parser.add_argument("--out", type=Path, default=Path("cifar10-methods"))
    parser.add_argument("--only", default=",".join(JOBS))
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--checkpoint", type=Path, default=None)
    given = parser.parse_args()
    if given.what == "train":
        seeds = [int(seed) for seed in given.seeds.split(",")]
        train(given.out, given.only.split(","), given.epochs, seeds, given.device, given.checkpoint)
    else:
        from evidence.cifar10_page import judge

        judge(given.out, PAGE)


if __name__ == "__main__":
    main()
