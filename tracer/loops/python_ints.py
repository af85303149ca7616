"""Python's integers in loops over symbols: they have no bounds, and those of a kernel have 64 bits.

An integer that the iterations compute is known by its least and greatest value in all of them.  Where these are not
known, or do not fit, the run is made again with that loop recorded iteration by iteration, where such integers are
Python's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ..ir.aval import INT
from ..ir.errors import UnsupportedError
from ..ir.graph import Atom, Lit, Node, Var
from ..ir.refusals import Refusal
from ..ops.elementwise import F, cast, like
from ..ops.shape import reshape
from ..record.array import TracedArray
from ..record.recorder import Recorder
from ..record.retry import Options, Retry
from .positions import Affine, bounds

UNBOUNDED = "an integer of a loop may not fit in 64 bits: the run is made again, with that loop iteration by iteration"
Range = tuple[int, int]  # the least and the greatest value

_FITS = 1 << 62
SMALL: Range = -(1 << 31), 1 << 31  # of an integer that is carried, or an element of an array
OF_FLOATS: Range = -(1 << 30), 1 << 30  # of ``int(x)`` of a float, whose square fits beside others
_ITERATIONS = 1 << 40  # of a loop whose length nobody knows
_BITS = 128  # of a shift or power that is looked at


def made_int(recorder: Recorder, node: Node) -> None:
    """*node* makes an integer of Python's: where that may not fit the run is made again, without the loop."""
    loops = recorder.open_loops
    found = range_of(recorder, node, loops[-1].form(node.out) if loops else None)
    if found is not None:
        recorder.loops.int_ranges[node.out] = found
    elif loops:
        in_plain_iterations(recorder, loops[-1].statement, UNBOUNDED)
    elif all(isinstance(x, Lit) or x in recorder.loops.int_ranges for x in node.inputs):
        recorder.reasons.append(Refusal.LOG_UNSEEN(what="an integer that may not fit in 64 bits"))


def int_in_loop(recorder: Recorder, atom: Atom) -> TracedArray | None:
    """``int(x)`` of the element *atom* of an array, in a marked iteration, which asks whether that is a small one; None
    where it is none."""
    kind, size = atom.aval.dtype.kind, atom.aval.dtype.itemsize
    if kind not in "iuf" or not isinstance(atom, Var) or recorder.open_loops[-1].form(atom) is not None:
        return None
    atom, (low, high) = reshape(atom, ()), SMALL if kind != "f" else OF_FLOATS
    if kind != "f" and size < INT.itemsize:
        info = np.iinfo(atom.aval.dtype)
        low, high = int(info.min), int(info.max)
    else:
        least, most = (like(low if kind != "u" else 0, atom), like(high, atom))
        fits = F.logical_and(F.ge(atom, least), F.le(atom, most))
        if recorder.arms:
            recorder.presume(fits)
            atom = F.minimum(F.maximum(atom, least), most)  # where the arm is not taken
        elif not recorder.guard(fits, "bool"):
            return None
    found = cast(F.trunc(atom) if kind == "f" else atom, INT)
    assert isinstance(found, Var)
    recorder.loops.int_ranges[found] = low, high
    return TracedArray(cast(found, INT, weak=True), recorder)


def in_plain_iterations(recorder: Recorder, statement: Any, note: str) -> NoReturn:
    """Have the run made again, with the loop of this *statement* recorded iteration by iteration."""
    recorder.taught.plain_loops[id(statement)] = statement
    run_again(recorder, note)


def run_again(recorder: Recorder, note: str) -> NoReturn:
    """End the run, which is made again by what has been learned."""
    retry = Retry(Options(note), UnsupportedError.here(note))
    recorder.loops.interrupted = True
    recorder.again(retry)
    raise retry


def range_of(recorder: Recorder, node: Node, form: Affine | None) -> Range | None:
    """The range of the integer that *node* makes, which is *form* in the open loops; None where it may not fit."""
    if form is not None:
        found: Range | None = _of_form(recorder, form)
    else:
        parts = [known_range(recorder, x) for x in node.inputs]
        rule = _RULES.get(node.prim.name)
        found = None if rule is None else rule(parts, node.params)
    return found if found is not None and found[0] >= -_FITS and found[1] <= _FITS else None


def _of_form(recorder: Recorder, form: Affine) -> Range:
    most = abs(form.offset)
    for var, slope in form.slopes.items():
        most += abs(slope) * _size(recorder.loops.int_ranges.get(var, (0, _ITERATIONS)))[1]
    low, high = bounds(form, recorder.open_loops)
    return -most if low is None else low, most if high is None else high


def counted(recorder: Recorder, value: Atom, form: Affine) -> Atom:
    """*value*, which is *form* after some number of iterations, as an integer of Python's."""
    recorder.loops.int_ranges[value] = _of_form(recorder, form)  # type: ignore[index]
    return cast(value, INT, weak=True)


