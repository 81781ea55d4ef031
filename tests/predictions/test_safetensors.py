"""Safetensors: what the library writes is read, what is written the library reads, and damage is refused."""

import io
import json

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant.errors import CalibrantError, FileError, UsageError
from calibrant.predictions.files.safetensors import LONGEST_HEADER, open_safetensors, write_safetensors

RNG = np.random.default_rng(12)
DTYPES = ("bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
quickly = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def written(arrays):
    stream = io.BytesIO()
    write_safetensors(arrays, stream)
    return stream.getvalue()


def loaded(path):
    return {name: entry.load() for name, entry in open_safetensors(path).items()}


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def made_by_hand(header, data=b"", length=None):
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(content) if length is None else length).to_bytes(8, "little") + content + data


def refused(path, content, *words):
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        loaded(path)
    for word in (str(path), *words):
        assert word in str(caught.value), caught.value


def arrays_or_a_refusal(path):
    message = path.name
    try:
        for array in loaded(path).values():
            assert array.dtype.kind in "biufU"
    except CalibrantError as error:
        message = str(error)
    assert path.name in message


SOUND = {
    "logits": RNG.normal(size=(3, 10, 4)).astype("f4"),
    "labels": RNG.integers(0, 4, 10),
    "right": RNG.random(10) < 0.5,
    "one": np.array(7, "u1"),
    "ids": np.array([f"r{k} ü 猫" for k in range(9)] + [""]),
    "classes": np.array(["a", "b", "c", "d"]),
    "meta": np.array('{"method": "é"}'),
}


# --------------------------------------------------------------------------------------- there and back
def test_everything_comes_back(tmp_path):
    path = tmp_path / "p.safetensors"
    path.write_bytes(written(SOUND))
    store = open_safetensors(path)
    assert store.keys() == SOUND.keys()
    for name, entry in store.items():
        same(entry.load(), SOUND[name])
        assert entry.shape == SOUND[name].shape
        assert entry.nbytes == SOUND[name].nbytes
        assert entry.load().flags.c_contiguous


@quickly
@given(
    array=st.sampled_from(DTYPES).flatmap(
        lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    ),
    name=st.text(min_size=1, max_size=6).filter(lambda name: name.isprintable()),
)
def test_any_array_under_any_name(array, name, tmp_path_factory):
    path = tmp_path_factory.mktemp("any") / "p.safetensors"
    path.write_bytes(written({name: array, "a": np.arange(3), "text": np.array(["x"])}))
    if name not in ("a", "text"):
        same(loaded(path)[name], array)
        same(safetensors.numpy.load_file(path)[name], array)


