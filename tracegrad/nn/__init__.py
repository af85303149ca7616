"""Neural networks in PyTorch's style. ``module.py`` is the first file to read: parameters, buffers and other modules
as attributes of one object. Layers are modules around one function each: ``layers.py``, ``conv.py``,
``norm.py``, and by ``function_module.py`` ``activations.py`` and ``losses.py``; ``containers.py`` holds others.
``nn.functional`` has those functions, ``nn.init`` and ``nn.utils`` more. They are operations on tensors: nothing here
knows a derivative.
"""

from .. import tensors  # noqa: F401  (registers the library)
from ..tracer.ir.tracebacks import shorten_all
from . import activations, containers, conv, functional, init, layers, losses, norm, parameter, utils
from .activations import *
from .containers import *
from .conv import *
from .layers import *
from .losses import *
from .module import Module
from .norm import *
from .parameter import Parameter

__all__ = [
    "Module", "Parameter", "functional", "init", "parameter", "utils", *activations.__all__, *containers.__all__,
    *conv.__all__, *layers.__all__, *losses.__all__, *norm.__all__,
]  # fmt: skip

shorten_all(globals(), __all__)
