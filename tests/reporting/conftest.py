"""Evaluations of all kinds, small and made once, and a browser to look at their pages in."""

from __future__ import annotations

import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

import calibrant as cal
from calibrant.demo import demo_path

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run", "--disable-quic")  # fmt: skip
FEW = 60


@pytest.fixture(scope="session")
def made():
    """One evaluation of each kind that a report can show, by name."""
    clean, shifted = cal.read(demo_path("test"))[:300], cal.read(demo_path("shifted"))[::10]
    glyphs, held_out = cal.read(demo_path("glyphs"))[:100], cal.read(demo_path("validation"))[:200]
    models = {"one": shifted.member(0), "five": shifted.subset(range(1, 6)), "eight": shifted.subset(range(8))}
    return SimpleNamespace(
        clean=cal.evaluate(clean.subset(range(5)).named("clean digits"), resamples=FEW),
        shifted=cal.evaluate_shift(
            shifted.subset(range(5)).named("shifted digits"), by=("severity", "shift"), resamples=FEW
        ),
        checked=cal.check(clean.subset(range(5)).named("clean digits"), draws=100),
        passed=cal.check(shifted.subset(range(5)).named("shifted digits"), shift=True, draws=100),
        detected=cal.detect(clean, glyphs, "mutual_information", resamples=FEW),
        recalibrated=cal.recalibrate(held_out, shifted.named("shifted, all")).evaluation,
        compared=cal.compare(models, pool=shifted.subset(range(10, 20)), shift=True, resamples=100),
        numbers=cal.evaluate(regression(), "default", resamples=FEW),
        judged=cal.evaluate(answers(), resamples=FEW),
    )


def regression(n=400, members=4):
    """Gaussian members that see a curve through noise, with the column that they are drawn along."""
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(-2, 2, n))
    truth = np.sin(2 * x)
    mean = truth + 0.2 * rng.standard_normal((members, 1)) * (1 + x)
    y = truth + 0.3 * rng.standard_normal(n)
    made = cal.Regression.from_gaussian(mean, np.full((members, n), 0.3), y, columns={"x": x})
    return made.named("a curve")


def answers(n=300):
    """Judged answers of a model that is too sure."""
    rng = np.random.default_rng(2)
    confidence = rng.uniform(0.5, 1.0, n)
    made = cal.Judged.from_confidence(
        confidence, rng.random(n) < confidence - 0.15, ids=[f"prompt {k}" for k in range(n)]
    )
    return made.named("answers")


@pytest.fixture(scope="session")
def everything(made):
    """All of them, in the order in which a user would give them."""
    return list(vars(made).values())


@pytest.fixture(scope="session")
def page_path(everything, tmp_path_factory):
    """The page of everything."""
    return cal.report(everything, tmp_path_factory.mktemp("page") / "report.html", title="All that can be shown")


# --------------------------------------------------------------------------------------------------- browser
@pytest.fixture(scope="session")
def chromium():
    """A headless browser; tests that look at pages are skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("CALIBRANT_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.skip("no Chromium on the path (CALIBRANT_CHROMIUM names one)")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=list(QUIET))
        yield browser
        browser.close()


class Watched:
    """A page, and what it complained of or asked the network for."""

    def __init__(self, page):
        self.page, self.complaints, self.requests = page, [], []
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on(
            "request",
            lambda r: self.requests.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None,
        )

    def asked(self, request):
        """What is neither the page itself nor made by it."""
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.requests.append(request.url)

    def open(self, path):
        """Open a file and wait until every chart that is in sight is drawn."""
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]", timeout=30_000)
        return self.page


@pytest.fixture
def opened(chromium):
    """Opens pages that are watched; after the test none has complained or asked for the network."""
    contexts, watched = [], []

    def open_page(path, *, width=1200, scheme="light", **more):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True, **more
        )
        contexts.append(context)
        watched.append(Watched(context.new_page()))
        return watched[-1].open(path)

    yield open_page
    for context in contexts:
        context.close()
    assert [item.complaints for item in watched] == [[] for _ in watched]
    assert [item.requests for item in watched] == [[] for _ in watched]
