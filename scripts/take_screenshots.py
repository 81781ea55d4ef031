"""Pictures of a report as people see it: light, dark, on a phone and in print.

    python scripts/take_screenshots.py report.html FOLDER

Needs playwright and a Chromium (`CALIBRANT_CHROMIUM` names one that is not on the path).
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

VIEWS = {"light": (1200, "light"), "dark": (1200, "dark"), "phone": (390, "light"), "phone-dark": (390, "dark")}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run"]  # fmt: skip


def opened(browser: Browser, path: Path, width: int, scheme: str) -> Page:
    """The page with all of its charts drawn."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    return page


def take(path: Path, folder: Path) -> list[Path]:
    """A picture of each view for each input, and the PDF that printing makes."""
    folder.mkdir(parents=True, exist_ok=True)
    found = os.environ.get("CALIBRANT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    out = []
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=found, args=FLAGS)
        for name, (width, scheme) in VIEWS.items():
            page = opened(browser, path, width, scheme)
            for k in range(max(page.locator("#subject option").count(), 1) if name == "light" else 1):
                if k:
                    page.locator("#subject").select_option(str(k))
                    page.wait_for_timeout(1500)
                out.append(folder / (f"{name}.png" if not k else f"{name}-{k}.png"))
                page.screenshot(path=out[-1], full_page=True)
            page.close()
        page = opened(browser, path, 900, "light")
        out.append(folder / "print.pdf")
        page.pdf(path=out[-1], format="A4", print_background=True)
        browser.close()
    return out


if __name__ == "__main__":
    for made in take(Path(sys.argv[1]), Path(sys.argv[2])):
        print(made)
