"""Estimates of real networks against the size of the test set (after Gruber & Buettner 2022, figures 1 and 3).

The figures are docs/figures/sizes-values.svg, sizes-relative.svg, sizes-improvement.svg. Test sets of 10 000 rows are
subsampled without replacement; improvements are those of temperature scaling, with the temperature that was fitted on
the validation logits. `python -m evidence.sizes` draws them, from the data in CALIBRANT_DATA or ../shared/data.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import calibrant as cal
from calibrant.pipeline.sample_size import value_by_size
from calibrant.results.sample_size import SampleSizeCurves
from evidence import drawing

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "figures"
REPEATS = 200
MORE = 5
"""How many times as many subsets there are of before and after, where small differences are looked at."""
SIZES = (100, 200, 500, 1000, 2000, 5000)
COLOURS = {
    "rbs": "#D00000",
    "ece": "#0072B2",
    "tce(bins=100)": "#56B4E9",
    "tce(binning=mass,debias=true)": "#009E73",
    "kde_tce": "#CC79A7",
    "ks": "#000000",
    "cwce": "#E69F00",
    "cwce(bins=100)": "#8B5A00",
    "ce": "#7A5195",
}
"""The estimators of the paper's section 5."""
MARKERS = dict(zip(COLOURS, "osD^vPX*h", strict=True))
QUICK = [metric for metric in COLOURS if metric != "ce"]
SLOW_SHARE = 50
"""The canonical error looks at all pairs: it is of ten classes only, and of so many times fewer subsets."""
TEMPERATURES = {"ResNet-110": 2.395, "DenseNet-40": 2.8826}
SHOWN = ("ResNet-110, CIFAR-10", "DenseNet-40, CIFAR-10", "WRN-16-4, CIFAR-100", "DenseNet-BC-100, CIFAR-100")
HUNDRED = {1: "DenseNet-BC-100", 2: "WRN-16-4"}
"""Networks of the CIFAR-100 file that are taken."""


def data_folder() -> Path:
    """Where the real predictions are."""
    given = os.environ.get("CALIBRANT_DATA")
    return (Path(given) if given else ROOT.parent / "shared" / "data") / "predictions"


