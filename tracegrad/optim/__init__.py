"""Optimizers: each step is one fused launch over all parameters of a group."""

from ..runtime.optim.adam import Adam, AdamW
from ..runtime.optim.lbfgs import LBFGS
from ..runtime.optim.optimizer import Optimizer
from ..runtime.optim.rmsprop import RMSprop
from ..runtime.optim.sgd import SGD
from . import lr_scheduler

__all__ = ["LBFGS", "SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
