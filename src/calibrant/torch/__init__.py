"""Calibrant in a training loop of PyTorch: a torchmetrics metric whose state is summed across processes.

    from calibrant.torch import CalibrationMetric
    metric = CalibrationMetric()
    metric.update(logits, labels)
    metric.compute()["ece"]

Names are imported on first use, which requires torch and torchmetrics.
"""

from importlib.util import find_spec
from typing import Any

from calibrant.lazy import lazy_names

_load, __dir__, __all__ = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__ and find_spec("torchmetrics") is None:
        from calibrant.errors import MissingExtra

        hint = "run `pip install torchmetrics`, or use calibrant.Accumulator"
        raise MissingExtra(f"calibrant.torch.{name}", expected="torchmetrics", got="none installed", hint=hint)
    return _load(name)
