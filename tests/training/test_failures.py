"""What goes wrong in training is told in one line, with what can be done about it; others are not drawn into it."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from training.cases import QUICK, SMALL, Normalised, apart, images, table  # noqa: E402

from calibrant.errors import CalibrantError, CalibrantWarning, TrainingError, UsageError  # noqa: E402
from calibrant.methods import Cell, DeepEnsemble, SnapshotEnsemble, Training, Vanilla, fit_together  # noqa: E402
from calibrant.networks import MLP, ResNet  # noqa: E402
from calibrant.networks.stack import Stack  # noqa: E402
from calibrant.training.loop import TrainingLoop  # noqa: E402

WILD = replace(QUICK, rate=1e6, epochs=8, precision="float32")


# ----------------------------------------------------------------------------------------- losses that diverge
def test_a_loss_that_is_no_number_names_who_and_when():
    with pytest.raises(TrainingError) as caught:
        DeepEnsemble(WILD, members=2).fit(table(), SMALL, 7)
    said = str(caught.value)
    assert "training, seed 7, member 0: expected a finite loss" in said
    assert "after epoch " in said
    assert "at a learning rate of 1e+06" in said
    assert "lower the rate" in said
    assert said.isprintable()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_the_others_are_untouched(order):
    task, network = table(), SMALL
    cells = [Cell(Vanilla(replace(QUICK, rate=rate)), task, network, 3, start="fresh") for rate in (0.05, 1e300, 0.01)]
    made = fit_together([cells[k] for k in order], diverged="keep")
    kept = dict(zip(order, made, strict=True))
    assert [kept[k].about.history[0]["diverged"] for k in range(3)] == [False, True, False]
    assert not np.isfinite(kept[1].about.history[0]["loss"][-1])
    for k in (0, 2):
        assert apart(kept[k], cells[k].method.fit(task, network, 3, start="fresh")) < 1e-9


def test_batch_normalisation_keeps_the_others_apart_too():
    task, network = images(), ResNet(8, 3, 2, 2)
    wild, tame = (Vanilla(replace(QUICK, rate=rate, decay=decay)) for rate, decay in ((1.0, 1e200), (0.05, 0.0)))
    lost, kept = fit_together(
        [Cell(wild, task, network, start="fresh"), Cell(tame, task, network, start="fresh")], diverged="keep"
    )
    assert lost.about.history[0]["diverged"]
    assert apart(kept, tame.fit(task, network, start="fresh")) < 1e-9


@pytest.mark.parametrize("known", [{"diverged": "ignore"}, {"together": 0}, {"together": -1}])
def test_odd_choices_are_refused(known):
    with pytest.raises(UsageError) as caught:
        fit_together([Cell(Vanilla(QUICK), table(), SMALL)], **known)
    assert str(caught.value).isprintable()


# ------------------------------------------------------------------------------------------------- memory
SHORT = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nGPU 0 has …"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: not enough memory: you tried to allocate"),
    MemoryError(),
]


@pytest.mark.parametrize("error", SHORT, ids=lambda each: type(each).__name__)
def test_memory_that_does_not_suffice_is_told(monkeypatch, error):
    def step(self, count, noisy):
        raise error

    monkeypatch.setattr(TrainingLoop, "step", step)
    with pytest.raises(
        TrainingError, match=r"memory: expected memory for 3 networks with batches of 16.*together"
    ) as caught:
        DeepEnsemble(QUICK, members=3).fit(table(), SMALL)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("error", SHORT, ids=lambda each: type(each).__name__)
def test_memory_that_does_not_suffice_for_the_first_try_is_told_too(monkeypatch, error):
    """It is not taken for a layer that cannot be batched."""

    def call(self, *args, **known):
        raise error

    monkeypatch.setattr(Stack, "__call__", call)
    with pytest.raises(TrainingError, match=r"memory: .*together"):
        DeepEnsemble(QUICK, members=3).fit(table(), SMALL)


def test_other_errors_are_not_taken_for_want_of_memory(monkeypatch):
    def step(self, count, noisy):
        raise RuntimeError("something else")

    monkeypatch.setattr(TrainingLoop, "step", step)
    with pytest.raises(RuntimeError, match=r"^something else$"):
        Vanilla(QUICK).fit(table(), SMALL)


# ------------------------------------------------------------------------------------------------ devices
@pytest.mark.parametrize("device", ["banana", "cuda:99", None])
def test_a_device_that_is_not_there(device):
    with pytest.raises(TrainingError, match="device: expected an available device") as caught:
        Vanilla(QUICK).fit(table(), SMALL, device=device)
    assert str(caught.value).isprintable()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu():
    with pytest.raises(TrainingError, match=r"'cuda'.*device='cpu'"):
        Vanilla(QUICK).fit(table(), SMALL, device="cuda")
    made = Vanilla(QUICK).fit(table(), SMALL, device="cpu")
    with pytest.raises(TrainingError, match="'cuda', which PyTorch cannot use"):
        made.predict(table().x, device="cuda")


# ------------------------------------------------------------------------------------------------ settings
@pytest.mark.parametrize(
    "known",
    [
        {"epochs": 0}, {"epochs": 1.5}, {"batch": 0}, {"rate": -0.1}, {"rate": float("nan")}, {"rate": "fast"},
        {"decay": -1.0}, {"momentum": float("inf")}, {"optimiser": "sdg"}, {"precision": "half"}, {"clip": 0.0},
        {"clip": float("nan")}, {"patience": 0},
        {"clip": "large"}, {"patience": "3"}, {"schedule": "cosine"},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(known):
    with pytest.raises(UsageError) as caught:
        Training(**known)
    assert str(caught.value).isprintable()
    assert next(iter(known)) in str(caught.value)


def test_a_misspelt_name_is_recognised():
    with pytest.raises(UsageError, match="did you mean 'sgd'"):
        Training(optimiser="sdg")


# ---------------------------------------------------------------------------------------------- odd batches
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("batch", [1, 16])
def test_a_last_batch_of_one_row_is_trained_or_refused_in_one_line(batch, members):
    """Batch normalisation of one row of numbers is impossible."""
    method = DeepEnsemble(replace(QUICK, batch=batch), members=members)
    try:
        made = method.fit(table(n=33), Normalised(), start="fresh")
    except CalibrantError as refusal:
        assert "batch" in str(refusal)  # noqa: PT017
    else:
        assert np.isfinite(made.predict(table().x).scores).all()


def test_a_last_batch_of_one_row_counts_as_one_row():
    """Losses of an epoch are means over rows, not over batches."""
    task = table(n=33)
    made = Vanilla(replace(QUICK, rate=0.0, epochs=1)).fit(task, SMALL)
    scores = torch.from_numpy(made.predict(task.x).scores[0])
    expected = torch.nn.functional.cross_entropy(scores, task.y).item()
    assert made.about.history[0]["loss"] == [pytest.approx(expected, abs=1e-12)]


def test_a_batch_may_be_larger_than_the_data():
    large, whole = (Vanilla(replace(QUICK, batch=batch)).fit(table(), SMALL) for batch in (10_000, 40))
    assert apart(large, whole) == 0.0


# ------------------------------------------------------------------------------------------ sixteen bits
@pytest.mark.parametrize("members", [1, 2])
def test_sixteen_bits_stay_close(members):
    training = Training(epochs=6, batch=12, rate=0.02)
    wide, narrow = (
        DeepEnsemble(replace(training, precision=precision), members=members).fit(images(), ResNet(8, 3, 2, 4))
        for precision in ("float32", "bfloat16")
    )
    losses = [np.array([each["loss"] for each in made.about.history]) for made in (wide, narrow)]
    assert (losses[1] != losses[0]).all()
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.1)
    assert (losses[1][:, -1] < 0.8 * losses[1][:, 0]).all()
    assert narrow.predict(images().x).scores.dtype == np.float32


def test_no_warning_is_given_where_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error", CalibrantWarning)
        DeepEnsemble(QUICK, members=2).fit(images(), ResNet(8, 3, 2, 2))


# ------------------------------------------------------------------------------------------------ progress
def test_progress_is_told():
    told = []
    method = SnapshotEnsemble(replace(QUICK, epochs=4), cycles=2)
    method.fit(table(), MLP(4, 3, ()), progress=lambda *args: told.append(args))
    assert told == [("snapshot_ensemble", epoch, 4) for epoch in range(5)]
