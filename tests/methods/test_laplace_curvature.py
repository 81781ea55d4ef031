"""Curvatures of Laplace approximations against Hessians and Jacobians by automatic differentiation."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.func import functional_call, hessian, jacrev  # noqa: E402

from calibrant.methods import FixedGaussian, Gaussian, Task, Training, Vanilla, laplace_curvature  # noqa: E402
from calibrant.methods.laplace_curvature import curvature_of  # noqa: E402
from calibrant.methods.laplace_layers import drawn_layers, matrix, parameters, patches, positions  # noqa: E402
from calibrant.networks import MLP  # noqa: E402
from calibrant.training.likelihoods import Scale  # noqa: E402

CPU = torch.device("cpu")
ONCE = Training(epochs=3, batch=8, rate=0.05, precision="float64")
CLASSES = 3


class Images(nn.Module):
    """Convolutions with strides, borders and batch norm, activations in place, and a dense layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 3, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.second = nn.Conv2d(3, 4, (2, 3), padding="same", padding_mode="reflect", bias=False)
        self.relu, self.out = nn.ReLU(inplace=True), nn.Linear(4 * 3 * 3, CLASSES)

    def forward(self, x):
        x = self.relu(self.norm(self.first(x)))
        x = self.relu(self.second(x))  # writes into what the layer gave
        return self.out(x.flatten(1))


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def table(kind, n=20):
    x = drawn(n, 3) * torch.tensor([1.0, 2.0, 0.5]) + 1.0
    if kind == "categorical":
        return Task.classification(x, torch.arange(n) % CLASSES, classes=CLASSES)
    likelihood = {"gaussian": Gaussian(), "fixed_gaussian": FixedGaussian(0.3)}[kind]
    return Task.regression(x, x[:, 0] + drawn(n, seed=1), likelihood=likelihood)


def images(n=6):
    return Task.classification(drawn(n, 2, 5, 5), torch.arange(n) % CLASSES, classes=CLASSES)


def trained(task, network):
    """A network's template and tensors after a few steps."""
    made = Vanilla(ONCE).fit(task, network, start="fresh")
    return made.template, made.tensors(0)


def kept(structure, template, state, task, rows=None, fisher="exact", layers="all"):
    """The curvature of all layers; "last_layer" is the full one of the last."""
    structure, layers = ("full", "last") if structure == "last_layer" else (structure, layers)
    names, last = drawn_layers(template, layers, structure), layers == "last"
    rows = task.train if rows is None else rows
    return curvature_of(structure, names, template, state, task, rows, CPU, fisher, last)


def outputs(template, state, names, x):
    """The outputs of one row as a function of the matrices W of layers."""

    def of(weights):
        own = {}
        for name in names:
            own |= parameters(state, name, weights[name])
        return functional_call(template.module.eval(), {**state, **own}, (x[None],))[0]

    return of


def gradients(template, state, names, task):
    """Jacobians (n, O, W) of the outputs by the weights of each layer, and Λ (n, O, O)."""
    weights = {name: matrix(state, name) for name in names}
    template.module.eval()
    found = [jacrev(outputs(template, state, names, x))(weights) for x in task.x]
    made = torch.stack([outputs(template, state, names, x)(weights) for x in task.x])
    return {name: torch.stack([each[name] for each in found]) for name in names}, task.likelihood.fisher(made)


# ------------------------------------------------------------------------------------------ last layer
def test_softmax_regression_has_its_hessian():
    task = table("categorical")
    template, state = trained(task, MLP(3, CLASSES, ()))
    (name,) = drawn_layers(template, "last", "full")
    scale = Scale(state["y_mean"], state["y_std"])

    def loss(w):
        made = functional_call(template.module, {**state, **parameters(state, name, w)}, (task.x,))
        return task.likelihood.nll(made, task.y, scale).sum()

    w = matrix(state, name)
    expected = hessian(loss)(w).reshape(w.numel(), w.numel())
    assert float(expected.diagonal().min()) > 0.1
    torch.testing.assert_close(kept("last_layer", template, state, task).matrix, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["categorical", "gaussian", "fixed_gaussian"])
def test_the_last_layer_of_a_deep_network_by_jacobians(kind):
    task = table(kind)
    template, state = trained(task, MLP(3, task.likelihood.outputs, (5,), "tanh"))
    (name,) = drawn_layers(template, "last", "full")
    found, fisher = gradients(template, state, (name,), task)
    flat = found[name].flatten(2)
    expected = torch.einsum("nap,nab,nbq->pq", flat, fisher, flat)
    torch.testing.assert_close(kept("last_layer", template, state, task).matrix, expected, rtol=1e-9, atol=1e-9)


