"""Calibrant for scikit-learn: estimators that recalibrate the estimator they wrap, and scorers from metrics.

    from calibrant.sklearn import RecalibratedClassifier, scorer
    model = RecalibratedClassifier(RandomForestClassifier(), "ets").fit(X, y)
    cross_val_score(model, X, y, scoring=scorer("nll"))

Names are imported on first use, which requires scikit-learn.
"""

from importlib import import_module
from typing import Any

from calibrant.lazy import lazy_names

_load, __dir__, __all__ = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        if name in __all__:
            import_module("sklearn.frozen")
    except ImportError as error:
        from calibrant.errors import MissingExtra

        subject, hint = f"calibrant.sklearn.{name}", "pip install 'calibrant[sklearn]'"
        raise MissingExtra(
            subject, expected="scikit-learn 1.6 or later", got="none installed", hint=hint
        ) from error  # fmt: skip
    return _load(name)
