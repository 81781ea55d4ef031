"""Real networks compared: `python -m evidence.real_comparison` writes docs/comparison-real.md.

Eight CIFAR-10 networks and their average, the same architectures trained ten-fold on human and on hard labels, and four
ResNets under noise. The data are in CALIBRANT_DATA or ../shared/data.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np

import calibrant as cal
from calibrant.comparison.records import Pair
from calibrant.evaluation import rendering
from calibrant.evaluation.comparison_tables import comparison_tables
from calibrant.evaluation.result import Evaluation
from evidence.sizes import ROOT, data_folder

PAGE = ROOT / "docs" / "comparison-real.md"
EIGHT, FOLDS = "cifar10_test_8cnn_logits.npz", "cifar10h_10fold_16cnn_logits.npz"
SHIFTED = "cifar10_resnet_ensemble_shift_ood_logits.npz"
PUBLISHED = "pytorch_ensembles_tables.txt"
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

## Beside published numbers

{published}
"""


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    PAGE.write_text(page(data_folder()), encoding="utf-8")
    print(f"written: {PAGE}")


def page(folder: Path) -> str:
    """The page as text."""
    models = eight_models(folder)
    eight = cal.compare(models, SCORES)
    folds, by_rows = fold_comparisons(folder)
    pool = pool_comparison(folder)
    flips = cal.rank_flips(models)
    noise = noise_comparison(folder)
    return TEXT.format(
        eight=EIGHT, folds=FOLDS, shifted=SHIFTED,
        eight_tables=tables(eight, 3),
        first_wrong=first_wrong(eight),
        areas=areas(eight),
        fold_tables=tables(folds, 2),
        second_wrong=second_wrong(folds),
        units=units_said(folds, by_rows),
        equivalents=tables(pool)[tables(pool).index("**Members of") :],
        equivalents_said=equivalents_said(pool),
        flips=rendering.markdown(flip_table(flips)),
        settings=len(flips.settings),
        noise=tables(noise)[tables(noise).index("**Under shift") :],
        noise_said=noise_said(noise),
        published=published(folder),
    )  # fmt: skip
