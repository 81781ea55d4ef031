"""The public names, and what importing them may cost."""

import subprocess
import sys
import textwrap

import pytest

import calibrant as cal

FACE = """CalibrantError CalibrantWarning Classification Estimate Evaluation Judged __version__ evaluate measure metrics
read write"""


def test_the_public_api_is_small_and_complete():
    most = 39  # comparing models brings a few functions of its own: cll, cll_curve, compare, lint, …
    assert len(cal.__all__) <= most, "a new public name needs a reason: raise the number with it"
    assert len(set(cal.__all__)) == len(cal.__all__)
    assert set(FACE.split()) <= set(cal.__all__)
    assert dir(cal) == sorted(cal.__all__)


@pytest.mark.parametrize("name", cal.__all__)
def test_each_public_name_is_there_and_documented(name):
    value = getattr(cal, name)
    assert name.startswith("__") or value.__doc__


@pytest.mark.parametrize("name", [n for n in cal.__all__ if not n.startswith("__")])
def test_public_names_are_not_shadowed_by_modules(name):
    """`cal.evaluate` stays a function after `calibrant.evaluation` and the command line have been imported."""
    code = f"import calibrant.cli.main, calibrant as cal; print(type(cal.{name}).__name__)"
    assert "module" not in python(code)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        cal.evalute  # noqa: B018


def python(code):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(code, *suspects):
    """Which of the modules are imported after the code has run."""
    return python(f"{code}\nimport sys\nprint('loaded:', *[m for m in {suspects!r} if m in sys.modules])")


def test_importing_the_package_imports_nothing_large():
    found = loaded("import calibrant; calibrant.__all__; dir(calibrant)", "numba", "scipy", "torch", "numpy", "typer")
    assert found.split() == ["loaded:"]


HELP = """
import sys
sys.argv = ["calibrant", *{arguments!r}]
from calibrant.cli.main import run
try:
    run()
except SystemExit as stop:
    assert not stop.code, stop.code
"""


@pytest.mark.parametrize("arguments", [["--help"], ["evaluate", "--help"], ["describe", "--help"], ["--version"]])
def test_help_imports_no_compiler(arguments):
    found = loaded(HELP.format(arguments=arguments), "numba", "scipy.stats", "torch", "sklearn", "pandas")
    assert found.splitlines()[-1].split() == ["loaded:"]
    assert "calibrant" in found


def test_evaluating_imports_neither_torch_nor_scikit_learn():
    code = """
    import calibrant as cal
    cal.evaluate(cal.Classification.from_probs([0.2, 0.7], [0, 1]), "accuracy,nll,ece")
    """
    found = loaded(textwrap.dedent(code), "torch", "sklearn", "pandas", "pyarrow", "altair", "scipy.stats")
    assert found.splitlines()[-1].split() == ["loaded:"]
