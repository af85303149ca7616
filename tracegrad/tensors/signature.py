"""Signatures of operations: the ``def`` of a body, whose annotations decide how arguments are read.

``method``, ``function`` and ``operation`` enter a body into the tables of the public face::

    @method
    def median(input: Tensor, dim: Dim | None = None, keepdim: bool = False) -> Any: ...

Callers see a *reader*: a function with the same parameters (and NumPy's ``axis`` and ``keepdims`` beside ``dim`` and
``keepdim``) that checks and normalises the arguments and calls the body.  An argument is read by its annotation:

    Tensor         must be one; ``self``, the receiver of a method, is not checked
    Real           a tensor that is not complex
    Dim            an int in range, counted from the front; required where it has no default
    Dims           a sorted tuple of such; all of them for None and ()
    Dtype          the first argument is cast to it
    ... | None     None stays None

Readers are Python source, compiled once for each signature: many bodies share theirs.  A body that leaves nothing to
read, or takes a variable number of arguments, stands for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import CO_VARARGS
from pathlib import Path
from typing import Any

from ..tracer.ir.tracebacks import shorten
from .apply import apply
from .arguments import FUNCTIONS, dtype_name, missing, named, one_dim, reduced_dims, spelled, tensor_argument
from .dtypes import as_dtype
from .inplace import inplace
from .op import EagerOp
from .ops_basic import no_order, to_dtype
from .tensor import METHODS, Tensor

_Function = Callable[..., Any]
Applied = tuple[Any, ...]  # (op, operands) or (op, operands, statics)
Real = Tensor
Dim = int
Dims = tuple[int, ...]
Dtype = Any

_READ = {  # {0} is the argument, {1} its position, {2} the first argument
    "Tensor": "isinstance({0}, Tensor) or tensor_argument(name, {0}, '{0}', {1})",
    "Real": "isinstance({0}, Tensor) or tensor_argument(name, {0}, '{0}', {1})\n   "
    "if {0}._data.dtype.kind == 'c': raise no_order(name)",
    "Dim": "ndim = len({2}._data.shape); {0} = {0} if type({0}) is int and 0 <= {0} < ndim else one_dim({0}, ndim)",
    "Dims": "ndim = len({2}._data.shape); "
    "{0} = ({0},) if type({0}) is int and 0 <= {0} < ndim else reduced_dims({0}, ndim)",
    "Dtype": "{2} = to_dtype({2}, as_dtype({0}))",
}
_FILE = str(Path(__file__).with_name("<reader>"))  # in this folder, so that no error is laid at a reader's door


def method(body: _Function, name: str = "", doc: str = "") -> _Function:
    """Make *body* a method of tensors, and thereby a function of the public face (but see ``methods.py``)."""
    made = METHODS[name or body.__name__] = _reader(body, name, doc)
    return made


def function(body: _Function, name: str = "", doc: str = "") -> _Function:
    """Make *body* a function of the public face that is no method."""
    made = FUNCTIONS[name or body.__name__] = _reader(body, name, doc)
    return made


def operation(body: _Function, name: str = "", doc: str = "") -> _Function:
    """Make a method, and its twin in place (``name_``), of a *body* that returns the ``Applied`` to apply."""
    name = name or body.__name__
    METHODS[f"{name}_"] = _reader(body, f"{name}_", f"``{name}`` in place.", "_written({0}, *{1})")
    made = METHODS[name] = _reader(body, name, doc, "apply(*{1})")
    return made


def _reader(body: _Function, name: str, doc: str, result: str = "{1}") -> _Function:
    """The function that reads the arguments of *body*; *result* is the source of its result, with {0} for the first
    argument and {1} for the body's own result."""
    source, made = _source(body, result), body
    name = name or body.__name__
    if source:
        made = _maker(source)(body, name)
        shown = dict.fromkeys(("Applied", "Real"), "Tensor")
        made.__annotations__ = {k: shown.get(kind, kind) for k, kind in body.__annotations__.items()}
        made.__module__ = body.__module__
    return named(made, name, doc or body.__doc__)


def _source(body: _Function, result: str) -> str:
    """The source of a reader; "" where there is nothing to read."""
    code, kinds = body.__code__, body.__annotations__
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    if code.co_flags & CO_VARARGS:
        return ""
    defaults = dict(zip(reversed(names[:count]), reversed(body.__defaults__ or ()), strict=False))
    defaults |= body.__kwdefaults__ or {}
    lines, synonyms = [], []
    for k, name in enumerate(names):
        kind, _, optional = kinds.get(name, "").partition(" | ")
        if name in ("dim", "keepdim") and all(n in defaults for n in names[k + 1 : count]):
            if name == "keepdim":
                lines.append("if keepdims: keepdim = True")
                synonyms.append("keepdims=False")
            else:
                required = name not in defaults
                lines.append(f"if axis is not None: dim = spelled(dim, axis, {defaults.setdefault(name, None)!r})")
                synonyms.append("axis=None")
                if required:
                    lines.append("if dim is None: raise missing(name, 'dim')")
        if kind in _READ and name != "self":
            read = _READ[kind].format(name, k + 1, names[0])
            lines.append(f"if {name} is not None: {read}" if optional or kind == "Dtype" else read)
    if not lines and result == "{1}":
        return ""
    params = [f"{name}={defaults[name]!r}" if name in defaults else name for name in names]
    params = [*params[:count], *(["*"] if synonyms or len(names) > count else []), *params[count:], *synonyms]
    call = f"body({', '.join([n if k < count else f'{n}={n}' for k, n in enumerate(names)])})"
    lines.append(f"return {result.format(names[0], call)}")
    head = f"def make(body, name):\n def reader({', '.join(params)}):\n  try:"
    return "\n   ".join([head, *lines]) + "\n  except Exception as error:\n   shorten(error)\n   raise\n return reader"


def _written(t: Tensor, op: EagerOp, operands: tuple[Any, ...], statics: tuple[Any, ...] = ()) -> Tensor:
    """Write the result into *t*; an error where promotion has changed its dtype."""
    if operands[0] is not t:
        raise RuntimeError(
            f"result type {dtype_name(operands[0])} can't be cast to the desired output type {dtype_name(t)}"
        )
    return inplace(op, t, operands[1:], statics)


_NAMES: dict[str, Any] = {  # that a reader's source uses
    f.__name__: f
    for f in (
        Tensor,
        apply,
        as_dtype,
        missing,
        no_order,
        one_dim,
        reduced_dims,
        shorten,
        spelled,
        tensor_argument,
        to_dtype,
        _written,
    )
}


@cache
def _maker(source: str) -> _Function:
    """The function of (body, name) that makes a reader of this *source*."""
    found: dict[str, _Function] = {}
    exec(compile(source, _FILE, "exec"), _NAMES, found)
    return found["make"]
