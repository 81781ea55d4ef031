"""Every method for classes on CIFAR-10 with ResNet-20: `python -m evidence.cifar10_methods train`, then `judge`.

`train --out DIR` needs a GPU and a quarter of an hour, and writes predictions of each method, and facts.json;
`--only` names some of the jobs. `judge --out DIR` needs neither and writes docs/methods-cifar10.md. The data are in the
folder that CALIBRANT_DATA names.
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
JOBS = (
    "deep_ensemble", "vanilla", "mc_dropout", "last_layer_dropout", "snapshot_ensemble", "fge", "swag", "csgld",
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- training
def jobs(epochs: int) -> dict[str, Callable[[], Any]]:
    """The methods, each with its settings."""
    from calibrant import methods
    from calibrant.training.schedules import Cosine, LinearDecay

    base = methods.Training(
        epochs=epochs, batch=128, rate=0.1, nesterov=True, decay=5e-4, precision="bfloat16",
        schedule=Cosine(warm_up=0.05),
    )  # fmt: skip
    longer = round(epochs / 3) * 4
    walk = replace(base, schedule=LinearDecay(hold=0.5, end=0.9, least=0.05))
    return {
        "deep_ensemble": lambda: methods.DeepEnsemble(replace(base, compile=True), members=10),
        "vanilla": lambda: methods.Vanilla(base),
        "mc_dropout": lambda: methods.MCDropout(base, p=0.05),
        "last_layer_dropout": lambda: methods.LastLayerDropout(base, p=0.2),
        "snapshot_ensemble": lambda: methods.SnapshotEnsemble(replace(base, epochs=longer), cycles=4),
        "fge": lambda: methods.FastGeometricEnsemble(walk, start=epochs * 3 // 5, cycle=4, high=0.2, low=0.005),
        "swag": lambda: methods.SWAG(walk, start=epochs * 3 // 5, high=0.2, rank=20, draws=DRAWS),
        "csgld": lambda: methods.CyclicalSGLD(
            replace(base, epochs=longer, nesterov=False), cycles=4, samples=3, temperature=0.1
        ),
    }


def train(out: Path, only: list[str], epochs: int, device: str) -> None:
    """Train what is asked for, and write predictions of the test images."""
    from calibrant import methods
    from calibrant.data.cifar10 import cifar10
    from calibrant.networks import ResNet

    out.mkdir(parents=True, exist_ok=True)
    task = methods.Task.classification(*cifar10("train"), classes=10, augment=methods.Augmentation(), name="cifar10")
    test = cifar10("test")
    facts_path = out / "facts.json"
    facts = json.loads(facts_path.read_text()) if facts_path.exists() else {}
    for name in only:
        begun = time.monotonic()
        posterior = jobs(epochs)[name]().fit(task, ResNet(20), 0, device=device)
        for told, made in derived(name, posterior, task, device, epochs):
            predictions = made.predict(test[0], made.max_members or DRAWS, y=test[1], device=device, name=told)
            write(predictions, out / f"{told}.npz")
            facts[told] = {**made.about.to_json(), "members": predictions.members, "wall": time.monotonic() - begun}
            accuracy = float((mean_probs(predictions.scores).argmax(1) == test[1]).mean())
            print(f"{told}: accuracy {accuracy:.4f}, {time.monotonic() - begun:.0f} s", flush=True)
        facts_path.write_text(json.dumps(facts))


def derived(name: str, posterior: Any, task: Any, device: str, epochs: int) -> Iterator[tuple[str, Any]]:
    """The posterior itself, and of the single network what needs no further training."""
    from calibrant import methods

    yield name, posterior
    if name != "vanilla":
        return
    yield "vanilla+augmentation", methods.augmented(posterior, methods.Augmentation())
    for structure, scale in laplace_scales(task, device, epochs).items():
        method = methods.Laplace(structure=structure, scale=scale, draws=DRAWS, rows=CURVATURE_ROWS)
        yield f"laplace_{structure}", method.around(posterior, task, device=device)


def laplace_scales(task: Any, device: str, epochs: int) -> dict[str, float]:
    """The noise scale of each structure, found with a network that 5000 images were held back from (Ashukha et al.)."""
    from calibrant import methods
    from calibrant.networks import ResNet

    held = task.split(0.1, seed=0)
    other = jobs(epochs)["vanilla"]().fit(held, ResNet(20), 1, device=device)
    found = {}
    for structure in ("last_layer", "diagonal", "kfac"):
        method = methods.Laplace(structure=structure, tune="scale", rows=CURVATURE_ROWS)
        found[structure] = method.around(other, held, device=device).scale
        print(f"laplace {structure}: scale {found[structure]:.3g}", flush=True)
    return found


def mean_probs(logits: np.ndarray) -> np.ndarray:
    """The averaged prediction (N, C) of logits (M, N, C)."""
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return (shifted / shifted.sum(-1, keepdims=True)).mean(0)


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
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--note", default="", help="what judge is to say of this run")
    given = parser.parse_args()
    if given.what == "train":
        train(given.out, given.only.split(","), given.epochs, given.device)
    else:
        from evidence.cifar10_page import judge

        judge(given.out, PAGE, given.note)


if __name__ == "__main__":
    main()
