"""The page of methods on CIFAR-10, from files of predictions: see `evidence.cifar10_methods`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import calibrant as cal

STATISTICS = ("accuracy", "ece", "nll", "brier")
ORDER = (
    "vanilla", "vanilla+augmentation", "mc_dropout", "last_layer_dropout", "laplace_last_layer", "laplace_diagonal",
    "laplace_kfac", "swag", "fge", "snapshot_ensemble", "csgld", "deep_ensemble",
)  # fmt: skip

TEXT = """# Methods on CIFAR-10

Every method for classes that Calibrant has, with a ResNet-20 on the 50,000 training images of CIFAR-10, evaluated on
its 10,000 test images, with seeds {seeds}. Schedules are far shorter than the papers': this page shows that each
method works and what it costs, not which is best. Trained on {device} in mixed precision (bfloat16), with crops and
flips, batches of 128, SGD with momentum 0.9, a rate of 0.1 and weight decay 5e-4; `evidence/cifar10_methods.py` has
all settings.

```bash
export CALIBRANT_DATA=…   # a folder with cifar10/
python -m evidence.cifar10_methods train --out cifar10-methods    # a GPU, a quarter of an hour
python -m evidence.cifar10_methods judge --out cifar10-methods    # writes this page
```

ECE has 15 bins. CLL is the calibrated log-likelihood of the averaged prediction by test-time cross-validation
(Ashukha et al. 2020); it is what models may be ranked by. Values are means over seeds. "Over vanilla" is the
difference of the CLL from that of the single network of the same seed, with the lowest and the highest of the seeds.
DEE is the deep-ensemble equivalent: how many members of an ensemble have the same CLL, against a pool of the networks
of the other seeds.

{scores}

{single}

Scales of the Laplace approximations, tuned on 2000 images that another network did not see: {scales}.

Posterior predictive checks (Gopal 2021) of seed {first}: 1000 replicates, members read as one for all rows. p is the
share of replicates below the observed value, and a check passes within their central 95%. With one member it is a
check of plain calibration.

{checks}

Costs, in the terms of Ovadia et al. (2019, table S1): operations per row of the first member and of each further one,
and stored numbers, both in units of one network ({flops:.1f} million operations, {parameters} parameters). Epochs are
those of all networks together, seconds those of training one seed's share of all that were trained together; of
vanilla, Laplace and augmentation they are those of a tenth of the ensemble.

{costs}
"""


def judge(folder: Path, page: Path) -> None:
    """Write the page."""
    facts = json.loads((folder / "facts.json").read_text())
    names = [name for name in ORDER if name in facts]
    seeds = list(facts["deep_ensemble"])
    found = {
        name: {seed: replace_name(cal.read(folder / f"{name}-{seed}.npz"), name) for seed in seeds} for name in names
    }
    first, cost = seeds[0], facts["vanilla"][seeds[0]]["cost"]
    cll = {name: [cal.comparison.cll(found[name][seed]).value for seed in seeds] for name in names}
    pools = {seed: pool_of([found["deep_ensemble"][other] for other in seeds if other != seed]) for seed in seeds}
    rows = (
        scores(
            name, facts[name][first]["members"], list(found[name].values()), cll[name], cll["vanilla"], pools.values()
        )
        for name in names
    )
    scales = (f"{name} {facts[name][first]['scale']:.3g}" for name in names if name.startswith("laplace"))
    text = TEXT.format(
        device="an NVIDIA H200",
        seeds=", ".join(seeds),
        first=first,
        scores=table("| method | members | accuracy | NLL | ECE | CLL | over vanilla | DEE |", rows),
        single=singles(found["deep_ensemble"][first]),
        scales=", ".join(scales),
        checks=table(
            "| method | " + " | ".join(f"{name} | p" for name in STATISTICS) + " | passed |",
            (checks(found[name][first]) for name in names),
        ),
        flops=cost["first"] / 1e6,
        parameters=cost["network"],
        costs=table(
            "| method | first member | each further | stored | epochs | seconds |",
            (costs(name, facts[name][first], cost["first"]) for name in names),
        ),
    )
    page.write_text(text.rstrip() + "\n", encoding="utf-8")
    print(f"written: {page}")


def replace_name(predictions: cal.Classification, name: str) -> cal.Classification:
    """The predictions under the name of their method."""
    return cal.Classification.from_logits(predictions.scores, predictions.labels, name=name)


def pool_of(ensembles: list[cal.Classification]) -> cal.Classification:
    """The members of several ensembles."""
    logits = np.concatenate([each.scores for each in ensembles])
    return cal.Classification.from_logits(logits, ensembles[0].labels, name="pool")


def table(head: str, rows: Any) -> str:
    """A table whose first column is text."""
    columns = head.count("|") - 1
    return "\n".join([head, "| --- |" + " ---: |" * (columns - 1), *rows])


def scores(
    name: str,
    members: int,
    predictions: list[cal.Classification],
    cll: list[float],
    vanilla: list[float],
    pools: Iterable[cal.Classification],
) -> str:
    """Means over seeds, the gain over a single network, and the equivalent."""
    got = [cal.measure(each, ["accuracy", "nll", "ece"]) for each in predictions]
    cells = [f"{np.mean([each[metric] for each in got]):.4f}" for metric in ("accuracy", "nll", "ece")]
    gains = np.array(cll) - np.array(vanilla)
    dee = [cal.comparison.equivalent(each, pool).value for each, pool in zip(predictions, pools, strict=True)]
    return (
        f"| {name} | {members} | {' | '.join(cells)} | {np.mean(cll):.4f} | {gains.mean():+.4f} "
        f"({gains.min():+.4f} to {gains.max():+.4f}) | {np.mean(dee):.1f} |"
    )


def checks(predictions: cal.Classification) -> str:
    """The observed values and p-values."""
    result = cal.check(predictions, list(STATISTICS), members="bayesian").results[0]
    cells = [f"{result.checks[name].observed:.4f} | {result.checks[name].p_value:.3f}" for name in STATISTICS]
    passed = sum(bool(result.checks[name].passed()) for name in STATISTICS)
    return f"| {predictions.name} | {' | '.join(cells)} | {passed} of {len(STATISTICS)} |"


def costs(name: str, fact: dict[str, Any], one: float) -> str:
    """Compute and storage in units of one network, epochs and seconds."""
    cost = fact["cost"]
    epochs = sum(each["epochs"] for each in fact["history"])
    return (
        f"| {name} | {cost['first'] / one:.2g} | {cost['further'] / one:.2g} | {cost['stored'] / cost['network']:.1f} |"
        f" {epochs} | {fact['seconds']:.0f} |"
    )


def singles(ensemble: cal.Classification) -> str:
    """How the single networks of the ensemble do."""
    found = [cal.measure(ensemble.member(k), ["accuracy"])["accuracy"] for k in range(ensemble.members)]
    return (
        f"Single networks of the first ensemble are right on {min(found):.2%} to {max(found):.2%} of the test images\n"
        f"(mean {np.mean(found):.2%}), their average on {cal.measure(ensemble, ['accuracy'])['accuracy']:.2%}."
    )
