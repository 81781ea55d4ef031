"""BatchEnsemble: its members against the network that was trained, and what they share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.func import functional_call  # noqa: E402
from training.cases import QUICK, Normalised, images, table  # noqa: E402

from calibrant.errors import UsageError  # noqa: E402
from calibrant.methods import BatchEnsemble, Cell, fit_together  # noqa: E402
from calibrant.methods.batch_ensemble import BatchEnsemblePosterior  # noqa: E402
from calibrant.networks import MLP, ResNet  # noqa: E402

CASES = {
    "table": (table(), MLP(4, 3, (6, 5))),
    "own": (table(), lambda: Normalised()),
    "images": (images(n=24), ResNet(8, 3, 2, 4)),
    "convolutions": (
        images(n=24),
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3, bias=True), nn.ReLU(), nn.Flatten(), nn.Linear(108, 3)),
    ),
}


class Kept(BatchEnsemble):
    """Keeps the network with factors that was trained."""

    name = "kept"

    def posterior(self, trained):
        made = super().posterior(trained)
        made.trained = trained
        return made


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("members", [1, 3])
def test_materialised_members_are_those_of_the_network_that_was_trained(case, members):
    """Row i of a batch is computed by member i mod M."""
    task, network = CASES[case]
    made = Kept(QUICK, members=members).fit(task, network, 1, device="cpu")
    trained = made.trained
    template = trained.recipe.template()
    assert made.max_members == members
    outputs = made.outputs(made._rows(task.x), members, device="cpu")[0]
    mixed = functional_call(template.module.eval().double(), trained.states[0], (task.x,))
    expected = torch.stack([outputs[i % members, i] for i in range(len(task.x))])
    torch.testing.assert_close(mixed, expected, rtol=0, atol=1e-10)
    if members > 1:
        assert not torch.allclose(outputs[0], outputs[1])


def test_little_more_than_one_network_is_stored():
    task, network = CASES["images"]
    made = BatchEnsemble(QUICK, members=4).fit(task, network, device="cpu")
    cost = made.about.cost
    assert isinstance(made, BatchEnsemblePosterior)
    factors = sum(value.numel() for value in made.factors.values())
    weights = [value for name, value in made.shared.items() if name.endswith("weight") and value.dim() > 1]
    assert factors == 4 * sum(sum(value.shape[:2]) for value in weights)
    assert cost.stored == sum(value.numel() for value in made.shared.values()) + factors
    assert factors < cost.network


def test_factors_have_no_decay_and_a_rate_of_their_own():
    task, network = CASES["table"]
    training = replace(QUICK, epochs=1, rate=0.0)
    still = BatchEnsemble(training, members=2).fit(task, network, device="cpu")
    assert all(bool((value.abs() == 1.0).all()) for value in still.factors.values())
    held = BatchEnsemble(replace(QUICK, decay=0.5), members=2, factor_rate=0.0).fit(task, network, device="cpu")
    assert all(torch.equal(value, still.factors[name]) for name, value in held.factors.items())
    assert not torch.equal(held.shared["inner.output.weight"], still.shared["inner.output.weight"])


def test_seeds_together_are_seeds_apart():
    task, network = CASES["images"]
    method = BatchEnsemble(QUICK, members=2)
    together = fit_together([Cell(method, task, network, seed) for seed in (0, 1)], device="cpu")
    for seed, posterior in enumerate(together):
        alone = method.fit(task, network, seed, device="cpu")
        x = posterior._rows(task.x)
        np.testing.assert_allclose(posterior.outputs(x, 2)[0], alone.outputs(x, 2)[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: BatchEnsemble(QUICK, members=0), "members"),
        (lambda: BatchEnsemble(QUICK, factor_rate=-1.0), "factor_rate"),
        (lambda: BatchEnsemble(QUICK).fit(replace(table(), standardises=False), Normalised(), start="given"), "fresh"),
        (
            lambda: BatchEnsemble(QUICK).fit(
                images(), lambda: nn.Sequential(nn.Conv2d(2, 2, 3, groups=2), nn.Flatten(), nn.Linear(72, 3))
            ),
            "groups=1",
        ),
    ],
    ids=["members", "rate", "given", "groups"],
)
def test_what_cannot_be_is_refused_in_one_line(make, words):
    with pytest.raises(UsageError) as caught:
        make()
    assert words in str(caught.value)
    assert str(caught.value).isprintable()
