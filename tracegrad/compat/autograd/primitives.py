"""Functions with derivatives of the user's: ``@primitive`` and ``defvjp``.

In a recording a primitive is a call of the function itself, which runs in each call on plain arrays (``host_call``).
Its results get a rule (``custom_vjp``) that runs the user's vjp on traced arrays whenever an adjoint is derived, so it
has derivatives of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import count
from typing import Any

import numpy as np

from ...codegen.derive.loop_adjoint import materialise
from ...tracer.ir.aval import COMPLEX, INEXACT_KINDS, Aval, is_number
from ...tracer.ir.errors import ShapeError, UnsupportedError
from ...tracer.ir.graph import Atom, Lit, Var, lanes
from ...tracer.ir.site import user_site
from ...tracer.ir.trees import tree_flatten, tree_unflatten
from ...tracer.ops.complex import put_together, taken_apart
from ...tracer.ops.custom import custom_vjp
from ...tracer.ops.elementwise import broadcast_to, cast
from ...tracer.ops.host_call import HostFunction, host_call
from ...tracer.record.array import TracedArray, class_of, to_atom, wrap, wrap_array
from ...tracer.record.recorder import Recorder, nothing_recorded, require_recorder
from .vspace import vspace
from .wrap_util import get_name, wraps

Function = Callable[..., Any]
primitive_vjps: dict[Any, Function] = {}
primitive_jvps: dict[Any, Function] = {}


def primitive(f_raw: Function) -> Any:
    """
    Wraps a function so that its gradient can be specified and its invocation
    can be recorded. It runs on plain arrays; what it returns is an array, a
    number or a tree of them."""

    rules: list[Function] = []  # at most one: in a cell, so that its code is part of what a recording looks at

    @wraps(f_raw)
    def f_wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree_flatten((args, kwargs), none_is_leaf=True)
        if not any(type(leaf) is TracedArray for leaf in leaves):
            return f_raw(*args, **kwargs)
        return _Call(f_wrapped, f_raw, leaves, structure, rules).recorded(require_recorder("a primitive"))

    f_wrapped.fun, f_wrapped._rules = f_raw, rules  # type: ignore[attr-defined]
    f_wrapped._is_autograd_primitive = True  # type: ignore[attr-defined]
    f_wrapped.defvjp = _deprecated_defvjp(f_wrapped)  # type: ignore[attr-defined]
    f_wrapped.defvjp_is_zero = _deprecated_defvjp_is_zero(f_wrapped)  # type: ignore[attr-defined]
    f_wrapped.defgrad = _deprecated_defgrad(f_wrapped)  # type: ignore[attr-defined]
    return f_wrapped


class _Call:
    """A call of a primitive: the raw function with its other arguments, and its rule."""

    def __init__(self, wrapped: Function, raw: Function, leaves: list[Any], structure: Any, rules: list[Any]) -> None:
        self.wrapped, self.raw, self.leaves, self.structure, self.rules = wrapped, raw, leaves, structure, rules
        self.places = [k for k, leaf in enumerate(leaves) if _is_data(leaf)]
        self.classes = [
            class_of(x) if type(x) is TracedArray else type(x) for x in map(leaves.__getitem__, self.places)
        ]
        # the argument of which each operand is a part; None: one passed by name
        owners = [k for k, part in enumerate(structure.children()[0].children()) for _ in range(part.num_leaves)]
        self.owners = [owners[k] if k < len(owners) else None for k in self.places]

    def arguments(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(args, kwargs) with *values* for the operands."""
        leaves = list(self.leaves)
        for k, value in zip(self.places, values, strict=True):
            leaves[k] = value
        return tree_unflatten(self.structure, leaves)

    def plain(self, *arrays: Any) -> list[Any]:
        """The leaves of the result of the raw function on plain *arrays*."""
        args, kwargs = self.arguments([_as(cls, x) for cls, x in zip(self.classes, arrays, strict=True)])
        found, self.result = tree_flatten(self.raw(*args, **kwargs), none_is_leaf=True)
        for leaf in found:
            if not _is_data(leaf) and not isinstance(leaf, (bool, int, np.bool_, np.integer)):
                raise UnsupportedError.here(
                    f"{get_name(self.raw)}, a primitive, returned {type(leaf).__name__}: return arrays and numbers"
                )
        return [np.asarray(leaf) for leaf in found]

    def recorded(self, recorder: Recorder) -> Any:
        operands = [to_atom(self.leaves[k]) for k in self.places]
        values = recorder.values(operands)
        if values is None:
            raise UnsupportedError.here(
                f"{get_name(self.raw)}, a primitive, in the body of a loop of tracegrad's: write a Python loop"
            )
        with nothing_recorded():
            found = self.plain(*[np.asarray(v) for v in values])
        results = [Aval(x.dtype, x.shape) for x in found]
        self.floating = [x.dtype.kind in INEXACT_KINDS for x in found]
        outs = host_call(
            HostFunction(self._host, results, get_name(self.raw), key=self._key(), site=user_site()), operands
        )
        inner = [out for out, floats in zip(outs, self.floating, strict=True) if floats]
        named = iter(self._with_rule(inner, operands) if inner else [])
        outs = [next(named) if floats else out for out, floats in zip(outs, self.floating, strict=True)]
        return tree_unflatten(self.result, [_shown(out) for out in outs])

    def _host(self, *arrays: np.ndarray) -> Any:
        found = self.plain(*arrays)
        return found[0] if len(found) == 1 else found

    def _key(self) -> Any:
        """Equal for calls that do the same."""
        static = [_Static(leaf) for k, leaf in enumerate(self.leaves) if k not in self.places]
        return (_Static(self.wrapped), self.structure, tuple(static), tuple(self.places), tuple(self.classes))

    # ---- the rule --------------------------------------------------------------------------------------------------

    def _with_rule(self, values: list[Atom], operands: list[Atom]) -> list[Atom]:
        """*values*, of the results that are floating, with the user's derivative."""
        saved = [x if isinstance(x, Var) else Lit(x.value, x.aval.dtype) for x in operands]

        def rule(cts: Sequence[Atom | None], outs: Sequence[Var], atoms: Sequence[Atom]) -> list[Any]:
            full = [materialise(ct, out) for ct, out in zip(cts, outs, strict=True)]
            return self._pull(put_together(full, values), put_together(outs, values), put_together(atoms, saved))

        named = custom_vjp(taken_apart(values), taken_apart(saved), rule)  # type: ignore[arg-type]
        return put_together(named, values)

    def _pull(self, cotangents: list[Atom], outs: list[Atom], operands: list[Atom]) -> list[Any]:
        """For each lane of the operands the function that gives its cotangent."""
        args, kwargs = self.arguments([_as_given(cls, x) for cls, x in zip(self.classes, operands, strict=True)])
        ans, g = self._result(outs), self._result([_conjugate(ct) for ct in cotangents])
        known: dict[int | None, list[Any]] = {}

        def of(k: int, lane: int) -> Atom | None:
            owner = self.owners[k]
            if owner not in known:
                known[owner] = self._of_argument(owner, ans, g, args, kwargs)
            atom, found = operands[k], known[owner][self.owners[:k].count(owner)]
            return None if found is None else _fitted(get_name(self.raw), found, atom, lane)

        return [
            lambda k=k, lane=lane: of(k, lane)
            for k, atom in enumerate(operands)
            for lane in range(1 + atom.aval.is_complex)
        ]

    def _of_argument(self, argnum: int | None, ans: Any, g: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The gradients of the leaves of the argument *argnum* that are operands."""
        argnums = "given by name" if argnum is None else (argnum,)
        if not self.rules or argnum is None:
            raise NotImplementedError(f"VJP of {get_name(self.raw)} wrt argnums {argnums} not defined")
        recorder = require_recorder("a vjp")
        with (
            recorder.watch() if recorder.watch is not None else nullcontext()
        ):  # NumPy's functions as recorded code has
            (found,) = self.rules[0]((argnum,), ans, args, kwargs)(g)
        leaves, structure = tree_flatten(found, none_is_leaf=True)
        wanted = self.structure.children()[0].children()[argnum]
        if len(leaves) != wanted.num_leaves:
            raise ShapeError.here(
                f"the vjp of {get_name(self.raw)} wrt argument {argnum} gives {structure}, but that is {wanted}"
            )
        first = sum(part.num_leaves for part in self.structure.children()[0].children()[:argnum])
        return [leaf for k, leaf in enumerate(leaves, first) if k in self.places]

    def _result(self, floating: Sequence[Atom]) -> Any:
        """The tree of the result with traced arrays of the *floating* atoms; None for what is not floating."""
        given = iter(floating)
        return tree_unflatten(self.result, [_shown(next(given)) if floats else None for floats in self.floating])


class _Static:
    """An object as part of a key: by value where it is a constant of Python's, else by identity."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = (type(value), value) if isinstance(value, (str, int, bool, type(None))) else id(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is _Static and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _is_data(leaf: Any) -> bool:
    if isinstance(leaf, (float, complex, TracedArray)):
        return True
    return isinstance(leaf, (np.ndarray, np.inexact)) and is_number(leaf.dtype)


def _as(cls: type, array: np.ndarray) -> Any:
    """A plain array of the host as the class of value that the caller gave."""
    if cls in (float, int, bool, complex):
        return array.item()
    return array[()] if issubclass(cls, np.generic) else np.array(array)


def _as_given(cls: type, atom: Atom) -> Any:
    return wrap_array(atom) if issubclass(cls, np.ndarray) else wrap(atom)


def _shown(atom: Atom) -> Any:
    return wrap_array(atom) if atom.aval.shape else wrap(atom)


def _conjugate(ct: Atom) -> Any:
    """The cotangents of the lanes of a complex number as HIPS autograd's g."""
    if not ct.aval.is_complex:
        return ct
    re, im = lanes(ct)
    return put_together([re, -im], [ct])[0]  # type: ignore[operator]


def _fitted(name: str, found: Any, operand: Atom, lane: int) -> Atom:
    """The cotangent of a *lane* of an operand from the gradient that the user's vjp gives."""
    atom, aval = to_atom(found), operand.aval
    if atom.aval.shape != aval.shape and atom.aval.shape != ():
        raise ShapeError.here(
            f"the vjp of {name} gives {atom.aval.dtype}{list(atom.aval.shape)} for an argument of shape "
            f"{list(aval.shape)}: sum over the axes that were broadcast"
        )
    re, im = lanes(atom) if atom.aval.is_complex else (atom, None)
    part: Any = re if lane == 0 else (to_atom(0.0) if im is None else -im)  # type: ignore[operator]
    return broadcast_to(cast(part, COMPLEX.get(aval.dtype, aval.dtype)), aval.shape)


# ---- rules -----------------------------------------------------------------------------------------------------------


def defvjp_argnums(fun: Any, vjpmaker: Function) -> None:
    """The rule of *fun*: ``vjpmaker(argnums, ans, args, kwargs)(g)`` gives a gradient for each of *argnums*."""
    if not hasattr(fun, "_rules"):
        raise TypeError(
            f"{get_name(fun)} is no primitive: functions of NumPy and SciPy have their own derivatives here; a rule of "
            "another is given to primitive(f)"
        )
    primitive_vjps[fun] = vjpmaker
    fun._rules[:] = [vjpmaker]


def defvjp_argnum(fun: Any, vjpmaker: Function) -> None:
    """As ``defvjp_argnums`` with ``vjpmaker(argnum, ans, args, kwargs)(g)``."""

    def vjp_argnums(argnums: Sequence[int], *args: Any) -> Function:
        vjps = [vjpmaker(argnum, *args) for argnum in argnums]
        return lambda g: [vjp(g) for vjp in vjps]

    defvjp_argnums(fun, vjp_argnums)


def defvjp(fun: Any, *vjpmakers: Any, **kwargs: Any) -> None:
    """The rules of *fun*, for each argument (or those in *argnums*) ``vjpmaker(ans, *args, **kwargs)(g)``, or None
    where the gradient is 0."""
    rules = dict(zip(kwargs.get("argnums", count()), vjpmakers, strict=False))

    def vjp_argnum(argnum: int, ans: Any, args: Any, kwargs: Any) -> Function:
        if argnum not in rules:
            raise NotImplementedError(f"VJP of {get_name(fun)} wrt argnums ({argnum},) not defined")
        if rules[argnum] is None:
            return lambda g: vspace(args[argnum]).zeros()
        return rules[argnum](ans, *args, **kwargs)

    defvjp_argnum(fun, vjp_argnum)


def defjvp_argnums(fun: Any, jvpmaker: Function) -> None:
    """Kept for forward mode; reverse mode makes no use of it."""
    primitive_jvps[fun] = jvpmaker


defjvp_argnum = defjvp_argnums


def defjvp(fun: Any, *jvpfuns: Any, **kwargs: Any) -> None:
    """As ``defjvp_argnums``."""
    defjvp_argnums(fun, (jvpfuns, kwargs))  # type: ignore[arg-type]


def def_linear(fun: Any) -> None:
    """Flags that a function is linear wrt all args."""
    defjvp(fun, "same")


def _deprecated_defvjp(fun: Any) -> Function:
    makers: dict[int, Function] = {}

    def defvjp_unstaged(vjpmaker: Function, argnum: int = 0) -> None:
        warnings.warn("fun.defvjp(...) is old: write defvjp(fun, ...)", stacklevel=2)

        def staged(ans: Any, *args: Any, **kwargs: Any) -> Function:
            return lambda g: vjpmaker(g, ans, vspace(args[argnum]), vspace(g), *args, **kwargs)

        makers[argnum] = staged
        defvjp(fun, *makers.values(), argnums=tuple(makers))

    return defvjp_unstaged


def _deprecated_defvjp_is_zero(fun: Any) -> Function:
    def defvjp_is_zero(argnums: Sequence[int] = (0,)) -> None:
        warnings.warn("fun.defvjp_is_zero(...) is old: write defvjp(fun, None)", stacklevel=2)
        defvjp(fun, *[None] * len(argnums), argnums=argnums)

    return defvjp_is_zero


def _deprecated_defgrad(fun: Any) -> Function:
    makers: dict[int, Function] = {}

    def defgrad(gradfun: Function, argnum: int = 0) -> None:
        warnings.warn("fun.defgrad(...) is old: write defvjp(fun, ...)", stacklevel=2)
        makers[argnum] = gradfun
        defvjp(fun, *makers.values(), argnums=tuple(makers))

    return defgrad
