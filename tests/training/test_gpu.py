"""What holds on a GPU: captured steps do what eager ones do, seeds decide, and a processor agrees."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from training.cases import AdaptivePrior

from calibrant import methods
from calibrant.errors import TrainingError
from calibrant.networks import ResNet

pytestmark = pytest.mark.gpu
NETWORK = ResNet(depth=8, classes=3, width=8)


@pytest.fixture(scope="module")
def task():
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (300, 3, 16, 16), dtype=torch.uint8, generator=generator)
    y = torch.randint(0, 3, (300,), generator=generator)
    x[:, 0] = (x[:, 0] * 0.5 + 40 * y[:, None, None]).to(torch.uint8)
    return methods.Task.classification(x, y, classes=3, augment=methods.Augmentation(2))


def training(**other):
    return methods.Training(epochs=4, batch=64, rate=0.05, **other)


@dataclass(frozen=True)
class Penalised(methods.DeepEnsemble):
    """With scalars and tensors of an objective, which captured steps read and write."""

    name = "penalised"

    def objective(self, task):
        return AdaptivePrior()


METHODS = {
    "ensemble": lambda **other: methods.DeepEnsemble(training(**other), members=3),
    "dropout": lambda **other: methods.MCDropout(training(**other), p=0.2),
    "langevin": lambda **other: methods.CyclicalSGLD(training(**other), cycles=2, samples=1),
    "shared weights": lambda **other: methods.BatchEnsemble(training(**other), members=2),
    "objective": lambda **other: Penalised(training(**other), members=2),
    "adam": lambda **other: methods.DeepEnsemble(training(optimiser="adam", clip=1.0, **other), members=2),
}


def predicted(method, task, device="cuda"):
    task = task.split(0.2) if isinstance(method, Penalised) else task
    return method.fit(task, NETWORK, 1, device=device).predict(task.x, members=2, device=device).scores


@pytest.mark.parametrize("name", METHODS)
def test_captured_steps_do_what_eager_ones_do(task, name):
    made = METHODS[name]
    captured = predicted(made(capture=True, precision="float64"), task)
    eager = predicted(made(capture=False, precision="float64"), task)
    np.testing.assert_allclose(captured, eager, atol=1e-7)


@pytest.mark.parametrize("name", METHODS)
def test_the_seed_decides(task, name):
    np.testing.assert_array_equal(predicted(METHODS[name](), task), predicted(METHODS[name](), task))


def test_a_processor_agrees(task):
    method = METHODS["ensemble"](precision="float64")
    np.testing.assert_allclose(predicted(method, task), predicted(method, task, "cpu"), atol=1e-7)


def test_members_together_are_members_apart(task):
    method = METHODS["ensemble"](precision="float64")
    apart = method.fit(task, NETWORK, 1, device="cuda", together=1).predict(task.x, device="cuda").scores
    together = method.fit(task, NETWORK, 1, device="cuda").predict(task.x, device="cuda").scores
    np.testing.assert_allclose(together, apart, atol=1e-7)


def test_sixteen_bits_stay_close(task):
    wide, narrow = (
        methods.DeepEnsemble(training(precision=precision), members=2).fit(task, NETWORK, 1, device="cuda")
        for precision in ("float32", "bfloat16")
    )
    losses = [np.array([each["loss"] for each in made.about.history]) for made in (wide, narrow)]
    np.testing.assert_allclose(*losses, rtol=0.1)


def test_linearised_networks_are_those_of_a_processor(task):
    network = methods.Vanilla(training(precision="float64")).fit(task, NETWORK, 1, device="cpu")
    made = methods.Laplace(layers="all", tune=None).around(network, task, device="cpu")
    found = [made.predict(task.x, 7, device=device).scores for device in ("cuda", "cpu")]
    np.testing.assert_allclose(*found, atol=1e-6)


def test_frozen_parts_stay_frozen_in_captured_steps(task):
    plain = replace(task, x=task.x.float() / 64.0 - 2.0, standardises=False, augment=None)
    module = NETWORK.build()
    posterior = methods.DeepEnsemble(training(), members=2).fit(
        plain, module, start="given", train="last", device="cuda"
    )
    for name, value in module.state_dict().items():
        if not name.startswith("linear") and value.is_floating_point():
            assert torch.equal(posterior.states[1][f"inner.{name}"], value)


def test_memory_that_does_not_suffice_is_told(task):
    large = methods.Task.classification(task.x.repeat(1, 1, 8, 8), task.y, classes=3)
    many = methods.DeepEnsemble(methods.Training(epochs=1, batch=300), members=60)
    _, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction(min(0.5, 2e9 / total))
    try:
        with pytest.raises(TrainingError, match=r"memory: expected memory for 60 networks .*together"):
            many.fit(large, ResNet(depth=20, classes=3), 0, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
