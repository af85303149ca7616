"""A capture: a stretch of eager code that is recorded instead of computed.

While ``STATE.capture`` is set, the array of every tensor that an operation touches is replaced by a traced one
(``raw``): the first touch of a tensor from outside makes its memory an input of the recording (a ``Root``).  The tape,
``backward`` and the optimizers run as always, on traced arrays; writes into tensors and assignments of ``.grad`` are
kept here and take effect when the recording is run (``tracegrad/steps/step.py``, ``tracegrad/steps/functions.py``).

A capture on a CUDA device (``device``) records the device's operations.  Values on the host (``places``), as numbers
of optimizers, counts of steps, arrays of NumPy's, follow the rules of eager code: only 0-d ones may meet device
values; results of host values alone lie on the host again.

Sources of inputs, in the order of ``recorder.inputs``: ``("root", Root)``, ``("number", place)``,
``("fresh", (draw, generator))``, and whatever the caller adds with ``add_input``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runtime.cuda.arrays import byte_bounds, upload
from ..tracer.ir.aval import FLOAT
from ..tracer.ir.errors import UnsupportedError
from ..tracer.ir.graph import Atom, Lit, Var
from ..tracer.ir.refusals import Refusal
from ..tracer.ir.site import adjoint_site
from ..tracer.ops.elementwise import broadcast_to
from ..tracer.record.array import TracedArray, to_atom, wrap_array
from ..tracer.record.integers import TracedInt
from ..tracer.record.recorder import Recorder, recording
from .device import CPU, device, device_of, on_cuda
from .inplace import follow
from .modes import STATE
from .node import TapeNode, next_sequence
from .on_device import different_devices
from .op import for_kernel
from .tensor import Tensor


@dataclass(eq=False, slots=True)
class Root:
    """The memory of tensors from outside: ``array`` as it was found, first through ``tensor``."""

    tensor: Tensor
    array: Any  # ndarray
    traced: Any  # TracedArray
    var: Var
    owner: Tensor | None = None  # the tensor whose ``.grad`` this is
    version: int = 0  # version of the memory before the run

    @property
    def memory(self) -> Any:
        """``array`` as the recording takes it: the lanes of a complex one, over its memory."""
        return for_kernel(self.array)

    @property
    def written(self) -> bool:
        return self.traced._storage.atom is not self.var

    @property
    def contents(self) -> Atom:
        return self.traced._storage.atom


class Capture:
    """Effects of one recording of eager code, and the state that it read."""

    def __init__(self, recorder: Recorder, names: Mapping[int, str] | None = None, place: device = CPU) -> None:
        self.recorder = recorder
        self.device = place  # the device of arrays that are not in `places`
        self.places: dict[int, tuple[Any, device]] = {}  # id of a Storage -> (Storage, its device)
        self.met: set[str] = set()  # types of the devices on which arrays of the run lie
        self.names = names or {}  # id of a tensor -> its name
        self.roots: list[Root] = []
        self.sources: list[tuple[str, Any]] = []
        self.grads: dict[int, tuple[Tensor, Tensor | None]] = {}  # id of a tensor -> (tensor, the .grad assigned to it)
        self.looked: dict[int, tuple[Tensor, bool]] = {}  # id of a tensor -> (it, whether its .grad was None when read)
        self._traced: dict[int, tuple[Tensor, TracedArray]] = {}
        self.originals: dict[int, Tensor] = {}  # id of a tensor that stands for an argument -> the argument
        self._by_array: dict[int, Root] = {}
        self._grad_of: dict[int, Tensor] = {}  # id of a .grad that the run has found -> whose it is
        self.tape: Any = None  # that of loops over symbols (``tracegrad/steps/loop_tape.py``)
        self.log: Any = None  # the run whose reads are logged, in which this happens
        self.undone: list[Callable[[], None]] = []  # to be done where the run is to be as if it had not been
        self.streams: dict[int, tuple[Any, Any]] = {}  # id of a generator -> (it, its state before the run)
        self.drawn: dict[Var, np.ndarray] = {}  # inputs of random numbers -> those of this run
        self._made: list[weakref.ref[Tensor]] = []
        # by id: (a tensor, the array of the run's that it shows, the operations that lead to it)
        self._shows: dict[int, tuple[weakref.ref[Tensor], TracedArray, tuple[Any, ...]]] = {}
        self.since = next_sequence()
        self.link: Any = None  # ``Link`` from results to tensors from outside (``tracegrad/steps/step_autograd.py``)

    # ---- what the eager layer asks -----------------------------------------------------------------------------

    def raw(self, t: Tensor) -> TracedArray:
        data = t._data
        if type(data) is TracedArray:
            return data
        found = self._traced.get(id(t))
        if found is not None:
            return found[1]
        traced = self._lift(t)
        self._traced[id(t)] = (t, traced)
        return traced

    def _lift(self, t: Tensor) -> TracedArray:
        base = t._base
        if base is not None:
            return follow(self.raw(base), t._chain)
        root = self._by_array.get(id(t._data))
        if root is None:
            if on_cuda(t._data) and t._data.dtype.kind == "c":
                raise UnsupportedError.here(
                    "a compiled step does not take complex tensors on a CUDA device: call the function itself, or keep "
                    "tracegrad.view_as_real(z) and make z of it in the step"
                )
            owner = self._grad_of.get(id(t))
            name = f"`{self.names[id(t)]}`" if id(t) in self.names else "a tensor from outside"
            var = self.recorder.add_input(for_kernel(t._data), name)
            traced = TracedArray(var, self.recorder)
            traced._storage.array0d = True
            traced._storage.born = 0  # it was there before any iteration of a loop
            traced._storage.c_order = bool(t._data.flags.c_contiguous)
            self.put(traced, device_of(t._data))
            if t._data.dtype.kind == "c":  # a view of its lanes
                traced = traced.view(t._data.dtype)[..., 0]
            root = Root(t, t._data, traced, var, owner, t._counter[0])
            self.roots.append(root)
            self.sources.append(("root", root))
            self._by_array[id(t._data)] = root
        return root.traced

    def root_of(self, t: Tensor) -> Root | None:
        """The root whose memory *t* shows, if it has been touched."""
        return self._by_array.get(id(t._data))

    def read_grad(self, t: Tensor) -> Tensor | None:
        if self.is_own(t):
            return t._grad
        found = self.grads.get(id(t))
        if found is not None:
            return found[1]
        known = t._grad
        self.looked.setdefault(id(t), (t, known is None))
        if known is not None:
            self._grad_of[id(known)] = t
        return known

    def write_grad(self, t: Tensor, value: Tensor | None) -> None:
        if self.is_own(t):
            t._grad = value
            return
        self.grads[id(t)] = (t, value)

    def is_own(self, t: Tensor) -> bool:
        """Whether the run has made *t*, and so has its ``.grad``."""
        return type(t._data) is TracedArray

    def number(self, place: tuple[Any, ...]) -> TracedArray:
        """The number of an optimizer in a place, ``(group, "lr")`` or ``(group, "betas", 0)``, as the run finds it: the
        log tells whether it is compared."""
        now = number_at(place)
        if type(now) is TracedArray:
            return now
        traced = isinstance(now, Tensor | TracedInt)
        value = now._tracegrad_number() if isinstance(now, Tensor) else now.number() if traced else now
        number = value if traced else TracedArray(Lit(float(now), FLOAT, weak=True), self.recorder)
        return self.put(number, CPU)

    def fresh(self, draw: Callable[[], np.ndarray], generator: Any) -> TracedArray:
        """An array that is drawn anew, from the stream of *generator*, whenever the recording runs."""
        if self.recorder.open_loops:  # each iteration has its own
            self.recorder.open_loops[-1].refuse_seen("random numbers are drawn")
        self.streams.setdefault(id(generator), (generator, generator._stream.bit_generator.state))
        array = np.asarray(draw())
        var = self.add_input("fresh", array, "random numbers", (draw, generator))
        self.drawn[var] = array
        return self.put(TracedArray(var, self.recorder), CPU)

    def constant(self, data: Any) -> TracedArray:
        """An array that the run has made, as a traced one."""
        if type(data) is TracedArray:
            return data
        return self.put(wrap_array(to_atom(data) if data.ndim else Lit(data[()], data.dtype)), CPU)

    # ---- where arrays lie ----------------------------------------------------------------------------------------

    def device_of(self, data: TracedArray) -> device:
        found = self.places.get(id(data._storage))
        return self.device if found is None else found[1]

    def put(self, data: TracedArray, place: device) -> TracedArray:
        """Note that *data* lies on *place*."""
        self.met.add(place.type)
        if place.type != self.device.type or id(data._storage) in self.places:
            self.places[id(data._storage)] = data._storage, place
        return data

    def moved(self, data: TracedArray, place: device) -> TracedArray:
        """A copy of *data* on *place*; the recording is not replayed, unless it runs on that place."""
        if place.type != self.device.type:
            self.refuse(Refusal.STEP_DEVICE)
        return self.put(data.copy(), place)

    def filled(self, value: Any, shape: Sequence[int], dtype: Any, beside: Any) -> TracedArray:
        """An array full of *value*, which belongs to the program, where *beside* lies."""
        atom = broadcast_to(Lit(value, np.dtype(dtype), structural=True), tuple(shape))
        return self.put(wrap_array(atom), device_of(beside))

    def put_beside(self, array: Any, beside: Any) -> TracedArray:
        """*array* where *beside* lies: itself, or a copy."""
        traced = self.constant(array)
        where = device_of(beside)
        return traced if self.device_of(traced).type == where.type else self.moved(traced, where)

    def note_place(self, operands: Sequence[Any], results: Any) -> None:
        """*results* (a traced array or a tuple of such) have been computed of *operands*.

        :raises RuntimeError: in PyTorch's words, where operands lie on different devices.
        """
        traced = [x for x in operands if type(x) is TracedArray]
        places = {self.device_of(x).type: self.device_of(x) for x in traced}
        if len(places) > 1:
            if any(x.ndim for x in traced if self.device_of(x).type == "cpu"):
                raise different_devices(places["cuda"].index)
            places.pop("cpu")
        for place in places.values():
            for result in results if type(results) is tuple else (results,):
                if type(result) is TracedArray:
                    self.put(result, place)

    @property
    def touched(self) -> list[Tensor]:
        """The tensors from outside that the run has used."""
        return [t for t, _ in self._traced.values()]

    def check_history(self, nodes: list[TapeNode]) -> None:
        """Refuse to replay a backward within the run that goes on into a graph from outside."""
        if any(node.sequence < self.since for node in nodes):
            self.refuse(Refusal.STEP_HISTORY)

    def differentiate(self, node: TapeNode | None) -> None:
        """Note that the derivative of *node* is recorded next, at the node's line, so that what the backward
        of a loop does has the lines of the loop.  A custom node runs Python with lines of its own."""
        if node is not None and self.tape is not None:
            self.tape.differentiates(node)
        self.recorder.site_override = adjoint_site(node.site) if node is not None and node.plain else None

    def refuse(self, refusal: Refusal, **fields: Any) -> None:
        """Note that the run must not be replayed; one whose reads are logged ends here."""
        self.recorder.unrepeatable(refusal, **fields)

    def made(self, t: Tensor) -> None:
        """Note that the run has made *t*.  Its data is an array, also without axes: it can be written into."""
        t._data._storage.array0d = True
        self._made.append(weakref.ref(t))

    def shows(self, t: Tensor, other: Tensor) -> None:
        """Note that *t* shows the memory of *other*, of which it is no view."""
        if type(other._data) is TracedArray:
            self._shows[id(t)] = weakref.ref(t), *self.shown_by(other)

    def shown_by(self, t: Tensor) -> tuple[TracedArray, tuple[Any, ...]]:
        """(the array of the run's, or of a tensor from outside, that *t* shows, the operations that lead to *t*)."""
        known = self._shows.get(id(t))
        if known is not None and known[0]() is t:
            return known[1:]
        base = t._base
        if base is None:
            return t._data, ()
        array, chain = self.shown_by(base) if type(base._data) is TracedArray else (self.raw(base), ())
        return array, (*chain, *t._chain)

    def is_alias(self, t: Tensor) -> bool:
        """Whether *t* shows the memory of another tensor, of which it is no view."""
        return id(t) in self._shows and self._shows[id(t)][0]() is t

    def rewrites(self, t: Tensor) -> None:
        """Note that *t* is about to get another history, by a write in place."""
        if type(t._data) is not TracedArray:
            self.refuse(Refusal.STEP_HISTORY_WRITTEN)
            before = t._node, t._out, t._requires
            self.undone.append(lambda: _set_history(t, *before))
            self._made.append(weakref.ref(t))

    def replaces(self, t: Tensor, data: TracedArray) -> None:
        """Note that the tensor is about to get the memory of *data*."""
        if not self.is_own(t):
            raise self.log.refuse("a tensor from outside that gets other memory")
        self._traced.pop(id(t), None)

    # ---- what the caller asks ----------------------------------------------------------------------------------

    def add_input(self, kind: str, value: Any, name: str, payload: Any, *, weak: bool = False) -> Var:
        """A further input of the recording."""
        var = self.recorder.add_input(value, name, weak=weak)
        self.sources.append((kind, payload))
        return var

    def check_overlap(self, others: Sequence[Any]) -> Root | None:
        """One of the roots of which memory is written that another root, or one of the arrays *others*, shares."""
        arrays = [*[r.array for r in self.roots], *others]
        found = overlap(arrays, [r.written for r in self.roots])
        return None if found is None else self.roots[found]

    def value(self, data: TracedArray) -> np.ndarray:
        """The value of a traced array in this run, by NumPy."""
        return np.array(self.recorder.value(data.atom), dtype=data.dtype).reshape(data.shape)

    def placed_value(self, data: TracedArray) -> Any:
        """The value of a traced array in this run, where *data* lies."""
        value = self.value(data)
        return upload(value) if self.device_of(data).type == "cuda" else value

    def array(self, data: TracedArray) -> Any:
        """The value of a traced array where it lies, with its own memory layout if the device has computed it."""
        if self.device_of(data).type == "cpu":
            return self.value(data)
        found = self.recorder.value_there(data.atom)
        return found if on_cuda(found) and found.dtype == data.dtype else self.placed_value(data)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """A context for computing the run's effects before any is applied.  An exception, for want of memory, leaves
        all as it was before the run: versions, too, and streams of random numbers."""
        try:
            yield
        except BaseException:
            self.undo()
            raise

    def undo(self) -> None:
        """Make versions and streams of random numbers as they were before the run."""
        for root in self.roots:
            root.tensor._counter[0] = root.version
        for generator, state in self.streams.values():
            generator._stream.bit_generator.state = state
        for undo in reversed(self.undone):
            undo()


def _set_history(t: Tensor, node: TapeNode | None, out: int, requires: bool) -> None:
    t._node, t._out, t._requires = node, out, requires


def overlap(arrays: Sequence[Any], written: Sequence[bool]) -> int | None:
    """The number of one of these arrays that is *written* (the first ones are), and shares memory with another one."""
    flags = [*written, *[False] * (len(arrays) - len(written))]
    spans = sorted([(*byte_bounds(x), k) for k, x in enumerate(arrays) if x.size])
    reach = {False: (-1, -1), True: (-1, -1)}  # of those so far that are read, and that are written
    for low, high, k in spans:
        for other, (end, last) in reach.items():
            if low < end and (flags[k] or other):
                return k if flags[k] else last
        reach[flags[k]] = max(reach[flags[k]], (high, k))
    return None


def number_at(place: tuple[Any, ...]) -> Any:
    """The number that a place holds now."""
    value = place[0][place[1]]
    return value[place[2]] if len(place) == 3 else value


@contextmanager
def capturing(capture: Capture) -> Iterator[Capture]:
    """Make *capture* the one in progress in this thread."""
    before = STATE.capture
    STATE.capture = capture
    try:
        with recording(capture.recorder):
            yield capture
    finally:
        STATE.capture = before
