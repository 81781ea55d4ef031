"""Parquet and Arrow IPC: columns of any maker as arrays, in bounded memory, back to the bit; damage is refused."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant.errors import UsageError
from calibrant.predictions.files.arrow import open_arrow, open_parquet

RNG = np.random.default_rng(13)
N, C, M = 23, 4, 3
DTYPES = ("bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
FORMS = ("parquet", "arrow")
quickly = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def with_nan(shape, kind="f4"):
    array = RNG.normal(size=shape).astype(kind)
    array.ravel()[::7] = np.nan
    return array


SOUND = {
    "logits": with_nan((M, N, C)),
    "labels": RNG.integers(0, C, N),
    "label_probs": RNG.random((N, C)),
    "ids": np.array([f"r{k} ü 猫" for k in range(N - 1)] + [""]),
    "weights": RNG.random(N).astype("f2"),
    "right": RNG.random(N) < 0.5,
    "age": with_nan(N, "f8"),
    "classes": np.array(["a", "b", "é", ""]),
    "member_names": np.array(["x", "yy", "z"]),
    "levels": np.array([0.1, 1 / 3, 0.9]),
    "meta": np.array('{"method": "é"}'),
}


# --------------------------------------------------------------------------------------- there and back
@pytest.mark.parametrize("form", FORMS)
def test_everything_comes_back(form, files):
    store = files.back(SOUND, form)
    assert store.keys() == SOUND.keys()
    for name, entry in store.items():
        array = entry.load()
        same(array, SOUND[name])
        assert entry.shape == SOUND[name].shape
        assert array.flags.c_contiguous
        assert array.flags.writeable
        if array.dtype.kind != "U":
            assert entry.nbytes == SOUND[name].nbytes


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", DTYPES)
def test_every_type_in_every_shape(form, kind, files):
    arrays = {
        "column": (RNG.normal(size=N) * 9).astype(kind),
        "probs": (RNG.normal(size=(M, N, C)) * 9).astype(kind),
        "label_probs": (RNG.normal(size=(N, C)) * 9).astype(kind),
        "mean": (RNG.normal(size=(M, N)) * 9).astype(kind),
        "samples": (RNG.normal(size=(1, N)) * 9).astype(kind),
    }
    store = files.back(arrays, form)
    for name, array in arrays.items():
        same(store[name].load(), array)


@pytest.mark.parametrize("form", FORMS)
def test_any_column(form, files):
    shapes = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 4))

    @quickly
    @given(
        array=st.sampled_from(DTYPES).flatmap(lambda kind: hnp.arrays(kind, shapes)),
        texts=st.lists(st.text(max_size=5).map(lambda text: text.rstrip("\0")), min_size=4, max_size=4),
        rows=st.integers(1, 6),
    )
    def check(array, texts, rows):
        ids = np.array((texts * 2)[: array.shape[1]])
        store = files.back({"logits": array, "mean": array[:, :, 0], "ids": ids}, form)
        same(store["logits"].load(), array)
        same(np.concatenate(list(store["logits"].blocks(1, rows)), axis=1), array)
        same(np.concatenate(list(store["mean"].blocks(1, rows)), axis=1), np.ascontiguousarray(array[:, :, 0]))
        assert store["ids"].load().tolist() == ids.tolist()

    check()


@pytest.mark.parametrize("form", FORMS)
def test_other_orders_of_bytes_and_axes(form, files):
    arrays = {
        "big": np.arange(6, dtype=">i4"),
        "logits": np.asfortranarray(RNG.normal(size=(2, 6, 3))),
        "cut": np.arange(60.0)[::10],
        "text": np.array(["a", "bb"] * 3, ">U2"),
    }
    store = files.back(arrays, form)
    for name, array in arrays.items():
        assert np.array_equal(store[name].load(), array)


@pytest.mark.parametrize("form", FORMS)
def test_many_groups_of_rows(form, files, monkeypatch):
    monkeypatch.setattr("calibrant.predictions.files.arrow_write.GROUP_BYTES", 300)
    store = files.back(SOUND, form)
    for name in ("logits", "labels", "ids", "age"):
        same(store[name].load(), SOUND[name])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "odd", [np.ones(3, np.longdouble), np.ones(3, complex), np.ones(4), np.array(1.0), np.ones((3, 0))]
)
def test_what_cannot_be_written(form, odd, files):
    with pytest.raises(UsageError, match="'odd'"):
        files.written({"labels": np.ones(3), "odd": odd}, form)


# ----------------------------------------------------------------------------------------------- blocks
@pytest.mark.parametrize("form", [*FORMS, "stream"])
@pytest.mark.parametrize("group", [5, 8, 100])
@pytest.mark.parametrize("packed", [False, True])
def test_blocks_are_the_array(form, group, packed, files):
    inside = np.moveaxis(SOUND["logits"], 0, 1)
    table = pa.table(
        {
            "logits": files.fixed(inside, M, C),
            "lists": pa.array(inside[:, 0].tolist()),
            "confidence": pa.array(inside[:, :, 0].tolist()),
            "probs": pa.array(inside.tolist()),
            "labels": SOUND["labels"],
            "ids": SOUND["ids"],
            "right": SOUND["right"],
        }
    )
    plain = "NONE" if form == "parquet" else None
    content = files.table_bytes(table, form, row_group_size=group, compression="zstd" if packed else plain)
    store = files.opened(content, form)
    expected = {
        "logits": (1, SOUND["logits"]),
        "lists": (0, SOUND["logits"][0].astype("f8")),
        "confidence": (1, np.ascontiguousarray(SOUND["logits"][:, :, 0]).astype("f8")),
        "probs": (1, SOUND["logits"].astype("f8")),
        "labels": (0, SOUND["labels"]),
        "ids": (0, SOUND["ids"]),
        "right": (0, SOUND["right"]),
    }
    for name, (axis, array) in expected.items():
        same(store[name].load(), array)
        for rows in (1, 4, 5, 7, 16, N - 1, N, N + 1, 10_000):
            blocks = list(store[name].blocks(axis, rows))
            assert {block.shape[axis] for block in blocks[:-1]} <= {rows}
            assert all(block.flags.writeable and block.flags.c_contiguous for block in blocks)
            same(np.concatenate(blocks, axis=axis), array)


def test_blocks_along_another_axis(files):
    store = files.back(SOUND, "parquet")
    for axis in range(3):
        same(np.concatenate(list(store["logits"].blocks(axis, 2)), axis=axis), SOUND["logits"])


def test_blocks_can_be_left_and_interleaved(files):
    store = files.back(SOUND, "parquet")
    next(store["logits"].blocks(1, 2))
    pairs = zip(store["logits"].blocks(1, 5), store["labels"].blocks(0, 5), store["age"].blocks(0, 5), strict=True)
    scores, labels, age = zip(*pairs, strict=True)
    same(np.concatenate(scores, axis=1), SOUND["logits"])
    same(np.concatenate(labels), SOUND["labels"])
    same(np.concatenate(age), SOUND["age"])


@pytest.mark.parametrize("form", [*FORMS, "stream"])
def test_memory_is_bounded(form, files):
    """One group of rows, or one batch, of 40 MB; the blocks have 400 kB."""
    scores = RNG.random((100_000, 100), np.float32)
    store = files.of(pa.table({"probs": files.fixed(scores, 100), "b": scores[:, 0]}), form)
    before, total = pa.total_allocated_bytes(), 0
    for start, block in enumerate(store["probs"].blocks(0, 1000)):
        assert pa.total_allocated_bytes() - before < 10 << 20
        total += len(block)
        if start % 17 == 0:
            same(block, scores[start * 1000 : (start + 1) * 1000])
    assert total == len(scores)


# -------------------------------------------------------------------------------------------- strangers
def frame():
    return pd.DataFrame(
        {
            "logits": list(RNG.normal(size=(N, C))),
            "labels": pd.Categorical(np.array(["cat", "dog"])[RNG.integers(0, 2, N)]),
            "number": pd.Categorical(RNG.integers(5, 7, N)),
            "score": RNG.random(N).astype("f4"),
            "text": [f"é{k}" for k in range(N)],
            "right": RNG.random(N) < 0.5,
            "day": pd.Timestamp("2020-01-01"),
        }
    )


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_data_frame(form, files):
    made = frame()
    path = files.folder / f"p.{form}"
    made.to_parquet(path) if form == "parquet" else made.to_feather(path)
    store = (open_parquet if form == "parquet" else open_arrow)(path)
    same(store["logits"].load(), np.stack(made["logits"].to_list()))
    assert store["labels"].load().tolist() == made["labels"].tolist()
    assert store["number"].load().tolist() == made["number"].tolist()
    same(store["score"].load(), made["score"].to_numpy())
    assert store["text"].load().tolist() == made["text"].tolist()
    same(store["right"].load(), made["right"].to_numpy())
    assert store["day"].shape == ()
    files.refused(store["day"].load, "'day'", "timestamp", str(path))
    files.refused(lambda: store["day"].blocks(0, 3), "'day'")


KINDS_OF_LISTS = {
    "fixed": pa.list_(pa.float64(), C),
    "variable": pa.list_(pa.float64()),
    "large": pa.large_list(pa.float64()),
}


@pytest.mark.parametrize("form", [*FORMS, "stream"])
@pytest.mark.parametrize("outer", KINDS_OF_LISTS)
@pytest.mark.parametrize("cut", [False, True])
def test_kinds_of_lists(form, outer, cut, files):
    values = RNG.normal(size=(N, C, 2))
    flat = pa.array(values[:, :, 0].tolist(), KINDS_OF_LISTS[outer])
    inner = pa.large_list(pa.float64()) if outer == "large" else pa.list_(pa.float64())
    nested = pa.array(values.tolist(), pa.list_(inner, C) if outer == "fixed" else pa.list_(inner))
    table = pa.table({"logits": flat, "probs": nested, "samples": flat, "other": nested})
    first = 5 if cut else 0
    store = files.of(table.slice(first), form)
    same(store["logits"].load(), np.ascontiguousarray(values[first:, :, 0]))
    same(store["samples"].load(), np.ascontiguousarray(values[first:, :, 0].T))
    for name in ("probs", "other"):
        assert store[name].shape == (C, N - first, 2)
        same(store[name].load(), np.ascontiguousarray(np.moveaxis(values[first:], 1, 0)))


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "lz4"},
        {"compression": "zstd"},
        {"use_legacy_format": True, "metadata_version": pa.ipc.MetadataVersion.V4},
    ],
)
@pytest.mark.parametrize("form", ["arrow", "stream"])
def test_kinds_of_ipc(form, options, files):
    columns = {"ids": SOUND["ids"], "logits": files.fixed(SOUND["logits"][0], C), "labels": SOUND["labels"]}
    table = pa.table(columns | {"site": pa.array(["a", "b"] * 11 + ["a"]).dictionary_encode()})
    store = files.of(table, form, row_group_size=9, **options)
    same(store["logits"].load(), SOUND["logits"][0])
    same(store["labels"].load(), SOUND["labels"])
    same(store["ids"].load(), SOUND["ids"])
    assert store["site"].load().tolist() == table["site"].to_pylist()


def test_columns_behind_every_kind_of_column(files):
    """Where a column lies in an IPC file depends on all that come before it."""
    before = [
        pa.array(["x"] * N),
        pa.array(["x"] * N, pa.large_string()),
        pa.array(["x"] * N).dictionary_encode(),
        pa.array([b"x"] * N),
        pa.array([b"xy"] * N, pa.binary(2)),
        pa.array([True] * N),
        pa.array([[1, 2]] * N),
        pa.array([[[1], [2, 3]]] * N, pa.large_list(pa.list_(pa.int8()))),
        files.fixed(np.zeros((N, 6)), 3, 2),
        pa.array([1] * N, pa.timestamp("us")),
        pa.array([1] * N, pa.decimal128(5)),
        pa.array([{"a": 1}] * N),
        pa.array([[("a", 1)]] * N, pa.map_(pa.string(), pa.int8())),
        pa.nulls(N),
        pa.array(["x"] * N, pa.string_view()),
    ]
    for count in range(len(before) + 1):
        columns = {f"c{k}": array for k, array in enumerate(before[:count])}
        table = pa.table(columns | {"logits": files.fixed(SOUND["logits"][0], C), "labels": SOUND["labels"]})
        store = files.of(table, "arrow", row_group_size=9)
        same(store["logits"].load(), SOUND["logits"][0])
        same(store["labels"].load(), SOUND["labels"])


@pytest.mark.parametrize("form", FORMS)
def test_types_that_are_no_arrays(form, files):
    odd = {
        "struct": pa.array([{"a": 1}] * 3),
        "decimal": pa.array([1] * 3, pa.decimal128(5)),
        "bytes": pa.array([b"a"] * 3),
        "texts": pa.array([["a"]] * 3),
        "deep": pa.array([[[[1]]]] * 3),
        "map": pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int8())),
        "null": pa.nulls(3),
        "words": pa.array([["a"]] * 3, pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    }
    store = files.of(pa.table(odd | {"labels": [1, 2, 3]}), form)
    for name in odd:
        assert store[name].shape == ()
        assert store[name].nbytes == 0
        files.refused(store[name].load, f"'{name}'", "got type")
    assert store["labels"].load().tolist() == [1, 2, 3]


@pytest.mark.parametrize("form", FORMS)
def test_names_with_dots(form, files):
    table = pa.table({"a": [1, 2], "a.b": ["x", "y"], "a.b.c": [[1.0], [2.0]], "": [3, 4]})
    store = files.of(table, form)
    assert {name: entry.load().tolist() for name, entry in store.items()} == table.to_pydict()


def test_a_renamed_column_knows_its_axes(files):
    table = pa.table({"conf_test": [[0.1, 0.2]] * 3, "z": [[0.1, 0.2]] * 3})
    store = files.opened(files.table_bytes(table, "parquet"), "parquet", {"confidence": "conf_test", "logits": "z"})
    assert (store["conf_test"].shape, store["z"].shape) == ((2, 3), (3, 2))


def test_repeated_text_of_different_lengths(files):
    texts = ["a"] * 70_000 + ["long text"] * 70_000
    store = files.of(pa.table({"site": texts}), "parquet")
    assert store["site"].load().tolist() == texts
    assert [block[0] for block in store["site"].blocks(0, 35_000)] == ["a", "a", "long text", "long text"]
