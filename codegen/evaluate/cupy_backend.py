"""Evaluating graphs on a CUDA device by CuPy, operation by operation: the backend of tier 0 there.

A value in an ``Env`` is an array of the device; a NumPy array, which is uploaded when it is first read; a NumPy
scalar, which CuPy's functions take as an argument; or a ``Fill``, one number throughout.  Whatever depends on numbers
alone is computed on the host and costs the device nothing.  Start reading at ``CupyBackend.execute``.

Nothing here waits for the device, but: guards (all of them in one transfer), ``download``, loops that data ends, and
operations that CuPy does not have, which NumPy does in its place (``host_steps``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...tracer.ir.aval import FLOAT_KINDS, HALF, held_dtype
from ...tracer.ir.data_classes import dataclass
from ...tracer.ir.errors import OutOfMemoryError
from ...tracer.ir.evaluate import Env, params_of
from ...tracer.ir.graph import Atom, Graph, Guard, Lit, Node, Var
from ...tracer.ir.primitive import CUSTOM, ELEMENTWISE, LOOP, RECURRENCE, Primitive
from ...tracer.ops.control import run_steps
from .cupy_exceptions import Function, Modules, device_function


@dataclass(frozen=True, slots=True)
class Fill:
    """An array of one number."""

    value: np.generic
    shape: tuple[int, ...]


class CupyBackend:
    """A ``tracer.ir.evaluate.Backend`` on the current device."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.host_steps: Counter[str] = Counter()  # operations that NumPy did, since CuPy has none
        self._functions: dict[Primitive, Function | None] = {}

    def upload(self, array: np.ndarray) -> Any:
        """A copy of *array* on the device, in C order.  It may be written to when this returns.

        CuPy puts pageable memory aside before it returns, and does not wait for the copy; pinned memory the device
        reads later, by itself, so there the host has to wait.
        """
        xp = self.modules.xp
        address = array.__array_interface__["data"][0]
        pinned = xp.cuda.runtime.pointerGetAttributes(address).type == xp.cuda.runtime.memoryTypeHost
        return xp.array(array, order="C", blocking=pinned)

    # ---- the Backend protocol --------------------------------------------------------------------------------------

    def asarray(self, value: Any) -> Any:
        """*value* where it lies: arrays of NumPy are uploaded when they are read."""
        if isinstance(value, Fill):
            return self.array(value)
        return value if isinstance(value, (self.modules.xp.ndarray, np.generic)) else np.asarray(value)

    def download(self, value: Any) -> np.ndarray:
        """The value as a NumPy array.  Waits for it, if it is on the device."""
        if isinstance(value, Fill):
            return np.full(value.shape, value.value)
        return value.get() if isinstance(value, self.modules.xp.ndarray) else np.asarray(value)

    def run_nodes(self, nodes: Iterable[Node], env: Env) -> None:
        """Evaluate *nodes* in order into *env*."""
        with self.memory_errors(), np.errstate(all="ignore"):
            for node in nodes:
                results = self._run(node, [self.read(env, a) for a in node.inputs], params_of(node))
                for out, value in zip(node.outs, results, strict=True):
                    env[out] = self._as_declared(value, out)

    # ---- graphs ----------------------------------------------------------------------------------------------------

    def execute(self, graph: Graph, inputs: Sequence[Any], *, numbers: bool = False) -> tuple[int, list[Any]]:
        """(index of the first guard that does not hold or -1, the outputs of *graph* as arrays of the device).

        *inputs* are arrays of the device, of NumPy, or numbers, in the order of ``graph.inputs``.  Outputs are
        C-contiguous and share memory with nothing; with *numbers*, those that depend on numbers alone are NumPy
        scalars.  OutOfMemoryError: nothing has been changed.
        """
        env: Env = {var: self.asarray(x) for var, x in zip(graph.inputs, inputs, strict=True)}
        env.update(graph.consts)
        self.run_nodes(graph.nodes, env)
        with self.memory_errors():
            failed = self._first_failed(graph.guards, env)
            if failed >= 0:
                return failed, []
            found = [self._stored(self.read(env, out), out.aval.dtype) for out in graph.outputs]
            return -1, self._own(found, [env[v] for v in graph.inputs], numbers)

    def _first_failed(self, guards: Sequence[Guard], env: Env) -> int:
        """Index of the first guard that does not hold, or -1; values of the device are read back in one transfer."""
        xp = self.modules.xp
        values = [self._stored(self.read(env, guard.atom), guard.atom.aval.dtype) for guard in guards]
        known = [isinstance(value, (np.generic, Fill)) for value in values]
        answers = [_holds(np if k else xp, v, g.expected) for k, v, g in zip(known, values, guards, strict=True)]
        asked = [a for k, a in zip(known, answers, strict=True) if not k]
        found = iter(xp.stack(asked).get() if asked else ())
        for index, answer in enumerate(answers):
            if not (answer if known[index] else next(found)):
                return index
        return -1

    def _own(self, values: Sequence[Any], inputs: Sequence[Any], numbers: bool) -> list[Any]:
        """The values as arrays of their own: not views, not inputs, no array twice."""
        xp, result = self.modules.xp, []
        seen = {id(x) for x in inputs}
        for value in values:
            if numbers and isinstance(value, np.generic):
                result.append(value)
                continue
            array = self.array(value)
            if id(array) in seen or array.base is not None or not array.flags.c_contiguous:
                array = xp.array(array, copy=True, order="C")
            seen.add(id(array))
            result.append(array)
        return result

    # ---- values ----------------------------------------------------------------------------------------------------

    def read(self, env: Env, atom: Atom) -> Any:
        """The value of *atom*: an array of the device, a NumPy scalar or a Fill."""
        if isinstance(atom, Lit):
            return atom.value
        value = env[atom]
        if isinstance(value, np.ndarray):
            value = env[atom] = value[()] if value.ndim == 0 else self.upload(value)
        return value

    def _stored(self, value: Any, dtype: np.dtype) -> Any:
        """A value of half precision, which is held in float32, in its own dtype."""
        return self._converted(value, dtype) if dtype in HALF else value

    def _converted(self, value: Any, dtype: np.dtype) -> Any:
        if isinstance(value, Fill):
            return value if value.value.dtype == dtype else Fill(value.value.astype(dtype), value.shape)
        return value if value.dtype == dtype else value.astype(dtype)

    def array(self, value: Any) -> Any:
        """A value as an array of the device."""
        if isinstance(value, Fill):
            return self.modules.xp.full(value.shape, value.value, value.value.dtype)
        return self.modules.array(value)

    def _as_declared(self, value: Any, out: Var) -> Any:
        aval = out.aval
        value = self._converted(value, held_dtype(aval.dtype))
        if isinstance(value, Fill):
            return value
        if value.shape != aval.shape:
            return Fill(value, aval.shape) if isinstance(value, np.generic) else self.xp.broadcast_to(value, aval.shape)
        return value

    # ---- steps of loops (``ops/control.py``) -----------------------------------------------------------------------

    @property
    def xp(self) -> Any:
        return self.modules.xp

    def row(self, value: Any) -> Any:
        return _number(value)

    # ---- nodes -----------------------------------------------------------------------------------------------------

    def _run(self, node: Node, operands: list[Any], params: dict[str, Any]) -> Sequence[Any]:
        prim = node.prim
        operands = [self._converted(x, held_dtype(a.aval.dtype)) for x, a in zip(operands, node.inputs, strict=True)]
        if prim.kind == CUSTOM:
            return operands[: params["count"]]
        if prim.name == "broadcast" and isinstance(operands[0], (np.generic, Fill)):
            return [Fill(_number(operands[0]), params["shape"])]
        if prim.kind == ELEMENTWISE and all(isinstance(x, (np.generic, Fill)) for x in operands):
            number = prim.impl(*[_number(x) for x in operands], **params)
            return [np.asarray(number).astype(held_dtype(node.out.aval.dtype))[()]]
        return self.apply(prim, operands, params, len(node.outs))

    def apply(self, prim: Primitive, operands: list[Any], params: dict[str, Any], results: int) -> Sequence[Any]:
        """The *results* of one primitive, a loop among them, on arrays of the device, NumPy scalars and Fills."""
        if prim.kind == LOOP:
            return run_steps(self, operands, **params)  # each step launched from here
        function = self._function(prim)
        if function is None:
            self.host_steps[prim.name] += 1
            found = prim.impl(*[self.download(x) for x in operands], **params)
            return [self.modules.xp.array(np.asarray(x)) for x in (found if results > 1 else (found,))]
        if prim.kind == ELEMENTWISE:
            operands = [_number(x) for x in operands]
        elif prim.kind == RECURRENCE:
            operands = [_number(operands[0]), self.array(operands[1])]
        else:
            operands = [self.array(x) for x in operands]
        return [function(*operands, **params)]

    def _function(self, prim: Primitive) -> Function | None:
        try:
            return self._functions[prim]
        except KeyError:
            found = self._functions[prim] = device_function(self.modules, prim)
            return found

    def lacks(self, prim: Primitive) -> bool:
        """Whether NumPy runs *prim* on the host, since CuPy has no function for it."""
        return prim.kind not in (LOOP, CUSTOM) and self._function(prim) is None

    def runs_on_host(self, graph: Graph) -> list[str]:
        """Names of the operations of *graph*, bodies of loops included, that NumPy does."""
        names: dict[str, None] = {}
        for node in graph.nodes:
            if node.prim.kind == LOOP:
                names.update(dict.fromkeys(self.runs_on_host(node.params["body"])))
            elif self.lacks(node.prim):
                names[node.prim.name] = None
        return list(names)

    def memory_errors(self) -> _MemoryErrors:
        """A context that raises CuPy's error for too little memory as ours, with a hint."""
        return _MemoryErrors(self.modules.xp.cuda.memory.OutOfMemoryError)


@dataclass(frozen=True, slots=True)
class _MemoryErrors:
    """No generator: from Python 3.12 on the frame of one would hold the error, and the error the arrays of the call."""

    theirs: type[BaseException]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, self.theirs):
            raise OutOfMemoryError(
                f"the CUDA device is out of memory ({error}); nothing has been changed, and a smaller call will work: "
                "let go of arrays that are no longer needed, or use smaller ones"
            ) from None


def _number(value: Any) -> Any:
    """The number that a Fill is made of; anything else as it is."""
    return value.value if isinstance(value, Fill) else value


def _holds(xp: Any, value: Any, expected: Any) -> Any:
    """Whether *value* has the bits of *expected* (NaN equals NaN, and -0.0 is not 0.0)."""
    value = _number(value)
    if expected.dtype.kind not in FLOAT_KINDS:
        return value == expected
    if np.isnan(expected):
        return xp.isnan(value)
    return (value == expected) & (xp.signbit(value) == np.signbit(expected))
