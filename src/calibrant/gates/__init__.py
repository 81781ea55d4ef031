"""Gates: pass/fail conditions on an evaluation, for continuous integration."""

from calibrant.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
