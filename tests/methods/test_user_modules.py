"""Networks of a user's own: trained as they are, or refused in one line before anything is trained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from training.cases import QUICK, SMALL, Dropping, Normalised, Tied, apart, images, table  # noqa: E402

from calibrant.errors import FileError, UsageError  # noqa: E402
from calibrant.methods import DeepEnsemble, MCDropout, Task, Vanilla, load  # noqa: E402
from calibrant.networks import LeNet, ResNet  # noqa: E402

PLAIN = Vanilla(QUICK)


def dense(outputs=3):
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, outputs))


class Drawing(nn.Module):
    """Dropout by function, or noise: masks that nobody can hold fixed."""

    def __init__(self, kind):
        super().__init__()
        self.first, self.last, self.kind = nn.Linear(4, 6), nn.Linear(6, 3), kind

    def forward(self, x):
        x = self.first(x)
        if self.kind == "functional":
            x = F.dropout(x, 0.2, self.training)
        elif self.kind == "always":
            x = F.dropout(x, 0.2)
        elif self.kind == "noise" and self.training:
            x = x + torch.randn_like(x)
        return self.last(x)


class Bare(nn.Module):
    """Parameters that nothing can initialise anew."""

    def __init__(self):
        super().__init__()
        self.scale, self.inner = nn.Parameter(torch.randn(3)), nn.Linear(4, 3)

    def forward(self, x):
        return self.inner(x) * self.scale


class Failing(nn.Module):
    """A bug of the user's own."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x):
        return self.inner(x).undefined_method()


class Two(nn.Module):
    """Two outputs that are not put together."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x):
        return self.a(x), self.b(x)


# ------------------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    ("network", "said"),
    [
        (nn.Sequential(nn.Linear(4, 6), nn.AlphaDropout(0.1), nn.Linear(6, 3)), "AlphaDropout, whose masks cannot be"),
        (Drawing("functional"), "got one that does"),
        (Drawing("always"), "use nn.Dropout layers"),
        (Drawing("noise"), "or noise"),
        (nn.Sequential(nn.Linear(4, 6), nn.RReLU(), nn.Linear(6, 3)), "got one that does"),
        (dense(2), "3 outputs per row: shape (n, 3), got shape (3, 2)"),
        (nn.Sequential(dense(), nn.Flatten(0)), "got shape (9,)"),
        (Two(), "got tuple"),
        (nn.Linear(5, 3), "got an error"),
        (LeNet(3, 2, 8), "a network that takes rows of shape (4,)"),
        (Failing(), "undefined_method"),
        (Bare(), "layer inner: expected a layer with reset_parameters()"),
        (Normalised, "an architecture, an nn.Module, or a function that returns one, got the class Normalised"),
        (nn.Linear, "pass the module itself, or lambda"),
        (lambda: 3, "a function that returns an nn.Module, got one that returned int"),
        (lambda: None, "got one that returned NoneType"),
        (None, "got NoneType"),
        ("resnet", "got str"),
        (nn.Sequential(nn.Flatten(), nn.Identity()), "3 outputs per row"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_in_one_line(network, said):
    with pytest.raises(UsageError) as caught:
        PLAIN.fit(table(), network, start="fresh")
    if network.__class__ is not Bare:
        assert said in str(caught.value)
    else:
        assert "Bare with parameters and no such method; pass a function" in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("standardise", [True, False])
def test_a_network_for_tables_is_told_of_images(standardise):
    task = Task.classification(images().x.float(), images().y, classes=3, standardise=standardise)
    with pytest.raises(UsageError, match=r"rows of shape \(2, 8, 8\)"):
        PLAIN.fit(task, dense(), start="fresh")


# ------------------------------------------------------------------------------------------ what is done with it
def test_the_network_that_is_given_stays_as_it_was():
    for given in (Dropping(), Normalised().eval()):
        before = {name: value.clone() for name, value in given.state_dict().items()}
        kinds, mode = [type(each) for each in given.modules()], given.training
        DeepEnsemble(QUICK, members=2).fit(table(), given, start="fresh")
        MCDropout(QUICK, p=0.1).fit(table(), given, start="fresh")
        assert [type(each) for each in given.modules()] == kinds
        assert given.training == mode
        assert all(each.requires_grad for each in given.parameters())
        assert all(torch.equal(value, before[name]) for name, value in given.state_dict().items())


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_network_in_double_precision_is_trained_in_that_of_the_settings(precision):
    method = Vanilla(replace(QUICK, precision=precision))
    made = method.fit(table(), dense().double(), start="fresh")
    assert str(made.dtype) == f"torch.{precision}"


def test_a_module_starts_afresh_for_every_member_and_its_weights_do_not_matter():
    one, other = dense(), dense()
    with torch.no_grad():
        other[0].weight.fill_(100.0)
    made = DeepEnsemble(QUICK, members=2).fit(table(), one, start="fresh")
    assert apart(made, DeepEnsemble(QUICK, members=2).fit(table(), other, start="fresh")) == 0.0
    assert (made.states[0]["inner.0.weight"] - made.states[1]["inner.0.weight"]).abs().max() > 0.1


def test_a_function_is_as_good_as_a_module():
    assert apart(PLAIN.fit(table(), dense, start="fresh"), PLAIN.fit(table(), dense(), start="fresh")) == 0.0
    made = DeepEnsemble(QUICK, members=2).fit(table(), lambda: Bare())  # what a module cannot make anew
    assert (made.states[0]["inner.scale"] - made.states[1]["inner.scale"]).abs().max() > 1e-3


def test_a_function_that_returns_one_module_again_and_again():
    """Members must not begin with the same weights, and the module is the user's own."""

    only = dense()
    try:
        made = DeepEnsemble(QUICK, members=2).fit(table(), lambda: only)
    except UsageError as refusal:
        assert "function" in str(refusal)  # noqa: PT017
    else:
        gap = (made.states[0]["inner.0.weight"] - made.states[1]["inner.0.weight"]).abs().max()
        assert gap > 0.1
    assert all(each.requires_grad for each in only.parameters())
    assert only[0].weight.dtype == torch.float32


