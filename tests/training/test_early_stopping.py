"""Early stopping: the best epoch is kept, and each network stops when its own time has come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from training.cases import QUICK, SMALL, Normalised, apart, rows_of, table  # noqa: E402

from calibrant.errors import TrainingError, UsageError  # noqa: E402
from calibrant.methods import (  # noqa: E402
    SWAG,
    Cell,
    CyclicalSGLD,
    DeepEnsemble,
    SnapshotEnsemble,
    Task,
    Vanilla,
    fit_together,
)
from calibrant.networks import MLP  # noqa: E402

PATIENT = replace(QUICK, epochs=60, rate=0.1, patience=3)


@pytest.fixture(scope="module")
def task():
    """Labels that are mostly noise: networks overfit soon."""
    x = torch.from_numpy(rows_of(60, 4))
    y = np.random.default_rng(3).integers(0, 3, 60)
    y[x[:, 0].numpy() > 0.8] = 1
    return Task.classification(x, y, classes=3).split(0.4)


def losses_by_epoch(task, network, training, epochs):
    """Validation losses of trainings of 1, 2, … epochs without patience."""
    made = [
        Vanilla(replace(training, patience=None, epochs=k + 1)).fit(task, network, start="fresh") for k in range(epochs)
    ]
    return [each.about.history[0]["best"] for each in made], made


@pytest.mark.parametrize("network", [MLP(4, 3, (16,)), Normalised()], ids=["mlp", "batch norm"])
def test_the_best_epoch_is_kept(task, network):
    stopped = Vanilla(PATIENT).fit(task, network, start="fresh")
    history = stopped.about.history[0]
    epochs = history["epochs"]
    assert 5 <= epochs < 40
    losses, made = losses_by_epoch(task, network, PATIENT, epochs)
    best = int(np.argmin(losses))
    assert 0 < best < epochs - 1
    assert apart(stopped, made[best]) == 0.0
    assert history["validation"] == losses
    assert history["best"] == losses[best]
    assert len(history["loss"]) == epochs


def test_training_ends_when_patience_does(task):
    """`patience` epochs without a better loss, as the docstring has it."""
    network = MLP(4, 3, (16,))
    for patience in (1, 2, 5):
        epochs = (
            Vanilla(replace(PATIENT, patience=patience)).fit(task, network, start="fresh").about.history[0]["epochs"]
        )
        losses, _ = losses_by_epoch(task, network, PATIENT, epochs)
        best = int(np.argmin(losses))
        assert epochs - 1 - best == patience


def test_networks_stop_separately(task):
    """Of several together each has its own end, and is what it would have been alone."""
    network = MLP(4, 3, (16,))
    method = DeepEnsemble(PATIENT, members=4)
    together, alone = method.fit(task, network, start="fresh"), method.fit(task, network, together=1, start="fresh")
    ends = [each["epochs"] for each in together.about.history]
    assert len(set(ends)) > 1
    assert ends == [each["epochs"] for each in alone.about.history]
    assert apart(together, alone) < 1e-9
    for one, other in zip(together.about.history, alone.about.history, strict=True):
        np.testing.assert_allclose(one["loss"], other["loss"], atol=1e-9)
        np.testing.assert_allclose(one["validation"], other["validation"], atol=1e-9)


def test_what_a_network_does_after_its_end_does_not_matter():
    """It goes on in the stack beside others, and may diverge there."""
    task, network = table(n=60).split(0.3), MLP(4, 3, (16,))
    training = replace(PATIENT, patience=1, rate=0.002, epochs=30)
    wild, tame = Vanilla(replace(training, rate=1.0, decay=1e4)), Vanilla(training)
    alone = [method.fit(task, network, start="fresh") for method in (wild, tame)]
    assert alone[0].about.history[0]["epochs"] < 4
    assert alone[1].about.history[0]["epochs"] > 20
    together = fit_together([Cell(method, task, network, start="fresh") for method in (wild, tame)])
    assert not any(each.about.history[0]["diverged"] for each in together)
    assert apart(alone[1], together[1]) < 1e-9
    for name, value in alone[0].states[0].items():
        torch.testing.assert_close(together[0].states[0][name], value, rtol=1e-9, atol=0.0)


def test_networks_that_never_get_worse_are_trained_to_the_end():
    task = table(n=60).split(0.3)
    easy = Vanilla(replace(PATIENT, epochs=6, rate=0.01, momentum=0.0)).fit(task, SMALL)
    plain = Vanilla(replace(PATIENT, epochs=6, rate=0.01, momentum=0.0, patience=None)).fit(task, SMALL)
    assert easy.about.history[0]["epochs"] == 6
    assert apart(easy, plain) == 0.0


def test_without_validation_rows_patience_is_refused():
    with pytest.raises(TrainingError, match=r"validation rows.*task\.split") as caught:
        Vanilla(PATIENT).fit(table(), SMALL)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("make", [
    lambda: SnapshotEnsemble(replace(PATIENT, rate=0.5), cycles=3),
    lambda: CyclicalSGLD(replace(PATIENT, rate=0.5), cycles=3, samples=1),
    lambda: SWAG(replace(PATIENT, rate=0.5), start=57),
])  # fmt: skip
def test_methods_that_need_all_epochs_refuse_patience_or_keep_their_members(task, make):
    """With patience, training may end before members are kept."""
    try:
        made = make().fit(task, MLP(4, 3, (16,)))
    except (UsageError, TrainingError) as refusal:
        assert "patience" in str(refusal)  # noqa: PT017
    else:
        assert made.max_members in (3, None)
