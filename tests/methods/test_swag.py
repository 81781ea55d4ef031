"""SWAG: the law of its draws against the moments, the moments against the iterates, statistics against the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from training.cases import QUICK, SMALL, Normalised, nll, numbers, rows_of, table  # noqa: E402

from calibrant.errors import UsageError  # noqa: E402
from calibrant.methods import SWAG, FastGeometricEnsemble, FixedGaussian, Task, load  # noqa: E402
from calibrant.methods.batch_norm_refresh import ROWS_AT_ONCE  # noqa: E402
from calibrant.networks import MLP  # noqa: E402
from calibrant.training.callbacks import WeightSnapshots  # noqa: E402
from calibrant.training.schedules import LinearDecay  # noqa: E402
from calibrant.training.seeds import stream  # noqa: E402

LONG = replace(QUICK, epochs=12, rate=0.1)


class Watched(SWAG):
    """SWAG whose iterates are kept as well."""

    def callbacks(self):
        return [*super().callbacks(), WeightSnapshots(range(self.start, self.training.epochs))]

    def posterior(self, trained):
        made = super().posterior(trained)
        made.iterates = trained.callback_results[0][1]
        return made


def flat(state, names):
    return torch.cat([state[name].flatten() for name in names]).numpy()


@pytest.fixture(scope="module")
def made():
    """Five numbers are learnt, of which four iterates' deviations are kept."""
    return Watched(LONG, start=4, rank=4).fit(numbers(likelihood=FixedGaussian(1.0)), MLP(4, 1, ()))


# ---------------------------------------------------------------------------------------------------- law
def test_mean_and_variances_are_those_of_the_iterates(made):
    names = sorted(made.mean)
    walk = np.array([flat(state, names) for state in made.iterates])
    assert walk.shape == (8, 5)
    np.testing.assert_allclose(flat(made.mean, names), walk.mean(0), atol=1e-13)
    np.testing.assert_allclose(flat(made.std, names), walk.std(0), atol=1e-8)
    for j, deviation in enumerate(made.deviations):
        upto = len(walk) - 4 + j + 1
        np.testing.assert_allclose(flat(deviation, names), walk[upto - 1] - walk[:upto].mean(0), atol=1e-13)


def test_draws_have_the_covariance_of_the_paper(made):
    """½(diag σ² + DDᵀ/(K − 1)), Maddox et al. (2019), and the mean of the iterates."""
    names, count = sorted(made.mean), 4000
    draws = np.array([flat(made.tensors(k), names) for k in range(count)])
    root = np.array([flat(each, names) for each in made.deviations])
    expected = 0.5 * (np.diag(flat(made.std, names) ** 2) + root.T @ root / (len(root) - 1))
    spread = np.sqrt(np.diag(expected))
    assert np.abs(expected - np.diag(np.diag(expected))).max() > 0.1 * expected.max()
    assert (np.abs(draws.mean(0) - flat(made.mean, names)) < 5.0 * spread / np.sqrt(count)).all()
    tolerance = 5.0 * np.sqrt((np.outer(spread, spread) ** 2 + expected**2) / count)
    assert (np.abs(np.cov(draws.T) - expected) < tolerance).all()
    first, second = draws[:-1, 0], draws[1:, 0]
    assert abs(np.corrcoef(first, second)[0, 1]) < 5.0 / np.sqrt(count)


def maddox(epoch, start, ratio):
    """The factor of the rate in the schedule of Maddox et al. (2019), from epochs."""
    if epoch <= 0.5 * start:
        return 1.0
    return 1.0 - (1.0 - ratio) * (epoch - 0.5 * start) / (0.4 * start) if epoch <= 0.9 * start else ratio


@pytest.mark.parametrize("training", [LONG, replace(LONG, schedule=LinearDecay())], ids=["constant", "linear"])
def test_the_rate_is_that_of_maddox_and_never_jumps(training):
    method = SWAG(replace(training, epochs=300), start=160)
    found = [method.training.schedule.factor(epoch / 300, 300) for epoch in np.arange(0.0, 300.0, 0.25)]
    expected = [maddox(epoch, 160, 0.1) for epoch in np.arange(0.0, 300.0, 0.25)]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.abs(np.diff(found)).max() < 0.005
    assert method.callbacks()[0].epochs == list(range(160, 300))
    assert SWAG(training, start=0).training.schedule.factor(0.0, 12) == 0.1


@pytest.mark.parametrize("known", [{"start": 6}, {"high": 0.2}])
@pytest.mark.parametrize(
    "method", [SWAG(LONG, start=4, high=0.7), FastGeometricEnsemble(LONG, start=4, cycle=2, high=0.7)]
)
def test_a_method_with_another_setting_has_another_schedule(method, known):
    """Not the one that was made for the old settings."""
    changed = replace(method, **known)
    fresh = type(method)(LONG, **{"start": 4, "high": 0.7, **({"cycle": 2} if method.name == "fge" else {}), **known})
    assert changed == fresh


@pytest.mark.parametrize(
    "known", [{"rank": 1}, {"draws": 0}, {"start": 11}, {"start": -1}, {"high": 0.0}, {"high": 2.0}]
)
def test_what_cannot_be_is_refused(known):
    with pytest.raises(UsageError) as caught:
        SWAG(LONG, **{"start": 4, **known})
    assert str(caught.value).isprintable()