@quickly
@given(texts=st.lists(st.text(max_size=5).map(lambda text: text.rstrip("\0")), min_size=1, max_size=5))
def test_any_text(texts, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "p.safetensors"
    path.write_bytes(written({"ids": np.array(texts), "meta": np.array(texts[0])}))
    assert loaded(path)["ids"].tolist() == texts
    assert loaded(path)["meta"][()] == texts[0]


def test_other_orders_of_bytes_and_axes(tmp_path):
    path = tmp_path / "p.safetensors"
    arrays = {
        "big": np.arange(6, dtype=">i4").reshape(2, 3),
        "turned": np.asfortranarray(RNG.normal(size=(4, 5))),
        "cut": np.arange(40.0).reshape(4, 10)[::2, 1::3],
    }
    path.write_bytes(written(arrays))
    theirs = safetensors.numpy.load_file(path)
    for name, array in loaded(path).items():
        assert np.array_equal(array, arrays[name])
        assert np.array_equal(theirs[name], arrays[name])
        assert array.dtype.isnative
        assert array.flags.c_contiguous


@pytest.mark.parametrize(
    "array", [np.ones(3, np.longdouble), np.ones(3, complex), np.array([b"a"]), np.array(["2020"], "datetime64[D]")]
)
def test_what_cannot_be_written(array):
    with pytest.raises(UsageError, match="'odd'"):
        written({"odd": array})


def test_a_tensor_cannot_have_the_name_of_the_metadata():
    with pytest.raises(UsageError, match="__metadata__"):
        written({"__metadata__": np.ones(2)})


def test_too_much_text(monkeypatch):
    monkeypatch.setattr("calibrant.predictions.files.safetensors.LONGEST_HEADER", 1_000_000)
    with pytest.raises(UsageError, match="at most 1 MB of text"):
        written({"ids": np.array(["x" * 10] * 100_000)})


# -------------------------------------------------------------------------------------------- strangers
def test_the_library_reads_what_is_written(tmp_path):
    path = tmp_path / "p.safetensors"
    content = written(SOUND)
    assert int.from_bytes(content[:8], "little") % 8 == 0
    path.write_bytes(content)
    theirs = safetensors.numpy.load_file(path)
    for name in ("logits", "labels", "right", "one"):
        same(theirs[name], SOUND[name])
    with safetensors.safe_open(path, "numpy") as file:
        assert json.loads(file.metadata()["calibrant"])["classes"] == ["a", "b", "c", "d"]


def test_what_the_library_writes_is_read(tmp_path):
    path = tmp_path / "p.safetensors"
    arrays = {kind: (RNG.normal(size=(3, 4)) * 10).astype(kind) for kind in DTYPES}
    safetensors.numpy.save_file(arrays, path, metadata={"format": "np", "calibrated": "no"})
    ours = loaded(path)
    assert ours.keys() == arrays.keys()
    for name, array in arrays.items():
        same(ours[name], array)


def test_bfloat16_is_widened(tmp_path):
    path = tmp_path / "p.safetensors"
    scores = torch.randn(7, 5, generator=torch.Generator().manual_seed(1)) * 100
    scores[0, :3] = torch.tensor([float("nan"), float("inf"), -0.0])
    short = scores.to(torch.bfloat16)
    safetensors.torch.save_file({"logits": short, "half": scores.half(), "labels": torch.arange(7)}, path)
    store = open_safetensors(path)
    assert store["logits"].nbytes == 7 * 5 * 4
    same(store["logits"].load(), short.float().numpy())
    same(np.concatenate(list(store["logits"].blocks(0, 3))), short.float().numpy())
    same(store["half"].load(), scores.half().numpy())


def test_eight_bits_are_refused(tmp_path):
    path = tmp_path / "p.safetensors"
    safetensors.torch.save_file({"logits": torch.ones(4).to(torch.float8_e4m3fn)}, path)
    refused(path, path.read_bytes(), "logits", "F8_E4M3", "F32")


# ----------------------------------------------------------------------------------------------- blocks
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 9, 10, 11, 1000])
def test_blocks_are_the_array(rows, tmp_path):
    path = tmp_path / "p.safetensors"
    path.write_bytes(written(SOUND))
    store = open_safetensors(path)
    for name, axis in (("logits", 1), ("logits", 0), ("logits", 2), ("labels", 0), ("right", 0), ("ids", 0)):
        blocks = list(store[name].blocks(axis, rows))
        assert {block.shape[axis] for block in blocks[:-1]} <= {rows}
        same(np.concatenate(blocks, axis=axis), SOUND[name])


def test_a_file_that_changes_is_refused(tmp_path):
    path, other = tmp_path / "p.safetensors", tmp_path / "q.safetensors"
    path.write_bytes(written(SOUND))
    store = open_safetensors(path)
    other.write_bytes(written(SOUND))
    other.replace(path)
    with pytest.raises(FileError, match="overwritten"):
        store["logits"].load()
    with pytest.raises(FileError, match="overwritten"):
        next(iter(store["logits"].blocks(1, 4)))


