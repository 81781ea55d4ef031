"""Several networks at once, their parameters stacked under vmap, against the same networks one by one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch.func import functional_call, grad, stack_module_state, vmap  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402

MEMBERS = 3
LABELS = torch.tensor([0, 1, 1, 0])


@pytest.fixture
def ensemble(small, built, drawn):
    """Networks of different seeds whose batch norms have seen different data, and inputs for each of them."""
    architecture, shape = small
    networks = [built(architecture, seed) for seed in range(MEMBERS)]
    for seed, network in enumerate(networks):
        network(2.0 * drawn(4, *shape, seed=10 + seed) + 1.0)
    return networks, drawn(MEMBERS, 4, *shape, seed=5)


def stacked(networks):
    """Parameters and buffers of all, each with the members in front."""
    weights, buffers = stack_module_state(networks)
    return {name: value.detach() for name, value in weights.items()}, buffers


def test_in_eval_mode_all_see_the_same_inputs(ensemble):
    networks, x = ensemble
    for network in networks:
        network.eval()
    made = vmap(lambda *state: functional_call(networks[0], state, (x[0],)))(*stacked(networks))
    torch.testing.assert_close(made, torch.stack([network(x[0]) for network in networks]))
    assert not torch.allclose(made[0], made[1])


def test_in_train_mode_each_sees_its_own_inputs_and_its_batch_norms_learn(ensemble):
    networks, x = ensemble
    weights, buffers = stacked(networks)
    before = {name: value.clone() for name, value in buffers.items()}
    made = vmap(lambda weights, buffers, x: functional_call(networks[-1], (weights, buffers), (x,)))(
        weights, buffers, x
    )
    torch.testing.assert_close(made, torch.stack([network(each) for network, each in zip(networks, x, strict=True)]))
    for name, value in buffers.items():
        torch.testing.assert_close(value, torch.stack([dict(each.named_buffers())[name] for each in networks]))
        assert not torch.equal(value, before[name])


def test_gradients_are_those_of_the_separate_networks(ensemble):
    networks, x = ensemble
    weights, buffers = stacked(networks)

    def loss(weights, buffers, x):
        return cross_entropy(functional_call(networks[0], (weights, buffers), (x,)), LABELS)

    inside = vmap(grad(loss))(weights, {name: value.clone() for name, value in buffers.items()}, x)
    leaves = {name: value.clone().requires_grad_() for name, value in weights.items()}
    vmap(loss)(leaves, buffers, x).sum().backward()
    for network, each in zip(networks, x, strict=True):
        cross_entropy(network(each), LABELS).backward()
    for name, value in inside.items():
        expected = torch.stack([dict(network.named_parameters())[name].grad for network in networks])
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(leaves[name].grad, expected)