def known_range(recorder: Recorder, x: Any) -> Range | None:
    """The range of an integer; None where it is not known."""
    if isinstance(x, Lit):
        return (int(x.value), int(x.value)) if x.aval.dtype.kind in "ib" else None
    known = recorder.loops.int_ranges.get(x)
    if known is not None:
        return known
    if x.aval.dtype.kind == "b":
        return 0, 1
    form = recorder.open_loops[-1].form(x) if recorder.open_loops else None
    return None if form is None else _of_form(recorder, form)


def _hull(values: Sequence[int]) -> Range:
    return min(values), max(values)


def _power(a: Range, b: Range) -> Range | None:
    if b[0] < 0 or b[1] * max(abs(a[0]), abs(a[1])).bit_length() > 64 * _BITS:
        return None
    most = max(abs(a[0]), abs(a[1]), 1) ** b[1]
    return (0 if a[0] >= 0 else -most), most


def _size(a: Range) -> Range:
    most = max(abs(a[0]), abs(a[1]))
    return -most, most


def _bits(a: Range, b: Range) -> Range:
    most = 1 << max(_size(a)[1], _size(b)[1]).bit_length()
    return -most, most


def _of_all(rule: Callable[..., Range | None], skipped: int = 0) -> Callable[..., Range | None]:
    """*rule* of the ranges of all inputs but the first *skipped*, where they are known."""

    def found(parts: Sequence[Range | None], params: Mapping[str, Any]) -> Range | None:
        known = parts[skipped:]
        return None if None in known else rule(*known)

    return found


_SAME = _of_all(lambda a: a)
_RULES: dict[str, Callable[..., Range | None]] = {
    "add": _of_all(lambda a, b: (a[0] + b[0], a[1] + b[1])),
    "sub": _of_all(lambda a, b: (a[0] - b[1], a[1] - b[0])),
    "mul": _of_all(lambda a, b: _hull([x * y for x in a for y in b])),
    "neg": _of_all(lambda a: (-a[1], -a[0])),
    "abs": _of_all(lambda a: (0, max(abs(a[0]), abs(a[1])))),
    "square": _of_all(lambda a: (0, max(abs(a[0]), abs(a[1])) ** 2)),
    "sign": _of_all(lambda a: (-1, 1)),
    "pow": _of_all(_power),
    "integer_pow": lambda parts, params: None if parts[0] is None else _power(parts[0], (params["n"], params["n"])),
    "left_shift": _of_all(lambda a, b: None if b[0] < 0 or b[1] > _BITS else _hull([x << y for x in a for y in b])),
    "right_shift": _of_all(lambda a, b: None if b[0] < 0 else _size(a)),
    "floor_divide": _of_all(lambda a, b: None if b[0] <= 0 else _hull([x // y for x in a for y in b])),
    "remainder": _of_all(lambda a, b: None if b[0] <= 0 else (0, b[1] - 1)),
    "bitwise_and": _of_all(_bits),
    "bitwise_or": _of_all(_bits),
    "bitwise_xor": _of_all(_bits),
    "invert": _of_all(lambda a: (-a[1] - 1, -a[0] - 1)),
    "maximum": _of_all(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    "minimum": _of_all(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    "select": _of_all(lambda a, b: (min(a[0], b[0]), max(a[1], b[1])), skipped=1),
    "cast": _SAME,
    "alias": _SAME,
    "reshape": _SAME,
    "broadcast": _SAME,
    "stop_gradient": _SAME,
}


def is_python_int(value: Any) -> bool:
    """Whether *value* is a traced integer of Python's."""
    return type(value) is TracedArray and value.aval.weak and value.aval.dtype.kind == "i"


def knows_int(recorder: Recorder, value: Any) -> bool:
    """Whether *value* is an integer of Python's that fits, in a marked iteration."""
    if not recorder.open_loops:
        return False
    if type(value) is int:
        return abs(value) <= _FITS
    return is_python_int(value) and known_range(recorder, value.atom) is not None


def traced_int(recorder: Recorder, value: int) -> TracedArray:
    """The integer of Python's as a traced one."""
    return TracedArray(Lit(value, INT, weak=True), recorder)


def is_small(recorder: Recorder, atom: Atom) -> bool:
    """Whether an integer of Python's is in :data:`SMALL`, which is asked where it is not known."""
    found, (low, high) = known_range(recorder, atom), SMALL
    if found is not None and low <= found[0] and found[1] <= high:
        return True
    fits = F.logical_and(F.ge(atom, Lit(low, INT)), F.le(atom, Lit(high, INT)))
    return not isinstance(atom, Lit) and bool(recorder.guard(fits, "bool"))
