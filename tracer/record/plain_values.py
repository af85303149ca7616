"""Plain values that C code asks traced arrays for: allowed, or refused with what to write.

``int(t)`` becomes a guard, and ``float(t)`` is a traced number (``shown_names.py``).  ``math.frexp(t)`` and
``captured[0] = t`` call ``__float__`` from C code, and would go on with a number that has lost its gradient: they are
refused, unless the value has none.  For the message, the copy of the user's function says what it has called last, and
the opcode at which its frame is says what it does.
"""

from __future__ import annotations

import dis
import math
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from ..convert.transparent import OWN
from ..ir.errors import UnsupportedError
from ..ir.site import OWN_FOLDER, is_internal, is_own

# Callables that convert to a number openly.  np.arange is one: it refuses float arguments before it comes to ask.
HARMLESS = (int, bool, round, np.arange)
UNKNOWN = object()
_CALLS = ("CALL", "PRECALL", "CALL_KW", "CALL_FUNCTION_EX")
_STORES = ("STORE_SUBSCR", "STORE_SLICE")


class Request(NamedTuple):
    """The operation of a frame: its ``opcode``; for calls the ``callee``, UNKNOWN where the code is no copy."""

    opcode: str
    callee: Any
    frame: FrameType

    @property
    def name(self) -> str | None:
        return getattr(self.callee, "__name__", None)


def request(depth: int) -> Request:
    """The request of the Python frame *depth* levels up."""
    frame = sys._getframe(depth + 1)
    opcode = opcode_of(frame)
    return Request(opcode, called_by_copy(frame) if opcode in _CALLS else UNKNOWN, frame)


def opcode_of(frame: FrameType) -> str:
    """The name of the instruction that *frame* is in; of an operator with its symbol."""
    code, at = frame.f_code.co_code, frame.f_lasti
    name = dis.opname[code[at]]
    return f"{name} {_SYMBOLS.get(code[at + 1], '')}" if name == "BINARY_OP" else name


_EXAMPLES = {"%": lambda a, b: a % b, "[]": lambda a, b: a[b]}
_SYMBOLS = {
    ins.arg: symbol for symbol, f in _EXAMPLES.items() for ins in dis.get_instructions(f) if ins.opname == "BINARY_OP"
}


def called_by_copy(frame: FrameType) -> Any:
    """The function that *frame* of a copy (``tracer/convert``) calls, as its code does not tell; UNKNOWN of others."""
    of = frame.f_locals.get(OWN) if OWN in frame.f_code.co_freevars else None
    return UNKNOWN if of is None else getattr(of.run, "called", UNKNOWN)


def called_by_name(method: str) -> bool:
    """Whether the caller's caller calls the *method* itself: ``t.__float__()``."""
    asked = request(2)
    by_python = asked.opcode == "CACHE"  # before 3.13 a frame that has called Python code stands behind the instruction
    by_name = asked.name == method or (asked.callee is UNKNOWN and method in asked.frame.f_code.co_names)
    return not is_own(asked.frame.f_code.co_filename) and (by_python or (asked.opcode in _CALLS and by_name))


def check_number_allowed(has_gradient: Callable[[], bool]) -> None:
    """Check of ``__float__``: raise where C code asks for the number and would go on without its gradient."""
    asked = request(2)
    filename = asked.frame.f_code.co_filename
    if is_own(filename) and filename.startswith(OWN_FOLDER):
        return
    by_text = asked.opcode == "BINARY_OP %"  # of a text, as only that asks by __float__
    if not is_own(filename) and (by_text or any(asked.callee is harmless for harmless in HARMLESS)):
        return
    if has_gradient():
        raise UnsupportedError.here(_float_message(asked))


TAKERS = frozenset(("dot", "take", "choose", "clip", "repeat", "searchsorted"))  # methods that may be given traced ones
ASSIGN_HINT = (
    "a traced value cannot be written into a plain NumPy array, which could not carry its gradient; "
    "make the array in the function, by np.zeros(n) or np.zeros_like(x), and assign into that"
)


_NUMPY_NAMES = {
    "pow": "power",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "fabs": "abs",
    "fsum": "sum",
    "gamma": "scipy.special.gamma",
    "lgamma": "scipy.special.gammaln",
    "erf": "scipy.special.erf",
    "erfc": "scipy.special.erfc",
}


def lost_by(name: str) -> str:
    """The message for a function that takes plain numbers."""
    return (
        f"{name} would turn a traced value into a plain number and lose its gradient; use the NumPy function on the "
        "traced value, or tracegrad.stop_gradient(t) where a number without a gradient is meant"
    )


