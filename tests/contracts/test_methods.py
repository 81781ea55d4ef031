"""What every method that produces uncertainty must do: one that is listed is tried by these tests and cannot escape.

Small settings of each stand in tests/methods/small_methods.py.
"""

from __future__ import annotations

import json
import random
from dataclasses import fields, replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from methods.small_methods import (  # noqa: E402
    ALIKE,
    HIDDEN,
    SMALL,
    TASKS,
    WITHOUT_NETWORK,
    fitted,
    members_of,
    method_of,
    network_of,
    task_of,
    values,
)
from torch import nn  # noqa: E402
from training.cases import Normalised, same_bits, table  # noqa: E402

from calibrant.bibliography import cited_works, unknown_citations  # noqa: E402
from calibrant.errors import CalibrantError, ShapeError, TrainingError, UsageError, ValuesError  # noqa: E402
from calibrant.methods import Cell, Task, fit_together, load  # noqa: E402
from calibrant.methods.base import STORED_NAMES  # noqa: E402
from calibrant.methods.registry import KINDS, METHODS  # noqa: E402
from calibrant.predictions import Classification, Regression  # noqa: E402


@pytest.fixture(params=METHODS)
def name(request):
    return request.param


@pytest.fixture(
    params=[(name, kind) for name in METHODS for kind in TASKS if kind in METHODS[name].tasks], ids="-".join
)
def case(request):
    """A method with a kind of task that it knows."""
    return request.param


@pytest.fixture
def usual(name):
    """A kind of task that the method knows."""
    return "categorical" if "categorical" in METHODS[name].tasks else "gaussian"


# --------------------------------------------------------------------------------------------------- facts
def test_every_method_is_tried():
    assert set(SMALL) == set(METHODS), "give new methods small settings in SMALL of tests/methods/small_methods.py"
    assert set(METHODS) >= (WITHOUT_NETWORK | ALIKE)


def test_facts(name):
    method = METHODS[name]
    assert method.name == name
    assert method.__doc__
    assert len(method.__doc__.split()) > 5
    assert method.reference
    assert cited_works([method.reference])
    assert not unknown_citations([method.reference])
    assert set(method.tasks) <= set(TASKS)
    assert method.tasks


def test_settings_are_stored_and_tell_methods_apart(name):
    method = method_of(name)
    told = json.loads(json.dumps(method.settings()))
    assert set(told) == {STORED_NAMES.get(field.name, field.name) for field in fields(method)}
    assert method == method_of(name)
    assert hash(method) == hash(method_of(name))


def test_a_key_has_what_differs_from_the_defaults(name):
    """A setting that is added with a default changes no key; the version and each other setting do."""
    usual, method = METHODS[name](), method_of(name)
    assert usual.content().keys() <= {"name", "version", "start"}
    assert usual.content()["version"] == METHODS[name].version
    changed = {field.name for field in fields(method) if getattr(method, field.name) != field.default} - {"training"}
    assert method.content().keys() == {"name", "version"} | changed


# --------------------------------------------------------------------------------------------- predictions
def test_predictions(case):
    name, kind = case
    made, task = fitted(*case), task_of(kind)
    members = members_of(made)
    found = made.predict(task.x[:7], members, y=task.y[:7].numpy(), ids=np.arange(7), meta={"mine": 1})
    assert isinstance(found, Classification if kind == "categorical" else Regression)
    shape = (members, 7, 3) if kind == "categorical" else (members, 7)
    assert (found.scores if kind == "categorical" else found.mean).shape == shape
    assert np.isfinite(values(found)).all()
    assert found.has_labels
    assert found.name == name
    assert dict(found.info.meta) == {"method": name, "task": "task", "seed": 0, "mine": 1}
    np.testing.assert_array_equal(found.column("ids"), np.arange(7))
    if kind != "categorical":
        assert (found.std > 0.0).all()


def test_without_a_number_all_members_predict(case):
    made = fitted(*case)
    found = made.predict(task_of(case[1]).x[:2])
    assert found.members == (made.max_members or 50)


