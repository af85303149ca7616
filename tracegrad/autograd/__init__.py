"""Gradients of functions (``grad(f)``, ``value_and_grad(f)``) and of tensors (``grad(outputs, inputs)``)."""

from ..runtime.eager.backward import backward
from ..runtime.eager.function import Function
from ..runtime.eager.gradcheck import gradcheck, gradgradcheck
from ..runtime.eager.modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from ..runtime.eager.plans import tapes
from ..runtime.eager.tensor import Tensor as Variable
from ..runtime.functional import grad, value_and_grad
from . import function, functional

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
