"""``Tensor``: an array that computes at once and remembers how it was made (``apply.py`` runs the operations).

A tensor's memory may be shared: by its views (``_base``, ``_chain``; see ``inplace.py``), by
``detach()`` and by NumPy arrays; all tensors over one memory that PyTorch counts together share one version counter.

Methods live in the tables of the ``ops_*.py`` files, which are also the functions of the public face.
"""

from __future__ import annotations

import html
import math
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..runtime.cuda.arrays import download
from ..runtime.notebook import array_html
from ..tracer.ir.aval import FLOAT_KINDS, INEXACT_KINDS
from ..tracer.ir.refusals import Refusal
from ..tracer.ir.settings import SETTINGS_CHANGED
from ..tracer.ir.site import is_internal
from ..tracer.ir.tracebacks import for_users
from ..tracer.ops.elementwise import F
from ..tracer.record.array import TracedArray
from . import dtypes
from .device import device, device_of, on_cuda
from .modes import STATE
from .node import AccumulateGrad, RemovableHandle, TapeNode, changed, registered
from .op import EagerOp
from .printing import format_tensor
from .rows import TensorRows

if TYPE_CHECKING:
    from .method_types import Methods
else:
    Methods = object

METHODS: dict[str, Callable[..., Any]] = {}  # name -> function(self, ...): filled by the ops_*.py files
PROPERTIES: dict[str, property] = {}  # likewise
_ENGINE: dict[str, Callable[..., Any]] = {}  # "backward": filled by backward.py; "refresh": by inplace.py; "autocast"


