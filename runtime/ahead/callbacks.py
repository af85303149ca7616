"""Callbacks for SciPy's compiled code: ``scipy.LowLevelCallable`` over a native function.

The C signatures are those that scipy.integrate and scipy.ndimage take; each is a function in LLVM IR that calls the
native one.  A double says nothing of a failure but NaN.
"""

from __future__ import annotations

import ctypes
import importlib
import re
from typing import Any

import numpy as np

from ...tracer.ir.errors import UnsupportedError
from .entry import loaded, native_text, parameters
from .fixed import FixedCall

_WORDS: dict[str, tuple[str, Any]] = {
    "double": ("double", ctypes.c_double), "int": ("i32", ctypes.c_int), "double *": ("ptr", ctypes.c_void_p),
    "void *": ("ptr", ctypes.c_void_p), "npy_intp": ("i64", ctypes.c_ssize_t), "intptr_t": ("i64", ctypes.c_ssize_t),
}  # fmt: skip
_FORMS = (
    "double (double)", "double (double, void *)", "double (int, double *)", "double (int, double *, void *)",
    "int (double *, npy_intp, double *, void *)", "int (double *, intptr_t, double *, void *)",
)  # fmt: skip


def low_level_callable(fixed: FixedCall, signature: str | None, user_data: Any = None) -> Any:
    """``scipy.LowLevelCallable`` of this C *signature*; the last argument of the function is *user_data*, an array of
    double, where it is given.  Default: ``double (double)`` for one number, else ``double (int, double *)``."""
    shown = parameters(fixed)
    given, results = [p for p in shown if not p.written], [p for p in shown if p.written]
    own = given[: len(given) - (user_data is not None)]
    if signature is None:
        head = "double" if len(own) == 1 and own[0].by_value else "int, double *"
        signature = f"double ({head}{'' if user_data is None else ', void *'})"
    form = re.sub(r"\s*\*", " *", " ".join(signature.split()))
    if form not in _FORMS:
        raise ValueError(f"signature: one of {', '.join(map(repr, _FORMS))}, not {signature!r}")
    if len(results) != 1 or results[0].shape or results[0].dtype != np.float64:
        raise UnsupportedError(f"{fixed.name}: the result of a callback is one float64 number")
    if any(p.dtype != np.float64 for p in given):
        raise UnsupportedError(f"{fixed.name}: the arguments of a callback are float64")
    words = form[form.index("(") + 1 : -1].split(", ")
    if user_data is not None:
        if words[-1] != "void *":
            raise ValueError(f"signature {signature!r} has no void * for user_data")
        _check_data(user_data, given[-1] if given else None)
    code = loaded(native_text(fixed, "tg_entry", _callback(form, words, own, user_data is not None, fixed.name)))
    function: Any = ctypes.CFUNCTYPE(_WORDS[form.partition(" ")[0]][1], *[_WORDS[word][1] for word in words])(
        code.address("tg_callback")
    )
    function.held = code, user_data
    pointer = None if user_data is None else ctypes.c_void_p(user_data.ctypes.data)
    return importlib.import_module("scipy").LowLevelCallable(function, pointer, signature=form)


def _check_data(user_data: Any, parameter: Any) -> None:
    """An error unless *user_data* can be what the last *parameter* gets."""
    fits = parameter is not None and not parameter.by_value and type(user_data) is np.ndarray
    if not fits or user_data.shape != parameter.shape:
        raise TypeError("user_data is the array that the function was given as its last argument")
    if not (user_data.flags.c_contiguous and user_data.dtype == np.float64):
        raise TypeError("user_data is a C-contiguous array of float64")


def _callback(form: str, words: list[str], own: list[Any], has_data: bool, name: str) -> str:
    """LLVM IR of the function of this *form* that calls the native one; *own*: parameters but for the user's data."""
    numbers = words[0] == "double"
    by_value = [p.by_value for p in own]
    if numbers and by_value != [True]:
        raise UnsupportedError(f"{name}: {form!r} is for functions of one number")
    if not (all(by_value) or by_value == [False]):
        raise UnsupportedError(f"{name}: {form!r} is for functions of one array, or of numbers alone")
    given = ", ".join(f"{_WORDS[word][0]} %w{k}" for k, word in enumerate(words))
    fails, kind = ("0x7FF8000000000000", "double") if form.startswith("double") else ("0", "i32")
    lines = [f"define {kind} @tg_callback({given}) nounwind {{", "  %value = alloca double"]
    if numbers:
        operands = ["double %w0"]
    else:
        values, length, type_ = ("%w1", "%w0", "i32") if words[0] == "int" else ("%w0", "%w1", "i64")
        size = len(own) if all(by_value) else int(np.prod(own[0].shape))
        lines += [f"  %fits = icmp eq {type_} {length}, {size}", "  br i1 %fits, label %run, label %fail", "run:"]
        operands = [f"ptr {values}"]
        if all(by_value):
            for k in range(size):
                lines += [f"  %at{k} = getelementptr double, ptr {values}, i64 {k}"]
                lines += [f"  %x{k} = load double, ptr %at{k}"]
            operands = [f"double %x{k}" for k in range(size)]
    if has_data:
        operands.append(f"ptr %w{len(words) - 1}")
    target = "%value" if kind == "double" else "%w2"
    lines += [
        f"  %status = call i32 @tg_entry({', '.join([*operands, f'ptr {target}'])})",
        "  %held = icmp eq i32 %status, 0",
        "  br i1 %held, label %good, label %fail",
        "good:",
        *(["  %found = load double, ptr %value", "  ret double %found"] if kind == "double" else ["  ret i32 1"]),
        "fail:",
        f"  ret {kind} {fails}",
        "}",
    ]
    return "\n".join(lines)
