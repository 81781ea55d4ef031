"""Predictions that stay in their files: the same digits as in memory, in every format, whole or in shards."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from evaluations import evaluate_with

import calibrant as cal

N = 97
SUFFIXES = (".npz", "/", ".parquet", ".arrow", ".safetensors", ".csv", ".jsonl")
LEVELS = [0.025, 0.1, 0.5, 0.9, 0.975]


def known(rng, weighted):
    """Weights with a stretch of zeros, dependent rows, a column of text and one of numbers."""
    weights = np.where(np.arange(N) < 30, 0.0, rng.exponential(size=N)) if weighted else None
    columns = {"unit": np.arange(N) // 4, "site": rng.choice(["a", "bb", "é"], N), "age": rng.normal(size=N)}
    return {"weights": weights, "columns": columns, "name": "x"}


def classification(members=1, width=4, kind="logits", dtype=np.float32, weighted=False, **more):
    rng = np.random.default_rng([members, width])
    z = (2 * rng.normal(size=(members, N, width))).astype(dtype)
    if kind == "probs":
        z = np.exp(z) / np.exp(z).sum(axis=2, keepdims=True)
    labels = rng.integers(0, width, N)
    return cal.Classification.build(kind, z[0] if members == 1 else z, labels, **known(rng, weighted), **more)


def regression(kind, members=1, weighted=False):
    rng = np.random.default_rng(members)
    mean, std = rng.normal(size=(members, N)), rng.exponential(size=(members, N)) + 0.1
    y = mean.mean(axis=0) + rng.normal(size=N)
    rest = {"y": y, **known(rng, weighted)}
    if kind == "gaussian":
        return cal.Regression.from_gaussian(mean, std, **rest)
    if kind == "samples":
        return cal.Regression.from_samples(mean[0] + std[0] * rng.normal(size=(9, N)), **rest)
    quantiles = mean[0][:, None] + std[0][:, None] * np.array([-2, -1.3, 0, 1.3, 2])
    quantiles[5:9] = quantiles[5:9, ::-1]
    return cal.Regression.from_quantiles(quantiles, LEVELS, **rest)


EXAMPLES = {
    "logits": classification(weighted=True),
    "named-classes": classification(width=3, dtype=np.float64, classes=["x", "y", "z"]),
    "members": classification(members=3, width=60, weighted=True),
    "binary-probs": classification(width=2, kind="probs", dtype=np.float64),
    "judged": cal.Judged.from_confidence(
        np.random.default_rng(0).random((11, N)), np.random.default_rng(1).integers(0, 2, N), name="x"
    ),
    "gaussian": regression("gaussian", weighted=True),
    "mixture": regression("gaussian", members=9),
    "samples": regression("samples"),
    "quantiles": regression("quantiles", weighted=True),
}


def can_be_written(example, suffix):
    return suffix != ".csv" or example.members == 1 or example.task == "regression"


CASES = [(name, suffix) for name, example in EXAMPLES.items() for suffix in SUFFIXES if can_be_written(example, suffix)]


def shards(example, folder, suffix, cuts=(20, 61, N - 1)):
    """The example in four parts, the last of one row, whose paths sort in the order of the rows."""
    folder.mkdir()
    edges = (0, *cuts, N)
    for place in range(len(edges) - 1):
        part = example[edges[place] : edges[place + 1]]
        cal.write(part, f"{folder}/part-{place}{suffix}")
    return folder


def results(evaluation):
    return evaluation.to_json()["results"], [note.code for note in evaluation.warnings]


def evaluated(predictions, **more):
    by = ["site", "age:3"] if "site" in predictions.columns else ()
    return evaluate_with(predictions, resamples=30, by=by, **more)


@pytest.mark.parametrize(("name", "suffix"), CASES)
@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
def test_the_same_digits_from_blocks_as_from_memory(name, suffix, tmp_path):
    """One file and three shards, in blocks of one row, of seven and of the usual size."""
    example = EXAMPLES[name]
    path = cal.write(example, f"{tmp_path}/x{suffix}")
    parts = shards(example, tmp_path / "parts", suffix)
    expected = results(evaluated(cal.read(path)))
    for place in (path, parts):
        for rows in (None, 7) if place is path else (None, 1):
            found = cal.scan(place)
            assert found.n == N
            assert results(evaluated(found.named("x"), block_rows=rows)) == expected
    assert results(evaluated(cal.read(parts).named("x"))) == expected


@pytest.mark.parametrize("name", ["logits", "members", "gaussian"])
def test_units_and_soft_labels_in_blocks(name, tmp_path):
    example = EXAMPLES[name]
    if name == "logits":
        soft = np.random.default_rng(0).dirichlet(np.ones(4), N)
        example = replace(example, label_probs=soft).with_soft_labels()
    parts = shards(example, tmp_path / "parts", ".npz")
    whole = cal.evaluate(cal.read(parts), resamples=30, units="unit")
    assert results(evaluate_with(cal.scan(parts), resamples=30, units="unit", block_rows=9)) == results(whole)
    assert whole.results[0].metrics["nll"].method != "none"


def test_by_labels_and_by_outcome_in_blocks(tmp_path):
    for name, by in (("named-classes", "labels"), ("gaussian", "y:4")):
        path = cal.write(EXAMPLES[name], tmp_path / f"{name}.parquet")
        read = cal.evaluate(cal.read(path), resamples=30, by=by)
        assert results(evaluate_with(cal.scan(path), resamples=30, by=by, block_rows=10)) == results(read)
        assert len(read.results[0].groups) == (3 if by == "labels" else 4)


def test_one_member_of_a_stream(tmp_path):
    path = cal.write(EXAMPLES["members"], tmp_path / "m.npz")
    one = evaluate_with(cal.scan(f"{path}::member=2"), resamples=30, block_rows=11)
    assert results(one) == results(cal.evaluate(cal.read(path).member(2), resamples=30))
    assert one["nll"] == cal.evaluate(EXAMPLES["members"].member(2), resamples=30)["nll"]


def test_a_stream_can_be_read_and_described(tmp_path):
    from calibrant.predictions.describe import describe

    parts = shards(EXAMPLES["mixture"], tmp_path / "parts", ".npz")
    stream = cal.scan(parts)
    assert (stream.read().mean == EXAMPLES["mixture"].mean).all()
    text = describe(stream)
    for said in ("97", "4, from part-0.npz to part-3.npz", "column site", "mixtures of Gaussians", "y "):
        assert said in text
    assert len(stream) == N
    assert "shards=4" in repr(stream)
    assert stream.with_sha256().sha256 == cal.read(parts).sha256


def test_progress_rises_to_the_end(tmp_path):
    told = []
    evaluate_with(
        [cal.scan(shards(EXAMPLES["logits"], tmp_path / "parts", ".npz")), EXAMPLES["gaussian"]],
        resamples=30,
        block_rows=10,
        progress=lambda what, done, total: told.append((what, done, total)),
    )
    done = [share for _, share, _ in told]
    assert done == sorted(done)
    assert done[0] == 0
    assert done[-1] == told[-1][2] == 2
    assert len({share for share in done if share < 1}) > 5


def test_metrics_that_keep_rows_are_left_out_of_large_streams_unless_named(tmp_path, monkeypatch):
    from calibrant.pipeline import select_metrics as choosing

    monkeypatch.setattr(choosing, "MAX_KEPT_ROWS", 50)
    path = cal.write(EXAMPLES["binary-probs"], tmp_path / "b.npz")
    result = cal.evaluate(cal.scan(path), "report", resamples=30).results[0]
    assert "keeps every row" in result.skipped["roc_auc"].text
    assert "keeps every row" in result.skipped["corp_miscalibration"].text
    assert "ece" in result.metrics
    named = evaluate_with(cal.scan(path), ["roc_auc", "ece(binning=mass)"], resamples=30, block_rows=10)
    assert results(named) == results(cal.evaluate(cal.read(path), ["roc_auc", "ece(binning=mass)"], resamples=30))
    assert "roc_auc" in cal.evaluate(cal.read(path), resamples=30).results[0].metrics


def test_many_rows_of_certain_predictions_are_not_kept():
    """The null band of more rows than are redrawn: what is kept is bounded, and the number of misses is Poisson."""
    from calibrant.calibration.consistency import NORMAL_ABOVE, ConsistencyRows

    rng = np.random.default_rng(0)
    rows = ConsistencyRows(15)
    for _ in range(6):
        p = 1 - 2e-6 * rng.random(NORMAL_ABOVE // 4)
        rows.add(p, None, np.full(len(p), 14))
    assert sum(len(item[0]) for item in rows.kept) == 0
    n, mean = rows.n, float(rows.rare_mean.values()[29])
    table = type("Table", (), {"w": np.full(1, float(n))})
    drawn = rows.gaps(table, 4000, 0, None)[:, 14] * n
    assert drawn.mean() == pytest.approx(0, abs=4 * math.sqrt(mean / 4000))
    assert drawn.var() == pytest.approx(mean, rel=0.15)


def test_labels_of_tables_are_read_alike_in_every_shard(tmp_path):
    """Under columns probs_1 … probs_3 a label is a name first: decided for all shards, not for each."""
    folder = tmp_path / "parts"
    folder.mkdir()
    head = "labels,probs_1,probs_2,probs_3\n"
    (folder / "a.csv").write_text(head + "1,.1,.8,.1\n2,.1,.1,.8\n")
    (folder / "b.csv").write_text(head + "0,.8,.1,.1\n")
    for predictions in (cal.read(folder), cal.scan(folder)):
        assert cal.measure(predictions, "accuracy") == {"accuracy": 1.0}
    assert cal.scan(folder).column("labels").tolist() == [1, 2, 0]


def test_class_names_in_a_file_do_not_change_what_its_labels_count(tmp_path):
    """Parquet of this program keeps numbers of classes, also where the classes are called 1, 2 and 3."""
    predictions = cal.Classification.from_probs(np.full((2, 3), 1 / 3), [1, 2], classes=["1", "2", "3"])
    for suffix in (".parquet", ".arrow", ".npz", ".csv", ".jsonl", ".safetensors"):
        path = cal.write(predictions, tmp_path / f"x{suffix}")
        assert cal.read(path).labels.tolist() == [1, 2]
        assert cal.scan(path).column("labels").tolist() == [1, 2]


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".arrow", ".safetensors"])
def test_empty_shards_are_passed_over(suffix, tmp_path):
    folder = shards(EXAMPLES["logits"], tmp_path / "parts", ".npz" if suffix == ".npz" else suffix)
    part = cal.read(folder / f"part-1{suffix}")
    arrays = {"logits": part.scores[0][:0], "labels": part.labels[:0], "weights": part.weights[:0]}
    arrays |= {key: column[:0] for key, column in part.columns.items()}
    for name in ("a-first", "part-1b"):
        if suffix == ".npz":
            np.savez(folder / f"{name}.npz", **arrays)
        else:
            from calibrant.predictions.files import arrow_write, safetensors

            writers = {".parquet": arrow_write.write_parquet, ".arrow": arrow_write.write_arrow}
            with (folder / f"{name}{suffix}").open("wb") as stream:
                writers.get(suffix, safetensors.write_safetensors)(arrays, stream)
    expected = results(evaluated(EXAMPLES["logits"]))
    assert results(evaluated(cal.read(folder).named("x"))) == expected
    assert results(evaluated(cal.scan(folder).named("x"))) == expected


def test_nothing_but_empty_shards(tmp_path):
    np.savez(tmp_path / "x.npz", logits=np.empty((0, 3)), labels=np.empty(0, int))
    for how in (cal.read, cal.scan):
        assert "at least one" in refused(lambda how=how: how(tmp_path / "x.npz"))


def test_draws_in_an_archive_are_unpacked_once(tmp_path, monkeypatch):
    """They lie draw by draw, and blocks want all draws of some rows."""
    import zipfile

    taken = []
    original = zipfile.ZipExtFile.read

    def counted(self, n=-1):
        content = original(self, n)
        taken.append(len(content))
        return content

    draws = np.random.default_rng(0).normal(size=(100, 500))
    path = tmp_path / "x.npz"
    np.savez(path, samples=draws, y=draws[0])
    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    stream = cal.scan(path)
    assert sum(block.n for block in stream.blocks(7)) == 500
    assert sum(taken) < 3 * draws.nbytes


def test_the_limit_of_memory_is_that_of_all_shards(tmp_path, monkeypatch):
    folder = shards(EXAMPLES["logits"], tmp_path / "parts", ".npz")
    monkeypatch.setenv("CALIBRANT_MAX_BYTES", "4000")
    assert "scan" in refused(lambda: cal.read(folder))
    assert cal.scan(folder).n == N


def test_the_first_of_two_bad_blocks_is_told(tmp_path):
    z = np.zeros((400, 3))
    z[[150, 250, 350], 1] = np.nan
    np.savez(tmp_path / "z.npz", logits=z, labels=np.zeros(400, int))
    for _ in range(5):
        said = refused(lambda: evaluate_with(cal.scan(tmp_path / "z.npz"), resamples=30, block_rows=5, threads=4))
        assert "row 150, class 1" in said


def test_a_stream_can_be_copied_and_used_by_two_at_once(tmp_path):
    import pickle
    from concurrent.futures import ThreadPoolExecutor

    stream = cal.scan(cal.write(EXAMPLES["logits"], tmp_path / "x.npz"))
    other = pickle.loads(pickle.dumps(stream))  # noqa: S301
    with ThreadPoolExecutor(2) as pool:
        a, b = pool.map(lambda s: results(evaluate_with(s, resamples=30, block_rows=9)), (stream, stream))
    assert a == b == results(cal.evaluate(other, resamples=30))


@pytest.mark.parametrize("rows", [0, -3])
def test_blocks_of_no_rows_are_refused(rows, tmp_path):
    stream = cal.scan(cal.write(EXAMPLES["logits"], tmp_path / "x.npz"))
    for predictions in (stream, EXAMPLES["logits"]):
        assert "at least 1" in refused(lambda p=predictions: list(p.blocks(rows)))
        assert "at least 1" in refused(lambda p=predictions: evaluate_with(p, block_rows=rows))


# ------------------------------------------------------------------------------------------ failing
def break_shard(folder, name="part-1.npz"):
    path = folder / name
    path.write_bytes(path.read_bytes()[:200])
    return path


def refused(call):
    with pytest.raises(cal.CalibrantError) as raised:
        call()
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    "how", [cal.read, lambda path: cal.evaluate(cal.scan(path), resamples=30)], ids=["read", "scan"]
)
class TestShardsThatDoNotFit:
    """Whatever is wrong with one shard, its name is said."""

    def test_corrupt(self, how, tmp_path):
        folder = shards(EXAMPLES["logits"], tmp_path / "parts", ".npz")
        break_shard(folder)
        assert "part-1.npz" in refused(lambda: how(folder))

    def test_ragged(self, how, tmp_path):
        folder = shards(EXAMPLES["logits"], tmp_path / "parts", ".npz")
        cal.write(classification(width=5, weighted=True), folder / "part-4.npz")
        said = refused(lambda: how(folder))
        assert "part-4.npz" in said
        assert "(5,)" in said

    def test_a_missing_column(self, how, tmp_path):
        folder = shards(EXAMPLES["logits"], tmp_path / "parts", ".npz")
        part = cal.read(folder / "part-1.npz")
        cal.write(replace(part, info=replace(part.info, columns={})), folder / "part-1.npz")
        said = refused(lambda: how(folder))
        assert "part-1.npz" in said
        assert "missing" in said

    def test_another_kind(self, how, tmp_path):
        folder = shards(EXAMPLES["logits"], tmp_path / "parts", ".npz")
        cal.write(EXAMPLES["gaussian"], folder / "part-1.npz")
        said = refused(lambda: how(folder))
        assert "part-1.npz" in said
        assert "logits" in said

    def test_other_classes(self, how, tmp_path):
        folder = shards(EXAMPLES["named-classes"], tmp_path / "parts", ".npz")
        part = replace(cal.read(folder / "part-2.npz"), class_names=("x", "z", "y"))
        cal.write(part, folder / "part-2.npz")
        said = refused(lambda: how(folder))
        assert "part-2.npz" in said
        assert "classes" in said

    def test_another_precision(self, how, tmp_path):
        folder = shards(EXAMPLES["logits"], tmp_path / "parts", ".npz")
        part = cal.read(folder / "part-2.npz")
        cal.write(replace(part, scores=part.scores.astype(np.float64)), folder / "part-2.npz")
        said = refused(lambda: how(folder))
        assert "part-2.npz" in said
        assert "float64" in said

    def test_a_bad_value(self, how, tmp_path):
        folder = shards(EXAMPLES["gaussian"], tmp_path / "parts", ".npz")
        part = cal.read(folder / "part-1.npz")
        std = part.std.copy()
        std[0, 3] = 0.0
        np.savez(folder / "part-1.npz", y=part.y, mean=part.mean[0], std=std[0], **part.columns, weights=part.weights)
        said = refused(lambda: how(folder))
        assert "std" in said
        assert "0.0" in said

    def test_formats_mixed(self, how, tmp_path):
        folder = shards(EXAMPLES["logits"], tmp_path / "parts", ".npz")
        cal.write(EXAMPLES["logits"], folder / "part-4.parquet")
        said = refused(lambda: how(folder))
        assert "one format" in said

    def test_nothing_there(self, how, tmp_path):
        (tmp_path / "empty").mkdir()
        assert "a folder without any" in refused(lambda: how(tmp_path / "empty"))
        assert "matching files, got none" in refused(lambda: how(tmp_path / "part-*.npz"))


def test_a_bad_score_in_a_later_block_is_placed(tmp_path):
    z = np.zeros((50, 3))
    z[37, 1] = np.nan
    path = tmp_path / "z.npz"
    np.savez(path, logits=z, labels=np.zeros(50, int))
    said = refused(lambda: evaluate_with(cal.scan(path), resamples=30, block_rows=10))
    assert "z.npz: logits" in said
    assert "row 37, class 1" in said


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    path = cal.write(EXAMPLES["logits"], tmp_path / "x.npz")
    stream = cal.scan(path)
    cal.write(EXAMPLES["logits"][:50], path)
    assert "has changed" in refused(lambda: cal.evaluate(stream, resamples=30))


def test_reading_ahead_ends_when_the_reader_stops(tmp_path):
    import threading

    stream = cal.scan(cal.write(EXAMPLES["logits"], tmp_path / "x.npz"))
    for _ in range(3):
        blocks = stream.blocks(1)
        next(blocks)
        blocks.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "calibrant-reading"]


def test_patterns_take_shards_in_the_order_of_their_paths(tmp_path):
    folder = shards(EXAMPLES["logits"], tmp_path / "parts", ".npz")
    (folder / "_SUCCESS").touch()
    (folder / ".part-9.npz").write_bytes(b"hidden")
    read = cal.read(f"{folder}/part-*.npz")
    assert (read.scores == EXAMPLES["logits"].scores).all()
    assert read.name == "part"
    assert cal.read(folder).name == "parts"


def test_a_folder_of_folders_of_arrays_is_shards(tmp_path):
    folder = shards(EXAMPLES["logits"], tmp_path / "parts", "/")
    assert (cal.read(folder).scores == EXAMPLES["logits"].scores).all()


# ------------------------------------------------------------------------------------------- memory
MEASURE = """
import json, sys
import calibrant as cal
from calibrant.predictions.files import stream
stream.BLOCK_BYTES = 1 << 20
METRICS = "accuracy,nll,brier,ece,entropy,margin,brier_reliability"
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
cal.evaluate(cal.scan(sys.argv[1]), METRICS, resamples=20)
before = peak()
cal.evaluate(cal.scan(sys.argv[2]), METRICS, resamples=20)
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("suffix", ["/", ".npz", ".safetensors"])
def test_memory_does_not_grow_with_the_input(suffix, tmp_path):
    """Twenty times the rows take less than half of what they add. (Parquet keeps a row group at a time.)"""
    rng = np.random.default_rng(0)
    z = np.tile(rng.standard_normal((10_000, 50), np.float32), (40, 1))
    paths = []
    for n in (20_000, 400_000):
        arrays = {"logits": z[:n], "labels": np.arange(n) % 50}
        paths.append(f"{tmp_path}/{n}{suffix}")
        if suffix == ".npz":
            np.savez(paths[-1], **arrays)
        else:
            cal.write(cal.Classification.from_logits(arrays["logits"], arrays["labels"]), paths[-1])
    done = subprocess.run([sys.executable, "-c", MEASURE, *paths], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < z.nbytes / 2
