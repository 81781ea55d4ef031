"""Every format and every kind of predictions: what is written comes back, and damage ends in a CalibrantError or not.

In `test_fuzz` the bytes of classification files in .npz, .csv and .jsonl are damaged; here regression, judged answers
and the other formats are, read at once and block by block.
"""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from damage import damaged
from evaluations import evaluate_with
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import calibrant as cal
from calibrant.predictions.arrays import RESERVED

N, LEVELS = 7, (0.05, 0.5, 0.95)
FILES = (".npz", ".parquet", ".arrow", ".safetensors", ".csv", ".jsonl")
STORES = (".npz", "/", ".parquet", ".arrow", ".safetensors")
MAGIC = {".npz": b"PK\x03\x04", ".parquet": b"PAR1", ".arrow": b"ARROW1\0\0", ".safetensors": b"\x40" + bytes(7)}
METRICS = "nll,accuracy,entropy,brier,mse,mae,pinball,pit"


def fuzz(examples):
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


def known(rng, n=N):
    """Something in every part beside the predictions, so that damage can hit any of them."""
    return {
        "ids": np.array([f"r{k}" for k in range(n)]),
        "weights": rng.random(n) + 0.5,
        "columns": {"age": rng.random(n), "site": np.array(["n", "süd"] * n)[:n]},
        "meta": {"method": "fuzz"},
    }


def example(kind, n=N, dtype=np.float64, members=1, weighted=True):
    """Sound predictions of a kind."""
    rng = np.random.default_rng(n)
    rest = known(rng, n)
    if not weighted:
        rest.pop("weights")
    if kind == "classes":
        scores = rng.normal(size=(members, n, 3)).astype(dtype)
        names = {"classes": ["cat", "dog", "elk"], "member_names": [f"m{k}" for k in range(members)]}
        return cal.Classification.from_logits(scores, rng.integers(0, 3, n), **names, **rest)
    if kind == "judged":
        confidence = rng.random((members, n)).astype(dtype)
        return cal.Judged.from_confidence(confidence, rng.integers(0, 2, n), **rest)
    mean, std = rng.normal(size=(members, n)).astype(dtype), (rng.random((members, n)) + 0.1).astype(dtype)
    y = rng.normal(size=n)
    if kind == "gaussian":
        return cal.Regression.from_gaussian(mean, std, y, member_names=[f"m{k}" for k in range(members)], **rest)
    if kind == "samples":
        return cal.Regression.from_samples(rng.normal(size=(5, n)).astype(dtype), y, **rest)
    quantiles = mean[0][:, None] + std[0][:, None] * np.array([-1.6, 0, 1.6])
    return cal.Regression.from_quantiles(quantiles.astype(dtype), LEVELS, y, **rest)


KINDS = ("classes", "judged", "gaussian", "samples", "quantiles")


def written(made, folder, suffix):
    """The path of predictions in a folder of their own."""
    return cal.write(made, f"{folder}/p{suffix}")


def results_or_a_refusal(path, options=None):
    """Read, scan and evaluate: each may refuse in one clear line, none may fail otherwise; whether it was read."""
    found = []
    for how in (cal.read, cal.scan):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cal.CalibrantWarning)
            try:
                made = how(path, columns=options)
                result = evaluate_with(made, METRICS, intervals=False, block_rows=3, threads=1)
                found.append(json.dumps(result.to_json()["results"]))
            except cal.CalibrantError as error:
                message = str(error)
                assert "\n" not in message
                for part in ("expected ", ", got ", "; "):
                    assert part in message, message
                found.append(None)
    assert found[0] in (None, found[1])  # block by block, columns that nobody asked for are not even read
    return found[0] is not None


# ---------------------------------------------------------------------------------------------- damage
@pytest.mark.parametrize("suffix", ["/", *FILES])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_damaged_below_is_sound(kind, suffix, tmp_path):
    assert results_or_a_refusal(written(example(kind), tmp_path, suffix))


@fuzz(120)
@given(content=st.binary(max_size=200), suffix=st.sampled_from(FILES), honest=st.booleans())
def test_arbitrary_bytes(content, suffix, honest, tmp_path):
    word = MAGIC.get(suffix, b"y,mean,std\n") if honest else b""
    end = word if suffix == ".parquet" else b""
    (tmp_path / f"p{suffix}").write_bytes(word + content + end)
    results_or_a_refusal(tmp_path / f"p{suffix}")


