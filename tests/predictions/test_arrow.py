"""Parquet and Arrow IPC: columns of any maker as arrays, in bounded memory, back to the bit; damage is refused."""

import io
import json
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant.errors import CalibrantError, FileError, MissingExtra, UsageError
from calibrant.predictions.files.arrow import arrow_store, parquet_store, write_arrow, write_parquet

RNG = np.random.default_rng(13)
N, C, M = 23, 4, 3
DTYPES = ("bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
FORMS = ("parquet", "arrow")
quickly = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def written(arrays, form):
    stream = io.BytesIO()
    (write_parquet if form == "parquet" else write_arrow)(arrays, stream)
    assert not stream.closed
    return stream.getvalue()


def table_bytes(table, form, **options):
    """As others write it: a Parquet file, an IPC file or a stream."""
    sink = io.BytesIO()
    if form == "parquet":
        pq.write_table(table, sink, **options)
        return sink.getvalue()
    rows = options.pop("row_group_size", None)
    new = pa.ipc.new_file if form == "arrow" else pa.ipc.new_stream
    with new(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def opened(folder, content, form, rename=None):
    path = folder / f"p.{'parquet' if form == 'parquet' else 'arrow'}"
    path.write_bytes(content)
    return (parquet_store if form == "parquet" else arrow_store)(path, rename)


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def refused(act, *words):
    with pytest.raises(FileError) as caught:
        act()
    for word in words:
        assert word in str(caught.value), caught.value


def fixed(values, *sizes):
    array = pa.array(np.asarray(values).ravel())
    for size in sizes[::-1]:
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return array


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
def test_everything_comes_back(form, tmp_path):
    store = opened(tmp_path, written(SOUND, form), form)
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
def test_every_type_in_every_shape(form, kind, tmp_path):
    arrays = {
        "column": (RNG.normal(size=N) * 9).astype(kind),
        "probs": (RNG.normal(size=(M, N, C)) * 9).astype(kind),
        "label_probs": (RNG.normal(size=(N, C)) * 9).astype(kind),
        "mean": (RNG.normal(size=(M, N)) * 9).astype(kind),
        "samples": (RNG.normal(size=(1, N)) * 9).astype(kind),
    }
    store = opened(tmp_path, written(arrays, form), form)
    for name, array in arrays.items():
        same(store[name].load(), array)


@pytest.mark.parametrize("form", FORMS)
def test_any_column(form, tmp_path):
    shapes = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 4))

    @quickly
    @given(
        array=st.sampled_from(DTYPES).flatmap(lambda kind: hnp.arrays(kind, shapes)),
        texts=st.lists(st.text(max_size=5).map(lambda text: text.rstrip("\0")), min_size=4, max_size=4),
        rows=st.integers(1, 6),
    )
    def check(array, texts, rows):
        ids = np.array((texts * 2)[: array.shape[1]])
        store = opened(tmp_path, written({"logits": array, "mean": array[:, :, 0], "ids": ids}, form), form)
        same(store["logits"].load(), array)
        same(np.concatenate(list(store["logits"].blocks(1, rows)), axis=1), array)
        same(np.concatenate(list(store["mean"].blocks(1, rows)), axis=1), np.ascontiguousarray(array[:, :, 0]))
        assert store["ids"].load().tolist() == ids.tolist()

    check()


@pytest.mark.parametrize("form", FORMS)
def test_other_orders_of_bytes_and_axes(form, tmp_path):
    arrays = {
        "big": np.arange(6, dtype=">i4"),
        "logits": np.asfortranarray(RNG.normal(size=(2, 6, 3))),
        "cut": np.arange(60.0)[::10],
        "text": np.array(["a", "bb"] * 3, ">U2"),
    }
    store = opened(tmp_path, written(arrays, form), form)
    for name, array in arrays.items():
        assert np.array_equal(store[name].load(), array)


@pytest.mark.parametrize("form", FORMS)
def test_many_groups_of_rows(form, tmp_path, monkeypatch):
    monkeypatch.setattr("calibrant.predictions.files.arrow_writing.GROUP_BYTES", 300)
    store = opened(tmp_path, written(SOUND, form), form)
    for name in ("logits", "labels", "ids", "age"):
        same(store[name].load(), SOUND[name])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "odd", [np.ones(3, np.longdouble), np.ones(3, complex), np.ones(4), np.array(1.0), np.ones((3, 0))]
)
def test_what_cannot_be_written(form, odd):
    with pytest.raises(UsageError, match="'odd'"):
        written({"labels": np.ones(3), "odd": odd}, form)


