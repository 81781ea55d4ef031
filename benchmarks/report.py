"""How long a page takes, from predictions to what a reader sees: `python -m benchmarks.report [--write FILE]`.

Two workloads. *Large*: 50 000 rows x 1000 classes, 10 members: evaluate and report. *Many*: 100 evaluations in one
page, and how long it takes in the browser from the request to the first chart.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import calibrant as cal
from benchmarks.data import member_logits
from calibrant.demo import demo_path

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run"]  # fmt: skip
HEAD = """# Speed of reports

Written by `python -m benchmarks.report --write docs/speed-report.md`, on two cores.

| work | seconds | page, MB |
| --- | ---: | ---: |
"""


def large(folder: Path, rows: int, classes: int, members: int) -> list[str]:
    """Evaluate and report, in one process whose kernels are compiled."""
    small = member_logits(2, 200, 20)
    cal.report(cal.evaluate(cal.Classification.from_logits(*small)), folder / "warm.html")
    logits, labels = member_logits(members, rows, classes)
    predictions = cal.Classification.from_logits(logits, labels)
    start = time.perf_counter()
    found = cal.evaluate(predictions)
    middle = time.perf_counter()
    page = cal.report(found, folder / "large.html")
    end = time.perf_counter()
    size = page.stat().st_size / 1e6
    name = f"{rows} x {classes}, M = {members}"
    return [
        f"| {name}: evaluate | {middle - start:.1f} |  |",
        f"| {name}: report | {end - middle:.1f} | {size:.2f} |",
        f"| {name}: both (goal: under 60 s and 5 MB) | {end - start:.1f} | {size:.2f} |",
    ]


def many(folder: Path, count: int) -> list[str]:
    """A page of many evaluations, and how long a browser takes to open it."""
    digits = cal.read(demo_path("shifted"))
    rng = np.random.default_rng(0)
    found = []
    for k in range(count):
        rows = rng.permutation(digits.n)[:400]
        found.append(cal.evaluate(digits[rows].subset(range(3)).named(f"run {k}"), by="severity", resamples=100))
    start = time.perf_counter()
    page = cal.report(found, folder / "many.html")
    took = time.perf_counter() - start
    size = page.stat().st_size / 1e6
    lines = [f"| {count} evaluations: report | {took:.1f} | {size:.2f} |"]
    opening = opened(page)
    if opening:
        said = f"{statistics.median(opening):.2f}"
        lines.append(f"| {count} evaluations: open in the browser (goal: under 3 s) | {said} | {size:.2f} |")
    return lines


def opened(page: Path, repeats: int = 5) -> list[float]:
    """Seconds until the page is interactive and its first charts are drawn; nothing where there is no browser."""
    found = os.environ.get("CALIBRANT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not found:
        return []
    from playwright.sync_api import sync_playwright

    out = []
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=found, args=FLAGS)
        for _ in range(repeats):
            tab = browser.new_page()
            start = time.perf_counter()
            tab.goto(page.resolve().as_uri())
            tab.wait_for_selector("figure.chart[data-drawn]")
            tab.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
            out.append(time.perf_counter() - start)
            tab.close()
        browser.close()
    return out


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        lines = large(Path(name), *((5000, 100, 3) if options.quick else (50_000, 1000, 10)))
        lines += many(Path(name), 10 if options.quick else 100)
    text = HEAD + "\n".join(lines) + "\n"
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
