"""Data sets: their published files converted, verified, loaded, and refused when they are something else."""

import gzip
import io
import struct
import tarfile

import numpy as np
import pytest
from scipy.io import savemat

from calibrant.data import (
    DATASETS,
    Vocabulary,
    click_rows,
    criteo_blocks,
    images,
    newsgroups,
    preparation,
    sources,
    transfer,
)
from calibrant.data import cifar10c as load_cifar10c
from calibrant.data.catalogue import Dataset, Source, Stored
from calibrant.data.preparation import contents_sha256, prepare
from calibrant.errors import CalibrantError

RNG = np.random.default_rng(0)


def tar_of(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def idx_of(path, array):
    with gzip.open(path, "wb") as stream:
        stream.write(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())


def test_cifar_binary(tmp_path):
    planes = RNG.integers(0, 256, (7, 3, 32, 32), dtype=np.uint8)
    fine, coarse = np.arange(7, dtype=np.uint8), np.arange(7, dtype=np.uint8) // 2
    rows = np.concatenate([coarse[:, None], fine[:, None], planes.reshape(7, -1)], 1)
    tar_of(tmp_path / "a.tar.gz", {"x/train.bin": rows.tobytes(), "x/test.bin": rows[:2].tobytes(), "x/readme": b""})
    train, test = sources.cifar_binary(tmp_path / "a.tar.gz", ("x/train.bin", "x/test.bin"), 2)
    np.testing.assert_array_equal(train["images"], planes.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(train["labels"], fine)
    np.testing.assert_array_equal(test["coarse_labels"], coarse[:2])


def test_idx_and_svhn(tmp_path):
    values = RNG.integers(0, 256, (5, 4, 3), dtype=np.uint8)
    idx_of(tmp_path / "a.gz", values)
    np.testing.assert_array_equal(sources.idx(tmp_path / "a.gz"), values)
    pictures = RNG.integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
    savemat(tmp_path / "a.mat", {"X": pictures, "y": np.array([[1], [10], [3], [9]], np.uint8)})
    stored = sources.svhn(tmp_path / "a.mat")
    np.testing.assert_array_equal(stored["images"][1], pictures[..., 1])
    np.testing.assert_array_equal(stored["labels"], [1, 0, 3, 9])


def test_newsgroups_and_sentences(tmp_path):
    tar_of(
        tmp_path / "n.tar.gz",
        {
            "20news-bydate-test/b.c/7": b"caf\xe9",
            "20news-bydate-train/b.c/2": b"two",
            "20news-bydate-train/a.b/1": b"one",
        },
    )
    posts = sources.newsgroups(tmp_path / "n.tar.gz")
    assert posts["train"]["label_names"].tolist() == ["a.b", "b.c"]
    assert posts["train"]["labels"].tolist() == [0, 1]
    assert posts["train"]["text"].tobytes() == b"onetwo"
    assert posts["test"]["text"].tobytes().decode("latin-1") == "café"


@pytest.mark.parametrize("read", [sources.idx, sources.svhn, sources.newsgroups, sources.billion_words])
@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x08junk", b"MATLAB 5.0 MAT-file" + bytes(200)])
def test_damaged_sources_end_in_one_line(read, content, tmp_path):
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(CalibrantError, match="download it again"):
        read(path)


def test_a_large_claim_is_not_allocated(tmp_path):
    with gzip.open(tmp_path / "a.gz", "wb") as stream:
        stream.write(struct.pack(">HBB3I", 0, 8, 3, 1 << 31, 1 << 31, 1))
    with pytest.raises(CalibrantError, match="idx"):
        sources.idx(tmp_path / "a.gz")


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A data set "toy" of two idx files that "download" copies."""
    published = tmp_path / "published"
    published.mkdir()
    x, y = RNG.integers(0, 256, (6, 5, 5), dtype=np.uint8), np.arange(6, dtype=np.uint8)
    for name, array in (("a.gz", x), ("b.gz", y), ("c.gz", x), ("d.gz", y)):
        idx_of(published / name, array)

    def copy(url, path, sha256, *, size=None, progress=None):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((published / path.name).read_bytes())
        return path

    shapes = {"images": (6, 5, 5), "labels": (6,)}
    digest = contents_sha256({"images": x, "labels": y}, ("images", "labels"))
    files = (Stored("toy/toy_train.npz", shapes, digest), Stored("toy/toy_test.npz", shapes))
    listed = tuple(Source(f"http://127.0.0.1/{name}.gz", "", 0) for name in "abcd")
    monkeypatch.setitem(DATASETS, "toy", Dataset("toy", "", "", "", "", files, listed))
    monkeypatch.setitem(preparation.CONVERTERS, "toy", preparation._idx_pairs)
    monkeypatch.setattr(preparation, "download", copy)
    return x, y


def test_prepare_makes_the_layout_and_verifies_it(toy, tmp_path):
    folder = tmp_path / "data"
    paths = prepare("toy", folder)
    assert [path.name for path in paths] == ["toy_train.npz", "toy_test.npz"]
    x, y = images("toy", "train", folder)
    np.testing.assert_array_equal(x, toy[0])
    np.testing.assert_array_equal(y, toy[1])
    before = paths[0].stat().st_mtime_ns
    paths[1].unlink()
    prepare("toy", folder)  # makes the absent one, and leaves the other alone
    assert paths[0].stat().st_mtime_ns == before
    assert paths[1].exists()


def test_a_folder_that_is_not_the_data_set(toy, tmp_path):
    folder = tmp_path / "data"
    path = prepare("toy", folder)[0]
    for wrong, words in (
        ({"images": toy[0], "labels": toy[1][::-1]}, "another SHA-256"),
        ({"images": toy[0][:3], "labels": toy[1][:3]}, "6 × 5 × 5, got 3 × 5 × 5"),
        ({"pictures": toy[0]}, "the array images"),
    ):
        np.savez(path, **wrong)
        with pytest.raises(CalibrantError, match=words):
            prepare("toy", folder)
    path.write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(CalibrantError, match=r"data set as \.npz"):
        prepare("toy", folder)
    np.savez(path, pictures=toy[0])
    with pytest.raises(CalibrantError, match="other names or shapes"):
        images("toy", "train", folder)


def test_real_files_are_those_of_the_catalogue(data_folder):
    for name in ("yacht", "bostonHousing", "criteo_sample", "newsgroups", "lm1b", "svhn_10k"):
        assert all(path.exists() for path in prepare(name, data_folder))


def test_catalogue_is_complete():
    for dataset in DATASETS.values():
        assert dataset.licence
        assert dataset.citation
        assert dataset.sources or dataset.obtain or dataset.name == "digits"
        assert bool(dataset.sources) == (dataset.name in preparation.CONVERTERS)
        for source in dataset.sources:
            assert len(source.sha256) == 64
            assert source.url.startswith(("https://", "http://"))
    assert transfer.ATTEMPTS > 1


def test_digits_need_no_folder():
    pytest.importorskip("sklearn")
    (x, _), (test, labels) = images("digits"), images("digits", "test")
    assert (x.shape, test.shape) == ((1297, 8, 8), (500, 8, 8))
    assert x.max() == 255
    assert set(labels) == set(range(10))


def test_published_corruptions(tmp_path, monkeypatch):
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    with pytest.raises(CalibrantError, match="zenodo"):
        load_cifar10c("fog", 3, tmp_path)
    np.save(folder / "fog.npy", np.zeros((5, 32, 32, 3), np.uint8))
    with pytest.raises(CalibrantError, match="50000"):
        load_cifar10c("fog", 3, tmp_path)


# ------------------------------------------------------------------------------------------------ text and clicks
def test_newsgroups_of_the_folder(data_folder):
    texts, labels, names = newsgroups("test", data_folder)
    assert (len(texts), len(labels), len(names)) == (7532, 7532, 20)
    assert all("Newsgroups:" in text or "From:" in text for text in texts)  # headers are kept


def test_vocabulary_orders_by_frequency_then_name():
    words = Vocabulary.of(["b b a c", "c d"], size=5)
    assert words.words == ("b", "c", "a")
    assert len(words) == 5
    np.testing.assert_array_equal(words.indices(["d c b b", ""], 3), [[1, 3, 2], [0, 0, 0]])


def test_click_log_in_blocks(tmp_path):
    lines = ["1\t" + "\t".join(["3"] + [""] * 12) + "\t" + "\t".join(["68fd1e64"] + [""] * 25)]
    lines += ["0\t" + "\t".join(["-1"] * 13) + "\t" + "\t".join(["0000000f"] * 26)]
    path = tmp_path / "train.txt"
    path.write_text("\n".join(lines * 5) + "\n")
    blocks = list(criteo_blocks(path, rows=3))
    assert [len(y) for _, y in blocks] == [3, 3, 3, 1]
    x, y = (np.concatenate(each) for each in zip(*blocks, strict=True))
    np.testing.assert_array_equal(y, [1, 0] * 5)
    np.testing.assert_allclose(x[0, :2], [np.log(4), 0])
    np.testing.assert_allclose(x[1, :13], -np.log(2), rtol=1e-6)
    assert x[0, 13] > 0
    assert not x[0, 14:].any()
    path.write_text(lines[0] + "\n" + "2\t" + lines[0][2:] + "\n")
    with pytest.raises(CalibrantError, match="row 1"):
        list(criteo_blocks(path))
    with pytest.raises(CalibrantError, match=r"train\.txt"):
        list(criteo_blocks(tmp_path / "none"))


def test_buckets_are_used_evenly():
    tokens = RNG.integers(0, 1 << 32, (20_000, 26), dtype=np.uint32)
    x = click_rows(np.zeros((20_000, 13)), tokens, np.zeros(tokens.shape, bool))
    from calibrant.data.clicks import BUCKETS

    for column, buckets in enumerate(BUCKETS):
        counts = np.bincount(x[:, 13 + column].astype(int), minlength=buckets)
        assert len(counts) == buckets
        assert counts[0] == 0
        assert counts[1:].max() < 10 + 2.5 * 20_000 / (buckets - 1)
