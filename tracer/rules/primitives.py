"""``primitive``, HIPS autograd's extension point: host code with derivatives that the user writes.

In a recording a primitive is a call of the function itself, which runs in each call on plain arrays (host_code.py).
``defvjp`` and ``defjvp`` give it rules, which are recorded as those of ``custom_vjp`` are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from ..ir.graph import Atom
from ..ops.complex import real_part
from ..ops.elementwise import F, broadcast_to, cast
from ..record.array import to_atom
from ..record.recorder import current_recorder, require_recorder
from .arguments import P, R, Results, RuleArguments, fitted, leaves_like, strong
from .custom_rules import RuleParts, over_atoms, traced, with_rules
from .host_code import HostCode
from .programs import FORWARD, REVERSE, Apply, Deferred

Function = Callable[..., Any]
_NAMED = "given by name"  # in place of the position of an argument


def primitive(f_raw: Callable[P, R]) -> Callable[P, R]:
    """*f_raw* as a primitive: it runs on plain arrays in each call, and its derivatives are those of ``defvjp`` and
    ``defjvp``, as in HIPS autograd.

        @primitive
        def logsumexp(x): return scipy.special.logsumexp(x)

        defvjp(logsumexp, lambda ans, x: lambda g: g * np.exp(x - ans))

    It may call anything: a solver, Fortran, a file.  It returns an array, a number or a tree of them, whose shapes and
    dtypes may depend on those of the arguments, and on arguments that are no floats or arrays, alone; a recording runs
    it to know them.
    """
    code = HostCode(f_raw)
    rules: list[Any] = [None, None]  # of reverse and forward mode: in a cell, so that a recording looks at their code

    @functools.wraps(f_raw)
    def f_wrapped(*args: Any, **kwargs: Any) -> Any:
        recorder = current_recorder()
        if recorder is None or not code.call(args, kwargs).traced:
            return code(*args, **kwargs)
        call = RuleArguments(code.name, (*args, kwargs), frozenset())
        vjp, jvp = rules
        makers = {}
        if vjp is not None or jvp is None or jvp.runs_itself:
            makers[REVERSE] = RuleParts([f_wrapped, vjp], functools.partial(_pulled, code.name, vjp))
        if jvp is not None:
            makers[FORWARD] = RuleParts([f_wrapped, jvp], functools.partial(_pushed, code.name, jvp))
        return with_rules(recorder, code.name, functools.partial(_recorded, code), call, makers)

    f_wrapped.fun, f_wrapped._rules = f_raw, rules  # type: ignore[attr-defined]
    f_wrapped._is_autograd_primitive = True  # type: ignore[attr-defined]
    return f_wrapped


def _recorded(code: HostCode, *args: Any) -> Any:
    run = code.call(args[:-1], args[-1])
    operands = [to_atom(x) for x in run.data]
    run.run_once(require_recorder("a primitive"), operands)
    return run.recorded(operands)


# ---- the rule of a call --------------------------------------------------------------------------------------------


def _named(args: RuleArguments, position: int) -> bool:
    return position == len(args.args) - 1


def _pulled(name: str, vjpmaker: Function | None, args: RuleArguments, results: Results) -> Apply:
    """The reverse rule: an error of the rule of one argument shows where that argument is differentiated."""

    def apply(operands: list[Atom], outs: list[Atom], cotangents: list[Atom]) -> list[Any]:
        *given, kwargs = args.over(over_atoms(args, operands))
        ans, g = results.tree(outs), results.cotangents(cotangents)
        found: list[Any] = []
        for position, part in enumerate(args.structure.children()):
            try:
                found += _of_argument(name, vjpmaker, position, part, args, ans, g, given, kwargs)
            except Exception as error:
                found += [Deferred(error)] * part.num_leaves
        gradients = zip([found[k] for k in args.places], operands, strict=True)
        return [x if isinstance(x, Deferred) or x is None else _like(name, x, operand) for x, operand in gradients]

    return apply


def _of_argument(
    name: str, vjpmaker: Function | None, position: int, part: Any, args: RuleArguments, ans: Any, g: Any,
    given: Sequence[Any], kwargs: dict[str, Any],
) -> list[Any]:  # fmt: skip
    """The gradients of the leaves of an argument, in HIPS autograd's form."""
    if vjpmaker is None or _named(args, position):
        argnums = _NAMED if _named(args, position) else (position,)
        raise NotImplementedError(f"VJP of {name} wrt argnums {argnums} not defined")
    (gradient,) = vjpmaker((position,), ans, tuple(given), kwargs)(g)
    return leaves_like(gradient, part, f"the vjp of {name} wrt argument {position}")


def _like(name: str, found: Any, operand: Atom) -> Any:
    """A gradient as a cotangent of *operand*: a number stands for each element, dtypes follow the operand's."""
    aval = operand.aval
    if not aval.is_inexact:
        return None
    try:
        atom = to_atom(found)
        if not atom.aval.shape:
            atom = broadcast_to(atom, aval.shape)
        if atom.aval.is_complex and not aval.is_complex:
            atom = real_part(atom)
        if atom.aval.is_inexact:
            atom = cast(atom, aval.dtype)
        return fitted(traced(atom), aval, f"the gradient that the vjp of {name} returned")
    except Exception as error:
        return Deferred(error)