def lost_by_math(name: str) -> str:
    """The message for a function of ``math``."""
    twin = _NUMPY_NAMES.get(name, name)
    if name == "remainder" or ("." not in twin and not hasattr(np, twin)):  # NumPy's remainder is another one
        return lost_by(f"math.{name}")
    twin = twin if "." in twin else f"np.{twin}"
    return f"math.{name} would turn a traced value into a plain number and lose its gradient; use {twin}"


def _float_message(asked: Request) -> str:
    if asked.opcode in _STORES:
        return ASSIGN_HINT
    if name := asked.name:
        return lost_by_math(name) if getattr(math, name, None) is asked.callee else lost_by(name)
    return (
        "code outside NumPy asked for the plain number behind a traced value, which would lose its gradient; use NumPy "
        "functions on it, "
        "or tracegrad.stop_gradient(t) where a number without a gradient is meant"
    )


_DRAW_HINT = (
    "{} of np.random draws with parameters that are traced here, so their gradients would be lost: draw standard "
    "numbers and write loc + scale * np.random.standard_normal(size), or use tracegrad.random, which takes such "
    "parameters"
)
_FOREIGN_HINT = (
    "{} needs plain NumPy arrays and was given a traced one, whose gradient it would lose: write what it does with "
    "functions of NumPy, scipy.linalg, scipy.special and the like (docs/coverage.md has them), or give its derivative "
    "(tracegrad.pure_callback within a tracegrad.custom_vjp); a list of traced numbers becomes an array by np.stack"
)
_ARRAY_HINTS = {
    "array": "a list that holds traced arrays cannot go through np.array: write np.stack([...]) or "
    "tracegrad.array([...]); for one traced array write t.copy()",
    "asarray": "np.asarray cannot convert a traced array: leave the call out, or write np.stack([...]) or "
    "tracegrad.asarray(...)",
    "asanyarray": "np.asanyarray cannot convert a traced array: leave the call out, or write tracegrad.asarray(...)",
    "ascontiguousarray": "np.ascontiguousarray cannot convert a traced array: leave the call out",
    "int64": "np.int64 cannot convert a traced value: write int(t), or t.astype(np.int64)",
    "asfarray": "leave the call out, or write t.astype(float)",
    "full": "np.full cannot hold a traced value: write tracegrad.full(shape, value), or value * np.ones(shape)",
    "arange": "np.arange of a traced value has a size that depends on data: write np.arange(n) * step + start with a "
    "plain n",
    "where": "np.where with a list of traced arrays: write np.stack([...]) around the list",
    "dot": "plain.dot(traced) cannot be traced: write np.dot(a, b) or a @ b",
    "choose": "plain.choose([traced, ...]) cannot be traced: write np.choose(index, [...])",
    "take": "plain.take(traced) cannot be traced: write np.take(a, indices)",
}


def array_refusal() -> UnsupportedError:
    """The error for ``__array__``: some code needs a plain array."""
    asked = request(2)
    if asked.opcode in _STORES:
        return UnsupportedError.here(ASSIGN_HINT)
    if asked.opcode in ("BINARY_SUBSCR", "BINARY_SLICE", "BINARY_OP []"):
        return UnsupportedError.here(
            "a plain NumPy array was indexed with a traced array: write np.take(a, index, axis=0), or make the "
            "indexed array an argument"
        )
    if type(getattr(asked.callee, "__self__", None)).__module__.startswith("numpy.random"):  # of a generator
        return UnsupportedError.here(_DRAW_HINT.format(asked.name))
    frame, outermost, called = asked.frame, None, asked.name
    while is_internal(frame.f_code.co_filename) and frame.f_back is not None:  # the NumPy function that the user called
        called, outermost = frame.f_code.co_name, frame
        frame = frame.f_back
    callee = called_by_copy(frame)
    called = getattr(callee, "__name__", None) or called
    if called in _ARRAY_HINTS:
        return UnsupportedError.here(_ARRAY_HINTS[called])
    shown = _public_name(callee)
    if shown is None and outermost is not None and not outermost.f_code.co_filename.startswith(OWN_FOLDER):
        shown = _public(outermost.f_globals.get("__name__", ""), outermost.f_code.co_qualname)
    known = shown or called
    hint = _FOREIGN_HINT.format(known or "code outside NumPy and SciPy")
    return UnsupportedError.here(hint if known else f"{hint}; arrays to assign into by np.zeros_like(x)")


def _public_name(function: Any) -> str | None:
    """The name by which users know a *function* of a library; None for another one."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if function is UNKNOWN or not isinstance(module, str) or not isinstance(name, str) or module.startswith("__"):
        return None
    return None if module.startswith("tracegrad") else _public(module, name)


def _public(module: str, name: str) -> str:
    """The name of a thing in a *module*, whose private parts are those of a public one."""
    return ".".join([*[part for part in module.split(".") if not part.startswith("_")], name])
