"""Worst rows, pitfalls and provenance."""

import json
from dataclasses import replace

import numpy as np
import pytest

import calibrant as cal
from calibrant.evaluation.gate_records import GateResult
from calibrant.evaluation.references import works_of
from calibrant.evaluation.result import Evaluation
from calibrant.predictions.base import Note
from calibrant.reporting.document import Copy, Fold, Heading, Points, Rows, Shown, Text
from calibrant.reporting.gathering import gather
from calibrant.reporting.page import html_page
from calibrant.reporting.report import document_of
from calibrant.reporting.sections import pitfalls, provenance, rows

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
    blocks = rows.section(gather([evaluation])).blocks[0].blocks
    return next(block for block in blocks if isinstance(block, Rows)), blocks


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
    assert block.ranges == (("confidence", "confidence at least"), ("loss", "loss at least"))


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
    assert [row["away"] for row in block.rows] == [4.0, None, None]
    assert block.ranges[0][0] == "away"
    assert "confidence" not in dict(block.heads)
    quantiles = {"row": 0, "loss": 1.0, "y": 5.0, "median": 2.0, "low": 1.0, "high": 2.5}
    block, _ = shown_rows(having(evaluation, (quantiles, {**quantiles, "high": 1.0}), "pinball"))
    assert [row["off"] for row in block.rows] == [2.0, None]
    assert block.ranges[0] == ("off", "|y − median| / width at least")


def test_judged_answers_are_right_or_wrong_in_words(evaluation):
    block, _ = shown_rows(having(evaluation, JUDGED))
    assert block.rows[0]["correct"] == "wrong"


def test_what_the_loss_is_is_told(evaluation):
    for by, said in (("nll", "minus the logarithm"), ("crps(fair=false)", "ranked probability"), (None, "logarithm")):
        _, blocks = shown_rows(having(evaluation, NUMBERS, by))
        assert said in blocks[0].lines[0]


def test_at_most_six_columns(evaluation):
    wide = ({"row": 0, "loss": 1.0, "columns": {f"c{k}": k for k in range(12)}},)
    block, _ = shown_rows(having(evaluation, wide))
    assert sum(key.startswith("column") for key, _ in block.heads) == rows.MOST_COLUMNS


def test_rows_that_were_found_are_shown_as_they_are_stored():
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
        assert block.ranges[0][0] in ("confidence", "away", "off")


def test_no_rows_where_there_are_none_or_none_are_wanted(evaluation):
    assert rows.section(gather([having(evaluation, ())])) is None
    assert rows.section(gather([having(evaluation, CLASSES)], rows=False)) is None
    assert "patient 4711" not in html_page(document_of([having(evaluation, CLASSES)], rows=False))


# -------------------------------------------------------------------------------------------------------- pitfalls
def test_each_pitfall_stands_once_with_its_reference(evaluation):
    note = Note("too-small", "too few rows.", "Card et al. (2020)")
    other = Note("too-small", "too few units", "")
    one, two = replace(evaluation, warnings=(note, other)), replace(evaluation, warnings=(note,))
    section = pitfalls.section(gather([one, two]))
    (points,) = section.blocks
    assert points.items == (
        ("warn", "A test set too small to tell", "too few rows. Card et al. (2020)"),
        ("warn", "A test set too small to tell", "too few units."),
    )
    assert section.title == "Pitfalls"


def test_gates_say_in_words_what_became_of_them(evaluation):
    gates = (
        GateResult("nll < 1", "require", False, "0.9 to 1.1"),
        GateResult("ece > 0.1", "fail_on", True, "0 to 0.2", undecided=True),
        GateResult("accuracy < 0.1", "fail_on", True, "0.4 to 0.6"),
    )
    section = pitfalls.section(gather([replace(evaluation, warnings=(), gates=gates)]))
    assert section.blocks[0] == Heading("1 of 3 gates failed")
    assert [(tone, topic) for tone, topic, _ in section.blocks[1].items] == [
        ("bad", "Failed: require nll < 1"),
        ("warn", "Passed, but the rows cannot tell: fail on ece > 0.1"),
        ("good", "Passed: fail on accuracy < 0.1"),
    ]


def test_many_pitfalls_are_folded_and_none_is_no_section(evaluation):
    notes = tuple(Note("code", f"number {k}") for k in range(40))
    points, fold = pitfalls.section(gather([replace(evaluation, warnings=notes)])).blocks
    assert len(points.items) + len(fold.blocks[0].items) == 40
    assert pitfalls.section(gather([replace(evaluation, warnings=())])) is None


# ------------------------------------------------------------------------------------------------------ provenance
def texts(section):
    return {block.summary: block.blocks[0] for block in section.blocks if isinstance(block, Fold)}


def test_settings_are_a_table_and_as_they_are_stored(evaluation):
    checked = replace(evaluation, settings={"command": "check", "draws": 10, "by": []}, results=())
    section = provenance.section(gather([evaluation, checked, evaluation]))
    table = next(block for block in section.blocks if isinstance(block, Shown)).table
    assert table.heads == ("setting", "evaluate", "check")
    told = {row[0]: row[1:] for row in table.rows}
    assert told["metrics"] == ("accuracy, nll, ece", "")
    assert (told["groups by"], told["draws"], told["seed"]) == (("none", "none"), ("", "10"), ("0", ""))
    stored = texts(section)["The settings as they are stored"]
    assert json.loads(stored.text) == [dict(evaluation.settings), dict(checked.settings)]


def test_inputs_stand_once_with_their_hashes(evaluation):
    item = {**evaluation.inputs[0], "sha256": "0123456789ab" + "c" * 52, "meta": {"method": "x", "sizes": [1, 2.5]}}
    known = replace(evaluation, inputs=(item,))
    section = provenance.section(gather([known, known]))
    table = [block for block in section.blocks if isinstance(block, Shown)][1].table
    (row,) = table.rows
    assert row[1:] == ("01234567…", "method: x; sizes: 1, 2.5", "60", "1", "3")
    assert json.loads(texts(section)["The inputs as they are stored"].text) == [item]
    assert f"Calibrant {evaluation.version}" in section.lead
    assert "schema 1" in section.lead


def test_works_are_listed_and_their_bibtex_can_be_copied(evaluation):
    section = provenance.section(gather([evaluation]))
    works = works_of(evaluation)
    lines = texts(section)["The works"]
    assert isinstance(lines, Text)
    assert sorted(lines.lines) == sorted(f"{work.text()}." for work in works)
    copied = texts(section)["BibTeX of all of them"]
    assert isinstance(copied, Copy)
    assert copied.label == "BibTeX"
    assert all(work.bibtex() in copied.text for work in works)
    assert copied.text.count("\n@") + 1 == len(works)


def test_an_evaluation_of_nothing_has_settings_still():
    bare = Evaluation("0", {}, (), ())
    section = provenance.section(gather([bare]))
    assert [block.text for block in section.blocks if isinstance(block, Heading)] == ["Settings"]
    assert provenance.section(gather([])) is None
    assert isinstance(pitfalls.section(gather([replace(bare, warnings=(Note("a", "b"),))])).blocks[0], Points)
