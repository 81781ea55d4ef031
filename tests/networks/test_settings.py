"""Architectures as settings: there and back through JSON, and what is refused with one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from calibrant.errors import UsageError
from calibrant.networks import (
    ARCHITECTURES,
    MLP,
    VGG16,
    LeNet,
    PreResNet,
    ResNet,
    architecture_from,
    register,
)

COUNTS = st.integers(1, 1000)
KNOWN = st.one_of(
    st.builds(
        MLP, COUNTS, COUNTS, st.lists(COUNTS, max_size=4), st.sampled_from(["relu", "elu", "tanh", "selu"])
    ),
    st.builds(LeNet, COUNTS, COUNTS, st.integers(6, 300)),
    st.builds(ResNet, st.sampled_from([8, 20, 110]), COUNTS, COUNTS, COUNTS, st.sampled_from(["zeros", "projection"])),
    st.builds(VGG16, COUNTS, st.booleans(), COUNTS, COUNTS),
    st.builds(PreResNet, st.sampled_from([20, 38, 110, 164]), COUNTS, COUNTS, COUNTS),
)  # fmt: skip


@settings(max_examples=40)
@given(KNOWN)
def test_settings_go_through_json_and_back(architecture):
    text = json.dumps({"name": architecture.name, "settings": architecture.settings()})
    assert architecture_from(**json.loads(text)) == architecture
    assert hash(architecture_from(**json.loads(text))) == hash(architecture)


def test_settings_that_are_left_out_have_their_defaults():
    assert architecture_from("resnet", {"classes": 100}) == ResNet(20, 100, 3, 16, "zeros")
    assert architecture_from("mlp", {"inputs": 4, "outputs": 2}) == MLP(4, 2, (128, 128), "relu")


def test_counts_of_numpy_become_plain_numbers():
    made = MLP(np.int64(4), np.uint8(2), [np.int32(5)])
    assert made == MLP(4, 2, (5,))
    assert json.loads(json.dumps(made.settings()))["hidden"] == [5]


ANY = st.sampled_from(
    [None, True, 0, -1, 8, 20, 2.5, float("nan"), "relu", "zeros", "\n", [], [5], [[5]], {}, {"a": 1}]
)
NAMES = sorted({name for made in ARCHITECTURES.values() for name in made.__dataclass_fields__})


def made_or_refused(name, given_settings):
    try:
        return architecture_from(name, given_settings)
    except UsageError as error:
        return error


@settings(max_examples=60)
@given(st.sampled_from(sorted(ARCHITECTURES)), st.dictionaries(st.sampled_from(NAMES), ANY, max_size=3) | ANY)
def test_whatever_a_file_holds_is_an_architecture_or_refused_with_one_line(name, given_settings):
    made = made_or_refused(name, given_settings)
    if isinstance(made, UsageError):
        assert str(made).isprintable()
    else:
        held = made.settings()
        assert all(held[key] == value and type(held[key]) is type(value) for key, value in given_settings.items())


@pytest.mark.parametrize(
    ("name", "given_settings", "said"),
    [
        ("resnett", {}, "got 'resnett'; did you mean 'resnet'?"),
        ("os.system", {}, "choose from embedding_mlp, lenet, lstm, mlp, preresnet, resnet, vgg16"),
        (["resnet"], {}, "expected the name of a registered architecture"),
        ("resnet", {"dept": 20}, "expected settings of resnet, got 'dept'; did you mean 'depth'?"),
        ("resnet", {"build": 20}, "got 'build'; choose from"),
        ("resnet", {1: 20}, "got '1'"),
        ("resnet", [20], "expected a mapping of names to values"),
        ("resnet", {"depth": "20"}, "depth: expected an integer from 1 to 16777216, got '20'"),
        ("resnet", {"depth": 20.0}, "depth: expected an integer"),
        ("resnet", {"classes": True}, "classes: expected an integer"),
        ("resnet", {"classes": 0}, "classes: expected an integer"),
        ("resnet", {"width": 10**30}, "width: expected an integer"),
        ("resnet", {"depth": 21}, "depth: expected 6n + 2 layers, at most 2000, got 21; use for example 20 or 26"),
        ("resnet", {"depth": 2}, "use for example 8 or 14"),
        ("resnet", {"depth": 60002}, "use for example 1994 or 2000"),
        ("resnet", {"shortcut": "zero"}, "shortcut: expected 'zeros' or 'projection', got 'zero'; did you mean"),
        ("resnet", {"shortcut": 1}, "shortcut: expected a string"),
        ("preresnet", {"depth": 44}, "bottleneck blocks: depth: expected 9n + 2 layers"),
        ("preresnet", {"depth": 47, "block": "basic"}, "basic blocks: depth: expected 6n + 2 layers"),
        ("preresnet", {"block": "wide"}, "block: expected 'auto', 'basic' or 'bottleneck'"),
        ("vgg16", {"batch_norm": 1}, "batch_norm: expected true or false"),
        ("vgg16", {"depth": 19}, "expected settings of vgg16"),
        ("lenet", {"size": 5}, "size: expected images of at least 6 pixels per side, got 5"),
        ("mlp", {"inputs": 4}, "expected inputs and outputs, got no outputs"),
        ("mlp", {"inputs": 4, "outputs": 2, "hidden": 50}, "hidden: expected a list"),
        ("mlp", {"inputs": 4, "outputs": 2, "hidden": [50, 0]}, "hidden: expected an integer"),
        ("mlp", {"inputs": 4, "outputs": 2, "hidden": [1] * 2001}, "hidden: expected a list of at most 2000"),
        ("mlp", {"inputs": 4, "outputs": 2, "activation": "relu6"}, "did you mean 'relu'?"),
        ("mlp", {"inputs": 4, "outputs": 2, "activation": "\x1b[31m\nelu"}, "activation: expected 'relu', 'elu'"),
    ],
)
def test_bad_settings_are_refused_with_one_line(name, given_settings, said):
    with pytest.raises(UsageError) as caught:
        architecture_from(name, given_settings)
    assert said in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("depth", [20, 32, 44, 56, 110])
def test_depths_of_the_papers_are_accepted(depth):
    assert ResNet(depth).settings()["depth"] == depth


def test_architectures_do_not_change_and_their_names_are_taken():
    with pytest.raises(AttributeError):
        ResNet().depth = 56
    with pytest.raises(UsageError, match="'resnet', which is already registered"):
        register(ResNet)
