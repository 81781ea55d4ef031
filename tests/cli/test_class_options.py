"""Labels as text with one column of probabilities, classes by name, and options that forgive each other."""

import pytest
from typer.testing import CliRunner

from calibrant.cli.main import app

TABLE = "site,outcome,score,cat,dog,owl\na,yes,0.9,0.8,0.1,0.1\nb,no,0.2,0.1,0.7,0.2\na,yes,0.6,0.2,0.3,0.5\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    return path


def describe(path, *arguments):
    result = CliRunner().invoke(app, ["describe", str(path), *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--prob", "score", "--positive", "yes"),
        ("--probs", "score", "--positive", "yes"),
        ("--prob", "score", "--classes", "no,yes"),
    ],
)
def test_one_score_and_text_labels(table, arguments):
    code, text = describe(table, "--labels", "outcome", *arguments)
    assert code == 0
    assert "2 of 2 classes occur (no: 1, yes: 2)" in text


def test_positive_names_the_class_of_the_score(table):
    arguments = ["evaluate", str(table), "--labels", "outcome", "--prob", "score", "-m", "brier", "--format", "csv"]
    values = {}
    for name in ("yes", "no"):
        text = CliRunner().invoke(app, [*arguments, "--positive", name]).output
        values[name] = float(next(line for line in text.splitlines() if ",brier," in line).split(",")[4])
    p, y = [0.9, 0.2, 0.6], [1, 0, 1]
    assert values["yes"] == pytest.approx(2 * sum((a - b) ** 2 for a, b in zip(p, y, strict=True)) / 3)
    assert values["no"] == pytest.approx(2 * sum((a - 1 + b) ** 2 for a, b in zip(p, y, strict=True)) / 3)


@pytest.mark.parametrize("option", ["--probs", "--prob"])
def test_columns_by_name(tmp_path, option):
    path = tmp_path / "t.csv"
    path.write_text(TABLE.replace("yes", "cat").replace("no,", "dog,"))
    code, text = describe(path, "--labels", "outcome", option, "cat,dog,owl")
    assert code == 0
    assert "3: cat, dog, owl" in text
    assert "cat: 2, dog: 1, owl: 0" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--prob", "score"), "add --positive no or --positive yes"),
        (("--prob", "score", "--positive", "maybe"), "got 'no', 'yes'"),
        (("--probs", "cat,dog,owl", "--positive", "cat"), "leave --positive out"),
        (("--prob", "score", "--positive", "yes", "--classes", "no,yes"), "--classes too"),
        (("--probs", "cat,dgo"), "did you mean 'dog'?"),
        (("--probs", "catt"), "did you mean 'cat'?"),
    ],
)
def test_mistakes_end_with_one_line(table, arguments, message):
    code, text = describe(table, "--labels", "outcome", *arguments)
    assert code == 2
    assert message in text
    assert text.count("\n") == 1
