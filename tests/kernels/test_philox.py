"""Philox4x32-10 against its published vectors, and as a source of uniform numbers."""

import numpy as np
import pytest
from scipy import stats

from calibrant.errors import UsageError
from calibrant.kernels import philox
from calibrant.kernels.loops.philox import philox as rounds

# Random123's known answers (Salmon et al. 2011): counter, key, output.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN)
def test_published_vectors(counter, key, output):
    arguments = [np.uint32(int(word, 16)) for word in f"{counter} {key}".split()]
    assert [f"{int(word):08x}" for word in rounds(*arguments)] == output.split()


def test_a_word_depends_on_its_row_alone():
    whole = philox.words(7, 1, 2, 1000)
    for start, n in ((0, 1), (1, 5), (3, 997), (998, 2)):
        assert (philox.words(7, 1, 2, n, start) == whole[start : start + n]).all()


def test_the_layout_of_words_is_the_documented_one():
    words = philox.words(seed=5 + (9 << 32), purpose=3, replicate=11, n=9)
    block = rounds(*map(np.uint32, (2, 11, 3, 0)), np.uint32(5), np.uint32(9))
    assert words[8] == block[0]


def test_seeds_purposes_and_replicates_give_other_words():
    first = philox.words(1, 1, 1, 64)
    for other in ((2, 1, 1), (1, 2, 1), (1, 1, 2), (1 << 40, 1, 1)):
        assert (philox.words(*other, 64) != first).all()


def test_uniforms_and_normals_have_their_laws():
    u = philox.uniforms(0, 1, 0, 200_000)
    z = philox.normals(0, 2, 20, 10_000).ravel()
    assert u.min() > 0
    assert u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.01


@pytest.mark.parametrize("seed", [-1, 1 << 64])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(UsageError, match="seed"):
        philox.words(seed, 0, 0, 1)
