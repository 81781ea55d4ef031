"""Tables that are not what they should be: CSV and JSON Lines are refused with one helpful line."""

import json

import pytest

LINES = [{"labels": 0, "probs": [0.9, 0.1]}, {"labels": 1, "probs": [0.2, 0.8]}]
WIDE = ",".join(f"column{k}" for k in range(200)) + "\n" + ",".join("1" * 200) + "\n"
PLAIN = "y,p_a,p_b\na,0.9,0.1\nb,0.2,0.8\n"


def csv(text, *options, suffix=""):
    """A case: a CSV file of this text, with these options."""

    def make(folder):
        content = text if isinstance(text, bytes) else text.encode()
        (folder / "bad.csv").write_bytes(content)
        return ["evaluate", f"{folder / 'bad.csv'}{suffix}", *options]

    return make


def jsonl(*lines, options=()):
    """A case: JSON Lines, each line given as text or as an object."""

    def make(folder):
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (folder / "bad.jsonl").write_text("\n".join(texts) + "\n" * bool(texts))
        return ["evaluate", folder / "bad.jsonl", *options]

    return make


CSV = {
    "empty": (csv(""), "got none"),
    "header-only": (csv("labels,probs_0,probs_1\n"), "at least one row"),
    "blank-lines-only": (csv("\n\n\n"), "got none"),
    "ragged-rows": (csv("labels,probs_0,probs_1\n0,0.9,0.1\n1,0.2\n"), "2 in line 3"),
    "duplicate-columns": (csv("labels,probs_0,probs_0\n0,0.9,0.1\n"), "'probs_0' twice"),
    "text-among-numbers": (csv("labels,probs_0,probs_1\n0,0.9,0.1\n1,n/a,0.8\n"), "'n/a'"),
    "blank-among-numbers": (csv("labels,probs_0,probs_1\n0,0.9,0.1\n1,,0.8\n"), "probs_0"),
    "nan-among-numbers": (csv("labels,probs_0,probs_1\n0,0.9,0.1\n1,nan,0.8\n"), "row 1"),
    "not-normalised": (csv("labels,probs_0,probs_1\n0,0.9,0.1\n1,0.3,0.8\n"), "1.1"),
    "no-scores": (csv("labels,age\n0,1\n1,2\n"), "'age'"),
    "missing-column-of-labels": (csv(PLAIN, "--labels", "x", "--probs", "p_*"), "'x'"),
    "missing-column-of-labels-among-many": (csv(WIDE, "--labels", "label", "--probs", "column*"), "'label'"),
    "missing-column-of-confidence": (csv(PLAIN, "--confidence", "conf", "--correct", "y"), "'conf'"),
    "one-column-as-labels-and-as-correct": (csv(PLAIN, "--labels", "y", "--correct", "y"), "'y'"),
    "pattern-without-a-star": (csv(PLAIN, "--labels", "y", "--probs", "p_a"), "add --positive a or --positive b"),
    "pattern-with-two-stars": (csv(PLAIN, "--labels", "y", "--probs", "*_*"), "one '*'"),
    "pattern-that-fits-nothing": (csv(PLAIN, "--labels", "y", "--probs", "q_*"), "'p_a'"),
    "pattern-that-fits-none-of-many": (csv(WIDE, "--probs", "q_*"), "'q_*'"),
    "pattern-that-takes-text": (csv(PLAIN, "--probs", "*"), "choose a pattern without it"),
    "two-kinds-of-scores": (csv(PLAIN, "--probs", "p_a*", "--logits", "p_b*"), "logits, probs"),
    "label-of-no-class": (csv(PLAIN.replace("\nb", "\nc"), "--labels", "y", "--probs", "p_*"), "'c'"),
    "rename-to-a-missing-column": (csv(PLAIN, suffix="::labels=z"), "'z'"),
    "correct-in-other-words": (csv("confidence,correct\n0.5,maybe\n0.6,yes\n"), "'maybe'"),
    "confidence-in-percent": (csv("confidence,correct\n50,yes\n60,no\n"), "divide percentages by 100"),
    "not-utf-8": (csv("labels,probs_0,probs_1,ort\n0,1,0,Zürich\n".encode("latin-1")), "UTF-8"),
    "utf-16": (csv("labels,probs_0,probs_1\n0,1,0\n".encode("utf-16")), "UTF-8"),
    "open-quotation": (csv('labels,probs_0,probs_1\n0,"0.9,0.1\n'), "CSV"),
    "quotation-in-a-field": (csv('labels,probs_0,probs_1\n"0"x,0.9,0.1\n'), "CSV"),
    "field-beyond-the-limit": (csv("labels,probs_0,probs_1\n0,1," + "0" * 200_000 + "\n"), "CSV"),
}

