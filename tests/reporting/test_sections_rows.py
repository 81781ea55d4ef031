"""Worst rows, pitfalls and provenance."""

import json
from dataclasses import replace

import numpy as np
import pytest

import calibrant as cal
from calibrant.bibliography import bibtex
from calibrant.predictions.base import Note
from calibrant.render.references import works_of
from calibrant.reporting.document import CopyBlock, Details, Heading, Points, RowBrowser, TableBlock, Text
from calibrant.reporting.page import html_page
from calibrant.reporting.report import document_of
from calibrant.reporting.report_data import collect
from calibrant.reporting.sections import pitfalls, provenance, rows
from calibrant.results.evaluation import Evaluation
from calibrant.results.gates import GateResult

CLASSES = (
    {"row": 7, "id": "</script>", "loss": None, "status": "infinite", "label": "cat", "predicted": "dog",
     "confidence": 1.0, "entropy": 0.0, "top": [["dog", 1.0], ["cat", 0.0]], "columns": {"age": 3, "a|b": "x"}},
    {"row": 2, "id": "patient 4711", "loss": 3.5, "label": "cat", "predicted": "dog",
     "confidence": 0.931, "entropy": 0.2, "top": [["dog", 0.931], ["cat", 0.0302]], "columns": {"age": 4}},
)  # fmt: skip
NUMBERS = (
    {"row": 0, "loss": 9.0, "y": 3.0, "mean": 1.0, "std": 0.5, "pit": 0.99},
    {"row": 1, "loss": 8.0, "y": 3.0, "mean": 1.0, "std": 0.0, "pit": 1.0},
    {"row": 2, "loss": 7.0, "y": 3.0},
)
JUDGED = ({"row": 5, "id": 11, "loss": 2.0, "confidence": 0.9, "correct": 0},)


@pytest.fixture(scope="module")
def evaluation():
    rng = np.random.default_rng(0)
    model = cal.Classification.from_probs(rng.dirichlet(np.ones(3), 60), rng.integers(0, 3, 60))
    return cal.evaluate(model, ["accuracy", "nll", "ece"], resamples=20)


def having(evaluation, worst, by=None):
    return replace(evaluation, results=(replace(evaluation.results[0], worst_rows=worst, worst_by=by),))


def shown_rows(evaluation):
    blocks = rows.section(collect([evaluation])).blocks[0].blocks
    return next(block for block in blocks if isinstance(block, RowBrowser)), blocks


# ------------------------------------------------------------------------------------------------------------ rows
def test_classes_have_their_most_probable_classes_and_columns(evaluation):
    block, _ = shown_rows(having(evaluation, CLASSES))
    titles = dict(block.heads)
    assert block.rows[1]["top"] == "dog: 0.93, cat: 0.03"
    known = [block.rows[1][key] for key in ("row", "id", "loss", "label", "predicted")]
    assert known == [2, "patient 4711", 3.5, "cat", "dog"]
    assert (titles["column0"], titles["column1"]) == ("age", "a|b")
    assert (block.rows[0]["column1"], block.rows[1]["column1"]) == ("x", None)
    assert "y" not in titles
    assert "mutual_information" not in titles
    assert block.ranges == (("confidence", "minimum confidence"), ("loss", "minimum loss"))


def test_infinite_losses_are_words_that_no_slider_reaches(evaluation):
    """Sliders compare numbers alone."""
    block, _ = shown_rows(having(evaluation, CLASSES))
    assert block.rows[0]["loss"] == "infinite"
    page = html_page(document_of([having(evaluation, CLASSES)]))
    assert 'data-column="loss" min="3.5" max="3.5"' in page
    assert 'typeof value !== "number" ||' in page
    assert "patient 4711" in page
    assert "</script>|" not in page
    assert '"id":"\\u003c/script\\u003e"' in page


def test_numbers_are_filtered_by_their_distance_in_standard_deviations(evaluation):
    block, _ = shown_rows(having(evaluation, NUMBERS))
    assert [row["z"] for row in block.rows] == [4.0, None, None]
    assert block.ranges[0][0] == "z"
    assert "confidence" not in dict(block.heads)
    quantiles = {"row": 0, "loss": 1.0, "y": 5.0, "median": 2.0, "low": 1.0, "high": 2.5}
    block, _ = shown_rows(having(evaluation, (quantiles, {**quantiles, "high": 1.0}), "pinball"))
    assert [row["scaled_error"] for row in block.rows] == [2.0, None]
    assert block.ranges[0] == ("scaled_error", "minimum |y − median| / width")


def test_judged_answers_are_right_or_wrong_in_words(evaluation):
    block, _ = shown_rows(having(evaluation, JUDGED))
    assert block.rows[0]["correct"] == "wrong"


def test_the_loss_is_described(evaluation):
    for by, said in (
        ("nll", "negative log-likelihood"),
        ("crps(fair=false)", "ranked probability"),
        (None, "log-likelihood"),
    ):
        _, blocks = shown_rows(having(evaluation, NUMBERS, by))
        assert said in blocks[0].lines[0]


def test_at_most_six_columns(evaluation):
    wide = ({"row": 0, "loss": 1.0, "columns": {f"c{k}": k for k in range(12)}},)
    block, _ = shown_rows(having(evaluation, wide))
    assert sum(key.startswith("column") for key, _ in block.heads) == rows.MAX_COLUMNS


