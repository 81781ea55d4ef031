"""Networks that were trained elsewhere: nothing of them is changed, and every method that can use them does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from training.cases import QUICK, Normalised, rows_of  # noqa: E402

from calibrant.errors import FileError, UsageError  # noqa: E402
from calibrant.methods import (  # noqa: E402
    SWAG,
    Augmentation,
    DeepEnsemble,
    FixedGaussian,
    Laplace,
    MCDropout,
    Task,
    Vanilla,
    augmented,
    last_layer_ensemble,
    load,
    mixture,
    posterior_of,
)
from calibrant.networks import MLP  # noqa: E402

SINGLE = replace(QUICK, precision="float32")


class Backbone(nn.Module):
    """In the style of timm: a stem, blocks with batch norm and a scale of their own, pooling, and a head."""

    def __init__(self, classes=3, width=6):
        super().__init__()
        self.stem = nn.Conv2d(2, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.block = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.SiLU())
        self.layer_scale = nn.Parameter(torch.full((width, 1, 1), 0.1))
        self.head = nn.Linear(width, classes)

    def forward_features(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        return x + self.layer_scale * self.block(x)

    def forward(self, x):
        return self.head(self.forward_features(x).mean((2, 3)))


class Attention(nn.Module):
    """In the style of Hugging Face: embeddings, one layer of attention with dropout, layer norm, and a classifier."""

    def __init__(self, words=20, width=8, classes=3):
        super().__init__()
        self.embeddings, self.positions = nn.Embedding(words, width), nn.Embedding(6, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)
        self.classifier = nn.Linear(width, classes)

    def forward(self, ids):
        x = self.embeddings(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        scores = self.query(x) @ self.key(x).mT / x.shape[-1] ** 0.5
        x = self.norm(x + self.dropout(scores.softmax(-1) @ self.value(x)))
        return self.classifier(x.mean(1))


class LowRank(nn.Module):
    """LoRA: a frozen dense layer plus a product of two small ones."""

    def __init__(self, layer, rank=2):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = (
            nn.Linear(layer.in_features, rank, bias=False),
            nn.Linear(rank, layer.out_features, bias=False),
        )
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def picture_task():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    x = rng.normal(size=(30, 2, 8, 8)).astype(np.float32) + 0.7 * y[:, None, None, None].astype(np.float32)
    return Task.classification(x, y, classes=3, standardise=False)


def word_task():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 20, (30, 6))
    return Task.classification(ids, ids[:, 0] % 3, classes=3, standardise=False)


def trained(module, task, steps=20):
    """Trained in a loop by hand, as users do."""
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(module.parameters(), 0.01)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(task.x), task.y).backward()
        optimiser.step()
    return module.eval()


@pytest.fixture(scope="module", params=["timm", "hugging face"])
def case(request):
    task = picture_task() if request.param == "timm" else word_task()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return trained(Backbone() if request.param == "timm" else Attention(), task), task


# ---------------------------------------------------------------------------------------------- posterior_of
def test_a_trained_module_predicts_as_it_does_itself(case, tmp_path):
    module, task = case
    before = {name: value.clone() for name, value in module.state_dict().items()}
    made = posterior_of(module, task)
    with torch.no_grad():
        expected = module(task.x)
    torch.testing.assert_close(made.outputs(task.x, 1)[0][0], expected)
    torch.testing.assert_close(made.module(0)(task.x).detach(), expected)
    back = load(made.save(tmp_path / "given.safetensors"), module)
    np.testing.assert_array_equal(back.predict(task.x).scores, made.predict(task.x).scores)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_what_can_be_had_from_a_trained_network(case, tmp_path):
    """Laplace, SWAG, augmentation and fine-tuned ensembles of the last layer, none of which changes the module."""
    module, task = case
    given = posterior_of(module, task)
    single = given.predict(task.x).scores
    laplace = Laplace(prior_precision=1.0).around(given, task)
    assert np.abs(laplace.predict(task.x, 40).scores.mean(0) - single[0]).max() < 2.0
    assert laplace.about.cost.further < 0.5 * laplace.about.cost.first
    swag = SWAG(replace(SINGLE, rate=0.01), start=0, rank=2, draws=2).fit(task, module, start="given")
    ensemble = DeepEnsemble(replace(SINGLE, rate=0.1), members=2).fit(task, module, start="given", train="last")
    for made in (laplace, swag, ensemble, mixture([laplace, swag])):
        back = load(made.save(tmp_path / "made.safetensors"), module)
        np.testing.assert_array_equal(back.predict(task.x[:4], 2).scores, made.predict(task.x[:4], 2).scores)
    if task.x.dim() == 4:
        assert augmented(given, Augmentation(1)).predict(task.x, 3).members == 3


def test_several_modules_are_an_ensemble(case):
    module, task = case
    other = trained(type(module)(), task, 5)
    made = posterior_of([module, other], task)
    assert repr(made) == "WeightSamples('given_ensemble', 2 members, 'task', seed=0)"
    with torch.no_grad():
        torch.testing.assert_close(made.outputs(task.x, 2)[0], torch.stack([module(task.x), other(task.x)]))
    states = [module.state_dict(), other.state_dict()]
    same = posterior_of(type(module), task, states=states)
    assert torch.equal(same.outputs(task.x, 2)[0], made.outputs(task.x, 2)[0])


def test_outcomes_have_the_units_of_the_network():
    x = torch.from_numpy(rows_of(40, 3))
    y = 100.0 + 5.0 * x[:, 0]
    task = Task.regression(x, y, likelihood=FixedGaussian(2.0), standardise=False)
    module = nn.Linear(3, 1).double()
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[5.0, 0.0, 0.0]]))
        module.bias.fill_(100.0)
    predictions = posterior_of(module, task).predict(x)
    np.testing.assert_allclose(predictions.mean[0], y.numpy(), rtol=1e-6)
    np.testing.assert_allclose(predictions.std, 2.0)
    made = Laplace(prior_precision=0.5).around(posterior_of(module, task), task)
    phi = np.column_stack((x.numpy(), np.ones(40)))
    covariance = np.linalg.inv(phi.T @ phi / 4.0 + 0.5 * np.eye(4))
    root = made.covariance_root["whole"][made.names[0]].double().numpy()
    np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-5, atol=1e-7)


# ------------------------------------------------------------------------------------------ start and train
def changed(module, posterior, k=0):
    """The names of the tensors that differ from those of the module, integers apart."""
    tensors = posterior.tensors(k)
    return {
        name
        for name, value in module.state_dict().items()
        if value.is_floating_point() and not torch.allclose(tensors[f"inner.{name}"], value, rtol=0, atol=1e-12)
    }


def test_only_what_is_to_be_trained_is_trained(case):
    module, task = case
    head = "head" if isinstance(module, Backbone) else "classifier"
    method = Vanilla(replace(SINGLE, rate=0.1))
    assert changed(module, method.fit(task, module, start="given", train="last")) == {f"{head}.weight", f"{head}.bias"}
    assert changed(module, method.fit(task, module, start="given", train=("*.bias",))) == {
        name for name, _ in module.named_parameters() if name.endswith(".bias")
    } | ({"block.1.running_mean", "block.1.running_var", "norm.running_mean", "norm.running_var"}
         if head == "head" else set()) - ({"key.bias"} if head == "classifier" else set())  # fmt: skip
    names = {name for name, _ in module.named_parameters()}
    assert names - {"key.bias"} <= changed(module, method.fit(task, module, start="given"))


def test_a_checkpoint_belongs_to_the_weights_that_were_given(tmp_path):
    task, module, other = picture_task(), Backbone(), Backbone()
    method = Vanilla(SINGLE)
    first = method.fit(task, module, start="given", checkpoint=tmp_path, device="cpu")
    again = method.fit(task, module, start="given", checkpoint=tmp_path, device="cpu")
    assert torch.equal(again.outputs(task.x, 1)[0], first.outputs(task.x, 1)[0])
    with pytest.raises(FileError, match="expected a checkpoint of this training"):
        method.fit(task, other, start="given", checkpoint=tmp_path, device="cpu")


def test_frozen_parameters_stay_frozen_and_lora_trains_its_adapters():
    task = word_task()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        module = trained(Attention(), task, 5).requires_grad_(False)
        module.query, module.value = LowRank(module.query), LowRank(module.value)
    module.classifier.requires_grad_(True)
    adapters = {f"{layer}.{part}.weight" for layer in ("query", "value") for part in ("down", "up")}
    posterior = Vanilla(replace(SINGLE, rate=0.1)).fit(task, module, start="given")
    assert changed(module, posterior) == adapters | {"classifier.weight", "classifier.bias"}
    losses = posterior.about.history[0]["loss"]
    assert losses[-1] < losses[0]
    swag = SWAG(replace(SINGLE, rate=0.1), start=0, rank=2).fit(task, module, start="given")
    assert set(swag.mean) == {f"inner.{name}" for name in adapters | {"classifier.weight", "classifier.bias"}}


def test_members_together_are_members_apart():
    """With frozen parameters, batch norm among them, in double precision."""
    task = picture_task()
    task = replace(task, x=task.x.double())
    module = Backbone().double()
    method = DeepEnsemble(replace(QUICK, epochs=4), members=3)
    for train in ("last", ("block.*",)):
        together = method.fit(task, module, start="given", train=train)
        apart = method.fit(task, module, start="given", train=train, together=1)
        gap = (together.outputs(task.x, 3)[0] - apart.outputs(task.x, 3)[0]).abs().max()
        assert gap < 1e-9
        assert not torch.equal(together.outputs(task.x, 3)[0][0], together.outputs(task.x, 3)[0][1])


def test_dropout_of_the_network_has_one_mask_per_member():
    task = word_task()
    module = trained(Attention(), task, 5)
    made = MCDropout(SINGLE, where="own").fit(task, module, start="given")
    outputs = made.outputs(task.x, 3)[0]
    assert not torch.equal(outputs[0], outputs[1])
    torch.testing.assert_close(made.outputs(task.x[:5], 3)[0], outputs[:, :5])


# ------------------------------------------------------------------------------------- last-layer ensembles
def test_last_layers_on_a_frozen_backbone(case, tmp_path):
    module, task = case
    head = "head" if isinstance(module, Backbone) else "classifier"
    made = last_layer_ensemble(posterior_of(module, task), task, replace(SINGLE, rate=0.1, epochs=10), members=3)
    for k in range(3):
        assert changed(module, made, k) == {f"{head}.weight", f"{head}.bias"}
    outputs = made.outputs(task.x, 3)[0]
    torch.testing.assert_close(outputs[2], made.member(2)(task.x))
    assert not torch.allclose(outputs[0], outputs[1])
    cost = made.about.cost
    assert cost.further < 0.2 * cost.first
    assert cost.stored < 1.5 * cost.network + 10
    back = load(made.save(tmp_path / "heads.safetensors"), module)
    assert torch.equal(back.outputs(task.x, 3)[0], outputs)


def test_last_layers_of_a_linear_network_converge_to_the_ridge_solution():
    """One layer, all rows in a step: every member ends at the minimum of the loss, wherever it started."""
    x = torch.from_numpy(rows_of(40, 3))
    task = Task.regression(x, x @ torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64), likelihood=FixedGaussian(1.0))
    training = replace(QUICK, epochs=600, batch=40, rate=0.3, decay=0.1)
    network = Vanilla(replace(training, epochs=1)).fit(task, MLP(3, 1, ()))
    made = last_layer_ensemble(network, task, training, members=2)
    z, u = ((v - v.mean(0)) / v.std(0) for v in (x.numpy(), task.y.numpy()))
    phi = np.column_stack((z, np.ones(40)))
    expected = np.linalg.solve(phi.T @ phi / 40 + 0.1 * np.eye(4), phi.T @ u / 40)
    for k in range(2):
        found = made.tensors(k)
        weights = torch.cat((found["inner.output.weight"][0], found["inner.output.bias"]))
        np.testing.assert_allclose(weights, expected, atol=1e-8)


# ----------------------------------------------------------------------------------------------- refusals
class Pair(nn.Linear):
    def forward(self, x):
        return super().forward(x), x


TABLE = Task.classification(torch.randn(12, 4), torch.arange(12) % 3, classes=3, standardise=False)
SCALED = Task.classification(torch.randn(12, 4), torch.arange(12) % 3, classes=3)
PLAIN = Vanilla(SINGLE)
REFUSED = {
    "no start": (lambda: PLAIN.fit(TABLE, nn.Linear(4, 3)), ["start='given'", "start='fresh'"]),
    "another start": (lambda: PLAIN.fit(TABLE, nn.Linear(4, 3), start="givne"), ["did you mean 'given'"]),
    "an architecture": (lambda: PLAIN.fit(TABLE, MLP(4, 3, ()), start="given"), ["a trained nn.Module", "mlp"]),
    "standardised": (lambda: PLAIN.fit(SCALED, nn.Linear(4, 3), start="given"), ["standardise=False"]),
    "standardised too": (lambda: posterior_of(nn.Linear(4, 3), SCALED), ["standardise=False"]),
    "a pattern": (
        lambda: PLAIN.fit(TABLE, Normalised(), start="given", train=("lasst.weight",)), ["did you mean 'last.weight'"],
    ),
    "train without start": (lambda: PLAIN.fit(TABLE, Normalised(), start="fresh", train="last"), ["start='given'"]),
    "all frozen": (
        lambda: PLAIN.fit(TABLE, nn.Linear(4, 3).requires_grad_(False), start="given"), ["frozen ones only"],
    ),
    "frozen and fresh": (
        lambda: PLAIN.fit(TABLE, nn.Linear(4, 3).requires_grad_(False), start="fresh"), ["start='given'"],
    ),
    "a tuple": (lambda: posterior_of(Pair(4, 3), TABLE), ["got tuple"]),
    "no module": (lambda: posterior_of("resnet", TABLE), ["a trained nn.Module"]),
    "nothing": (lambda: posterior_of([], TABLE), ["a trained nn.Module"]),
    "no task": (lambda: posterior_of(nn.Linear(4, 3), 3), ["expected a task"]),
    "last layers of two networks": (
        lambda: last_layer_ensemble(posterior_of([nn.Linear(4, 3), nn.Linear(4, 3)], TABLE), TABLE), ["one trained"],
    ),
    "last layers of another task": (
        lambda: last_layer_ensemble(posterior_of(nn.Linear(4, 3), TABLE), SCALED), ["a task like that of training"],
    ),
    "weights of another network": (
        lambda: posterior_of(lambda: nn.Linear(4, 3), TABLE, states=nn.Linear(4, 2).state_dict()),
        ["the weights of Linear", "size mismatch"],
    ),
    "networks of two kinds": (
        lambda: posterior_of([nn.Linear(4, 3), nn.Linear(4, 3, bias=False)], TABLE), ["bias", "mixture"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused_in_one_line(what):
    make, words = REFUSED[what]
    with pytest.raises(UsageError) as caught:
        make()
    text = str(caught.value)
    assert text.isprintable()
    for word in words:
        assert word in text