JSONL = {
    "empty": (jsonl(), "at least one line"),
    "broken-line": (jsonl(LINES[0], '{"labels": 1, "probs": [0.2, '), "line 2"),
    "line-that-is-no-object": (jsonl(LINES[0], "[1, 2]"), "line 2"),
    "line-that-is-a-tower-of-brackets": (jsonl("[" * 100_000), "line 1"),
    "number-of-too-many-digits": (jsonl('{"labels": ' + "9" * 5000 + ', "probs": [0.9, 0.1]}'), "line 1"),
    "keys-differ": (jsonl(*LINES, {"label": 1, "probs": [0.2, 0.8]}), "record 3"),
    "ragged-lists": (jsonl(*LINES, {"labels": 1, "probs": [0.2, 0.3, 0.5]}), "'probs'"),
    "missing-value": (jsonl(*LINES, {"labels": None, "probs": [0.2, 0.8]}), "'labels'"),
    "text-among-scores": (jsonl(*LINES, {"labels": 1, "probs": [0.2, "0.8"]}), "probs"),
    "object-for-a-label": (jsonl({"labels": {"a": 1}, "probs": [0.2, 0.8]}), "'labels'"),
    "empty-scores": (jsonl({"labels": 0, "probs": []}), "probs"),
    "no-class-at-all": (jsonl({"labels": 0, "probs": {}}), "probs"),
    "classes-differ": (
        jsonl({"labels": "a", "probs": {"a": 0.9, "b": 0.1}}, {"labels": "a", "probs": {"a": 0.9, "c": 0.1}}),
        "record 2",
    ),
    "classes-differ-among-members": (
        jsonl({"labels": "a", "probs": [{"a": 0.9, "b": 0.1}, {"a": 0.9}]}),
        "record 1",
    ),
    "named-classes-in-some-lines-only": (
        jsonl({"labels": "a", "probs": [0.9, 0.1]}, {"labels": "a", "probs": {"b": 0.9, "a": 0.1}}),
        "probs",
    ),
    "members-of-different-number": (
        jsonl({"labels": 0, "probs": [[0.9, 0.1]]}, {"labels": 0, "probs": [[0.9, 0.1], [0.8, 0.2]]}),
        "'probs'",
    ),
    "pattern-over-columns-of-lists": (
        jsonl(*[{"p_a": [0.2, 0.8], "p_b": [0.3, 0.7]}] * 3, options=["--probs", "p_*", "-m", "entropy"]),
        "'p_a'",
    ),
    "meta-that-is-no-object": (jsonl({"meta": "x", "labels": 0, "probs": [0.9, 0.1]}), "JSON object"),
}

CASES = {f"csv-{name}": case for name, case in CSV.items()} | {f"jsonl-{name}": case for name, case in JSONL.items()}
IN_A_PROCESS = ("csv-not-utf-8", "jsonl-broken-line")


@pytest.mark.parametrize("name", CASES)
def test_bad_table_is_refused_with_one_helpful_line(name, tmp_path, run_here, expect_refusal):
    make, said = CASES[name]
    expect_refusal(run_here, make(tmp_path), [said])


@pytest.mark.parametrize("name", IN_A_PROCESS)
def test_bad_table_is_refused_alike_by_the_program_itself(name, tmp_path, run_cli, expect_refusal):
    make, said = CASES[name]
    expect_refusal(run_cli, make(tmp_path), [said])


def test_jsonl_that_is_not_utf_8_is_refused(tmp_path, run_here, expect_refusal):
    path = tmp_path / "bad.jsonl"
    path.write_bytes('{"labels": 0, "probs": [1, 0], "ort": "Zürich"}\n'.encode("latin-1"))
    expect_refusal(run_here, ["evaluate", path], ["UTF-8"])


def test_describe_refuses_what_evaluate_refuses(tmp_path, run_here, expect_refusal):
    make, said = CSV["ragged-rows"]
    expect_refusal(run_here, ["describe", *make(tmp_path)[1:]], [said])