# ----------------------------------------------------------------------------------------------- blocks
@pytest.mark.parametrize("form", [*FORMS, "stream"])
@pytest.mark.parametrize("group", [5, 8, 100])
@pytest.mark.parametrize("packed", [False, True])
def test_blocks_are_the_array(form, group, packed, tmp_path):
    inside = np.moveaxis(SOUND["logits"], 0, 1)
    table = pa.table(
        {
            "logits": fixed(inside, M, C),
            "lists": pa.array(inside[:, 0].tolist()),
            "confidence": pa.array(inside[:, :, 0].tolist()),
            "probs": pa.array(inside.tolist()),
            "labels": SOUND["labels"],
            "ids": SOUND["ids"],
            "right": SOUND["right"],
        }
    )
    plain = "NONE" if form == "parquet" else None
    content = table_bytes(table, form, row_group_size=group, compression="zstd" if packed else plain)
    store = opened(tmp_path, content, form)
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


def test_blocks_along_another_axis(tmp_path):
    store = opened(tmp_path, written(SOUND, "parquet"), "parquet")
    for axis in range(3):
        same(np.concatenate(list(store["logits"].blocks(axis, 2)), axis=axis), SOUND["logits"])


def test_blocks_can_be_left_and_interleaved(tmp_path):
    store = opened(tmp_path, written(SOUND, "parquet"), "parquet")
    next(store["logits"].blocks(1, 2))
    pairs = zip(store["logits"].blocks(1, 5), store["labels"].blocks(0, 5), store["age"].blocks(0, 5), strict=True)
    scores, labels, age = zip(*pairs, strict=True)
    same(np.concatenate(scores, axis=1), SOUND["logits"])
    same(np.concatenate(labels), SOUND["labels"])
    same(np.concatenate(age), SOUND["age"])


@pytest.mark.parametrize("form", [*FORMS, "stream"])
def test_memory_is_bounded(form, tmp_path):
    """One group of rows, or one batch, of 40 MB; the blocks have 400 kB."""
    scores = RNG.random((100_000, 100), np.float32)
    store = opened(tmp_path, table_bytes(pa.table({"probs": fixed(scores, 100), "b": scores[:, 0]}), form), form)
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
def test_a_data_frame(form, tmp_path):
    made = frame()
    path = tmp_path / f"p.{form}"
    made.to_parquet(path) if form == "parquet" else made.to_feather(path)
    store = (parquet_store if form == "parquet" else arrow_store)(path)
    same(store["logits"].load(), np.stack(made["logits"].to_list()))
    assert store["labels"].load().tolist() == made["labels"].tolist()
    assert store["number"].load().tolist() == made["number"].tolist()
    same(store["score"].load(), made["score"].to_numpy())
    assert store["text"].load().tolist() == made["text"].tolist()
    same(store["right"].load(), made["right"].to_numpy())
    assert store["day"].shape == ()
    refused(store["day"].load, "'day'", "timestamp", str(path))
    refused(lambda: store["day"].blocks(0, 3), "'day'")


KINDS_OF_LISTS = {
    "fixed": pa.list_(pa.float64(), C),
    "variable": pa.list_(pa.float64()),
    "large": pa.large_list(pa.float64()),
}


@pytest.mark.parametrize("form", [*FORMS, "stream"])
@pytest.mark.parametrize("outer", KINDS_OF_LISTS)
@pytest.mark.parametrize("cut", [False, True])
def test_kinds_of_lists(form, outer, cut, tmp_path):
    values = RNG.normal(size=(N, C, 2))
    flat = pa.array(values[:, :, 0].tolist(), KINDS_OF_LISTS[outer])
    inner = pa.large_list(pa.float64()) if outer == "large" else pa.list_(pa.float64())
    nested = pa.array(values.tolist(), pa.list_(inner, C) if outer == "fixed" else pa.list_(inner))
    table = pa.table({"logits": flat, "probs": nested, "samples": flat, "other": nested})
    first = 5 if cut else 0
    store = opened(tmp_path, table_bytes(table.slice(first), form), form)
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
def test_kinds_of_ipc(form, options, tmp_path):
    columns = {"ids": SOUND["ids"], "logits": fixed(SOUND["logits"][0], C), "labels": SOUND["labels"]}
    table = pa.table(columns | {"site": pa.array(["a", "b"] * 11 + ["a"]).dictionary_encode()})
    store = opened(tmp_path, table_bytes(table, form, row_group_size=9, **options), form)
    same(store["logits"].load(), SOUND["logits"][0])
    same(store["labels"].load(), SOUND["labels"])
    same(store["ids"].load(), SOUND["ids"])
    assert store["site"].load().tolist() == table["site"].to_pylist()


