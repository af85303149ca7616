"""Rows of the namespace: a signature of the standard, and the operation that answers it.

``row("sum(x, /, *, axis=None, keepdims=False)", OP)`` enters a function with exactly this signature into
``FUNCTIONS``.  Its first parameters, those named in ``_ARRAYS``, are tensors; the others are static.  It is answered by

    an ``EagerOp``      of the arrays and the statics, in the signature's order
    a function          of NumPy's, which becomes the ``EagerOp`` over it (``eager``); NumPy's of this name if left out

``@written`` enters a function that is written out, under its own signature.  Both kinds have a *reader* in front, as
the tensors' own operations have (``tensors/signature.py``): source that is compiled once.  Where no argument is a
tensor and one is a traced array, in a function of NumPy code that is being recorded, NumPy's function of that name is
called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..tensors.apply import apply
from ..tensors.arguments import named
from ..tensors.dtypes import as_dtype
from ..tensors.op import EagerOp
from ..tensors.ops_basic import operand
from ..tensors.protocol import own
from ..tensors.tensor import Tensor, make
from ..tracer.ir.tracebacks import shorten
from ..tracer.record.array import TracedArray

_Function = Callable[..., Any]

FUNCTIONS: dict[str, _Function] = {}  # of the main namespace, by name
LINALG: dict[str, _Function] = {}
FFT: dict[str, _Function] = {}

_ARRAYS = ("x", "x1", "x2", "condition", "indices")
_FILE = str(Path(__file__).with_name("<array API>"))  # in this folder, so that no error is laid at a reader's door


def eager(name: str, fn: _Function, arrays: tuple[str, ...] = (), statics: tuple[str, ...] = ()) -> EagerOp:
    """The operation over NumPy's function *fn* of these *arrays*, which takes *statics* by these names.

    Libraries write into results of elementwise functions (``scale = xp.sqrt(var); scale[scale == 0] = 1``), so
    derivatives of those read the operands only."""
    if isinstance(fn, np.ufunc) and not statics:
        return EagerOp(_label(name), fn, reads="operands")
    given = ", ".join([*arrays, *(f"{n}={n}" for n in statics)])
    make = eval(f"lambda fn, owned: lambda {', '.join((*arrays, *statics))}: owned(fn({given}))")
    return EagerOp(_label(name), make(fn, _owned))


def _label(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _owned(result: Any) -> Any:
    return tuple([own(r) for r in result]) if isinstance(result, (tuple, list)) else own(result)


def row(
    signature: str, answer: EagerOp | _Function | None = None, *, space: Any = np, table: Any = FUNCTIONS,
    result: Any = None,
) -> _Function:  # fmt: skip
    """Enter the function of this *signature* into *table*; a *result* of several arrays is a tuple of this kind."""
    name, _, rest = signature.partition("(")
    parameters = _parameters(f"({rest}")
    arrays, statics = _parts(parameters)
    if not isinstance(answer, EagerOp):
        answer = eager(name, answer or getattr(space, name), arrays, statics)
    given = "".join(f"{n}, " for n in arrays), "".join(f"{n}, " for n in statics)
    call = f"apply(body, ({given[0]}), ({given[1]}))"
    made = _reader(f"({rest}", parameters, call if result is None else f"result(*{call})", answer, name, space, result)
    table[name] = named(made, name, _doc(name, space))
    return made


def written(function: _Function, *, space: Any = np, table: Any = FUNCTIONS) -> _Function:
    """Enter *function* under its own name and signature."""
    name = function.__name__
    signature = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    source = str(inspect.Signature(bare))
    parameters = _parameters(source)
    made = _reader(source, parameters, f"body({_forwarded(parameters)})", function, name, space, None)
    table[name] = named(made, name, function.__doc__)
    return function


def _parameters(source: str) -> list[inspect.Parameter]:
    return [*inspect.signature(eval(f"lambda {source[1:-1]}: 0")).parameters.values()]


def _parts(parameters: list[inspect.Parameter]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of arrays, and of what is static."""
    names = [p.name for p in parameters]
    return tuple([n for n in names if n in _ARRAYS]), tuple([n for n in names if n not in _ARRAYS])


def _forwarded(parameters: list[inspect.Parameter]) -> str:
    named_only = inspect.Parameter.KEYWORD_ONLY
    star = {inspect.Parameter.VAR_POSITIONAL}
    return ", ".join(
        [f"{p.name}={p.name}" if p.kind is named_only else "*" * (p.kind in star) + p.name for p in parameters]
    )


def _reader(
    source: str, parameters: list[inspect.Parameter], call: str, body: Any, name: str, space: Any, result: Any
) -> _Function:
    arrays, statics = _parts(parameters)
    lines = []
    if arrays and parameters[0].name in _ARRAYS:
        tensors = " and ".join(f"isinstance({n}, Tensor)" for n in arrays)
        if arrays == ("x1", "x2"):
            tensors = "isinstance(x1, Tensor) and (type(x2) is float or isinstance(x2, Tensor))"
        traced = f"return getattr(space, name)({_forwarded(parameters)})"
        group = f"{', '.join(arrays)},"
        lines.append(f"if not ({tensors}):")
        lines.append(f" if arrays_only({group}): {traced}")
        lines.append(f" {group} = met(name, {group})")
    for n in statics:
        if n == "dtype":
            lines.append("if dtype is not None: dtype = as_dtype(dtype)")
        elif n in ("axis", "axes", "shape", "s", "shift", "repetitions"):
            lines.append(f"if type({n}) is not int: {n} = frozen({n})")
    lines.append(f"return {call}")
    text = f"def make(body, name, space, result):\n def reader{source}:\n  try:\n   " + "\n   ".join(lines)
    text += "\n  except Exception as error:\n   shorten(error)\n   raise\n return reader"
    found: dict[str, _Function] = {}
    exec(compile(text, _FILE, "exec"), _NAMES, found)
    made = found["make"](body, name, space, result)
    made.__module__ = __name__
    return made


def frozen(value: Any) -> Any:
    """Lists in *value* as tuples, which can be part of a key."""
    return tuple([frozen(v) for v in value]) if isinstance(value, (list, tuple)) else value


def arrays_only(*values: Any) -> bool:
    """Whether one of *values* is a traced array, and none a tensor, as in NumPy code."""
    return not any(isinstance(v, Tensor) for v in values) and any(isinstance(v, TracedArray) for v in values)


def met(name: str, *values: Any) -> tuple[Any, ...]:
    """*values*, of which one is a tensor, as operands: tensors, and Python numbers, which yield to them.

    :raises TypeError: where none is a tensor, or one is neither tensor nor array nor number.
    """
    beside = next((v for v in values if isinstance(v, Tensor)), None)
    found = tuple([NotImplemented if beside is None else _number(operand(beside, v)) for v in values])
    for value, read in zip(values, found, strict=True):
        if read is NotImplemented:
            raise TypeError(
                f"{name}() takes Tensors, not {type(value).__name__}: tracegrad.array_api.asarray makes one of numbers "
                "and arrays"
            )
    return found


def _number(value: Any) -> Any:
    return make(np.asarray(value)) if type(value) is bool else value


def _doc(name: str, space: Any) -> str:
    where = "numpy" if space is np else f"numpy.{space.__name__.rpartition('.')[2]}"
    return f"``{name}`` of the Array API standard, as ``{where}.{name}`` computes it."


_NAMES: dict[str, Any] = {f.__name__: f for f in (Tensor, apply, arrays_only, as_dtype, frozen, met, shorten)}
