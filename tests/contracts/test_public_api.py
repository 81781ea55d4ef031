"""The public names, and what importing them may cost."""

import inspect
import subprocess
import sys
import textwrap

import pytest

import calibrant as cal

NAMES = """Classification Regression Judged Detection read write scan evaluate measure score_rows evaluate_shift
sample_size_curves error_hierarchy check compare recalibrate detect report Accumulator Evaluation Estimate metrics
CalibrantError CalibrantWarning"""
MODULES = """bench checks comparison conformal data gates methods monitoring networks plot predictions recalibration
results shift sklearn torch"""
MAX_NAMES = 24


def test_the_public_api_is_small_and_complete():
    assert sorted(cal.__all__) == sorted(NAMES.split()), "a public name needs a reason, and an entry in docs/api.md"
    assert len(cal.__all__) <= MAX_NAMES
    assert dir(cal) == sorted([*NAMES.split(), *MODULES.split()])
    assert set(cal.MODULES) == set(MODULES.split())


@pytest.mark.parametrize("name", MODULES.split())
def test_public_modules_are_documented_and_list_their_names(name):
    module = getattr(cal, name)
    assert module.__doc__
    assert all(hasattr(module, each) for each in module.__all__)
    assert set(module.__all__) <= set(dir(module))


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


def test_evaluate_has_few_parameters():
    assert list(inspect.signature(cal.evaluate).parameters) == [
        "predictions", "metrics", "by", "units", "level", "resamples", "relevant_error", "seed", "curves", "threads",
        "progress",
    ]  # fmt: skip