def test_rows_equal_the_stored_rows():
    """Of classes, judged answers, densities and quantiles."""
    rng = np.random.default_rng(1)
    p, y = rng.uniform(0.01, 0.99, 30), rng.normal(size=30)
    ids = [f"<i>{k}" for k in range(30)]
    for model in (
        cal.Classification.from_probs(np.stack([p, 1 - p], axis=1), rng.integers(0, 2, 30), ids=ids),
        cal.Judged.from_confidence(p, rng.integers(0, 2, 30), ids=ids),
        cal.Regression.from_gaussian(np.zeros(30), p, y, ids=ids),
        cal.Regression.from_quantiles(np.stack([p - 1, p, p + 1], axis=1), [0.1, 0.5, 0.9], y, ids=ids),
    ):
        evaluation = cal.evaluate(model, resamples=20)
        block, _ = shown_rows(evaluation)
        worst = evaluation.results[0].worst_rows
        assert [(row["row"], row["id"], row["loss"]) for row in block.rows] == [
            (row["row"], row["id"], row["loss"]) for row in worst
        ]
        for key in set(worst[0]) & {"confidence", "label", "predicted", "y", "mean", "std", "median", "low", "high"}:
            assert key in dict(block.heads)
            assert [row[key] for row in block.rows] == [row.get(key) for row in worst]
        assert block.ranges[0][0] in ("confidence", "z", "scaled_error")


def test_no_section_without_rows_or_if_rows_are_hidden(evaluation):
    assert rows.section(collect([having(evaluation, ())])) is None
    assert rows.section(collect([having(evaluation, CLASSES)], rows=False)) is None
    assert "patient 4711" not in html_page(document_of([having(evaluation, CLASSES)], rows=False))


# -------------------------------------------------------------------------------------------------------- pitfalls
def test_each_warning_appears_once_with_its_reference(evaluation):
    note = Note("too-small", "too few rows.", "Card et al. (2020)")
    other = Note("too-small", "too few units", "")
    one, two = replace(evaluation, warnings=(note, other)), replace(evaluation, warnings=(note,))
    section = pitfalls.section(collect([one, two]))
    (points,) = section.blocks
    assert points.items == (
        ("warn", "Test set too small", "too few rows. Card et al. (2020)"),
        ("warn", "Test set too small", "too few units."),
    )
    assert section.title == "Warnings"


def test_gates_have_their_outcome_in_words(evaluation):
    gates = (
        GateResult("nll < 1", "require", False, "0.9 to 1.1"),
        GateResult("ece > 0.1", "fail_on", True, "0 to 0.2", undecided=True),
        GateResult("accuracy < 0.1", "fail_on", True, "0.4 to 0.6"),
    )
    section = pitfalls.section(collect([replace(evaluation, warnings=(), gates=gates)]))
    assert section.blocks[0] == Heading("1 of 3 gates failed")
    assert [(tone, topic) for tone, topic, _ in section.blocks[1].items] == [
        ("bad", "Failed: require nll < 1"),
        ("warn", "Passed, but not significantly: fail on ece > 0.1"),
        ("good", "Passed: fail on accuracy < 0.1"),
    ]


def test_many_warnings_are_collapsed_and_none_give_no_section(evaluation):
    notes = tuple(Note("code", f"number {k}") for k in range(40))
    points, fold = pitfalls.section(collect([replace(evaluation, warnings=notes)])).blocks
    assert len(points.items) + len(fold.blocks[0].items) == 40
    assert pitfalls.section(collect([replace(evaluation, warnings=())])) is None


# ------------------------------------------------------------------------------------------------------ provenance
def texts(section):
    return {block.summary: block.blocks[0] for block in section.blocks if isinstance(block, Details)}


def test_settings_are_a_table_and_json(evaluation):
    checked = replace(evaluation, settings={"command": "check", "draws": 10, "by": []}, results=())
    section = provenance.section(collect([evaluation, checked, evaluation]))
    table = next(block for block in section.blocks if isinstance(block, TableBlock)).table
    assert table.heads == ("setting", "evaluate", "check")
    told = {row[0]: row[1:] for row in table.rows}
    assert told["metrics"] == ("accuracy, nll, ece", "")
    assert (told["grouped by"], told["draws"], told["seed"]) == (("none", "none"), ("", "10"), ("0", ""))
    stored = texts(section)["Settings as JSON"]
    assert json.loads(stored.text) == [dict(evaluation.settings), dict(checked.settings)]


def test_inputs_appear_once_with_their_hashes(evaluation):
    item = {**evaluation.inputs[0], "sha256": "0123456789ab" + "c" * 52, "meta": {"method": "x", "sizes": [1, 2.5]}}
    known = replace(evaluation, inputs=(item,))
    section = provenance.section(collect([known, known]))
    table = [block for block in section.blocks if isinstance(block, TableBlock)][1].table
    (row,) = table.rows
    assert row[1:] == ("01234567…", "method: x; sizes: 1, 2.5", "60", "1", "3")
    assert json.loads(texts(section)["Inputs as JSON"].text) == [item]
    assert f"Calibrant {evaluation.version}" in section.lead
    assert "schema 2" in section.lead


def test_references_are_listed_with_bibtex(evaluation):
    section = provenance.section(collect([evaluation]))
    works = works_of(evaluation)
    lines = texts(section)["List of references"]
    assert isinstance(lines, Text)
    assert sorted(lines.lines) == sorted(f"{work.text()}." for work in works)
    copied = texts(section)["BibTeX"]
    assert isinstance(copied, CopyBlock)
    assert copied.label == "BibTeX"
    assert all(bibtex([work]) in copied.text for work in works)
    assert copied.text.count("\n@") + 1 == len(works)


def test_an_evaluation_of_nothing_has_settings_still():
    bare = Evaluation("0", {}, (), ())
    section = provenance.section(collect([bare]))
    assert [block.text for block in section.blocks if isinstance(block, Heading)] == ["Settings"]
    assert provenance.section(collect([])) is None
    assert isinstance(pitfalls.section(collect([replace(bare, warnings=(Note("a", "b"),))])).blocks[0], Points)
