"""Names that would like to be more than names: they are text on the page, whatever is in them, and break nothing."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant as cal
from calibrant.reporting import page
from calibrant.reporting.report import document_of
from calibrant.results.evaluation import Evaluation

EVIL = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror='window.pwned=1'>",
    "[/nope][bold]",
    "\"'><svg onload=window.pwned=1>",
    "\u202egnirts\u202c right to left שלום",
    "javascript:window.pwned=1",
    "{{constructor.constructor('window.pwned=1')()}}",
    "datum.x; window.pwned=1",
    "x" * 10_000,
    "\x1b[31mred\x1b[0m\x00\n\r\u2028",
    '=HYPERLINK("http://x")',
    "& &amp; &#60;",
    "𝕏 é 日本 🎲",
)
MODELS = ("one", "five", "eight")
NAMES = (*MODELS, "clean digits", "rotation", "noise")
names = st.one_of(st.sampled_from(EVIL), st.text(min_size=1, max_size=60))


class Skeleton(HTMLParser):
    """The elements of a page with the names of their attributes, and the data of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.inside = [], [], False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag != "wbr":  # long names may be broken after an underline or a slash
            self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.inside = tag == "script" and dict(attrs).get("type") == "application/json"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.scripts[-1] += data


def renamed(data, found):
    """The same evaluation, each name in it replaced by what `found` gives for it."""
    if isinstance(data, dict):
        return {(found(k) if k in MODELS else k): renamed(v, found) for k, v in data.items()}
    if isinstance(data, list):
        return [renamed(item, found) for item in data]
    return found(data) if isinstance(data, str) and data in NAMES else data


def shown(*evaluations):
    return page.html_page(document_of(evaluations, title="t"))


@pytest.mark.parametrize("kind", ["clean", "compared"])
@settings(max_examples=15, deadline=None)
@given(name=names)
def test_the_page_has_the_same_elements_whatever_names_are(made, kind, name):
    stored = getattr(made, kind).to_json()
    found = {}

    def unique(old):
        return found.setdefault(old, f"{name}{len(found)}")

    plain = Skeleton(shown(Evaluation.from_json(renamed(stored, lambda old: f"m{old}"))))
    evil = Skeleton(shown(Evaluation.from_json(renamed(stored, unique))))
    assert evil.elements == plain.elements
    for text in evil.scripts:
        assert "<" not in text
        json.loads(text)


def hostile_predictions(classes=EVIL, rows=60):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, rows, len(classes)))
    columns = {f"column {evil[:40]}": [EVIL[k % len(EVIL)] for k in range(rows)] for evil in EVIL[:3]}
    ids = [f"{EVIL[k % len(EVIL)]}{k}" for k in range(rows)]
    labels = rng.integers(0, len(classes), rows)
    return cal.Classification.from_logits(logits, labels, classes=list(classes), ids=ids, columns=columns)


def test_hostile_predictions_in_a_browser(opened, tmp_path):
    predictions = hostile_predictions()
    models = {EVIL[0]: predictions.member(0), EVIL[2]: predictions.member(1), EVIL[9]: predictions}
    found = [
        cal.evaluate(
            {EVIL[1]: predictions, EVIL[4]: predictions.member(0)}, by=list(predictions.columns), resamples=30
        ),
        cal.check(predictions.named(EVIL[1]), draws=50),
        cal.compare(models, resamples=100),
    ]
    seen = opened(cal.report(found, tmp_path / "hostile.html", title=EVIL[0], figures=tmp_path / "f", forms="csv"))
    assert seen.evaluate("window.pwned") is None
    assert seen.locator("h1").inner_text() == EVIL[0]
    assert EVIL[4] in seen.locator("main").inner_text()
    assert seen.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    written = "".join(path.read_text() for path in (tmp_path / "f").iterdir())
    cells = [cell for line in csv.reader(io.StringIO(written)) for cell in line]
    assert not [cell for cell in cells if cell.startswith(("=", "@", "\t"))]


def test_a_thousand_classes_make_no_larger_page(made):
    rng = np.random.default_rng(3)
    names = [f"class {k} <b>" for k in range(1000)]
    logits, labels = rng.normal(size=(200, 1000)), rng.integers(0, 1000, 200)
    many = cal.evaluate(cal.Classification.from_logits(logits, labels, classes=names), by="labels", resamples=30)
    few = cal.evaluate(cal.Classification.from_logits(logits[:, :5], labels % 5), by="labels", resamples=30)
    assert len(shown(many)) < len(shown(few)) + 400_000


def test_three_hundred_models(opened, tmp_path):
    rng = np.random.default_rng(4)
    right, called = rng.random(80) < 0.7, [f"model {k} {EVIL[k % len(EVIL)][:300]}" for k in range(300)]
    models = {name: cal.Judged.from_confidence(rng.uniform(0.3, 1, 80), right) for name in called}
    found = cal.evaluate(models, "accuracy,nll", resamples=20)
    seen = opened(cal.report(found, tmp_path / "many.html"))
    assert seen.locator("#subject option").count() == 300
    seen.locator("#subject").select_option("299")
    assert {panel.get_attribute("data-subject") for panel in seen.query_selector_all(".panel:not([hidden])")} == {"299"}
