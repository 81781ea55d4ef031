"""The page in a real browser: nothing breaks, every control does what it says, and everybody can use it."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal
from calibrant.reporting.report import document_of

AXE = ("critical", "serious")


def visible(page, selector):
    """The elements that can be seen."""
    return [element for element in page.query_selector_all(selector) if element.is_visible()]


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (1200, "dark"), (390, "light")])
def test_every_section_is_visible_without_overflow(page_path, everything, opened, width, scheme):
    page = opened(page_path, width=width, scheme=scheme)
    document = document_of(everything)
    chooser = page.locator("#subject")
    seen = set()
    for k in range(len(document.subjects)):
        chooser.select_option(str(k))
        page.wait_for_function("document.querySelectorAll('.panel:not([hidden])').length > 0")
        seen |= {element.get_attribute("id") for element in visible(page, "main section")}
    assert seen == {section.key for section in document.sections}
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_every_chart_is_drawn(page_path, everything, opened):
    page = opened(page_path)
    for k in range(len(document_of(everything).subjects)):
        page.locator("#subject").select_option(str(k))
        page.wait_for_function(
            "[...document.querySelectorAll('figure.chart')].filter(f => f.offsetParent).every(f => f.dataset.drawn)"
        )
    drawn = page.evaluate("[...document.querySelectorAll('figure.chart')].map(f => f.dataset.drawn || '')")
    assert "failed" not in drawn
    assert all(drawn), "each figure is of some input, and each input was chosen"
    marks = page.evaluate(
        "[...document.querySelectorAll('figure.chart .canvas svg')].map(s => s.querySelectorAll('path').length)"
    )
    assert len(marks) == len(drawn)
    assert min(marks) > 2


def test_bins_and_binning_can_be_selected(page_path, made, opened):
    page = opened(page_path)
    figure = page.locator("figure.chart", has_text="Reliability diagram").first
    figure.locator("summary").click()
    for binning, bins, name in (
        ("equal mass", "10", "reliability(bins=10,binning=mass)"),
        ("equal width", "30", "reliability(bins=30)"),
    ):
        figure.get_by_label("binning").select_option(binning)
        figure.get_by_label("bins", exact=True).select_option(bins)
        page.wait_for_function(
            "([id, key]) => document.getElementById(id).dataset.drawn === key",
            arg=[figure.get_attribute("id"), f"{binning}|{bins}"],
        )
        stored = made.clean.results[0].curves[name]
        cells = [
            [float(cell) for cell in row.locator("td").all_inner_texts()] for row in figure.locator("tbody tr").all()
        ]
        assert [row[2] for row in cells] == pytest.approx(stored["n"])
        assert [row[4] for row in cells] == pytest.approx(stored["accuracy"], abs=1e-3)


def test_the_chosen_input_is_the_one_that_is_shown(page_path, everything, opened):
    page = opened(page_path)
    names = document_of(everything).subjects
    for k in (len(names) - 1, 0):
        page.locator("#subject").select_option(label=names[k])
        assert {panel.get_attribute("data-subject") for panel in visible(page, ".panel")} == {str(k)}


def test_data_of_a_chart_can_be_downloaded(page_path, opened):
    page = opened(page_path)
    figure = page.locator("figure.chart", has_text="Reliability diagram").first
    with page.expect_download() as waiting:
        figure.get_by_role("button", name="Download CSV").click()
    lines = list(csv.reader(io.StringIO(waiting.value.path().read_text())))
    figure.locator("summary").click()
    figure.locator("thead th").first.wait_for()
    assert lines[0] == figure.locator("thead th").all_inner_texts()
    assert len(lines) - 1 == figure.locator("tbody tr").count()
    with page.expect_download() as waiting:
        figure.get_by_role("button", name="Download PNG").click()
    assert waiting.value.path().read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as waiting:
        figure.get_by_role("button", name="Download SVG").click()
    drawn = waiting.value.path().read_text()
    assert drawn.startswith("<svg")
    assert "var(--" not in drawn, "a file has no style sheet to look colours up in"


def test_missing_values_are_not_in_tooltips(opened, tmp_path):
    rows = cal.Judged.from_confidence([0.6, 0.7, 0.9, 0.8] * 20, [True, False, True, True] * 20)
    page = opened(cal.report(evaluate_with(rows, "ece,ks", intervals=False), tmp_path / "bare.html"))
    figure = page.locator("figure.chart", has_text="Reliability diagram").first
    labels = [mark.get_attribute("aria-label") for mark in page.query_selector_all(".canvas [aria-label]")]
    assert any("mean confidence" in label for label in labels)
    assert not [label for label in labels if "null" in label]
    figure.locator(".mark-symbol path").last.hover()
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "accuracy" in tip.inner_text()
    assert "null" not in tip.inner_text()
    assert not page.locator("figcaption + * + .below", has_text="Shaded").count(), "there is no band"


def test_sliders_hide_the_rows_below(page_path, made, opened):
    page = opened(page_path)
    stored = made.clean.results[0].worst_rows
    block = page.locator(".panel:not([hidden]) .rows").first
    heads = block.locator("thead th").all_inner_texts()
    for place, key in enumerate(("confidence", "loss")):
        middle = sorted(row[key] for row in stored)[len(stored) // 2]
        slider = block.locator("input[type=range]").nth(place)
        slider.fill(f"{middle:.6g}")
        cells = [row.locator("td").nth(heads.index(key)).inner_text() for row in block.locator("tbody tr").all()]
        wanted = [row[key] for row in stored if row[key] >= middle * (1 - 1e-5)]
        assert [float(cell) for cell in cells] == pytest.approx(wanted, rel=1e-3)
        assert block.locator("p.note").inner_text() == f"{len(wanted)} of the {len(stored)} worst rows"
        slider.press("Home")
        assert block.locator("tbody tr").count() == len(stored)


def test_references_are_copied(page_path, opened):
    page = opened(page_path, permissions=["clipboard-read", "clipboard-write"])
    page.evaluate("document.querySelectorAll('#provenance details').forEach(d => { d.open = true })")
    button = page.get_by_role("button", name="Copy BibTeX")
    handle = button.element_handle()
    handle.click()
    handle.click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("@")
    page.wait_for_timeout(1700)
    assert handle.inner_text() == "Copy BibTeX"


def test_sliders_of_worst_rows_fit_a_phone(opened, tmp_path):
    rng = np.random.default_rng(0)
    rows = cal.Regression.from_gaussian(rng.normal(size=80), np.full(80, 0.5), rng.normal(size=80))
    page = opened(cal.report(cal.evaluate(rows, "nll,mse"), tmp_path / "phone.html"), width=390)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_dark_and_light_can_be_chosen(page_path, opened):
    page = opened(page_path, scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(paper)
    page.locator("#theme").click()
    assert page.locator("#theme").get_attribute("aria-pressed") == "true"
    assert page.evaluate(paper) != before
    page.locator("#theme").click()
    assert page.evaluate(paper) == before


def test_the_keyboard_reaches_every_control(page_path, opened):
    page = opened(page_path)
    wanted = page.evaluate(
        """() => [...document.querySelectorAll('a[href], button, select, input, summary, [tabindex="0"]')]
        .filter(e => e.checkVisibility()).map((e, k) => (e.dataset.place = k))"""
    )
    reached = set()
    page.locator("body").press("Tab")
    for _ in range(2 * len(wanted) + 20):
        place = page.evaluate("document.activeElement?.dataset.place ?? null")
        if place in reached and place == "1" and len(reached) > 2:
            break
        reached.add(place)
        page.keyboard.press("Tab")
    skipped = {str(k) for k in wanted} - reached
    assert skipped <= {"0"}, "the link that skips to the content is seen only while it is focused"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_barrier(page_path, opened, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    page = opened(page_path, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    found = axe.Axe().run(page).response["violations"]
    told = [(item["id"], item["nodes"][0]["html"][:200]) for item in found if item["impact"] in AXE]
    assert told == []


def test_print_is_on_white_without_controls(page_path, opened):
    page = opened(page_path, scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()") == "#ffffff"
    assert not visible(page, "nav, .tools, #theme")
    assert visible(page, "figure.chart .canvas svg")
    assert page.pdf().startswith(b"%PDF")