def test_columns_behind_every_kind_of_column(tmp_path):
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
        fixed(np.zeros((N, 6)), 3, 2),
        pa.array([1] * N, pa.timestamp("us")),
        pa.array([1] * N, pa.decimal128(5)),
        pa.array([{"a": 1}] * N),
        pa.array([[("a", 1)]] * N, pa.map_(pa.string(), pa.int8())),
        pa.nulls(N),
        pa.array(["x"] * N, pa.string_view()),
    ]
    for count in range(len(before) + 1):
        columns = {f"c{k}": array for k, array in enumerate(before[:count])}
        table = pa.table(columns | {"logits": fixed(SOUND["logits"][0], C), "labels": SOUND["labels"]})
        store = opened(tmp_path, table_bytes(table, "arrow", row_group_size=9), "arrow")
        same(store["logits"].load(), SOUND["logits"][0])
        same(store["labels"].load(), SOUND["labels"])


@pytest.mark.parametrize("form", FORMS)
def test_types_that_are_no_arrays(form, tmp_path):
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
    store = opened(tmp_path, table_bytes(pa.table(odd | {"labels": [1, 2, 3]}), form), form)
    for name in odd:
        assert store[name].shape == ()
        assert store[name].nbytes == 0
        refused(store[name].load, f"'{name}'", "its type is")
    assert store["labels"].load().tolist() == [1, 2, 3]


@pytest.mark.parametrize("form", FORMS)
def test_names_with_dots(form, tmp_path):
    table = pa.table({"a": [1, 2], "a.b": ["x", "y"], "a.b.c": [[1.0], [2.0]], "": [3, 4]})
    store = opened(tmp_path, table_bytes(table, form), form)
    assert {name: entry.load().tolist() for name, entry in store.items()} == table.to_pydict()


def test_a_renamed_column_knows_its_axes(tmp_path):
    table = pa.table({"conf_test": [[0.1, 0.2]] * 3, "z": [[0.1, 0.2]] * 3})
    store = opened(tmp_path, table_bytes(table, "parquet"), "parquet", {"confidence": "conf_test", "logits": "z"})
    assert (store["conf_test"].shape, store["z"].shape) == ((2, 3), (3, 2))


def test_repeated_text_of_different_lengths(tmp_path):
    texts = ["a"] * 70_000 + ["long text"] * 70_000
    store = opened(tmp_path, table_bytes(pa.table({"site": texts}), "parquet"), "parquet")
    assert store["site"].load().tolist() == texts
    assert [block[0] for block in store["site"].blocks(0, 35_000)] == ["a", "a", "long text", "long text"]


# -------------------------------------------------------------------------------- nulls, ragged, empty
@pytest.mark.parametrize("form", [*FORMS, "stream"])
@pytest.mark.parametrize(
    ("column", "row"),
    [
        (pa.array([1.0, 2.0, None]), 2),
        (pa.array(["a", None, "b"]), 1),
        (pa.array([None, True, False]), 0),
        (pa.array(["a", None, "b"]).dictionary_encode(), 1),
        (pa.array([[1, 2], None, [3, 4]]), 1),
        (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)), 1),
        (pa.array([[1, 2], [3, 4], [None, 4]]), 2),
        (pa.array([[1, 2], [3, 4], [5, None]], pa.list_(pa.int64(), 2)), 2),
        (pa.array([[[1], [2]], [[1], None], [[2], [3]]]), 1),
        (pa.array([[[1], [2]], [[1], [2]], [[2], [None]]]), 2),
        (pa.array([None, [1, 2], [3, 4]]), 0),
        (pa.array([[None, [1]], [[1], [2]], [[1], [2]]]), 0),
    ],
)
def test_nulls_are_refused(form, column, row, tmp_path):
    table = pa.table({"odd": pa.chunked_array([column.slice(0, 0), column]), "labels": [1, 2, 3]})
    for group in (1, 2, 3):
        store = opened(tmp_path, table_bytes(table, form, row_group_size=group), form)
        refused(store["odd"].load, "'odd'", f"row {row} is null", "p.")
        refused(lambda store=store: list(store["odd"].blocks(0, 2)), f"row {row} is null")
        assert store["labels"].load().tolist() == [1, 2, 3]