# ----------------------------------------------------------------------------------------------- damage
def one(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "0 bytes"),
        (b"\1\0\0", "3 bytes"),
        (made_by_hand({}, length=10), "a header of 10 bytes"),
        (made_by_hand({}, length=1 << 63), "with a header of"),
        (made_by_hand(b"[" * 100_000), "unreadable"),
        (made_by_hand(b"\xff{}"), "unreadable"),
        (made_by_hand(b"[]"), "no JSON object"),
        (made_by_hand(b"{"), "unreadable"),
        (made_by_hand({str(k): {} for k in range(10_001)}), "10001"),
        (made_by_hand({"a": 1}), "'a'"),
        (made_by_hand({"a": {"dtype": "F32", "shape": [2]}}), "'a'"),
        (made_by_hand(one(dtype=["F32"]), bytes(8)), "'a'"),
        (made_by_hand(one(dtype="C64"), bytes(8)), "C64"),
        (made_by_hand(one(shape="2"), bytes(8)), "'a'"),
        (made_by_hand(one(shape=[-2, -1]), bytes(8)), "'a'"),
        (made_by_hand(one(shape=[2.0]), bytes(8)), "'a'"),
        (made_by_hand(one(shape=[True, 2]), bytes(8)), "'a'"),
        (made_by_hand(one(shape=[0, 1 << 40, 1 << 40], offsets=[0, 0])), "'a'"),
        (made_by_hand(one(shape=[1] * 33, offsets=[0, 4]), bytes(4)), "'a'"),
        (made_by_hand(one(shape=[3]), bytes(8)), "12 bytes"),
        (made_by_hand(one(offsets=[8, 0]), bytes(8)), "8 bytes"),
        (made_by_hand(one(offsets=[0, 8, 16]), bytes(8)), "'a'"),
        (made_by_hand(one(), bytes(7)), "according to the header, got"),
        (made_by_hand(one(), bytes(9)), "according to the header, got"),
        (made_by_hand(one(offsets=[4, 12]), bytes(12)), "at byte"),
        (made_by_hand(one() | {"b": one()["a"]}, bytes(8)), "at byte"),
        (made_by_hand(json.dumps(one()).encode()[:-1] + b"," + json.dumps(one()).encode()[1:], bytes(8)), "twice"),
        (made_by_hand({"__metadata__": 3}), "__metadata__"),
        (made_by_hand({"__metadata__": {"a": 3}}), "__metadata__"),
        (made_by_hand({"__metadata__": {"calibrant": "{"}}), "unreadable"),
        (made_by_hand({"__metadata__": {"calibrant": "[]"}}), "unreadable"),
        (made_by_hand({"__metadata__": {"calibrant": '{"ids": [1]}'}}), "not text"),
        (made_by_hand({"__metadata__": {"calibrant": '{"ids": 1}'}}), "not text"),
        (
            made_by_hand({"__metadata__": {"calibrant": '{"a": ["x"]}'}} | one(), bytes(8)),
            "'a' as a tensor and as text",
        ),
    ],
)
def test_headers_that_lie(content, word, tmp_path):
    refused(tmp_path / "p.safetensors", content, word)


def test_texts_that_would_not_fit_into_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("CALIBRANT_MAX_BYTES", "100000")
    texts = {"ids": ["x" * 1000] + [""] * 999}
    refused(tmp_path / "p.safetensors", made_by_hand({"__metadata__": {"calibrant": json.dumps(texts)}}), "GiB")
    refused(tmp_path / "p.safetensors", written({"logits": np.zeros(20_000)}), "logits", "GiB")


def test_the_header_is_bounded(tmp_path, monkeypatch):
    assert LONGEST_HEADER == 100_000_000
    content = written(SOUND)
    monkeypatch.setattr("calibrant.predictions.files.safetensors.LONGEST_HEADER", 50)
    refused(tmp_path / "p.safetensors", content, "with a header of")


def test_cut_anywhere(tmp_path):
    path, content = tmp_path / "p.safetensors", written(SOUND)
    for length in range(0, len(content), 5):
        path.write_bytes(content[:length])
        with pytest.raises(FileError):
            open_safetensors(path)


def test_bytes_flipped_anywhere(tmp_path):
    path, content, rng = tmp_path / "p.safetensors", written(SOUND), np.random.default_rng(14)
    for place in range(0, int.from_bytes(content[:8], "little") + 8, 2):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        arrays_or_a_refusal(path)


@quickly
@given(content=st.binary(max_size=60), honest=st.booleans())
def test_arbitrary_bytes(content, honest, tmp_path_factory):
    path = tmp_path_factory.mktemp("bytes") / "p.safetensors"
    path.write_bytes(made_by_hand(content) if honest else content)
    arrays_or_a_refusal(path)
