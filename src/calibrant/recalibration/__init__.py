"""Recalibration: fit a map on held-out predictions, apply it to new ones, and measure the gain in proper scores.

    import calibrant as cal
    scaled = cal.recalibration.TemperatureScaling().fit(validation).transform(test)
    print(cal.recalibration.improvement(test, scaled))

Names are imported on first use.
"""

from calibrant.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
