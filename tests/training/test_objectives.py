"""Objectives of a method's own: their scalars, their tensors, parameter groups, and what holds for every training."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from training.cases import (  # noqa: E402
    QUICK,
    SMALL,
    AdaptiveEnsemble,
    AdaptivePrior,
    apart,
    runs_of,
    same_bits,
    stacked,
    table,
)

from calibrant.errors import FileError, UsageError  # noqa: E402
from calibrant.methods import DeepEnsemble, Vanilla  # noqa: E402
from calibrant.networks import MLP  # noqa: E402
from calibrant.training.loop import TrainingLoop  # noqa: E402
from calibrant.training.objectives import Objective  # noqa: E402
from calibrant.training.optimisers import ParameterGroup  # noqa: E402

TASK = table(n=60).split(0.4)


def loop_of(objective=None, groups=(), count=2, training=QUICK, decay=0.0):
    runs = runs_of(TASK, count, decay=decay)
    stack, _ = stacked(TASK, SMALL, runs)
    return TrainingLoop(stack, runs, training, objective=objective, groups=groups)


def test_members_together_are_members_apart_over_twenty_steps():
    training = replace(QUICK, epochs=10, batch=18)  # two steps an epoch
    method = AdaptiveEnsemble(training, members=3)
    together, alone = (method.fit(TASK, SMALL, 1, device="cpu", together=size) for size in (None, 1))
    assert apart(together, alone) < 1e-9
    assert apart(together, DeepEnsemble(training, members=3).fit(TASK, SMALL, 1, device="cpu")) > 1e-3


def test_scalars_are_those_of_each_step():
    """Recorded as the loss sees them: a tensor that is written in place."""
    found = []

    class Recording(AdaptivePrior):
        def loss(self, step):
            found.append(float(step.scalars["weight"]))
            return super().loss(step)

    loop = loop_of(Recording(), training=replace(QUICK, epochs=4, batch=9))
    loop.run()
    steps = loop.batches.steps
    expected = [0.02 * min(1.0, 2.0 * k / (4 * steps)) for k in range(4 * steps)]
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_tensors_belong_to_the_objective_and_to_checkpoints():
    loop = loop_of(AdaptivePrior())
    loop.run()
    stored = loop.state()["tensors"]
    assert torch.equal(stored["objective/precision"], loop.objective_tensors["precision"])
    assert (stored["objective/precision"] != 1.0).all()
    again = loop_of(AdaptivePrior())
    again.restore({name: value.clone() for name, value in stored.items()}, vars(loop.history))
    assert torch.equal(again.objective_tensors["precision"], loop.objective_tensors["precision"])


def test_the_penalty_is_that_of_weight_decay():
    """w·½τ|θ|² with w and τ fixed is a decay of wτ."""

    class Fixed(AdaptivePrior):
        def scalar_values(self, t, epochs):
            return {"weight": 0.1}

        def after_epoch(self, look, epoch, tensors):
            pass

    one, other = loop_of(Fixed()), loop_of(decay=0.1)
    for loop in (one, other):
        loop.run()
    torch.testing.assert_close(one.stack.flat, other.stack.flat, rtol=0, atol=1e-12)


def test_a_checkpoint_of_another_objective_is_refused(tmp_path):
    AdaptiveEnsemble(QUICK, members=2).fit(TASK, SMALL, checkpoint=tmp_path)

    @dataclass(frozen=True)
    class Renamed(DeepEnsemble):
        name = "adaptive_ensemble"

    with pytest.raises(FileError, match="expected a checkpoint of this training"):
        Renamed(QUICK, members=2).fit(TASK, SMALL, checkpoint=tmp_path)


def test_groups_have_rates_and_decays_of_their_own():
    """One step of plain SGD, by hand; of several groups that match, the last counts."""
    groups = [
        ParameterGroup("hidden.0.*", rate=3.0, decay=0.7),
        ParameterGroup("*.bias", decay=0.0),
        ParameterGroup("output.*", rate=0.0),
    ]
    loop = loop_of(groups=groups, training=replace(QUICK, momentum=0.0), decay=0.3)
    expected = {
        "inner.hidden.0.weight": (0.15, 0.7),
        "inner.hidden.0.bias": (0.05, 0.0),
        "inner.hidden.1.weight": (0.05, 0.3),
        "inner.hidden.1.bias": (0.05, 0.0),
        "inner.output.weight": (0.0, 0.3),
        "inner.output.bias": (0.0, 0.3),
    }
    before = {name: value.detach().clone() for name, value in loop.stack.parameters.items()}
    loop.loss(16).sum().backward()
    slopes = {name: value.grad.clone() for name, value in loop.stack.parameters.items()}
    loop.stack.gradients.zero_()
    loop.numbers.copy_(torch.tensor(loop.optimiser.numbers(0, 1.0), dtype=torch.float64))
    loop.step(16, noisy=False)
    assert loop.stack.parameters.keys() == expected.keys()
    for name, (rate, decay) in expected.items():
        after = before[name] - rate * (slopes[name] + decay * before[name])
        torch.testing.assert_close(loop.stack.parameters[name].detach(), after, rtol=0, atol=1e-14)


def test_a_method_may_start_its_networks_elsewhere():
    @dataclass(frozen=True)
    class Zero(Vanilla):
        name = "zero"

        def initial(self, recipe, run):
            network = super().initial(recipe, run)
            for value in network.parameters():
                value.data.fill_(0.5 + run.member)
            return network

    posterior = Zero(replace(QUICK, rate=0.0, decay=0.0)).fit(TASK, MLP(4, 3, ()), device="cpu")
    assert float(posterior.states[0]["inner.output.weight"].double().std()) == 0.0
    same = Zero(replace(QUICK, rate=0.0, decay=0.0)).fit(TASK, MLP(4, 3, ()), 5, device="cpu")
    assert same_bits(posterior, same)


class Forgetful(AdaptivePrior):
    def scalar_values(self, t, epochs):
        return {"wieght": 1.0}


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"objective": Forgetful()}, ["scalar_values", "weight", "wieght"]),
        ({"groups": [ParameterGroup("outputs.*")]}, ["parameter group", "'outputs.*'"]),
    ],
    ids=["scalars", "pattern"],
)
def test_what_cannot_be_is_refused_in_one_line(known, words):
    with pytest.raises(UsageError) as caught:
        loop_of(**known).run()
    assert str(caught.value).isprintable()
    for word in words:
        assert word in str(caught.value)


def test_an_objective_needs_a_loss():
    with pytest.raises(TypeError, match="loss"):
        Objective()
