"""No bytes whatever, in any of the formats, end in anything but predictions or a CalibrantError."""

import io
import json
import struct
import warnings
import zipfile

import numpy as np
import pytest
from damage import damaged
from evaluations import evaluate_with
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import calibrant as cal
from calibrant.predictions.describe import describe

RNG = np.random.default_rng(9)
N, C = 6, 3
FORMATS = ("npz", "csv", "jsonl")
OPTIONS = ({}, {"labels": "labels", "probs": "probs_*"}, {"labels": "labels", "prob": "age"})


def fuzz(examples):
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


def sound():
    """Predictions with something in every part, so that damage can hit any of them."""
    probs = np.exp(RNG.normal(size=(N, C)))
    return cal.Classification.from_probs(
        probs / probs.sum(axis=1, keepdims=True),
        RNG.integers(0, C, N),
        classes=["cat", "dog", "elk"],
        ids=np.array([f"r{k}" for k in range(N)]),
        weights=np.ones(N),
        columns={"age": np.arange(N) / 10, "site": np.array(["n", "s"] * (N // 2))},
        meta={"method": "fuzz"},
    )


def expect_predictions_or_a_refusal(path, options=None):
    """Read, describe and evaluate: each may refuse, none may fail otherwise. Warnings of NumPy would be failures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cal.CalibrantWarning)
        try:
            made = cal.read(path, columns=options)
            text = describe(made)
            assert text.count("\n") >= 4
            json.loads(evaluate_with(made, "nll,accuracy,entropy", intervals=False).dumps())
        except cal.CalibrantError as error:
            message = str(error)
            assert "expected " in message
            assert ", got " in message
            assert "; " in message
            assert "\n" not in message


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """The bytes of sound files, by format; folders as the bytes of each of their arrays."""
    folder = tmp_path_factory.mktemp("samples")
    made = sound()
    files = {form: cal.write(made, folder / f"p.{form}").read_bytes() for form in FORMATS}
    stored = io.BytesIO()
    np.savez(stored, **{path.stem: np.load(path) for path in cal.write(made, f"{folder / 'p'}/").glob("*.npy")})
    files["stored"] = stored.getvalue()
    arrays = {path.stem: path.read_bytes() for path in sorted((folder / "p").glob("*.npy"))}
    return files, arrays


# ------------------------------------------------------------------------------------ arbitrary bytes
@fuzz(150)
@given(content=st.binary(max_size=300), form=st.sampled_from([*FORMATS, "npy"]))
def test_arbitrary_bytes(content, form, tmp_path):
    if form == "npy":
        path = tmp_path / "folder"
        path.mkdir(exist_ok=True)
        (path / "logits.npy").write_bytes(content)
    else:
        path = tmp_path / f"p.{form}"
        path.write_bytes(content)
    expect_predictions_or_a_refusal(path)


@fuzz(150)
@given(text=st.text(alphabet='labels,probs_01.-e"\n\r\tnaif', max_size=200), options=st.sampled_from(OPTIONS))
def test_texts_that_look_like_csv(text, options, tmp_path):
    (tmp_path / "p.csv").write_bytes(text.encode())
    expect_predictions_or_a_refusal(tmp_path / "p.csv", options)


scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.floats(), st.text(max_size=3))
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
)
KEYS = ["labels", "probs", "logits", "confidence", "correct", "classes", "meta", "ids", "weights", "label_probs", "age"]


@fuzz(200)
@given(
    records=st.lists(st.dictionaries(st.sampled_from(KEYS), anything, min_size=1, max_size=4), min_size=1, max_size=3),
    repeat=st.booleans(),
    options=st.sampled_from(OPTIONS),
)
def test_any_json_under_any_key(records, repeat, options, tmp_path):
    lines = [json.dumps(record) for record in (records[:1] * 3 if repeat else records)]
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    expect_predictions_or_a_refusal(tmp_path / "p.jsonl", options)


# -------------------------------------------------------------------------------------- damaged files
@pytest.mark.parametrize("form", [*FORMATS, "stored"])
def test_damaged_files(form, samples, tmp_path):
    suffix = "npz" if form == "stored" else form
    path = tmp_path / f"p.{suffix}"

    @fuzz(150)
    @given(content=damaged(samples[0][form]))
    def check(content):
        path.write_bytes(content)
        expect_predictions_or_a_refusal(path)

    check()


def test_damaged_arrays_in_a_folder(samples, tmp_path):
    arrays = samples[1]
    for name, content in arrays.items():
        (tmp_path / f"{name}.npy").write_bytes(content)

    @fuzz(300)
    @given(data=st.data(), name=st.sampled_from(sorted(arrays)))
    def check(data, name):
        path = tmp_path / f"{name}.npy"
        path.write_bytes(data.draw(damaged(arrays[name])))
        try:
            expect_predictions_or_a_refusal(tmp_path)
        finally:
            path.write_bytes(arrays[name])

    check()


def test_one_file_spliced_into_another(samples, tmp_path):
    files = samples[0]

    @fuzz(120)
    @given(data=st.data(), suffix=st.sampled_from(FORMATS))
    def check(data, suffix):
        first, second = (data.draw(st.sampled_from(sorted(files))) for _ in range(2))
        cut = data.draw(st.integers(0, len(files[first])))
        content = files[first][:cut] + files[second][data.draw(st.integers(0, len(files[second]))) :]
        (tmp_path / f"p.{suffix}").write_bytes(content)
        expect_predictions_or_a_refusal(tmp_path / f"p.{suffix}")

    check()


# -------------------------------------------------------------------------------------- lying headers
descriptions = st.sampled_from(
    ["<f8", ">f8", "<f4", "<f2", "<f16", "|b1", "|i1", "<u8", "<U1", "<U3", ">U1", "<U0", "|S1", "|S4", "|S0", "|V4",
     "|O", "<c16", "<M8[s]", "nonsense", "", [("a", "<f8")], "<U99999999999", "|S2147483647"]
)  # fmt: skip
numbers = st.one_of(st.integers(0, 8), st.sampled_from([-1, -6, 2**31, 2**40, 2**62, 2**63, 2**70, 10**30]))
shapes = st.one_of(
    st.sampled_from([(), (N,), (N, C), (1, N, C), (2, N, C), (N, 1), (C,)]),
    st.lists(numbers, max_size=5).map(tuple),
    st.integers(30, 100).map(lambda k: (1,) * k),
)


bodies = st.one_of(
    st.binary(max_size=64), st.integers(0, 400).map(bytes), st.integers(0, 400).map(lambda n: b"\xff" * n)
)
keys = st.sampled_from(["logits", "probs", "labels", "classes", "ids", "weights", "meta", "label_probs", "age"])


def test_headers_that_say_anything(samples, tmp_path):
    sound_probs, folder = samples[1]["probs"], tmp_path / "folder"
    folder.mkdir()

    @fuzz(400)
    @given(keys, descriptions, shapes, st.booleans(), bodies, st.booleans(), st.booleans())
    def check(key, descr, shape, fortran, body, exact, archive):
        header = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape!r}, }}\n".encode()
        body = fitted(body, descr, shape) if exact else body
        stream = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body
        arrays = {key: stream} if key == "logits" else {"probs": sound_probs, key: stream}
        for old in folder.glob("*.npy"):
            old.unlink()
        for name, content in arrays.items():
            (folder / f"{name}.npy").write_bytes(content)
        with zipfile.ZipFile(tmp_path / "p.npz", "w") as file:
            for name, content in arrays.items():
                file.writestr(f"{name}.npy", content)
        expect_predictions_or_a_refusal(tmp_path / "p.npz" if archive else folder)

    check()


def fitted(body, descr, shape):
    """The body repeated or cut to the length that the header promises, where that is short."""
    try:
        size = int(np.prod([abs(k) for k in shape], dtype=object)) * np.dtype(descr).itemsize
    except (TypeError, ValueError):
        return body
    return (body * (size // len(body) + 1))[:size] if body and 0 < size < 4096 else body
