"""Files of every format, whole and in shards, that are damaged or odd: one helpful line, and nothing is lost."""

import decimal
import json
import os
import signal
import sys
import threading
import zipfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402

RNG = np.random.default_rng(4)
N = 12
LOGITS, LABELS = RNG.normal(size=(N, 3)), RNG.integers(0, 3, N)
SITE, AGE = np.array(["north", "süd"] * (N // 2)), np.arange(N) / 2
CLASSES = cal.Classification.from_logits(LOGITS, LABELS, columns={"site": SITE, "age": AGE})
NUMBERS = cal.Regression.from_gaussian(LOGITS[:, 0], np.ones(N), LOGITS[:, 1], columns={"site": SITE, "age": AGE})
BINARY = (".npz", ".parquet", ".arrow", ".safetensors")
FILES = (*BINARY, ".feather", ".ipc", ".csv", ".jsonl")
WAYS = [
    pytest.param([command, *blocks], id="-".join([command, *blocks]).replace("--", ""))
    for command, blocks in (("evaluate", []), ("describe", ["--blocks"]))
]
WHOLE_OR_BLOCKS = pytest.mark.parametrize("blocks", [[], ["--blocks"]], ids=["whole", "blocks"])


def content_of(made, folder, suffix):
    """The bytes of predictions in a format."""
    return cal.write(made, folder / f"sound{suffix}").read_bytes()


def one_line_or_results(ran):
    """Exit code 0 and nothing on stderr, or 2 and one line there."""
    assert "Traceback" not in ran.err
    assert (ran.code, ran.err.count("\n")) in ((0, 0), (2, 1)), ran.err
    return ran.code


def shards(folder, suffix, made=NUMBERS, cuts=(4, 8), name="part"):
    """Predictions in parts, which sort as their rows do."""
    folder.mkdir()
    edges = (0, *cuts, made.n)
    for k in range(len(edges) - 1):
        cal.write(made[edges[k] : edges[k + 1]], f"{folder}/{name}-{k}{suffix}")
    return folder


@pytest.fixture
def refused(run_here, expect_refusal):
    """Check that a command is refused in one helpful line, and changes no file."""

    def check(args, says=()):
        expect_refusal(run_here, [*args, "--json", "-"] if args[0] == "evaluate" else args, says)

    return check


# --------------------------------------------------------------------------------------------- damage
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("suffix", FILES)
def test_an_empty_file(suffix, way, tmp_path, refused):
    (tmp_path / f"bad{suffix}").touch()
    refused([way[0], tmp_path / f"bad{suffix}", *way[1:]], [f"bad{suffix}"])


@WHOLE_OR_BLOCKS
@pytest.mark.parametrize("suffix", [*BINARY, ".feather"])
def test_a_file_that_was_cut(suffix, blocks, tmp_path, run_here):
    """Wherever it was cut, it is refused by name."""
    content = content_of(NUMBERS, tmp_path, suffix)
    path = tmp_path / f"bad{suffix}"
    for k, length in enumerate((1, 7, 30, len(content) // 3, len(content) // 2, len(content) - 40, len(content) - 1)):
        path.write_bytes(content[:length])
        ran = run_here(("evaluate", "describe")[k % 2], path, *blocks)
        assert one_line_or_results(ran) == 2, length
        assert f"bad{suffix}: expected " in ran.err
        assert "again" in ran.err, ran.err


@WHOLE_OR_BLOCKS
@pytest.mark.parametrize("suffix", [*BINARY, ".csv", ".jsonl"])
def test_bytes_that_were_turned(suffix, blocks, tmp_path, run_here):
    content = content_of(NUMBERS, tmp_path, suffix)
    path = tmp_path / f"bad{suffix}"
    for place in np.random.default_rng(len(blocks)).integers(0, len(content), 4):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        one_line_or_results(run_here("describe", path, *blocks))


@pytest.mark.parametrize("suffix", FILES)
@pytest.mark.parametrize("real", [".npz", ".parquet", ".arrow", ".csv", ".safetensors"])
def test_a_file_with_the_ending_of_another_format(real, suffix, tmp_path, refused):
    same = {".arrow": (".arrow", ".feather", ".ipc")}.get(real, (real,))
    if suffix in same:
        pytest.skip("that is its format")
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(content_of(NUMBERS, tmp_path, real))
    refused(["evaluate", path], [f"bad{suffix}"])


def test_a_web_page_instead_of_a_file(tmp_path, refused):
    """What a failed download leaves behind."""
    for suffix in FILES:
        (tmp_path / f"bad{suffix}").write_text("<!doctype html><title>404</title><p>Not found</p>\n" * 20)
        refused(["describe", tmp_path / f"bad{suffix}"], [f"bad{suffix}"])


# ---------------------------------------------------------------------------------------- safetensors
def safetensors(header, body=b"", length=None):
    """The bytes of a file whose header may say anything."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + body


def tensor(shape=(N,), dtype="F64", start=0, size=8 * N):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, start + size]}


def gaussian(**changes):
    """Headers of a sound file, some of them replaced."""
    sound = {"y": tensor(), "mean": tensor(start=8 * N), "std": tensor(start=16 * N)}
    return {**sound, **changes}


BODY = np.ones(3 * N).tobytes()
HEADERS = {
    "overlapping": (safetensors(gaussian(std=tensor(start=12 * N)), BODY), "without gaps and overlaps"),
    "gap": (safetensors(gaussian(std=tensor(start=17 * N)), BODY + bytes(N)), "without gaps and overlaps"),
    "out-of-range": (safetensors(gaussian(std=tensor(start=1 << 40)), BODY), "std"),
    "negative-offsets": (safetensors(gaussian(std=tensor(start=-8 * N)), BODY), "'std'"),
    "offsets-backwards": (safetensors(gaussian(std=tensor(start=24 * N, size=-8 * N)), BODY), "std"),
    "offsets-that-are-no-numbers": (safetensors(gaussian(std={**tensor(), "data_offsets": ["a", "b"]}), BODY), "'std'"),
    "three-offsets": (safetensors(gaussian(std={**tensor(), "data_offsets": [0, 1, 2]}), BODY), "'std'"),
    "negative-shape": (safetensors(gaussian(std=tensor(shape=(-1, -N))), BODY), "'std'"),
    "endless-shape": (safetensors(gaussian(std=tensor(shape=(1 << 62, 1 << 62))), BODY), "'std'"),
    "huge-shape": (safetensors(gaussian(std=tensor(shape=(1 << 40,))), BODY), "'std'"),
    "shape-of-floats": (safetensors(gaussian(std=tensor(shape=(12.0,))), BODY), "'std'"),
    "shape-of-true": (safetensors(gaussian(std=tensor(shape=(True,))), BODY), "'std'"),
    "unknown-type": (safetensors(gaussian(std=tensor(dtype="F128")), BODY), "'F128'"),
    "type-that-is-no-text": (safetensors(gaussian(std=tensor(dtype=7)), BODY), "'std'"),
    "eight-bits": (safetensors(gaussian(std=tensor(dtype="F8_E4M3", size=N)), BODY), "'F8_E4M3'"),
    "no-type": (safetensors(gaussian(std={"shape": [N], "data_offsets": [0, 8]}), BODY), "'std'"),
    "tensor-that-is-a-number": (safetensors(gaussian(std=3), BODY), "'std'"),
    "not-json": (safetensors(b"{'y': 1}", BODY), "a JSON header"),
    "not-utf-8": (safetensors(b'{"\xff": 1}', BODY), "a JSON header"),
    "not-an-object": (safetensors([1, 2], BODY), "that is no JSON object"),
    "tower-of-brackets": (safetensors(b"[" * 100_000, BODY), "a JSON header"),
    "a-name-twice": (safetensors(b'{"y": 1, "y": 2}', BODY), "a name occurs twice"),
    "header-longer-than-the-file": (safetensors(gaussian(), BODY, length=1 << 20), "with a header of 1048576"),
    "endless-header": (safetensors(gaussian(), BODY, length=(1 << 64) - 1), "with a header of"),
    "too-little-data": (safetensors(gaussian(), BODY[:-8]), "bytes, according to the header"),
    "too-much-data": (safetensors(gaussian(), BODY + b"more"), "bytes, according to the header"),
    "metadata-that-is-a-list": (safetensors(gaussian(__metadata__=[1]), BODY), "__metadata__"),
    "metadata-of-numbers": (safetensors(gaussian(__metadata__={"a": 1}), BODY), "__metadata__"),
    "texts-that-are-no-json": (safetensors(gaussian(__metadata__={"calibrant": "{"}), BODY), "'calibrant'"),
    "a-text-and-a-tensor": (safetensors(gaussian(__metadata__={"calibrant": '{"y": ["a"]}'}), BODY), "'y'"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_safetensors_whose_header_lies(name, tmp_path, refused):
    content, said = HEADERS[name]
    (tmp_path / "bad.safetensors").write_bytes(content)
    for way in (["evaluate"], ["describe", "--blocks"]):
        refused([way[0], tmp_path / "bad.safetensors", *way[1:]], [said, "bad.safetensors"])


def test_the_sound_header_is_read(tmp_path, run_here):
    (tmp_path / "sound.safetensors").write_bytes(safetensors(gaussian(), BODY))
    assert run_here("evaluate", tmp_path / "sound.safetensors").code == 0


# ------------------------------------------------------------------------------------ Parquet and Arrow
def arrow_file(folder, columns, suffix=".parquet", name="bad"):
    made, path = pa.table(columns), folder / f"{name}{suffix}"
    if suffix == ".parquet":
        parquet.write_table(made, path)
    else:
        with pa.ipc.new_file(path, made.schema) as writer:
            writer.write_table(made)
    return path


NUMBER_COLUMNS = {"y": LOGITS[:, 1], "mean": LOGITS[:, 0], "std": np.ones(N)}
DECIMALS = pa.array([decimal.Decimal("1.5")] * N)
DATES = pa.array([datetime(2024, 1, 1)] * N)
STRUCTS = pa.array([{"a": 1.0}] * N)
DEEP = pa.array([[[[1.0]]]] * N)
COLUMNS = {
    "null-label": ({"logits": LOGITS.tolist(), "labels": pa.array([0, None] * (N // 2))}, "null in row 1"),
    "null-list": ({"probs": pa.array([None] + [[0.5, 0.5]] * (N - 1))}, "null in row 0"),
    "null-in-a-list": ({"logits": pa.array([[1.0, None]] * N), "labels": LABELS % 2}, "row 0"),
    "null-text": ({"logits": LOGITS.tolist(), "labels": pa.array(["a", None] * (N // 2))}, "null in row 1"),
    "ragged-lists": ({"logits": [[1.0, 2.0]] * (N - 1) + [[1.0]], "labels": LABELS % 2}, "a list of 1 in row 11"),
    "empty-lists": ({"logits": [[]] * N, "labels": LABELS}, "logits"),
    "lists-of-text": ({"logits": [["a", "b"]] * N, "labels": LABELS}, "list<"),
    "lists-of-lists-of-lists": ({"logits": DEEP, "labels": LABELS}, "list<"),
    "scores-that-are-structs": ({"logits": STRUCTS, "labels": LABELS}, "struct<"),
    "scores-that-are-dates": ({"logits": DATES, "labels": LABELS}, "timestamp"),
    "mean-of-decimals": ({**NUMBER_COLUMNS, "mean": DECIMALS}, "decimal128"),
    "outcome-of-decimals": ({**NUMBER_COLUMNS, "y": DECIMALS}, "decimal128"),
    "labels-of-dates": ({"logits": LOGITS.tolist(), "labels": DATES}, "timestamp"),
    "labels-without-classes": ({"logits": LOGITS.tolist(), "labels": ["cat"] * N}, "'cat'"),
    "no-scores": ({"labels": LABELS, "age": AGE}, "'age'"),
    "no-rows": ({"logits": pa.array([], pa.list_(pa.float64(), 3)), "labels": pa.array([], pa.int64())}, "bad"),
    "no-columns": ({}, "bad"),
}


@WHOLE_OR_BLOCKS
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_that_cannot_be_scores(name, suffix, blocks, tmp_path, refused):
    columns, said = COLUMNS[name]
    path = arrow_file(tmp_path, columns, suffix)
    refused(["evaluate", path, *blocks], [said, f"bad{suffix}"])


@WHOLE_OR_BLOCKS
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_columns_of_other_types_are_noted_and_left_alone(suffix, blocks, tmp_path, run_here, refused):
    others = {"when": DATES, "price": DECIMALS, "nested": STRUCTS, "deep": DEEP, "words": [["a"]] * N}
    path = arrow_file(tmp_path, {**NUMBER_COLUMNS, **others}, suffix)
    for command in ("evaluate", "describe"):
        ran = run_here(command, path, *blocks)
        assert (ran.code, ran.err) == (0, "")
        for name in others:
            assert f"'{name}'" in ran.out
    strict = run_here("evaluate", path, "--strict", *blocks)
    assert strict.code == 2
    assert "'when'" in strict.err
    assert strict.out
    refused(["evaluate", path, "--by", "when", *blocks], ["'when'"])


@WHOLE_OR_BLOCKS
def test_labels_from_a_dictionary(blocks, tmp_path, run_here):
    names = np.array(["cat", "dog", "elk"])
    columns = {f"p_{name}": np.full(N, 1 / 3) for name in names} | {
        "truth": pa.array(names[LABELS]).dictionary_encode()
    }
    for suffix in (".parquet", ".arrow"):
        path = arrow_file(tmp_path, columns, suffix)
        ran = run_here("describe", path, "--labels", "truth", "--probs", "p_*", *blocks)
        assert (ran.code, ran.err) == (0, "")
        assert "3: cat, dog, elk" in ran.out


@WHOLE_OR_BLOCKS
def test_an_arrow_stream_and_a_feather_file_are_read_like_an_arrow_file(blocks, tmp_path, run_here, refused):
    made = pa.table(NUMBER_COLUMNS)
    path = arrow_file(tmp_path, NUMBER_COLUMNS, ".arrow", "same")
    expected = run_here("evaluate", path, *blocks).out
    with pa.ipc.new_stream(tmp_path / "same.ipc", made.schema) as writer:
        writer.write_table(made, max_chunksize=5)
    feather.write_feather(made, tmp_path / "same.feather", compression="zstd")
    for name in ("same.ipc", "same.feather"):
        ran = run_here("evaluate", tmp_path / name, *blocks)
        assert (ran.code, ran.err, ran.out) == (0, "", expected)
    (tmp_path / "old.feather").write_bytes(b"FEA1" + bytes(60) + b"FEA1")
    refused(["evaluate", tmp_path / "old.feather", *blocks], ["old.feather"])


def test_a_footer_that_is_longer_than_its_file(tmp_path, refused):
    for suffix, content in {
        ".parquet": b"PAR1" + bytes(20) + (2**31 - 1).to_bytes(4, "little") + b"PAR1",
        ".arrow": b"ARROW1\0\0" + bytes(20) + (2**31 - 1).to_bytes(4, "little") + b"ARROW1",
        ".ipc": b"\xff\xff\xff\xff" + (2**31 - 1).to_bytes(4, "little") + bytes(20),
    }.items():
        (tmp_path / f"bad{suffix}").write_bytes(content)
        refused(["evaluate", tmp_path / f"bad{suffix}"], [f"bad{suffix}"])


def test_what_unpacks_beyond_the_limit_is_refused(tmp_path, monkeypatch, run_here, refused):
    monkeypatch.setenv("CALIBRANT_MAX_BYTES", "100000")
    path = arrow_file(tmp_path, {**NUMBER_COLUMNS, "y": np.zeros(N)})
    assert run_here("evaluate", path).code == 0
    n = 40_000
    path = arrow_file(tmp_path, {"y": np.zeros(n), "mean": np.zeros(n), "std": np.ones(n)})
    assert path.stat().st_size < 10_000
    refused(["evaluate", path], ["CALIBRANT_MAX_BYTES", "bad.parquet"])


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
def test_without_pyarrow_the_other_formats_still_work(suffix, tmp_path, monkeypatch, run_here, refused):
    path = cal.write(NUMBERS, tmp_path / f"p{suffix}")
    others = [cal.write(NUMBERS, tmp_path / f"p{other}") for other in (".npz", ".csv", ".jsonl", ".safetensors")]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for way in (["evaluate"], ["describe", "--blocks"]):
        refused([way[0], path, *way[1:]], ["expected pyarrow", "calibrant[arrow]", f"p{suffix}"])
    for other in others:
        assert run_here("evaluate", other, "-m", "nll").code == 0


# --------------------------------------------------------------------------------------------- shards
def with_columns(part, **columns):
    return part._with_info(replace(part.info, columns={**part.columns, **columns}))


def without_columns(part):
    return part._with_info(replace(part.info, columns={}))


MISFITS = {
    "missing-columns": (without_columns(NUMBERS[4:8]), "no 'age'"),
    "new-column": (with_columns(NUMBERS[4:8], extra=np.arange(4)), "'extra', an additional array"),
    "another-kind": (CLASSES[4:8], "logits"),
    "more-members": (
        cal.Regression.from_gaussian(np.ones((2, 4)), np.ones((2, 4)), np.ones(4), columns=dict(NUMBERS[4:8].columns)),
        "shape (2,)",
    ),
    "no-outcome": (replace(NUMBERS[4:8], y=None), "no 'y'"),
    "other-precision": (replace(NUMBERS[4:8], mean=NUMBERS.mean[:, 4:8].astype("f4")), "float"),
    "text-for-numbers": (with_columns(NUMBERS[4:8], age=np.array(["x"] * 4)), "'age'"),
}


@WHOLE_OR_BLOCKS
@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@pytest.mark.parametrize("name", MISFITS)
def test_a_shard_that_is_of_another_make(name, suffix, blocks, tmp_path, refused):
    part, said = MISFITS[name]
    folder = shards(tmp_path / "parts", suffix)
    cal.write(part, folder / f"part-1{suffix}")
    refused(["evaluate", folder, "--by", "age:2", *blocks], [said, f"part-1{suffix}"])


@WHOLE_OR_BLOCKS
@pytest.mark.parametrize("suffix", FILES)
def test_a_damaged_shard_is_named(suffix, blocks, tmp_path, refused):
    folder = shards(tmp_path / "parts", suffix)
    (folder / f"part-1{suffix}").write_bytes(b"\xff junk")
    for path in (folder, f"{folder}/part-*{suffix}"):
        refused(["evaluate", path, *blocks], [f"part-1{suffix}"])


@WHOLE_OR_BLOCKS
def test_the_row_of_a_shard_is_named(blocks, tmp_path, refused):
    """Rows are counted in their own file, from whichever block and shard they are."""
    for made, key, value in ((NUMBERS, "std", 0.0), (NUMBERS, "mean", np.nan), (CLASSES, "scores", np.nan)):
        folder = shards(tmp_path / f"{key}-{len(list(tmp_path.iterdir()))}", ".npz", made)
        arrays = dict(np.load(folder / "part-1.npz"))
        arrays["logits" if key == "scores" else key][2] = value
        np.savez(folder / "part-1.npz", **arrays)
        refused(["evaluate", folder, *blocks], ["part-1.npz", "row 2"])


@WHOLE_OR_BLOCKS
@pytest.mark.parametrize(
    ("suffix", "place"),
    [(suffix, place) for suffix in BINARY for place in "019" if place == "0" or suffix == ".parquet"],
)
def test_an_empty_shard_changes_nothing(place, suffix, blocks, tmp_path, run_here):
    """As Spark writes them: the columns are there, the rows are not."""
    from calibrant.predictions.files.write import arrays_of

    folder = shards(tmp_path / "parts", suffix, CLASSES)
    few = ["-m", "nll,brier", *blocks]
    expected = run_here("evaluate", folder, *few)
    empty = {key: array[:0] for key, array in arrays_of(CLASSES).items()}
    write_arrays(empty, folder / f"part-{place}-empty{suffix}")
    ran = run_here("evaluate", folder, "--by", "site", *few)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(expected.out.split("\n\n")[0])


def write_arrays(arrays, path):
    from calibrant.predictions.files.arrow_write import write_arrow, write_parquet
    from calibrant.predictions.files.safetensors import write_safetensors

    if path.suffix == ".npz":
        np.savez(path, **arrays)
        return
    writer = {".parquet": write_parquet, ".arrow": write_arrow, ".safetensors": write_safetensors}[path.suffix]
    with path.open("wb") as stream:
        writer(arrays, stream)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".arrow", ".safetensors"])
def test_shards_without_any_row(suffix, way, tmp_path, refused):
    (tmp_path / "parts").mkdir()
    for k in range(2):
        write_arrays({"logits": LOGITS[:0], "labels": LABELS[:0]}, tmp_path / "parts" / f"part-{k}{suffix}")
    refused([way[0], tmp_path / "parts", *way[1:]], ["row"])
    refused([way[0], tmp_path / "parts" / f"part-0{suffix}", *way[1:]], [f"part-0{suffix}"])


def test_labels_mean_the_same_in_every_shard(tmp_path, run_here):
    """In a.csv labels could be names of classes, in b.csv they can only be numbers from 0: so they are in both."""
    (tmp_path / "parts").mkdir()
    for name, label in (("a", 1), ("b", 0)):
        (tmp_path / "parts" / f"{name}.csv").write_text(f"t,p_1,p_2,p_3\n{label},.5,.3,.2\n2,.5,.3,.2\n")
    command = ["evaluate", tmp_path / "parts", "--labels", "t", "--probs", "p_*", "-m", "nll,accuracy"]
    whole, streamed = (run_here(*command, *blocks) for blocks in ([], ["--blocks"]))
    assert (whole.code, whole.err) == (0, "")
    assert streamed == whole
    assert "0.2500" in whole.out  # label 0 alone is the first of the three classes


@WHOLE_OR_BLOCKS
def test_formats_are_not_mixed(blocks, tmp_path, run_here, refused):
    folder = shards(tmp_path / "parts", ".npz")
    cal.write(NUMBERS[:3], folder / "part-3.csv")
    for path in (folder, f"{folder}/*", f"{folder}/part-*"):
        refused(["evaluate", path, *blocks], ["one format", "'part-3.csv'"])
    assert run_here("evaluate", f"{folder}/*.npz", "-m", "nll", *blocks).code == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
@WHOLE_OR_BLOCKS
def test_a_shard_without_the_right_to_read_it(blocks, tmp_path, run_here):
    folder = shards(tmp_path / "parts", ".npz")
    (folder / "part-1.npz").chmod(0)
    ran = run_here("evaluate", folder, *blocks)
    (folder / "part-1.npz").chmod(0o600)
    assert one_line_or_results(ran) == 2
    assert "part-1.npz: expected a readable file, got Permission denied" in ran.err


@WHOLE_OR_BLOCKS
@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv"])
def test_a_shard_that_may_not_be_read_is_said_so(suffix, blocks, tmp_path, monkeypatch, run_here):
    """As above, for the superuser too: the system refuses to open one of them."""
    folder, opened = shards(tmp_path / "parts", suffix), Path.open

    def deny(path, *args, **kwargs):
        if path.name == f"part-1{suffix}":
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", deny)
    library_opens = pa.OSFile
    monkeypatch.setattr(pa, "OSFile", lambda path: deny(Path(path)) if "part-1" in path else library_opens(path))
    ran = run_here("evaluate", folder, *blocks)
    assert one_line_or_results(ran) == 2
    assert f"part-1{suffix}: expected a readable file, got Permission denied" in ran.err


@pytest.mark.parametrize("suffix", ["/", *FILES])
def test_a_shard_that_vanishes_or_changes_after_it_was_found(suffix, tmp_path):
    folder = shards(tmp_path / "parts", suffix)
    stream, place = cal.scan(folder), folder / f"part-1{suffix}".rstrip("/")
    place.rename(tmp_path / "gone")
    with pytest.raises(cal.CalibrantError, match=r"part-1.*got none; check the path"):
        cal.evaluate(stream, resamples=30)
    cal.write(NUMBERS[:3], f"{folder}/part-1{suffix}")
    with pytest.raises(cal.CalibrantError, match=r"part-1.*has changed"):
        cal.evaluate(stream, resamples=30)
    with pytest.raises(cal.CalibrantError, match="part-1"):
        cal.evaluate(stream, by="age", resamples=30)


def test_a_folder_that_contains_itself(tmp_path, run_here):
    """`**` follows the link forty times; every file is taken once."""
    folder = shards(tmp_path / "parts", ".npz")
    (folder / "again").symlink_to(folder, target_is_directory=True)
    told = [line for line in run_here("evaluate", folder, "-m", "nll").out.splitlines() if "·" not in line]
    for pattern in ("**/*.npz", "*.npz", "**/part-?.npz"):
        for blocks in ([], ["--blocks"]):
            ran = run_here("evaluate", f"{folder}/{pattern}", "-m", "nll", *blocks)
            assert (ran.code, ran.err) == (0, "")
            assert [line for line in ran.out.splitlines() if "·" not in line] == told
            assert "12 rows" in ran.out


def test_patterns_that_find_no_predictions(tmp_path, refused):
    (tmp_path / "a" / "x.npz").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes.txt").write_text("text")
    for pattern, said in {
        "*.parquet": "expected matching files, got none; check the pattern",
        "part-[0-9].npz": "expected matching files, got none; check the pattern",
        "nowhere/**/*.npz": "expected matching files, got none; check the pattern",
        "?": "expected",  # two folders without predictions
        "a/*.npz": "x.npz",  # a folder under the name of a file
        "b/*": "notes.txt",
        "a": "x.npz",
        "b": "got a folder without any",
    }.items():
        for blocks in ([], ["--blocks"]):
            refused(["evaluate", tmp_path / pattern, *blocks], [said] if said != "x.npz" else [])


NAMES = ['it\'s a "name"', "two\nlines", "ünï 猫 🙂", "-dash", "100%s{}\t;", "a=1,b=2", "[1]"]


@pytest.mark.parametrize("name", NAMES)
def test_names_of_shards_may_hold_anything(name, tmp_path, run_here, refused):
    folder = shards(tmp_path / "parts", ".npz", name=name)
    for path, blocks in ((folder, ["--blocks"]), (folder / f"{name}-1.npz", [])):
        ran = run_here("evaluate", path, "-m", "nll", *blocks)
        assert (ran.code, ran.err) == (0, "")
        assert all(sign == "\n" or sign.isprintable() for sign in ran.out)
    (folder / f"{name}-1.npz").write_bytes(b"junk")
    refused(["evaluate", folder], ["-1.npz"])
    os.rename(folder, tmp_path / name)  # noqa: PTH104
    refused(["describe", tmp_path / name, "--blocks"], ["-1.npz"])


def test_an_empty_name_is_not_this_folder(tmp_path, monkeypatch, run_here, refused):
    """`calibrant evaluate "$FILE"` where FILE is not set."""
    cal.write(NUMBERS, tmp_path / "here.npz")
    monkeypatch.chdir(tmp_path)
    for name in ("", "::member=0"):
        refused(["evaluate", name], ["empty"])
    ran = run_here("evaluate", ".", "-m", "nll")
    assert f"\n{tmp_path.name} · 12 rows\n" in ran.out


@pytest.mark.parametrize("suffix", [".npz", "/", ".safetensors"])
def test_one_member_with_an_axis_of_its_own(suffix, tmp_path, run_here):
    """(1, N, C), (1, N): an ensemble of one, block by block as at once."""
    for name, arrays in {
        "classes": {"logits": LOGITS[None], "labels": LABELS},
        "gaussian": {"mean": LOGITS[None, :, 0], "std": np.ones((1, N)), "y": LOGITS[:, 1]},
        "samples": {"samples": LOGITS[None, :, 0], "y": LOGITS[:, 1]},
        "judged": {"confidence": np.full((1, N), 0.5), "correct": LABELS > 0},
    }.items():
        path = tmp_path / f"{name}{suffix}"
        if suffix == "/":
            path.mkdir()
            for key, array in arrays.items():
                np.save(path / f"{key}.npy", array)
        else:
            write_arrays(arrays, path)
        whole, streamed = (run_here("evaluate", path, "--resamples", "20", *blocks) for blocks in ([], ["--blocks"]))
        assert (whole.code, whole.err) == (0, "")
        assert streamed == whole


# ------------------------------------------------------------------------------------------- renaming
@pytest.mark.parametrize("suffix", ["/", *FILES])
def test_keys_are_renamed_in_every_format(suffix, tmp_path, run_here, refused):
    """`FILE::confidence=other` reads the column `other`; a name that is not there is refused."""
    other, right = RNG.random(N), LABELS > 0
    path = cal.write(
        cal.Judged.from_confidence(np.full(N, 0.5), right, columns={"other": other}), f"{tmp_path}/p{suffix}"
    )
    (tmp_path / "q").mkdir()
    expected = run_here(
        "evaluate", cal.write(cal.Judged.from_confidence(other, right), tmp_path / "q" / "p.npz"), "-m", "nll"
    )
    for blocks in ([], ["--blocks"]):
        ran = run_here("evaluate", f"{path}::confidence=other", "-m", "nll", *blocks)
        assert (ran.code, ran.out, ran.err) == (0, expected.out, "")
        refused(["evaluate", f"{path}::confidence=othre", *blocks], ["did you mean 'other'?"])
        refused(["evaluate", f"{path}::mean=confidence,std=other,labels=correct", *blocks], ["FILE::y=labels"])


@pytest.mark.parametrize("suffix", ["/", *FILES])
def test_a_member_that_is_not_there(suffix, tmp_path, run_here, refused):
    made = cal.Regression.from_gaussian(np.ones((2, N)), np.ones((2, N)), np.ones(N))
    path = cal.write(made, f"{tmp_path / 'm'}{suffix}")
    for blocks in ([], ["--blocks"]):
        refused(["evaluate", f"{path}::member=2", *blocks], ["from 0 to 1, got 2", "m"])
        assert run_here("evaluate", f"{path}::member=1", *blocks).code == 0


# ---------------------------------------------------------------------------------------- in memory or not
SAID = {
    "logits-like-probs": cal.Classification.from_logits(np.full((N, 4), 0.25), LABELS),
    "labels-from-one": cal.Classification.from_logits(np.zeros((80, 4)), np.arange(80) % 3 + 1),
    "renormalised": cal.Classification.from_probs(np.full((N, 3), 1.0001 / 3), LABELS),
    "certain-and-wrong": cal.Classification.from_probs(np.eye(3)[LABELS], (LABELS + 1) % 3),
    "two-kinds-of-labels": cal.Classification.from_probs(
        np.full((N, 2), 0.5), LABELS % 2, label_probs=np.full((N, 2), 0.5)
    ),
    "crossing": cal.Regression.from_quantiles(-np.sort(LOGITS), [0.1, 0.5, 0.9], LOGITS[:, 0]),
    "equal-samples": cal.Regression.from_samples(np.ones((3, N)), LOGITS[:, 0]),
    "no-outcome": replace(NUMBERS, y=None),
    "weights-and-ids": cal.Regression.from_gaussian(
        AGE, AGE + 1, LOGITS[:, 0], weights=AGE, ids=np.arange(N), meta={"method": "x"}, columns={"site": SITE}
    ),
    "columns": CLASSES,
    "members": cal.Classification.from_logits(np.stack([LOGITS, -LOGITS]), LABELS, member_names=["a", "b"]),
}


@pytest.mark.parametrize(
    ("name", "suffix"), [*((name, ".npz") for name in SAID), ("columns", ".parquet"), ("crossing", ".jsonl")]
)
def test_inputs_that_are_streamed_print_the_same_text(name, suffix, tmp_path, monkeypatch, run_here):
    """Above the threshold everything is read block by block: the same tables, and the same notes under them."""
    monkeypatch.setattr("calibrant.predictions.files.stream.BLOCK_BYTES", 200)
    path = cal.write(SAID[name], tmp_path / f"p{suffix}")
    for command in (["evaluate", "--resamples", "20"], ["evaluate", "--strict", "--format", "csv"], ["describe"]):
        monkeypatch.setattr("calibrant.cli.inputs.MAX_BYTES_IN_MEMORY", 1 << 28)
        whole = run_here(command[0], path, *command[1:])
        monkeypatch.setattr("calibrant.cli.inputs.MAX_BYTES_IN_MEMORY", 0)
        streamed = run_here(command[0], path, *command[1:])
        assert (streamed.code, without_size(streamed.out), streamed.err) == (
            whole.code,
            without_size(whole.out),
            whole.err,
        )


def without_size(text):
    """What `describe` says of predictions, less what it can only say of those in memory, or of streams."""
    return [line for line in text.splitlines() if not line.strip().startswith(("sha256 ", "size "))]


@pytest.mark.parametrize("option", [["--by", "site"], ["--by", "age:3"], ["--units", "site"]])
def test_groups_and_units_of_a_stream(option, tmp_path, run_here, refused):
    folder = shards(tmp_path / "parts", ".parquet")
    whole, streamed = (run_here("evaluate", folder, *option, *blocks) for blocks in ([], ["--blocks"]))
    assert (streamed.code, streamed.out, streamed.err) == (whole.code, whole.out, whole.err) == (0, whole.out, "")
    for wrong in ("sitte", "agee"):
        refused(["evaluate", folder, option[0], wrong, "--blocks"], ["parts", "did you mean"])


# ------------------------------------------------------------------------------------ interrupts and failures
def reading_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("calibrant-")]


@pytest.fixture
def default_sigint():
    """Python's own handler of Ctrl-C: a process that a shell starts in the background inherits an ignored SIGINT."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("default_sigint")
@pytest.mark.parametrize("threads", ["1", "2"])
def test_ctrl_c_while_a_stream_is_read(threads, tmp_path, monkeypatch, run_here):
    """Exit code 130 at once, no output file, and no thread that goes on reading."""
    from calibrant.predictions.files import stream

    made = cal.Classification.from_logits(RNG.normal(size=(1000, 3)), RNG.integers(0, 3, 1000))
    path, build, calls = cal.write(made, tmp_path / "p.npz"), stream.build, []

    def build_and_interrupt(*args, **kwargs):
        calls.append(1)
        if len(calls) == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return build(*args, **kwargs)

    monkeypatch.setattr(stream, "BLOCK_BYTES", 24)
    monkeypatch.setattr(stream, "build", build_and_interrupt)
    args = ["--blocks", "-m", "nll", "--threads", threads, "--json", tmp_path / "out.json"]
    ran = run_here("evaluate", path, *args)
    assert (ran.code, ran.out) == (130, "")
    assert ran.err in ("", "calibrant: interrupted\n")
    for thread in threading.enumerate():  # one that was just being started when the signal came ends a moment later
        if thread.name.startswith("calibrant-"):
            thread.join(5)
    assert len(calls) < 500  # and reads nothing until then
    assert reading_threads() == []
    assert [item.name for item in tmp_path.iterdir()] == ["p.npz"]


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(
    ("failure", "code"),
    [(MemoryError(), 2), (OSError(5, "Input/output error"), 2), (KeyboardInterrupt(), 130), (RuntimeError("bug"), 3)],
    ids=["memory", "disk", "interrupt", "bug"],
)
def test_a_failure_in_the_reading_thread_ends_the_program(failure, code, threads, tmp_path, monkeypatch, run_here):
    from calibrant.predictions.files import stream

    path, build, calls = cal.write(CLASSES, tmp_path / "p.parquet"), stream.build, []

    def build_or_fail(*args, **kwargs):
        calls.append(1)
        if len(calls) == 5:
            raise failure
        return build(*args, **kwargs)

    monkeypatch.setattr(stream, "BLOCK_BYTES", 24)
    monkeypatch.setattr(stream, "build", build_or_fail)
    ran = run_here("evaluate", path, "--blocks", "--threads", threads, "--json", tmp_path / "out.json")
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.count("\n") <= 1
    assert ran.err.startswith("calibrant: ") or code == 130
    if code == 2 and isinstance(failure, OSError):
        assert "p.parquet: expected a readable file, got Input/output error" in ran.err
    assert reading_threads() == []
    assert [item.name for item in tmp_path.iterdir()] == ["p.parquet"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("failure", [KeyboardInterrupt, MemoryError, RuntimeError])
def test_a_failure_in_the_work_ends_the_reading(failure, threads, tmp_path, monkeypatch):
    """At once, though a notebook keeps the traceback, and with it whatever was being read."""
    from calibrant.pipeline import runner as parts

    made = cal.Classification.from_logits(RNG.normal(size=(1000, 3)), RNG.integers(0, 3, 1000))
    stream, add, calls = cal.scan(cal.write(made, tmp_path / "p.npz")), parts.PassState.add, []

    def add_or_fail(*args):
        calls.append(1)
        if len(calls) == 3:
            raise failure
        add(*args)

    monkeypatch.setattr(parts.PassState, "add", add_or_fail)
    with pytest.raises(failure) as kept:
        evaluate_with(stream, "nll", block_rows=1, threads=threads)
    assert kept.value.__traceback__ is not None
    assert reading_threads() == []
    assert len(calls) < 500


@pytest.mark.parametrize("older", [False, True], ids=["new", "over-an-old-one"])
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather", ".ipc", ".safetensors"])
def test_a_full_disk_leaves_nothing_behind(suffix, older, tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / f"p{suffix}"
    before = cal.write(NUMBERS, path).read_bytes() if older else None
    large = cal.Classification.from_logits(RNG.normal(size=(3000, 3)), columns={"site": np.array(["a", "b"] * 1500)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (0, 10, 20_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(cal.CalibrantError, match="nothing was written"):
                cal.write(large, path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert [item.name for item in tmp_path.iterdir()] == [path.name] * older
        assert not older or path.read_bytes() == before


def test_no_room_to_unpack_an_archive(tmp_path, monkeypatch, run_here, refused):
    """The members of an archive lie apart, and are unpacked to a temporary file to be read side by side."""
    np.savez_compressed(tmp_path / "bad.npz", logits=np.stack([LOGITS, LOGITS]), labels=LABELS)
    assert run_here("evaluate", tmp_path / "bad.npz", "--blocks").code == 0

    def no_space(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", no_space)
    refused(["evaluate", tmp_path / "bad.npz", "--blocks"], ["bad.npz", "temporary folder", "No space left", "TMPDIR"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_device(tmp_path):
    for suffix in FILES:
        (tmp_path / f"full{suffix}").symlink_to("/dev/full")
        with pytest.raises(cal.CalibrantError, match="No space left on device"):
            cal.write(CLASSES, tmp_path / f"full{suffix}")


# ---------------------------------------------------------------------------------------------- outputs
@pytest.mark.parametrize("option", ["--json", "--html"])
@pytest.mark.parametrize("suffix", FILES)
def test_a_result_is_not_written_over_predictions(suffix, option, tmp_path, run_here):
    """`calibrant evaluate --json a.npz b.npz`: who takes --json for a switch would lose a.npz."""
    first, second = (cal.write(NUMBERS, tmp_path / f"{name}{suffix}") for name in ("a", "b"))
    ran = run_here("evaluate", option, first, second)
    assert one_line_or_results(ran) == 2
    assert f"a{suffix}' ({suffix} is for predictions)" in ran.err
    assert cal.read(first).n == N


def test_two_results_do_not_share_a_file(tmp_path, run_here):
    path = cal.write(NUMBERS, tmp_path / "a.npz")
    ran = run_here("evaluate", path, "--json", tmp_path / "out", "--html", tmp_path / "out")
    assert one_line_or_results(ran) == 2
    assert not (tmp_path / "out").exists()


FORMULAS = ["=1+1", "+1", "-1+2", "@SUM(A1)", "=cmd|'calc'!A0", "\t=1", "%0A=1", '=HYPERLINK("x")']


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_names_that_look_like_formulas_stay_plain(suffix, tmp_path, run_here):
    """A table of predictions gives back what was put in; a table of results holds no formula."""
    columns = {name: np.where(AGE > 2, name, "other") for name in FORMULAS}
    path = cal.write(NUMBERS._with_info(replace(NUMBERS.info, columns=columns)), tmp_path / f"p{suffix}")
    back = cal.read(path)
    assert list(back.columns) == FORMULAS
    for name in FORMULAS:
        assert set(back.columns[name].tolist()) == {name, "other"}
        ran = run_here("evaluate", path, "-m", "nll", "--by", name, "--format", "csv")
        assert (ran.code, ran.err) == (0, "")
        for field in ran.out.replace('"', "").replace("\n", ",").split(","):
            assert not field.lstrip().startswith(("=", "@", "+", "\t")), field


# -------------------------------------------------------------------------------- zip archives of other things
def test_an_archive_that_is_no_npz(tmp_path, refused):
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
        archive.writestr("../../mean.npy.txt", "up")
    refused(["evaluate", tmp_path / "bad.npz", "--blocks"], ["bad.npz", "nothing"])


def test_options_in_any_order(tmp_path, run_here):
    path = cal.write(NUMBERS, tmp_path / "p.csv")
    expected = run_here("evaluate", path, "-m", "nll,crps", "--blocks", "--seed", "3").out
    for args in (
        ["evaluate", "--blocks", "--seed=3", "-m", "nll,crps", path],
        ["evaluate", "--seed", "3", path, "--metrics=nll,crps", "--blocks"],
        ["evaluate", "-m", "nll, crps", "--blocks", "--seed", "3", "--", path],
        ["evaluate", "-m", "nll", path, "-m", "crps", "--blocks", "--seed", "3"],
    ):
        ran = run_here(*args)
        assert (ran.code, ran.out, ran.err) == (0, expected, "")
