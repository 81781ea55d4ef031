"""Laplace approximations: where the posterior is normal they are the posterior, and where it is not they are near."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from calibrant import methods  # noqa: E402
from calibrant.errors import CalibrantWarning  # noqa: E402
from calibrant.methods import Cell, FixedGaussian, Laplace, Task, Training, Vanilla, fit_together, laplace_layers  # noqa: E402
from calibrant.networks import MLP, ResNet  # noqa: E402

KINDS = {
    "last full": {"layers": "last", "structure": "full"},
    "last kfac": {"layers": "last", "structure": "kfac"},
    "all full": {"layers": "all", "structure": "full"},
    "all kfac": {"layers": "all", "structure": "kfac"},
    "all diagonal": {"layers": "all", "structure": "diagonal"},
    "all factored": {"layers": "all", "structure": "kfac_factored", "predictive": "sampled"},
}
SAMPLED = {"layers": "all", "predictive": "sampled"}
NOISE, DECAY = 0.5, 0.02
LINEAR = Training(epochs=300, batch=64, rate=0.1, decay=DECAY, precision="float64")
SHORT = Training(epochs=30, batch=16, rate=0.02, decay=0.01)


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def regression(x):
    """A linear function with noise, and the exact posterior of Bayesian linear regression: mean and covariance.

    Inputs z and outcomes u are standardised by mean and standard deviation, the last weight is the bias, noise is
    normal with standard deviation NOISE, weights have prior precision τ = n·DECAY.
    """
    y = x @ torch.arange(1.0, x.shape[1] + 1, dtype=torch.float64) + drawn(len(x), seed=1) + 5.0
    task = Task.regression(x, y, likelihood=FixedGaussian(NOISE))
    raw, u = x.numpy(), y.numpy()
    z = np.column_stack(((raw - raw.mean(0)) / raw.std(0), np.ones(len(raw))))
    precision = z.T @ z / NOISE**2 + len(raw) * DECAY * np.eye(z.shape[1])
    covariance = np.linalg.inv(precision)
    return task, covariance @ z.T @ ((u - u.mean()) / u.std()) / NOISE**2, covariance


def orthogonal(n=32):
    """Columns that are centred and orthogonal: signs by the digits of the row's number."""
    numbers = torch.arange(n)
    return torch.stack([1.0 - 2.0 * ((numbers >> k) & 1) for k in range(3)], dim=1).double() * torch.tensor([1, 3, 9])


def correlated(n=40):
    return drawn(n, 3) @ torch.tensor([[1.0, 0.7, 0.0], [0.0, 1.0, 0.4], [0.0, 0.0, 0.5]], dtype=torch.float64)


def flat(tensors):
    """The weights of a linear network, its bias last."""
    return torch.cat((tensors["inner.output.weight"][0], tensors["inner.output.bias"])).numpy()


def many(posterior, count):
    return np.stack([flat(posterior.weights(k)) for k in range(count)])


def looks_like(draws, mean, covariance):
    """Whether means and covariances of whitened draws are 0 and 1 within five standard errors."""
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    error = 5.0 / np.sqrt(len(draws))
    spread = np.abs(white @ white.T / len(draws) - np.eye(len(mean)))
    return np.abs(white.mean(1)).max() < error and spread.max() < np.sqrt(2.0) * error


@pytest.fixture(scope="module")
def linear():
    """A task of correlated columns, a linear network that was trained on it, and its exact posterior."""
    task, mean, covariance = regression(correlated())
    return task, Vanilla(LINEAR).fit(task, MLP(3, 1, ())), mean, covariance


# ------------------------------------------------------------------------------------ the exact posterior
def test_the_last_layer_of_a_linear_network_is_bayesian_linear_regression(linear):
    task, network, mean, covariance = linear
    made = Laplace().around(network, task)
    assert made.prior_precision == pytest.approx(40 * DECAY)
    np.testing.assert_allclose(flat(made.state), mean, atol=1e-6)
    root = made.covariance_root["whole"]["inner.output"].numpy()
    np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-9, atol=1e-15)
    draws = many(made, 3000)
    assert looks_like(draws, mean, covariance)
    assert not looks_like(draws, mean, np.diag(np.diag(covariance)))


