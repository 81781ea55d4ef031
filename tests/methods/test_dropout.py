"""Monte Carlo dropout: a member is one mask for all rows; in training every row has one of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from training.cases import QUICK, SMALL, Dropping, images, runs_of, stacked, table  # noqa: E402

from calibrant.errors import UsageError  # noqa: E402
from calibrant.methods import Cell, DeepEnsemble, LastLayerDropout, MCDropout, Vanilla, fit_together  # noqa: E402
from calibrant.networks import MLP, LeNet, ResNet  # noqa: E402
from calibrant.networks.dropout import Dropout  # noqa: E402
from calibrant.training.batches import DropoutMasks  # noqa: E402
from calibrant.training.loop import TrainingLoop  # noqa: E402

CASES = {
    "table": (MCDropout(QUICK, p=0.3), table, MLP(4, 3, (8, 8))),
    "images": (MCDropout(QUICK, p=0.3), images, ResNet(8, 3, 2, 2)),
    "last": (LastLayerDropout(QUICK, p=0.3), images, LeNet(3, 2, 8)),
    "own": (MCDropout(QUICK, where="own"), table, Dropping()),
}


@pytest.fixture(scope="module", params=CASES)
def fitted(request):
    """A posterior, and rows."""
    method, task, network = CASES[request.param]
    return method.fit(task(), network, start="fresh"), task().x[:12]


# ------------------------------------------------------------------------- one mask for all rows of a member
def test_a_row_is_predicted_alike_in_any_company(fitted):
    made, x = fitted
    whole = made.predict(x, 5).scores
    alone = np.concatenate([made.predict(x[k : k + 1], 5).scores for k in range(len(x))], axis=1)
    np.testing.assert_allclose(alone, whole, atol=1e-12)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(made.predict(x[order], 5).scores, whole[:, order.numpy()], atol=1e-12)
    for batch in (1, 5, 100):
        np.testing.assert_allclose(made.predict(x, 5, batch=batch).scores, whole, atol=1e-12)


def test_rows_that_are_equal_get_equal_outputs(fitted):
    made, x = fitted
    twice = made.predict(torch.cat([x, x]), 6).scores
    np.testing.assert_allclose(twice[:, : len(x)], twice[:, len(x) :], atol=1e-12)


def test_other_members_have_other_masks(fitted):
    made, x = fitted
    scores = made.predict(x, 12).scores
    assert len(np.unique(scores.reshape(12, -1).round(9), axis=0)) > 6
    masks = [
        torch.cat([value.flatten() for name, value in made.tensors(k).items() if "mask" in name]) for k in range(9)
    ]
    assert len({tuple(mask.tolist()) for mask in masks}) > 6


# ---------------------------------------------------------------------------------------------- how much is dropped
@pytest.mark.parametrize("rate", [0.05, 0.3, 0.8])
def test_the_share_of_zeros_is_the_rate(rate):
    made = MCDropout(replace(QUICK, epochs=1), p=rate).fit(table(), MLP(4, 3, (40, 40)))
    values = torch.cat([
        value.flatten() for k in range(100) for name, value in made.tensors(k).items() if "mask" in name
    ])  # fmt: skip
    n = len(values)
    assert n == 100 * 80
    dropped = (values == 0.0).double().mean().item()
    assert abs(dropped - rate) < 5.0 * np.sqrt(rate * (1.0 - rate) / n)
    np.testing.assert_allclose(values[values != 0.0], 1.0 / (1.0 - rate), rtol=1e-12)


def test_nothing_is_dropped_at_a_rate_of_zero():
    made = MCDropout(QUICK, p=0.0).fit(table(), SMALL)
    scores = made.predict(table().x, 4).scores
    assert np.ptp(scores, axis=0).max() == 0.0
    np.testing.assert_array_equal(scores[0], Vanilla(QUICK).fit(table(), SMALL).predict(table().x).scores[0])


def test_cells_of_a_grid_have_their_own_rates():
    """In training, and in prediction."""
    task, methods = table(), [MCDropout(QUICK, p=rate) for rate in (0.1, 0.5, 0.9)]
    for method, made in zip(methods, fit_together([Cell(each, task, SMALL) for each in methods]), strict=True):
        assert made.p == method.p
        np.testing.assert_allclose(
            made.predict(task.x, 3).scores, method.fit(task, SMALL).predict(task.x, 3).scores, atol=1e-9
        )


def test_in_the_mean_a_linear_network_is_the_one_without_dropout():
    """E[mask] = 1, and masks of different layers are independent."""
    made = MCDropout(QUICK, p=0.4).fit(
        table(), lambda: nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 6), nn.Linear(6, 3))
    )
    x = table().x[:4]
    without = Vanilla(QUICK).fit(table(), made.recipe.architecture, start="fresh")
    without.states = [made.state]
    expected = without.predict(x).scores[0]
    draws = made.predict(x, 1500).scores
    error = draws.std(0) / np.sqrt(len(draws))
    assert (error > 0.0).all()
    assert (np.abs(draws.mean(0) - expected) < 5.0 * error).all()


# -------------------------------------------------------------------------------------------------- where
def masks_of(method, network, task):
    made = method.fit(task, network, start="fresh")
    return {name: tuple(value.shape) for name, value in made.tensors(0).items() if "mask" in name}


def test_places():
    def found(where):
        masks = masks_of(MCDropout(replace(QUICK, epochs=1), where=where), LeNet(3, 2, 8), images())
        return {name.split(".")[1]: shape for name, shape in masks.items()}

    dense = {"hidden": (1, 64 * 2 * 2), "output": (1, 128)}
    assert found("all") == {"conv2": (1, 32, 6, 6), **dense}
    assert found("dense") == dense
    assert found("last") == {"output": (1, 128)}


def test_dropout_of_a_network_stays_what_it_was():
    class Channels(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.whole = nn.Conv2d(2, 8, 3), nn.Dropout2d(0.5)
            self.last, self.some = nn.Linear(8 * 36, 3), nn.Dropout(0.25)

        def forward(self, x):
            return self.last(self.some(self.whole(self.conv(x)).flatten(1)))

    method = MCDropout(replace(QUICK, epochs=1), where="own")
    made = method.fit(images(), Channels(), start="fresh")
    assert sorted(masks_of(method, Channels(), images()).values()) == [(1, 8, 1, 1), (1, 8 * 36)]
    masks = [[value for name, value in made.tensors(k).items() if "mask" in name] for k in range(200)]
    whole, some = (
        torch.cat([value.flatten() for each in masks for value in each if value.dim() == dim]) for dim in (4, 2)
    )
    assert abs((whole == 0).double().mean() - 0.5) < 5 * 0.5 / np.sqrt(1600)
    assert abs((some == 0).double().mean() - 0.25) < 5 * 0.433 / np.sqrt(200 * 288)


def test_one_dropout_module_in_two_places():
    """As in PyTorch it drops something else in each."""
    drop = nn.Dropout(0.5)
    network = nn.Sequential(nn.Linear(4, 20), nn.ReLU(), drop, nn.Linear(20, 20), nn.ReLU(), drop, nn.Linear(20, 3))
    made = MCDropout(QUICK, where="own").fit(table(), network, start="fresh")
    for k in range(4):
        one, other = (value for name, value in made.tensors(k).items() if "mask" in name)
        assert not torch.equal(one, other)
    assert len(np.unique(made.predict(table().x, 6).scores[:, 0].round(9), axis=0)) == 6
    alone = made.member(2)(table().x)
    np.testing.assert_array_equal(made.member(2)(table().x), alone)


@pytest.mark.parametrize("method", [LastLayerDropout(QUICK, p=0.3), MCDropout(QUICK, p=0.3, where="last")])
@pytest.mark.parametrize("network", [Dropping(), MLP(4, 3, (8, 8))], ids=["dropout of its own", "none"])
def test_what_is_computed_once_for_all_members_is_the_same_for_all(method, network):
    """Also where the network drops something itself, before the last layer."""
    made, x = method.fit(table(), network, start="fresh"), table().x
    each = np.stack([made.member(k)(x).numpy() for k in range(5)])
    np.testing.assert_allclose(made.predict(x, 5).scores, each, atol=1e-12)


def test_a_network_with_dropout_of_its_own_drops_in_training_alone():
    """Without a method of dropout: masks in training, none in prediction, as PyTorch has it."""
    task = table()
    made = DeepEnsemble(QUICK, members=2).fit(task, Dropping(), start="fresh")
    plain = DeepEnsemble(QUICK, members=2).fit(task, Dropping(rate=0.0), start="fresh")
    assert np.abs(made.predict(task.x).scores - plain.predict(task.x).scores).max() > 1e-3
    network = Dropping().double().eval()
    network.load_state_dict({name[6:]: value for name, value in made.states[1].items() if name.startswith("inner.")})
    x = (task.x - task.x.mean(0)) / task.x.std(0, unbiased=False)
    np.testing.assert_allclose(made.predict(task.x).scores[1], network(x).detach(), atol=1e-12)


def test_where_there_is_nothing_to_drop():
    for where, network in (("own", SMALL), ("all", MLP(4, 3, ())), ("dense", MLP(4, 3, ()))):
        with pytest.raises(UsageError, match="dropout: expected") as caught:
            MCDropout(QUICK, where=where).fit(table(), network, start="fresh")
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("known", [{"p": 1.0}, {"p": -0.1}, {"p": float("nan")}, {"where": "everywhere"}])
def test_what_is_no_dropout_is_refused(known):
    with pytest.raises(UsageError):
        MCDropout(QUICK, **known)


# ----------------------------------------------------------------------------------------------- training
def test_in_training_masks_differ_between_rows_members_steps_and_epochs(monkeypatch):
    task, seen, draw = table(n=32), [], DropoutMasks.draw

    def spy(self, count):
        seen.append(draw(self, count))
        return seen[-1]

    monkeypatch.setattr(DropoutMasks, "draw", spy)
    runs = runs_of(task, 2, dropout=0.5)
    stack, _ = stacked(task, MLP(4, 3, (40,)), runs, Dropout(0.5))
    loop = TrainingLoop(stack, runs, replace(QUICK, epochs=2))
    seen.clear()
    loop.run()
    assert len(seen) == 4
    masks = torch.stack([value for each in seen for value in each.values()])
    assert masks.shape == (4, 2, 16, 40)
    flat = masks.flatten(0, 2)
    assert len(torch.unique(flat, dim=0)) == len(flat)
    assert abs((flat == 0).double().mean() - 0.5) < 5 * 0.5 / np.sqrt(flat.numel())


def test_dropout_in_training_is_that_of_pytorch_in_law():
    """The mean gradient over masks of one linear layer: E[∇] of dropped inputs, against nn.Dropout's own masks."""
    task = table(n=40)
    runs = [replace(run, seed=k) for k in range(400) for run in runs_of(task, 1, dropout=0.5)]
    stack, _ = stacked(task, MLP(4, 3, ()), [runs[0]] * 400, Dropout(0.5, "last"))
    loop = TrainingLoop(stack, runs, replace(QUICK, batch=40))
    loop.masks.shuffle(0)
    loop.batches.load(0)
    loop.loss(40).sum().backward()
    ours = stack.parameters["inner.output.weight"].grad.numpy()
    network = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3)).double()
    state = stack.state(0)
    network[1].load_state_dict({"weight": state["inner.output.weight"], "bias": state["inner.output.bias"]})
    x = ((task.x - state["x_mean"]) / state["x_std"]).detach()
    theirs = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for _ in range(400):
            network.zero_grad()
            nn.functional.cross_entropy(network(x), task.y).backward()
            theirs.append(network[1].weight.grad.numpy().copy())
    theirs = np.array(theirs)
    error = np.sqrt((ours.var(0) + theirs.var(0)) / 400)
    assert (np.abs(ours.mean(0) - theirs.mean(0)) < 5.0 * error).all()
    np.testing.assert_allclose(ours.std(0), theirs.std(0), rtol=0.25)