def test_networks_learn_something(name, usual):
    """Better than a constant on the rows of training, after a few epochs."""
    task = task_of(usual)
    long = method_of(name)
    if name not in WITHOUT_NETWORK:
        clip = None if name == "csgld" else 1.0  # which has no law with clipped gradients
        long = replace(long, training=replace(long.training, rate=0.1, epochs=20, clip=clip))
    found = long.fit(task, network_of(name, task)).predict(task.x, None)
    if usual == "categorical":
        right = (found.scores.mean(0).argmax(1) == task.y.numpy()).mean()
        assert right > np.bincount(task.y).max() / len(task.y) + 0.1
    else:
        gap = found.mean.mean(0) - task.y.numpy()
        assert (gap**2).mean() < 0.8 * task.y.numpy().var()


def test_a_member_is_a_row_of_the_prediction(case):
    made, x = fitted(*case), task_of(case[1]).x[:6]
    outputs, _ = made.outputs(made._rows(x), members_of(made))
    for k in range(members_of(made)):
        np.testing.assert_allclose(made.member(k)(x), outputs[k], atol=1e-10)
    with torch.no_grad():
        np.testing.assert_allclose(made.module(members_of(made) - 1)(x), outputs[-1], atol=1e-10)


def test_members_differ_and_are_the_same_whenever_they_are_asked_for(case):
    made = fitted(*case)
    last = members_of(made) - 1
    first = {name: value.clone() for name, value in made.member(last).tensors.items()}
    zero = made.member(0).tensors
    again = made.member(last).tensors
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert case[0] in ALIKE or any(not torch.equal(zero[key], again[key]) for key in zero)


def test_rows_are_predicted_alike_in_any_company(case):
    made, x = fitted(*case), task_of(case[1]).x[:9]
    whole = made.outputs(made._rows(x), members_of(made))[0]
    for batch in (1, 4):
        torch.testing.assert_close(
            made.outputs(made._rows(x), members_of(made), batch=batch)[0], whole, rtol=0, atol=1e-9
        )
    flipped = made.outputs(made._rows(x.flip(0)), members_of(made))[0].flip(1)
    torch.testing.assert_close(flipped, whole, rtol=0, atol=1e-9)


# ------------------------------------------------------------------------------------------- determinism
def test_the_seed_decides(name, usual):
    task, first = task_of(usual), fitted(name, usual)
    again = method_of(name).fit(task, network_of(name, task), 0)
    assert same_bits(first, again)
    x = task.x[:5]
    np.testing.assert_array_equal(
        values(first.predict(x, members_of(first))), values(again.predict(x, members_of(first)))
    )
    other = method_of(name).fit(task, network_of(name, task), 1)
    assert not np.array_equal(values(first.predict(x, 1)), values(other.predict(x, 1)))


def test_a_seed_of_numpy_is_a_seed(name, usual, tmp_path):
    task = task_of(usual)
    made = method_of(name).fit(task, network_of(name, task), np.int64(0))
    x = task.x[:5]
    np.testing.assert_array_equal(values(made.predict(x, 1)), values(fitted(name, usual).predict(x, 1)))
    assert load(made.save(tmp_path / "made.safetensors")).seed == 0


def test_random_numbers_of_others_are_left_alone(name, usual):
    task = task_of(usual)
    state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    made = method_of(name).fit(task, network_of(name, task), 0)
    made.predict(task.x, members_of(made))
    made.module(0)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), numpy_state, strict=True))  # noqa: NPY002
    assert random.getstate() == python_state


def test_random_numbers_of_others_do_not_matter(name, usual):
    task = task_of(usual)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(12345)
        made = method_of(name).fit(task, network_of(name, task), 0)
    assert same_bits(made, fitted(name, usual))


def test_cells_together_are_cells_alone(name, usual):
    task = task_of(usual)
    network = network_of(name, task)
    made = fit_together([Cell(method_of(name), task, network, seed, start="fresh") for seed in (0, 5)])
    x = task.x[:5]
    for seed, posterior in zip((0, 5), made, strict=True):
        alone = fitted(name, usual, seed)
        members = members_of(alone)
        np.testing.assert_allclose(values(posterior.predict(x, members)), values(alone.predict(x, members)), atol=1e-6)
        assert posterior.seed == alone.seed
        assert posterior.about.settings == alone.about.settings


# ------------------------------------------------------------------------------------------------- laws
def test_rows_that_are_not_trained_on_leave_no_trace(name, usual):
    task = task_of(usual).with_rows(range(5, 40))
    x, y = task.x.clone(), task.y.clone()
    x[:5], y[:5] = 1e3, 0
    changed = replace(task, x=x, y=y)
    one, other = (method_of(name).fit(each, network_of(name, each)) for each in (task, changed))
    assert same_bits(one, other)