def test_the_diagonal_is_exact_where_features_are_orthogonal():
    task, mean, covariance = regression(orthogonal())
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-15)
    made = Laplace(LINEAR, layers="all", structure="diagonal").fit(task, MLP(3, 1, ()))
    np.testing.assert_allclose(flat(made.state), mean, atol=1e-6)
    np.testing.assert_allclose(made.covariance_root["std"]["inner.output"][0].square(), np.diag(covariance), rtol=1e-9)
    assert looks_like(many(made, 2000), mean, covariance)


def test_the_diagonal_takes_variances_from_the_precision(linear):
    """Of correlated features it is the inverse of the precision's diagonal: too narrow, never too wide."""
    task, network, _, covariance = linear
    made = Laplace(layers="all", structure="diagonal").around(network, task)
    variances = made.covariance_root["std"]["inner.output"][0].square().numpy()
    np.testing.assert_allclose(variances, 1.0 / np.diag(np.linalg.inv(covariance)), rtol=1e-9)
    assert (variances <= np.diag(covariance)).all()
    assert variances.min() < 0.8 * np.diag(covariance).max()


@pytest.mark.parametrize(("prior", "near"), [(1e-6, 1e-3), (1e-10, 1e-5), (None, None)])
def test_kronecker_factors_are_exact_but_for_the_product_of_the_prior(prior, near, linear):
    """One output: G = 1/σ². (√n G + √τ/π)(√n A + √τ π I) is nG·A + τI and √(nτ)(πG·I + A/π), which goes with τ."""
    task, network, mean, covariance = linear
    made = Laplace(layers="all", structure="kfac_factored", prior_precision=prior).around(network, task)
    np.testing.assert_allclose(flat(made.state), mean, atol=1e-6)
    rows, columns = (made.covariance_root[part]["inner.output"].numpy() for part in ("rows", "columns"))
    found = rows.item() ** 2 * (columns @ columns.T)
    n, g, tau = 40, NOISE**-2, made.prior_precision
    a = (np.linalg.inv(covariance) - n * DECAY * np.eye(4)) / (n * g)
    pi = np.sqrt(np.trace(a) / 4 / g)
    damped = (np.sqrt(n) * g + np.sqrt(tau) / pi) * (np.sqrt(n) * a + np.sqrt(tau) * pi * np.eye(4))
    np.testing.assert_allclose(np.linalg.inv(found), damped, rtol=1e-9, atol=1e-9)
    if near is not None:
        np.testing.assert_allclose(np.linalg.inv(found), n * g * a + tau * np.eye(4), rtol=near, atol=n * near)
    assert looks_like(many(made, 2000), mean, found)


def test_what_is_predicted_has_the_spread_of_the_exact_posterior(linear):
    task, network, mean, covariance = linear
    made = Laplace().around(network, task)
    x = drawn(5, 3, seed=9) * 4.0
    scale = made.state["y_std"].numpy()
    z = np.column_stack(((x.numpy() - task.x.numpy().mean(0)) / task.x.numpy().std(0), np.ones(5)))
    means = made.predict(x, 2000).mean
    np.testing.assert_allclose(means.std(0), scale * np.sqrt(np.einsum("nd,de,ne->n", z, covariance, z)), rtol=0.08)
    np.testing.assert_allclose(means.mean(0), z @ mean * scale + task.y.numpy().mean(), atol=0.2)


# ------------------------------------------------------------------------------------------ real networks
@pytest.fixture(scope="module")
def curve():
    """A sine on a short interval, a trained network, and the task."""
    x = torch.linspace(-1.0, 1.0, 64)[:, None]
    task = Task.regression(x, torch.sin(3.0 * x[:, 0]) + 0.1 * drawn(64).float()).split(0.25)
    return task, Vanilla(Training(epochs=60, batch=16, rate=0.02, decay=1e-3)).fit(task, MLP(1, 2, (16,)), seed=3)


@pytest.fixture(scope="module")
def pictures():
    """Images with batch norm: a trained network, and the task."""
    y = torch.arange(48) % 3
    x = (100 + 40 * drawn(48, 3, 8, 8) + 50.0 * (y[:, None, None, None] - 1)).clamp(0, 255).to(torch.uint8)
    task = Task.classification(x, y, classes=3)
    return task, Vanilla(SHORT).fit(task, ResNet(8, 3, 3, 4))


