"""Real networks compared: `python -m evidence.real_comparison` writes docs/comparison-real.md.

Eight CIFAR-10 networks and their average, the same architectures trained ten-fold on human and on hard labels, and four
ResNets under noise. The data are in CALIBRANT_DATA or ../shared/data.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

import calibrant as cal
from calibrant.comparison.ensemble_equivalent import crossing
from calibrant.render import table as rendering
from calibrant.render.comparison import comparison_tables
from calibrant.render.table import Table
from calibrant.results.comparison import Pair
from calibrant.results.evaluation import Evaluation
from evidence.sizes import ROOT, data_folder

PAGE = ROOT / "docs" / "comparison-real.md"
EIGHT, FOLDS = "cifar10_test_8cnn_logits.npz", "cifar10h_10fold_16cnn_logits.npz"
SHIFTED = "cifar10_resnet_ensemble_shift_ood_logits.npz"
PUBLISHED = "pytorch_ensembles_tables.txt"
KNOTS = (1, 5, 10, 50)
"""Members whose CLL was printed."""
SCORES = ["cll", "nll", "brier_ts", "brier", "accuracy", "ece", "misclassification_aupr"]
SHORT = {
    "densenet_BC_100_12": "DenseNet-BC", "pyramidnet_basic_110_270": "PyramidNet", "resnet_basic_110": "ResNet-110",
    "resnet_preact_bottleneck_164": "ResNet-164", "resnext_29_8x64d": "ResNeXt",
    "shake_shake_26_2x64d_SSI_cutout16": "Shake-Shake", "vgg_15_BN_64": "VGG-15", "wrn_28_10": "WRN-28-10",
}  # fmt: skip

TEXT = """# Comparing real networks

Written by `make evidence`, or by `python -m evidence.real_comparison` alone. What the columns mean is told in
[Comparing models](comparison.md).

## Eight networks and their average

CIFAR-10 test logits of eight architectures (`{eight}`), 10 000 rows. The average of all eight stands beside them.

{eight_tables}

**A ranking that a naive reading gets wrong.** {first_wrong}

**Errors and areas.** {areas}

## Human and hard labels, ten-fold

The same eight architectures, each trained on 9000 CIFAR-10 test images and predicting the other 1000, ten times over:
once on the soft labels of people, once on hard labels (`{folds}`). Rows of one fold share a network, so that they
depend: comparisons are by fold, ten units.

{fold_tables}

**A second ranking that a naive reading gets wrong.** {second_wrong}

**Dependent rows.** {units}

## Deep-ensemble equivalents

The pool are the eight networks trained on hard labels, in random orders; they differ in architecture, so that this pool
is wider than one of a single architecture. Counted in it, on rows as independent cases:

{equivalents}

{equivalents_said}

## Ranks by TACE

The ranks of the nine models above by thresholded adaptive calibration error, for {settings} settings of bins and
threshold (after Ashukha et al. 2020, figure 7):

{flips}

## Under noise

Four ResNets and their average on 1000 clean CIFAR-10 test images and 400 with Gaussian noise of five strengths
(`{shifted}`). With the temperature of clean rows a user has what he can have; with that of the same rows it is seen
what the ranking of classes is still worth.

{noise}

{noise_said}

## Comparison with published numbers

{published}
"""


PUBLISHED_TEXT = """The code of Ashukha et al. (2020), pytorch-ensembles, was published with tables of ResNet50 on
ImageNet (`{file}`), but without the curves and predictions behind them: deep ensembles have their negative CLL printed
at 1, 5, 10 and 50 networks only, in three digits. So the equivalents cannot be computed again; they can be checked. All
lie within what a rising concave curve through these points allows (a test), deep ensembles are worth themselves, and
through a smooth curve a − b·k^−c by these four points they come out as below: published / here. Equivalents of large
numbers rest on differences of 0.001, the last printed digit.

{table}"""


def written(path: Path = PAGE) -> list[str]:
    """Write the page where the data are there; a line that says so."""
    folder = data_folder()
    if not all((folder / name).is_file() for name in (EIGHT, FOLDS, SHIFTED)):
        return [f"Comparing real networks was left out: {EIGHT} and others are not in the data folder."]
    path.write_text(page(folder), encoding="utf-8")
    return [
        f"[Comparing real networks]({path.name}) has ranks, paired differences and equivalents, and rankings that "
        "mislead."
    ]


def main() -> None:
    """Write the page."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("\n".join(written()))


