"""Test-time augmentation: a member looks at all rows in one variation."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from training.cases import QUICK, SMALL, images, same_bits, table  # noqa: E402

from calibrant.errors import UsageError  # noqa: E402
from calibrant.methods import Augmentation, DeepEnsemble, LastLayerDropout, MCDropout, augmented, load  # noqa: E402
from calibrant.networks import LeNet  # noqa: E402
from calibrant.training.seeds import stream  # noqa: E402

NETWORK, VARY = LeNet(3, 2, 8), Augmentation(2)


@pytest.fixture(scope="module")
def ensemble():
    return DeepEnsemble(QUICK, members=3).fit(images(), NETWORK, 5)


def test_members_come_in_turn_each_with_its_own_variation(ensemble):
    made, x = augmented(ensemble, VARY), images().x
    scores = made.predict(x, 8).scores
    for k in range(8):
        down, right, mirrored = VARY.draw(1, stream(5, k, "member's variation"))[0].tolist()
        wide = torch.nn.functional.pad(x, (2, 2, 2, 2))[:, :, down : down + 8, right : right + 8]
        seen = wide.flip(-1) if mirrored else wide
        np.testing.assert_allclose(scores[k], ensemble.member(k % 3)(seen), atol=1e-12)
    assert len(np.unique(scores[:, 0].round(9), axis=0)) > 4


def test_rows_share_the_variation_of_their_member(ensemble):
    made, x = augmented(ensemble, VARY), images().x[:6]
    whole = made.predict(x, 4).scores
    np.testing.assert_allclose(made.predict(x.flip(0), 4, batch=2).scores, whole[:, ::-1], atol=1e-12)


def test_no_variation_is_none(ensemble):
    x = images().x
    same = augmented(ensemble, Augmentation(0, flip=False)).predict(x, 3).scores
    np.testing.assert_array_equal(same, ensemble.predict(x).scores)


def test_a_seed_of_its_own(ensemble):
    x = images().x
    one, same, other = (augmented(ensemble, VARY, seed).predict(x, 6).scores for seed in (None, 5, 6))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("below", [MCDropout(QUICK, p=0.3), LastLayerDropout(QUICK, p=0.3)])
def test_over_dropout_masks_and_variations_both_differ(below):
    base = below.fit(images(), NETWORK)
    made = augmented(base, VARY)
    assert made.max_members is None
    for k in (0, 3):
        assert all(torch.equal(value, base.tensors(k)[name]) for name, value in made.tensors(k).items())
    x = images().x
    np.testing.assert_allclose(made.predict(x, 4).scores[3], made.member(3)(x), atol=1e-12)


def test_files(ensemble, tmp_path):
    x = images().x
    for made in (augmented(ensemble, VARY, 9), augmented(MCDropout(QUICK).fit(images(), NETWORK, 2), VARY)):
        back = load(made.save(tmp_path / "made.safetensors"))
        assert same_bits(made, back)
        np.testing.assert_array_equal(made.predict(x, 5).scores, back.predict(x, 5).scores)
        assert back.about == made.about


def test_the_method_says_so(ensemble):
    made = augmented(ensemble, VARY).predict(images().x, 2)
    assert made.info.meta["method"] == "deep_ensemble+augmentation"


def test_a_member_as_a_module_looks_at_its_variation_too(ensemble):
    """Or it is refused."""
    made, x = augmented(ensemble, VARY), images().x
    try:
        found = [made.module(k)(x).detach() for k in range(4)]
    except UsageError:
        return
    for k in range(4):
        np.testing.assert_allclose(found[k], made.member(k)(x), atol=1e-12)


def test_members_are_counted_from_zero(ensemble):
    with pytest.raises(UsageError, match="member"):
        augmented(ensemble, VARY).member(-1)


def test_tables_are_refused():
    base = DeepEnsemble(QUICK, members=1).fit(table(), SMALL)
    with pytest.raises(UsageError, match="expected a posterior of images") as caught:
        augmented(base, VARY)
    assert str(caught.value).isprintable()
