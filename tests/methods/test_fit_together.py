"""Networks that are trained as one computation are those that are trained one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from training.cases import QUICK, SMALL, Dropping, Normalised, Recurrent, Tied, apart, images, numbers, table  # noqa: E402

from calibrant.errors import CalibrantWarning  # noqa: E402
from calibrant.methods import (  # noqa: E402
    SWAG,
    Augmentation,
    Cell,
    CyclicalSGLD,
    DeepEnsemble,
    FastGeometricEnsemble,
    LastLayerDropout,
    MCDropout,
    SnapshotEnsemble,
    Vanilla,
    fit_together,
)
from calibrant.networks import MLP, LeNet, PreResNet, ResNet  # noqa: E402
from calibrant.training.schedules import Cosine  # noqa: E402

ADAM = replace(QUICK, optimiser="adam", rate=0.01, clip=1.0, schedule=Cosine())
NESTEROV = replace(QUICK, nesterov=True, clip=0.5, batch=10)
CLOSE = {"float64": 1e-9, "float32": 1e-4}


def varied():
    return images(n=34, augment=Augmentation(2))


RESNET = "resnet, augmented, nesterov, clipped"
ENSEMBLES = {
    "mlp": (DeepEnsemble(QUICK, members=3), table, SMALL),
    "mlp, adam, clipped": (DeepEnsemble(ADAM, members=3), numbers, MLP(4, 2, (6, 5), "selu")),
    "linear": (DeepEnsemble(QUICK, members=3), numbers, MLP(4, 2, ())),
    "lenet, augmented": (DeepEnsemble(QUICK, members=3), varied, LeNet(3, 2, 8)),
    RESNET: (DeepEnsemble(NESTEROV, members=3), varied, ResNet(8, 3, 2, 3)),
    "resnet, projection, adam": (DeepEnsemble(ADAM, members=2), images, ResNet(8, 3, 2, 2, "projection")),
    "preresnet": (DeepEnsemble(QUICK, members=2), varied, PreResNet(8, 3, 2, 2)),
    "own, batch norm": (DeepEnsemble(ADAM, members=3), table, Normalised()),
    "own, dropout": (DeepEnsemble(QUICK, members=3), table, Dropping()),
    "stopping": (
        DeepEnsemble(replace(ADAM, rate=0.1, epochs=20, patience=2), members=4),
        lambda: varied().split(0.3), ResNet(8, 3, 2, 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "precision"),
    [*((case, "float64") for case in ENSEMBLES), *((case, "float32") for case in ("mlp", "lenet, augmented", RESNET))],
)
def test_members_of_an_ensemble(case, precision):
    method, task, network = ENSEMBLES[case]
    method, task = replace(method, training=replace(method.training, precision=precision)), task()
    together, alone = (method.fit(task, network, 4, together=size, start="fresh") for size in (None, 1))
    assert apart(together, alone) < CLOSE[precision]
    found, expected = ([each["epochs"] for each in made.about.history] for made in (together, alone))
    assert found == expected
    losses = [np.concatenate([each["loss"] for each in made.about.history]) for made in (together, alone)]
    np.testing.assert_allclose(*losses, atol=10 * CLOSE[precision])
    members = [made.member(k)(task.x[:5]).numpy() for made in (together, alone) for k in range(2)]
    assert np.abs(members[0] - members[1]).max() > 1e-2


def test_any_number_at_a_time():
    method = DeepEnsemble(QUICK, members=5)
    whole = method.fit(table(), SMALL)
    for size in (2, 3, 99):
        assert apart(whole, method.fit(table(), SMALL, together=size)) < 1e-9


def test_the_first_members_of_a_larger_ensemble_are_those_of_a_smaller():
    large, small = (DeepEnsemble(QUICK, members=members).fit(table(), SMALL) for members in (4, 2))
    large.states = large.states[:2]
    assert apart(large, small) < 1e-9
    single = Vanilla(QUICK).fit(table(), SMALL)
    small.states = small.states[:1]
    assert apart(single, small) < 1e-9


# ------------------------------------------------------------------------------------------- several seeds
LONG = replace(QUICK, epochs=4)
METHODS = {
    "vanilla": (Vanilla(LONG), table, SMALL),
    "ensemble": (DeepEnsemble(LONG, members=2), table, Normalised()),
    "dropout": (MCDropout(LONG, p=0.3), varied, ResNet(8, 3, 2, 2)),
    "dropout of its own": (MCDropout(LONG, p=0.3), table, Dropping()),
    "last-layer dropout": (LastLayerDropout(ADAM), images, LeNet(3, 2, 8)),
    "snapshots": (SnapshotEnsemble(LONG, cycles=2), table, SMALL),
    "fge": (FastGeometricEnsemble(LONG, start=1, cycle=2), table, Normalised()),
    "swag": (SWAG(LONG, start=1, rank=3, draws=2), varied, ResNet(8, 3, 2, 2)),
    "csgld": (CyclicalSGLD(LONG, cycles=2, samples=1), table, SMALL),
}


@pytest.mark.parametrize("case", METHODS)
def test_seeds(case):
    method, task, network = METHODS[case]
    task = task()
    made = fit_together([Cell(method, task, network, seed, start="fresh") for seed in (3, 11, 4)])
    for seed, posterior in zip((3, 11, 4), made, strict=True):
        alone = method.fit(task, network, seed, start="fresh")
        assert posterior.seed == seed
        assert apart(posterior, alone) < 1e-8  # spreads of SWAG are differences of squares
        x, members = task.x[:6], min(2, alone.max_members or 2)
        np.testing.assert_allclose(posterior.predict(x, members).scores, alone.predict(x, members).scores, atol=1e-7)
    assert apart(made[0], made[1]) > 1e-3


# --------------------------------------------------------------------------------------- grids and splits
def check(cells):
    """Every posterior of `fit_together` is that of its cell alone."""
    made = fit_together(cells)
    for cell, posterior in zip(cells, made, strict=True):
        alone = cell.method.fit(cell.task, cell.network, cell.seed, start="fresh")
        assert apart(posterior, alone) < 1e-9
        assert posterior.about.settings == alone.about.settings
        assert posterior.about.method == alone.about.method
        x = cell.task.x[:6]
        one, other = posterior.predict(x, 1), alone.predict(x, 1)
        found = [each.scores if hasattr(each, "scores") else each.mean for each in (one, other)]
        np.testing.assert_allclose(*found, atol=1e-9)
    return made


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_a_grid_of_rates_and_decays(optimiser):
    task, network = table(), SMALL
    training = replace(QUICK, optimiser=optimiser, clip=1.0)
    grid = [(rate, decay) for rate in (0.1, 0.01) for decay in (0.0, 0.05)]
    made = check([Cell(Vanilla(replace(training, rate=r, decay=d)), task, network, 1, start="fresh") for r, d in grid])
    assert min(apart(made[0], other) for other in made[1:]) > 1e-4


@pytest.mark.parametrize(
    "network", [SMALL, Dropping()], ids=["mlp", "dropout of its own"]
)  # fmt: skip
def test_a_grid_of_rates_of_dropout(network):
    """Beside others a rate of 0 draws masks too, which must not shift those of the network's own dropout."""
    task = table()
    check([Cell(MCDropout(QUICK, p=rate), task, network, 1, start="fresh") for rate in (0.2, 0.0, 0.6)])