class Tensor(Methods):
    """An array with an optional history.

    ``Tensor(3, 5)`` is uninitialised, ``Tensor([1.0, 2.0])`` holds the data given (both of the default dtype); use
    ``tensor(data)`` otherwise.
    """

    _data: Any  # ndarray, or TracedArray within a capture
    _counter: list[int]  # the version; shared by all tensors that see the same memory
    _grad: Tensor | None = None
    _requires = False
    _node: TapeNode | None = None
    _out = 0
    _base: Tensor | None = None  # the base of a view
    _chain: tuple[tuple[EagerOp, tuple[Any, ...]], ...] = ()  # the operations from the base to a view
    _attr_version = 0  # the version at which the node of a view was made
    _inference = False
    _made: tuple[str, int] | None = None  # how a view that may not be written came about (inplace.py), its number
    _hooks: OrderedDict[int, Any] | None = None
    _after: OrderedDict[int, Any] | None = None  # post-accumulate hooks
    _end: weakref.ref[AccumulateGrad] | None = None  # of a leaf: its node, while somebody holds that
    __array_priority__ = 2000.0

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = object.__new__(cls)
        made._data = None
        made._counter = [0]
        return made

    def __init__(self, *size: Any, dtype: Any = None, device: Any = None) -> None:
        wanted = dtypes.as_dtype(dtype) if dtype is not None else dtypes.get_default_dtype()
        self._data = _legacy(size, wanted)
        self._inference = STATE.inference

    # ---- facts -------------------------------------------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """The same memory without history; writes through it are not noticed by ``backward``."""
        made = make(raw(self))
        if STATE.capture is not None:
            STATE.capture.shows(made, self)
        return made

    @data.setter
    def data(self, value: Tensor) -> None:
        _ENGINE["set_data"](self, value)

    @property
    def _version(self) -> int:
        """The number of writes to the memory."""
        return self._counter[0]

    @property
    def requires_grad(self) -> bool:
        if self._base is not None:
            if self._made is not None and self._attr_version != self._counter[0]:
                return self._requires or self._base._requires
            refresh(self)
        return self._requires

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for gradients of this leaf (or stop asking)."""
        if requires_grad and self.dtype.kind not in INEXACT_KINDS:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if not self.is_leaf:
            if requires_grad:
                return self
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in "
                "a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        if self._inference and requires_grad and not STATE.inference:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        if self._requires != bool(requires_grad):
            self._requires = bool(requires_grad)
            # a leaf of its own now, though it may share the memory of others
            self._base, self._chain, self._made = None, (), None
            changed()
        return self

    @property
    def is_leaf(self) -> bool:
        if self._base is not None:
            refresh(self)
        return self._node is None

    @property
    def grad_fn(self) -> TapeNode | None:
        """The node that made this tensor; None for a leaf."""
        if self._base is not None:
            refresh(self)
        return self._node

    @property
    def output_nr(self) -> int:
        return self._out

    @property
    def grad(self) -> Tensor | None:
        """The gradient that ``backward`` has accumulated, or None."""
        found = self._grad
        capture = STATE.capture
        return found if capture is None else capture.read_grad(self)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
                )
            if value.shape != self.shape:
                raise RuntimeError(
                    f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
                    f"'{list(self.shape)}'. Please ensure that the gradient and the tensor are the same size"
                )
            if value.dtype != self.dtype:
                raise RuntimeError(
                    f"attempting to assign a gradient of dtype {value.dtype} to a tensor of dtype {self.dtype}"
                )
        set_grad(self, value)

    @grad.deleter
    def grad(self) -> None:
        set_grad(self, None)

    @property
    def retains_grad(self) -> bool:
        node = self._node
        return node is not None and node.retained is not None and self._out in node.retained

    @property
    def shape(self) -> Size:
        return Size(raw(self).shape)

    @property
    def dtype(self) -> np.dtype:
        return raw(self).dtype

    @property
    def ndim(self) -> int:
        return len(raw(self).shape)

    @property
    def device(self) -> device:
        return device_of(self._data)

    @property
    def is_cuda(self) -> bool:
        return device_of(self._data).type == "cuda"

    def is_inference(self) -> bool:
        return self._inference

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return raw(self).nbytes

    # ---- gradients ---------------------------------------------------------------------------------------------

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Accumulate the gradients of this tensor into the ``.grad`` of the leaves that it depends on.

        :param gradient: the cotangent, of this tensor's shape; 1 for a scalar.
        :param retain_graph: keep what was saved, so that backward can run again (default: *create_graph*).
        :param create_graph: record the backward itself, for derivatives of derivatives.
        :param inputs: accumulate into these tensors only.
        """
        with for_users:
            _ENGINE["backward"](self, gradient, retain_graph, create_graph, inputs)

    def retain_grad(self) -> None:
        """Keep ``.grad`` of this tensor though it is no leaf."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self.is_leaf:
            return
        _ENGINE["retain"](self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """``hook(grad)`` runs when the gradient of this tensor is known; its result replaces the gradient."""
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.is_leaf:
            if self._hooks is None:
                self._hooks = OrderedDict()
            return registered(self._hooks, hook, True)
        node = self._node
        assert node is not None
        if node.tensor_hooks is None:
            node.tensor_hooks = {}
        return registered(node.tensor_hooks.setdefault(self._out, OrderedDict()), hook, False)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """``hook(tensor)`` runs after ``.grad`` of this leaf was accumulated."""
        if not self.is_leaf:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        if self._after is None:
            self._after = OrderedDict()
        return registered(self._after, hook, True)

    # ---- printing ----------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return self._text("", sys._getframe(1))

    def _text(self, prefix: str, frame: FrameType) -> str:
        """The text that *frame* asks for."""
        maker, data = self._maker(), raw(self)
        if isinstance(data, TracedArray) and STATE.capture is None:
            return f"{prefix}tensor({data!r})"
        text = _Text(self._requires and maker is None, maker, prefix)
        if not isinstance(data, TracedArray):
            return text(data)
        mark = None if STATE.capture.device.type == "cuda" else data.mark(frame, text)
        return text(seen(data, "turns a tensor into text")) if mark is None else mark

    def _maker(self) -> str | None:
        """The name of the node that made this tensor; "Invalid" where the history of a view is an error."""
        try:
            node = self.grad_fn
        except RuntimeError:
            return "Invalid"
        return None if node is None else node.label

    def _repr_html_(self) -> str:
        maker, data = self._maker(), raw(self)
        if isinstance(data, TracedArray):
            return f"<pre>{html.escape(repr(data))}</pre>"
        values = data if isinstance(data, np.ndarray) else download(data)
        facts = [
            ("dtype", values.dtype.name), ("device", "" if self.device.type == "cpu" else self.device),
            ("gradient", "required" * self._requires), ("made by", maker or ""),
        ]  # fmt: skip
        shown = values if values.dtype.kind in "biuc" else values.astype(np.float64)
        return array_html(f"{type(self).__name__} {list(values.shape)}", facts, shown)

    def __format__(self, spec: str) -> str:
        frame, data = sys._getframe(1), raw(self)
        if self.ndim:
            return object.__format__(self, spec) if spec else self._text("", frame)
        if type(data) is not TracedArray:
            return format(self.item(), spec)
        number = self._tracegrad_number() if data.dtype.kind in FLOAT_KINDS else data
        return number._text(frame, "format", spec)

    # ---- values ------------------------------------------------------------------------------------------------

    def item(self) -> Any:
        """The one element as a Python number."""
        data = raw(self)
        if data.size != 1:
            with for_users:
                raise RuntimeError(f"a Tensor with {data.size} elements cannot be converted to Scalar")
        if type(data) is TracedArray and not is_internal(sys._getframe(1).f_code.co_filename):
            return self._tracegrad_item()
        return data.item()

    def _tracegrad_item(self) -> Any:
        """``t.item()`` in recorded code."""
        data = raw(self)
        if type(data) is not TracedArray or data.size != 1 or data.dtype.kind not in (*FLOAT_KINDS, *"iu"):
            return self.item()
        return self._tracegrad_number() if data.dtype.kind in FLOAT_KINDS else data._tracegrad_int()

    def _tracegrad_number(self) -> Any:
        """``float(t)`` in recorded code: a number of the program, which has no gradient."""
        data = raw(self)
        if type(data) is not TracedArray or data.size != 1:
            return float(self)
        return TracedArray(F.stop_gradient(data.atom), data._recorder).number()

    def _tracegrad_int(self) -> Any:
        """``int(t)`` in recorded code, as for arrays."""
        data = raw(self)
        return data._tracegrad_int() if type(data) is TracedArray and data.size == 1 else int(self)

    def _tracegrad_traced(self) -> TracedArray | None:
        """The traced array of a tensor that the run has made, and that no backward will go through."""
        return self._data if type(self._data) is TracedArray and not self._requires else None

    def __bool__(self) -> bool:
        data = raw(self)
        if data.size != 1:
            if data.size == 0:
                raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(data) if type(data) is TracedArray else bool(data.item())

    def __float__(self) -> float:
        with for_users:
            return float(self._only())

    def __complex__(self) -> complex:
        return complex(self._only())

    def __int__(self) -> int:
        with for_users:
            return int(self._only())

    def _only(self) -> Any:
        data = raw(self)
        if data.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return data.item()

    def __index__(self) -> int:
        data = raw(self)
        if data.dtype.kind not in "iub" or data.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(data.item())

    def __len__(self) -> int:
        shape = raw(self).shape
        if not shape:
            raise TypeError("len() of a 0-d tensor")
        return shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not raw(self).shape:
            raise TypeError("iteration over a 0-d tensor")
        capture = STATE.capture
        return iter(METHODS["unbind"](self, 0)) if capture is None or capture.tape is None else TensorRows(self)

    def __contains__(self, element: Any) -> bool:
        return bool((raw(self) == (raw(element) if isinstance(element, Tensor) else element)).any())

    __hash__ = object.__hash__

    if TYPE_CHECKING:  # the tables give these, and ``Methods``

        def _operator(self, other: Any) -> Tensor: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _operator
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _operator
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lt__ = __le__ = __gt__ = __ge__ = _operator

        def _like(self, value: Any) -> Tensor: ...
        def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
        def __neg__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        data = METHODS["numpy"](self)
        return np.array(data, dtype=dtype, copy=copy) if copy else np.asarray(data, dtype=dtype)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory of a tensor on a CUDA device, for others to use.  AttributeError for one on the CPU."""
        data = raw(self)
        if not on_cuda(data):
            raise AttributeError(
                "Can't get __cuda_array_interface__ on non-CUDA tensor type: torch.FloatTensor. Use tensor.cuda() to "
                "copy the tensor to a CUDA device first."
            )
        self._check_shared("__cuda_array_interface__")
        return data.__cuda_array_interface__

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """The memory of this tensor as a DLPack capsule, for others to use."""
        self._check_shared("__dlpack__")
        options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        given = {name: value for name, value in options.items() if value is not None}
        return seen_here(self, "hands out its memory").__dlpack__(**given)

    def __dlpack_device__(self) -> tuple[int, int]:
        return tuple(seen_here(self, "hands out its memory").__dlpack_device__())  # type: ignore[return-value]

    def _check_shared(self, what: str) -> None:
        if self.requires_grad:
            raise BufferError(f"Can't export tensors that require gradient by {what}, use tensor.detach()")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                "moment."
            )
        known = memo.get(id(self))
        if known is not None:
            return known
        made = memo[id(self)] = self._copied()
        grad = self._grad if STATE.capture is None else STATE.capture.read_grad(self)
        if grad is not None:
            made._grad = grad.__deepcopy__(memo)
        return made

    def _copied(self) -> Any:
        made = object.__new__(type(self))
        made._data, made._counter, made._requires = raw(self).copy(), [0], self._requires
        if STATE.capture is not None:
            STATE.capture.made(made)
        return made

    def __reduce__(self) -> Any:
        return (_unpickled, (type(self), raw(self), self.requires_grad))  # the history stays behind


