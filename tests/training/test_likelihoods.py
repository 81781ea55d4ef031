"""Likelihoods against scipy, torch.distributions, quadrature and derivatives by autograd; all in units of y."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import norm
from torch.autograd.functional import hessian
from training.cases import QUICK, numbers, rows_of

torch = pytest.importorskip("torch")

from calibrant.errors import UsageError  # noqa: E402
from calibrant.methods import Categorical, FixedGaussian, Gaussian, Vanilla  # noqa: E402
from calibrant.networks import MLP  # noqa: E402
from calibrant.predictions import Classification, Regression  # noqa: E402
from calibrant.training.likelihoods import Scale, likelihood_from  # noqa: E402

MEANS, STDS = torch.tensor([5.0, -3.0]).double(), torch.tensor([2.0, 0.1]).double()
SCALE = Scale(MEANS, STDS)
PLAIN = Scale(torch.tensor(0.0).double(), torch.tensor(1.0).double())
OUTPUTS = {"categorical": torch.from_numpy(rows_of(2, 7, 4)), "gaussian": torch.from_numpy(2 * rows_of(2, 7, 2))}
OUTPUTS["fixed_gaussian"] = OUTPUTS["gaussian"][..., :1]


def law_of(likelihood, outputs):
    """Mean and standard deviation of y (2, 7) by numpy."""
    out = outputs.numpy()
    std = np.log1p(np.exp(out[..., 1])) + 1e-3 if out.shape[-1] == 2 else np.full(out.shape[:-1], likelihood.noise)
    m, s = MEANS.numpy()[:, None], STDS.numpy()[:, None]
    return m + s * out[..., 0], s * std


# ----------------------------------------------------------------------------------------------------- nll
def test_classes_against_torch_distributions():
    outputs, y = OUTPUTS["categorical"], torch.tensor([[0, 1, 2, 3, 0, 1, 2], [3, 3, 0, 1, 2, 2, 0]])
    found = Categorical(4).nll(outputs, y, SCALE)
    expected = -torch.distributions.Categorical(logits=outputs).log_prob(y)
    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("likelihood", [Gaussian(), FixedGaussian(0.7)], ids=lambda each: each.name)
def test_numbers_against_scipy_in_their_own_units(likelihood):
    outputs = OUTPUTS[likelihood.name]
    mean, std = law_of(likelihood, outputs)
    y = mean + std * rows_of(2, 7, seed=3)
    found = likelihood.nll(outputs, torch.from_numpy(y), SCALE)
    np.testing.assert_allclose(found.numpy(), -norm.logpdf(y, mean, std), atol=1e-9)


@pytest.mark.parametrize("likelihood", [Gaussian(), FixedGaussian(0.7)], ids=lambda each: each.name)
def test_densities_of_y_integrate_to_one(likelihood):
    """A factor of the standard deviation that was forgotten would show here."""
    outputs, (mean, std) = OUTPUTS[likelihood.name][:, :1], law_of(likelihood, OUTPUTS[likelihood.name])
    for k in range(2):
        grid = np.linspace(mean[k, 0] - 12 * std[k, 0], mean[k, 0] + 12 * std[k, 0], 4001)
        wide = outputs[k].expand(4001, -1)
        density = torch.exp(-likelihood.nll(wide, torch.from_numpy(grid), Scale(MEANS[k], STDS[k]))).numpy()
        assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-9)


def test_extreme_outputs_stay_finite():
    huge = torch.tensor([[1e4, -1e4], [-1e4, 1e4]])
    assert torch.isfinite(Categorical(2).nll(huge, torch.tensor([0, 0]), PLAIN)).all()
    assert torch.isfinite(Gaussian().nll(huge, torch.tensor([0.0, 0.0]), PLAIN)).all()


def test_sixteen_bits_are_widened_before_sums():
    outputs = OUTPUTS["categorical"].bfloat16()
    found = Categorical(4).nll(outputs, torch.zeros(2, 7, dtype=torch.long), PLAIN)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, -torch.log_softmax(outputs.float(), -1)[..., 0])


# -------------------------------------------------------------------------------------------------- fisher
@pytest.mark.parametrize(
    "likelihood", [Categorical(4), Gaussian(), FixedGaussian(0.7)], ids=lambda each: each.name
)  # fmt: skip
def test_fisher_is_the_expected_second_derivative(likelihood):
    """E_y[∇²(−log p(y))] by autograd, the expectation as a sum over classes or by Gauss-Hermite quadrature."""
    outputs = OUTPUTS[likelihood.name][0]
    found = likelihood.fisher(outputs)
    for row, fisher in zip(outputs, found, strict=True):
        if isinstance(likelihood, Categorical):
            points, shares = torch.arange(4), torch.softmax(row, 0)
        else:
            nodes, weights = np.polynomial.hermite_e.hermegauss(20)
            mean = row[0].item()
            std = math.log1p(math.exp(row[1].item())) + 1e-3 if len(row) == 2 else likelihood.noise
            points, shares = torch.from_numpy(mean + std * nodes), torch.from_numpy(weights / weights.sum())
        each = [
            hessian(lambda out, y=y: likelihood.nll(out[None], y[None], PLAIN).sum(), row) for y in points
        ]  # fmt: skip
        expected = sum(share * second for share, second in zip(shares, each, strict=True))
        torch.testing.assert_close(fisher, expected, rtol=1e-8, atol=1e-10)


# --------------------------------------------------------------------------------------------- predictions
def test_predictions_are_in_units_of_y():
    made = Gaussian().predictions(OUTPUTS["gaussian"], SCALE, np.zeros(7))
    assert isinstance(made, Regression)
    mean, std = law_of(Gaussian(), OUTPUTS["gaussian"])
    np.testing.assert_allclose(made.mean, mean, atol=1e-12)
    np.testing.assert_allclose(made.std, std, atol=1e-12)
    classes = Categorical(4).predictions(OUTPUTS["categorical"], SCALE, name="mine")
    assert isinstance(classes, Classification)
    assert (classes.kind, classes.name, classes.scores.shape) == ("logits", "mine", (2, 7, 4))


def test_a_small_spread_far_from_zero_is_kept():
    """Years, say: 2000 ± 0.001 needs more than single precision."""
    scale = Scale(torch.tensor([2000.0]), torch.tensor([1e-3]))
    made = FixedGaussian(1.0).predictions(torch.tensor([[[0.25], [0.75]]]), scale)
    np.testing.assert_allclose(np.diff(made.mean[0]), 0.5 * 1e-3, rtol=1e-4)


@pytest.mark.parametrize("likelihood", [Gaussian(), FixedGaussian(0.5)], ids=lambda each: each.name)
def test_the_loss_of_training_is_in_units_of_y(likelihood):
    """In thousandths of a unit the same network is found, and its loss is larger by log 1000."""
    network = MLP(4, likelihood.outputs, (5,))
    usual = Vanilla(QUICK).fit(numbers(likelihood=likelihood), network, start="fresh")
    small = Vanilla(QUICK).fit(numbers(likelihood=likelihood, factor=1000.0, shift=7.0), network, start="fresh")
    for name, value in usual.states[0].items():
        if name.startswith("inner."):
            torch.testing.assert_close(small.states[0][name], value, rtol=0.0, atol=1e-9)
    gaps = np.subtract(small.about.history[0]["loss"], usual.about.history[0]["loss"])
    np.testing.assert_allclose(gaps, math.log(1000.0), atol=1e-9)


# ------------------------------------------------------------------------------------- settings, refusals
@pytest.mark.parametrize("likelihood", [Categorical(7), Gaussian(), FixedGaussian(0.25)])
def test_settings_go_through_json_and_back(likelihood):
    assert likelihood_from(json.loads(json.dumps(likelihood.settings()))) == likelihood


@pytest.mark.parametrize(
    "make",
    [
        lambda: Categorical(1),
        lambda: Categorical("3"),
        lambda: FixedGaussian(0.0),
        lambda: FixedGaussian(math.nan),
        lambda: FixedGaussian(math.inf),
        lambda: likelihood_from({"name": "gausian"}),
        lambda: likelihood_from({}),
        lambda: likelihood_from({"name": "gaussian", "noise": 1.0}),
        lambda: likelihood_from({"name": "categorical"}),
    ],
)
def test_what_is_no_likelihood_is_refused(make):
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value).isprintable()
