"""The functions behind the layers, each one operation on tensors. Start reading at ``basic.py`` (linear maps,
activations, dropout, embeddings); then ``convolution.py``, ``normalization.py``, and the losses against numbers
(``value_losses.py``) and against classes (``class_losses.py``).
"""

from ...tracer.ir.tracebacks import shorten_all
from . import basic, class_losses, convolution, normalization, value_losses
from .basic import *
from .class_losses import *
from .convolution import *
from .normalization import *
from .value_losses import *

__all__ = [
    *basic.__all__, *class_losses.__all__, *convolution.__all__, *normalization.__all__, *value_losses.__all__,
]  # fmt: skip

shorten_all(globals(), __all__)
