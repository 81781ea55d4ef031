"""precision="bfloat16": products and convolutions run in 16 bits, forward and backward, for one network and several."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from training.cases import QUICK, images, runs_of, stacked, table  # noqa: E402

from calibrant.methods import DeepEnsemble  # noqa: E402
from calibrant.networks import MLP, LeNet, ResNet  # noqa: E402
from calibrant.training.loop import TrainingLoop  # noqa: E402

PRODUCTS = ("convolution", "convolution_backward", "mm", "addmm", "bmm", "baddbmm", "mkldnn_convolution")


class RecordDtypes(TorchDispatchMode):
    """The dtypes of the first two operands of products and convolutions, as they run."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if name in PRODUCTS:
            operands = [each.dtype for each in args if isinstance(each, torch.Tensor)][:2]
            self.found.setdefault(name, set()).update(operands)
        return function(*args, **(kwargs or {}))


def products(task, architecture, count, precision):
    """The dtypes of one step of `count` networks, by operation."""
    training = replace(QUICK, precision=precision)
    stack, _ = stacked(task, architecture, runs_of(task, count), dtype=training.dtype)
    loop = TrainingLoop(stack, runs_of(task, count), training)
    with RecordDtypes() as record:
        loop.step(16, noisy=False)
    assert stack.together
    return record.found


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("task", "architecture"),
    [(images(), ResNet(8, 3, 2, 4)), (images(), LeNet(3, 2, 8)), (table(), MLP(4, 3, (6,)))],
    ids=["resnet", "lenet", "mlp"],
)
def test_all_products_of_a_step_run_in_sixteen_bits(task, architecture, count):
    task = task if task.x.dtype == torch.uint8 else replace(task, x=task.x.float())
    found = products(task, architecture, count, "bfloat16")
    assert any("convolution" in name for name in found) == (task.x.dim() == 4)
    assert set().union(*found.values()) == {torch.bfloat16}, found
    wide = products(task, architecture, count, "float32")
    assert set().union(*wide.values()) == {torch.float32}


def test_losses_in_sixteen_bits_are_near_those_in_thirty_two_but_not_the_same():
    losses = []
    for precision in ("bfloat16", "float32"):
        method = DeepEnsemble(replace(QUICK, precision=precision), members=2)
        posterior = method.fit(images(), ResNet(8, 3, 2, 4), device="cpu")
        assert posterior.states[0]["inner.conv1.weight"].dtype == torch.float32
        losses.append([each["loss"] for each in posterior.about.history])
    np.testing.assert_allclose(*losses, rtol=0.05)
    assert not np.array_equal(*losses)
