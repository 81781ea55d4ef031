"""Several models in one file: split by a column, matched by question, whatever is missing or dirty."""

import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import calibrant as cal
from calibrant.cli.main import app
from calibrant.errors import FileError, UsageError
from calibrant.predictions.files.several_models import read_models_of
from calibrant.predictions.files.sources import Source
from calibrant.predictions.files.tables import ColumnOptions
from calibrant.predictions.votes import vote_shares

ROWS, MODELS = 400, ("small", "large", "huge")


@pytest.fixture
def answers():
    """Confidences and correctness (models, questions) of three models."""
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.3, 1.0, (3, ROWS)).round(4)
    correct = rng.random((3, ROWS)) < confidence * np.array([[0.6], [0.8], [1.0]])
    return confidence, correct


def write_table(path, answers, order=None, samples=1):
    confidence, correct = answers
    lines = ["model,question,confidence,correct"]
    rows = [(m, q) for m in range(3) for q in range(ROWS // samples) for _ in range(samples)]
    taken = np.zeros(3, int)
    for m, q in rows:
        k, taken[m] = taken[m], taken[m] + 1
        lines.append(f"{MODELS[m]},q{q},{confidence[m, k]},{int(correct[m, k])}")
    body = lines[1:] if order is None else [lines[1:][k] for k in order]
    path.write_text("\n".join([lines[0], *body]) + "\n")
    return path


def run(*arguments):
    result = CliRunner().invoke(app, [str(item) for item in arguments])
    return result.exit_code, result.output


def difference(models, first, second, units=None):
    pair = cal.compare(dict(models), "brier", units=units).comparison.pair(first, second, "brier")
    return pair.difference, pair.low, pair.high


def test_table_is_split_and_matched_by_question(tmp_path, answers):
    confidence, correct = answers
    path = write_table(tmp_path / "a.csv", answers, np.random.default_rng(1).permutation(3 * ROWS))
    models = read_models_of(Source.parse(str(path)), ColumnOptions(), "model", units="question")
    assert set(models) == set(MODELS)
    ids = [f"q{number}" for number in range(ROWS)]
    separate = {name: cal.Judged.from_confidence(confidence[k], correct[k], ids=ids) for k, name in enumerate(MODELS)}
    for name, other in (("small", "large"), ("large", "huge")):
        one, two = (difference(item, name, other) for item in (models, separate))
        np.testing.assert_allclose(one[0], two[0], rtol=1e-12)
        np.testing.assert_allclose(one[1:], two[1:], rtol=0.1)  # resampled in another order of rows


def test_several_samples_per_question_are_matched_in_their_order(tmp_path, answers):
    path = write_table(tmp_path / "a.csv", answers, samples=4)
    models = read_models_of(Source.parse(str(path)), ColumnOptions(), "model", units="question")
    assert list(models["small"].info.ids[:5]) == ["q0 1", "q0 2", "q0 3", "q0 4", "q1 1"]
    by_unit = cal.compare(dict(models), "brier", units="question")
    assert by_unit.settings["units"] == "question"


def test_arrays_of_models_and_rows(tmp_path, answers):
    confidence, correct = answers
    path = tmp_path / "grid.npz"
    dirty = confidence.copy()
    dirty[0, :7], dirty[1, 9] = np.nan, 683.0
    empty = np.vstack([dirty, np.full((1, ROWS), np.nan)])
    names, topic = [*MODELS, "silent"], np.arange(ROWS) % 5
    np.savez(path, name=names, confidence=empty, correct=np.vstack([correct, correct[:1]]), topic=topic)
    with pytest.raises(FileError, match=r"none in 7 of 400 rows.*--drop-missing"):
        read_models_of(Source.parse(str(path)), ColumnOptions(), "name")
    models = read_models_of(Source.parse(str(path)), ColumnOptions(drop_missing=True), "name")
    assert {name: model.n for name, model in models.items()} == {"small": 393, "large": 399, "huge": 400}
    notes = {name: [note.message for note in model.notes()] for name, model in models.items()}
    assert any("7 without a confidence" in text for text in notes["small"])
    assert any("1 with a confidence outside 0 to 1 (such as 683)" in text for text in notes["large"])
    assert any("1 models without any confidence are left out: silent" in text for text in notes["small"])
    # a row keeps its number, so that the models are compared on the rows that both have
    kept = np.setdiff1d(np.arange(ROWS), [*range(7), 9])
    brier = 2 * (confidence[:, kept] - correct[:, kept]) ** 2
    expected = float((brier[0] - brier[1]).mean())
    assert difference({k: models[k] for k in ("small", "large")}, "small", "large")[0] == pytest.approx(expected)


def test_command_compares_and_evaluates_by_model(tmp_path, answers):
    path = write_table(tmp_path / "a.csv", answers)
    code, text = run("compare", path, "--compare-by", "model", "--units", "question", "--select", "small,huge")
    assert code == 0
    assert "huge" in text
    assert "large" not in text
    code, text = run("evaluate", path, "--compare-by", "model", "-m", "accuracy")
    assert code == 0
    for k, name in enumerate(MODELS):
        assert f"{name} · {ROWS} rows" in text
        assert f"{answers[1][k].mean():.4f}" in text


def test_without_units_the_error_names_the_option(tmp_path, answers):
    path = write_table(tmp_path / "a.csv", answers)
    code, text = run("compare", path, "--compare-by", "model", "--scores", "brier")
    assert code == 2
    assert "add --units COLUMN, the column of questions: 'question'" in text
    assert run("evaluate", path, "--compare-by", "model", "-m", "accuracy")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--compare-by", "modle"), "did you mean 'model'?"),
        (("--compare-by", "confidence"), "column"),
        (("--compare-by", "model", "--select", "smal"), "did you mean 'small'?"),
        (("--select", "small"), "add --compare-by COLUMN"),
    ],
)
def test_mistakes_end_with_one_line(tmp_path, answers, arguments, message):
    path = write_table(tmp_path / "a.csv", answers)
    code, text = run("compare", path, *arguments)
    assert code == 2
    assert message in text
    assert text.count("\n") == 1


