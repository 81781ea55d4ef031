"""Posteriors in files: damaged, foreign or incomplete ones are refused in one line; writing is whole or not at all."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest
from damage import damaged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from safetensors import safe_open  # noqa: E402
from safetensors.torch import save as to_bytes  # noqa: E402
from training.cases import QUICK, SMALL, Normalised, images, numbers, same_bits, table  # noqa: E402

from calibrant.errors import CalibrantError, FileError, UsageError, WriteError  # noqa: E402
from calibrant.methods import (  # noqa: E402
    SWAG,
    Augmentation,
    BayesianRidge,
    DeepEnsemble,
    MCDropout,
    Task,
    Vanilla,
    augmented,
    load,
)
from calibrant.networks import MLP, LeNet  # noqa: E402
from calibrant.training.files import read_tensors, write_tensors  # noqa: E402

MADE = {
    "points": lambda: DeepEnsemble(QUICK, members=2).fit(table(), MLP(4, 3, (3,))),
    "masked": lambda: MCDropout(QUICK).fit(table(), MLP(4, 3, (3,))),
    "swag": lambda: SWAG(QUICK, start=1, draws=2).fit(table(), Normalised(width=2), start="fresh"),
    "linear": lambda: BayesianRidge().fit(numbers()),
    "augmented": lambda: augmented(Vanilla(QUICK).fit(images(), LeNet(3, 2, 8)), Augmentation(1)),
}
OWN = {"swag": Normalised(width=2)}


@pytest.fixture(scope="module", params=MADE)
def stored(request, tmp_path_factory):
    """A kind, the file of a posterior, its content, what it holds, and rows to predict."""
    path = tmp_path_factory.mktemp("stored") / "posterior.safetensors"
    made = MADE[request.param]()
    made.save(path)
    tensors, told = read_tensors(path, "posterior")
    x = {"augmented": images().x}.get(request.param, table().x)[:5]
    return request.param, path, path.read_bytes(), tensors, told, x


def tried(kind, path, x):
    """Load and predict: what comes, or our own refusal in one line; nothing else is let through."""
    try:
        made = load(path, OWN.get(kind))
        made.predict(x, min(2, made.max_members or 2))
    except CalibrantError as refusal:
        assert str(refusal).isprintable()  # noqa: PT017
        return refusal
    return made


# -------------------------------------------------------------------------------------------------- whole files
def test_what_is_stored_comes_back(stored):
    kind, path, content, tensors, _, x = stored
    path.write_bytes(content)
    back = load(path, OWN.get(kind))
    again = back.save(path.with_name("again.safetensors"))
    assert again.read_bytes() == content
    found = back.predict(x, 2 if kind != "points" else None)
    assert found.info.meta["method"] == back.about.method
    assert sum(value.numel() for value in tensors.values()) == sum(
        value.numel() for value in back.state_dict()[0].values()
    )


def test_loading_touches_no_random_numbers(stored):
    kind, path, content, _, _, _ = stored
    path.write_bytes(content)
    before = torch.get_rng_state()
    load(path, OWN.get(kind))
    assert torch.equal(torch.get_rng_state(), before)


# ---------------------------------------------------------------------------------------------------- damage
def test_a_truncated_file_is_refused_wherever_it_ends(stored):
    kind, path, content, _, _, x = stored
    for length in sorted({0, 1, 7, 8, 9, *range(0, len(content), len(content) // 25), len(content) - 1}):
        path.write_bytes(content[:length])
        assert isinstance(tried(kind, path, x), FileError)


def test_turned_bits_of_the_header_are_refused_or_do_not_matter(stored):
    kind, path, content, _, _, x = stored
    header = int.from_bytes(content[:8], "little")
    for place in range(0, 8 + header, 37):
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << (place // 37) % 7)]) + content[place + 1 :])
        tried(kind, path, x)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_of_any_kind_is_refused_in_one_line_or_does_not_matter(stored, data):
    kind, path, content, _, _, x = stored
    path.write_bytes(data.draw(damaged(content)))
    tried(kind, path, x)


@pytest.mark.parametrize("how", ["missing", "another shape", "another kind of number"])
def test_every_tensor_is_needed(stored, how):
    """Without x_mean, say, predictions would be those of raw rows."""
    kind, path, content, tensors, _, x = stored
    path.write_bytes(content)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    for lost in tensors:
        rest = {name: value for name, value in tensors.items() if name != lost}
        if how == "another shape":
            rest[lost] = torch.stack([tensors[lost].flatten()] * 3)
        elif how == "another kind of number":
            rest[lost] = tensors[lost].to(torch.int32 if tensors[lost].is_floating_point() else torch.float32)
        path.write_bytes(to_bytes(rest, metadata))
        assert isinstance(tried(kind, path, x), FileError), lost


def test_weights_that_are_missing_are_missed_where_the_sum_of_the_file_is_right(stored):
    kind, path, _, tensors, told, x = stored
    weights = [name for name in tensors if "weight" in name and not name.startswith(("deviation", "member1"))]
    assert weights or kind == "linear"
    for lost in weights or ["mean", "root"]:
        write_tensors(path, "posterior", {name: value for name, value in tensors.items() if name != lost}, told)
        assert isinstance(tried(kind, path, x), FileError), lost


ODD = [None, -1, 2.5, float("inf"), 10**30, "x", [1], {}, {"a": 1}]


def test_odd_facts_are_refused_or_do_not_matter(stored):
    """Also where the sum of the file is right."""
    kind, path, _, tensors, told, x = stored
    for key in told:
        for odd in (*ODD, "missing"):
            changed = {**told, key: odd}
            if odd == "missing":
                changed.pop(key)
            write_tensors(path, "posterior", tensors, changed)
            tried(kind, path, x)
    for key in ("name", "settings"):
        for odd in ODD:
            changed = {**told, "architecture": {**told["architecture"], key: odd}}
            write_tensors(path, "posterior", tensors, changed)
            assert isinstance(tried(kind, path, x), CalibrantError) or kind in OWN or odd == {}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0" * 64, b"not a posterior", to_bytes({"a": torch.zeros(2)}),
        to_bytes({}, {"checkpoint": "{}"}), to_bytes({}, {"posterior": "{"}), to_bytes({}, {"posterior": "3"}),
        to_bytes({}, {"posterior": "[" * 100_000}), to_bytes({}, {"posterior": "{}"}),
    ],
)  # fmt: skip
def test_another_kind_of_file_is_refused(tmp_path, content):
    path = tmp_path / "other.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        load(path)
    assert str(caught.value).isprintable()


def test_what_is_no_file_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "no" / "where"):
        with pytest.raises(FileError) as caught:
            load(path)
        assert str(caught.value).isprintable()


# --------------------------------------------------------------------------------------------------- writing
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    made = Vanilla(QUICK).fit(table(), SMALL)
    path = made.save(tmp_path / "posterior.safetensors")
    before = path.read_bytes()

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match="No space left on device") as caught:
        Vanilla(QUICK).fit(table(), SMALL, 1).save(path)
    assert str(caught.value).isprintable()
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["posterior.safetensors"]


def test_places_that_cannot_be_written_to(tmp_path):
    made = Vanilla(QUICK).fit(table(), SMALL)
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "nowhere" / "a", tmp_path / "file" / "a", tmp_path):
        with pytest.raises(WriteError) as caught:
            made.save(path)
        assert str(caught.value).isprintable()


# ------------------------------------------------------------------------------------------- kinds of numbers
@pytest.mark.parametrize("kind", ["uint8", "int8", "int16", "int32", "int64", "bool", "float16", "float32", "float64"])
def test_tables_of_all_kinds_of_numbers_come_back(tmp_path, kind):
    x = torch.from_numpy((10 * np.abs(table().x.numpy())).astype(kind))
    made = Vanilla(QUICK).fit(Task.classification(x, table().y, classes=3), SMALL)
    back = load(made.save(tmp_path / "posterior.safetensors"))
    assert same_bits(made, back)
    np.testing.assert_array_equal(back.predict(x).scores, made.predict(x).scores)


def test_a_network_that_is_given_is_held_against_the_weights(tmp_path):
    path = Vanilla(QUICK).fit(table(), SMALL).save(tmp_path / "posterior.safetensors")
    with pytest.raises((FileError, UsageError)):
        load(path, MLP(4, 3, (6, 6)))
    assert load(path, SMALL).predict(table().x).members == 1
