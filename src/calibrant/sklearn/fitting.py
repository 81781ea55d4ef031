"""What estimators around estimators share: routing, folds, and a method that is not fitted yet."""

from __future__ import annotations

import warnings
from inspect import signature
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Bunch, check_array
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from calibrant.errors import UsageError, did_you_mean, show
from calibrant.predictions import Classification, Regression
from calibrant.recalibration.base import Recalibrator
from calibrant.recalibration.methods import METHODS, methods_for, recalibrator


def unfitted(method: Any, task: str) -> Recalibrator:
    """A copy of the method that is not fitted; one for another task is refused."""
    listed = methods_for(task)
    do = f"choose from {', '.join(listed)}"
    if isinstance(method, str) and _name(method) not in METHODS:
        hint = did_you_mean(_name(method), listed)
        raise UsageError("method", expected=f"a method for {task}", came=f"got {show(_name(method))}", do=hint)
    known = recalibrator(method) if isinstance(method, str) else method
    if not isinstance(known, Recalibrator):
        came = f"got {type(known).__name__}"
        raise UsageError("method", expected="a method as text, or a Recalibrator", came=came, do=do)
    if task not in known.tasks:
        came = f"{show(known.name)} is for {', '.join(sorted(known.tasks))}"
        raise UsageError("method", expected=f"a method for {task}", came=came, do=do)
    options: dict[str, Any] = dict(known.options())
    return type(known)(**options)


def is_auto(method: Any) -> bool:
    """Whether the method is to be chosen."""
    return isinstance(method, str) and method.strip() == "auto"


def _name(method: str) -> str:
    return method.partition("(")[0].strip()


def fitted_method(method: Any, predictions: Classification | Regression) -> Recalibrator:
    """The method, fitted to predictions; "auto" is the one with the best cross-validated score."""
    if is_auto(method):
        from calibrant.evaluation.choice import fitted

        return fitted(predictions, "auto")[0]
    return unfitted(method, predictions.task).fit(predictions)


# ------------------------------------------------------------------------------------------- routing
def router_of(made: Any) -> MetadataRouter:
    """What is given to `fit` goes to the estimator and to the splitter."""
    fit = MethodMapping().add(caller="fit", callee="fit")
    split = MethodMapping().add(caller="fit", callee="split")
    router = MetadataRouter(owner=made).add_self_request(made)
    return router.add(estimator=made.estimator, method_mapping=fit).add(splitter=made.cv, method_mapping=split)


def routed(made: Any, sample_weight: Any, fit_params: dict[str, Any]) -> Any:
    """What is given to the estimator and to the splitter."""
    if get_config()["enable_metadata_routing"]:
        given = fit_params if sample_weight is None else fit_params | {"sample_weight": sample_weight}
        return process_routing(made, "fit", **given)
    passed = dict(fit_params)
    if isinstance(made.estimator, FrozenEstimator):
        sample_weight = None
    if sample_weight is not None and "sample_weight" in signature(made.estimator.fit).parameters:
        passed["sample_weight"] = sample_weight
    elif sample_weight is not None:
        name = type(made.estimator).__name__
        warnings.warn(f"{name} takes no sample_weight: the weights serve the recalibrator only", stacklevel=3)
    return Bunch(estimator=Bunch(fit=passed), splitter=Bunch(split={}))


# --------------------------------------------------------------------------------------------- rows
def folds_of(splitter: Any, X: Any, y: np.ndarray, given: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """(train, test) row numbers, also of masks."""
    rows = np.arange(len(y))
    splits = splitter.split(X, y, **given.splitter.split)
    folds = [(rows[np.asarray(train)], rows[np.asarray(test)]) for train, test in splits]
    if not folds or any(len(test) == 0 for _, test in folds):
        raise ValueError("cv gave a fold without rows")
    return folds


def refuse_nothing(X: Any) -> None:
    """Arrays without rows or columns are refused here: some splitters would fail later, and less clearly."""
    shape = getattr(X, "shape", None)
    if shape is not None and 0 in tuple(shape):
        check_array(np.empty(tuple(shape)))


def keep_features(made: Any, estimator: Any) -> None:
    """The number and names of features, where the estimator knows them."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            setattr(made, name, getattr(estimator, name))
