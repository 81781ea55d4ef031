"""Take screenshots of a report: light, dark, on a phone and in print.

    python scripts/take_screenshots.py report.html FOLDER

`docs/figures/report.png` is `first.png`, the first screen, of the report of `calibrant demo`. Needs playwright and a
Chromium (`CALIBRANT_CHROMIUM` names one that is not on the path).
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

VIEWS = {"light": (1200, "light"), "dark": (1200, "dark"), "phone": (390, "light"), "phone-dark": (390, "dark")}
FIRST = {"width": 1180, "height": 985}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run"]  # fmt: skip


def open_report(browser: Browser, path: Path, width: int, scheme: str) -> Page:
    """The page once all charts are drawn."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    return page


def take_screenshots(path: Path, folder: Path) -> list[Path]:
    """Take a screenshot of each view for each input, and print a PDF; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("CALIBRANT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    out = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for name, (width, scheme) in VIEWS.items():
            page = open_report(browser, path, width, scheme)
            for k in range(max(page.locator("#subject option").count(), 1) if name == "light" else 1):
                if k:
                    page.locator("#subject").select_option(str(k))
                    page.wait_for_timeout(1500)
                out.append(folder / (f"{name}.png" if not k else f"{name}-{k}.png"))
                page.screenshot(path=out[-1], full_page=True)
            page.close()
        page = open_report(browser, path, FIRST["width"], "light")
        page.set_viewport_size(FIRST)
        out.append(folder / "first.png")
        page.screenshot(path=out[-1])
        page.close()
        page = open_report(browser, path, 900, "light")
        out.append(folder / "print.pdf")
        page.pdf(path=out[-1], format="A4", print_background=True)
        browser.close()
    return out


if __name__ == "__main__":
    for path in take_screenshots(Path(sys.argv[1]), Path(sys.argv[2])):
        print(path)
