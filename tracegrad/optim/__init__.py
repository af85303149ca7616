"""Optimizers in PyTorch's style. ``optimizer.py`` is the first file to read: parameter groups, state, and saving both.
Each step is one fused launch over all parameters of a group (``tracegrad/tensors/update.py``). ``lr_scheduler.py`` has
the schedules of learning rates, ``grad_scaler.py`` the scaling of losses for float16, ``functional.py`` optimizers of
trees of arrays.
"""

from .. import tensors  # noqa: F401  (registers the library)
from ..tracer.ir.tracebacks import shorten_all
from . import functional, lr_scheduler
from .adam import Adam, AdamW
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .rmsprop import RMSprop
from .sgd import SGD

__all__ = ["LBFGS", "SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "functional", "lr_scheduler"]

shorten_all(globals(), __all__)