@pytest.mark.parametrize("suffix", FILES)
def test_damaged_files(suffix, tmp_path):
    contents = []
    for place, kind in enumerate(KINDS):
        (tmp_path / str(place)).mkdir()
        contents.append(written(example(kind), tmp_path / str(place), suffix).read_bytes())
    path = tmp_path / f"damaged{suffix}"

    @fuzz(45)
    @given(data=st.data(), content=st.sampled_from(contents))
    def check(data, content):
        path.write_bytes(data.draw(damaged(content)))
        results_or_a_refusal(path)

    check()


def test_damaged_arrays_of_a_folder(tmp_path):
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        written(example(kind), tmp_path / kind, "/")
    files = sorted(tmp_path.rglob("*.npy"))

    @fuzz(120)
    @given(data=st.data(), path=st.sampled_from(files))
    def check(data, path):
        content = path.read_bytes()
        path.write_bytes(data.draw(damaged(content)))
        try:
            results_or_a_refusal(path.parent)
        finally:
            path.write_bytes(content)

    check()


def test_one_shard_of_three_is_damaged(tmp_path):
    """Also: the shard that is at fault is named, unless all of them can be read."""
    made = example("gaussian", 12)

    @fuzz(60)
    @given(data=st.data(), suffix=st.sampled_from(FILES), place=st.integers(0, 2))
    def check(data, suffix, place):
        folder = tmp_path / f"parts{suffix}"
        folder.mkdir(exist_ok=True)
        for k in range(3):
            cal.write(made[4 * k : 4 * k + 4], folder / f"part-{k}{suffix}")
        path = folder / f"part-{place}{suffix}"
        path.write_bytes(data.draw(damaged(path.read_bytes())))
        results_or_a_refusal(folder)

    check()


numbers = st.one_of(
    st.integers(-2, 2), st.floats(), st.sampled_from(["", "nan", "x", "1e400", "0x1", "1_0", "−1", "1,5", None, True])
)
tables = st.lists(
    st.sampled_from(
        ["y", "mean", "std", "var", "mean_0", "mean_1", "std_0", "std_1", "samples_0", "samples_1", "quantiles_0.1",
         "quantiles_0.9", "quantiles_x", "labels", "weights", "ids", "levels", "confidence", "correct", "probs_a"]
    ), min_size=1, max_size=5, unique=True,
)  # fmt: skip
OPTIONS = (
    None,
    {"y": "y", "mean": "mean_*", "std": "std_*"},
    {"labels": "labels", "mean": "mean", "std": "std"},
    {"y": "ids", "samples": "*_0"},
    {"quantiles": "quantiles_*"},
    {"mean": "y", "var": "y"},
    {"confidence": "y", "correct": "labels"},
)


@fuzz(100)
@given(names=tables, data=st.data(), suffix=st.sampled_from([".csv", ".jsonl"]), options=st.sampled_from(OPTIONS))
def test_tables_of_anything(names, data, suffix, options, tmp_path):
    rows = data.draw(st.lists(st.tuples(*[numbers] * len(names)), min_size=1, max_size=4))
    if suffix == ".csv":
        text = "\n".join([",".join(names), *(",".join(f'"{item}"' for item in row) for row in rows)])
    else:
        text = "\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows)
    (tmp_path / f"p{suffix}").write_text(text, encoding="utf-8")
    results_or_a_refusal(tmp_path / f"p{suffix}", options)


lists = st.one_of(numbers, st.lists(numbers, max_size=3), st.lists(st.lists(numbers, max_size=2), max_size=2))
named = st.dictionaries(st.sampled_from(["0.1", "0.9", "50", "low"]), numbers, max_size=3)
REGRESSION_KEYS = ["y", "mean", "std", "var", "samples", "quantiles", "levels", "member_names", "weights"]


@fuzz(100)
@given(
    record=st.dictionaries(st.sampled_from(REGRESSION_KEYS), lists | named, min_size=1, max_size=4),
    other=st.dictionaries(st.sampled_from(REGRESSION_KEYS), lists | named, min_size=1, max_size=4) | st.none(),
)
def test_any_json_under_the_keys_of_regression(record, other, tmp_path):
    records = [record, record, {**record, **(other or {})}]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, records)))
    results_or_a_refusal(tmp_path / "p.jsonl")


