"""Calibrant: does a model know what it does not know?

    import calibrant as cal
    preds = cal.Classification.from_logits(logits, labels)
    print(cal.evaluate(preds))

Names are loaded when they are first used (PEP 562), so that importing the package costs next to nothing.
"""

from calibrant.lazy import lazy_names
from calibrant.version import __version__ as __version__

MODULES = (
    "bench", "checks", "comparison", "conformal", "data", "gates", "methods", "monitoring", "networks", "plot",
    "predictions", "recalibration", "results", "shift", "sklearn", "torch",
)  # fmt: skip
"""Public modules, which `dir(calibrant)` lists in addition to the names of `__all__`."""

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, MODULES)