def followed(folder: Path, repeats: int) -> dict[str, SampleSizeCurves]:
    """Every network over sizes; the two with known temperatures before and after scaling."""
    known: dict[str, Any] = {"metrics": QUICK, "sizes": SIZES}
    scaled = np.load(folder / "cifar10_nn_calibration_logits.npz")
    found = {}
    for (name, temperature), z in zip(TEMPERATURES.items(), scaled["logits_test"], strict=True):
        before, after = (cal.Classification.from_logits(z / t, scaled["labels_test"]) for t in (1.0, temperature))
        quick = value_by_size(before, after=after, repeats=MORE * repeats, **known)
        few = max(MORE * repeats // SLOW_SHARE, 2)
        slow = value_by_size(before, ["ce"], after=after, repeats=few, sizes=SIZES)
        found[f"{name}, CIFAR-10"] = replace(
            quick, specs={**slow.specs, **quick.specs}, improvement={**slow.improvement, **quick.improvement}
        )
    eight = np.load(folder / "cifar10_test_8cnn_logits.npz")
    for name, z in zip(eight["model_names"].tolist(), eight["logits"], strict=True):
        predictions = cal.Classification.from_logits(z, eight["labels"])
        found[f"{name}, CIFAR-10"] = value_by_size(predictions, repeats=repeats, **known)
    hundred = np.load(folder / "cifar100_test_netcal_probs.npz")
    for place, name in HUNDRED.items():
        predictions = cal.Classification.from_probs(hundred["probs"][place], hundred["labels"])
        found[f"{name}, CIFAR-100"] = value_by_size(predictions, repeats=repeats, **known)
    return found


def relative(found: dict[str, SampleSizeCurves], data: str) -> dict[str, np.ndarray]:
    """Error(n) / Error(10 000) of each estimator, averaged over the networks of a data set."""
    curves = [item.specs for name, item in found.items() if name.endswith(data)]
    return {m: np.mean([np.array(c[m].mean) / c[m].mean[-1] for c in curves], axis=0) for m in QUICK}


# ----------------------------------------------------------------------------------------- figures
def draw(found: dict[str, SampleSizeCurves], folder: Path = FIGURES) -> None:
    """All three figures."""
    lines = {name: {m: curve.mean for m, curve in found[name].specs.items()} for name in SHOWN}
    _figure(lines, "estimate", folder / "sizes-values.svg", (2, 2), base=0)
    count = sum(name.endswith("CIFAR-10") for name in found)
    averaged = {
        f"mean of {count} networks, CIFAR-10": relative(found, "CIFAR-10"),
        f"mean of {len(HUNDRED)} networks, CIFAR-100": relative(found, "CIFAR-100"),
    }
    _figure(averaged, "estimate / estimate at 10 000 rows", folder / "sizes-relative.svg", (1, 2), base=1)
    gains = {
        f"{name}, T = {temperature:.1f}": {m: curve.mean for m, curve in found[f"{name}, CIFAR-10"].improvement.items()}
        for name, temperature in TEMPERATURES.items()
    }
    _figure(gains, "improvement: before − after", folder / "sizes-improvement.svg", (1, 2), base=0)


def _figure(lines: dict[str, Any], what: str, path: Path, shape: tuple[int, int], base: float) -> None:
    """One panel a network or mean of networks, one line an estimator."""
    drawn, panels = drawing.panels(*shape, (8.4, 0.5 + 2.9 * shape[0]), sharex=True)
    for panel, (title, curves) in zip(panels.flat, lines.items(), strict=True):
        for metric in (metric for metric in COLOURS if metric in curves):
            colour = COLOURS[metric]
            style = {"lw": 2.4, "zorder": 3} if metric == "rbs" else {"lw": 1.3}
            panel.plot(
                (*SIZES, 10_000), curves[metric], color=colour, marker=MARKERS[metric], ms=3.5, label=metric, **style
            )
        panel.axhline(base, color="0.4", lw=0.9, ls="--", zorder=1)
        panel.set_title(title)
        drawing.over_rows(panel)
    for panel in panels[:, 0]:
        panel.set_ylabel(what)
    for panel in panels[-1]:
        panel.set_xlabel("rows n")
    drawn.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    drawing.save(drawn, path)


# ------------------------------------------------------------------------------------------- table
def table(found: dict[str, SampleSizeCurves]) -> list[str]:
    """Estimates on few rows relative to those on all, and shares of improvements that few rows show."""
    places = [SIZES.index(n) for n in (100, 1000)]
    lines = ["| metric | CIFAR-10, n = 100 | n = 1000 | CIFAR-100, n = 100 | n = 1000 |"]
    lines[0] += "".join(f" gain of {name}, n = 100 | n = 1000 |" for name in TEMPERATURES)
    lines.append("| --- |" + " ---: |" * 8)
    means = [relative(found, data) for data in ("CIFAR-10", "CIFAR-100")]
    gains = [found[f"{name}, CIFAR-10"].improvement for name in TEMPERATURES]
    for metric in COLOURS:
        numbers = [mean[metric][place] if metric in mean else np.nan for mean in means for place in places]
        numbers += [gain[metric].mean[place] / gain[metric].mean[-1] for gain in gains for place in places]
        lines.append(f"| `{metric}` | " + " | ".join(map(_written, numbers)) + " |")
    return lines


def _written(number: float) -> str:
    return "" if np.isnan(number) else f"{round(number, 2) + 0.0:.2f}".replace("-", "−")


def repeats_for(share: float) -> int:
    """Subsets of each size, when so much of the usual work is to be done."""
    return max(round(REPEATS * share), 2)


def table_and_figures(repeats: int = REPEATS, folder: Path = FIGURES) -> list[str]:
    """Draw the figures, and give the table; without the real predictions, say so."""
    data = data_folder()
    if not data.is_dir():
        return ["The real predictions were not there when this page was written: set `CALIBRANT_DATA` to their folder."]
    found = followed(data, repeats)
    draw(found, folder)
    return table(found)


if __name__ == "__main__":
    print("\n".join(table_and_figures()))
