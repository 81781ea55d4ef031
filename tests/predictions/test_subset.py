"""Some members as predictions of their own, from Python and from the names of files."""

import numpy as np
import pytest

import calibrant as cal
from calibrant.errors import UsageError

RNG = np.random.default_rng(0)


def of_each_kind():
    logits, labels = RNG.normal(size=(4, 6, 3)), RNG.integers(0, 3, 6)
    yield cal.Classification.from_logits(logits, labels, member_names=list("abcd")), "scores"
    yield cal.Judged.from_confidence(RNG.uniform(size=(4, 6)), RNG.integers(0, 2, 6)), "confidence"
    yield cal.Regression.from_gaussian(RNG.normal(size=(4, 6)), std=np.ones((4, 6)), y=np.zeros(6)), "mean"


@pytest.mark.parametrize(("predictions", "array"), list(of_each_kind()))
def test_a_subset_has_the_members_in_the_order_given(predictions, array):
    found = predictions.subset([2, 0])
    assert found.members == 2
    assert (getattr(found, array) == getattr(predictions, array)[[2, 0]]).all()
    one = predictions.subset([-1])
    assert (getattr(one, array) == getattr(predictions.member(3), array)).all()


def test_names_go_with_the_members():
    predictions, _ = next(of_each_kind())
    assert predictions.subset(range(1, 3)).member_names == ("b", "c")


@pytest.mark.parametrize("members", [[], [0, 0], [0, -4], [4], [-5]])
@pytest.mark.parametrize(("predictions", "array"), list(of_each_kind()))
def test_members_that_are_not_there_or_twice_are_refused(predictions, array, members):
    with pytest.raises(UsageError, match="member"):
        predictions.subset(members)


@pytest.mark.parametrize(("text", "members"), [("0-2", 3), ("1-1", 1), ("3", 1), ("0-3", 4)])
def test_a_file_gives_the_members_that_its_name_asks_for(tmp_path, text, members):
    logits = RNG.normal(size=(4, 6, 3))
    np.savez(tmp_path / "a.npz", logits=logits, labels=RNG.integers(0, 3, 6))
    first = int(text.split("-")[0])
    for found in (cal.read(f"{tmp_path}/a.npz::member={text}"), cal.scan(f"{tmp_path}/a.npz::member={text}").read()):
        assert (found.scores == logits[first : first + members]).all()


@pytest.mark.parametrize("text", ["2-0", "a", "0-", "-1", "0-1-2", "0-9", "0-99999999999"])
def test_ranges_that_are_none_are_refused(tmp_path, text):
    np.savez(tmp_path / "a.npz", logits=RNG.normal(size=(4, 6, 3)), labels=RNG.integers(0, 3, 6))
    with pytest.raises(UsageError, match="member"):
        cal.read(f"{tmp_path}/a.npz::member={text}")
