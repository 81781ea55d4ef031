"""Shifts of data: the corruptions of CIFAR-10-C and ImageNet-C, and shifts of tables, click logs and text.

from calibrant.shift import corrupt, names
corrupt(images, "fog", severity=3, seed=0)          # uint8 in, uint8 out, for NumPy arrays and PyTorch tensors
"""

from calibrant.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
