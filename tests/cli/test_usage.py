"""The outside of the program: what typer refuses, help and version, where results go."""

import json
import re
import sys

import numpy as np
import pytest
from typer.main import get_command

import calibrant
from calibrant.cli.main import app

TYPOS = {
    "no-file": (["evaluate"], ["expected FILE", "got nothing"]),
    "no-required-option": (["detect", "--inside", "a.npz"], ["--outside FILE"]),
    "number-that-is-none": (["evaluate", "a.npz", "--resamples", "many"], ["an integer", "'many'"]),
    "number-behind-equals": (["evaluate", "a.npz", "--level=much"], ["--level: expected a number", "'much'"]),
    "option-without-a-value": (["evaluate", "a.npz", "--seed"], ["--seed", "a value"]),
    "too-many-arguments": (["demo", "llm", "now"], ["now", "calibrant demo --help"]),
    "file-where-options-name-files": (["recalibrate", "a.npz"], ["a.npz", "--fit FILE", "recalibrate --help"]),
}
UNKNOWN = {
    "command": (["evalute", "a.npz"], "unknown command 'evalute'; did you mean 'evaluate'?"),
    "no-command-at-all": (["zzzz"], "unknown command 'zzzz'; choose from check, compare, "),
    "option": (["evaluate", "a.npz", "--metric", "nll"],
               "evaluate: unknown option '--metric'; did you mean '--metrics'?"),
    "unlike-any-option": (["evaluate", "a.npz", "--zzzz"],
                          "evaluate: unknown option '--zzzz'; see `calibrant evaluate --help`"),
    "option-before-the-command": (["--nope", "evaluate"], "unknown option '--nope'; see `calibrant --help`"),
    "markup-and-escapes": (["\x1b[31m[/nope]"], "unknown command ' [31m[/nope]'; choose from "),
}  # fmt: skip
COMMANDS = (
    "evaluate", "check", "compare", "recalibrate", "conformal", "detect", "gate", "monitor", "describe", "report",
    "metrics", "reproduce", "shift", "data", "demo",
)  # fmt: skip
NO_NUMBA = "import atexit, sys; atexit.register(lambda: print('numba' in sys.modules, file=sys.stderr))"


@pytest.mark.parametrize(("args", "says"), TYPOS.values(), ids=TYPOS)
def test_typos_are_told_in_one_line_and_exit_with_2(args, says, run_here, told_in_one_line):
    told_in_one_line(run_here(*args), says)


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (("--level", "95"), "use --level 0.95"),
        (("--resamples", "3"), "use --resamples 1000"),
        (("--relevant-error", "3"), "use --relevant-error 0.02"),
    ],
)
def test_hints_can_be_typed_where_they_are_shown(args, hint, good, run_here, told_in_one_line):
    told_in_one_line(run_here("evaluate", good, *args), hint)


