"""The examples in the docstrings of calibrant.sklearn."""

import doctest

import pytest

from calibrant.sklearn import estimators, scorers


@pytest.mark.parametrize("module", [estimators, scorers], ids=lambda module: module.__name__)
def test_docstring_examples(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
