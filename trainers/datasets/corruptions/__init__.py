"""The corruptions of CIFAR-10-C and CIFAR-100-C, computed with NumPy, SciPy and Pillow."""

from .apply import corrupt

__all__ = ["corrupt"]