@pytest.mark.parametrize(("args", "says"), UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_command_or_option_is_one_line_with_the_closest_name(args, says, run_here):
    ran = run_here(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"calibrant: {says}")
    assert ran.err.count("\n") == 1


def test_the_former_name_of_an_option_still_works_and_is_not_shown(good, run_here):
    assert "--ladder" not in run_here("evaluate", "--help").out
    old, new = (run_here("evaluate", good, name, "--json", "-") for name in ("--ladder", "--hierarchy"))
    assert old.code == new.code == 0
    assert old.out == new.out
    assert "ladder" in json.loads(new.out)["results"][0]


def test_help_has_examples_that_parse(run_here):
    for command in COMMANDS:
        shown = run_here(command, "--help").out.partition("Examples:\n")[2]
        assert shown.strip(), command
        assert all(line.startswith("  calibrant ") for line in shown.splitlines())


def test_completion_shows_help_on_one_line():
    """Shells get the help of an option wrapped at 80 columns, and would offer its second line as a word."""
    for command in get_command(app).commands.values():
        assert all(len(getattr(item, "help", None) or "") < 80 for item in command.params if item.opts[0][0] == "-")


@pytest.mark.parametrize("command", ["evaluate", "describe", "metrics", "demo"])
def test_every_command_has_help(command, run_here):
    ran = run_here(command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Usage: ")
    assert f"calibrant {command}" in ran.out.splitlines()[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_is_to_be_given_in_words_and_not_in_types(command, run_here):
    ran = run_here(command, "--help")
    assert not re.search(r"<(str|int|float|list|bool)|TEXT|INTEGER|\[\[", ran.out.replace("--title TEXT", ""))


def test_the_list_of_commands_is_not_cut_short(run_here):
    listed = run_here("--help").out.partition("Commands:")[2]
    assert "..." not in listed
    assert re.findall(r"^  (\w+)  +[A-Z].*\.$", listed, re.MULTILINE) == list(COMMANDS)


def test_help_does_not_load_the_compiler(run_cli):
    ran = run_cli("--help", before=NO_NUMBA)
    assert (ran.code, ran.err) == (0, "False\n")
    for command in ("evaluate", "describe", "metrics", "demo"):
        assert command in ran.out


def test_a_file_of_almost_the_same_name_is_named(good, run_here, told_in_one_line):
    told_in_one_line(run_here("evaluate", good.with_name("god.npz")), ["check the path; did you mean 'good.npz'?"])


def test_version(run_here):
    assert run_here("--version").out == f"calibrant {calibrant.__version__}\n"


def test_nothing_is_printed_when_quiet(good, tmp_path, run_here):
    ran = run_here("evaluate", good, "-q", "-m", "nll", "--json", tmp_path / "out.json")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert json.loads((tmp_path / "out.json").read_text())["results"][0]["metrics"]["nll"]["n"] == 40


def test_json_on_stdout_is_json_alone(good, tmp_path, run_here):
    ran = run_here("evaluate", good, "--json", "-", "-m", "nll,ece(bins=10)")
    run_here("evaluate", good, "--json", tmp_path / "out.json", "-m", "nll,ece(bins=10)")
    assert ran.err == ""
    assert ran.out == (tmp_path / "out.json").read_text()
    assert list(json.loads(ran.out)["results"][0]["metrics"]) == ["nll", "ece(bins=10)"]


def test_the_table_is_the_same_whether_or_not_the_evaluation_is_stored(good, tmp_path, run_here):
    """Only what is stored or drawn has all curves; those that verdicts quote are there either way."""
    x = np.linspace(-1.0, 1.0, 200)
    np.savez(tmp_path / "gaussian.npz", mean=x, std=np.full(200, 0.3), y=x + 0.3 * np.sin(40 * x), x=x)
    for file in (good, tmp_path / "gaussian.npz"):
        printed = run_here("evaluate", file)
        stored = run_here("evaluate", file, "--json", tmp_path / "out.json")
        assert (printed.code, stored.code) == (0, 0)
        assert printed.out == stored.out
        assert len(json.loads((tmp_path / "out.json").read_text())["results"][0]["curves"]) > 2


def test_program_and_library_give_the_same_json(good, run_here):
    ran = run_here("evaluate", good, "--json", "-", "--by", "site", "--seed", "3", "--resamples", "50")
    evaluation = calibrant.evaluate(calibrant.read(good), by="site", seed=3, resamples=50)
    assert json.loads(ran.out)["results"] == json.loads(evaluation.dumps())["results"]


def test_one_member_by_suffix(good, run_here):
    first = json.loads(run_here("evaluate", f"{good}::member=1", "--json", "-", "-m", "nll").out)
    value = calibrant.measure(calibrant.read(good).member(1), "nll")["nll"]
    assert first["inputs"][0]["members"] == 1
    assert first["results"][0]["metrics"]["nll"]["value"] == value


def test_two_inputs_of_one_name_are_told_apart(good, run_here):
    stored = json.loads(run_here("evaluate", good, f"{good}::member=0", "--json", "-", "-m", "nll").out)
    names = [result["input"] for result in stored["results"]]
    assert len(set(names)) == 2
    assert names == [item["name"] for item in stored["inputs"]]


def test_ignored_arrays_are_noted_on_stdout_and_in_the_json(tmp_path, run_here):
    path = tmp_path / "a.npz"
    np.savez(path, logits=np.zeros((4, 3)), labels=np.zeros(4, int), stray=np.zeros((2, 2)))
    ran = run_here("evaluate", path, "-m", "nll", "--json", tmp_path / "out.json")
    assert "note:" in ran.out
    assert "'stray'" in ran.out
    (warning,) = json.loads((tmp_path / "out.json").read_text())["warnings"]
    assert warning["code"] == "ignored-arrays"
    assert "'stray'" in run_here("describe", path).out


def test_metrics_lists_every_metric_and_tells_of_one(run_here):
    listed = run_here("metrics").out
    for name in calibrant.metrics():
        assert name in listed
    card = run_here("metrics", "ece(bins=10)").out
    assert card.startswith("ece: ")
    assert "bins=15" in card


def test_describe_says_what_was_found(good, run_here):
    out = run_here("describe", good).out
    facts = dict(line.strip().split("  ", 1) for line in out.splitlines()[1:])
    facts = {key.strip(): value.strip() for key, value in facts.items()}
    assert facts["rows"] == "40"
    assert facts["members"] == "2"
    assert facts["classes"] == "3"
    assert facts["scores"] == "logits (float64)"
    assert facts["column site"] == "2 values: north, south"
    assert facts["column age"].startswith("numbers from ")
    assert len(facts["sha256"]) == 64


def test_demo_writes_a_result_and_a_page(tmp_path, run_here):
    ran = run_here("demo", "--out", tmp_path / "demo", "-q")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    stored = json.loads((tmp_path / "demo" / "evaluation.json").read_text())
    assert len(stored["results"]) == 4
    assert "<svg" in (tmp_path / "demo" / "report.html").read_text()


def test_demo_without_the_libraries_of_charts_judges_and_says_what_is_missing(tmp_path, run_here, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    ran = run_here("demo", "--out", tmp_path / "demo")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Are 20 networks calibrated?")
    assert ran.out.endswith("altair is not installed; run `pip install 'calibrant[report]'`\n")
    assert (tmp_path / "demo" / "comparison.json").exists()
    assert not (tmp_path / "demo" / "report.html").exists()


def test_demo_refuses_a_folder_that_cannot_be_made(tmp_path, run_here, expect_refusal):
    (tmp_path / "file").write_text("not a folder")
    expect_refusal(run_here, ["demo", "--out", tmp_path / "file" / "demo"], ["--out"])