def test_numbers_in_other_units(case):
    """1000·y + 7: the same law, in other units."""
    name, kind = case
    if kind == "categorical":
        pytest.skip("classes have no units")
    task, other = TASKS[kind](), TASKS[kind](factor=1000.0, shift=7.0)
    one, two = (method_of(name).fit(each, network_of(name, each)).predict(each.x[:6], 1) for each in (task, other))
    np.testing.assert_allclose(two.mean, 1000.0 * one.mean + 7.0, rtol=1e-6)
    np.testing.assert_allclose(two.std, 1000.0 * one.std, rtol=1e-6)


# --------------------------------------------------------------------------------------------------- files
def test_files(case, tmp_path):
    made, x = fitted(*case), task_of(case[1]).x[:6]
    back = load(made.save(tmp_path / "made.safetensors"))
    assert KINDS[made.kind] is type(made) is type(back)
    assert same_bits(made, back)
    assert back.about == made.about
    assert (back.seed, back.max_members, back.likelihood, back.recipe) == (
        made.seed,
        made.max_members,
        made.likelihood,
        made.recipe,
    )
    assert repr(back) == repr(made)
    np.testing.assert_array_equal(values(made.predict(x, members_of(made))), values(back.predict(x, members_of(made))))


def test_files_are_the_same_every_time(name, usual, tmp_path):
    made = fitted(name, usual)
    found = {made.save(tmp_path / f"{k}.safetensors").read_bytes() for k in range(6)}
    assert len(found) == 1


# --------------------------------------------------------------------------------------------------- costs
def test_costs_are_measured(case):
    name, _ = case
    made = fitted(*case)
    cost = made.about.cost
    inputs, outputs = 4, made.likelihood.outputs
    dense = [(inputs, HIDDEN[0]), HIDDEN, (HIDDEN[1], outputs)]
    if name in WITHOUT_NETWORK:
        dense = [(inputs, 1)]
    one, last = 2 * sum(a * b for a, b in dense), 2 * dense[-1][0] * dense[-1][1]
    assert cost.first == one
    assert cost.further == (last if made.shares_features else one)
    assert cost.compute(10) == cost.first + 9 * cost.further
    assert cost.network == sum((a + 1) * b for a, b in dense)
    assert cost.stored == sum(value.numel() for value in made.state_dict()[0].values())
    assert cost.seconds > 0.0
    assert cost.training > 0.0
    assert cost.examples == (40 if name in WITHOUT_NETWORK else 4 * 40 * method_of(name).networks)


def test_costs_are_as_ovadia_has_them():
    """Ovadia et al. (2019), table S1: storage m, m, m and mk; compute mk, and m + d(k − 1) for the last layer."""
    cost = {name: fitted(name, "categorical").about.cost for name in SMALL if "categorical" in METHODS[name].tasks}
    standardisation = 4 + 4 + 1 + 1
    plain = cost["vanilla"]
    assert plain.stored == plain.network + standardisation
    assert plain.storage == pytest.approx(1.0, abs=0.02)
    for name in ("mc_dropout", "last_layer_dropout"):
        assert cost[name].stored == plain.stored
    assert cost["deep_ensemble"].stored == 3 * plain.stored
    assert cost["mc_dropout"].compute(7) == cost["deep_ensemble"].compute(7) == 7 * plain.first
    assert cost["last_layer_dropout"].first == plain.first
    assert cost["last_layer_dropout"].further < 0.2 * plain.first
    assert cost["deep_ensemble"].examples == 3 * plain.examples
    assert cost["snapshot_ensemble"].examples == plain.examples


def test_history_is_told(case):
    name, _ = case
    about = fitted(*case).about
    assert (about.method, about.task, about.n) == (name, "task", 40)
    assert about.settings == method_of(name).settings() or name in WITHOUT_NETWORK
    for each in about.history:
        assert len(each["loss"]) == each["epochs"] == 4
        assert np.isfinite(each["loss"]).all()
        assert not each["diverged"]
    assert len(about.history) == (0 if name in WITHOUT_NETWORK else method_of(name).networks)


# ------------------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize("members", [0, -1, 1.5, "2", "more"])
def test_odd_numbers_of_members_are_refused(name, usual, members):
    made = fitted(name, usual)
    members = made.max_members + 1 if members == "more" and made.max_members else members
    with pytest.raises(UsageError, match="members") as caught:
        made.predict(task_of(usual).x, members)
    assert str(caught.value).isprintable()


