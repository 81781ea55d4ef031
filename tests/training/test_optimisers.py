"""Steps of the stacked optimisers against torch.optim, on real networks with convolutions and batch normalisation."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from training.cases import images, stacked  # noqa: E402

from calibrant.methods import Training  # noqa: E402
from calibrant.networks import ResNet  # noqa: E402
from calibrant.training.batches import Batches  # noqa: E402
from calibrant.training.loop import TrainingLoop  # noqa: E402
from calibrant.training.optimisers import Optimiser  # noqa: E402
from calibrant.training.schedules import LinearDecay  # noqa: E402
from calibrant.training.task import Run  # noqa: E402

NETWORK = ResNet(8, 3, 2, 2)
RATES, DECAYS = (0.05, 0.02, 0.05), (1e-2, 0.0, 3e-2)
BASE = Training(epochs=10, batch=12, schedule=LinearDecay(0.3, 0.8, 0.1), precision="float64")
"""Ten epochs of two batches: twenty steps, in which the rate falls."""
CASES = {
    "sgd": replace(BASE, momentum=0.0),
    "momentum": replace(BASE, momentum=0.9),
    "nesterov": replace(BASE, momentum=0.8, nesterov=True),
    "clipped": replace(BASE, momentum=0.9, clip=0.5),
    "adam": replace(BASE, optimiser="adam"),
    "adam clipped": replace(BASE, optimiser="adam", clip=0.1),
}


@pytest.fixture
def seen(monkeypatch):
    """The rows of every step, as they come."""
    rows, kept = Batches.rows, []

    def spy(self, count):
        kept.append(rows(self, count))
        return kept[-1]

    monkeypatch.setattr(Batches, "rows", spy)
    return kept


def reference(recipe, state, training, rate, decay, batches):
    """The same network, trained by PyTorch on the same batches."""
    module = recipe.network().double().train()
    for name, value in state.items():
        parent, _, leaf = name.rpartition(".")
        holder = module.get_submodule(parent)
        if leaf in holder._parameters:
            getattr(holder, leaf).data.copy_(value)
        else:
            setattr(holder, leaf, value.clone())
    known = {"lr": rate, "weight_decay": decay}
    if training.optimiser == "adam":
        optimiser = torch.optim.Adam(module.parameters(), **known)
    else:
        optimiser = torch.optim.SGD(
            module.parameters(), momentum=training.momentum, nesterov=training.nesterov, **known
        )
    norms = []
    for step, (x, y) in enumerate(batches):
        optimiser.param_groups[0]["lr"] = rate * training.schedule.factor(step / len(batches), training.epochs)
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()
        if training.clip is not None:
            norms.append(nn.utils.clip_grad_norm_(module.parameters(), training.clip).item())
        optimiser.step()
    return module.state_dict(), norms


@pytest.mark.parametrize("case", CASES)
def test_twenty_steps_are_those_of_pytorch(case, seen):
    training, task = CASES[case], images()
    runs = [Run(0, k, task, rate, decay) for k, (rate, decay) in enumerate(zip(RATES, DECAYS, strict=True))]
    stack, recipe = stacked(task, NETWORK, runs)
    before = [stack.state(k) for k in range(len(runs))]
    loop = TrainingLoop(stack, runs, training)
    seen.clear()
    loop.run()
    assert len(seen) == 20
    for k, run in enumerate(runs):
        batches = [(x[k], y[k]) for x, y in seen]
        expected, norms = reference(recipe, before[k], training, run.rate, run.decay, batches)
        found = stack.state(k)
        assert any(norm > training.clip for norm in norms) or training.clip is None
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=0.0, atol=1e-10, msg=name)
            if name.endswith("weight"):
                assert (value - before[k][name]).abs().max() > 1e-3


def test_gradients_are_clipped_for_each_network_and_not_for_all():
    """A network with small gradients keeps them, however large those of another are."""
    task = images()
    stack, _ = stacked(task, NETWORK, [Run(0, k, task, 1.0, 0.0) for k in range(2)])
    optimiser = Optimiser(stack, replace(BASE, momentum=0.0, clip=1.0), [1.0, 1.0], [0.0, 0.0])
    before = {name: value.detach().clone() for name, value in stack.parameters.items()}
    with torch.no_grad():
        for parameter in stack.parameters.values():
            parameter.grad[0], parameter.grad[1] = 1e-3, 10.0
    optimiser.step(torch.tensor(optimiser.numbers(0, 1.0), dtype=torch.float64))
    ways = torch.cat([(before[name] - value.detach()).flatten(1) for name, value in stack.parameters.items()], dim=1)
    torch.testing.assert_close(ways[0], torch.full_like(ways[0], 1e-3), rtol=0.0, atol=1e-12)
    assert ways[1].norm().item() == pytest.approx(1.0, abs=1e-5)
    assert not stack.gradients.any()
