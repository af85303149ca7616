"""Ufuncs of scipy.special as elementwise primitives: how a row of their tables becomes primitives.

``special(sp.jv, Missing("v"), lambda o, v, z: ...)`` defines one primitive for each real number among the results:
one for most functions, one for each output of ``sp.airy`` (``airy_0``, ``airy_1``, ...), and for the loops of complex
numbers two for each output (``jv_re``, ``jv_im``), whose operands are the lanes of the complex ones.  All are lowered
to SciPy's own code for one element (``codegen/cpu/c_functions.py``), and their values are SciPy's.

A partial is an expression of ``(output, *operands)`` as in ``elementwise.py``.  For the results of complex loops the
same expression is evaluated on complex values, and the partials by the lanes follow from Cauchy's and Riemann's
equations.
``Missing`` stands in place of a partial for which SciPy has no function: asking for that derivative is an error.  None
is for arguments that are integers by nature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.aval import COMPLEX, FLOAT32, HALF, Aval
from ..ir.data_classes import NamedTuple
from ..ir.errors import GraphError, UnsupportedError
from ..ir.graph import Atom, Lit, Pair, bind, current_builder, elementwise_by_name, lanes
from ..ir.primitive import ELEMENTWISE, Primitive, register
from ..ir.site import at_site
from .complex_formulas import FORMULAS, zero_of
from .elementwise import UFUNC, F, as_atom, broadcast, cast

SPECIAL: dict[Any, Callable[..., Any]] = {}  # ufunc -> its promoting function of atoms
TABLE: list[Row] = []

_DTYPES = {c: np.dtype(c) for c in "fdlFD"}
_PYTHONS: dict[str, Any] = {"f": float, "i": int, "u": int, "c": complex}


class Missing(NamedTuple):
    """In place of a partial: the *argument* by which there is no derivative, and what to write *instead*."""

    argument: str
    instead: str = "make it a plain number, or an argument that argnums leaves out"


class Row(NamedTuple):
    """One ufunc as its table has it (see ``special``)."""

    function: Any
    outputs: Sequence[Sequence[Any]]  # the partials of each output
    domain: Sequence[tuple[float, float]]
    plane: Sequence[tuple[float, float]]
    kinds: str


class UfuncOutput:
    """One real number among the results of a ufunc, as a function of real operands.

    *number* is the output, *lane* 0 or 1 that of a complex one; *narrow*: SciPy computes float32 in float32, where it
    mostly takes float64; *loops* are the ufunc's loops that have it, by the
    dtypes of the operands, and what dtype it is there.
    """

    def __init__(self, function: Any, number: int, lane: int | None, narrow: bool = False):
        self.function, self.number, self.lane, self.narrow = function, number, lane, narrow
        self.loops: dict[tuple[np.dtype, ...], tuple[str, np.dtype]] = {}
        for loop in function.types:
            ins, outs = loop.split("->")
            if not set(loop) <= {*_DTYPES, "-", ">"} or (outs[number] in "FD") != (lane is not None):
                continue
            flat = [d for c in ins for d in _real_dtypes(c)]
            self.loops[tuple(flat)] = loop, _real_dtypes(outs[number])[0]

    def __call__(self, *operands: Any) -> Any:
        loop, _ = self.loops[tuple([np.asarray(x).dtype for x in operands])]
        found = self.function(*_joined(loop.split("->")[0], operands))
        found = found[self.number] if self.function.nout > 1 else found
        return found if self.lane is None else (found.real, found.imag)[self.lane].copy()

    def infer(self, *avals: Aval) -> Aval:
        known = self.loops.get(tuple([a.dtype for a in avals]))
        if known is None:
            raise GraphError(f"{self.function.__name__} of {[str(a) for a in avals]}")
        shapes = {a.shape for a in avals} - {()}
        if len(shapes) > 1:
            raise GraphError(f"{self.function.__name__} of unequal shapes {sorted(shapes)}")
        return Aval(known[1], next(iter(shapes), ()), all(a.weak for a in avals))


def _real_dtypes(char: str) -> list[np.dtype]:
    """The dtype *char*, once for each lane."""
    dtype = _DTYPES[char]
    return [COMPLEX[dtype]] * 2 if dtype in COMPLEX else [dtype]


def _joined(ins: str, operands: Sequence[Any]) -> list[Any]:
    """The operands of a loop of dtypes *ins* from real ones."""
    rest, joined = iter(operands), []
    for char in ins:
        first = next(rest)
        if char in "FD":
            second = next(rest)
            whole = np.empty(np.broadcast_shapes(np.shape(first), np.shape(second)), char)
            whole.real, whole.imag = first, second
            first = whole
        joined.append(first)
    return joined


def number(value: float) -> Lit:
    """A Python number in a partial, which belongs to the program."""
    return Lit(value, _DTYPES["l" if type(value) is int else "d"], weak=True, structural=True)


COMPLEX_OF = {lane: whole for whole, lane in COMPLEX.items()}  # the complex dtype of lanes


def turned(z: Atom) -> Pair:
    """i times the complex *z*"""
    re, im = lanes(z)
    return Pair(F.neg(im), re, z.aval.dtype)


# ---- promoting functions -------------------------------------------------------------------------------------------


def _loop_dtypes(function: Any, atoms: Sequence[Atom]) -> list[np.dtype]:
    """The dtypes to which SciPy casts the operands; it knows half precision as float32."""
    given = [
        FLOAT32 if a.aval.dtype in HALF
        else _PYTHONS.get(a.aval.dtype.kind, a.aval.dtype) if a.aval.weak
        else a.aval.dtype
        for a in atoms
    ]  # fmt: skip
    try:
        found = function.resolve_dtypes((*given, *[None] * function.nout))
    except TypeError as error:
        raise TypeError(at_site(str(error))) from None
    return list(found[: len(atoms)])


def _front(function: Any, parts: list[list[tuple[Primitive, ...]]]) -> Callable[..., Any]:
    """The function of atoms; *parts*: for each output its primitives for real and for complex results."""
    known: dict[Any, list[np.dtype]] = {}

    def apply(*operands: Any) -> Any:
        atoms = tuple([number(x) if type(x) in (int, float) else as_atom(x) for x in operands])
        key = tuple([(a.aval.dtype, a.aval.weak) for a in atoms])
        dtypes = known.get(key)
        if dtypes is None:
            dtypes = known[key] = _loop_dtypes(function, atoms)
        weak = all(a.aval.weak for a in atoms)
        atoms = broadcast(
            *[cast(a, d, weak=weak) if a.aval.dtype != d else a for a, d in zip(atoms, dtypes, strict=True)],
            what=f"operands of {function.__name__}",
        )
        flat = [x for a in atoms for x in (lanes(a) if a.aval.is_complex else (a,))]
        results: list[Atom] = []
        for real, complexes in parts:
            if complexes and (not real or len(flat) > len(atoms)):
                re, im = (bind(row, *flat) for row in complexes)
                results.append(Pair(re, im, COMPLEX_OF[re.aval.dtype]))
            else:
                results.append(bind(real[0], *flat))
        return tuple(results) if function.nout > 1 else results[0]

    apply.__name__ = function.__name__
    return apply


def _formula(apply: Callable[..., Any]) -> Callable[..., Any]:
    """The lanes of a result from those of the operands, as ``complex_formulas`` has them."""

    def formula(*operands: tuple[Atom, Atom]) -> tuple[Atom, ...]:
        dtype = COMPLEX_OF[operands[0][0].aval.dtype]
        return lanes(apply(*[Pair(re, im, dtype) for re, im in operands]))

    return formula


# ---- partials ------------------------------------------------------------------------------------------------------


def _refusing(function: Any, missing: Missing) -> Callable[..., Any]:
    name = f"scipy.special.{function.__name__.lstrip('_').removeprefix('riemann_')}"

    def partial(*_: Any) -> Any:
        raise UnsupportedError.here(
            f"{name} has no derivative with respect to its argument {missing.argument}, for which SciPy has no "
            f"function: {missing.instead}",
            current_builder().site_override,
        )

    return partial


def _by_lanes(
    output: UfuncOutput,
    ins: str,
    partial: Any,
    through: Callable[..., Any],
    damped: tuple[int, int] | None,
    position: int,
) -> list[Any]:
    """The partials of a lane of a complex result by the operand at *position*: by both lanes, where it is complex."""
    lane, char = output.lane, ins[position]

    def by(axis: int) -> Callable[..., Atom]:
        def real_partial(o: Atom, *flat: Atom) -> Atom:
            rest, operands = iter(flat), []
            for c in ins:
                first = next(rest)
                operands.append(Pair(first, next(rest), COMPLEX_OF[first.aval.dtype]) if c in "FD" else first)
            whole = through(*operands)
            whole = whole[output.number] if output.function.nout > 1 else whole
            found = partial(whole, *operands)
            re, im = lanes(found) if found.aval.is_complex else (found, zero_of(found))
            result = (re, im)[lane or 0] if axis == 0 else (F.neg(im) if lane == 0 else re)
            if damped == (position, axis):
                result = result - F.sign(lanes(operands[position])[axis]) * o
            return result

        return real_partial

    if partial is None:
        return [None] * (2 if char in "FD" else 1)
    return [by(0), by(1)] if char in "FD" else [by(0)]


def special(
    function: Any,
    *partials: Any,
    domain: Sequence[tuple[float, float]],
    kinds: str = "",
    cost: int = 60,
    outputs: Sequence[Sequence[Any]] = (),
    plane: Sequence[tuple[float, float]] = (),
    damped: tuple[int, int] | None = None,
    real: Primitive | None = None,
    singular: bool = False,
    narrow: bool = False,
) -> None:
    """Define the primitives of a ufunc.  *partials* are those of its one output; *outputs* those of each of several.
    *damped*: what they are derivatives of is multiplied by exp(-|lane|) of an operand, given as (position, lane).

    *domain* has an interval for each argument, *plane* one for the imaginary part of each complex one, *kinds* a letter
    for each ("i": an integer, "n": a whole float).  *real*: the primitive that is there for real numbers.
    """
    name = function.__name__
    rows: list[list[tuple[Primitive, ...]]] = []
    apply = _front(function, rows)
    kinds = kinds or "f" * len(domain)
    TABLE.append(Row(function, outputs or [partials], domain, plane, kinds))
    for k, own in enumerate(outputs or [partials]):
        made = [_refusing(function, p) if isinstance(p, Missing) else p for p in own]
        stem = f"{name}_{k}" if function.nout > 1 else name
        found: list[tuple[Primitive, ...]] = []
        for suffixes in (("",), ("_re", "_im")):
            if real is not None and suffixes == ("",):
                found.append((real,))
                continue
            parts = [UfuncOutput(function, k, lane, narrow) for lane in ((None,) if suffixes == ("",) else (0, 1))]
            if not parts[0].loops:
                found.append(())
                continue
            found.append(tuple([
                _register(stem + suffix, part, made, apply, domain, plane, kinds, cost, damped, singular)
                for suffix, part in zip(suffixes, parts, strict=True)
            ]))  # fmt: skip
        rows.append(found)
    if real is not None:
        FORMULAS[real.name] = _formula(apply)
        return
    elementwise_by_name[name] = SPECIAL[function] = apply


def _register(
    name: str, part: UfuncOutput, partials: list[Any], apply: Any, domain: Any, plane: Any, kinds: str, cost: int,
    damped: Any, singular: bool,
) -> Primitive:  # fmt: skip
    ins = next(reversed(part.loops.values()))[0].split("->")[0]
    if part.lane is None:
        if damped and damped[1] == 0:
            at = damped[0]
            undamped = partials[at]
            partials = list(partials)
            partials[at] = lambda o, *x: undamped(o, *x) - F.sign(x[at]) * o
    else:
        partials = [x for k, p in enumerate(partials) for x in _by_lanes(part, ins, p, apply, damped, k)]
        heights = iter(plane or [(0.3, 1.2)] * len(ins))
        domain = [d for c, d in zip(ins, domain, strict=True) for d in ((d, next(heights)) if c in "FD" else (d,))]
        letters = zip(ins, kinds, strict=True)
        kinds = "".join(["ff" if c in "FD" else "n" if k == "i" and c != "l" else k for c, k in letters])
    return register(Primitive(
        name, ELEMENTWISE, part, part.infer, partials=tuple(partials), lower=UFUNC, domain=tuple(domain), cost=cost,
        singular=singular, test={"table": "special", "kinds": kinds},
    ))  # fmt: skip
