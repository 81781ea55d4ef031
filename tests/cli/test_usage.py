"""The outside of the program: what typer refuses, help and version, where results go."""

import json
import re
import sys

import numpy as np
import pytest

import calibrant

TYPOS = {
    "unknown-command": (["evalute", "a.npz"], ["'evalute'", "did you mean 'evaluate'?"]),
    "no-command-at-all": (["zzzz"], ["'zzzz'", "choose from check, compare"]),
    "unknown-option": (["evaluate", "a.npz", "--metric", "nll"], ["'--metric'", "did you mean '--metrics'?"]),
    "unlike-any-option": (["evaluate", "a.npz", "--zzzz"], ["'--zzzz'", "calibrant evaluate --help"]),
    "option-before-the-command": (["--nope", "evaluate"], ["'--nope'", "calibrant --help"]),
    "no-file": (["evaluate"], ["expected FILE", "none was given"]),
    "no-required-option": (["detect", "--inside", "a.npz"], ["--outside FILE"]),
    "number-that-is-none": (["evaluate", "a.npz", "--resamples", "many"], ["a whole number", "'many'"]),
    "number-behind-equals": (["evaluate", "a.npz", "--level=much"], ["--level: expected a number", "'much'"]),
    "option-without-a-value": (["evaluate", "a.npz", "--seed"], ["--seed", "a value"]),
    "too-many-arguments": (["demo", "now"], ["now", "calibrant demo --help"]),
    "file-where-options-name-files": (["recalibrate", "a.npz"], ["a.npz", "--fit FILE", "recalibrate --help"]),
    "markup-and-escapes": (["\x1b[31m[/nope]"], ["[31m[/nope]"]),
}
COMMANDS = (
    "evaluate", "check", "compare", "recalibrate", "conformal", "detect", "gate", "monitor", "describe", "report",
    "metrics", "reproduce", "demo",
)  # fmt: skip
NO_NUMBA = "import atexit, sys; atexit.register(lambda: print('numba' in sys.modules, file=sys.stderr))"


@pytest.mark.parametrize(("args", "says"), TYPOS.values(), ids=TYPOS)
def test_typos_are_told_in_one_line_and_exit_with_2(args, says, run_here, told_in_one_line):
    told_in_one_line(run_here(*args), says)


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
    assert ran.out.startswith("Do 20 networks know")
    assert ran.out.endswith("altair is not installed; run `pip install 'calibrant[report]'`\n")
    assert (tmp_path / "demo" / "comparison.json").exists()
    assert not (tmp_path / "demo" / "report.html").exists()


def test_demo_refuses_a_folder_that_cannot_be_made(tmp_path, run_here, expect_refusal):
    (tmp_path / "file").write_text("not a folder")
    expect_refusal(run_here, ["demo", "--out", tmp_path / "file" / "demo"], ["--out"])
