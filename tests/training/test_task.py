"""Tasks: what is refused in one line, which rows are for what, and what data are standardised by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from training.cases import QUICK, SMALL, apart, numbers, rows_of, table  # noqa: E402

from calibrant.errors import CalibrantError, InputError, LabelsError, ShapeError, UsageError, ValuesError  # noqa: E402
from calibrant.methods import (  # noqa: E402
    Cell,
    DeepEnsemble,
    FixedGaussian,
    Gaussian,
    Task,
    Training,
    Vanilla,
    fit_together,
)
from calibrant.networks import MLP  # noqa: E402
from calibrant.training import task as task_module  # noqa: E402
from calibrant.training.task import same_data  # noqa: E402

X, Y = rows_of(6, 2), np.array([0, 1, 2, 0, 1, 2])
HOLE = np.where(np.arange(12).reshape(6, 2) == 3, np.nan, X)


def classes(x=X, y=Y, classes=3, **known):
    return Task.classification(x, y, classes=classes, **known)


# ------------------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (lambda: classes(y=Y.astype(float)), LabelsError, "y: expected integers"),
        (lambda: classes(y=Y[:, None]), LabelsError, "y: expected integers"),
        (lambda: classes(y=["a"] * 6), ValuesError, "y: expected numbers"),
        (lambda: classes(y=None), ValuesError, "y: expected numbers"),
        (lambda: classes(y=Y + 1), LabelsError, "from 0 to 2, got 1 to 3"),
        (lambda: classes(y=Y - 1), LabelsError, "got -1 to 1"),
        (lambda: classes(classes=2), LabelsError, "from 0 to 1"),
        (lambda: classes(classes=1), UsageError, "classes: expected an integer of at least 2"),
        (lambda: classes(x=X[:5]), ShapeError, "x: expected 6 rows"),
        (lambda: classes(x=X[:, 0]), ShapeError, "x: expected shape"),
        (lambda: classes(x=X[:0], y=Y[:0]), ShapeError, "at least one row"),
        (lambda: classes(x=HOLE), ValuesError, "x: expected finite numbers"),
        (lambda: classes(x=np.where(HOLE == HOLE, X, np.inf)), ValuesError, "x: expected finite numbers"),
        (lambda: classes(x=X.astype(str)), ValuesError, "x: expected numbers"),
        (lambda: classes(x=X.astype(object)), ValuesError, "encode text and objects"),
        (lambda: classes(x=X * 1j), ValuesError, "x: expected numbers"),
        (lambda: classes(train=[0, 6]), UsageError, "train: expected row indices from 0 to 5"),
        (lambda: classes(train=[-1]), UsageError, "train: expected row indices"),
        (lambda: classes(train=[0.5]), UsageError, "train: expected row indices"),
        (lambda: classes(train=[[0]]), UsageError, "train: expected row indices"),
        (lambda: classes(train=[True] * 5), UsageError, "train: expected row indices"),
        (lambda: classes(train=[1, 1]), UsageError, "expected distinct rows, got duplicates"),
        (lambda: classes(validation=[2, 2]), UsageError, "expected distinct rows, got duplicates"),
        (lambda: classes(validation=range(6)), InputError, "train: expected at least one training row"),
        (lambda: classes(train=[0, 1], validation=[1, 2]), InputError, "got rows in both"),
        (lambda: classes().split(0.0), UsageError, "share: expected a number between 0 and 1"),
        (lambda: classes().split(1.0), UsageError, "share: expected"),
        (lambda: classes().split(float("nan")), UsageError, "share: expected"),
        (lambda: classes().with_rows([7]), UsageError, "train: expected row indices"),
        (lambda: classes().with_rows([0], [9]), UsageError, "validation: expected row indices"),
        (lambda: classes().with_rows([0, 1], [1, 2]), InputError, "got rows in both"),
        (lambda: classes().with_rows(np.zeros(6, bool)), InputError, "train: expected at least one training row"),
        (lambda: Task.regression(X, X), ShapeError, "y: expected shape"),
        (lambda: Task.regression(X, np.full(6, np.nan)), ValuesError, "y: expected finite"),
        (lambda: Task.regression(X, np.full(6, np.inf)), ValuesError, "y: expected finite"),
        (lambda: Task.regression(X, ["1"] * 6), ValuesError, "y: expected numbers"),
    ],
)
def test_what_is_no_task_is_refused_in_one_line(make, kind, said):
    with pytest.raises(CalibrantError) as caught:
        make()
    assert said in str(caught.value)
    assert isinstance(caught.value, kind)
    assert str(caught.value).isprintable()


# ---------------------------------------------------------------------------------------------------- rows
def test_rows_that_are_not_named_are_for_training():
    assert classes().train.tolist() == [0, 1, 2, 3, 4, 5]
    assert classes(validation=[1, 4]).train.tolist() == [0, 2, 3, 5]
    mask = np.array([True, False, True, False, False, False])
    assert classes(train=mask, validation=~mask).validation.tolist() == [1, 3, 4, 5]
    assert classes(train=torch.tensor([5, 0])).train.tolist() == [5, 0]


@settings(max_examples=50)
@given(st.integers(2, 300), st.floats(0.001, 0.999), st.integers(0, 5))
def test_a_split_parts_the_training_rows(n, share, seed):
    task = Task.regression(np.zeros((n + 3, 1)), np.arange(n + 3), train=np.arange(3, n + 3))
    held = task.split(share, seed)
    assert sorted([*held.train.tolist(), *held.validation.tolist()]) == list(range(3, n + 3))
    assert len(held.validation) == min(max(round(share * n), 1), n - 1)
    assert torch.equal(held.train, task.split(share, seed).train)
    assert held.x is task.x


def test_splits_are_random():
    task = table(n=200)
    one, other = task.split(0.5, 0).validation, task.split(0.5, 1).validation
    assert 20 < len(np.intersect1d(one, other)) < 80
    assert abs(one.double().mean().item() - 99.5) < 20


def test_other_rows_of_the_same_data_can_be_trained_together():
    task = table()
    one, other = task.with_rows([1, 2, 3]), task.with_rows([7, 8, 9])
    assert one.train.tolist() == [1, 2, 3]
    assert not len(one.validation)
    assert same_data([one, other])
    assert not same_data([one, task.with_rows([1, 2])])
    assert not same_data([one, table(seed=1).with_rows([1, 2, 3])])
    assert not same_data([one, task.with_rows([1, 2, 3], [4])])


def test_views_of_one_tensor_are_not_the_same_data():
    """The first half and every second row begin at the same place, and have the same shape."""
    x, y = torch.from_numpy(rows_of(40, 4)), torch.arange(40) % 3
    half, second = (Task.classification(x[rows], y[rows], classes=3) for rows in (slice(20), slice(None, None, 2)))
    assert half.x.data_ptr() == second.x.data_ptr()
    assert not same_data([half, second])
    both = fit_together([Cell(Vanilla(QUICK), task, SMALL) for task in (half, second)])
    assert apart(both[1], Vanilla(QUICK).fit(second, SMALL)) < 1e-9


# -------------------------------------------------------------------------------------------------- scales
def test_tables_are_standardised_by_column():
    x = rows_of(500, 5) * np.array([1.0, 10.0, 1e-3, 1e4, 2.0]) + np.array([0.0, 5.0, 1.0, -1e5, 1e3])
    rows = np.arange(0, 500, 3)
    found = Task.regression(torch.from_numpy(x), x[:, 0], train=rows).standardisation(torch.float64)
    np.testing.assert_allclose(found["x_mean"], x[rows].mean(0), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found["x_std"], x[rows].std(0), rtol=1e-6)
    assert found["y_mean"].item() == pytest.approx(x[rows, 0].mean(), abs=1e-12)
    assert found["y_std"].item() == pytest.approx(x[rows, 0].std(), abs=1e-12)


@pytest.mark.parametrize("kind", ["uint8", "float32"])
def test_images_are_standardised_by_channel(kind):
    x = np.random.default_rng(0).integers(0, 256, (50, 3, 4, 5)).astype(kind)
    rows = np.arange(7, 40)
    found = classes(x, np.arange(50) % 3, train=rows).standardisation(torch.float64)
    assert found["x_mean"].shape == found["x_std"].shape == (3, 1, 1)
    np.testing.assert_allclose(found["x_mean"][:, 0, 0], x[rows].astype(float).mean((0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(found["x_std"][:, 0, 0], x[rows].astype(float).std((0, 2, 3)), rtol=1e-9)
    assert found["y_mean"] == 0.0
    assert found["y_std"] == 1.0


def test_sequences_are_standardised_by_channel():
    x = rows_of(20, 3, 7) * 4 + 1
    found = classes(torch.from_numpy(x), np.arange(20) % 3).standardisation(torch.float64)
    np.testing.assert_allclose(found["x_std"][:, 0], x.std((0, 2)), rtol=1e-9)


@pytest.mark.parametrize("what", ["x", "y"])
@pytest.mark.parametrize("constant", [0.0, 0.1, 7.3, -1e6 / 3, 1e9])
def test_what_does_not_vary_is_left_as_it_is(constant, what):
    """A spread of rounding errors, taken for one, would blow up what differs in a test row."""
    x = np.column_stack([rows_of(1000), np.full(1000, constant), 50 + rows_of(1000, seed=1)])
    found = Task.regression(torch.from_numpy(x), np.full(1000, constant)).standardisation(torch.float64)
    assert (found["x_std"][1] if what == "x" else found["y_std"]) == 1.0


@pytest.mark.parametrize("offset", [1e4, 1e6, 1.7e9])
def test_columns_far_from_zero_have_their_own_spread(offset):
    """Seconds since 1970 have a spread, and so have the columns beside them."""
    x = rows_of(1000, 3)
    x[:, 0] += offset
    found = Task.regression(torch.from_numpy(x), x[:, 1]).standardisation(torch.float64)
    np.testing.assert_allclose(found["x_std"], x.std(0), rtol=1e-5)
    np.testing.assert_allclose(found["x_mean"], x.mean(0), atol=1e-6)


def test_scales_of_many_rows_are_summed_in_parts(monkeypatch):
    x = rows_of(101, 4) + 3.0
    monkeypatch.setattr("calibrant.training.task.SCALED_AT_ONCE", 40)
    found = Task.regression(torch.from_numpy(x), x[:, 0]).standardisation(torch.float64)
    np.testing.assert_allclose(found["x_mean"], x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found["x_std"], x.std(0), rtol=1e-9)


def test_without_standardising_numbers_reach_the_network_as_they_are():
    found = classes(standardise=False).standardisation(torch.float32)
    assert [found[name].item() for name in ("x_mean", "x_std", "y_mean", "y_std")] == [0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_numbers_of_either_width_are_trained_on_without_standardising(precision, kind):
    task = Task.classification(table().x.to(kind), table().y, classes=3, standardise=False)
    made = Vanilla(replace(QUICK, precision=precision)).fit(task, SMALL)
    assert np.isfinite(made.predict(task.x).scores).all()


def test_standardised_tables_in_other_units_give_the_same_network():
    """Columns in other units: what is learnt is the same, and so are predictions."""
    task, units = table(), torch.tensor([1.0, 1000.0, 1e-3, 25.4]).double()
    other = Task.classification(task.x * units + 12.0, task.y, classes=3)
    one, same = Vanilla(QUICK).fit(task, SMALL), Vanilla(QUICK).fit(other, SMALL)
    np.testing.assert_allclose(same.predict(other.x).scores, one.predict(task.x).scores, atol=1e-8)


# ---------------------------------------------------------------------------------------------------- kinds
@pytest.mark.parametrize(
    ("x", "kind"),
    [
        (X, torch.float64),
        (torch.from_numpy(X), torch.float64),
        (X.astype(np.float32), torch.float32),
        ((X * 10).astype(np.int64), torch.int64),
        (np.abs(X * 10).astype(np.uint16), torch.int64),
        (np.abs(X * 10).astype(np.uint8), torch.uint8),
    ],
)
def test_kinds_of_numbers(x, kind):
    assert classes(x).x.dtype == kind


def test_arrays_are_not_changed_and_need_not_be_writable():
    x = X.astype(np.float32)
    x.flags.writeable = False
    before = x.copy()
    Vanilla(QUICK).fit(Task.classification(np.asfortranarray(x)[:, ::-1], Y, classes=3), lambda: torch.nn.Linear(2, 3))
    np.testing.assert_array_equal(x, before)


def test_numbers_have_a_gaussian_unless_another_is_given():
    assert numbers().likelihood == Gaussian()
    assert numbers(likelihood=FixedGaussian(0.5)).likelihood == FixedGaussian(0.5)


def test_moments_are_computed_once_for_all_networks(monkeypatch):
    """Five seconds each for the images of CIFAR-10."""
    counted, moments = [], task_module._moments
    monkeypatch.setattr(task_module, "_moments", lambda x, rows: counted.append(x.shape) or moments(x, rows))
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 3)))
    task = Task.regression(rows, rows[:, 0])
    DeepEnsemble(Training(epochs=1), members=4).fit(task, MLP(3, 2, ()), device="cpu")
    assert counted == [(20, 3), (20, 1)]
    means = [each.standardisation(torch.float64)["x_mean"] for each in (task, task.with_rows(range(10)))]
    assert not torch.equal(*means)