def test_a_null_in_a_dictionary(tmp_path):
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    store = opened(tmp_path, table_bytes(pa.table({"odd": coded}), "arrow"), "arrow")
    refused(store["odd"].load, "row 1 is null")


@pytest.mark.parametrize("form", [*FORMS, "stream"])
@pytest.mark.parametrize(
    ("rows", "row"),
    [
        ([[1, 2], [1, 2], [1]], 2),
        ([[1, 2], [1, 2, 3], [1]], 1),
        ([[], [1], []], 1),
        ([[[1], [2]], [[1], [2, 3]], [[1], [2]]], 1),
        ([[[1], [2]], [[1], [2]], [[1]]], 2),
    ],
)
def test_ragged_lists_are_refused(form, rows, row, tmp_path):
    for group in (1, 2, 3):
        store = opened(tmp_path, table_bytes(pa.table({"odd": rows}), form, row_group_size=group), form)
        refused(store["odd"].load, "'odd'", f"ragged: row {row}", "p.")


@pytest.mark.parametrize("form", [*FORMS, "stream"])
def test_no_rows(form, tmp_path):
    columns = {"a": pa.array([], pa.float32()), "b": fixed([], 3), "c": pa.array([], pa.list_(pa.int8()))}
    store = opened(tmp_path, table_bytes(pa.table(columns | {"d": pa.array([], pa.string())}), form), form)
    for entry in store.values():
        assert entry.shape == entry.load().shape == (0,)
        assert list(entry.blocks(0, 5)) == []
    assert opened(tmp_path, written({"labels": np.ones(0)}, "parquet"), "parquet")["labels"].load().shape == (0,)


@pytest.mark.parametrize("form", [*FORMS, "stream"])
def test_one_row(form, tmp_path):
    store = opened(tmp_path, table_bytes(pa.table({"a": [1.5], "logits": [[1, 2]], "probs": [[[1], [2]]]}), form), form)
    assert store["a"].load().tolist() == [1.5]
    assert store["logits"].load().tolist() == [[1, 2]]
    assert store["probs"].load().tolist() == [[[1]], [[2]]]


# -------------------------------------------------------------------------------------------- constants
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text",
    [b"{", b"\xff", b"3", b"[" * 100_000, b'{"classes": 3}', b'{"classes": [1]}', b'{"levels": ["a"]}',
     b'{"levels": [true]}', b'{"meta": ["a"]}', b'{"member_names": {"a": 1}}', b'{"classes": ["a"]}'],
)  # fmt: skip
def test_constants_that_are_none(form, text, tmp_path):
    column = "classes" if text == b'{"classes": ["a"]}' else "labels"
    table = pa.table({column: [1]}).replace_schema_metadata({"calibrant": text})
    refused(lambda: opened(tmp_path, table_bytes(table, form), form), "'calibrant'", "p.")


@pytest.mark.parametrize("form", FORMS)
def test_other_metadata_is_left_alone(form, tmp_path):
    metadata = {"pandas": "{", "calibrant": json.dumps({"else": 3, "levels": [0, 1e-300, float("inf")]})}
    table = pa.table({"labels": [1]}).replace_schema_metadata(metadata)
    store = opened(tmp_path, table_bytes(table, form), form)
    assert store["levels"].load().tolist() == [0, 1e-300, float("inf")]
    assert store.keys() == {"labels", "levels"}


# ----------------------------------------------------------------------------------------------- damage
@pytest.mark.parametrize("form", FORMS)
def test_the_library_is_named_where_it_is_missing(form, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"calibrant\[arrow\]"):
        opened(tmp_path, b"", form)
    with pytest.raises(MissingExtra, match=r"calibrant\[arrow\]"):
        written({}, form)


