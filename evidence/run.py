"""Run every simulation and write docs/evidence.md: `python -m evidence.run [--simulations 2000]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from evidence import coverage, regression
from evidence.models import EXTREME, MODELS

PAGE = Path(__file__).parent.parent / "docs" / "evidence.md"

INTRODUCTION = """# Evidence

Written by `make evidence`, with {simulations} simulations a row ({heavy} for the expected calibration error). Standard
error of a share near 0.95: {error:.4f} ({heavy_error:.4f}).

The models are stated in `evidence/models.py`: labels are drawn from softmax(z) with logistic-normal logits z of ten
classes, and the model says softmax(T·z)."""

SECTIONS = """
## Intervals of means and shares

Coverage of 95 % intervals: studentised with Hall's correction for NLL and Brier, Wilson for accuracy.

{means}

Where they are stretched: almost every row is certain and right, so the few that are wrong carry the mean, and 200 rows
hold six or seven of them.

{extreme}

## Dependent rows

200 units, each asked ten times: nearly the same prediction and one label for all ten rows. Plain intervals take the
2000 rows for independent.

{units}

## The expected calibration error

Coverage of the population value of the same functional (15 bins of equal width) by the union of test inversions.

{ece}

The null band of a perfectly calibrated model: it should be exceeded in about 2.5 %, and p should be below 0.05 in about
5 %.

{null}

## Regression

Outcomes are 2x + s·e with s log-normal, and the model says N(2x, s²) or what differs from it; stated in
`evidence/regression.py`. Coverage of the studentised 95 % intervals:

{numbers}

Squared errors under noise of t with 5 degrees have a variance but no third moment: means of such scores settle slowly,
and no interval from a few hundred rows can know of the outcomes that have not come yet.

The fair CRPS of S draws is unbiased for the CRPS of the distribution that they are drawn from, here 1/√π = 0.56419;
that of the empirical distribution of the draws is larger by a share of 1/S.

{fair}
"""


def main() -> None:
    """Simulate, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--write", type=Path, default=PAGE)
    arguments = parser.parse_args()
    many, heavy = arguments.simulations, max(arguments.simulations // 4, 20)
    parts = {
        "means": coverage.means_table(MODELS, many),
        "extreme": coverage.means_table(EXTREME, many),
        "units": coverage.units_table(many),
        "ece": coverage.ece_table(heavy),
        "null": coverage.null_table(heavy),
        "numbers": regression.coverage_table(many),
        "fair": regression.fair_table(),
    }
    head = INTRODUCTION.format(
        simulations=many, heavy=heavy, error=(0.95 * 0.05 / many) ** 0.5, heavy_error=(0.95 * 0.05 / heavy) ** 0.5
    )
    page = head + "\n" + SECTIONS.format(**{key: "\n".join(lines) for key, lines in parts.items()})
    arguments.write.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
