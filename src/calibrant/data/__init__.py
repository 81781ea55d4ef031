"""Data sets: a catalogue, verified downloads that resume, and readers of the folder in `CALIBRANT_DATA`.

from calibrant.data import images, prepare
x, y = images("cifar10", "test")        # after `calibrant data prepare cifar10`, or from a folder that has it
"""

from calibrant.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
