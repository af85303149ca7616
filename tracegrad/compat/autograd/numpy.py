"""NumPy itself: ``import tracegrad.compat.autograd.numpy as np`` imports NumPy's own modules under these names."""

import importlib
import sys

from . import boxes, numpy_vjps

for _part in ("", ".fft", ".linalg", ".random"):
    sys.modules[__name__ + _part] = importlib.import_module("numpy" + _part)
sys.modules[__name__ + ".numpy_boxes"], sys.modules[__name__ + ".numpy_vjps"] = boxes, numpy_vjps
