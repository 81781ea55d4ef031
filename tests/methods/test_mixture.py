"""Mixtures of posteriors: which members they have, that weights are equal, files, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from methods.small_methods import SHORT, fitted, values  # noqa: E402
from training.cases import Normalised, same_bits, table  # noqa: E402

from calibrant.errors import UsageError  # noqa: E402
from calibrant.methods import SWAG, Cell, DeepEnsemble, Laplace, Mixture, fit_together, load, mixture  # noqa: E402
from calibrant.networks import MLP  # noqa: E402

TASK = table()
X = TASK.x[:7]


@pytest.fixture(scope="module")
def multiswag():
    """MultiSWAG: three posteriors with batch norm, four draws each."""
    method = SWAG(SHORT, start=1, rank=2, draws=4)
    return mixture(fit_together([Cell(method, TASK, network, seed, start="fresh") for seed in range(3)])), network


network = Normalised()


@pytest.mark.parametrize("members", [1, 2, 5, 12])
def test_members_are_taken_in_turn(multiswag, members):
    made, _ = multiswag
    outputs, scale = made.outputs(X, members)
    assert scale.std.shape == (members,)
    for k in range(members):
        expected = made.posteriors[k % 3].outputs(X, k // 3 + 1)[0][k // 3]
        torch.testing.assert_close(outputs[k], expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(made.member(k)(X), expected, rtol=0, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(made.module(members - 1)(X), outputs[-1], rtol=0, atol=1e-12)


def test_weights_are_equal(multiswag):
    made, _ = multiswag
    assert made.max_members == 12
    uneven = mixture([fitted("deep_ensemble", "categorical"), fitted("mc_dropout", "categorical")])
    assert uneven.max_members == 6
    predicted = uneven.predict(X)
    apart = [each.predict(X, 3).scores for each in uneven.posteriors]
    np.testing.assert_array_equal(predicted.scores[0::2], apart[0])
    np.testing.assert_array_equal(predicted.scores[1::2], apart[1])
    with pytest.raises(UsageError, match="members: expected a number from 1 to 6"):
        uneven.predict(X, 7)


def test_a_file_has_all_posteriors(multiswag, tmp_path):
    made, own = multiswag
    back = load(made.save(tmp_path / "mixture.safetensors"), own)
    assert isinstance(back, Mixture)
    assert same_bits(made, back)
    assert repr(back) == repr(made) == "Mixture('mixture of 3 swag', 12 members, 'task', seed=0)"
    np.testing.assert_array_equal(back.predict(X, 5).scores, made.predict(X, 5).scores)


def test_methods_and_networks_may_differ(tmp_path):
    ensemble = DeepEnsemble(SHORT, members=2).fit(TASK, MLP(4, 3, (5,)))
    laplace = Laplace(SHORT, layers="all").fit(TASK, MLP(4, 3, (6, 6), "tanh"), 1)
    made = mixture([ensemble, mixture([laplace, ensemble])])
    assert made.about.method == "mixture of 1 deep_ensemble and 1 mixture of 1 laplace and 1 deep_ensemble"
    assert made.max_members == 4
    back = load(made.save(tmp_path / "mixture.safetensors"))
    np.testing.assert_array_equal(back.predict(X, 4).scores, made.predict(X, 4).scores)
    cost = made.about.cost
    assert cost.stored == sum(value.numel() for value in made.state_dict()[0].values())


def test_numbers(tmp_path):
    made = mixture([fitted("bayesian_ridge", "gaussian"), fitted("bayesian_ridge", "gaussian", 1)])
    assert made.max_members is None
    back = load(made.save(tmp_path / "ridge.safetensors"))
    np.testing.assert_array_equal(values(back.predict(X, 3)), values(made.predict(X, 3)))


@pytest.mark.parametrize("make", [
    lambda: mixture([]),
    lambda: mixture([fitted("vanilla", "categorical")]),
    lambda: mixture([fitted("vanilla", "categorical"), 3]),
    lambda: mixture([fitted("vanilla", "categorical"), fitted("vanilla", "gaussian")]),
])  # fmt: skip
def test_what_cannot_be_mixed_is_refused_in_one_line(make):
    with pytest.raises(UsageError, match="mixture: expected") as caught:
        make()
    assert str(caught.value).isprintable()
