"""tracegrad: compiled values and gradients of plain NumPy code, and tensors with ``backward`` in PyTorch's manner."""

from typing import TYPE_CHECKING, Any

from numpy import e, iinfo, inf, nan, pi

from . import amp, autograd, cuda, linalg, nn, optim, random
from .runtime.compiled import CompiledFunction, compile_grad
from .runtime.config import config
from .steps.step import CompiledStep, compile
from .tensors.autocast import autocast
from .tensors.create import (
    BoolTensor,
    ByteTensor,
    DoubleTensor,
    FloatTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    logspace,
    meshgrid,
    ones,
    ones_like,
    tensor,
    tril_indices,
    triu_indices,
    zeros,
    zeros_like,
)
from .tensors.device import device, get_default_device, set_default_device
from .tensors.dtypes import (
    bfloat16,
    bool_,
    double,
    float16,
    float32,
    float64,
    float_,
    get_default_dtype,
    half,
    int8,
    int16,
    int32,
    int64,
    int_,
    long,
    set_default_dtype,
    short,
    uint8,
)
from .tensors.methods import PUBLIC
from .tensors.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .tensors.printing import set_printoptions
from .tensors.random import (
    Generator,
    bernoulli,
    default_generator,
    initial_seed,
    manual_seed,
    multinomial,
    normal,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    seed,
)
from .tensors.tensor import Size, Tensor
from .tracer.control.branches import cond, switch
from .tracer.control.scan import fori_loop, map, scan
from .tracer.control.while_loop import while_loop
from .tracer.ir.aval import finfo
from .tracer.ir.errors import (
    BadIndexError,
    DeviceError,
    DifferentiationError,
    MutationError,
    ShapeError,
    TracegradError,
    UnsupportedError,
)
from .tracer.numpy_api.creation import array, asarray, stop_gradient

__version__ = "0.1.0"

# The functions of tensors stand in tables (tensors/ops_*.py), which give Tensor its methods too.
globals().update(PUBLIC, bool=bool_, float=float_, int=int_)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


__all__ = [
    "amp",
    "autocast",
    "pi",
    "nan",
    "inf",
    "iinfo",
    "finfo",
    "e",
    "BadIndexError",
    "BoolTensor",
    "ByteTensor",
    "CompiledFunction",
    "CompiledStep",
    "DeviceError",
    "DifferentiationError",
    "DoubleTensor",
    "FloatTensor",
    "Generator",
    "IntTensor",
    "LongTensor",
    "MutationError",
    "ShapeError",
    "ShortTensor",
    "Size",
    "Tensor",
    "TracegradError",
    "UnsupportedError",
    "arange",
    "array",
    "as_tensor",
    "asarray",
    "autograd",
    "bernoulli",
    "bool",
    "compile",
    "compile_grad",
    "config",
    "cuda",
    "default_generator",
    "device",
    "double",
    "empty",
    "empty_like",
    "enable_grad",
    "eye",
    "float",
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "fori_loop",
    "from_numpy",
    "full",
    "full_like",
    "get_default_device",
    "get_default_dtype",
    "half",
    "inference_mode",
    "initial_seed",
    "int",
    "int16",
    "int32",
    "int64",
    "int8",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "linalg",
    "linspace",
    "logspace",
    "long",
    "manual_seed",
    "map",
    "meshgrid",
    "multinomial",
    "nn",
    "no_grad",
    "normal",
    "ones",
    "ones_like",
    "optim",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "scan",
    "stop_gradient",
    "switch",
    "while_loop",
    "cond",
    "seed",
    "set_default_device",
    "set_default_dtype",
    "set_grad_enabled",
    "set_printoptions",
    "short",
    "tensor",
    "tril_indices",
    "triu_indices",
    "uint8",
    "zeros",
    "zeros_like",
    *PUBLIC,
]
__all__.sort()
