"""Every method of recalibration on real networks: `python -m evidence.real_recalibration` writes
docs/recalibration-real.md and docs/figures/recalibration-sizes.svg.

Maps are fitted on the validation logits of each network and judged on its test logits. The data are in CALIBRANT_DATA
or ../shared/data.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import calibrant as cal
from calibrant.recalibration import methods_for
from calibrant.recalibration.api import Recalibration
from calibrant.results.improvement import Gain, Improvement
from evidence import drawing
from evidence.sizes import COLOURS, FIGURES, MARKERS, QUICK, ROOT, SIZES, data_folder

PAGE = ROOT / "docs" / "recalibration-real.md"
FIGURE = "recalibration-sizes.svg"
LOGITS, HUNDRED = "cifar10_nn_calibration_logits.npz", "cifar100_test_netcal_probs.npz"
PUBLISHED = "dirichlet_dnn_test_scores.csv"
METRICS = ["accuracy", "nll", "rbs", "ece", "tce(binning=mass,debias=true)", "cwce", "ks"]
FIRST = ("none", "temperature")
LEFT_OUT = ("member_temperatures",)
"""Of one network it is temperature scaling."""
INSIDE = ("isotonic", "histogram", "spline")
"""Methods that predict 0 and 1 as they are fitted: they are shown with these kept off, too."""
MANY_CLASSES = ("temperature", "ets", "vector", "dirichlet", "matrix", "beta", "isotonic_multiclass", "spline")
"""Methods that are shown for a hundred classes."""
FOLLOWED = ("temperature", "ets", "diag")
"""Those of the paper's figure 1."""
THEIRS = {"temperature": "temp_scale", "dirichlet": "dir_l2_mu_off", "matrix": "mat_scale_l2_mu_off"}
REPEATS = 100

TEXT = """# Recalibration of real networks

Written by `make evidence`, or by `python -m evidence.real_recalibration` alone. Maps are fitted on the 5000 validation
rows of each network and judged on its 10 000 test rows: CIFAR-10 logits of ResNet-110 and DenseNet-40 that were
published with Kull et al. (2019), `{logits}`. Values have their 95 % intervals below them; the interval of a
calibration error is of the true error, which the value of a binned one exceeds.

{tables}

## Improvement

Before minus after on the same test rows, with paired 95 % intervals. Where the map is injective, a gain in `nll` is the
fall of its own calibration error (an expected Kullback-Leibler divergence), one in `brier` that of CE₂² (Gruber &
Buettner 2022, proposition 4.5). Where it is not, the calibration error fell by at least the gain.

{gains}

## How the usual errors mislead

The same improvements on random subsets of the test rows, {repeats} of each size: the gain that would have been reported
with a smaller test set. Only the score keeps its level; errors by bins, and those of classes most, tell of small gains
or of losses where there is a large gain (after Gruber & Buettner 2022, figure 1).

![Improvement of each estimator against the number of test rows, by method and network](figures/{figure})

{shares}

## A hundred classes

CIFAR-100 probabilities of two networks (`{hundred}`), fitted on the first 5000 test rows and judged on the others. Maps
with a number for every pair of classes have 10 100 numbers for 5000 rows.

{hundreds}

## Comparison with published numbers

Test scores that Kull et al. (2019) published of the same logits; they chose the penalties of Dirichlet calibration and
matrix scaling by cross-validation, and averaged the maps of five folds. Ours are the defaults, 0.2 and 0.001, in one
fit. These were settled on nine other CIFAR-10 networks, where 0.1 to 0.25 was best; within that range these test rows
had a say, as they had in the decay of the order-preserving networks, so that what these gain here is slightly
optimistic. `penalty=cv` chooses penalties by cross-validation on the fitted rows alone: NLL .205936 and .223737 with
`dirichlet`, .203091 and .222193 with `matrix`.

{published}
"""


# ------------------------------------------------------------------------------------------------- networks
@dataclass(frozen=True)
class Network:
    """Rows to fit on and rows to judge on."""

    name: str
    fit: cal.Classification
    test: cal.Classification


