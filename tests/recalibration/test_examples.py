"""The examples in the docstrings of calibrant.recalibration and calibrant.conformal."""

import doctest
from importlib import import_module
from pkgutil import walk_packages

import pytest

import calibrant.conformal
import calibrant.recalibration

PACKAGES = (calibrant.recalibration, calibrant.conformal)
NAMES = [module.name for each in PACKAGES for module in walk_packages(each.__path__, f"{each.__name__}.")]


@pytest.mark.parametrize("name", [name for name in NAMES if "torch" not in name])
@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
def test_docstring_examples(name):
    assert doctest.testmod(import_module(name)).failed == 0


def test_the_public_functions_have_examples():
    for function in (
        calibrant.recalibration.recalibrate,
        calibrant.recalibration.choose,
        calibrant.recalibration.cross_fit,
        calibrant.recalibration.improvement,
        calibrant.recalibration.TemperatureScaling,
        calibrant.conformal.SplitConformal,
        calibrant.conformal.ConformalSets,
        calibrant.conformal.ConformalQuantiles,
    ):
        assert ">>> " in function.__doc__