def test_the_empirical_fisher_sums_outer_products_of_the_slopes_of_losses():
    task = table("gaussian")
    template, state = trained(task, MLP(3, 2, (5,)))
    (name,) = drawn_layers(template, "last", "full")
    scale = Scale(state["y_mean"], state["y_std"])

    def loss(w, x, y):
        return task.likelihood.nll(outputs(template, state, (name,), x)({name: w})[None], y[None], scale)[0]

    each = torch.stack([jacrev(loss)(matrix(state, name), x, y) for x, y in zip(task.x, task.y, strict=True)])
    flat = each.flatten(1)
    made = kept("last_layer", template, state, task, fisher="empirical")
    torch.testing.assert_close(made.matrix, flat.T @ flat, rtol=1e-9, atol=1e-9)


# -------------------------------------------------------------------------------------------- diagonal
@pytest.mark.parametrize(
    ("task", "network"),
    [
        (table("categorical"), MLP(3, CLASSES, (5, 4), "tanh")),
        (table("gaussian"), MLP(3, 2, (5,))),
        (table("fixed_gaussian"), MLP(3, 1, (4,), "elu")),
        (images(), Images),
    ],
    ids=["categorical", "gaussian", "fixed_gaussian", "images"],
)
def test_diagonals_by_jacobians(task, network):
    template, state = trained(task, network() if network is Images else network)
    names = drawn_layers(template, "all", "diagonal")
    found, fisher = gradients(template, state, names, task)
    made = kept("diagonal", template, state, task).sums
    assert sorted(made) == sorted(template.layers)
    for name, each in found.items():
        expected = torch.einsum("naod,nab,nbod->od", each, fisher, each)
        torch.testing.assert_close(made[name], expected, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------------------ kfac
def test_factors_of_dense_layers_by_their_definition():
    task = table("categorical")
    template, state = trained(task, MLP(3, CLASSES, (5, 4), "tanh"))
    names = drawn_layers(template, "all", "kfac")
    found, fisher = gradients(template, state, names, task)
    made = kept("kfac", template, state, task)
    x = (task.x - state["x_mean"]) / state["x_std"]
    for name in ("inner.hidden.0", "inner.hidden.1", "inner.output"):
        wide = torch.cat((x, torch.ones(len(x), 1)), dim=1)
        at_output = found[name][..., -1]  # the slope by the bias is that by what the layer gives
        a, g = made.factors(name)
        torch.testing.assert_close(a, wide.T @ wide / len(x), rtol=1e-9, atol=1e-12)
        expected = torch.einsum("nao,nab,nbp->op", at_output, fisher, at_output) / len(x)
        torch.testing.assert_close(g, expected, rtol=1e-9, atol=1e-12)
        x = torch.tanh(wide @ matrix(state, name).T)


def test_factors_of_a_convolution_sum_patches_and_average_slopes():
    """By loops over pixels: patches cut by hand, and slopes at each pixel by a nudge that is added to the output."""
    task = images()
    template, state = trained(task, Images())
    name = "inner.first"
    a, g = kept("kfac", template, state, task).factors(name)
    x = nn.functional.pad((task.x - state["x_mean"]) / state["x_std"], (1, 1, 1, 1))
    weight = state[f"{name}.weight"]
    cut = [x[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].flatten(1) for i in range(3) for j in range(3)]
    wide = torch.cat((torch.stack(cut, dim=1), torch.ones(6, 9, 1)), dim=-1)
    torch.testing.assert_close(a, torch.einsum("ntd,nte->de", wide, wide) / 6, rtol=1e-9, atol=1e-12)

    def nudged(delta, row):
        layer = template.module.get_submodule(name)
        hook = layer.register_forward_hook(lambda m, inputs, z: z + delta)
        try:
            return functional_call(template.module.eval(), state, (row[None],))[0]
        finally:
            hook.remove()

    zero = torch.zeros(1, len(weight), 3, 3, dtype=torch.float64)
    at = torch.stack([jacrev(nudged)(zero, row)[:, 0].flatten(2) for row in task.x])
    fisher = task.likelihood.fisher(functional_call(template.module, state, (task.x,)))
    expected = torch.einsum("naot,nab,nbpt->op", at, fisher, at) / (6 * 9)
    torch.testing.assert_close(g, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("structure", ["diagonal", "kfac"])
def test_a_convolution_of_single_pixels_is_a_dense_layer(structure):
    task = table("categorical")
    dense = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, CLASSES))
    pixels = nn.Sequential(nn.Unflatten(1, (3, 1, 1)), nn.Conv2d(3, 4, 1), nn.Tanh(), nn.Flatten(), nn.Linear(4, 3))
    template, state = trained(task, dense)
    other, _ = trained(task, pixels)
    renamed = {"inner.0": "inner.1", "inner.2": "inner.4"}
    moved = {f"{renamed[key[:7]]}{key[7:]}" if key[:7] in renamed else key: value for key, value in state.items()}
    moved["inner.1.weight"] = state["inner.0.weight"][..., None, None]
    one, two = (
        kept(structure, *each, task).covariance_root(1.0, task.n) for each in ((template, state), (other, moved))
    )
    for part in one:
        for name, value in one[part].items():
            torch.testing.assert_close(two[part][renamed[name]], value)


