"""Posterior predictive checks of real networks: `python -m evidence.real_checks` writes docs/checks-real.md.

After Gopal (2021), section 4: ensembles on clean and on shifted images, before and after a temperature for each member.
The data are in CALIBRANT_DATA or ../shared/data.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import calibrant as cal
from calibrant.recalibration.methods.member_temperatures import MemberTemperatureScaling
from calibrant.results.check import Check
from evidence.sizes import ROOT, data_folder

PAGE = ROOT / "docs" / "checks-real.md"
EIGHT, FOUR = "cifar10_test_8cnn_logits.npz", "cifar10_resnet_ensemble_shift_ood_logits.npz"
SHARE = 0.2
"""Of the clean rows, the first: temperatures are fitted on them."""
SEVERITIES = (1, 2, 3, 4, 5)
CLEAN = "clean"
Results = Mapping[str, Any]
"""The result of `check` by the name of the input."""

TEXT = """# Checks of real networks

Written by `make evidence`, or by `python -m evidence.real_checks` alone. Every number is that of `calibrant check` with
its defaults: 1000 replicates, seed 0, and a check passes where the observed value lies within the 2.5 % and 97.5 %
quantiles of the replicates. p is the share of replicates below the observed value. Read as *Bayesian*, one network
draws all labels of a replicate; read as *independent*, each row has a network of its own, which is to draw from the
averaged prediction. *Temperatures*: one for each network, fitted together on the first 20 % of the clean images; these
and their noisy copies are not checked (Gopal 2021, appendix G.1).

## Eight networks

Eight architectures on the 10 000 test images of CIFAR-10, one network each (`{eight}`).

```bash
cd "$CALIBRANT_DATA/predictions"
calibrant check {eight}
calibrant check {eight} --temperatures 0.2
```

{eight_before}

With temperatures, on the last 8000 images:

{eight_after}

{eight_temperatures}

{eight_said}

## Four networks under noise

ResNets of 20, 32, 44 and 56 layers on the first 1000 test images of CIFAR-10, and on the first 400 of them with
Gaussian noise of five severities (`{four}`).

```bash
cd "$CALIBRANT_DATA/predictions"
F={four}
clean="$F::logits=logits_clean,labels=labels_clean"
calibrant check "$clean"
calibrant check "$clean" --temperatures 0.2 --fit "$clean"
for s in 1 2 3 4 5; do
  noisy="$F::logits=logits_gaussian_noise_$s,labels=labels_gaussian_noise"
  calibrant check "$noisy"
  calibrant check "$noisy" --temperatures 0.2 --fit "$clean"
done
```

How many of the four statistics pass. The columns in the middle are without temperatures on the rows that are checked
with them, 800 clean and 200 noisy ones: fewer rows find out less.

{passes}

{four_said}

Without temperatures, all rows:

{four_before}

With temperatures, without the images that they were fitted on:

{four_after}

{four_temperatures}