@pytest.mark.parametrize("kind", KINDS)
def test_members_disagree_more_away_from_the_data(kind, curve):
    task, network = curve
    made = Laplace(**KINDS[kind], tune=None).around(network, task)
    near, far = (made.predict(torch.tensor([[at], [-at]]), 40).mean.std(0).min() for at in (0.5, 10.0))
    assert far > 3.0 * near > 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_around_a_trained_network_is_what_fitting_gives(kind, curve):
    task, network = curve
    training = Training(epochs=60, batch=16, rate=0.02, decay=1e-3)
    fitted = Laplace(training, **KINDS[kind], tune=None).fit(task, MLP(1, 2, (16,)), seed=3)
    around = Laplace(**KINDS[kind], tune=None).around(network, task)
    assert fitted.prior_precision == around.prior_precision == pytest.approx(48 * 1e-3)
    assert same(fitted.tensors(4), around.tensors(4))
    assert around.about.settings == fitted.about.settings
    assert around.about.cost.stored == fitted.about.cost.stored > network.about.cost.stored
    assert around.about.cost.examples == fitted.about.cost.examples


@pytest.mark.parametrize("kind", KINDS)
def test_draws_are_functions_of_seed_and_number(kind, curve):
    task, network = curve
    made = Laplace(**KINDS[kind], tune=None).around(network, task)
    later, first = made.tensors(2), made.tensors(0)
    assert same(made.tensors(0), first)
    assert same(Laplace(**KINDS[kind], tune=None).around(network, task).tensors(2), later)
    assert not torch.equal(first["inner.output.weight"], later["inner.output.weight"])
    turned = {part: dict(reversed(each.items())) for part, each in made.covariance_root.items()}
    assert same(made.replace(covariance_root=turned).tensors(0), first)
    network.seed = 4
    other = Laplace(**KINDS[kind], tune=None).around(network, task)
    network.seed = 3
    assert not torch.equal(other.tensors(0)["inner.output.weight"], first["inner.output.weight"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_scale_multiplies_deviations(kind, curve):
    task, network = curve
    one, three = (Laplace(**KINDS[kind], scale=scale, tune=None).around(network, task) for scale in (1.0, 3.0))
    mean = network.tensors(0)
    for name, value in one.weights(1).items():
        torch.testing.assert_close(three.weights(1)[name] - mean[name], 3.0 * (value - mean[name]))


def test_the_last_layer_alone_is_drawn_and_features_are_computed_once(curve):
    task, network = curve
    made = Laplace().around(network, task)
    drawn_names = [name for name, value in made.tensors(0).items() if not torch.equal(value, network.tensors(0)[name])]
    assert sorted(drawn_names) == ["inner.output.bias", "inner.output.weight"]
    assert made.about.cost.further < made.about.cost.first
    outputs, _ = made.outputs(task.x, 3)
    torch.testing.assert_close(outputs[2], made.member(2)(task.x))


# ---------------------------------------------------------------------------------------------- linearised
def test_the_linearised_predictive_is_exact_bayesian_linear_regression(linear):
    """Of a linear network, with all its weights: mean and covariance of the members' means at five rows."""
    task, network, mean, covariance = linear
    made = Laplace(layers="all", structure="full").around(network, task)
    assert made.linearised
    x = drawn(5, 3, seed=9) * 4.0
    z = np.column_stack(((x.numpy() - task.x.numpy().mean(0)) / task.x.numpy().std(0), np.ones(5)))
    outputs = made.outputs(x, 3000)[0][..., 0].numpy()
    expected = z @ covariance @ z.T + 1e-12 * np.eye(5)
    assert looks_like((outputs - z @ mean) @ np.linalg.pinv(z).T, np.zeros(4), covariance)
    np.testing.assert_allclose(outputs.std(0), np.sqrt(np.diag(expected)), rtol=0.08)
    for k in range(3):
        weights = flat({**made.state, **made.weights(k)})
        np.testing.assert_allclose(outputs[k], z @ weights, atol=1e-12)


def test_the_linearised_predictive_is_the_network_plus_its_jacobian(curve):
    task, network = curve
    made = Laplace(layers="all", tune=None).around(network, task)
    module = network.module(0).double()
    names = [name for name, _ in module.named_parameters()]
    x = task.x[:7].double()

    def outputs(*weights):
        return torch.func.functional_call(module, dict(zip(names, weights, strict=True)), (x,))

    weights = tuple(value.detach() for value in module.parameters())
    jacobians = torch.autograd.functional.jacobian(outputs, weights)
    for k in (0, 6):
        tangent = made._tangent(k)
        slope = sum(
            torch.tensordot(jacobian, tangent[name].double(), tangent[name].dim())
            for name, jacobian in zip(names, jacobians, strict=True)
        )
        expected = outputs(*weights) + slope
        torch.testing.assert_close(made.outputs(task.x[:7], 7)[0][k].double(), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(made.member(k)(task.x[:7]).double(), expected, rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            torch.testing.assert_close(made.module(k)(task.x[:7]).double(), expected, rtol=1e-4, atol=1e-4)


def test_the_last_layer_is_linear_anyway(curve):
    task, network = curve
    one, two = (Laplace(predictive=each, tune=None).around(network, task) for each in ("linearised", "sampled"))
    assert torch.equal(one.outputs(task.x, 3)[0], two.outputs(task.x, 3)[0])


@pytest.mark.filterwarnings("ignore:laplace. the best")
def test_linearised_networks_with_batch_norm_pass_the_training_rows_once(pictures, monkeypatch):
    """For the curvature alone: no prior and no draw needs statistics of its own."""
    task, network = pictures
    held = task.split(0.25)
    monkeypatch.setattr("calibrant.methods.laplace_posterior.refresh", None)
    made = Laplace(layers="all", tune="scale").around(network, held)
    assert made.max_members is None
    assert np.isfinite(made.predict(task.x, 60).scores).all()
    assert same(made.member(3).tensors, network.tensors(0))


def test_a_prior_at_the_edge_of_its_grid_warns_and_widens_the_grid(curve):
    task, network = curve
    start = 1e-9
    with pytest.warns(CalibrantWarning, match="prior precision was at the edge of the grid, which was widened"):
        made = Laplace(layers="all", tune="prior", prior_precision=start).around(network, task)
    assert max(made.tuned) > 1e4 * start * 10.0
    assert made.tuned[made.prior_precision] == min(made.tuned.values())
    assert made.tuned[made.prior_precision] < made.tuned[max(v for v in made.tuned if v < 1.001e4 * start)]


# -------------------------------------------------------------------------------------------- large layers
def test_a_last_layer_that_is_too_large_for_a_full_covariance_has_kronecker_factors(curve, monkeypatch):
    task, network = curve
    assert Laplace(tune=None).around(network, task).structure == "full"
    monkeypatch.setattr(laplace_layers, "MAX_WEIGHTS", 33)
    made = Laplace(tune=None).around(network, task)
    assert (made.layers, made.structure, made.names) == ("last", "kfac", ["inner.output"])
    assert made.shares_features


def test_a_thousand_classes():
    """41,000 weights in the last layer, which were refused."""
    x = drawn(60, 20).float()
    task = Task.classification(x, torch.arange(60) % 1000, classes=1000)
    made = Laplace(Training(epochs=1, batch=20, rate=0.01)).fit(task, MLP(20, 1000, (40,)))
    assert made.structure == "kfac"
    assert made.predict(x[:3], 4).scores.shape == (4, 3, 1000)


# ------------------------------------------------------------------------------------------- batch norm
@pytest.mark.parametrize("structure", ["diagonal", "kfac"])
def test_draws_have_statistics_of_their_own_weights(structure, pictures):
    task, network = pictures
    made = Laplace(structure=structure, **SAMPLED, draws=2).around(network, task)
    assert made.max_members == 2
    module = made.module(1)
    name = next(key for key in made.buffers[0] if key.endswith("running_mean"))
    layer = module.get_submodule(name.rpartition(".")[0])
    arrived = []
    layer.register_forward_hook(lambda m, inputs, z: arrived.append(inputs[0]))
    with torch.no_grad():
        module(task.x)
    torch.testing.assert_close(layer.running_mean, arrived[0].mean((0, 2, 3)), rtol=1e-3, atol=1e-4)
    assert not torch.equal(made.buffers[0][name], made.buffers[1][name])
    weight = f"{name.rpartition('.')[0]}.weight"
    assert torch.equal(made.tensors(0)[weight], network.tensors(0)[weight])
    more = made.more(task, 4)
    assert more.max_members == 4
    assert same(more.tensors(1), made.tensors(1))


def test_without_refreshing_all_draws_have_the_statistics_of_training(pictures):
    task, network = pictures
    made = Laplace(structure="kfac", **SAMPLED, refresh=False).around(network, task)
    assert made.max_members is None
    for name, value in network.tensors(0).items():
        assert not name.endswith("running_var") or torch.equal(made.tensors(7)[name], value)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "all full"])
def test_a_loaded_posterior_has_the_same_members(kind, pictures, tmp_path):
    task, network = pictures
    made = Laplace(**KINDS[kind], draws=2, scale=0.3).around(network, task)
    again = methods.load(made.save(tmp_path / "laplace.safetensors"))
    assert (again.layers, again.structure, again.predictive, again.prior_precision, again.scale, again.max_members) == (
        made.layers,
        made.structure,
        made.predictive,
        made.prior_precision,
        0.3,
        made.max_members,
    )
    assert same(again.tensors(1), made.tensors(1))
    assert torch.equal(again.outputs(task.x, 2)[0], made.outputs(task.x, 2)[0])


# ---------------------------------------------------------------------------------------- other settings
@pytest.mark.filterwarnings("ignore:laplace. the best")
@pytest.mark.parametrize("tune", ["prior", "scale"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_tuned_predicts_validation_rows_best(kind, tune, curve, tmp_path):
    task, network = curve
    made = Laplace(**KINDS[kind], tune=tune).around(network, task)
    chosen = getattr(made, "prior_precision" if tune == "prior" else tune)
    assert made.tuned[chosen] == min(made.tuned.values())
    fixed = Laplace(**KINDS[kind], **{"prior_precision": made.prior_precision, "scale": made.scale}).around(
        network, task
    )
    assert same(fixed.tensors(0), made.tensors(0))
    x, y = task.x[task.validation], task.y[task.validation]
    made_of = fixed.predict(x, 10)
    density = np.exp(-0.5 * ((y.numpy() - made_of.mean) / made_of.std) ** 2) / (made_of.std * np.sqrt(2.0 * np.pi))
    assert made.tuned[chosen] == pytest.approx(-np.log(density.mean(0)).mean(), rel=1e-4)
    assert methods.load(made.save(tmp_path / "tuned.safetensors")).tuned == made.tuned


def test_fewer_rows_tell_nearly_the_same(curve):
    task, network = curve
    whole, some, again = (
        Laplace(layers="all", structure="diagonal", rows=rows, tune=None).around(network, task)
        for rows in (None, 36, 36)
    )
    name = "inner.output"
    assert torch.equal(some.covariance_root["std"][name], again.covariance_root["std"][name])
    assert not torch.equal(some.covariance_root["std"][name], whole.covariance_root["std"][name])
    torch.testing.assert_close(
        some.covariance_root["std"][name], whole.covariance_root["std"][name], rtol=0.3, atol=0.0
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_of_ones_own_with_dropout(kind, tmp_path):
    """Nothing is dropped where curvature is computed, and none of its draws drops anything."""
    task = Task.regression(drawn(30, 4).float(), drawn(30, seed=1))
    network = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2))
    plain = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Identity(), nn.Linear(6, 2))
    one = Laplace(SHORT, **KINDS[kind]).fit(task, network, start="fresh")
    other = Vanilla(SHORT).fit(task, plain, start="fresh")
    other.states = [one.state]
    assert same(one.tensors(1), Laplace(**KINDS[kind]).around(other, task).tensors(1))
    again = methods.load(one.save(tmp_path / "own.safetensors"), network)
    np.testing.assert_array_equal(again.predict(task.x, 3).mean, one.predict(task.x, 3).mean)


def test_the_empirical_fisher_is_another_curvature(curve):
    task, network = curve
    exact, empirical = (
        Laplace(layers="all", structure="kfac_factored", fisher=fisher, tune=None).around(network, task)
        for fisher in ("exact", "empirical")
    )
    for name in exact.names:
        torch.testing.assert_close(
            exact.covariance_root["columns"][name].shape, empirical.covariance_root["columns"][name].shape
        )
        assert not torch.allclose(
            exact.covariance_root["rows"][name], empirical.covariance_root["rows"][name], rtol=0.01
        )


def test_a_cell_that_diverged_leaves_the_others_alone():
    task = Task.regression(drawn(30, 4).float(), drawn(30, seed=1))
    network = MLP(4, 2, (6,))
    wild = Training(epochs=30, batch=16, rate=1e12, decay=0.01)
    cells = [Cell(Laplace(training, layers="all"), task, network, start="fresh") for training in (SHORT, wild)]
    good, bad = fit_together(cells, diverged="keep")
    assert np.isfinite(good.predict(task.x, 2).mean).all()
    assert not any(torch.isfinite(value).all() for value in bad.weights(0).values())


def same(one, other):
    """Whether two networks have the same tensors, bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())