@pytest.mark.parametrize("form", FORMS)
def test_repeated_names(form, tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    refused(lambda: opened(tmp_path, table_bytes(table, form), form), "'a' stands twice")


def test_what_would_not_fit_into_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBRANT_MAX_BYTES", "1000000")
    zeros = {"a": np.zeros(200_000), "text": ["x" * 1000] * 50_000 + ["y"] * 150_000}
    for form in [*FORMS, "stream"]:
        store = opened(tmp_path, table_bytes(pa.table(zeros), form, compression="zstd"), form)
        for name in zeros:
            refused(store[name].load, "GiB", "p.")
    refused(lambda: next(store["a"].blocks(0, 10)), "GiB")  # an IPC batch comes whole


def test_a_file_that_changes_is_refused(tmp_path):
    store = opened(tmp_path, written(SOUND, "arrow"), "arrow")
    (tmp_path / "q").write_bytes(written(SOUND, "arrow"))
    (tmp_path / "q").replace(tmp_path / "p.arrow")
    refused(store["logits"].load, "written over")


def everything():
    """Something of each kind of reading, in several groups of rows."""
    return pa.table(
        {
            "logits": fixed(SOUND["logits"][0], C),
            "lists": pa.array(SOUND["label_probs"].tolist()),
            "nested": pa.array(np.moveaxis(SOUND["logits"], 0, 1).tolist()),
            "ids": SOUND["ids"],
            "site": pa.array(["a", "b"] * 11 + ["a"]).dictionary_encode(),
            "labels": SOUND["labels"],
            "right": SOUND["right"],
        }
    )


KINDS_OF_FILES = {
    "parquet": ("parquet", {}),
    "pages": ("parquet", {"compression": "zstd", "data_page_version": "2.0"}),
    "arrow": ("arrow", {}),
    "packed": ("arrow", {"compression": "lz4"}),
    "stream": ("stream", {}),
}


def arrays_or_a_refusal(folder, content, form):
    """Nothing but arrays of the promised shapes, or a CalibrantError that names the file."""
    message = f"{folder}"
    try:
        for entry in opened(folder, content, form).values():
            assert entry.load().shape == entry.shape
            rows = 1 if len(entry.shape) == 3 else 0
            for block in entry.blocks(rows, 5):
                assert block.shape[rows] <= 5
    except CalibrantError as error:
        message = str(error)
    assert str(folder) in message


@pytest.mark.parametrize("kind", KINDS_OF_FILES)
def test_cut_anywhere(kind, tmp_path):
    form, options = KINDS_OF_FILES[kind]
    content = table_bytes(everything(), form, row_group_size=10, **options)
    for length in range(0, len(content), 1 + len(content) // 60):
        arrays_or_a_refusal(tmp_path, content[:length], form)
        if form != "stream":
            refused(lambda length=length: opened(tmp_path, content[:length], form), str(tmp_path), "cannot be read")


@pytest.mark.parametrize("kind", KINDS_OF_FILES)
def test_bytes_flipped_anywhere(kind, tmp_path):
    form, options = KINDS_OF_FILES[kind]
    content = table_bytes(everything(), form, row_group_size=10, **options)
    rng = np.random.default_rng(14)
    for place in rng.integers(0, len(content), 120):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        arrays_or_a_refusal(tmp_path, bytes(damaged), form)


@quickly
@given(content=st.binary(max_size=80), form=st.sampled_from([*FORMS, "stream"]), honest=st.booleans())
def test_arbitrary_bytes(content, form, honest, tmp_path_factory):
    magic = {"parquet": b"PAR1", "arrow": b"ARROW1", "stream": b"\xff\xff\xff\xff"}[form] if honest else b""
    arrays_or_a_refusal(tmp_path_factory.mktemp("bytes"), magic + content + magic, form)


def test_a_page_that_is_damaged_is_found_on_the_way(tmp_path):
    scores = RNG.random((40_000, 10), np.float32)
    content = bytearray(table_bytes(pa.table({"probs": fixed(scores, 10)}), "parquet", use_dictionary=False))
    content[len(content) * 3 // 4 : len(content) * 3 // 4 + 300_000] = bytes(300_000)
    store = opened(tmp_path, bytes(content), "parquet")
    blocks = store["probs"].blocks(0, 1000)
    same(next(blocks), scores[:1000])
    refused(lambda: list(blocks), "p.parquet", "a Parquet file", "cannot be read")


def test_a_batch_that_is_damaged_is_found_on_the_way(tmp_path):
    table = pa.table({"ids": SOUND["ids"]})
    content = bytearray(table_bytes(table, "arrow", row_group_size=5))
    place = content.index("r12 ü".encode())
    content[place : place + 4] = b"\xff\xff\xff\xff"
    store = opened(tmp_path, bytes(content), "arrow")
    blocks = store["ids"].blocks(0, 5)
    assert next(blocks).tolist() == SOUND["ids"][:5].tolist()
    refused(lambda: list(blocks), "p.arrow", "an Arrow IPC file or stream", "cannot be read")
