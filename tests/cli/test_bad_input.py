"""Bad input of every sort is refused with exit code 2 and one helpful line; nothing is written, nothing is harmed."""

import io
import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

RNG = np.random.default_rng(1)
N, C = 12, 3
LOGITS = RNG.normal(size=(N, C))
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
LABELS = RNG.integers(0, C, N)


def changed(array, place, value):
    """The array with one entry changed."""
    array = np.array(array)
    array[place] = value
    return array


def npy(shape, body, descr="<f8", version=1):
    """The bytes of a .npy stream whose header may say anything."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}\n".encode()
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + body


def archive(folder, declared=None, **members):
    """A .npz of raw members, the last of which may declare another size than it has."""
    path = folder / "bad.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as stream:
        for name, body in members.items():
            info = zipfile.ZipInfo(f"{name}.npy")
            info.compress_type = zipfile.ZIP_DEFLATED
            stream.writestr(info, body)
        if declared is not None:
            info.file_size = declared
    return path


def raw(content, name="bad.npz"):
    """A case: a file of these bytes."""

    def make(folder):
        (folder / name).write_bytes(content)
        return ["evaluate", folder / name]

    return make


def npz(*options, **arrays):
    """A case: an archive of these arrays; scores and labels are sound unless said otherwise (None leaves one out)."""

    def make(folder):
        scores = {} if {"logits", "probs", "log_probs", "confidence"} & set(arrays) else {"logits": LOGITS}
        labels = {} if "confidence" in arrays else {"labels": LABELS}
        given = {key: value for key, value in {**scores, **labels, **arrays}.items() if value is not None}
        np.savez(folder / "bad.npz", **given)
        return ["evaluate", folder / "bad.npz", *options]

    return make


def folder_of(**streams):
    """A case: a folder of raw .npy streams beside sound ones."""

    def make(folder):
        inside = folder / "predictions"
        inside.mkdir()
        np.save(inside / "logits.npy", LOGITS)
        np.save(inside / "labels.npy", LABELS)
        for name, stream in streams.items():
            (inside / f"{name}.npy").write_bytes(stream)
        return ["evaluate", inside]

    return make


def sound(*options, suffix="", command="evaluate"):
    """A case: sound predictions with these options, or this text after the path."""

    def make(folder):
        path = folder / "good.npz"
        np.savez(path, logits=np.stack([LOGITS, LOGITS]), labels=LABELS, age=np.arange(N) / 2.0, site=["a"] * N)
        return [command, f"{path}{suffix}", *options]

    return make


def saved(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def damaged_body(folder):
    """One bit of the scores is turned, so that they do not fit their checksum."""
    content = bytearray(saved(logits=LOGITS, labels=LABELS))
    content[content.index(LOGITS.tobytes()) + 5] ^= 1
    return raw(bytes(content))(folder)


def encrypted(folder):
    """An archive that says it is encrypted."""
    content = bytearray(saved(logits=LOGITS))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return raw(bytes(content))(folder)


def pickled_labels(folder):
    np.savez(folder / "bad.npz", logits=LOGITS, labels=np.array([{"a": 1}] * N, dtype=object))
    return ["evaluate", folder / "bad.npz"]


def object_stream():
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}] * N, dtype=object), allow_pickle=True)
    return stream.getvalue()


def empty_folder(folder):
    (folder / "empty").mkdir()
    return ["evaluate", folder / "empty"]


def folder_with_a_folder_for_an_array(folder):
    (folder / "odd" / "logits.npy").mkdir(parents=True)
    return ["evaluate", folder / "odd"]


def many_groups(folder):
    n = 1001
    np.savez(folder / "bad.npz", logits=RNG.normal(size=(n, 2)), labels=np.zeros(n, int), patient=np.arange(n))
    return ["evaluate", folder / "bad.npz", "--by", "patient", "-m", "nll"]


LONG = "/".join(["x" * 200] * 4)

FILES = {
    "missing-file": (lambda folder: ["evaluate", folder / "nothing.npz"], "expected an existing file, got none"),
    "missing-file-of-a-very-long-name": (lambda folder: ["evaluate", folder / f"{LONG}.npz"], "expected"),
    "empty-file": (raw(b""), "unreadable"),
    "truncated-archive": (raw(saved(logits=LOGITS, labels=LABELS)[:-150]), "truncated"),
    "truncated-in-the-middle": (raw(saved(logits=LOGITS, labels=LABELS)[:200]), "truncated"),
    "random-bytes": (raw(np.random.default_rng(3).bytes(4000)), "unreadable"),
    "a-pickle-for-an-archive": (raw(pickle.dumps({"logits": LOGITS})), "unreadable"),
    "a-single-npy-for-an-archive": (raw(npy((N, C), LOGITS.tobytes())), "unreadable"),
    "an-archive-of-nothing": (raw(b"PK\x05\x06" + bytes(18)), "nothing"),
    "encrypted-archive": (encrypted, "encrypted"),
    "pickled-objects-in-an-archive": (pickled_labels, "pickled objects are never loaded"),
    "pickled-objects-in-a-folder": (folder_of(ids=object_stream()), "pickled objects are never loaded"),
    "checksum-differs": (damaged_body, "CRC"),
    "declares-terabytes": (lambda f: ["evaluate", archive(f, logits=npy((2**40, 3), b""))], "bytes after the header"),
    "declares-terabytes-twice": (
        lambda f: ["evaluate", archive(f, declared=2**43 + 128, logits=npy((2**40,), bytes(1 << 20)))],
        "bytes after the header",
    ),
    "declares-an-endless-shape": (lambda f: ["evaluate", archive(f, logits=npy((2**70, 3), b""))], "logits"),
    "endless-empty-text": (folder_of(labels=npy((2**40,), b"", "<U0")), "labels.npy"),
    "header-of-many-megabytes": (
        lambda f: [
            "evaluate",
            archive(f, logits=b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 24) + b" " * (1 << 24)),
        ],
        "header",
    ),
    "header-too-long": (folder_of(logits=npy((N + 1, C), LOGITS.tobytes())), "bytes after the header"),
    "header-too-short": (folder_of(logits=npy((N - 1, C), LOGITS.tobytes())), "bytes after the header"),
    "header-too-long-in-an-archive": (
        lambda f: ["evaluate", archive(f, logits=npy((N + 1, C), LOGITS.tobytes()))],
        "bytes after the header",
    ),
    "size-too-long-in-an-archive": (
        lambda f: ["evaluate", archive(f, declared=len(npy((N, C), bytes(8 * N * C))), logits=npy((N, C), b"1"))],
        "truncated or damaged",
    ),
    "negative-shape": (folder_of(logits=npy((-N, -C), LOGITS.tobytes())), "logits.npy"),
    "shape-beyond-numpy": (folder_of(logits=npy((2**70, 0), b"")), "logits.npy"),
    "a-hundred-dimensions": (folder_of(logits=npy((1,) * 100, bytes(8))), "logits.npy"),
    "text-beyond-unicode": (folder_of(labels=npy((N,), b"\xff" * 4 * N, "<U1")), "labels"),
    "names-beyond-unicode": (folder_of(classes=npy((C,), b"\xff" * 4 * C, "<U1")), "classes"),
    "meta-beyond-unicode": (folder_of(meta=npy((), b"\xff" * 4, "<U1")), "meta"),
    "bytes-that-are-no-text": (folder_of(labels=npy((N,), b"\xff" * N, "|S1")), "labels"),
    "not-a-stream": (folder_of(labels=b"labels"), "an unreadable header"),
    "unknown-stream-version": (folder_of(labels=npy((N,), LABELS.tobytes(), "<i8", version=9)), "an unreadable header"),
    "code-in-a-header": (folder_of(labels=npy((N,), b"", "__import__('os').getcwd()")), "an unreadable header"),
    "empty-folder": (empty_folder, "a folder without any"),
    "folder-with-a-folder-for-an-array": (folder_with_a_folder_for_an_array, "readable file"),
    "unsupported-extension": (raw(b"predictions", "bad.pkl"), ".pkl"),
    "no-extension": (raw(b"predictions", "bad"), "the suffix ''"),
}

ARRAYS = {
    "nan": (npz(logits=changed(LOGITS, (3, 1), np.nan)), "nan in row 3, class 1"),
    "plus-infinity": (npz(logits=changed(LOGITS, (4, 0), np.inf)), "row 4, class 0"),
    "nan-in-one-member": (npz(logits=np.stack([LOGITS, changed(LOGITS, (5, 2), np.nan)])), "member 1"),
    "row-of-minus-infinity": (npz(logits=changed(LOGITS, 6, -np.inf)), "row 6"),
    "negative-probability": (npz(probs=changed(PROBS, (2, 0), -0.1)), "at least 0"),
    "probabilities-not-normalised": (npz(probs=PROBS * 1.01), "sum to 1"),
    "probabilities-beyond-all-bounds": (npz(probs=np.full((N, C), 1e308)), "sum to"),
    "log-probabilities-not-normalised": (npz(log_probs=LOGITS), "sum to 1"),
    "probability-of-class-1-above-one": (npz(probs=np.full(N, 1.5), labels=LABELS > 0), "from 0 to 1"),
    "log-probability-of-class-1-above-zero": (npz(log_probs=np.full(N, 0.1), labels=LABELS > 0), "row 0"),
    "nan-for-class-1": (npz(probs=changed(np.full(N, 0.5), 7, np.nan), labels=LABELS > 0), "row 7"),
    "label-out-of-range": (npz(labels=changed(LABELS, 0, C)), "from 0 to 2"),
    "negative-label": (npz(labels=changed(LABELS, 0, -1)), "from -1"),
    "labels-of-floats": (npz(labels=LABELS.astype(float)), "float64"),
    "labels-of-text-without-classes": (npz(labels=np.array(["cat"] * N)), "'cat'"),
    "unknown-class-name": (npz(labels=np.array(["cow"] * N), classes=np.array(["cat", "dog", "elk"])), "'cow'"),
    "duplicate-class-names": (npz(classes=np.array(["cat", "dog", "cat"])), "'cat' twice"),
    "too-few-class-names": (npz(classes=np.array(["cat", "dog"])), "3 names"),
    "too-many-member-names": (npz(member_names=np.array(["a", "b"])), "1 names"),
    "labels-of-another-length": (npz(labels=LABELS[:-1]), "shape (12,)"),
    "labels-one-hot": (npz(labels=np.eye(C, dtype=int)[LABELS]), "labels"),
    "soft-labels-of-another-shape": (npz(label_probs=PROBS[:, :2]), "(12, 3)"),
    "soft-labels-not-normalised": (npz(label_probs=changed(PROBS, (8, 0), 2.0)), "row 8"),
    "soft-labels-infinite": (npz(label_probs=changed(changed(PROBS, (8, 0), np.inf), (8, 1), -np.inf)), "row 8"),
    "weights-of-another-length": (npz(weights=np.ones(N + 1)), "weights"),
    "negative-weight": (npz(weights=changed(np.ones(N), 0, -1)), "at least 0"),
    "nan-weight": (npz(weights=changed(np.ones(N), 0, np.nan)), "finite"),
    "infinite-weight": (npz(weights=changed(np.ones(N), 0, np.inf)), "finite"),
    "weights-all-zero": (npz(weights=np.zeros(N)), "not all 0"),
    "weights-of-text": (npz(weights=np.array(["1"] * N)), "weights"),
    "ids-of-another-length": (npz(ids=np.arange(N - 1)), "ids"),
    "no-rows": (npz(logits=LOGITS[:0], labels=LABELS[:0]), "at least one row"),
    "one-class": (npz(logits=LOGITS[:, :1]), "two classes"),
    "no-classes": (npz(logits=LOGITS[:, :0]), "(12, 0)"),
    "no-members": (npz(logits=np.empty((0, N, C))), "(0, 12, 3)"),
    "four-dimensions": (npz(logits=LOGITS[None, None]), "(1, 1, 12, 3)"),
    "no-dimension": (npz(logits=np.array(0.5)), "()"),
    "complex-scores": (npz(logits=LOGITS + 0j), "complex128"),
    "dates-for-scores": (npz(logits=np.zeros((N, C), "M8[s]")), "datetime64"),
    "structured-scores": (npz(logits=np.zeros(N, [("a", "f8"), ("b", "f8")])), "numbers or text"),
    "boolean-scores": (npz(logits=LOGITS > 0), "bool"),
    "text-for-scores": (npz(logits=LOGITS.astype(str)), "real numbers"),
    "both-logits-and-probs": (npz(logits=LOGITS, probs=PROBS), "logits, probs"),
    "no-scores": (npz(logits=None), "'labels'"),
    "mean-without-spread": (npz(logits=None, labels=None, mean=LOGITS[:, 0]), "exactly one of std and var"),
    "confidence-above-one": (npz(confidence=np.full(N, 90.0), correct=LABELS > 0), "90.0"),
    "confidence-below-zero": (npz(confidence=np.full(N, -0.1), correct=LABELS > 0), "-0.1"),
    "confidence-nan": (npz(confidence=np.full(N, np.nan), correct=LABELS > 0), "nan"),
    "confidence-of-no-rows": (npz(confidence=np.empty(0), correct=np.empty(0, bool)), "at least one row"),
    "correct-neither-zero-nor-one": (npz(confidence=PROBS[:, 0], correct=LABELS + 1), "0 and 1"),
    "correct-of-floats": (npz(confidence=PROBS[:, 0], correct=PROBS[:, 0]), "float64"),
    "correct-of-another-length": (npz(confidence=PROBS[:, 0], correct=LABELS[1:] > 0), "shape (12,)"),
    "confidence-and-logits": (npz(confidence=PROBS[:, 0], logits=LOGITS), "logits, confidence"),
    "meta-is-not-json": (npz(meta=np.array("method: ensemble")), "JSON"),
    "meta-is-a-number": (npz(meta=np.array(3)), "JSON object"),
    "meta-is-empty": (npz(meta=np.array([], dtype="U1")), "JSON object"),
    "meta-is-a-tower-of-brackets": (npz(meta=np.array("[" * 100_000)), "JSON object"),
}

USAGE = {
    "rename-of-an-unknown-key": (sound(suffix="::logit=scores"), "did you mean 'logits'?"),
    "rename-to-a-missing-array": (sound(suffix="::logits=scores"), "'scores'"),
    "rename-without-a-name": (sound(suffix="::logits="), "KEY=NAME"),
    "rename-without-an-equals-sign": (sound(suffix="::logits"), "KEY=NAME"),
    "member-out-of-range": (sound(suffix="::member=2"), "from 0 to 1"),
    "member-of-judged-answers-out-of-range": (
        lambda f: [*npz(confidence=PROBS[:, 0])(f)[:1], f"{f / 'bad.npz'}::member=1"],
        "from 0 to 0",
    ),
    "member-not-a-number": (sound(suffix="::member=last"), "'last'"),
    "member-negative": (sound(suffix="::member=-1"), "'-1'"),
    "member-a-superscript": (sound(suffix="::member=²"), "member"),
    "member-of-too-many-digits": (sound(suffix="::member=" + "9" * 5000), "member"),
    "unknown-metric": (sound("-m", "nll,breir"), "did you mean 'brier'?"),
    "unknown-option-of-a-metric": (sound("-m", "ece(bin=10)"), "did you mean 'bins'?"),
    "option-of-a-metric-without-any": (sound("-m", "accuracy(bins=3)"), "expected no options"),
    "bad-value-of-an-option": (sound("-m", "ece(bins=ten)"), "integer"),
    "value-of-an-option-out-of-range": (sound("-m", "ece(bins=0)"), "an integer from 1 to"),
    "option-without-a-value": (sound("-m", "ece(bins)"), "option=value"),
    "malformed-spec": (sound("-m", "ece(bins=10"), "'ece(bins=10'"),
    "malformed-name": (sound("-m", "nll;brier"), "NAME"),
    "no-metric": (sound("-m", ""), "got no metrics"),
    "metric-that-does-not-apply": (npz("-m", "mutual_information"), "more than one member"),
    "unknown-class-of-a-metric": (sound("-m", "ece(of=cat)"), "'cat'"),
    "unknown-metric-card": (lambda f: ["metrics", "eces"], "did you mean 'ece'?"),
    "unknown-column-to-slice-by": (sound("--by", "agee"), "did you mean 'age'?"),
    "unknown-column-of-units": (sound("--units", "sit"), "did you mean 'site'?"),
    "ranges-not-a-number": (sound("--by", "age:many"), "COLUMN:BINS"),
    "ranges-a-superscript": (sound("--by", "age:²"), "BINS"),
    "ranges-of-text": (sound("--by", "site:3"), "'site'"),
    "no-ranges": (sound("--by", "age:0"), "an integer of at least 1"),
    "too-many-groups": (many_groups, "patient:10"),
    "level-zero": (sound("--level", "0"), "between 0 and 1"),
    "level-in-percent": (sound("--level", "95"), "between 0 and 1"),
    "level-nan": (sound("--level", "nan"), "between 0 and 1"),
    "too-few-resamples": (sound("--resamples", "19"), "from 20 to"),
    "negative-seed": (sound("--seed", "-1"), "got -1"),
    "seed-beyond-64-bits": (sound("--seed", str(2**64)), "seed"),
    "no-threads": (sound("--threads", "0"), "at least 1"),
    "unknown-format": (sound("--format", "tabel"), "did you mean 'table'?"),
    "column-options-on-an-archive": (sound("--labels", "y"), "FILE::key=name"),
    "soft-without-soft-labels": (sound("--soft"), "label_probs"),
    "describe-a-missing-file": (
        lambda folder: ["describe", folder / "nothing.npz"],
        "expected an existing file, got none",
    ),
    "describe-bad-probabilities": (lambda f: ["describe", *npz(probs=PROBS * 2)(f)[1:]], "sum to 1"),
    "second-of-two-files-is-bad": (lambda f: [*sound()(f), f / "nothing.npz"], "nothing.npz"),
    "result-into-a-missing-folder": (lambda f: [*sound()(f), "--json", f / "no" / "out.json"], "No such file"),
    "result-into-a-folder": (lambda f: [*sound()(f), "--json", f], "directory"),
    "result-under-too-long-a-name": (lambda f: [*sound()(f), "--json", f / ("x" * 300)], "too long"),
    "result-below-a-file": (lambda f: [*sound()(f), "--json", f / "good.npz" / "out.json"], "Not a directory"),
}

CASES = {**FILES, **ARRAYS, **USAGE}
IN_A_PROCESS = ("pickled-objects-in-an-archive", "nan", "unknown-metric")


@pytest.mark.parametrize("name", CASES)
def test_refused_with_one_helpful_line(name, tmp_path, run_here, expect_refusal):
    make, said = CASES[name]
    expect_refusal(run_here, make(tmp_path), [said])


@pytest.mark.parametrize("name", IN_A_PROCESS)
def test_refused_alike_by_the_program_itself(name, tmp_path, run_cli, expect_refusal):
    make, said = CASES[name]
    expect_refusal(run_cli, make(tmp_path), [said])


def test_archive_that_unpacks_beyond_the_limit_is_not_unpacked(tmp_path, monkeypatch, run_here, expect_refusal):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, logits=np.zeros((2000, 100)), labels=np.zeros(2000, int))
    assert path.stat().st_size < 10_000
    monkeypatch.setenv("CALIBRANT_MAX_BYTES", "1000000")
    expect_refusal(run_here, ["evaluate", path], ["CALIBRANT_MAX_BYTES"])
    monkeypatch.setenv("CALIBRANT_MAX_BYTES", "1616000")  # the logits and the labels, to the byte
    assert run_here("evaluate", path, "-m", "accuracy").code == 0


def test_long_header_is_refused_before_it_is_unpacked(tmp_path):
    """A few kilobytes must not become gigabytes, not even in a header."""
    import tracemalloc

    from calibrant import CalibrantError, read

    size = 1 << 25
    path = archive(tmp_path, logits=b"\x93NUMPY\x02\x00" + struct.pack("<I", size) + b" " * size)
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(CalibrantError, match="header"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < size // 4
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_no_right_to_read(tmp_path, run_here, expect_refusal):
    args = sound()(tmp_path)
    Path(args[1]).chmod(0)
    try:
        expect_refusal(run_here, args, ["Permission denied"])
    finally:
        Path(args[1]).chmod(0o600)


@pytest.mark.parametrize("kind", ["archive", "folder", "table"])
def test_no_right_to_read_is_said_so(kind, tmp_path, monkeypatch, run_here, expect_refusal):
    makes = {"archive": sound(), "folder": folder_of(), "table": raw(b"labels,probs_0,probs_1\n0,1,0\n", "bad.csv")}
    args = makes[kind](tmp_path)

    def deny(*_, **__):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.open", deny)
        patch.setattr("zipfile.ZipFile", deny)
        ran = run_here(*args)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "Permission denied" in ran.err
    assert "damaged" not in ran.err