def test_buffers_that_state_dicts_leave_out_are_kept():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 3)
            self.register_buffer("shift", torch.tensor([1.0, 2.0, 3.0]), persistent=False)

        def forward(self, x):
            return self.inner(x) + self.shift

    made = DeepEnsemble(QUICK, members=2).fit(table(), Shifted(), start="fresh")
    assert made.states[1]["inner.shift"].tolist() == [1.0, 2.0, 3.0]


def test_tokens_are_looked_up():
    """Whole numbers, not standardised; what a user's embedding needs."""
    tokens = np.random.default_rng(0).integers(0, 9, (30, 5))
    task = Task.classification(tokens, tokens[:, 0] % 3, classes=3, standardise=False)
    network = nn.Sequential(nn.Embedding(9, 6), nn.Flatten(), nn.Linear(30, 3))
    made = DeepEnsemble(replace(QUICK, epochs=20, rate=0.1), members=2).fit(task, network, start="fresh")
    found = made.predict(tokens, y=task.y)
    assert (found.scores.mean(0).argmax(1) == tokens[:, 0] % 3).mean() > 0.9


# ------------------------------------------------------------------------------------------ as a module again
@pytest.mark.parametrize(
    ("method", "task", "network"),
    [
        (DeepEnsemble(QUICK, members=2), table, SMALL),
        (DeepEnsemble(QUICK, members=2), images, ResNet(8, 3, 2, 2)),
        (MCDropout(QUICK, p=0.4), table, Dropping()),
        (DeepEnsemble(QUICK, members=2), table, Tied()),
    ],
    ids=["mlp", "resnet", "dropout", "tied"],
)
def test_a_member_is_an_ordinary_module(method, task, network):
    made, x = method.fit(task(), network, start="fresh"), task().x
    for k in (1, 0):
        module = made.module(k)
        assert not module.training
        with torch.no_grad():
            np.testing.assert_allclose(module(x), made.member(k)(x), atol=1e-12)
    assert all(each.requires_grad for each in module.parameters())


# ---------------------------------------------------------------------------------------------------- files
def test_files_hold_weights_and_no_programs(tmp_path):
    path = DeepEnsemble(QUICK, members=2).fit(table(), Normalised(), start="fresh").save(tmp_path / "own.safetensors")
    with pytest.raises(UsageError, match="files store weights, not code"):
        load(path)
    with pytest.raises(UsageError, match="pass the module itself"):
        load(path, Normalised)
    with pytest.raises(FileError, match=r"weight inner\.first\.weight: expected shape \(7, 4\)"):
        load(path, Normalised(width=7))
    with pytest.raises(FileError, match="got none"):
        load(path, dense())
    assert load(path, lambda: Normalised()).max_members == 2