class Size(tuple):
    """A shape.  Prints as PyTorch's."""

    __slots__ = ()

    def numel(self) -> int:
        return math.prod(self)

    def __repr__(self) -> str:
        return f"Size([{', '.join(map(str, self))}])"

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, tuple(other)))


_new = object.__new__
_ndarray = np.ndarray


def _unpickled(cls: type, data: np.ndarray, requires: bool) -> Any:
    if isinstance(data, np.ndarray) and not (type(data) is np.ndarray and data.flags.writeable):
        data = np.array(data)  # what joblib and Ray share between processes can't be written
    made = from_data(data, requires)
    made.__class__ = cls
    return made


def _legacy(size: tuple[Any, ...], dtype: np.dtype) -> Any:
    """The array of ``Tensor(3, 5)`` or ``Tensor([1, 2])``."""
    if len(size) == 1 and isinstance(size[0], Tensor):
        return raw(size[0]).astype(dtype)
    if len(size) == 1 and not isinstance(size[0], (int, np.integer, Size)):
        return np.array(size[0], dtype=dtype)
    if len(size) == 1 and isinstance(size[0], Size):
        size = tuple(size[0])
    if not size:
        return np.empty((0,), dtype)
    return np.zeros([int(n) for n in size], dtype)


def origins(tensors: Sequence[Tensor]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """The ``edges`` and ``edge_outs`` of a node with these operands."""
    edges = [(t._node or t) if t._requires else None for t in tensors]
    return tuple(edges), tuple([t._out if t._requires else 0 for t in tensors])


# ---- making tensors ------------------------------------------------------------------------------------------------


def make(data: Any) -> Tensor:
    """A tensor over *data* (an array), with its own version counter and no history."""
    result = _new(Tensor)
    result._counter = [0]
    if STATE.inference:
        result._inference = True
    if STATE.capture is not None:
        data = STATE.capture.constant(data)
    result._data = data
    if STATE.capture is not None:
        STATE.capture.made(result)
    return result


def from_data(array: Any, requires_grad: bool = False) -> Tensor:
    """A leaf over *array*, not copied."""
    result = make(array)
    if requires_grad:
        result.requires_grad_()
    return result


def wrap(array: Any, requires_grad: bool = False) -> Any:
    """The result of a creation function: a leaf tensor; the traced array itself where a function of NumPy code is being
    recorded (``compile_grad``), which knows no tensors."""
    if type(array) is TracedArray and STATE.capture is None:
        return array
    return from_data(array, requires_grad)


@dataclass(frozen=True, slots=True)
class _Text:
    """The text of a tensor, as a function of its array."""

    requires_grad: bool
    grad_fn_name: str | None
    prefix: str

    def __call__(self, data: Any) -> str:
        return format_tensor(
            download(data) if on_cuda(data) else np.asarray(data), requires_grad=self.requires_grad,
            grad_fn_name=self.grad_fn_name, default_dtype=dtypes.get_default_dtype(), prefix=self.prefix,
        )  # fmt: skip


def raw(t: Tensor) -> Any:
    """The array of a tensor: within a capture, the traced one that stands for it."""
    capture = STATE.capture
    return t._data if capture is None else capture.raw(t)


def seen(data: Any, what: str) -> np.ndarray:
    """*data* as a plain array, for code that has to see its values (it does *what*): a capture in progress is not
    replayed."""
    if on_cuda(data):
        return download(data)
    if not isinstance(data, TracedArray):
        return data
    if STATE.capture is not None:
        STATE.capture.refuse(Refusal.STEP_SEES, what=what)
    return np.asarray(data._recorder.value(data.atom))


def seen_here(t: Tensor, what: str) -> Any:
    """The array of *t* where it lies, for code that does *what* with it, which no recording can replay."""
    data = raw(t)
    if not isinstance(data, TracedArray):
        return data
    if not t.is_cuda:
        return seen(data, what)
    STATE.capture.refuse(Refusal.STEP_SEES, what=what)
    return STATE.capture.array(data)


def counts_with(t: Tensor, other: Tensor) -> None:
    """Let *t*, which shows the memory of *other*, count its writes."""
    t._counter = other._counter


def refresh(view: Tensor) -> None:
    """Bring the history of a view up to date after in-place operations on its base."""
    if view._attr_version != view._counter[0]:
        _ENGINE["refresh"](view)


SETTINGS_CHANGED.append(changed)


def set_grad(t: Tensor, value: Tensor | None) -> None:
    capture = STATE.capture
    if capture is None:
        t._grad = value
    else:
        capture.write_grad(t, value)
