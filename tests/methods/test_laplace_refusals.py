"""What a Laplace approximation cannot do it says in one line, before a network is trained."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from calibrant.errors import TrainingError, UsageError  # noqa: E402
from calibrant.methods import DeepEnsemble, Laplace, MCDropout, Task, Training, Vanilla, laplace_layers  # noqa: E402
from calibrant.networks import MLP  # noqa: E402

SHORT = Training(epochs=2, batch=8, rate=0.01)
NEVER = Training(epochs=10**6, batch=1)
"""A training that would not end: what is refused is refused before it."""


@pytest.fixture(scope="module")
def task():
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
    return Task.regression(x, x[:, 0])


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory, self.out = nn.LSTM(1, 3, batch_first=True), nn.Linear(3, 2)

    def forward(self, x):
        return self.out(self.memory(x[..., None])[0][:, -1])


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.inner(self.inner(x)))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.out(self.two(self.one(x)))


class Mixing(nn.Module):
    """Lays rows and columns in one axis."""

    def __init__(self):
        super().__init__()
        self.each, self.out = nn.Linear(1, 3), nn.Linear(12, 2)

    def forward(self, x):
        return self.out(self.each(x.reshape(-1, 1)).view(len(x), -1))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 2)

    def forward(self, x):
        return 2.0 * self.inner(x)


def refused(made, *words, error=UsageError):
    """The message of a call that fails: one line, with all the words."""
    with pytest.raises(error) as caught:
        made()
    text = str(caught.value)
    assert "\n" not in text
    assert "expected" in text
    for word in words:
        assert word in text
    return text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"structure": "kfca"}, ["structure", "'auto', 'full', 'kfac'", "did you mean 'kfac'"]),
        ({"structure": "last_layer"}, ["structure", "use layers='last'"]),
        ({"layers": "lats"}, ["layers", "'last' or 'all'", "did you mean 'last'"]),
        ({"predictive": "linear"}, ["predictive", "'linearised' or 'sampled'"]),
        ({"fisher": "exactly"}, ["fisher", "'exact' or 'empirical'"]),
        ({"tune": "scales"}, ["tune", "did you mean 'scale'"]),
        ({"prior_precision": 0.0}, ["prior_precision", "above 0"]),
        ({"prior_precision": "1"}, ["prior_precision", "above 0"]),
        ({"prior_precision": float("nan")}, ["prior_precision", "above 0"]),
        ({"scale": -1.0}, ["scale", "above 0"]),
        ({"scale": None}, ["scale", "above 0"]),
        ({"rows": 0}, ["rows", "an integer"]),
        ({"rows": 2.5}, ["rows", "an integer"]),
        ({"draws": 0}, ["draws", "an integer"]),
        ({"draws": True}, ["draws", "an integer"]),
    ],
    ids=str,
)
def test_settings_that_make_no_sense(settings, words):
    refused(lambda: Laplace(**settings), *words)


def test_no_decay_and_no_prior(task):
    never = Training(epochs=10**6, batch=1, decay=0.0)
    refused(lambda: Laplace(never).fit(task, MLP(4, 2, ())), "prior_precision=1.0", "weight decay")
    network = Vanilla(Training(epochs=2, batch=8, rate=0.01, decay=0.0)).fit(task, MLP(4, 2, ()))
    refused(lambda: Laplace().around(network, task), "prior_precision=1.0")
    assert Laplace(prior_precision=2.0).around(network, task).prior_precision == 2.0


def test_nothing_to_tune_by(task):
    refused(lambda: Laplace(NEVER, tune="prior").fit(task, MLP(4, 2, ())), "validation rows", "task.split")


@pytest.mark.parametrize("structure", ["diagonal", "kfac"])
@pytest.mark.parametrize(
    ("network", "words"),
    [
        (Recurrent(), ["layer inner.memory", "LSTM", "layers='last'"]),
        (lambda: nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 3), nn.Flatten(), nn.Linear(4, 2)), ["Conv1d"]),
        (
            lambda: nn.Sequential(
                nn.Unflatten(1, (4, 1, 1)), nn.Conv2d(4, 4, 1, groups=2), nn.Flatten(), nn.Linear(4, 2)
            ),
            ["layer inner.1", "Conv2d(groups=2)"],
        ),
        (lambda: nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.Linear(4, 2)), ["PReLU"]),
        (Tied(), ["shared with", "inner.one.weight", "inner.two.weight"]),
    ],
    ids=["lstm", "conv1d", "groups", "prelu", "tied"],
)
def test_layers_that_are_not_known(structure, network, words, task):
    refused(lambda: Laplace(NEVER, layers="all", structure=structure).fit(task, network, start="fresh"), *words)


def test_those_layers_are_no_hindrance_to_the_last_layer(task):
    made = Laplace(SHORT).fit(task, Recurrent(), start="fresh")
    assert made.names == ["inner.out"]


@pytest.mark.parametrize("structure", ["diagonal", "kfac"])
def test_rows_that_pass_a_layer_twice_or_side_by_side(structure, task):
    refused(
        lambda: Laplace(SHORT, layers="all", structure=structure).fit(task, Twice(), start="fresh"),
        "layer inner.inner",
        "twice",
    )
    refused(
        lambda: Laplace(SHORT, layers="all", structure=structure).fit(task, Mixing(), start="fresh"),
        "layer inner.each",
        "first axis",
        "(64, 1)",
    )


def test_an_output_that_no_dense_layer_gives(task):
    refused(lambda: Laplace(NEVER).fit(task, Scaled(), start="fresh"), "layers='last'", "nn.Linear", "something else")
    assert Laplace(SHORT, layers="all").fit(task, Scaled(), start="fresh").names == ["inner.inner"]


def test_a_last_layer_whose_covariance_is_too_large(task, monkeypatch):
    monkeypatch.setattr(laplace_layers, "MAX_WEIGHTS", 9)
    for layers in ("last", "all"):
        method = Laplace(NEVER, layers=layers, structure="full")
        refused(lambda method=method: method.fit(task, MLP(4, 2, ())), "at most 9 weights", "got 10", "kfac")


def test_a_layer_that_is_not_called(task):
    refused(lambda: Laplace(NEVER, layers="all").fit(task, Unused(), start="fresh"), "layer inner.spare", "called")


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.out, self.spare = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(x)


def test_posteriors_of_anything_but_one_network(task):
    network = MLP(4, 2, (3,))
    two = DeepEnsemble(SHORT, members=2).fit(task, network, start="fresh")
    refused(lambda: Laplace().around(two, task), "one trained network", "WeightSamples with 2 members")
    masked = MCDropout(SHORT).fit(task, network, start="fresh")
    refused(lambda: Laplace().around(masked, task), "DropoutPosterior")


def test_another_task(task):
    made = Vanilla(SHORT).fit(task, MLP(4, 2, (3,)))
    other = Task.regression(task.x[:, :3], task.y)
    refused(lambda: Laplace().around(made, other), "task of training", "(3,)")
    classes = Task.classification(task.x, torch.zeros(16, dtype=torch.long), classes=2)
    refused(lambda: Laplace().around(made, classes), "Categorical")


def test_a_network_that_is_no_numbers(task):
    made = Vanilla(SHORT).fit(task, MLP(4, 2, (3,)))
    weight = made.states[0]["inner.output.weight"]
    weight[0, 0] = float("nan")
    refused(lambda: Laplace().around(made, task), "not finite", error=TrainingError)
    weight[0, 0] = 3e38
    made.states[0]["inner.hidden.0.weight"] *= 1e3
    refused(lambda: Laplace().around(made, task), "finite outputs", error=TrainingError)


def test_a_prior_that_vanishes_beside_the_curvature():
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    task = Task.regression(torch.cat((x, 1e4 * x), dim=1), x[:, 0])
    made = Vanilla(SHORT).fit(task, MLP(8, 2, ()))
    refused(lambda: Laplace(prior_precision=1e-300).around(made, task), "prior", "too small", "larger prior")