shapes = st.sampled_from(
    [(), (N,), (2, N), (N, 2), (1, N), (N, 1), (0, N), (N, 0), (2, 2, N), (N, 3), (3,), (1,), (0,)]
)
kinds_of_items = st.sampled_from(["f8", "f4", "f2", ">f8", "i8", "u1", "?", "U1", "S1", "g"])


@fuzz(100)
@given(
    arrays=st.dictionaries(st.sampled_from([*REGRESSION_KEYS, "age"]), st.tuples(shapes, kinds_of_items), max_size=5),
    suffix=st.sampled_from([".npz", "/"]),
)
def test_arrays_of_any_shape_under_the_keys_of_regression(arrays, suffix, tmp_path):
    made = {key: np.ones(shape, kind) for key, (shape, kind) in arrays.items()}
    if "levels" in made and made["levels"].shape == (3,) and made["levels"].dtype.kind == "f":
        made["levels"] = np.array(LEVELS)
    if suffix == ".npz":
        np.savez(tmp_path / "p.npz", **made)
        results_or_a_refusal(tmp_path / "p.npz")
        return
    folder = tmp_path / "folder"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for key, array in made.items():
        np.save(folder / f"{key}.npy", array)
    results_or_a_refusal(folder)


# ----------------------------------------------------------------------------------------- round trips
letters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
words = st.text(letters, max_size=6)
names = words.filter(lambda text: text not in RESERVED and not set(text) & set("/\\") and not text.startswith("."))
FLOATS = st.floats(width=32)


def columns_of(data, n):
    """Columns of every type that the formats share, under names of any letters."""
    types = {
        "text": words.map(lambda text: f"t{text}"),
        "whole": st.integers(-(2**63), 2**63 - 1),
        "float": FLOATS,
        "truth": st.booleans(),
    }
    made = {}
    for name in data.draw(st.lists(names, max_size=2, unique=True), label="names"):
        kind = data.draw(st.sampled_from(sorted(types)), label="type")
        made[f"c{name}"] = np.array(data.draw(st.lists(types[kind], min_size=n, max_size=n), label=name))
    return made


def rest_of(data, n):
    """Weights, ids, columns and meta, each perhaps."""
    rest = {"columns": columns_of(data, n)}
    if data.draw(st.booleans(), label="weighted"):
        weights = st.lists(st.floats(0, 1e6, width=32), min_size=n, max_size=n).filter(lambda w: max(w) > 1e-6)
        rest["weights"] = np.array(data.draw(weights))
    if data.draw(st.booleans(), label="ids"):
        ids = st.sampled_from([words.map(lambda text: f"i{text}"), st.integers(0, 2**40)])
        rest["ids"] = np.array(data.draw(st.lists(data.draw(ids), min_size=n, max_size=n)))
    if data.draw(st.booleans(), label="meta"):
        rest["meta"] = data.draw(st.dictionaries(words, words | st.integers() | st.none(), max_size=2))
    return rest


def numbers_of(data, shape, dtype, low=-1000, high=1000):
    size = int(np.prod(shape))
    items = st.lists(st.floats(low, high, width=16), min_size=size, max_size=size)
    return np.array(data.draw(items), dtype).reshape(shape)


def some_names(data, count):
    return data.draw(st.none() | st.lists(words, min_size=count, max_size=count, unique=True))


def some_predictions(data):
    """Predictions of any kind, size and precision, with and without everything else."""
    n, members = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    rest, kind = rest_of(data, n), data.draw(st.sampled_from([*KINDS, "binary"]))
    if kind in ("classes", "binary"):
        width = 1 if kind == "binary" else data.draw(st.integers(2, 4))
        shape = (n,) if width == 1 and members == 1 else (members, n, width)
        scores = numbers_of(data, shape, dtype, 0, 1) if width == 1 else numbers_of(data, shape, dtype)
        classes = max(width, 2)
        rest |= {"classes": some_names(data, classes), "member_names": some_names(data, members)}
        labels = data.draw(st.none() | st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))
        how = cal.Classification.from_probs if width == 1 else cal.Classification.from_logits
        return how(scores, labels, **rest)
    if kind == "judged":
        correct = data.draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n))
        return cal.Judged.from_confidence(numbers_of(data, (members, n), dtype, 0, 1), correct, **rest)
    y = data.draw(st.booleans())
    y = numbers_of(data, (n,), dtype) if y else None
    if kind == "gaussian":
        rest["member_names"] = some_names(data, members)
        std = numbers_of(data, (members, n), dtype, 0.5, 100)
        return cal.Regression.from_gaussian(numbers_of(data, (members, n), dtype), std, y, **rest)
    if kind == "samples":
        return cal.Regression.from_samples(numbers_of(data, (members, n), dtype), y, **rest)
    levels = sorted(data.draw(st.lists(st.floats(1e-9, 1 - 1e-9), min_size=1, max_size=3, unique=True)))
    return cal.Regression.from_quantiles(numbers_of(data, (n, len(levels)), dtype), levels, y, **rest)