def test_positions_of_a_dense_layer_are_those_of_a_convolution():
    """A dense layer along an axis shares its weights as a convolution of width one does."""
    x = drawn(5, 4, 1, 3)
    layer, other = nn.Conv2d(4, 2, 1).double(), nn.Linear(4, 2).double()
    torch.testing.assert_close(patches(layer, x), patches(other, x[:, :, 0].transpose(1, 2)))
    z = drawn(5, 2, 1, 3)
    torch.testing.assert_close(positions(layer, z), positions(other, z[:, :, 0].transpose(1, 2)))


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel_size": 3},
        {"kernel_size": (2, 3), "stride": (2, 1), "padding": (1, 2)},
        {"kernel_size": 2, "dilation": 2, "padding": "same"},
        {"kernel_size": 3, "padding": "valid", "bias": False},
        {"kernel_size": 3, "padding": 1, "padding_mode": "circular"},
        {"kernel_size": (4, 3), "padding": "same", "padding_mode": "replicate"},
    ],
    ids=str,
)
def test_a_convolution_is_a_product_with_patches(settings):
    layer, x = nn.Conv2d(2, 3, **settings).double(), drawn(4, 2, 6, 7)
    state = {f"layer.{name}": value.detach() for name, value in layer.named_parameters()}
    product = patches(layer, x) @ matrix(state, "layer").T
    torch.testing.assert_close(product, positions(layer, layer(x)).detach())
    again = parameters(state, "layer", matrix(state, "layer"))
    assert all(torch.equal(again[name], value) for name, value in state.items())


