"""Random numbers: ``Generator``, a NumPy PCG64 with PyTorch's interface (the numbers are not PyTorch's), and draws.

All are drawn through ``drawn``: a capture draws them anew whenever it runs, and any other recording that draws is never
replayed.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

from ..runtime.cuda.arrays import download
from ..runtime.cuda.availability import require_cuda
from ..tracer.ir.aval import FLOAT_KINDS, HALF, finfo, held_dtype
from ..tracer.ir.refusals import Refusal
from ..tracer.numpy_api import creation
from ..tracer.record.array import TracedArray
from ..tracer.record.recorder import current_recorder
from . import dtypes
from .arguments import named
from .create import _array_of, _count, _float_or_default, _made, _shape, _type_name, beside, like
from .device import on_cuda, wanted
from .dtypes import as_dtype, lane_of, scalar_name
from .messages import only_real
from .modes import STATE
from .tensor import Tensor, raw


class Generator:
    """A source of random numbers: NumPy's PCG64. One generator may be used by several threads."""

    def __init__(self, device: Any = None) -> None:
        wanted(device)
        self.manual_seed(67280421310721)

    @property
    def device(self) -> str:
        return "cpu"

    def manual_seed(self, seed: Any) -> Generator:
        """Start again from *seed*, an integer from -2**63 to 2**64 - 1; gives the generator itself."""
        number = int(seed)
        if not -(2**63) <= number < 2**64:
            raise ValueError("Overflow when unpacking long long")
        _not_replayable("seeds a random generator")
        self._seed = number % 2**64
        self._stream = np.random.Generator(np.random.PCG64(self._seed))
        return self

    def seed(self) -> int:
        """Start again from a seed that cannot be foreseen, and give it."""
        return self.manual_seed(secrets.randbits(64))._seed

    def initial_seed(self) -> int:
        """The seed that the numbers started from."""
        _not_replayable("reads the seed of a random generator")
        return self._seed

    @property
    def stream(self) -> np.random.Generator:
        """NumPy's generator, to draw from. A recording in progress is not replayed: Python runs in each call."""
        _not_replayable("draws random numbers")
        return self._stream

    def __repr__(self) -> str:
        return f"<tracegrad.Generator seed={self._seed}>"


def _not_replayable(what: str) -> None:
    recorder = current_recorder()
    if recorder is not None:
        recorder.unrepeatable(Refusal.CALLS_GENERATOR, what=what)


default_generator = Generator()
default_generator.seed()


def manual_seed(seed: Any) -> Generator:
    """Start the default generator again from *seed*; gives the generator."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the default generator again from a seed that cannot be foreseen, and give it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator started from."""
    return default_generator.initial_seed()


def drawn(draw: Callable[[np.random.Generator], np.ndarray], generator: Any = None) -> Any:
    """The array ``draw(stream)``, where *stream* is NumPy's generator behind *generator* (or behind the default one).

    Within a capture *draw* is kept, and runs whenever the recording does; it must not depend on traced values.
    TypeError where *generator* is no ``Generator``.
    """
    source = default_generator if generator is None else generator
    if not isinstance(source, Generator):
        raise TypeError(f"generator must be a tracegrad.Generator, not {type(source).__name__}")
    if STATE.capture is not None:
        return STATE.capture.fresh(lambda: draw(source._stream), source)
    return creation.asarray(draw(source.stream))


def _floats(dtype: Any, kernel: str) -> np.dtype:
    kind = _float_or_default(dtype)
    if kind.kind == "c":
        raise only_real(kernel)
    if kind.kind not in FLOAT_KINDS:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name(kind)}'")
    return kind


def _uniform(stream: Any, shape: tuple[int, ...], kind: np.dtype) -> Any:
    """Uniform on [0, 1): multiples of the *kind*'s resolution there, so that none is rounded to 1."""
    numbers = stream.random(shape, held_dtype(kind))
    if kind not in HALF:
        return numbers
    count = 2.0 ** (1 - np.log2(float(finfo(kind).eps)))
    return (np.floor(numbers * np.float32(count)) / np.float32(count)).astype(kind)


def _normal(stream: Any, shape: tuple[int, ...], kind: np.dtype) -> Any:
    return stream.standard_normal(shape, held_dtype(kind)).astype(kind, copy=False)


