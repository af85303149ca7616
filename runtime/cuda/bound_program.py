"""A compiled program with the numbers of one graph, ready to be run on the device.

``BoundProgram.execute`` takes arrays and gives arrays: buffers are allocated from CuPy's pool, kernels are launched on
the current stream (``Gpu.launch``), and nothing waits for the device but the guards, whose answers come back in one
transfer.  Numbers of the host go to the device together, in one copy.  Results that are to be written somewhere are
computed aside, and copied there when the guards have held: where there are none, as part of the launches.  A program of
several kernels that meets the same memory again (a training loop does) is replayed as one CUDA graph (``graphs.py``).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...codegen.cpu.program import step_operands
from ...codegen.cuda.program import CudaProgram, Kernel, Library, Order, run
from ...codegen.evaluate.cupy_backend import CupyBackend
from ...codegen.lower.canonical import Canonical, Sym
from ...codegen.schedule.buffers import buffer_of
from ...tracer.ir.errors import OutOfMemoryError
from .graphs import Replays, forget_graphs
from .load import Loaded, programs


class BoundProgram:
    """*canonical* on the current device; *consts* are its constant arrays, its last inputs."""

    def __init__(
        self, canonical: Canonical, arguments: int, consts: Sequence[np.ndarray], backend: CupyBackend, written: int = 0
    ) -> None:
        self.canonical, self.backend = canonical, backend
        xp = self.xp = backend.modules.xp
        loaded, self.cached = programs.get(canonical, arguments, xp)
        self.program, sizes = loaded.program, canonical.sizes
        self._machine = Gpu(loaded, backend)
        self._inputs = [(s.dtype, _shape(s, canonical)) for s in self.program.inputs]
        self._results = [(s.dtype, _shape(s, canonical)) for s in self.program.results]
        self._offsets, self._bytes = self.program.plan(sizes)
        self._written = written
        self._packings: dict[tuple[int, ...], np.dtype] = {}  # positions of numbers among the inputs -> how they lie
        with backend.memory_errors():
            self._consts = [xp.array(c, order="C") for c in consts]
            held = self._numbers = xp.array(np.concatenate([sizes, canonical.consts]))
            xp.cuda.get_current_stream().synchronize()  # other streams may run the first call
        self._at = (held.data.ptr, held.data.ptr + 8 * len(sizes))
        self._lock = threading.Lock()  # a graph's workspace is shared by the calls that replay it
        self._replays = Replays(xp) if self._graphable() else None

    def _graphable(self) -> bool:
        """Whether the program is several kernels and copies, and nothing else: CuPy's operations allocate memory."""
        steps = [s for s in self.program.steps if s.launched(self.canonical.sizes)]
        return len(steps) + self._written > 1 and all(isinstance(s, Kernel) for s in steps)

    def execute(self, values: Sequence[Any], targets: Sequence[Any] = ()) -> tuple[int, list[Any]]:
        """(index of the first guard that does not hold or -1, the results as arrays of the device).

        *values*: arrays of the device or of NumPy, or numbers, one for each input but the constants.  The first results
        are not given, but copied into *targets* once every guard has held.  OutOfMemoryError: nothing has been changed.
        """
        try:
            with self.backend.memory_errors(), self._lock:
                return self._execute(values, targets)
        except OutOfMemoryError:
            if not forget_graphs():
                raise
        with self.backend.memory_errors(), self._lock:
            return self._execute(values, targets)

    def _execute(self, values: Sequence[Any], targets: Sequence[Any]) -> tuple[int, list[Any]]:
        xp = self.xp
        held, given = self._given(values)
        results = [xp.empty(shape, dtype) for dtype, shape in self._results]
        outside = [*given, *[a.data.ptr for a in (*results, *self._consts)]]

        def launch(workspace: Any) -> None:
            base = workspace.data.ptr
            addresses = [*outside, *[base + o for o in self._offsets]]
            run(self.program, self.canonical, addresses, self._at, self._machine)
            if not self.program.guards:
                _write(results, targets)

        if self._replays is not None:
            places = [*outside, *[t.data.ptr for t in targets]]
            workspace = self._replays.run(places, self._workspace, launch)
        else:
            workspace = self._workspace()
            launch(workspace)
        failed = self._failed(workspace)
        if failed < 0 and self.program.guards:
            _write(results, targets)
        del held  # until the launches are on the stream
        return failed, results[len(targets) :]

    def _workspace(self) -> Any:
        return self.xp.empty(max(self._bytes, 1), np.uint8)

    def _given(self, values: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """(arrays that own the memory, addresses) of *values* as C-contiguous arrays of the device."""
        xp = self.xp
        held: list[Any] = []
        addresses = [0] * len(values)
        numbers: list[int] = []
        for k, (value, (dtype, shape)) in enumerate(zip(values, self._inputs, strict=False)):
            if isinstance(value, xp.ndarray):
                array = value if value.flags.c_contiguous else xp.array(value, order="C")
            elif shape:
                array = self.backend.upload(np.asarray(value, dtype).reshape(shape))
            else:
                numbers.append(k)
                continue
            held.append(array)
            addresses[k] = array.data.ptr
        if numbers:
            held.append(self.backend.upload(self._packed(values, tuple(numbers))))
            for place, k in enumerate(numbers):
                addresses[k] = held[-1].data.ptr + 8 * place
        return held, addresses

    def _packed(self, values: Sequence[Any], numbers: tuple[int, ...]) -> np.ndarray:
        """The values at the positions *numbers*, each in eight bytes."""
        layout = self._packings.get(numbers)
        if layout is None:
            fields = [(f"f{k}", self._inputs[k][0]) for k in numbers]
            offsets = [8 * place for place in range(len(numbers))]
            names, formats = [n for n, _ in fields], [f for _, f in fields]
            layout = self._packings[numbers] = np.dtype(
                {"names": names, "formats": formats, "offsets": offsets, "itemsize": 8 * len(numbers)}
            )
        row = tuple([v.item() if type(v := values[k]) is np.ndarray else v for k in numbers])
        return np.array([row], layout).view(np.uint8)

    def _failed(self, workspace: Any) -> int:
        """Index of the first guard that failed, or -1; the guards are the first bytes of the workspace."""
        count = len(self.program.guards)
        if not count:
            return -1
        held = workspace[:count].get()
        return -1 if held.all() else int(np.argmin(held))

    def describe(self) -> str:
        """The launches, as text for ``explain()``."""
        lines = []
        for step in self.program.steps:
            if not step.launched(self.canonical.sizes):
                continue
            if isinstance(step, Kernel):
                blocks, threads = step.grid(self.canonical.sizes, self.program.geometry)
                names = ", ".join(map(repr, step.buffers))
                lines.append(f"kernel {step.name} on {names}: {blocks} blocks of {threads} threads")
            elif isinstance(step, Order):
                lines.append("the order of positions (argsort): by CuPy")
            elif isinstance(step, Library):
                op = self.program.canonical.ops[step.position]
                host = ", which NumPy does on the host" if self.backend.lacks(op.prim) else ""
                lines.append(f"{', '.join(map(repr, op.outs))} = {op.prim.name}: by CuPy{host}")
        replayed = "one CUDA graph, where the memory of a call comes again" if self._replays else "launched one by one"
        return "\n".join([*lines, f"{len(lines)} steps, {replayed}"])


class Gpu:
    """Runs the steps of one program on the current stream (``codegen.cuda.program.Machine``)."""

    def __init__(self, loaded: Loaded, backend: CupyBackend) -> None:
        self.loaded, self.backend = loaded, backend

    def launch(self, program: CudaProgram, kernel: Kernel, grid: tuple[int, int], arguments: list[int]) -> None:
        blocks, threads = grid
        if not (kernel.single or kernel.extent.exact):
            blocks = min(blocks, self.loaded.most[kernel.name])
        self.loaded.launches[kernel.name]((blocks,), (threads,), tuple(arguments))

    def library(self, program: CudaProgram, step: Library, canonical: Canonical, addresses: list[int]) -> None:
        xp, view = self.backend.modules.xp, self._view(program, canonical, addresses)
        op = program.canonical.ops[step.position]
        operands, params = step_operands(program, step.position, canonical, view, xp)
        found = self.backend.apply(canonical.ops[step.position].prim, operands, params, len(op.outs))
        for out, value in zip(op.outs, found, strict=True):
            view(out)[...] = value

    def order(self, program: CudaProgram, step: Order, canonical: Canonical, addresses: list[int]) -> None:
        view = self._view(program, canonical, addresses)
        positions = view(program.canonical.ops[step.position].ins[1])
        found = self.backend.modules.xp.argsort(positions.ravel())  # CuPy's is stable
        view(step.result)[...] = found.reshape(positions.shape)

    def _view(self, program: CudaProgram, canonical: Canonical, addresses: list[int]) -> Callable[[Any], Any]:
        """The function that gives a stored value as an array."""
        xp = self.backend.modules.xp

        def view(x: Sym) -> Any:
            address = addresses[program.buffer_index[buffer_of(program.canonical, program.schedule.stored, x)]]
            shape = _shape(x, canonical)
            if 0 in shape:  # its address may be null, which CuPy takes for no address
                return xp.empty(shape, x.dtype)
            memory = xp.cuda.UnownedMemory(address, x.dtype.itemsize * math.prod(shape), None)
            return xp.ndarray(shape, x.dtype, xp.cuda.MemoryPointer(memory, 0))

        return view


def _write(results: Sequence[Any], targets: Sequence[Any]) -> None:
    for result, target in zip(results, targets, strict=False):
        target.data.copy_from_device_async(result.data, result.nbytes)


def _shape(x: Sym, canonical: Canonical) -> tuple[int, ...]:
    return tuple(int(canonical.sizes[d]) for d in x.dims)