def test_without_batch_normalisation_there_is_no_end_of_draws(made):
    assert made.max_members is None
    assert made.predict(numbers().x, 70).members == 70


# ------------------------------------------------------------------------------------------- batch statistics
@pytest.fixture(scope="module")
def many():
    """More rows than are passed at once."""
    return table(n=ROWS_AT_ONCE + 150)


def statistics(task, state):
    """What goes into the batch normalisation of `Normalised`: its mean and variance, averaged over batches by hand."""
    z = (task.x - state["x_mean"]) / state["x_std"]
    before = z @ state["inner.first.weight"].T + state["inner.first.bias"]
    order = torch.randperm(len(z), generator=stream("refresh", "order"))
    parts = before[order].tensor_split(-(-len(z) // ROWS_AT_ONCE))
    weights = torch.tensor([len(part) for part in parts]).double() / len(z)
    mean = sum(weight * part.mean(0) for weight, part in zip(weights, parts, strict=True))
    var = sum(weight * part.var(0, unbiased=True) for weight, part in zip(weights, parts, strict=True))
    return mean, var


FRESH = {
    "swag": lambda **known: SWAG(replace(LONG, epochs=6, batch=256), start=3, draws=4, **known),
    "fge": lambda **known: FastGeometricEnsemble(replace(LONG, epochs=6, batch=256), start=2, cycle=2, **known),
}


@pytest.mark.parametrize("name", FRESH)
def test_statistics_are_averages_over_batches_of_the_training_rows(many, name):
    rows = np.arange(10, len(many.x))
    task = many.with_rows(rows)
    made = FRESH[name]().fit(task, Normalised(), start="fresh")
    seen = replace(task, x=task.x[rows])
    for k in range(made.max_members):
        state = made.tensors(k)
        mean, var = statistics(seen, state)
        torch.testing.assert_close(state["inner.norm.running_mean"], mean, rtol=0.0, atol=1e-10)
        torch.testing.assert_close(state["inner.norm.running_var"], var, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("name", FRESH)
def test_without_the_refresh_statistics_are_stale_and_predictions_worse(many, name):
    fresh, stale = (FRESH[name](refresh=refresh).fit(many, Normalised(), start="fresh") for refresh in (True, False))
    losses = []
    for made in (fresh, stale):
        mean, _ = statistics(many, made.tensors(1))
        losses.append(np.mean([nll(made.member(k)(many.x), many.y) for k in range(2)]))
        gap = (made.tensors(1)["inner.norm.running_mean"] - mean).abs().max()
        assert (gap < 1e-10) == (made is fresh)
    for key in ("inner.first.weight", "inner.last.bias"):
        assert torch.equal(fresh.tensors(1)[key], stale.tensors(1)[key])
    assert losses[1] > losses[0] + 0.01


def test_each_draw_has_statistics_of_its_own(many):
    made = FRESH["swag"]().fit(many, Normalised(), start="fresh")
    assert made.max_members == 4
    means = [made.tensors(k)["inner.norm.running_mean"] for k in range(4)]
    assert all(not torch.equal(means[0], other) for other in means[1:])
    more = made.more(many, 6)
    assert more.max_members == 6
    for k in range(4):
        had = made.tensors(k)
        assert all(torch.equal(value, had[name]) for name, value in more.tensors(k).items() if "tracked" not in name)


def test_one_draw_is_one_draw(many, tmp_path):
    """Statistics of one draw are not those of draws without end."""
    made = SWAG(replace(LONG, epochs=6), start=3, draws=1).fit(many, Normalised(), start="fresh")
    assert made.max_members == 1
    made.save(tmp_path / "one.safetensors")
    assert load(tmp_path / "one.safetensors", Normalised()).max_members == 1


def test_small_variances_survive_single_precision():
    """A weight of 1 that moves by 3·10⁻⁴, as scales of batch normalisation do: squares of it are mostly rounding."""
    x = rows_of(64, 1)
    task = Task.regression(torch.from_numpy(x), x[:, 0] + 0.05 * rows_of(64, seed=1), likelihood=FixedGaussian(1.0))
    training = replace(QUICK, epochs=60, batch=8, rate=0.1, momentum=0.0, decay=0.0)
    wide, narrow = (
        Watched(replace(training, precision=precision), start=30).fit(task, MLP(1, 1, ()), 1)
        for precision in ("float64", "float32")
    )
    name = "inner.output.weight"
    for made, close in ((wide, 1e-6), (narrow, 0.02)):
        walk = torch.stack([state[name] for state in made.iterates]).double()
        assert walk.mean().item() == pytest.approx(1.0, abs=0.01)
        assert made.std[name].item() == pytest.approx(walk.std(unbiased=False).item(), rel=close)


def test_networks_without_batch_normalisation_need_no_refresh():
    one, other = (SWAG(LONG, start=4, refresh=refresh).fit(table(), SMALL) for refresh in (True, False))
    np.testing.assert_array_equal(one.predict(table().x, 3).scores, other.predict(table().x, 3).scores)