Gopal counts passes over the 19 corruptions of CIFAR-10-C; of those, these data have predictions under Gaussian noise
only, so that there is no such count here.
"""
EIGHT_SAID = """As one network for all rows the ensemble expects what was observed; as a network for each row it does
not: it is right more often than its averaged confidence says, and `ece` alone would call it miscalibrated. The Bayesian
pass is the weaker statement, for its law is five times as wide: the networks differ much in how sure they are, and what
was observed is near what the better of them expect. Temperatures do not change the verdict. They are fitted for the
average, which leaves single networks free: three of eight fell far below 1, one to 1/64, the lowest that is tried. Such
a network is little more than a vote, and the Bayesian law became wider still."""
FOUR_SAID = """Clean images: these networks are too sure, and `nll` finds it by either reading; temperatures of 1.1 to
2.0 mend that, and then both readings fit. Noise of severity 1 is nearly what is expected once there are temperatures,
but for `nll`. From severity 2 on nothing passes, by either reading, with temperatures or without: the networks are
right far less often than they believe, and their disagreement does not make up for it."""


# ------------------------------------------------------------------------------------------------ predictions
def eight_networks(folder: Path) -> cal.Classification:
    """Eight networks, clean images."""
    data = np.load(folder / EIGHT)
    return cal.Classification.from_logits(data["logits"], data["labels"])


def four_networks(folder: Path) -> dict[str, cal.Classification]:
    """Four networks, clean and noisy images; the first rows are the same images."""
    data = np.load(folder / FOUR)
    found = {CLEAN: cal.Classification.from_logits(data["logits_clean"], data["labels_clean"])}
    for severity in SEVERITIES:
        logits = data[f"logits_gaussian_noise_{severity}"]
        found[f"noise {severity}"] = cal.Classification.from_logits(logits, data["labels_gaussian_noise"])
    return found


def checked(inputs: Mapping[str, cal.Classification], **options: Any) -> Results:
    """What `cal.check` says of each."""
    return {name: cal.check(predictions, **options).results[0] for name, predictions in inputs.items()}


def fitted(clean: cal.Classification) -> str:
    """The temperatures of the networks, in a sentence."""
    found = MemberTemperatureScaling().fit(clean[: int(SHARE * clean.n)]).temperatures
    return "Fitted temperatures: " + ", ".join(f"{value:.3g}" for value in found) + "."


# ---------------------------------------------------------------------------------------------------- tables
def table(results: Results) -> list[str]:
    """Every statistic of every input, by both readings."""
    named = "| images " if len(results) > 1 else ""
    both = "| Bayesian p | sharpness | | independent p | sharpness | |"
    lines = [f"{named}| statistic | observed {both}"]
    lines.append(f"{'| --- ' * bool(named)}| --- | ---: {'| ---: | ---: | --- ' * 2}|")
    for name, result in results.items():
        for key, check in result.checks.items():
            cells = f"{_cells(check)} | {_cells(result.independent[key])}"
            lines.append(f"{f'| {name} ' * bool(named)}| `{key}` | {check.observed:.4f} | {cells} |")
    return lines


def _cells(check: Check) -> str:
    verdict = "passes" if check.passed() else f"**{check.surprise()}**"
    return f"{check.p_value:.3f} | {check.sharpness:.4f} | {verdict}"


def pass_table(*columns: Results) -> list[str]:
    """How many statistics pass, by images: of each column of results the Bayesian and the independent reading."""
    names = ("no temperatures", "the same rows", "temperatures")
    heads = " | ".join(f"{name}: Bayesian | independent" for name in names)
    lines = [f"| images | {heads} |", "| --- |" + " ---: |" * 2 * len(names)]
    for images in columns[0]:
        counts = [_passed(found) for results in columns for found in _readings(results[images])]
        lines.append(f"| {images} | " + " | ".join(counts) + " |")
    return lines


def _readings(result: Any) -> Iterator[Mapping[str, Check]]:
    yield result.checks
    yield result.independent


def _passed(checks: Mapping[str, Check]) -> str:
    return f"{sum(bool(check.passed()) for check in checks.values())} of {len(checks)}"


# ------------------------------------------------------------------------------------------------------ page
def page_of(folder: Path) -> str:
    """The page from the data."""
    eight, four = {CLEAN: eight_networks(folder)}, four_networks(folder)
    clean = four[CLEAN]
    scaled = checked(four, temperatures=SHARE, fit=clean)
    before = checked(four)
    rest = checked({name: predictions[int(SHARE * clean.n) :] for name, predictions in four.items()})
    parts = {
        "eight_before": table(checked(eight)),
        "eight_after": table(checked(eight, temperatures=SHARE)),
        "passes": pass_table(before, rest, scaled),
        "four_before": table(before),
        "four_after": table(scaled),
    }
    return TEXT.format(
        eight=EIGHT, four=FOUR, eight_temperatures=fitted(eight[CLEAN]), four_temperatures=fitted(clean),
        eight_said=EIGHT_SAID, four_said=FOUR_SAID, **{name: "\n".join(lines) for name, lines in parts.items()},
    )  # fmt: skip


def written(path: Path = PAGE) -> list[str]:
    """Write the page where the data are there; a line that says so."""
    folder = data_folder()
    if not (folder / EIGHT).is_file() or not (folder / FOUR).is_file():
        return [f"Checks of real networks were left out: {EIGHT} and {FOUR} are not in the data folder."]
    path.write_text(page_of(folder), encoding="utf-8")
    return [f"[Checks of real networks]({path.name}) shows both readings on ensembles of eight and of four networks."]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, default=PAGE)
    print("\n".join(written(parser.parse_args().write)))


if __name__ == "__main__":
    main()
