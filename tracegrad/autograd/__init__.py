"""Gradients of functions (``grad(f)``, ``value_and_grad(f)``) and of tensors (``backward``, ``grad(outputs,
inputs)``), and PyTorch's other functions of ``autograd``. ``function.py`` is the first file to read: operations with a
backward of the user's, with ``function_context.py`` (their ``ctx``) and ``function_traced.py`` (the same in recorded
NumPy code). ``functional.py`` has Jacobians and Hessians, ``gradcheck.py`` finite differences.
"""

from ..runtime.transforms import value_and_grad
from ..tensors.backward import backward
from ..tensors.compiled_backward import tapes
from ..tensors.modes import detect_anomaly, enable_grad, inference_mode, no_grad, set_detect_anomaly, set_grad_enabled
from ..tensors.tensor import Tensor as Variable
from . import function, functional
from .derivatives import grad
from .function import Function
from .gradcheck import gradcheck, gradgradcheck

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "function",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "tapes",
    "value_and_grad",
]
