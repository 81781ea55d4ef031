"""Evaluation logs: what real tools write gives the accuracies that they report, and what is dirty is named."""

import json
import os
import shutil
import struct
import subprocess
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import calibrant as cal
from calibrant.errors import CalibrantWarning, FileError, UsageError
from calibrant.predictions.logs import archive as archives
from calibrant.predictions.logs.archive import Archive

HERE = Path(__file__).parent
LOGS = HERE / "logs"
"""Logs that inspect_ai 0.3.285 and lm-eval 0.4.13 wrote (`write_logs.py`)."""
REPORTED = {"single.eval": 0.5, "epochs.eval": 13 / 30, "toy_mc acc,none": 0.4, "toy_mc acc_norm,none": 0.2}
"""The accuracies that the tools printed when they wrote these logs."""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Logs written now by the real tools, and what they report."""
    python = os.environ.get("CALIBRANT_LOG_TOOLS")
    if not python:
        pytest.skip("CALIBRANT_LOG_TOOLS does not name an interpreter with inspect_ai and lm-eval")
    out = tmp_path_factory.mktemp("logs")
    program = [python, str(HERE / "write_logs.py"), str(out)]
    run = subprocess.run(program, capture_output=True, text=True, timeout=120, check=True)
    return out, json.loads(run.stdout.strip().splitlines()[-1])


def accuracy(predictions):
    return cal.evaluate(predictions, "accuracy", curves=False)["accuracy"].value


# ------------------------------------------------------------------------------------------ accuracies
def check_against_tools(folder, reported):
    assert accuracy(cal.read(folder / "single.eval")) == pytest.approx(reported["single.eval"], abs=1e-12)
    assert accuracy(cal.read(folder / "epochs.eval")) == pytest.approx(reported["epochs.eval"], abs=1e-12)
    for score in ("acc", "acc_norm"):
        choices = cal.read(folder / "samples_toy_mc.jsonl", columns={"scorer": score})
        assert isinstance(choices, cal.Classification)  # so the argmax of our normalisation is the tool's answer
        assert accuracy(choices) == pytest.approx(reported[f"toy_mc {score},none"], abs=1e-12)


def test_stored_logs_have_the_accuracies_that_the_tools_reported():
    check_against_tools(LOGS, REPORTED)
    text = cal.read(LOGS / "samples_toy_gen.jsonl", columns={"filter": "first-letter"})
    assert accuracy(text) == 0.5
    assert not text.has_confidence


def test_fresh_logs_have_the_accuracies_that_the_tools_report(fresh):
    folder, reported = fresh
    check_against_tools(folder, reported)
    assert accuracy(cal.read(folder / "other.json")) == pytest.approx(reported["other.json"], abs=1e-12)
    for name in ("whole", "first-letter"):
        text = cal.read(folder / "samples_toy_gen.jsonl", columns={"filter": name})
        assert accuracy(text) == pytest.approx(reported[f"toy_gen exact_match,{name}"], abs=1e-12)
    with zipfile.ZipFile(folder / "single.eval") as written:
        assert {info.compress_type for info in written.infolist()} == {archives.ZSTANDARD}


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
def test_public_logs_have_the_accuracies_that_they_state(data_folder):
    folder = data_folder / "llm_logs"
    for name in ("log_formats.eval", "log_read_sample.eval", "mmlu-summary-choices.eval"):
        with zipfile.ZipFile(folder / "inspect" / name) as log:  # deflate
            header = json.loads(log.read("header.json"))
        stated = header["results"]["scores"][0]["metrics"]["accuracy"]["value"]
        assert accuracy(cal.read(folder / "inspect" / name)) == stated
    arc = cal.read(folder / "inspect" / "data_arc_qwen.json")
    assert accuracy(arc) == 1 / 3
    (samples,) = (folder / "lm_eval").glob("samples_*.jsonl")
    assert accuracy(cal.read(samples)) == 0.0
    run = folder / "helm" / "mmlu_philosophy_gpt2"
    stats = json.loads((run / "stats.json").read_text())
    (stated,) = (
        item["mean"]
        for item in stats
        if item["name"] == {"name": "exact_match", "split": "test"}
    )  # fmt: skip
    helm = cal.read(run, columns={"scorer": "exact_match", "split": "test"})
    assert accuracy(helm) == pytest.approx(stated, abs=1e-12)
    with pytest.raises(FileError, match="0 in every row, so the tool did not record them"):
        cal.read(run, columns={"scorer": "exact_match", "split": "test", "confidence": "max_prob"})


# ----------------------------------------------------------------------------------- what was taken
def test_log_says_what_was_taken():
    log = cal.read(LOGS / "single.eval").info.meta["log"]
    assert log["correct"] == "scorer graded"
    assert log["confidence"] == "confidence of the score"
    assert (log["rows"], log["read"], log["dropped"]) == (10, 10, {})
    printed = str(cal.evaluate(cal.read(LOGS / "single.eval"), "accuracy"))
    assert "correct: scorer graded" in printed
    assert "10 of 10 rows" in printed


def test_without_confidence_calibration_is_not_tested():
    answers = cal.read(LOGS / "single.eval", columns={"confidence": "none"})
    evaluation = cal.evaluate(answers)
    assert list(evaluation.results[0].metrics) == ["accuracy"]
    assert evaluation.verdict.status == "not_tested"
    assert "calibration not tested: no confidence" in str(evaluation)
    assert evaluation["accuracy"].low == pytest.approx(0.2366, abs=1e-4)  # Wilson, 5 of 10
    with pytest.raises(UsageError, match="it needs a confidence"):
        cal.evaluate(answers, "ece")
    together = cal.compare({"one": answers, "two": answers})
    assert [item.model for item in together.comparison.ranking] == ["one", "two"]


def test_epochs_are_rows_and_samples_are_units():
    answers = cal.read(LOGS / "epochs.eval")
    assert answers.n == 30
    assert len(np.unique(answers.column("sample_id"))) == 10
    assert len(np.unique(answers.info.ids)) == 30
    assert answers.info.meta["log"]["units"] == "sample_id"
    # the answers of the mock model, read by the standard library
    with LOGS.joinpath("epochs.eval").open("rb") as stream:
        archive = Archive(LOGS / "epochs.eval", stream)
        record = json.loads(archive.read("samples/q3_epoch_2.json"))
    row = list(answers.info.ids).index("q3 epoch 2")
    assert bool(answers.correct[row]) == (record["scores"]["graded"]["value"] == "C")
    assert answers.confidence[0, row] == record["scores"]["graded"]["metadata"]["confidence"]


def test_choices_are_normalised_raw_or_by_length():
    records = [json.loads(line) for line in (LOGS / "samples_toy_mc.jsonl").read_text().splitlines()]
    likelihoods = np.array([[float(pair[0]) for pair in record["filtered_resps"]] for record in records])
    lengths = np.array([len(choice) for choice in records[0]["doc"]["choices"]])
    for score, values in {"acc": likelihoods, "acc_norm": likelihoods / lengths}.items():
        expected = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
        read = cal.read(LOGS / "samples_toy_mc.jsonl", columns={"scorer": score})
        np.testing.assert_allclose(read.scores[0], expected, rtol=1e-12)
        assert read.labels.tolist() == [record["doc"]["gold"] for record in records]


def test_questions_are_paired_by_doc_hash(tmp_path):
    lines = (LOGS / "samples_toy_mc.jsonl").read_text().splitlines()
    shuffled = tmp_path / "samples_toy_mc.jsonl"
    shuffled.write_text("\n".join(lines[::-1][:8]) + "\n")
    one, two = (cal.read(path, columns={"scorer": "acc"}) for path in (LOGS / "samples_toy_mc.jsonl", shuffled))
    together = cal.compare({"one": one, "two": two}, "brier")
    assert together.comparison.pairs[0].difference == pytest.approx(0.0, abs=1e-15)
    assert any("8 are in all models" in note.message for note in together.warnings)


# ------------------------------------------------------------------------------------- it asks, it refuses
@pytest.mark.parametrize(
    ("file", "columns", "message"),
    [
        ("samples_toy_gen.jsonl", {}, "add --filter whole or --filter first-letter"),
        ("samples_toy_mc.jsonl", {}, "add --scorer acc or --scorer acc_norm"),
        ("samples_toy_mc.jsonl", {"scorer": "bleu"}, "choose from --scorer acc, --scorer acc_norm"),
        ("single.eval", {"scorer": "match"}, "choose from --scorer graded"),
        ("single.eval", {"confidence": "certainty"}, "choose from --confidence confidence"),
        ("single.eval", {"confidence": "logprob_mean"}, "--logprobs"),
    ],
)
def test_ambiguous_or_unknown_fields_are_asked_for(file, columns, message):
    with pytest.raises(FileError, match=message):
        cal.read(LOGS / file, columns=columns)


def inspect_json(path, scores, confidences=None, **more):
    """A log of inspect_ai with these grades."""
    samples = []
    for i, value in enumerate(scores):
        metadata = {} if confidences is None else {"confidence": confidences[i]}
        score = {} if value is None else {"match": {"value": value, "answer": "x", "metadata": metadata}}
        samples.append({"id": i + 1, "epoch": 1, "scores": score, "metadata": {}, **more})
    log = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}, "samples": samples}
    path.write_text(json.dumps(log))
    return path


def test_partial_grades_are_asked_for(tmp_path):
    path = inspect_json(tmp_path / "log.json", ["C", "P", "I", "N", 1, 0.0, True])
    with pytest.raises(FileError, match="add --partial wrong, --partial right or --partial drop"):
        cal.read(path)
    assert accuracy(cal.read(path, columns={"partial": "wrong"})) == 3 / 7
    assert accuracy(cal.read(path, columns={"partial": "right"})) == 4 / 7
    with pytest.warns(CalibrantWarning, match="1 of 7 rows dropped: 1 graded neither right nor wrong"):
        assert accuracy(cal.read(path, columns={"partial": "drop"})) == 3 / 6


def test_confidences_are_converted_and_dropped_only_when_asked(tmp_path):
    path = inspect_json(tmp_path / "log.json", ["C"] * 5, ["85%", 70, None, 683, 12.5])
    with pytest.raises(FileError, match="use --confidence-scale 100"):
        cal.read(path)
    with pytest.raises(FileError, match=r"none in 1 of 5 rows, first in row 2.*--drop-missing"):
        cal.read(path, columns={"confidence_scale": 100})
    with pytest.warns(CalibrantWarning, match=r"1 without a confidence, 1 with a confidence outside 0 to 100 .*683"):
        read = cal.read(path, columns={"confidence_scale": 100, "drop_missing": True})
    assert read.confidence.tolist() == [[0.85, 0.7, 0.125]]
    words = inspect_json(tmp_path / "words.json", ["C", "C"], ["likely", 0.5])
    with pytest.raises(FileError, match="row 0: 'likely'"):
        cal.read(words, columns={"drop_missing": True})


def test_samples_without_a_score_are_counted(tmp_path):
    path = inspect_json(tmp_path / "log.json", ["C", None, "I"], error={"message": "boom"})
    with pytest.warns(CalibrantWarning, match="1 of 3 rows dropped: 1 that ended with an error"):
        assert accuracy(cal.read(path)) == 0.5
    with pytest.raises(FileError, match="2 samples without any"):
        cal.read(inspect_json(tmp_path / "none.json", [None, None]))


def test_log_probabilities_that_are_all_zero_are_refused(tmp_path):
    tokens = {"choices": [{"logprobs": {"content": [{"logprob": 0.0}, {"logprob": 0.0}]}}]}
    path = inspect_json(tmp_path / "zero.json", ["C", "I"], output=tokens)
    with pytest.raises(FileError, match="0 in every row"):
        cal.read(path, columns={"confidence": "logprob_mean"})
    tokens["choices"][0]["logprobs"]["content"][0]["logprob"] = -1.0
    path = inspect_json(tmp_path / "some.json", ["C", "I"], output=tokens)
    mean = cal.read(path, columns={"confidence": "logprob_mean"})
    np.testing.assert_allclose(mean.confidence, np.exp(-0.5))
    np.testing.assert_allclose(cal.read(path, columns={"confidence": "logprob_sum"}).confidence, np.exp(-1.0))
    zeros = tmp_path / "samples_zero.jsonl"
    record = json.loads((LOGS / "samples_toy_mc.jsonl").read_text().splitlines()[0])
    zeros.write_text(json.dumps(record | {"filtered_resps": [["0.0", "False"]] * 4}) + "\n")
    with pytest.raises(FileError, match="0 in every row"):
        cal.read(zeros, columns={"scorer": "acc"})


def test_aggregated_results_and_other_json_are_refused(tmp_path, data_folder):
    (results,) = (data_folder / "llm_logs" / "lm_eval").glob("results_*.json")
    with pytest.raises(FileError, match="--log_samples"):
        cal.read(results)
    other = tmp_path / "other.json"
    other.write_text('{"a": 1}')
    with pytest.raises(FileError, match="a log of inspect_ai or HELM, or a table"):
        cal.read(other)
    other.write_text('{"eval": ')
    with pytest.raises(FileError, match="unreadable"):
        cal.read(other)


# ------------------------------------------------------------------------------------------- archives
def test_bombs_are_refused_while_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBER_BYTES", 1 << 22)
    path = tmp_path / "bomb.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("header.json", b" " * (1 << 26))
    with pytest.raises(FileError, match="at most 4 MiB in one member"):
        cal.read(path)
    monkeypatch.setattr(archives, "MAX_MEMBER_BYTES", 1 << 28)
    monkeypatch.setenv("CALIBRANT_MAX_BYTES", str(1 << 20))
    with pytest.raises(FileError, match="after unpacking"):
        cal.read(path)


def zstandard_archive(path, name, content, claimed):
    """An archive with one Zstandard member whose header claims another size."""
    import pyarrow

    packed = pyarrow.compress(content, codec="zstd", asbytes=True)
    crc, encoded = zlib.crc32(content), name.encode()
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 63, 0, 93, 0, 0, crc, len(packed), claimed, len(encoded), 0)
    central = struct.pack(
        "<4s6H3L5H2L", b"PK\1\2", 63, 63, 0, 93, 0, 0, crc, len(packed), claimed, len(encoded), 0, 0, 0, 0, 0, 0
    )  # fmt: skip
    body, directory = local + encoded + packed, central + encoded
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(directory), len(body), 0)
    path.write_bytes(body + directory + end)
    return path


def test_zstandard_bombs_that_lie_about_their_size_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBER_BYTES", 1 << 22)
    path = zstandard_archive(tmp_path / "bomb.eval", "header.json", b" " * (1 << 26), claimed=10)
    with pytest.raises(FileError, match="at most 4 MiB in one member"):
        cal.read(path)


@pytest.mark.parametrize("position", [0.1, 0.4, 0.7, 0.97])
@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
def test_damaged_archives_are_refused(tmp_path, position):
    path = tmp_path / "damaged.eval"
    shutil.copy(LOGS / "single.eval", path)
    content = bytearray(path.read_bytes())
    start = int(position * len(content))
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)
    with suppress(FileError):  # the damage may be in a member that is not read
        read, whole = cal.read(path), cal.read(LOGS / "single.eval")
        unfinished = any(note.code == "unfinished-log" for note in read.notes())  # without a header
        assert unfinished or read.confidence.tolist() == whole.confidence.tolist()
    path.write_bytes(content[:start])
    with pytest.raises(FileError, match="a zip archive"):
        cal.read(path)


# --------------------------------------------------------------------------------------------- tables
def test_json_tables_are_read_like_csv(tmp_path):
    content = {"columns": ["id", "conf", "ok"], "data": [["a", 0.9, True], ["b", 0.4, False], ["c", None, True]]}
    path = tmp_path / "table.json"
    path.write_text(json.dumps(content | {"nrows": 3}))
    columns = {"confidence": "conf", "correct": "ok"}
    with pytest.warns(CalibrantWarning, match="1 of 3 rows dropped: 1 without a confidence"):
        read = cal.read(path, columns=columns | {"drop_missing": True})
    assert read.confidence.tolist() == [[0.9, 0.4]]
    assert read.correct.tolist() == [True, False]
    assert read.column("id").tolist() == ["a", "b"]
    path.write_text(json.dumps({"columns": ["a", "b"], "data": [[1, 2], [3]]}))
    with pytest.raises(FileError, match="2 values in every row"):
        cal.read(path, columns={"confidence": "a", "correct": "b"})
