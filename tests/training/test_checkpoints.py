"""Checkpoints: what is damaged or belongs to another training is refused; what is stopped goes on to the same end."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import replace

import pytest
from damage import damaged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from safetensors.torch import save  # noqa: E402
from training.cases import QUICK, SMALL, Normalised, images, numbers, rows_of, same_bits, table  # noqa: E402

from calibrant.errors import CalibrantError, FileError, WriteError  # noqa: E402
from calibrant.methods import (  # noqa: E402
    SWAG,
    Augmentation,
    Cell,
    CyclicalSGLD,
    DeepEnsemble,
    FastGeometricEnsemble,
    FixedGaussian,
    LastLayerDropout,
    MCDropout,
    SnapshotEnsemble,
    Task,
    Vanilla,
    fit_together,
)
from calibrant.networks import MLP, LeNet  # noqa: E402
from calibrant.training.files import read_tensors, write_tensors  # noqa: E402
from calibrant.training.schedules import Cosine  # noqa: E402

LONG = replace(QUICK, epochs=6)
PLAIN = Vanilla(QUICK)


@pytest.fixture(autouse=True)
def _after_every_epoch(monkeypatch):
    """However long writing takes."""
    monkeypatch.setattr("calibrant.training.loop.CHECKPOINT_RATIO", 0.0)


class StoppedError(Exception):
    """A user who has had enough."""


def stop_at(epoch):
    """Progress that stops at an epoch, counted from 0."""

    def progress(what, now, of):
        if now == epoch:
            raise StoppedError

    return progress


def file_of(folder):
    return folder / "group0" / "part0.safetensors"


# ------------------------------------------------------------------------------------------------- going on
@pytest.mark.parametrize("epoch", [1, 4])
@pytest.mark.parametrize(
    ("method", "task", "network"),
    [
        (DeepEnsemble(LONG, members=3), table, SMALL),
        (MCDropout(replace(LONG, clip=0.5)), lambda: images(augment=Augmentation(1)), LeNet(3, 2, 8)),
        (FastGeometricEnsemble(LONG, start=2, cycle=2), table, Normalised()),
        (SWAG(LONG, start=2, rank=2), numbers, MLP(4, 2, (5,))),
        (CyclicalSGLD(LONG, cycles=2, samples=2), table, SMALL),
    ],
    ids=["ensemble", "dropout", "fge", "swag", "csgld"],
)
def test_what_was_stopped_goes_on_to_the_same_end(tmp_path, method, task, network, epoch):
    task = task()
    whole = method.fit(task, network, 2, start="fresh")
    with pytest.raises(StoppedError):
        method.fit(task, network, 2, checkpoint=tmp_path, progress=stop_at(epoch), start="fresh")
    assert file_of(tmp_path).exists()
    assert same_bits(method.fit(task, network, 2, checkpoint=tmp_path, start="fresh"), whole)


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    first = PLAIN.fit(table(), SMALL, checkpoint=tmp_path)
    monkeypatch.setattr("calibrant.training.loop.TrainingLoop.step", None)
    assert same_bits(PLAIN.fit(table(), SMALL, checkpoint=tmp_path), first)


def test_parts_and_groups_have_files_of_their_own(tmp_path):
    task, other = table(), numbers()
    cells = [Cell(DeepEnsemble(LONG, members=3), task, SMALL), Cell(Vanilla(LONG), other, MLP(4, 2, ()))]
    whole = fit_together(cells, together=2)
    for epoch in (2, 4):
        with pytest.raises(StoppedError):
            fit_together(cells, together=2, checkpoint=tmp_path, progress=stop_at(epoch))
    made = fit_together(cells, together=2, checkpoint=tmp_path)
    assert all(same_bits(one, two) for one, two in zip(whole, made, strict=True))
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.safetensors"))
    assert found == ["group0/part0.safetensors", "group0/part1.safetensors", "group1/part0.safetensors"]


# ------------------------------------------------------------------------------- what belongs to another
TASK = table()
HELD = TASK.with_rows(range(30), range(30, 35))
PICTURES = images()
FLOATS, SINGLE = replace(TASK, x=TASK.x.float()), Vanilla(replace(QUICK, precision="float32"))
PATIENT = Vanilla(replace(QUICK, patience=2))
DROPPING = MCDropout(QUICK)
LANGEVIN = CyclicalSGLD(QUICK, cycles=1, samples=2)
OTHERS = {
    "rate": [(PLAIN, TASK, SMALL), (Vanilla(replace(QUICK, rate=0.04)), TASK, SMALL)],
    "epochs": [(PLAIN, TASK, SMALL), (Vanilla(replace(QUICK, epochs=4)), TASK, SMALL)],
    "schedule": [(PLAIN, TASK, SMALL), (Vanilla(replace(QUICK, schedule=Cosine())), TASK, SMALL)],
    "precision": [(PLAIN, TASK, SMALL), (Vanilla(replace(QUICK, precision="float32")), TASK, SMALL)],
    "network": [(PLAIN, TASK, SMALL), (PLAIN, TASK, MLP(4, 3, (6, 6)))],
    "rows": [(PLAIN, TASK, SMALL), (PLAIN, TASK.with_rows(range(1, 40)), SMALL)],
    "y": [(PLAIN, TASK, SMALL), (PLAIN, Task.classification(TASK.x, (TASK.y + 1) % 3, classes=3), SMALL)],
    "noise": [(PLAIN, numbers(likelihood=FixedGaussian(noise)), MLP(4, 1, (5,))) for noise in (0.5, 0.6)],
    "skip": [(SnapshotEnsemble(QUICK, cycles=3, skip=skip), TASK, SMALL) for skip in (0, 1)],
    "rank": [(SWAG(QUICK, start=0, rank=rank), TASK, SMALL) for rank in (2, 3)],
    "dropout rate": [(replace(DROPPING, p=rate), TASK, SMALL) for rate in (0.1, 0.2)],
    "x": [(PLAIN, TASK, SMALL), (PLAIN, Task.classification(rows_of(40, 4, seed=9), TASK.y, classes=3), SMALL)],
    "activation": [(PLAIN, TASK, SMALL), (PLAIN, TASK, MLP(4, 3, (6, 5), "tanh"))],
    "places of dropout": [(DROPPING, TASK, SMALL), (replace(DROPPING, where="last"), TASK, SMALL)],
    "method": [(DROPPING, TASK, SMALL), (LastLayerDropout(QUICK), TASK, SMALL)],
    "temperature": [(LANGEVIN, TASK, SMALL), (replace(LANGEVIN, temperature=0.1), TASK, SMALL)],
    "augmentation": [(PLAIN, replace(PICTURES, augment=each), LeNet(3, 2, 8)) for each in (None, Augmentation(1))],
    "validation rows": [(PATIENT, HELD, SMALL), (PATIENT, TASK.with_rows(range(30), range(35, 40)), SMALL)],
    "standardising": [(SINGLE, replace(FLOATS, standardises=each), SMALL) for each in (True, False)],
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
def test_a_checkpoint_of_another_training_is_refused(tmp_path, what):
    (method, task, network), other = OTHERS[what]
    with pytest.raises(StoppedError):
        method.fit(task, network, 1, checkpoint=tmp_path, progress=stop_at(2), start="fresh")
    before = file_of(tmp_path).read_bytes()
    with pytest.raises(FileError, match="expected a checkpoint of this training") as caught:
        other[0].fit(other[1], other[2], 1, checkpoint=tmp_path, start="fresh")
    assert str(caught.value).isprintable()
    assert file_of(tmp_path).read_bytes() == before


def test_a_checkpoint_of_another_seed_is_refused(tmp_path):
    PLAIN.fit(TASK, SMALL, 1, checkpoint=tmp_path)
    with pytest.raises(FileError, match="delete it, or use another folder"):
        PLAIN.fit(TASK, SMALL, 2, checkpoint=tmp_path)


class Spelled(torch.nn.Linear):
    """A layer whose text is never the same twice."""

    def extra_repr(self):
        return f"at {time.perf_counter_ns()}"


def test_a_checkpoint_does_not_depend_on_how_layers_print(tmp_path):
    network = torch.nn.Sequential(Spelled(4, 5), torch.nn.LeakyReLU(0.1), torch.nn.Linear(5, 3))
    whole = PLAIN.fit(TASK, network, 1, start="fresh")
    with pytest.raises(StoppedError):
        PLAIN.fit(TASK, network, 1, checkpoint=tmp_path, progress=stop_at(2), start="fresh")
    assert same_bits(PLAIN.fit(TASK, network, 1, checkpoint=tmp_path, start="fresh"), whole)
    other = torch.nn.Sequential(Spelled(4, 5), torch.nn.LeakyReLU(0.2), torch.nn.Linear(5, 3))
    with pytest.raises(FileError, match="expected a checkpoint of this training"):
        PLAIN.fit(TASK, other, 1, checkpoint=tmp_path, start="fresh")


# ------------------------------------------------------------------------------------------------- damage
@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A folder with a checkpoint, its file and its content."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(StoppedError):
        PLAIN.fit(TASK, MLP(4, 3, (3,)), checkpoint=folder, progress=stop_at(2))
    return folder, file_of(folder), file_of(folder).read_bytes()


def refused_or_done(folder):
    """What `fit` makes of a checkpoint: a posterior, or a refusal of our own in one line."""
    try:
        return PLAIN.fit(TASK, MLP(4, 3, (3,)), checkpoint=folder)
    except CalibrantError as refusal:
        assert str(refusal).isprintable()  # noqa: PT017
        return refusal


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 100, b"not a checkpoint", save({"a": torch.zeros(3)}), save({}, {"format": "calibrant-posterior-1"})],
    ids=["empty", "zeros", "text", "foreign", "posterior"],
)  # fmt: skip
def test_another_kind_of_file_is_refused(stopped, content):
    folder, path, _ = stopped
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        PLAIN.fit(TASK, MLP(4, 3, (3,)), checkpoint=folder)
    assert str(caught.value).isprintable()
    assert path.read_bytes() == content


def test_a_truncated_file_is_refused_wherever_it_ends(stopped):
    folder, path, content = stopped
    for length in [*range(0, len(content), len(content) // 25), len(content) - 1]:
        path.write_bytes(content[:length])
        assert isinstance(refused_or_done(folder), FileError)


def test_turned_bits_of_the_header_are_refused_or_do_not_matter(stopped):
    folder, path, content = stopped
    header = int.from_bytes(content[:8], "little")
    for place in range(0, 8 + header, 13):
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << place % 7)]) + content[place + 1 :])
        refused_or_done(folder)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_of_any_kind_is_refused_in_one_line_or_does_not_matter(stopped, data):
    folder, path, content = stopped
    path.write_bytes(data.draw(damaged(content)))
    refused_or_done(folder)


@pytest.mark.parametrize("lost", ["flat", "best", "optimiser/0", "buffer/x_mean"])
@pytest.mark.parametrize("how", ["missing", "another shape"])
def test_a_checkpoint_without_a_part_is_refused(stopped, lost, how):
    """Also where its sum is right."""
    folder, path, content = stopped
    path.write_bytes(content)
    tensors, told = read_tensors(path, "checkpoint")
    value = tensors.pop(lost)
    if how == "another shape":
        tensors[lost] = torch.cat([value.flatten(), torch.zeros(2, dtype=value.dtype)])
    write_tensors(path, "checkpoint", tensors, told)
    assert isinstance(refused_or_done(folder), FileError)


# ------------------------------------------------------------------------------------------------ writing
def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    whole = Vanilla(LONG).fit(TASK, SMALL)
    sync, written = os.fsync, []

    def full(handle):
        written.append(handle)
        if len(written) == 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match="No space left on device") as caught:
        Vanilla(LONG).fit(TASK, SMALL, checkpoint=tmp_path)
    assert str(caught.value).isprintable()
    assert [path.name for path in (tmp_path / "group0").iterdir()] == ["part0.safetensors"]
    seen = []
    resumed = Vanilla(LONG).fit(TASK, SMALL, checkpoint=tmp_path, progress=lambda what, now, of: seen.append(now))
    assert seen[0] == 3
    assert same_bits(resumed, whole)


@pytest.mark.parametrize("below", [".", "deeper/still"])
def test_a_folder_that_cannot_be_is_refused(tmp_path, below):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WriteError) as caught:
        PLAIN.fit(TASK, SMALL, checkpoint=tmp_path / "file" / below)
    assert str(caught.value).isprintable()
