"""tracegrad: compiled values and gradients of plain NumPy code, and tensors with ``backward`` in PyTorch's manner.

What is imported under ``if TYPE_CHECKING:`` is imported when it is asked for (``faces.py``). A file that users' names
come from lists them in its ``__all__``, and they are listed nowhere else.
"""

from typing import TYPE_CHECKING

from . import autograd
from .faces import face
from .runtime.compiled import CompiledFunction, compile_grad
from .runtime.config import config, get_num_threads, set_num_threads

__version__ = "0.1.0"

if TYPE_CHECKING:
    from numpy import e, iinfo, inf, nan, pi

    from . import amp, array_api, cuda, dask, fft, interop, linalg, nn, optim, random, tree
    from .autograd.gradcheck import GradcheckError
    from .runtime.ahead.archive import ArchiveError
    from .runtime.disk.store import CacheWarning
    from .runtime.inspection import eval_shape, make_graph
    from .runtime.profiling import profile
    from .runtime.transforms.vectorize import vectorize
    from .runtime.transforms.vmap import vmap
    from .saving import load, save
    from .steps.step import CompiledStep, compile
    from .tensors import create as _create
    from .tensors import dtypes as _dtypes
    from .tensors import methods as _methods
    from .tensors import modes as _modes
    from .tensors import random as _draws
    from .tensors.autocast import autocast
    from .tensors.create import *
    from .tensors.device import device, get_default_device, set_default_device
    from .tensors.dtypes import *
    from .tensors.dtypes import bool_ as bool
    from .tensors.dtypes import float_ as float
    from .tensors.dtypes import int_ as int
    from .tensors.methods import *
    from .tensors.modes import *
    from .tensors.printing import set_printoptions
    from .tensors.random import *
    from .tensors.tensor import Size, Tensor
    from .tracer import rules as _rules
    from .tracer.control.branches import cond, switch
    from .tracer.control.scan import fori_loop, map, scan
    from .tracer.control.while_loop import while_loop
    from .tracer.ir.aval import finfo
    from .tracer.ir.errors import (
        BadIndexError,
        DeviceError,
        DifferentiationError,
        GraphError,
        LinAlgError,
        MutationError,
        OutOfMemoryError,
        ShapeError,
        TracegradError,
        UnsupportedError,
    )
    from .tracer.ir.shape_struct import ShapeDtypeStruct
    from .tracer.numpy_api.creation import array, asarray, stop_gradient
    from .tracer.rules import *

    __all__ = [
        "ArchiveError", "BadIndexError", "CacheWarning", "CompiledFunction", "CompiledStep", "DeviceError",
        "DifferentiationError", "GradcheckError", "GraphError", "LinAlgError", "MutationError", "OutOfMemoryError",
        "ShapeDtypeStruct", "ShapeError", "Size", "Tensor", "TracegradError", "UnsupportedError", "amp", "array",
        "array_api", "asarray", "autocast", "autograd", "bool", "compile", "compile_grad", "cond", "config", "cuda",
        "dask", "device", "e", "eval_shape", "fft", "finfo", "float", "fori_loop", "get_default_device",
        "get_num_threads", "iinfo", "inf", "int", "interop", "linalg", "load", "make_graph", "map", "nan", "nn",
        "optim", "pi", "profile", "random", "save", "scan", "set_default_device", "set_num_threads",
        "set_printoptions", "stop_gradient", "switch", "tree", "vectorize", "vmap", "while_loop",
    ]  # fmt: skip
    __all__ += _create.__all__
    __all__ += _draws.__all__
    __all__ += _dtypes.__all__
    __all__ += _methods.__all__
    __all__ += _modes.__all__
    __all__ += _rules.__all__
    __all__.sort()

__getattr__, __dir__ = face(__name__)