ARRAYS = {
    "Classification": ("scores", "labels", "label_probs"),
    "Judged": ("confidence", "correct"),
    "Regression": ("mean", "std", "samples", "quantiles", "levels", "y"),
}


def check_same(back, made, exact, text):
    """All of it bit for bit; `text` formats keep values, but neither precision nor the names of members."""
    assert type(back) is type(made)
    for key in ARRAYS[type(made).__name__]:
        check_array(getattr(back, key), getattr(made, key), key, exact)
    check_array(back.info.ids, made.info.ids, "ids", exact)
    check_array(back.weights, made.weights, "weights", exact)
    assert list(back.columns) == list(made.columns) or exact  # a folder sorts them
    assert set(back.columns) == set(made.columns)
    for key, column in made.columns.items():
        check_array(back.columns[key], column, key, exact)
    if not text:
        assert back.info.meta == made.info.meta
        assert getattr(back, "member_names", None) == getattr(made, "member_names", None)
        assert getattr(back, "class_names", None) == getattr(made, "class_names", None)
    elif getattr(made, "class_names", None):
        assert back.class_names == made.class_names


def check_array(back, made, key, exact):
    assert (back is None) == (made is None), key
    if made is not None:
        np.testing.assert_array_equal(back, made, err_msg=key, strict=False)
        assert back.shape == made.shape
        assert not exact or back.dtype == made.dtype, key


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("suffix", STORES)
def test_everything_comes_back_from_a_store(suffix, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")

    @fuzz(18)
    @given(data=st.data())
    def check(data):
        made = some_predictions(data)
        path = written(made, folder, suffix) if suffix != "/" else written(made, tmp_path_factory.mktemp("f"), suffix)
        check_same(cal.read(path), made, exact=True, text=False)

    check()


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_values_come_back_from_a_table(suffix, tmp_path):
    @fuzz(40)
    @given(data=st.data())
    def check(data):
        made = some_predictions(data)
        if suffix == ".csv":
            assume(made.task == "regression" or made.members == 1)
            plain = {key: column for key, column in made.columns.items() if column.dtype.kind != "b"}
            made = made._with_info(replace(made.info, columns=plain))
        if isinstance(made, cal.Classification) and made.class_names and made.scores.shape[2] == 1:
            made = made.average() if made.members > 1 else made
            assume(made.scores.shape[2] > 1)  # with names, a table has a column for each of the two classes
        check_same(cal.read(written(made, tmp_path, suffix)), made, exact=False, text=True)

    check()


# ---------------------------------------------------------------------------------------------- blocks
@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
def test_blocks_of_any_size_give_the_same_digits(tmp_path_factory):
    @fuzz(22)
    @given(
        kind=st.sampled_from(KINDS),
        suffix=st.sampled_from(["/", *FILES]),
        n=st.integers(1, 40),
        rows=st.integers(1, 45),
        cuts=st.lists(st.integers(1, 39), max_size=3, unique=True),
        members=st.integers(1, 2),
        dtype=st.sampled_from([np.float32, np.float64]),
        threads=st.sampled_from([1, 2]),
    )
    def check(kind, suffix, n, rows, cuts, members, dtype, threads):
        members = members if suffix != ".csv" or kind == "gaussian" else 1
        made = example(kind, n, dtype, members, weighted=bool(rows % 2))
        folder = tmp_path_factory.mktemp("shards")
        edges = [0, *sorted(cut for cut in cuts if cut < n), n]
        for place in range(len(edges) - 1):
            cal.write(made[edges[place] : edges[place + 1]], f"{folder}/part-{place}{suffix}")
        chosen = {"resamples": 20, "by": ["site", "age:2"], "threads": threads}
        whole = evaluate_with(cal.read(folder), **chosen).to_json()
        found = evaluate_with(cal.scan(folder), block_rows=rows, **chosen).to_json()
        assert found["results"] == whole["results"]
        assert found["warnings"] == whole["warnings"]

    check()
