"""The page of methods on CIFAR-10, from files of predictions: see `evidence.cifar10_methods`."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

import calibrant as cal

STATISTICS = ("accuracy", "ece", "nll", "brier")
ORDER = (
    "vanilla", "vanilla+augmentation", "mc_dropout", "last_layer_dropout", "laplace_last_layer", "laplace_diagonal",
    "laplace_kfac", "swag", "fge", "snapshot_ensemble", "csgld", "deep_ensemble",
)  # fmt: skip

TEXT = """# Methods on CIFAR-10

Every method for classes that Calibrant has, with a ResNet-20 on the 50 000 training images of CIFAR-10, judged on its
10 000 test images. One seed, and schedules far shorter than the papers': this page shows that each method works and
what it costs, not which is best. Trained on {device} in mixed precision (bfloat16), with crops and flips,
batches of 128, SGD with momentum 0.9, a rate of 0.1 and weight decay 5e-4; `evidence/cifar10_methods.py` has all
settings.

```bash
export CALIBRANT_DATA=…   # a folder with cifar10/
python -m evidence.cifar10_methods train --out cifar10-methods    # a GPU, a quarter of an hour
python -m evidence.cifar10_methods judge --out cifar10-methods    # writes this page
```

ECE has 15 bins. CLL is the calibrated log-likelihood of the averaged prediction by test-time cross-validation (Ashukha
et al. 2020), with its 95 % interval; it is what models may be ranked by.

{scores}

{single}
{note}
What a posterior predictive check says (Gopal 2021; 1000 replicates, members read as one for all rows; p is the share of
replicates below the observed value, and a check passes within their central 95 %). With one member it is a check of
plain calibration.

{checks}

Costs, in the terms of Ovadia et al. (2019, table S1): operations a row of the first member and of each further one, and
stored numbers, both in units of one network ({flops:.1f} million operations, {parameters} parameters). Epochs are those
of all networks together, seconds those of training; of Laplace and of augmentation they are of the network that these
stand on.

{costs}
"""


def judge(folder: Path, page: Path, note: str = "") -> None:
    """Write the page. note: what is to be said of this run."""
    facts = json.loads((folder / "facts.json").read_text())
    found = {name: cal.read(folder / f"{name}.npz") for name in ORDER if name in facts}
    lacking = [name for name in ORDER if name not in facts]
    parts = {
        "scores": table(
            "| method | members | accuracy | NLL | ECE | CLL | 95 % interval |", map(scores, found.values())
        ),
        "checks": table(
            "| method | " + " | ".join(f"{name} | p" for name in STATISTICS) + " | passed |",
            map(checks, found.values()),
        ),
        "costs": table(
            "| method | first member | each further | stored | epochs | seconds |",
            (costs(name, facts[name]) for name in found),
        ),
        "single": singles(found["deep_ensemble"]) if "deep_ensemble" in found else "",
    }
    cost = facts["vanilla"]["cost"]
    parts["note"] = f"\n{fill(note, 120)}\n" if note else ""
    text = TEXT.format(device="an NVIDIA H200", flops=cost["first"] / 1e6, parameters=cost["network"], **parts)
    page.write_text(text.rstrip() + "\n", encoding="utf-8")
    print(f"written: {page}" + (f"; not found: {', '.join(lacking)}" if lacking else ""))


def table(head: str, rows: Any) -> str:
    """A table whose first column is text."""
    columns = head.count("|") - 1
    return "\n".join([head, "| --- |" + " ---: |" * (columns - 1), *rows])


def scores(predictions: cal.Classification) -> str:
    """Accuracy, scores and calibrated likelihood."""
    got = cal.measure(predictions, ["accuracy", "nll", "ece"])
    cll = cal.comparison.cll(predictions)
    cells = [f"{got[name]:.4f}" for name in ("accuracy", "nll", "ece")]
    return (
        f"| {predictions.name} | {predictions.members} | {' | '.join(cells)} | {cll.value:.4f} |"
        f" {cll.low:.4f} to {cll.high:.4f} |"
    )


def checks(predictions: cal.Classification) -> str:
    """The observed values and p-values."""
    result = cal.check(predictions, list(STATISTICS), members="bayesian").results[0]
    cells = [f"{result.checks[name].observed:.4f} | {result.checks[name].p_value:.3f}" for name in STATISTICS]
    passed = sum(bool(result.checks[name].passed()) for name in STATISTICS)
    return f"| {predictions.name} | {' | '.join(cells)} | {passed} of {len(STATISTICS)} |"


def costs(name: str, fact: dict[str, Any]) -> str:
    """Compute and storage in units of one network, epochs and seconds."""
    cost = fact["cost"]
    one = cost["first"] if name != "deep_ensemble" else cost["further"]
    epochs = sum(each["epochs"] for each in fact["history"])
    return (
        f"| {name} | {cost['first'] / one:.2g} | {cost['further'] / one:.2g} | {cost['stored'] / cost['network']:.1f} |"
        f" {epochs} | {fact['seconds']:.0f} |"
    )


def singles(ensemble: cal.Classification) -> str:
    """How the single networks of the ensemble do."""
    found = [cal.measure(ensemble.member(k), ["accuracy"])["accuracy"] for k in range(ensemble.members)]
    return (
        f"Single networks of the deep ensemble are right on {min(found):.2%} to {max(found):.2%} of the test images\n"
        f"(mean {np.mean(found):.2%}), their average on {cal.measure(ensemble, ['accuracy'])['accuracy']:.2%}."
    )