# -------------------------------------------------------------------------------------------- all of them
@pytest.mark.parametrize("structure", ["last_layer", "full", "diagonal", "kfac_factored"])
def test_one_block_or_seven(structure, monkeypatch):
    task = table("categorical")
    template, state = trained(task, MLP(3, CLASSES, (5,)))
    one = kept(structure, template, state, task).covariance_root(0.5, task.n)
    monkeypatch.setattr(laplace_curvature, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(laplace_curvature, "SQUARED_AT_ONCE", 1)
    seven = kept(structure, template, state, task).covariance_root(0.5, task.n)
    assert all(torch.allclose(value, seven[part][name]) for part in one for name, value in one[part].items())


@pytest.mark.parametrize("structure", ["last_layer", "full", "diagonal", "kfac_factored"])
def test_half_of_rows_that_come_twice_tell_all(structure):
    once = table("categorical", 12)
    twice = Task.classification(once.x.repeat(2, 1), once.y.repeat(2), classes=CLASSES)
    template, state = trained(twice, MLP(3, CLASSES, (5,)))
    whole = kept(structure, template, state, twice).covariance_root(0.5, 24)
    half = kept(structure, template, state, twice, rows=twice.train[:12]).covariance_root(0.5, 24)
    assert all(torch.allclose(value, half[part][name]) for part in whole for name, value in whole[part].items())


@pytest.mark.parametrize("structure", ["last_layer", "full", "diagonal", "kfac_factored"])
def test_weights_without_curvature_have_their_prior(structure):
    task = table("fixed_gaussian")
    template, state = trained(task, MLP(3, 1, (4,)))
    state["inner.hidden.0.bias"] = torch.full((4,), -1e3, dtype=torch.float64)  # units that are never active
    made = kept(structure, template, state, task)
    name = "inner.output" if structure == "last_layer" else "inner.hidden.0"
    law, shape = made.covariance_root(4.0, task.n), made.shapes[name]
    columns = torch.eye(math.prod(shape), dtype=torch.float64).view(-1, *shape)
    zeros = {other: torch.zeros(made.shapes[other], dtype=torch.float64) for other in made.shapes}
    root = torch.stack([made.deviations(law, {**zeros, name: z})[name].flatten() for z in columns], dim=1)
    covariance = root @ root.T
    dead = 4 if structure == "last_layer" else math.prod(shape)
    torch.testing.assert_close(covariance[:dead, :dead], torch.eye(dead, dtype=torch.float64) / 4.0)


# -------------------------------------------------------------------------------- whole matrices and damping
def covariance_of(made, law, name):
    """The covariance of the weights of one layer, from draws of unit vectors."""
    shape = made.shapes[name]
    zeros = {other: torch.zeros(made.shapes[other], dtype=torch.float64) for other in made.shapes}
    columns = torch.eye(math.prod(shape), dtype=torch.float64).view(-1, *shape)
    root = torch.stack([made.deviations(law, {**zeros, name: z})[name].flatten() for z in columns], dim=1)
    return root @ root.T


@pytest.mark.parametrize("task", [table("categorical"), images()], ids=["table", "images"])
def test_the_full_matrix_of_all_layers_by_jacobians(task):
    network = MLP(3, CLASSES, (5, 4), "tanh") if task.x.dim() == 2 else Images()
    template, state = trained(task, network)
    names = drawn_layers(template, "all", "full")
    found, fisher = gradients(template, state, names, task)
    flat = torch.cat([found[name].flatten(2) for name in names], dim=2)
    expected = torch.einsum("nap,nab,nbq->pq", flat, fisher, flat)
    torch.testing.assert_close(kept("full", template, state, task).matrix, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("prior", [1e-3, 0.5, 40.0])
def test_damped_by_eigenvalues_the_precision_is_that_of_the_product_plus_the_prior(prior):
    """The inverse of the materialised nG ⊗ A + τI."""
    task = images()
    template, state = trained(task, Images())
    made = kept("kfac", template, state, task)
    law = made.covariance_root(prior, task.n)
    for name in made.shapes:
        a, g = made.factors(name)
        precision = task.n * torch.kron(g, a) + prior * torch.eye(len(a) * len(g), dtype=torch.float64)
        torch.testing.assert_close(covariance_of(made, law, name), precision.inverse(), rtol=1e-9, atol=1e-9 / prior)


@pytest.mark.parametrize("structure", ["full", "kfac", "diagonal"])
@pytest.mark.parametrize("kind", ["categorical", "gaussian"])
def test_the_last_layer_alone_is_the_same_without_a_backward_pass(structure, kind):
    task = table(kind)
    template, state = trained(task, MLP(3, task.likelihood.outputs, (5,)))
    name = "inner.output"
    last = kept(structure, template, state, task, layers="last")
    whole = kept(structure, template, state, task)
    if structure == "full":
        count = math.prod(last.shapes[name])
        torch.testing.assert_close(last.matrix, whole.matrix[-count:, -count:], rtol=1e-9, atol=1e-9)
    elif structure == "diagonal":
        torch.testing.assert_close(last.sums[name], whole.sums[name], rtol=1e-9, atol=1e-9)
    else:
        for one, two in zip(last.factors(name), whole.factors(name), strict=True):
            torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


def variance_shares(template, state, task, prior):
    """Of each layer, the total variance by each damping over that of its exact block, whose precision is H + τI."""
    exact = kept("full", template, state, task)
    names = sorted(exact.shapes)
    sizes = [math.prod(exact.shapes[name]) for name in names]
    shares = {}
    for structure in ("kfac", "kfac_factored"):
        made = kept(structure, template, state, task)
        law = made.covariance_root(prior, task.n)
        offset = 0
        for name, size in zip(names, sizes, strict=True):
            block = exact.matrix[offset : offset + size, offset : offset + size]
            variance = (block + prior * torch.eye(size, dtype=torch.float64)).inverse().trace()
            shares[structure, name] = float(covariance_of(made, law, name).trace() / variance)
            offset += size
    return names, shares


def test_eigenvalue_damping_keeps_the_variance_that_factored_damping_loses():
    task = table("categorical", 60)
    template, state = trained(task, MLP(3, CLASSES, (8, 6), "tanh"))
    names, shares = variance_shares(template, state, task, prior=0.5)
    for name in names:
        eigen, factored = shares["kfac", name], shares["kfac_factored", name]
        assert factored < eigen
        assert factored < 0.75
        assert 0.8 < eigen < 1.25