def _pushed(name: str, jvpmaker: Function, args: RuleArguments, results: Results) -> Apply:
    """The forward rule: the sum over the arguments."""

    owners = [k for k, part in enumerate(args.structure.children()) for _ in range(part.num_leaves)]

    def apply(operands: list[Atom], outs: list[Atom], tangents: list[Atom]) -> list[Any]:
        *given, kwargs = args.over(over_atoms(args, operands))
        rest = iter(tangents)
        moved = [traced(next(rest), leaf) if x.aval.is_inexact else None
                 for x, leaf in zip(operands, args.operands, strict=True)]  # fmt: skip
        trees = args.trees(moved, lambda leaf: None)
        # the position of the argument that each lane of the tangents belongs to
        lanes = [owners[k] for k, x in zip(args.places, operands, strict=True) if x.aval.is_inexact
                 for _ in range(1 + x.aval.is_complex)]  # fmt: skip
        positions = [k for k in sorted({*lanes}) if not _named(args, k)]
        found = jvpmaker(tuple(positions), [trees[k] for k in positions], results.tree(outs), tuple(given), kwargs)
        failed = {k: x for k, x in zip(positions, found, strict=False) if isinstance(x, Deferred)}
        failed[len(args.args) - 1] = Deferred(NotImplementedError(f"JVP of {name} wrt argnums {_NAMED} not defined"))
        apply.missing = {k: failed[p] for k, p in enumerate(lanes) if p in failed}  # type: ignore[attr-defined]
        total: list[Any] = [None] * len(outs)
        for tree in found:
            if isinstance(tree, Deferred):
                continue
            leaves = leaves_like(tree, results.structure, f"the jvp of {name}")
            for n, (k, out) in enumerate(zip(results.places, outs, strict=True)):
                term: Any = fitted(leaves[k], strong(out.aval), f"the tangent that the jvp of {name} returned")
                if term is not None:
                    total[n] = term if total[n] is None else F.add(total[n], term)
        return total

    return apply


# ---- rules ---------------------------------------------------------------------------------------------------------


def _rules_of(fun: Any) -> list[Any]:
    if not hasattr(fun, "_rules"):
        raise TypeError(
            f"{getattr(fun, '__name__', fun)} is no primitive: functions of NumPy and SciPy have their own derivatives "
            "here; a rule of another is given to primitive(f)"
        )
    return fun._rules


def defvjp_argnums(fun: Any, vjpmaker: Function) -> None:
    """The rule of *fun*: ``vjpmaker(argnums, ans, args, kwargs)(g)`` gives a gradient for each of *argnums*."""
    _rules_of(fun)[0] = vjpmaker


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
            raise NotImplementedError(f"VJP of {fun.__name__} wrt argnums ({argnum},) not defined")
        if rules[argnum] is None:
            return lambda g: None
        return rules[argnum](ans, *args, **kwargs)

    defvjp_argnum(fun, vjp_argnum)


def defjvp_argnums(fun: Any, jvpmaker: Function) -> None:
    """The forward rule of *fun*: ``jvpmaker(argnums, tangents, ans, args, kwargs)`` gives the tangent of the result for
    those of *argnums*.  Where *fun* has no rule for cotangents, they follow from it."""

    def jvp_argnums(argnums: Sequence[int], gs: Sequence[Any], ans: Any, args: Any, kwargs: Any) -> list[Any]:
        return [jvpmaker(argnums, gs, ans, args, kwargs)]

    _define(fun, jvp_argnums)


def _define(fun: Any, jvp_argnums: Function, runs_itself: bool = False) -> None:
    """*runs_itself*: on tangents, in place of arguments, so there is no program to transpose."""
    jvp_argnums.runs_itself = runs_itself  # type: ignore[attr-defined]
    _rules_of(fun)[1] = jvp_argnums


def defjvp_argnum(fun: Any, jvpmaker: Function) -> None:
    """As ``defjvp_argnums`` with ``jvpmaker(argnum, g, ans, args, kwargs)`` for each argument; the sum of what it gives
    is the tangent of the result."""
    _define(fun, _each_argument(jvpmaker))


def _each_argument(jvpmaker: Function) -> Function:
    def jvp_argnums(argnums: Sequence[int], gs: Sequence[Any], ans: Any, args: Any, kwargs: Any) -> list[Any]:
        found: list[Any] = []
        for argnum, g in zip(argnums, gs, strict=True):
            try:
                found.append(jvpmaker(argnum, g, ans, args, kwargs))
            except Exception as error:
                found.append(Deferred(error))
        return found

    return jvp_argnums


def defjvp(fun: Any, *jvpfuns: Any, **kwargs: Any) -> None:
    """The forward rules of *fun*, for each argument (or those in *argnums*) ``jvpfun(g, ans, *args, **kwargs)``;
    ``"same"`` where *fun* is linear in it, None where the tangent is 0."""
    rules = dict(zip(kwargs.get("argnums", count()), jvpfuns, strict=False))

    def jvp_argnum(argnum: int, g: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        if argnum not in rules:
            raise NotImplementedError(f"JVP of {fun.__name__} wrt argnums ({argnum},) not defined")
        rule = rules[argnum]
        if rule is None:
            return None
        if rule == "same":
            return fun(*args[:argnum], g, *args[argnum + 1 :], **kwargs)
        return rule(g, ans, *args, **kwargs)

    _define(fun, _each_argument(jvp_argnum), "same" in rules.values())


def def_linear(fun: Any) -> None:
    """Says that *fun* is linear in each of its arguments."""

    def jvp_argnum(argnum: int, g: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        return fun(*args[:argnum], g, *args[argnum + 1 :], **kwargs)

    _define(fun, _each_argument(jvp_argnum), True)


__all__ = [
    "def_linear", "defjvp", "defjvp_argnum", "defjvp_argnums", "defvjp", "defvjp_argnum",
    "defvjp_argnums", "primitive",
]  # fmt: skip