def ten_classes(folder: Path) -> list[Network]:
    """Validation and test logits of two networks."""
    data = np.load(folder / LOGITS)
    return [
        Network(
            name,
            cal.Classification.from_logits(data["logits_val"][k], data["labels_val"]),
            cal.Classification.from_logits(data["logits_test"][k], data["labels_test"]),
        )
        for k, name in enumerate(("ResNet-110", "DenseNet-40"))
    ]


def hundred_classes(folder: Path) -> list[Network]:
    """Two networks whose test rows are cut in two halves."""
    data = np.load(folder / HUNDRED)
    found = []
    for k, name in ((1, "DenseNet-BC-100"), (2, "WRN-16-4")):
        whole = cal.Classification.from_probs(data["probs"][k], data["labels"])
        found.append(Network(name, whole[:5000], whole[5000:]))
    return found


def methods() -> list[str]:
    """Every method for classes, those that others are compared with first."""
    known = [name for name in methods_for("classification") if name not in LEFT_OUT]
    known += [f"{name}(ends=inside)" for name in INSIDE if name in known]
    return [*(name for name in FIRST if name in known), *(name for name in known if name not in FIRST)]


def recalibrated(network: Network, names: list[str]) -> dict[str, Recalibration]:
    """Every method, fitted and judged; doubts of the fits are in the evaluations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cal.CalibrantWarning)
        return {name: cal.recalibrate(network.fit, network.test, name, metrics=METRICS) for name in names}


# --------------------------------------------------------------------------------------------------- tables
def table(network: Network, found: Mapping[str, Recalibration]) -> list[str]:
    """One row a method: every metric on the test rows, with its interval."""
    lines = [f"## {network.name}", "", "| method | " + " | ".join(f"`{metric}`" for metric in METRICS) + " |"]
    lines.append("| --- |" + " ---: |" * len(METRICS))
    for name, done in found.items():
        metrics = done.evaluation.results[1].metrics
        cells = [_cell(metrics[metric]) for metric in METRICS]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _cell(found: cal.Estimate) -> str:
    span = f"<br>{found.low:.4f} to {found.high:.4f}" if np.isfinite(found.low) else ""
    return (f"{found.value:.4f}" if np.isfinite(found.value) else "infinite") + span


def _gain(found: Gain) -> str:
    if not np.isfinite(found.gain):
        return "infinite loss"
    return f"{found.gain:.4f} ({found.low:.4f} to {found.high:.4f})".replace("-", "−")


def gain_table(network: Network, found: Mapping[str, Recalibration]) -> list[str]:
    """One row a method: gains in nll and brier, and what is known of the map."""
    lines = [f"### {network.name}", "", "| method | numbers | map | gain in `nll` | gain in `brier` |"]
    lines.append("| --- | ---: | --- | ---: | ---: |")
    for name, done in found.items():
        if name == "none" or done.improvement is None:
            continue
        cells = [_gain(done.improvement[score]) for score in ("nll", "brier")]
        facts = f"{done.recalibrator.n_parameters} | {done.improvement.map}"
        lines.append(f"| `{name}` | {facts} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def published_table(folder: Path, found: Mapping[str, Mapping[str, Recalibration]]) -> list[str]:
    """Ours and theirs, side by side; theirs by the names of their notebook."""
    path = folder.parent / "published_results" / PUBLISHED
    if not path.is_file():
        return [f"{PUBLISHED} is not in the data folder."]
    with path.open(encoding="utf-8") as stream:
        known = {(row["Name"], row["Method"]): row for row in csv.DictReader(stream)}
    keys = {"ResNet-110": "resnet110_c10", "DenseNet-40": "densenet40_c10"}
    lines = ["| network | method | error, theirs | ours | `ece`, theirs | ours | `nll`, theirs | ours |"]
    lines.append("| --- | --- |" + " ---: |" * 6)
    for network, of_methods in found.items():
        for name, theirs in THEIRS.items():
            row, ours = known[keys[network], theirs], of_methods[name].evaluation.results[1].metrics
            error = f"{float(row['Error_test']):.2f} % | {100 * (1 - ours['accuracy'].value):.2f} %"
            rest = f"{float(row['ECE_test']):.5f} | {ours['ece'].value:.5f} | {float(row['Loss_test']):.6f}"
            lines.append(f"| {network} | `{name}` | {error} | {rest} | {ours['nll'].value:.6f} |")
    return lines


# ---------------------------------------------------------------------------------------------------- sizes
def followed(
    networks: list[Network], found: Mapping[str, Mapping[str, Recalibration]], repeats: int
) -> dict[str, Improvement]:
    """Improvements over sizes, by network and method."""
    return {
        f"{network.name}, {name}": cal.recalibration.improvement(
            network.test, found[network.name][name].predictions, metrics=QUICK, sizes=SIZES, repeats=repeats
        )
        for network in networks
        for name in FOLLOWED
        if name in found[network.name]
    }


def draw(curves: Mapping[str, Improvement], path: Path) -> None:
    """One panel a network and method, one line an estimator."""
    columns = len(curves) // 2
    drawn, panels = drawing.panels(2, columns, (2.9 * columns + 0.4, 6.0), sharex=True)
    for panel, (title, found) in zip(panels.flat, curves.items(), strict=True):
        for metric, curve in found.sizes.improvement.items():  # type: ignore[union-attr]
            style = {"lw": 2.4, "zorder": 3} if metric == "rbs" else {"lw": 1.3}
            where = {"color": COLOURS[metric], "marker": MARKERS[metric], "ms": 3.5, "label": metric}
            panel.plot((*SIZES, found.n), curve.mean, **where, **style)
        panel.axhline(0, color="0.4", lw=0.9, ls="--", zorder=1)
        panel.set_title(title)
        drawing.over_rows(panel)
    for panel in panels[:, 0]:
        panel.set_ylabel("improvement: before − after")
    for panel in panels[-1]:
        panel.set_xlabel("rows n")
    drawn.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    drawing.save(drawn, path)


def share_table(curves: Mapping[str, Improvement]) -> list[str]:
    """The mean improvement at 100 and 1000 rows, as a share of that of all."""
    places = [SIZES.index(n) for n in (100, 1000)]
    lines = ["| improvement of | " + " | ".join(f"{title}, n = 100 | n = 1000" for title in curves) + " |"]
    lines.append("| --- |" + " ---: |" * 2 * len(curves))
    for metric in QUICK:
        cells = []
        for found in curves.values():
            means = found.sizes.improvement[metric].mean  # type: ignore[union-attr]
            cells += [f"{round(means[place] / means[-1], 2) + 0.0:.2f}".replace("-", "−") for place in places]
        lines.append(f"| `{metric}` | " + " | ".join(cells) + " |")
    return lines


# ----------------------------------------------------------------------------------------------------- page
def page_of(folder: Path, figures: Path, repeats: int) -> str:
    """The page from the data."""
    networks = ten_classes(folder)
    found = {network.name: recalibrated(network, methods()) for network in networks}
    curves = followed(networks, found, repeats)
    draw(curves, figures / FIGURE)
    hundreds = []
    for network in hundred_classes(folder):
        known = methods()
        done = recalibrated(network, ["none", *(name for name in MANY_CLASSES if name in known)])
        hundreds += [line.replace("## ", "### ") for line in table(network, done)]
    parts = {
        "tables": [line for network in networks for line in table(network, found[network.name])],
        "gains": [line for network in networks for line in gain_table(network, found[network.name])],
        "shares": share_table(curves),
        "hundreds": hundreds,
        "published": published_table(folder, found),
    }
    lines = {name: "\n".join(of_part).strip() for name, of_part in parts.items()}
    return TEXT.format(logits=LOGITS, hundred=HUNDRED, figure=FIGURE, repeats=repeats, **lines)


def written(path: Path = PAGE, figures: Path = FIGURES, repeats: int = REPEATS) -> list[str]:
    """Write the page where the data are there; a line that says so."""
    folder = data_folder()
    if not (folder / LOGITS).is_file() or not (folder / HUNDRED).is_file():
        return [f"Recalibration of real networks was left out: {LOGITS} and {HUNDRED} are not in the data folder."]
    path.write_text(page_of(folder, figures, repeats), encoding="utf-8")
    return [f"[Recalibration of real networks]({path.name}) has every method on real logits, before and after."]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, default=PAGE)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    arguments = parser.parse_args()
    print("\n".join(written(arguments.write, arguments.write.parent / "figures", arguments.repeats)))


if __name__ == "__main__":
    main()
