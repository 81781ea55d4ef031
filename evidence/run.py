"""Run every simulation and write docs/evidence.md: `python -m evidence.run [--simulations 2000] [--processes 2]`.

`--only binned,classes` runs these tables alone and keeps the others as they are on the page.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from evidence import (
    bias,
    calibration,
    canonical,
    checks,
    classes,
    comparison,
    conformal,
    coverage,
    detection,
    equivalents,
    evalues,
    rare_events,
    real_checks,
    real_comparison,
    real_recalibration,
    regression,
    sizes,
    variance_regression,
)
from evidence.models import EXTREME, MODELS
from evidence.simulation import standard_error
from evidence.text import INTRODUCTION, SECTIONS

PAGE = Path(__file__).parent.parent / "docs" / "evidence.md"
FULL = 2000
"""Simulations a row to which the numbers below belong; others are in proportion."""
COUNTS = {
    "binned": 200,
    "cumulated": 150,
    "smoothed": 100,
    "classes": 150,
    "class_cells": 1000,
    "null_main": 700,
    "null_more": 200,
    "null_few": 200,
    "class_null": 500,
    "rare_events": 1000,
    "detectable": 250,
    "detection": 1000,
    "canonical": 1000,
    "power": 200,
    "unbiased": 1000,
    "ce": 100,
    "evalues": 2000,
    "evalue_power": 200,
    "levels": 150,
    "levels_null": 600,
    "checks": 1000,
    "surprise": 400,
    "normal": 24,
    "conformal": 1000,
    "comparison": 2000,
    "comparison_power": 500,
    "equivalents": 250,
}
BIAS_ROWS = 200_000


def counts_for(simulations: int) -> dict[str, int]:
    """How many simulations each table has."""
    return {name: max(count * simulations // FULL, 10) for name, count in COUNTS.items()}


def jobs_for(many: int, count: dict[str, int], page: Path = PAGE) -> dict[str, Callable[[], list[str]]]:
    """Every table, the longest first."""
    c = calibration
    tiers = (
        (c.NULL_MAIN, count["null_main"]),
        (c.NULL_MORE, count["null_more"]),
        (c.NULL_FEW, count["null_few"]),
    )
    return {
        "null": partial(c.null_table, tiers),
        "comparison_noise": partial(comparison.error_rows, "noise", count["comparison"]),
        "comparison_heavy": partial(comparison.error_rows, "heavy", count["comparison"]),
        "comparison_real": partial(comparison.error_rows, "real", count["comparison"]),
        "checks_uniform": partial(checks.uniform_table, count["checks"]),
        "normal": partial(checks.normal_table, count["normal"]),
        "surprise": partial(checks.surprise_table, count["surprise"]),
        "smoothed": partial(c.coverage_table, c.SMOOTHED, count["smoothed"], resamples=300),
        "binned": partial(c.coverage_table, c.BINNED, count["binned"]),
        "classes": partial(classes.coverage_table, count["classes"]),
        "class_cells": partial(classes.together_table, count["class_cells"]),
        "class_null": partial(classes.null_table, count["class_null"]),
        "rare_events": partial(rare_events.table, count["rare_events"]),
        "cumulated": partial(c.coverage_table, c.CUMULATED, count["cumulated"]),
        "bias": partial(bias.table_and_figure, BIAS_ROWS * many // FULL, page.parent / "figures" / "bias.svg"),
        "sizes": partial(sizes.table_and_figures, sizes.repeats_for(many / FULL), page.parent / "figures"),
        "means": partial(coverage.means_table, MODELS, many),
        **{
            f"equivalents_{key}": partial(equivalents.rows_of, key, count["equivalents"])
            for key in equivalents.SETTINGS
        },
        "detectable": partial(c.detectable_table, count["detectable"]),
        "detection": partial(detection.coverage_table, count["detection"]),
        "evalues": partial(evalues.null_table, count["evalues"]),
        "evalue_power": partial(evalues.power_table, count["evalue_power"]),
        "levels": partial(regression.levels_table, count["levels"]),
        "levels_null": partial(regression.levels_null_table, count["levels_null"]),
        "numbers": partial(regression.coverage_table, many),
        "units": partial(coverage.units_table, many),
        "extreme": partial(coverage.means_table, EXTREME, many),
        "fair": regression.fair_table,
        "canonical_level": partial(canonical.level_table, count["canonical"]),
        "canonical_power": partial(canonical.power_table, count["power"]),
        "canonical_numbers": partial(canonical.regression_table, count["canonical"]),
        "canonical_coverage": partial(canonical.coverage_table, count["ce"]),
        "unbiased": partial(canonical.unbiased_table, count["unbiased"]),
        "conformal": partial(conformal.coverage_table, count["conformal"]),
        "comparison_units": partial(comparison.units_rows, count["comparison"]),
        "power_noise": partial(comparison.power_rows, "noise", count["comparison_power"]),
        "power_heavy": partial(comparison.power_rows, "heavy", count["comparison_power"]),
        "checks_computed": partial(checks.computed_table, count["checks"]),
        "real_checks": partial(real_checks.written, page.parent / real_checks.PAGE.name),
        "real_recalibration": partial(
            real_recalibration.written, page.parent / real_recalibration.PAGE.name, page.parent / "figures"
        ),
        "real_comparison": partial(real_comparison.written, page.parent / real_comparison.PAGE.name),
        "variances": partial(variance_regression.written, page.parent / variance_regression.PAGE.name),
    }


def page_of(parts: dict[str, list[str]], many: int, count: dict[str, int]) -> str:
    """The page from its tables."""
    numbers: dict[str, object] = {f"{name}_count": value for name, value in count.items()}
    for kind, share in (("error", 0.95), ("band", 0.025), ("p", 0.05)):
        numbers |= {f"{name}_{kind}": f"{100 * standard_error(share, value):.1f}" for name, value in count.items()}
    numbers["bias_fewest"] = bias.repeats(max(bias.SIZES), BIAS_ROWS * many // FULL)
    numbers["checks_draws"] = checks.DRAWS
    numbers["conformal_new"] = conformal.NEW
    numbers["equivalents_pool"], numbers["equivalents_draws"] = equivalents.POOL, equivalents.DRAWS
    numbers["sizes_count"] = sizes.repeats_for(many / FULL)
    numbers["sizes_more"] = sizes.MORE * sizes.repeats_for(many / FULL)
    head = INTRODUCTION.format(simulations=many, error=f"{100 * standard_error(0.95, many):.1f}")
    return head + "\n" + SECTIONS.format(**{name: "\n".join(lines) for name, lines in parts.items()}, **numbers)


def tables_on(page: str) -> dict[str, list[str]]:
    """The tables of a page that was written before, from the sections whose words are still those of the template."""
    tables = {}
    written = dict(zip(*[iter(re.split(r"^(##+ .*)$", page, flags=re.M)[1:])] * 2, strict=True))
    for heading, body in zip(*[iter(re.split(r"^(##+ .*)$", SECTIONS, flags=re.M)[1:])] * 2, strict=True):
        parts = re.split(r"\{(\w+)\}", body)
        pattern = re.escape(parts[0])
        for name, words in zip(parts[1::2], parts[2::2], strict=True):
            pattern += (f"(?P<{name}>.*?)" if f"(?P<{name}>" not in pattern else f"(?P={name})") + re.escape(words)
        if found := re.fullmatch(pattern, written.get(heading, ""), flags=re.S):
            tables |= {name: text.split("\n") for name, text in found.groupdict().items()}
    return tables


def main() -> None:
    """Simulate, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="TABLES", help="by their names in COUNTS")
    parser.add_argument("--simulations", type=int, default=FULL)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", type=Path, default=PAGE)
    arguments = parser.parse_args()
    many, count = arguments.simulations, counts_for(arguments.simulations)
    jobs = jobs_for(many, count, arguments.write)
    parts = {}
    if arguments.only is not None:
        kept = tables_on(arguments.write.read_text(encoding="utf-8"))
        parts = {name: kept[name] for name in jobs if name in kept}
        for block in re.findall(r"(?:\{\w+\}\n)+", SECTIONS):  # rows of one table are run together
            names = set(re.findall(r"\w+", block))
            parts = {name: parts[name] for name in parts if name not in names or not names & set(arguments.only)}
        lost = sorted(set(jobs) - set(parts) - set(arguments.only))
        if lost or not set(arguments.only) <= set(jobs):
            parser.error(
                f"--only: choose from {', '.join(jobs)}; cannot be kept, add them: {', '.join(lost) or 'none'}"
            )
        jobs = {name: jobs[name] for name in arguments.only}
    with ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn")) as pool:
        running = {name: pool.submit(job) for name, job in jobs.items()}
        parts |= {name: result.result() for name, result in running.items()}
    page = page_of(parts, many, count)
    arguments.write.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
