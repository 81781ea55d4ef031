"""What is written is read back the same: archives, folders, CSV and JSON Lines, with renaming and one member."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import calibrant as cal
from calibrant.errors import CalibrantWarning, FileError, UsageError

RNG = np.random.default_rng(6)
N, C = 17, 3
CAL = cal.Classification
FORMATS = ("npz", "folder", "csv", "jsonl")
STORES = ("npz", "folder")
quickly = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def path_for(form, folder, name="p"):
    return f"{folder / name}/" if form == "folder" else f"{folder / name}.{form}"


def there_and_back(made, form, folder):
    path = cal.write(made, path_for(form, folder))
    return cal.read(path)


def same_array(a, b):
    """Equal values, NaN to NaN, and shapes; None equals None only."""
    if a is None or b is None:
        assert a is b
        return
    assert a.shape == b.shape
    assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind == "f"), (a, b)


def widened(made):
    """Both classes of a binary problem that came in one number."""
    scores = np.concatenate([block for _, block in made.score_blocks(N)], axis=1)
    return CAL.build(made.kind, scores, made.labels, classes=made.class_names)


def assert_same_predictions(a, b, *, names=True, tables=False):
    """Every part is the same; tables carry no meta and no names of members, and may need both classes to name them."""
    assert type(a) is type(b)
    if tables and isinstance(a, CAL) and a.class_names and a.scores.shape[2] < b.scores.shape[2]:
        a = widened(a)
    if isinstance(a, cal.Judged):
        same_array(a.confidence, b.confidence)
        same_array(a.correct, b.correct)
    else:
        assert a.kind == b.kind
        for part in ("scores", "labels", "label_probs"):
            same_array(getattr(a, part), getattr(b, part))
        if names:
            assert a.class_names == b.class_names
        if not tables:
            assert a.member_names == b.member_names
    same_array(a.info.ids, b.info.ids)
    same_array(a.weights, b.weights)
    assert a.columns.keys() == b.columns.keys()
    for name in a.columns:
        same_array(a.columns[name], b.columns[name])
    if not tables:
        assert a.info.meta == b.info.meta


def softmax(z):
    return np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)


Z, LABELS = RNG.normal(size=(3, N, C)), RNG.integers(0, C, N)
SOFT = softmax(RNG.normal(size=(N, C)))
SOFT /= SOFT.sum(axis=1, keepdims=True)
REST = {
    "ids": np.array([f"row {k}" for k in range(N)]),
    "weights": RNG.random(N) + 0.1,
    "columns": {
        "age": RNG.normal(size=N),
        "site": np.array(["nörd, süd", 'a "b"', "line\nbreak"] * 6)[:N],
        "visit": np.arange(N) - 5,
        "dose": np.where(LABELS == 0, np.nan, -np.inf),
    },
}
META = {"method": "ensemble", "seed": 3, "shift": {"noise": [1, 2.5, None]}}
P1 = RNG.random(N)
SINGLES = {
    "logits": CAL.from_logits(Z[0], LABELS),
    "probs": CAL.from_probs(softmax(Z[0]), LABELS),
    "log-probs-with-zeros": CAL.from_log_probs(np.where(np.eye(C)[LABELS] > 0, 0.0, -np.inf), LABELS),
    "no-labels": CAL.from_logits(Z[0]),
    "named": CAL.from_logits(Z[0], LABELS, classes=["cat", "dog, wild", 'el"k']),
    "named-without-labels": CAL.from_logits(Z[0], classes=["cat", "dog", "elk"]),
    "named-by-numbers-in-another-order": CAL.from_logits(Z[0], LABELS, classes=["2", "0", "1"]),
    "named-with-leading-zeros": CAL.from_logits(Z[0], LABELS, classes=["01", "02", "03"]),
    "named-with-leading-zeros-and-one-label": CAL.from_logits(Z[0], 0 * LABELS, classes=["01", "02", "03"]),
    "named-like-floats": CAL.from_logits(Z[0], LABELS, classes=["1.0", "2.0", "nan"]),
    "float32": CAL.from_logits(Z[0].astype(np.float32), LABELS),
    "float16": CAL.from_logits(Z[0].astype(np.float16), LABELS),
    "with-everything": CAL.from_logits(Z[0], LABELS, classes=["cat", "dog", "elk"], meta=META, **REST),
    "binary-probs": CAL.from_probs(P1, LABELS > 0),
    "binary-logits": CAL.from_logits(Z[0, :, 0], LABELS > 0, **REST),
    "binary-named": CAL.from_probs(P1, (LABELS > 0).astype(int), classes=["sick", "well"]),
    "judged": cal.Judged.from_confidence(P1, LABELS > 0),
    "judged-with-everything": cal.Judged.from_confidence(P1, LABELS > 0, meta=META, **REST),
    "judged-unknown": cal.Judged.from_confidence(P1),
    "one-row": CAL.from_logits(Z[0, :1], LABELS[:1]),
}  # fmt: skip
MANY = {
    "members": CAL.from_logits(Z, LABELS),
    "members-named": CAL.from_logits(Z, LABELS, classes=["cat", "dog", "elk"], member_names=["a", "b", "c"], **REST),
    "members-probs": CAL.from_probs(softmax(Z), LABELS),
    "members-of-one-number": CAL.from_logits(Z[:, :, :1], LABELS > 0),
    "members-of-one-number-named": CAL.from_logits(Z[:, :, :1], (LABELS > 0).astype(int), classes=["sick", "well"]),
    "members-one-row": CAL.from_logits(Z[:, :1], LABELS[:1]),
    "judged-members": cal.Judged.from_confidence(RNG.random((2, N)), LABELS > 0),
    "judged-members-with-everything": cal.Judged.from_confidence(RNG.random((2, N)), LABELS > 0, meta=META, **REST),
}
SOFTS = {
    "soft-alone": CAL.from_logits(Z[0], label_probs=SOFT),
    "soft-members": CAL.from_logits(Z, label_probs=SOFT, classes=["cat", "dog", "elk"]),
}


@pytest.mark.parametrize("form", STORES)
@pytest.mark.parametrize("name", [*SINGLES, *MANY, *SOFTS])
def test_stores_give_back_everything_bit_for_bit(name, form, tmp_path):
    made = {**SINGLES, **MANY, **SOFTS}[name]
    back = there_and_back(made, form, tmp_path)
    assert_same_predictions(made, back)
    if isinstance(made, CAL):
        assert back.scores.dtype == made.scores.dtype


@pytest.mark.parametrize("name", SINGLES)
def test_csv_gives_back_single_models(name, tmp_path):
    made = SINGLES[name]
    named = isinstance(made, CAL) and made.class_names is not None
    assert_same_predictions(made, there_and_back(made, "csv", tmp_path), names=named, tables=True)


@pytest.mark.parametrize("name", [*SINGLES, *MANY, *SOFTS])
def test_jsonl_gives_back_all_but_meta_and_member_names(name, tmp_path):
    made = {**SINGLES, **MANY, **SOFTS}[name]
    assert_same_predictions(made, there_and_back(made, "jsonl", tmp_path), tables=True)


@pytest.mark.parametrize("name", [*(n for n in MANY), *SOFTS])
def test_csv_refuses_what_it_cannot_carry(name, tmp_path):
    with pytest.raises(UsageError, match="CSV: expected one member and hard labels"):
        cal.write({**MANY, **SOFTS}[name], tmp_path / "p.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", FORMATS)
def test_results_survive_the_file(form, tmp_path):
    made = SINGLES["with-everything"]
    back = there_and_back(made, form, tmp_path)
    first, second = (cal.evaluate(p, by=["visit:3", "site"], units="ids", resamples=50) for p in (made, back))
    assert json.loads(first.dumps())["results"][0] == json.loads(second.dumps())["results"][0] | {"input": made.name}


@pytest.mark.parametrize("form", STORES)
@pytest.mark.parametrize("column", ["file", "allow_pickle", "args", "arr_0", "a.npy", "a b", "größe", "CON"])
def test_any_column_name_can_be_stored(column, form, tmp_path):
    made = CAL.from_logits(Z[0], LABELS, columns={column: np.arange(N)})
    assert_same_predictions(made, there_and_back(made, form, tmp_path))


@pytest.mark.parametrize("column", ["../outside", "{}/outside", "a/b", "..", ".hidden/../x"])
def test_column_names_never_lead_out_of_the_folder(column, tmp_path):
    made = CAL.from_logits(Z[0], LABELS, columns={column.format(tmp_path): np.arange(N)})
    inside = tmp_path / "inside"
    try:
        assert_same_predictions(made, there_and_back(made, "folder", tmp_path / "inside" / "here"))
    except cal.CalibrantError:
        assert not inside.exists() or not any(inside.rglob("*.npy"))
    assert {path.name for path in tmp_path.iterdir()} <= {"inside"}
    if inside.exists():
        assert {path.name for path in inside.iterdir()} <= {"here", "p"}


# ------------------------------------------------------------------------------------ by hypothesis
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
floats = st.floats(-1e30, 1e30, allow_subnormal=True)


@st.composite
def classifications(draw, most=3, text=True):
    m, n, c = draw(st.integers(1, most)), draw(st.integers(1, 6)), draw(st.integers(2, 4))
    dtype = draw(st.sampled_from(["f4", "f8"]))
    scores = draw(hnp.arrays(dtype, (m, n, c), elements=st.floats(-1e3, 1e3, width=int(dtype[1]) * 8)))
    known = {"labels": draw(st.none() | hnp.arrays(np.int64, n, elements=st.integers(0, c - 1)))}
    if draw(st.booleans()):
        known["classes"] = draw(st.lists(names, min_size=c, max_size=c, unique=True))
    if draw(st.booleans()):
        known["weights"] = draw(hnp.arrays("f8", n, elements=st.floats(1e-3, 1e3)))
    if draw(st.booleans()):
        known["ids"] = draw(hnp.arrays(np.int64, n))
    if draw(st.booleans()):
        known["columns"] = {"x": draw(hnp.arrays("f8", n, elements=floats))}
    if text and draw(st.booleans()):
        known.setdefault("columns", {})["text"] = np.array(draw(st.lists(names, min_size=n, max_size=n)))
    return CAL.from_logits(scores, **known)


PLAUSIBLE = pytest.mark.filterwarnings("ignore:.*the logits lie in")
"""Drawn logits may happen to be a probability vector, which a reader warns about."""


@PLAUSIBLE
@quickly
@given(made=classifications(), form=st.sampled_from(STORES))
def test_any_classification_survives_a_store(made, form, tmp_path_factory):
    assert_same_predictions(made, there_and_back(made, form, tmp_path_factory.mktemp("store")))


@PLAUSIBLE
@quickly
@given(made=classifications())
def test_any_classification_survives_jsonl(made, tmp_path_factory):
    assert_same_predictions(made, there_and_back(made, "jsonl", tmp_path_factory.mktemp("jsonl")), tables=True)


@PLAUSIBLE
@quickly
@given(made=classifications(most=1, text=False))
def test_any_single_model_survives_csv(made, tmp_path_factory):
    back = there_and_back(made, "csv", tmp_path_factory.mktemp("csv"))
    assert_same_predictions(made, back, names=made.class_names is not None, tables=True)


# ------------------------------------------------------------------------------ renaming, members
@pytest.mark.parametrize("form", STORES)
def test_keys_are_renamed_on_the_way_in(form, tmp_path):
    arrays = {"logits_test": Z, "y": LABELS, "labels": LABELS * 0, "w": np.ones(N)}
    path = tmp_path / "p.npz"
    if form == "npz":
        np.savez(path, **arrays)
    else:
        path = tmp_path / "p"
        path.mkdir()
        for key, array in arrays.items():
            np.save(path / f"{key}.npy", array)
    read = cal.read(f"{path}::logits=logits_test,labels=y,weights=w")
    assert_same_predictions(read, CAL.from_logits(Z, LABELS, weights=np.ones(N)))
    in_python = cal.read(path, rename={"logits": "logits_test", "labels": "y", "weights": "w"})
    assert_same_predictions(read, in_python)


def test_arrays_that_are_not_renamed_become_columns(tmp_path):
    np.savez(tmp_path / "p.npz", scores=Z[0], labels=LABELS, age=np.arange(N), empty=LABELS)
    read = cal.read(f"{tmp_path / 'p.npz'}::logits=scores")
    assert set(read.columns) == {"age", "empty"}


def test_rename_of_a_column_of_a_table_means_what_the_option_means(tmp_path):
    """In a table a label is the name of a class first: 1 to 3 under probs_1 to probs_3."""
    path = tmp_path / "p.csv"
    path.write_text("y,probs_1,probs_2,probs_3\n1,0.7,0.2,0.1\n2,0.2,0.7,0.1\n")
    by_option = cal.read(path, columns={"labels": "y", "probs": "probs_*"})
    assert by_option.labels.tolist() == [0, 1]
    assert cal.read(f"{path}::labels=y").labels.tolist() == [0, 1]


@pytest.mark.parametrize("form", ["npz", "folder", "jsonl"])
def test_one_member_of_a_file(form, tmp_path):
    path = cal.write(MANY["members-named"], path_for(form, tmp_path))
    for k in range(3):
        read = cal.read(f"{path}::member={k}")
        assert_same_predictions(read, MANY["members-named"].member(k), tables=form == "jsonl")
        assert_same_predictions(read, cal.read(path, member=k), tables=form == "jsonl")
    with pytest.raises(UsageError, match="member: expected a number from 0 to 2"):
        cal.read(f"{path}::member=3")


def test_one_member_of_judged_answers(tmp_path):
    path = cal.write(MANY["judged-members"], tmp_path / "p.npz")
    assert (cal.read(f"{path}::member=1").confidence == MANY["judged-members"].confidence[1:]).all()
    with pytest.raises(UsageError, match="member: expected a number from 0 to 1"):
        cal.read(f"{path}::member=2")


def test_path_with_two_colons_can_be_read(tmp_path):
    folder = tmp_path / "a::b"
    folder.mkdir()
    cal.write(SINGLES["logits"], folder / "p.npz")
    assert_same_predictions(cal.read(f"{folder / 'p.npz'}::"), SINGLES["logits"])


# --------------------------------------------------------------------------------- what is ignored
@pytest.mark.parametrize("stray", [np.zeros((2, 2)), np.zeros(N + 1), np.float64(3.0), np.zeros((N, 1))], ids=np.shape)
def test_arrays_that_fit_nothing_are_ignored_with_a_warning(stray, tmp_path):
    np.savez(tmp_path / "p.npz", logits=Z, labels=LABELS, stray=stray)
    with pytest.warns(CalibrantWarning, match="'stray'") as caught:
        read = cal.read(tmp_path / "p.npz")
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert read.columns == {}
    assert [note.code for note in read.notes()] == ["ignored-arrays"]
    with pytest.raises(FileError, match=r"'stray'.*leave --strict out"):
        cal.read(tmp_path / "p.npz", strict=True)


def test_ignored_arrays_are_not_even_loaded(tmp_path):
    """An array that fits nothing may be as broken or as large as it likes."""
    (tmp_path / "p").mkdir()
    np.save(tmp_path / "p" / "logits.npy", Z)
    with (tmp_path / "p" / "stray.npy").open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (10**6,)})
        stream.truncate(stream.tell() + 8 * 10**6)
    with pytest.warns(CalibrantWarning, match="'stray'"):
        assert cal.read(tmp_path / "p").n == N


def test_nothing_is_ignored_silently(tmp_path):
    """Columns of judged answers with members are (N,) too, and stay."""
    columns = {"site": np.arange(N)}
    made = cal.Judged.from_confidence(RNG.random((2, N)), LABELS > 0, columns=columns)
    assert (there_and_back(made, "npz", tmp_path).columns["site"] == np.arange(N)).all()


def test_column_that_a_pattern_shadows_is_not_lost_silently(tmp_path):
    """`probs` beside `probs_a`, `probs_b`: two claims to one key are an error, as two kinds of scores are."""
    (tmp_path / "p.csv").write_text("probs,probs_a,probs_b,labels\n0.9,0.3,0.7,a\n0.9,0.3,0.7,b\n")
    with pytest.raises(cal.CalibrantError, match="probs"):
        cal.read(tmp_path / "p.csv")


# -------------------------------------------------------------------------------------- the outside
def test_name_and_fingerprint(tmp_path):
    path = cal.write(SINGLES["logits"], tmp_path / "clean digits.npz")
    read = cal.read(path)
    assert read.name == "clean digits"
    assert read.info.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert cal.evaluate(read, "nll").inputs[0]["sha256"] == read.info.sha256


def test_fingerprint_of_a_folder_tells_content_and_names(tmp_path):
    paths = [cal.write(SINGLES[name], f"{tmp_path / name}/") for name in ("logits", "probs")]
    again = cal.write(SINGLES["logits"], f"{tmp_path / 'again'}/")
    first, second, third = (cal.read(path).info.sha256 for path in (*paths, again))
    assert first == third != second


def test_fortran_order_and_foreign_bytes(tmp_path):
    np.savez(tmp_path / "p.npz", logits=np.asfortranarray(Z.astype(">f4")), labels=LABELS.astype(">i2"))
    assert_same_predictions(cal.read(tmp_path / "p.npz"), CAL.from_logits(Z.astype("f4"), LABELS))


def test_compressed_and_plain_archives_read_alike(tmp_path):
    np.savez(tmp_path / "a.npz", logits=Z, labels=LABELS)
    np.savez_compressed(tmp_path / "b.npz", logits=Z, labels=LABELS)
    assert_same_predictions(cal.read(tmp_path / "a.npz"), cal.read(tmp_path / "b.npz"))


def test_text_as_bytes_is_text(tmp_path):
    names = np.array(["cat", "dog", "elk"])
    np.savez(tmp_path / "p.npz", logits=Z, labels=names[LABELS].astype("S3"), classes=names.astype("S3"))
    assert_same_predictions(cal.read(tmp_path / "p.npz"), CAL.from_logits(Z, LABELS, classes=names))


def test_csv_of_a_spreadsheet(tmp_path):
    """A byte-order mark, Windows line ends, quoted numbers and blank lines at the end."""
    text = 'id,label,"p_cat","p_dog"\r\n7,cat,"0.75",0.25\r\n9,dog,.5,5e-1\r\n\r\n'
    (tmp_path / "p.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    read = cal.read(tmp_path / "p.csv", columns={"labels": "label", "probs": "p_*"})
    assert read.class_names == ("cat", "dog")
    assert read.labels.tolist() == [0, 1]
    assert read.scores.tolist() == [[[0.75, 0.25], [0.5, 0.5]]]
    assert read.columns["id"].tolist() == [7, 9]


@pytest.mark.parametrize(("right", "wrong"), [("1", "0"), ("true", "False"), ("YES", "no"), ("T", "f")])
def test_words_for_right_and_wrong(right, wrong, tmp_path):
    (tmp_path / "p.csv").write_text(f"conf,ok\n0.5,{right}\n0.25,{wrong}\n")
    read = cal.read(tmp_path / "p.csv", columns={"confidence": "conf", "correct": "ok"})
    assert read.correct.tolist() == [True, False]
    assert read.confidence.tolist() == [[0.5, 0.25]]


def test_single_column_of_a_binary_problem(tmp_path):
    (tmp_path / "p.csv").write_text("score,y\n0.5,1\n0.25,0\n")
    read = cal.read(tmp_path / "p.csv", columns={"labels": "y", "prob": "score"})
    assert (read.kind, read.classes, read.labels.tolist()) == ("probs", 2, [1, 0])
    assert read.scores.ravel().tolist() == [0.5, 0.25]


def test_bundled_files_are_read_without_a_warning(demo):
    for name, path in demo.items():
        read = cal.read(path)
        assert (read.kind, read.classes, read.members) == ("logits", 10, 20)
        assert read.has_labels == (name != "glyphs")