def test_splits_of_one_data_set():
    """Rows differ, and so does what they are standardised by."""
    task = numbers(n=60)
    order = np.random.default_rng(0).permutation(60)
    tasks = [task.with_rows(np.roll(order, 11 * k)[:40], np.roll(order, 11 * k)[40:]) for k in range(4)]
    patient = replace(QUICK, rate=0.1, epochs=25, patience=2)
    network = MLP(4, 2, (6,))
    made = check([Cell(Vanilla(patient), each, network, 2, start="fresh") for each in tasks])
    assert len({each.states[0]["y_mean"].item() for each in made}) == 4


def test_splits_of_images_with_batch_normalisation():
    task, network = varied(), ResNet(8, 3, 2, 2)
    cells = [
        Cell(DeepEnsemble(NESTEROV, members=2), task.with_rows(range(k, k + 22)), network, start="fresh")
        for k in (0, 5)
    ]
    check(cells)


def test_cells_that_cannot_be_joined_keep_their_order():
    task, other, network = table(), numbers(), MLP(4, 3, (5,))
    cells = [
        Cell(Vanilla(QUICK), task, network, 1, start="fresh"),
        Cell(Vanilla(QUICK), other, MLP(4, 2, (5,)), 1),
        Cell(DeepEnsemble(QUICK, members=2), task, network, 1, start="fresh"),
        Cell(Vanilla(QUICK), task, network, 2, start="fresh"),
        Cell(Vanilla(replace(QUICK, epochs=2)), task, network, 1, start="fresh"),
        Cell(Vanilla(replace(QUICK, rate=0.01)), task, network, 1, start="fresh"),
        Cell(MCDropout(QUICK), task, network, 1, start="fresh"),
    ]
    check(cells)
    assert fit_together([]) == []