def page(folder: Path) -> str:
    """The page as text."""
    models = eight_models(folder)
    eight = cal.compare(models, SCORES)
    human, hard = fold_models(folder)
    folds = cal.compare(some_of(human, hard), SCORES, units="fold")
    by_rows = cal.compare(some_of(human, hard), "cll")
    pool = cal.compare({"human labels": human}, "cll", pool=hard)
    flips = cal.comparison.rank_flips(models)
    noise = cal.compare(noise_models(folder), "cll,nll,accuracy", shift=True)
    return TEXT.format(
        eight=EIGHT, folds=FOLDS, shifted=SHIFTED,
        eight_tables=tables(eight, "Ranked", "Before", "Paired"),
        first_wrong=first_wrong(eight),
        areas=areas(eight),
        fold_tables=tables(folds, "Ranked", "Before", "Paired"),
        second_wrong=second_wrong(folds),
        units=units_said(folds, by_rows),
        equivalents=tables(pool, "human labels: equivalent"),
        equivalents_said=equivalents_said(pool),
        settings=len(flips.settings),
        flips=f"{rendering.markdown(flips.table())}\n\n{flips.reading()}.",
        noise=tables(noise, "Under shift"),
        noise_said=noise_said(noise),
        published=published(folder),
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------- the models
def eight_models(folder: Path) -> dict[str, cal.Classification]:
    """Eight networks and their average."""
    given = np.load(folder / EIGHT)
    names = [SHORT[str(name)] for name in given["model_names"]]
    whole = cal.Classification.from_logits(given["logits"], given["labels"], member_names=names)
    return {name: whole.member(k) for k, name in enumerate(names)} | {"average of 8": whole}


def fold_models(folder: Path) -> tuple[cal.Classification, cal.Classification]:
    """The networks trained on human labels, and those trained on hard ones."""
    given = np.load(folder / FOLDS)
    names = [SHORT[str(name)] for name in given["model_names"]]
    known = {"member_names": names, "columns": {"fold": given["fold"]}}
    human, hard = (
        cal.Classification.from_logits(given[f"logits_{kind}"], given["labels"], **known)
        for kind in ("human", "control")
    )
    return human, hard


def some_of(human: cal.Classification, hard: cal.Classification) -> dict[str, cal.Classification]:
    """Both averages and the best single network of each kind, and two that likelihood puts last."""
    names = list(human.member_names or ())
    wide, vgg = names.index("WRN-28-10"), names.index("VGG-15")
    return {
        "human, average": human, "hard, average": hard,
        "human, WRN": human.member(wide), "hard, WRN": hard.member(wide),
        "human, VGG": human.member(vgg), "hard, VGG": hard.member(vgg),
    }  # fmt: skip


def noise_models(folder: Path) -> dict[str, cal.Classification]:
    """Four ResNets and their average, clean and noisy rows together."""
    given = np.load(folder / SHIFTED)
    parts = [given["logits_clean"], *(given[f"logits_gaussian_noise_{k}"] for k in range(1, 6))]
    labels = [given["labels_clean"], *[given["labels_gaussian_noise"]] * 5]
    severity = np.repeat(np.arange(6), [len(part) for part in labels])
    columns = {"severity": severity, "shift": np.where(severity, "gaussian noise", "clean")}
    whole = cal.Classification.from_logits(np.concatenate(parts, axis=1), np.concatenate(labels), columns=columns)
    names = [str(name) for name in given["model_names"]]
    return {"average of 4": whole} | {name: whole.member(k) for k, name in enumerate(names)}


# -------------------------------------------------------------------------------------------------- sentences
def tables(found: Evaluation, *starts: str) -> str:
    """The tables whose titles begin so, in Markdown."""
    chosen = [table for table in comparison_tables(found) if table.title.startswith(starts)]
    return "\n\n".join(rendering.markdown(table) for table in chosen)


def told(pair: Pair) -> str:
    """A difference in words."""
    return (f"{pair.difference:+.4f} ({pair.low:+.4f} to {pair.high:+.4f}, p {pair.p_holm:.4f} after Holm)").replace(
        "-", "−"
    )


def value(found: Evaluation, model: str, score: str) -> float:
    return found[model].metrics[score].value


def order(found: Evaluation, score: str) -> list[str]:
    return [item.model for item in found.comparison.ranks[score]]


def first_wrong(found: Evaluation) -> str:
    """The likelihood as it comes prefers the average; at the best temperature one network is better."""
    one, average = "Shake-Shake", "average of 8"
    if order(found, "nll")[0] != average or order(found, "cll")[0] != one:
        raise RuntimeError("the text below no longer holds")
    pair = found.comparison.pair
    t = found.comparison.best_temperature
    swapped = order(found, "nll").index("WRN-28-10") < order(found, "nll").index("PyramidNet")
    behind = order(found, "cll").index("WRN-28-10") > order(found, "cll").index("PyramidNet")
    second = (
        " WRN-28-10 and PyramidNet change places in the same way: by NLL the first is ahead, by CLL the second, by "
        f"{told(pair('PyramidNet', 'WRN-28-10', 'cll'))}."
        if swapped and behind
        else ""
    )
    return (
        f"By negative log-likelihood the average of all eight is the best model: {value(found, average, 'nll'):.4f}, "
        f"before {one} with {value(found, one, 'nll'):.4f}, a difference of {told(pair(one, average, 'nll'))}. It "
        f"is an "
        f"effect of temperature. {one} alone is too sure, at a best temperature of {t[one]:.2f}; averaging has brought "
        f"that of the average to {t[average]:.2f}. At their best temperatures {one} is ahead by "
        f"{told(pair(one, average, 'cll'))} of log-likelihood: seven weaker networks do not help the best one.{second}"
    )


def areas(found: Evaluation) -> str:
    """What ECE and misclassification AUPR say of the same models."""
    best = order(found, "cll")[0]
    ece, aupr = order(found, "ece"), order(found, "misclassification_aupr")
    return (
        f"By ECE the {ece[0]} is the best and {best} is number {ece.index(best) + 1}. By the area under the "
        f"precision-recall curve of misclassification, {best}, the best model by every proper score at its best "
        f"temperature, is number {aupr.index(best) + 1} of {len(aupr)}, and {aupr[1]} number 2: whoever makes more "
        "errors has more of them to find. `calibrant compare` says so (`biased-errors`, `misclassification-auc`)."
    )


def second_wrong(found: Evaluation) -> str:
    """By likelihood one network beats the ensemble that it is part of."""
    one, average = "human, WRN", "human, average"
    nll, cll = (order(found, score) for score in ("nll", "cll"))
    if nll.index(one) > nll.index(average) or cll.index(one) < cll.index(average):
        raise RuntimeError("the text below no longer holds")
    t, pair = found.comparison.best_temperature, found.comparison.pair
    return (
        f"By NLL one wide ResNet trained on human labels ({value(found, one, 'nll'):.4f}) is better than the "
        f"average of "
        f"all eight ({value(found, average, 'nll'):.4f}), and by ECE it is far better "
        f"({value(found, one, 'ece'):.4f} and "
        f"{value(found, average, 'ece'):.4f}): one might conclude that soft labels make ensembles useless. But "
        f"networks "
        "trained on soft labels are not too sure, and the average of eight such networks is not sure enough: its best "
        f"temperature is {t[average]:.2f}. At the best temperatures the average is ahead by "
        f"{told(pair(average, one, 'cll'))}. By ECE the average of networks trained on hard labels would be better "
        f"than "
        f"that of networks trained on human ones ({value(found, 'hard, average', 'ece'):.4f} and "
        f"{value(found, average, 'ece'):.4f}); by CLL it is worse by {told(pair(average, 'hard, average', 'cll'))}."
    )


def units_said(by_fold: Evaluation, by_rows: Evaluation) -> str:
    """How much wider intervals are by fold."""
    widths = []
    for found in (by_fold, by_rows):
        pair = found.comparison.pair("human, average", "human, WRN", "cll")
        widths.append(pair.high - pair.low)
    return (
        f"Of the average and the wide ResNet the interval by fold is {widths[0] / widths[1]:.2f} times as wide as "
        f"by row "
        f"({widths[0]:.4f} and {widths[1]:.4f}); ten units are few, and their interval is itself uncertain."
    )


def equivalents_said(found: Evaluation) -> str:
    """Where the curve goes beyond the pool."""
    curve = found.comparison.equivalent_curves["human labels"]
    beyond = next((item.members for item in curve if item.censored == "above"), None)
    pool = found.comparison.curves[found.comparison.pool or ""]
    said = (
        f"From {beyond} networks on, those trained on human labels are better than all eight trained on hard labels."
        if beyond
        else "All of them are within the pool."
    )
    return (
        f"{said} The curve of the pool goes from {pool.mean[0]:.4f} for one network to {pool.mean[-1]:.4f} for eight; "
        "as it has only eight members, and these differ, intervals are wide and often end beyond it."
    )


def noise_said(found: Evaluation) -> str:
    """Which of the two temperatures matters more as noise grows."""
    cells = [c for c in found.comparison.shifted if c.model == "average of 4"]
    last = max(cells, key=lambda c: c.severity)
    single = max((c for c in found.comparison.shifted if c.severity == last.severity and c not in cells),
                 key=lambda c: c.clean)  # fmt: skip
    first = (
        f"At severity {last.severity:g} the average has an NLL of {-last.log_likelihood:.2f} as it is, "
        f"{-last.clean:.2f} with the temperature of clean rows ({last.temperature_clean:.2f}) and {-last.same:.2f} "
        f"with that of the noisy rows ({last.temperature_same:.2f}). ln 10 is 2.30: nearly all of the loss is "
        "confidence."
    )
    if single.clean < last.clean:
        return first
    return (
        f"{first} Which temperature is meant decides who is best: with that of clean rows {single.model} alone "
        f"({-single.clean:.2f}) is ahead of the average, because the average needs hardly any temperature on clean "
        "rows and so is hardly held back on noisy ones."
    )


# --------------------------------------------------------------------------------------------------- published
def published(folder: Path) -> str:
    """What the tables of pytorch-ensembles let one verify."""
    text = (folder.parent / "published_results" / PUBLISHED).read_text(encoding="utf-8")
    cells = {int(part.split(maxsplit=1)[0]): part for part in re.split(r"^### cell ", text, flags=re.MULTILINE)[1:]}
    cll = {name: [-value for value in row[4:]] for name, row in printed(cells[15]).items()}
    dee = {name: [row[0], row[1], row[2], row[4]] for name, row in printed(cells[21]).items()}
    curve = smooth(np.array(cll["Deep Ensembles"]))
    rows = []
    for name, levels in cll.items():
        ours = [crossing(curve, level)[0] for level in levels]
        cells_of = (f"{theirs:.1f} / {own:.1f}" for theirs, own in zip(dee[name], ours, strict=True))
        rows.append((name, *cells_of))
    heads = ("method", *(f"{k} members" for k in KNOTS))
    table = rendering.markdown(Table("", heads, tuple(rows)))
    return PUBLISHED_TEXT.format(file=PUBLISHED, table=table)


def printed(cell: str) -> dict[str, list[float]]:
    """The numbers of each method of a LaTeX table: the first of every column."""
    out = {}
    for line in cell.splitlines():
        parts = [part.strip() for part in line.split("&")]
        found = [re.match(r"\$([\d.]+)\$", part) for part in parts[2:]]
        if parts[0] == "ResNet50" and all(found):
            out[parts[1]] = [float(match[1]) for match in found if match]
    return out


def smooth(levels: np.ndarray) -> np.ndarray:
    """a − b k^−c through the printed points, at every k from 1 to 50."""
    fit = least_squares(lambda p: p[0] - p[1] * np.array(KNOTS) ** -p[2] - levels, [-0.78, 0.15, 1.0])
    a, b, c = fit.x
    return a - b * np.arange(1.0, 51.0) ** -c


if __name__ == "__main__":
    main()