def test_members_that_are_not_there_are_refused(name, usual):
    made = fitted(name, usual)
    for k in (-1, made.max_members) if made.max_members else (-1,):
        with pytest.raises(UsageError, match="member") as caught:
            made.member(k)
        assert str(caught.value).isprintable()


X = table().x
BAD = {
    "one column too many": (torch.zeros(3, 5), ShapeError),
    "one row alone": (torch.zeros(4), ShapeError),
    "no rows": (torch.zeros(0, 4), ShapeError),
    "a number": (3, ShapeError),
    "NaN": (torch.where(X > 2.0, torch.nan, X), ValuesError),
    "infinity": (torch.where(X > 2.0, torch.inf, X).numpy(), ValuesError),
    "text": ([["a"] * 4] * 2, CalibrantError),
    "objects": ([[None] * 4] * 2, CalibrantError),
    "ragged": ([[1.0, 2.0, 3.0, 4.0], [1.0]], CalibrantError),
    "complex": (np.ones((2, 4), complex), CalibrantError),
}


@pytest.mark.parametrize("what", BAD)
def test_odd_rows_are_refused(name, usual, what):
    rows, kind = BAD[what]
    with pytest.raises(CalibrantError) as caught:
        fitted(name, usual).predict(rows, 1)
    assert isinstance(caught.value, kind)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("batch", [0, -1])
def test_odd_batches_are_refused(name, usual, batch):
    with pytest.raises(UsageError, match="batch") as caught:
        fitted(name, usual).predict(task_of(usual).x, 1, batch=batch)
    assert str(caught.value).isprintable()


def test_whole_numbers_are_numbers(name, usual):
    made = fitted(name, usual)
    whole = np.arange(8).reshape(2, 4)
    np.testing.assert_allclose(values(made.predict(whole, 1)), values(made.predict(whole.astype(float), 1)), atol=1e-12)
    np.testing.assert_allclose(values(made.predict(whole.tolist(), 1)), values(made.predict(whole, 1)), atol=1e-12)


def test_tasks_that_a_method_does_not_know_are_refused(name):
    for kind in set(TASKS) - set(METHODS[name].tasks):
        with pytest.raises(UsageError, match=name) as caught:
            method_of(name).fit(task_of(kind), network_of(name, task_of(kind)))
        assert str(caught.value).isprintable()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused(name, usual):
    task = task_of(usual)
    if name not in WITHOUT_NETWORK:
        with pytest.raises(TrainingError, match="device"):
            method_of(name).fit(task, network_of(name, task), device="cuda")
    with pytest.raises(TrainingError, match="device"):
        fitted(name, usual).predict(task.x, 1, device="cuda")


# --------------------------------------------------------------------------------------- networks of one's own
@pytest.mark.parametrize("network", [Normalised(), lambda: Normalised()], ids=["module", "function"])
def test_networks_of_a_users_own(name, network, tmp_path):
    """With batch normalisation; members, files and costs as with those of ours."""
    if name in WITHOUT_NETWORK:
        pytest.skip("it has no network")
    task = task_of("categorical")
    made = method_of(name).fit(task, network, start="fresh")
    members = members_of(made)
    scores = made.predict(task.x, members).scores
    np.testing.assert_allclose(scores[-1], made.member(members - 1)(task.x), atol=1e-10)
    back = load(made.save(tmp_path / "own.safetensors"), network)
    np.testing.assert_array_equal(back.predict(task.x, members).scores, scores)
    assert made.about.cost.first == 2 * (4 * 6 + 6 * 3)


def test_images(name):
    """Bytes, convolutions: whatever knows classes."""
    if "categorical" not in METHODS[name].tasks:
        pytest.skip("it knows numbers alone")
    x = np.random.default_rng(0).integers(0, 256, (20, 1, 6, 6)).astype(np.uint8)
    task = Task.classification(x, np.arange(20) % 2, classes=2)
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    made = method_of(name).fit(task, network, start="fresh")
    members = members_of(made)
    scores = made.predict(x, members).scores
    np.testing.assert_allclose(scores[-1], made.member(members - 1)(x), atol=1e-10)
    np.testing.assert_allclose(made.predict(x[::-1].copy(), members).scores, scores[:, ::-1], atol=1e-10)
