"""Networks against what papers say of them: numbers of parameters, shapes, blocks, initialisation."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from calibrant.networks import ARCHITECTURES, MLP, VGG16, LeNet, PreResNet, ResNet  # noqa: E402


def parameters(architecture):
    """How many numbers are trained."""
    return sum(each.numel() for each in architecture.build().parameters())


# ------------------------------------------------------------------------------------- numbers of parameters
def test_resnet_20_has_the_parameters_of_its_layers():
    first = 3 * 9 * 16 + 2 * 16
    stage1 = 6 * (16 * 9 * 16 + 2 * 16)
    stage2 = 16 * 9 * 32 + 5 * (32 * 9 * 32) + 6 * 2 * 32
    stage3 = 32 * 9 * 64 + 5 * (64 * 9 * 64) + 6 * 2 * 64
    assert first + stage1 + stage2 + stage3 + (64 + 1) * 10 == 269_722
    assert parameters(ResNet(20)) == 269_722
    projections = 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64
    assert parameters(ResNet(20, shortcut="projection")) == 269_722 + projections


@pytest.mark.parametrize(("depth", "millions"), [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)])
def test_resnets_are_as_large_as_published(depth, millions):
    """He, Zhang, Ren & Sun (2016), CVPR, table 6."""
    assert round(parameters(ResNet(depth)) / 1e6, 1 if depth == 110 else 2) == millions


def bottlenecks(n, inner, inputs):
    """n bottleneck blocks of 4 · inner channels, the first of other inputs with a 1×1 convolution beside it."""
    within = 2 * inner + 9 * inner**2 + 2 * inner + 4 * inner**2
    first = 2 * inputs + inputs * inner + within + inputs * 4 * inner
    return first + (n - 1) * (2 * 4 * inner + 4 * inner**2 + within)


@pytest.mark.parametrize(("depth", "n"), [(110, 12), (164, 18)])
def test_preresnets_of_bottlenecks_have_the_parameters_of_their_layers(depth, n):
    blocks = bottlenecks(n, 16, 16) + bottlenecks(n, 32, 64) + bottlenecks(n, 64, 128)
    assert parameters(PreResNet(depth)) == 27 * 16 + blocks + 2 * 256 + 257 * 10


def test_preresnets_are_as_large_as_published():
    """He, Zhang, Ren & Sun (2016), ECCV: ResNet-164 has 1.7 million parameters, and ResNet-110 of basic blocks too."""
    assert round(parameters(PreResNet(164)) / 1e6, 2) == 1.70
    assert round(parameters(PreResNet(110, block="basic")) / 1e6, 1) == 1.7


@pytest.mark.parametrize("batch_norm", [True, False])
def test_vgg16_has_the_parameters_of_its_layers(batch_norm):
    widths = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    convolutions = sum((9 * before + 1) * after for before, after in pairwise(widths))
    norms = 2 * sum(widths[1:]) * batch_norm
    expected = convolutions + norms + 2 * 513 * 512 + 513 * 10
    assert parameters(VGG16(batch_norm=batch_norm)) == expected
    assert 15.2e6 < expected < 15.3e6


def test_lenet_has_the_parameters_of_its_layers():
    expected = (9 + 1) * 32 + (9 * 32 + 1) * 64 + (12 * 12 * 64 + 1) * 128 + 129 * 10
    assert parameters(LeNet()) == expected == 1_199_882


@settings(max_examples=30)
@given(st.lists(st.integers(1, 40), max_size=5), st.integers(1, 30), st.integers(1, 9))
def test_an_mlp_has_the_parameters_of_its_layers(hidden, inputs, outputs):
    expected, width = 0, inputs
    for each in [*hidden, outputs]:
        expected, width = expected + (width + 1) * each, each
    assert parameters(MLP(inputs, outputs, tuple(hidden))) == expected


# ------------------------------------------------------------------------------------------- what comes out
def test_one_row_of_numbers_for_each_input(small, built, drawn):
    architecture, shape = small
    out = built(architecture).eval()(drawn(5, *shape))
    assert out.shape == (5, 2 if architecture.settings().get("outputs") == 2 else 3)
    assert out.std(0).min() > 0.0


def test_in_eval_mode_an_output_depends_on_its_own_input_alone(small, built, drawn):
    architecture, shape = small
    network, x = built(architecture), drawn(6, *shape)
    network(x)
    network.eval()
    torch.testing.assert_close(network(x)[2:4], network(x[2:4]))


def test_a_pass_draws_no_random_numbers_and_leaves_its_input_alone(small, built, drawn):
    architecture, shape = small
    network, x = built(architecture).train(), drawn(4, *shape)
    before, kept = torch.get_rng_state(), x.clone()
    first, second = network(x), network(x)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(x, kept)
    torch.testing.assert_close(first, second)


def test_weights_stand_in_ordinary_layers_and_no_layer_is_dropout(small, built):
    architecture, _ = small
    network = built(architecture)
    holders = {type(each) for each in network.modules() if [*each.parameters(recurse=False)]}
    assert holders <= {nn.Linear, nn.Conv2d, nn.BatchNorm2d}
    assert not [each for each in network.modules() if "Dropout" in type(each).__name__]
    assert not [each for each in network.modules() if getattr(each, "inplace", False)]


def test_channels_last_gives_the_same_and_stays_so_through_convolutions(small_image_network, built, drawn):
    architecture, shape = small_image_network
    network, x = built(architecture).eval(), drawn(4, *shape)
    expected = network(x)
    seen = []
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d):
            module.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    last = torch.channels_last
    torch.testing.assert_close(network.to(memory_format=last)(x.to(memory_format=last)), expected)
    assert seen
    assert all(each.is_contiguous(memory_format=last) for each in seen)


# --------------------------------------------------------------------------------------------------- blocks
@pytest.mark.parametrize("block", ["basic", "bottleneck"])
def test_a_preresnet_whose_branches_give_nothing_hands_its_input_on(block, built, drawn):
    """Nothing stands behind the sum, so that negative numbers pass too."""
    network = built(PreResNet(20, 3, 3, 4, block)).eval()
    last = "conv2" if block == "basic" else "conv3"
    for name, module in network.named_modules():
        if name.startswith("layer") and name.endswith(last):
            nn.init.zeros_(module.weight)
    x = drawn(2, network.layer2[1].bn1.num_features, 8, 8)
    assert torch.equal(network.layer2[1](x), x)
    widened = nn.functional.conv2d(x, network.layer3[0].shortcut.weight, stride=2)
    torch.testing.assert_close(network.layer3(x), widened)


def test_a_resnet_whose_branches_give_nothing_subsamples_and_pads_on_both_sides(built, drawn):
    network = built(ResNet(8, 3, 3, 4)).eval()
    nn.init.zeros_(network.layer2[0].bn2.weight)
    x = drawn(2, 4, 7, 7).abs()
    out = network.layer2(x)
    assert torch.equal(out[:, 2:6], x[:, :, [0, 2, 4, 6]][..., [0, 2, 4, 6]])
    assert not out[:, :2].any()
    assert not out[:, 6:].any()


@pytest.mark.parametrize(
    ("depth", "block", "kind"), [(38, "auto", "basic"), (47, "auto", "bottleneck"), (110, "basic", "basic")]
)
def test_the_block_that_auto_means(depth, block, kind):
    assert PreResNet(depth, block=block).kind == kind


@pytest.mark.parametrize(
    ("architecture", "layers"),
    [(ResNet(56, width=2), 56), (PreResNet(38, width=2), 38), (PreResNet(47, width=2), 47), (VGG16(width=2), 16)],
)
def test_the_depth_counts_the_layers_with_weights_that_no_shortcut_has(architecture, layers, built):
    named = built(architecture).named_modules()
    assert layers == sum(isinstance(each, nn.Conv2d | nn.Linear) for name, each in named if "shortcut" not in name)


def test_vgg16_halves_images_five_times(built, drawn):
    network = built(VGG16(3, True, 2)).eval()
    assert network.features(drawn(1, 3, 32, 32)).shape == (1, 16, 1, 1)
    assert network.features(drawn(1, 3, 64, 64)).shape == (1, 16, 2, 2)


# ------------------------------------------------------------------------------------------- initialisation
def state(network):
    return {name: value.clone() for name, value in network.state_dict().items()}


def test_the_seed_alone_decides_on_the_weights(small, built):
    architecture, _ = small
    one, same, other = (state(built(architecture, seed)) for seed in (3, 3, 4))
    assert all(torch.equal(one[name], same[name]) for name in one)
    weights = [name for name in one if name.endswith("weight") and one[name].ndim > 1]
    assert weights
    assert not any(torch.equal(one[name], other[name]) for name in weights)


def test_convolutions_have_the_variance_of_he(built):
    network = built(PreResNet(110, width=8))
    for name in ("conv2", "conv3"):
        weight = getattr(network.layer2[3], name).weight
        area = weight.shape[2] * weight.shape[3]
        assert weight.std().item() == pytest.approx(math.sqrt(2.0 / (area * weight.shape[0])), rel=0.1)
    vgg = built(VGG16(width=4))
    assert not any(each.bias.any() for each in vgg.features if isinstance(each, nn.Conv2d))


def test_selu_keeps_mean_and_variance_through_many_layers(built, drawn):
    network = built(MLP(300, 2, (300,) * 12, "selu"))
    x = drawn(500, 300)
    for layer in network.hidden:
        x = network.activation(layer(x))
    assert abs(x.mean().item()) < 0.1
    assert 0.8 < x.std().item() < 1.2


# --------------------------------------------------------------------------------------------- without torch
def test_without_torch_one_line_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import calibrant.networks"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("calibrant.errors.MissingExtra: calibrant.networks: expected PyTorch")
    assert last.endswith("pip install 'calibrant[torch]'")


def test_every_architecture_is_registered_under_its_own_name():
    assert set(ARCHITECTURES) >= {"mlp", "lenet", "resnet", "vgg16", "preresnet"}
    assert all(made.name == name for name, made in ARCHITECTURES.items())