def _numbers(name: str, draw: Callable[..., Any], kernel: str, contents: str) -> Callable[..., Tensor]:
    def create(
        *sizes: Any, size: Any = None, generator: Any = None, dtype: Any = None, device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:  # fmt: skip
        shape, kind = _shape(name, sizes, size), _float_or_default(dtype)
        if kind.kind == "c":
            lane = lane_of(kind)
            lanes = drawn(lambda stream: draw(stream, (*shape, 2), lane), generator)
            lanes = lanes * lane.type(math.sqrt(0.5)) if draw is _normal else lanes  # so that the variance is 1
            return _made(lanes.view(kind)[..., 0], requires_grad, device)
        _floats(kind, kernel)
        return _made(drawn(lambda stream: draw(stream, shape, kind), generator), requires_grad, device)

    return named(create, name, f"{contents}; sizes as numbers or as one tuple.")


rand = _numbers("rand", _uniform, "check_uniform_bounds", "Uniform numbers in [0, 1)")
randn = _numbers("randn", _normal, "normal_kernel_cpu", "Standard normal numbers")
rand_like = like(rand, "Uniform numbers in [0, 1)")
randn_like = like(randn, "Standard normal numbers")


def randint(
    low: Any = 0, high: Any = None, size: Any = None, *, generator: Any = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Integers from *low* (0, if left out) to *high* - 1, all equally likely: ``randint(10, (2, 3))``."""
    if size is None and isinstance(high, tuple | list):
        high, size = None, high
    low, high = (0, low) if high is None else (low, high)
    if not isinstance(size, tuple | list):
        if size is None:
            raise TypeError('randint() missing 1 required positional arguments: "size"')
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {_type_name(size)}")
    shape, first, last = (
        _shape("randint", (size,), None),
        _count("randint", "low", low),
        _count("randint", "high", high),
    )
    if first >= last:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={first} >= to={last}")
    kind = dtypes.int64 if dtype is None else as_dtype(dtype)
    bounds = np.iinfo(kind) if kind.kind in "iu" else np.iinfo(np.int64)
    if first < bounds.min or last - 1 > bounds.max:
        raise RuntimeError(f"{'from' if first < bounds.min else 'to - 1'} is out of bounds for {kind.name}")
    wide = np.uint64 if kind == dtypes.uint64 else np.int64

    def draw(stream: np.random.Generator) -> np.ndarray:
        return stream.integers(first, last, shape, wide).astype(kind)

    return _made(drawn(draw, generator), requires_grad, device)


def randperm(
    n: Any, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The integers from 0 to n - 1 in random order."""
    (count,) = _shape("randperm", (_count("randperm", "n", n),), None)
    kind = dtypes.int64 if dtype is None else as_dtype(dtype)
    return _made(drawn(lambda stream: stream.permutation(count).astype(kind), generator), requires_grad, device)


def _on_host(array: Any) -> Any:
    """*array* on the host, where numbers are drawn: of a device array a copy, which is counted."""
    if not on_cuda(array):
        return array
    require_cuda("a tensor on a CUDA device").host_steps["random numbers"] += 1
    return download(array)


def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Normal numbers of the given mean and standard deviation: of two numbers and a size, or element by element of
    tensors. No gradient flows to the tensors."""
    device = next((x.device for x in (mean, std) if isinstance(x, Tensor) and x.is_cuda), device)
    arrays = [_on_host(raw(x)) if isinstance(x, Tensor) else x for x in (mean, std)]
    shaped = [x for x in arrays if isinstance(x, np.ndarray | TracedArray)]
    if not shaped and size is None:
        raise TypeError("normal() of two numbers needs a size: normal(0.0, 1.0, (2, 3))")
    if shaped and size is not None:
        raise TypeError("normal() of tensors takes no size; it is that of the tensors")
    kind = _floats(shaped[0].dtype if shaped and dtype is None else dtype, "normal_kernel_cpu")
    spread = arrays[1]
    if not isinstance(spread, TracedArray) and np.any(np.less(spread, 0)):
        raise RuntimeError(
            "normal expects all elements of std >= 0.0"
            if isinstance(spread, np.ndarray)
            else f"normal expects std >= 0.0, but found std {spread}"
        )
    shape = _shape("normal", (size,), None) if not shaped else shaped[0].shape
    for other in shaped[1:]:
        try:
            shape = np.broadcast_shapes(shape, other.shape)
        except ValueError:
            raise RuntimeError(f"normal(): mean of shape {shape} and std of shape {other.shape} do not fit") from None
    noise = drawn(lambda stream: stream.standard_normal(shape), generator)
    return _made((arrays[0] + arrays[1] * noise).astype(kind), requires_grad, device)


def bernoulli(input: Any, p: Any = None, *, generator: Any = None) -> Tensor:
    """0 and 1 in the shape and dtype of *input*: 1 with the probabilities in *input*, or with *p* if given."""
    given = _array_of("bernoulli", input)
    array = _on_host(given)
    if p is None:
        _floats(array.dtype, "bernoulli_tensor_cpu_p_")
        if not isinstance(array, TracedArray) and not np.all((array >= 0) & (array <= 1)):
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    elif not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    uniform = drawn(lambda stream: stream.random(array.shape), generator)
    return _made((uniform < (array if p is None else p)).astype(array.dtype), False, beside(given, None))


def multinomial(input: Any, num_samples: Any, replacement: bool = False, *, generator: Any = None) -> Tensor:
    """Indices drawn with the weights in each row of *input* (1-d or 2-d, no need to sum to 1), as int64."""
    given, count = _array_of("multinomial", input), _count("multinomial", "num_samples", num_samples)
    array = _on_host(given)
    if array.dtype.kind not in FLOAT_KINDS:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {scalar_name(array.dtype)}"
        )
    if array.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if count <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and count > array.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    weights = array.astype(np.float64)
    if isinstance(weights, np.ndarray):
        if not np.all(np.isfinite(weights) & (weights >= 0)):
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if np.any(weights.sum(-1) <= 0):
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if replacement:  # how many of the running totals lie at or below a uniform number
        totals = np.cumsum(weights, -1)[..., None, :]
        uniform = drawn(lambda stream: stream.random((*weights.shape[:-1], count, 1)), generator)
        chosen = np.sum(totals <= uniform * totals[..., -1:], -1)
    else:  # who arrives first, of exponential times with these rates
        times = drawn(lambda stream: stream.standard_exponential(weights.shape), generator)
        with np.errstate(divide="ignore"):
            chosen = np.argsort(times / weights, -1)[..., :count]
    return _made(chosen.astype(np.int64), False, beside(given, None))


__all__ = [
    "Generator", "bernoulli", "default_generator", "initial_seed", "manual_seed", "multinomial", "normal", "rand",
    "rand_like", "randint", "randn", "randn_like", "randperm", "seed",
]  # fmt: skip
