"""The namespace of the Array API standard, revision 2024.12, over Tensors: ``tracegrad.array_api``, which is what
``t.__array_namespace__()`` gives.  ``rows.py`` is the first file to read: a function is a row of a signature of the
standard and NumPy's function of that name, run and differentiated as the tensors' own operations are.  The rows stand
in ``elementwise.py``, ``creation.py``, ``data_types.py``, ``functions.py``, ``linalg.py`` and ``fft.py``.

Functions follow the standard's rules of promotion, which are NumPy's; methods and operators of Tensors stay PyTorch's.
"""

from numpy import e, inf, nan, newaxis, pi

from . import creation, data_types, elementwise, fft, functions, linalg, special  # noqa: F401  (each fills the tables)
from .rows import FUNCTIONS as _FUNCTIONS

__array_api_version__ = "2024.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", __array_api_version__)

globals().update(data_types.DTYPES | _FUNCTIONS)
__all__ = ["e", "fft", "inf", "linalg", "nan", "newaxis", "pi", *data_types.DTYPES, *_FUNCTIONS]
