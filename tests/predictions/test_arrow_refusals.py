"""Parquet and Arrow IPC that cannot be read: nulls, ragged lists, odd metadata, damage. Each is one clear refusal."""

import json
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.errors import CalibrantError, MissingExtra

RNG = np.random.default_rng(15)
N, C, M = 23, 4, 3
FORMS = ("parquet", "arrow")
SCORES = RNG.normal(size=(M, N, C)).astype("f4")
IDS = [f"r{k} ü 猫" for k in range(N - 1)] + [""]


# -------------------------------------------------------------------------------- nulls, ragged, empty
@pytest.mark.parametrize("form", [*FORMS, "stream"])
@pytest.mark.parametrize(
    ("column", "row"),
    [
        (pa.array([1, 2, None]), 2),
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
def test_nulls_are_refused(form, column, row, files):
    table = pa.table({"odd": pa.chunked_array([column.slice(0, 0), column]), "labels": [1, 2, 3]})
    for group in (1, 2, 3):
        store = files.of(table, form, row_group_size=group)
        files.refused(store["odd"].load, "'odd'", f"null in row {row}", "p.")
        files.refused(lambda store=store: list(store["odd"].blocks(0, 2)), f"null in row {row}")
        assert store["labels"].load().tolist() == [1, 2, 3]


@pytest.mark.parametrize("form", [*FORMS, "stream"])
def test_nulls_among_floats_are_nan(files, form):
    """As pandas writes them; where NaN is no value, it is refused as NaN."""
    lists = pa.array([[1.0, None], [2.0, 3.0]], pa.list_(pa.float32(), 2))
    store = files.of(pa.table({"age": pa.array([None, 2.5]), "logits": lists}), form)
    np.testing.assert_array_equal(store["age"].load(), [np.nan, 2.5])
    np.testing.assert_array_equal(store["logits"].load(), np.array([[1, np.nan], [2, 3]], np.float32))


def test_a_null_in_a_dictionary(files):
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    store = files.of(pa.table({"odd": coded}), "arrow")
    files.refused(store["odd"].load, "null in row 1")


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
def test_ragged_lists_are_refused(form, rows, row, files):
    for group in (1, 2, 3):
        store = files.of(pa.table({"odd": rows}), form, row_group_size=group)
        files.refused(store["odd"].load, "'odd'", f"in row {row}", "p.")


@pytest.mark.parametrize("form", [*FORMS, "stream"])
def test_no_rows(form, files):
    columns = {"a": pa.array([], pa.float32()), "b": files.fixed([], 3), "c": pa.array([], pa.list_(pa.int8()))}
    store = files.of(pa.table(columns | {"d": pa.array([], pa.string())}), form)
    for entry in store.values():
        assert entry.shape == entry.load().shape == (0,)
        assert list(entry.blocks(0, 5)) == []
    assert files.back({"labels": np.ones(0)}, "parquet")["labels"].load().shape == (0,)


@pytest.mark.parametrize("form", [*FORMS, "stream"])
def test_one_row(form, files):
    store = files.of(pa.table({"a": [1.5], "logits": [[1, 2]], "probs": [[[1], [2]]]}), form)
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
def test_constants_that_are_none(form, text, files):
    column = "classes" if text == b'{"classes": ["a"]}' else "labels"
    table = pa.table({column: [1]}).replace_schema_metadata({"calibrant": text})
    files.refused(lambda: files.of(table, form), "'calibrant'", "p.")


@pytest.mark.parametrize("form", FORMS)
def test_other_metadata_is_left_alone(form, files):
    metadata = {"pandas": "{", "calibrant": json.dumps({"else": 3, "levels": [0, 1e-300, float("inf")]})}
    table = pa.table({"labels": [1]}).replace_schema_metadata(metadata)
    store = files.of(table, form)
    assert store["levels"].load().tolist() == [0, 1e-300, float("inf")]
    assert store.keys() == {"labels", "levels"}


# ----------------------------------------------------------------------------------------------- damage
@pytest.mark.parametrize("form", FORMS)
def test_the_library_is_named_where_it_is_missing(form, monkeypatch, files):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"calibrant\[arrow\]"):
        files.opened(b"", form)
    with pytest.raises(MissingExtra, match=r"calibrant\[arrow\]"):
        files.written({}, form)


@pytest.mark.parametrize("form", FORMS)
def test_repeated_names(form, files):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    files.refused(lambda: files.of(table, form), "'a' twice")


def test_what_would_not_fit_into_memory(files, monkeypatch):
    monkeypatch.setenv("CALIBRANT_MAX_BYTES", "1000000")
    zeros = {"a": np.zeros(200_000), "text": ["x" * 1000] * 50_000 + ["y"] * 150_000}
    for form in [*FORMS, "stream"]:
        store = files.of(pa.table(zeros), form, compression="zstd")
        for name in zeros:
            files.refused(store[name].load, "GiB", "p.")
    files.refused(lambda: next(store["a"].blocks(0, 10)), "GiB")  # an IPC batch comes whole


def test_a_file_that_changes_is_refused(files):
    store = files.back({"logits": SCORES}, "arrow")
    (files.folder / "q").write_bytes(files.written({"logits": SCORES}, "arrow"))
    (files.folder / "q").replace(files.folder / "p.arrow")
    files.refused(store["logits"].load, "overwritten")


def everything(files):
    """Something of each kind of reading, in several groups of rows."""
    return pa.table(
        {
            "logits": files.fixed(SCORES[0], C),
            "lists": pa.array(SCORES[0].tolist()),
            "nested": pa.array(np.moveaxis(SCORES, 0, 1).tolist()),
            "ids": IDS,
            "site": pa.array(["a", "b"] * 11 + ["a"]).dictionary_encode(),
            "labels": np.arange(N),
            "right": np.arange(N) % 2 == 0,
        }
    )


KINDS_OF_FILES = {
    "parquet": ("parquet", {}),
    "pages": ("parquet", {"compression": "zstd", "data_page_version": "2.0"}),
    "arrow": ("arrow", {}),
    "packed": ("arrow", {"compression": "lz4"}),
    "stream": ("stream", {}),
}


def arrays_or_a_refusal(files, content, form):
    """Nothing but arrays of the promised shapes, or a CalibrantError that names the file."""
    message = f"{files.folder}"
    try:
        for entry in files.opened(content, form).values():
            assert entry.load().shape == entry.shape
            rows = 1 if len(entry.shape) == 3 else 0
            for block in entry.blocks(rows, 5):
                assert block.shape[rows] <= 5
    except CalibrantError as error:
        message = str(error)
    assert str(files.folder) in message


@pytest.mark.parametrize("kind", KINDS_OF_FILES)
def test_cut_anywhere(kind, files):
    form, options = KINDS_OF_FILES[kind]
    content = files.table_bytes(everything(files), form, row_group_size=10, **options)
    for length in range(0, len(content), 1 + len(content) // 60):
        arrays_or_a_refusal(files, content[:length], form)
        if form != "stream":
            files.refused(
                lambda length=length: files.opened(content[:length], form), str(files.folder), "an unreadable one"
            )


@pytest.mark.parametrize("kind", KINDS_OF_FILES)
def test_bytes_flipped_anywhere(kind, files):
    form, options = KINDS_OF_FILES[kind]
    content = files.table_bytes(everything(files), form, row_group_size=10, **options)
    rng = np.random.default_rng(14)
    for place in rng.integers(0, len(content), 120):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        arrays_or_a_refusal(files, bytes(damaged), form)


def test_arbitrary_bytes(files):
    magic = {"parquet": b"PAR1", "arrow": b"ARROW1", "stream": b"\xff\xff\xff\xff"}

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(content=st.binary(max_size=80), form=st.sampled_from([*FORMS, "stream"]), honest=st.booleans())
    def check(content, form, honest):
        word = magic[form] if honest else b""
        arrays_or_a_refusal(files, word + content + word, form)

    check()


def test_a_page_that_is_damaged_is_found_on_the_way(files):
    scores = RNG.random((40_000, 10), np.float32)
    content = bytearray(
        files.table_bytes(pa.table({"probs": files.fixed(scores, 10)}), "parquet", use_dictionary=False)
    )
    content[len(content) * 3 // 4 : len(content) * 3 // 4 + 300_000] = bytes(300_000)
    store = files.opened(bytes(content), "parquet")
    blocks = store["probs"].blocks(0, 1000)
    assert np.array_equal(next(blocks), scores[:1000])
    files.refused(lambda: list(blocks), "p.parquet", "a Parquet file", "an unreadable one")


def test_a_batch_that_is_damaged_is_found_on_the_way(files):
    table = pa.table({"ids": IDS})
    content = bytearray(files.table_bytes(table, "arrow", row_group_size=5))
    place = content.index("r12 ü".encode())
    content[place : place + 4] = b"\xff\xff\xff\xff"
    store = files.opened(bytes(content), "arrow")
    blocks = store["ids"].blocks(0, 5)
    assert next(blocks).tolist() == IDS[:5]
    files.refused(lambda: list(blocks), "p.arrow", "an Arrow IPC file or stream", "an unreadable one")
