"""Recalibration and metrics where scikit-learn expects them: an estimator around an estimator, and scorers.

    from calibrant.sklearn import Recalibrated, scorer
    model = Recalibrated(RandomForestClassifier(), "ets").fit(X, y)
    cross_val_score(model, X, y, scoring=scorer("nll"))

Names are loaded when they are first used; scikit-learn is needed then.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrant.sklearn.recalibrated import Recalibrated as Recalibrated
    from calibrant.sklearn.regressor import RecalibratedRegressor as RecalibratedRegressor
    from calibrant.sklearn.scorers import Scorer as Scorer
    from calibrant.sklearn.scorers import scorer as scorer

_HOMES = {
    "Recalibrated": "recalibrated",
    "RecalibratedRegressor": "regressor",
    "Scorer": "scorers",
    "scorer": "scorers",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'calibrant.sklearn' has no attribute {name!r}")
    try:
        import_module("sklearn.frozen")
    except ImportError as error:
        from calibrant.errors import MissingExtra

        raise MissingExtra(
            f"calibrant.sklearn.{name}",
            expected="scikit-learn 1.6 or later",
            came="it is not installed",
            do="pip install 'calibrant[sklearn]'",
        ) from error
    return getattr(import_module(f"calibrant.sklearn.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