def test_numbers_do_not_name_models(tmp_path, answers):
    path = write_table(tmp_path / "a.csv", answers)
    with pytest.raises(UsageError):
        read_models_of(Source.parse(str(path)), ColumnOptions(confidence="confidence"), "missing")


def test_84_models(data_folder):
    """Six models with units, and all 84 in one table, in less than a minute together; dirty values are counted."""
    file = f"{data_folder / 'llm_logs' / 'mmlu_pro_84_models.npz'}::confidence=verbal_numerical"
    stored = np.load(data_folder / "llm_logs" / "mmlu_pro_84_models.npz")
    started = time.monotonic()
    six = "gpt-4.1,gpt-4o-2024-08-06,o3-mini-2025-01-31,deepseek-chat,grok-3-beta,gemini-1.5-pro"
    common = ("--compare-by", "models", "--drop-missing")
    code, text = run("compare", file, *common, "--select", six, "--units", "ids", "--scores", "accuracy,brier")
    assert code == 0
    words = " ".join(text.split())
    for name in six.split(","):
        values = stored["verbal_numerical"][stored["models"].tolist().index(name)]
        assert f"{int(np.isnan(values).sum())} without a confidence" in words
    code, text = run("evaluate", file, *common, "--format", "csv")
    assert code == 0
    assert time.monotonic() - started < 60
    assert text.count(",accuracy,") == 83  # one model answered nothing
    row = next(line for line in text.splitlines() if line.startswith("gpt-4.1,") and ",accuracy," in line)
    own = stored["models"].tolist().index("gpt-4.1")
    answered = ~np.isnan(stored["verbal_numerical"][own])
    assert float(row.split(",")[4]) == pytest.approx(stored["correct"][own][answered].mean(), abs=1e-12)


# ---------------------------------------------------------------------------------------- vote shares
def test_vote_shares_are_those_of_the_most_frequent_answer():
    answers = ["a", "b", "b", "x", "x", "y", "y", "c"]
    questions = [1, 1, 1, 2, 2, 2, 2, 3]
    samples = cal.Judged.from_correct([0, 1, 1, 0, 0, 1, 1, 1], ids=questions, columns={"answer": answers})
    voted = vote_shares(samples, "answer")
    assert voted.info.ids.tolist() == [1, 2, 3]
    np.testing.assert_allclose(voted.confidence[0], [2 / 3, 0.5, 1.0])
    assert voted.column("answer").tolist() == ["b", "x", "c"]  # the first of tied answers
    assert voted.correct.tolist() == [True, False, True]


def test_vote_shares_of_a_table_and_of_epochs(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text(
        "question,reply,right\n" + "".join(f"{q},{q * k % 3},{int(k < 2)}\n" for q in range(9) for k in range(4))
    )
    code, text = run("describe", f"{path}::ids=question", "--correct", "right", "--vote-share", "reply")
    assert code == 0
    assert "rows          9" in text
    assert "confidence    0.5 to 1" in text  # of four replies two are equal, or all
    assert "in 9 questions equal answers have different grades" in text
    log = Path(__file__).parent / "logs" / "epochs.eval"
    voted = cal.read(log, columns={"vote_share": "answer"})
    assert voted.n == 10
    assert set(np.round(voted.confidence[0] * 3).astype(int)) <= {2, 3}  # two answers, three samples
    np.testing.assert_allclose(voted.confidence[0] * 3, np.round(voted.confidence[0] * 3))
    with pytest.raises(UsageError, match="one sample per question"):
        cal.read(log.with_name("single.eval"), columns={"vote_share": "answer"})


def test_a_table_of_grades_alone_has_an_accuracy(tmp_path):
    path = tmp_path / "graded.csv"
    path.write_text("correct,site\n1,a\n0,b\n1,a\n1,b\n")
    code, text = run("evaluate", path)
    assert code == 0
    assert "calibration not tested: no confidence" in text
    assert "0.7500" in text