# ----------------------------------------------------------------------------------- layers that vmap does not know
def test_layers_that_cannot_be_batched_are_computed_one_by_one():
    method = DeepEnsemble(QUICK, members=3)
    alone = method.fit(table(), Recurrent(), together=1, start="fresh")
    with pytest.warns(CalibrantWarning, match="these 3 networks are computed one after another") as caught:
        together = method.fit(table(), Recurrent(), start="fresh")
    assert len(caught) == 1
    assert str(caught[0].message).isprintable()
    assert apart(together, alone) == 0.0


def test_choices_that_depend_on_values_are_computed_one_by_one():
    class Choosing(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.drop, self.norm = nn.Linear(4, 5), nn.Dropout(0.2), nn.BatchNorm1d(5)
            self.last = nn.Linear(5, 3)

        def forward(self, x):
            x = self.norm(self.first(x))
            return self.last(self.drop(torch.relu(x) if x.sum() > 0 else torch.tanh(x)))

    method = DeepEnsemble(QUICK, members=2)
    with pytest.warns(CalibrantWarning, match="one after another"):
        together = method.fit(table(), Choosing(), start="fresh")
    assert apart(together, method.fit(table(), Choosing(), together=1, start="fresh")) < 1e-12


@pytest.mark.parametrize(
    "norm",
    [
        lambda: nn.BatchNorm1d(6, affine=False),
        lambda: nn.BatchNorm1d(6, momentum=0.5, eps=1e-2),
        lambda: nn.BatchNorm1d(6, track_running_stats=False),
        lambda: nn.LayerNorm(6),
    ],
)
def test_normalisations_of_all_kinds(norm):
    def network():
        return nn.Sequential(nn.Linear(4, 6), norm(), nn.ReLU(), nn.Linear(6, 3))

    method = DeepEnsemble(QUICK, members=2)
    assert (
        apart(method.fit(table(), network, start="fresh"), method.fit(table(), network, together=1, start="fresh"))
        < 1e-9
    )


def test_batch_normalisation_over_a_cumulative_average():
    """momentum=None: PyTorch counts batches, which cannot be batched over members."""

    def network():
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, momentum=None), nn.ReLU(), nn.Linear(6, 3))

    method = DeepEnsemble(QUICK, members=2)
    with pytest.warns(CalibrantWarning, match="one after another"):
        together = method.fit(table(), network, start="fresh")
    assert apart(together, method.fit(table(), network, together=1, start="fresh")) < 1e-9


def test_weights_that_two_layers_share():
    method = DeepEnsemble(QUICK, members=2)
    together, alone = (method.fit(table(), Tied(), together=size, start="fresh") for size in (None, 1))
    assert apart(together, alone) < 1e-9
    assert "inner.second.weight" not in together.states[0]


def test_a_single_network_is_the_first_member_of_the_ensemble_of_its_seed():
    """So that a pool for equivalents needs other seeds."""
    task = table()
    single = Vanilla(QUICK).fit(task, SMALL, 3, device="cpu")
    ensemble = DeepEnsemble(QUICK, members=3).fit(task, SMALL, 3, device="cpu")
    for name, value in single.states[0].items():
        torch.testing.assert_close(ensemble.states[0][name], value, rtol=0, atol=1e-12)
