"""Inputs that are mappings of tensors: packed, standardised by column, and given to the network by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from training.cases import QUICK, rows_of  # noqa: E402

from calibrant.errors import CalibrantError, ShapeError, UsageError, ValuesError  # noqa: E402
from calibrant.methods import (  # noqa: E402
    BayesianRidge,
    DeepEnsemble,
    Laplace,
    Task,
    Vanilla,
    load,
    posterior_of,
)
from calibrant.networks.fields import MAX_INTEGER  # noqa: E402

SINGLE = replace(QUICK, precision="float32")


class Tagged(nn.Module):
    """In the style of Hugging Face: ids, a mask, and a table of numbers."""

    def __init__(self, words=20, width=5, classes=3):
        super().__init__()
        self.embedding, self.out = nn.Embedding(words, width), nn.Linear(width + 2, classes)

    def forward(self, input_ids, attention_mask, numbers):
        assert input_ids.dtype == attention_mask.dtype == torch.int64
        assert numbers.is_floating_point()
        words = (self.embedding(input_ids) * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True)
        return self.out(torch.cat((words, numbers), dim=1))


def mapping(n=40):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 20, (n, 4))
    mask = np.arange(4) < rng.integers(1, 5, n)[:, None]
    numbers = rows_of(n, 2).astype(np.float32) * [3.0, 0.1] + [7.0, -2.0]
    return {"input_ids": ids, "attention_mask": mask, "numbers": numbers.astype(np.float32)}, ids[:, 0] % 3


X, Y = mapping()
TASK = Task.classification(X, Y, classes=3)


def part(rows):
    return {name: value[rows] for name, value in X.items()}


def test_columns_of_numbers_are_standardised_and_whole_numbers_are_not():
    scales = TASK.standardisation(torch.float64)
    assert TASK.shape == (10,)
    np.testing.assert_array_equal(scales["x_mean"][:8], 0.0)
    np.testing.assert_array_equal(scales["x_std"][:8], 1.0)
    np.testing.assert_allclose(scales["x_mean"][8:], X["numbers"].mean(0), rtol=1e-6)
    np.testing.assert_allclose(scales["x_std"][8:], X["numbers"].std(0), rtol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_network_gets_what_it_would_by_itself(precision, tmp_path):
    posterior = DeepEnsemble(replace(QUICK, precision=precision), members=3).fit(TASK, lambda: Tagged(), device="cpu")
    scores = posterior.predict(X).scores
    for k in range(3):
        state = posterior.tensors(k)
        network = Tagged().to(state["y_std"].dtype)
        network.load_state_dict({name[6:]: value for name, value in state.items() if name.startswith("inner.")})
        numbers = (torch.from_numpy(X["numbers"]) - state["x_mean"][8:]) / state["x_std"][8:]
        ids, mask = (torch.from_numpy(X[name]).long() for name in ("input_ids", "attention_mask"))
        expected = network(ids, mask, numbers.to(state["y_std"].dtype)).detach()
        np.testing.assert_allclose(scores[k], expected, atol=1e-5)
    tensors = {name: torch.as_tensor(value) for name, value in X.items()}
    np.testing.assert_allclose(posterior.member(1)(tensors), scores[1], atol=1e-6)
    np.testing.assert_allclose(posterior.module(2)(tensors).detach(), scores[2], atol=1e-5)
    back = load(posterior.save(tmp_path / "mapping.safetensors"), lambda: Tagged())
    assert back.recipe.fields == posterior.recipe.fields
    np.testing.assert_array_equal(back.predict(X).scores, scores)


def test_members_together_are_members_apart():
    method = DeepEnsemble(QUICK, members=3)
    one, other = (method.fit(TASK, lambda: Tagged(), 1, device="cpu", together=size) for size in (None, 1))
    np.testing.assert_allclose(one.predict(X).scores, other.predict(X).scores, rtol=0, atol=1e-9)


def test_a_trained_network_of_a_mapping():
    task = Task.classification(X, Y, classes=3, standardise=False)
    module = Tagged()
    given = posterior_of(module, task)
    ids, mask = (torch.from_numpy(X[name]).long() for name in ("input_ids", "attention_mask"))
    with torch.no_grad():
        expected = module(ids, mask, torch.from_numpy(X["numbers"]))
    np.testing.assert_allclose(given.predict(X).scores[0], expected, atol=1e-6)
    made = Laplace(prior_precision=1.0).around(given, task)
    assert made.predict(part(slice(3)), 5).scores.shape == (5, 3, 3)
    tuned = Vanilla(SINGLE).fit(task, module, start="given", train="last")
    assert torch.equal(tuned.tensors(0)["inner.embedding.weight"], module.embedding.weight.detach())


def test_ids_alone_stay_whole():
    ids = {"ids": torch.tensor([[3, MAX_INTEGER], [1, 2]])}
    task = Task.classification(ids, [0, 1], classes=2, standardise=False)
    assert task.x.dtype == torch.int64
    with pytest.raises(ValuesError, match="integers of at most 16777216, got 16777217 in ids"):
        Task.classification({"ids": torch.tensor([[MAX_INTEGER + 1], [0]])}, [0, 1], classes=2)


REFUSED = {
    "unequal lengths": (
        lambda: Task.classification({**X, "numbers": X["numbers"][:5]}, Y, classes=3), ShapeError, "40 in input_ids",
    ),
    "nothing": (lambda: Task.classification({}, Y, classes=3), ShapeError, "an empty mapping"),
    "no name": (lambda: Task.classification({"a b": X["numbers"]}, Y, classes=3), UsageError, "names of arguments"),
    "text": (lambda: Task.classification({"a": [["x"]] * 40}, Y, classes=3), ValuesError, "x, a"),
    "other rows": (lambda: Task.classification(part(slice(5)), Y, classes=3), ShapeError, "40 rows"),
    "other names": (
        lambda: Vanilla(SINGLE).fit(TASK, lambda: Tagged()).predict({"ids": X["input_ids"]}), ShapeError, "input_ids",
    ),
    "another network": (lambda: Vanilla(SINGLE).fit(TASK, lambda: nn.Linear(10, 3)), UsageError, "unexpected keyword"),
    "ridge": (lambda: BayesianRidge().fit(Task.regression(X, Y.astype(float))), ShapeError, "a mapping"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused_in_one_line(what):
    make, kind, words = REFUSED[what]
    with pytest.raises(CalibrantError) as caught:
        make()
    assert isinstance(caught.value, kind)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()
