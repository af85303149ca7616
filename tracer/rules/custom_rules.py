"""``custom_vjp`` and ``custom_jvp``: functions whose derivative the user writes, with JAX's call shapes.

Outside of a recording such a function is the user's own, called as it is.  In a recording it runs on operands whose
gradient is stopped, and its floating results get new names with the rule for them (``ops/custom.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np

from ..control.trees import function_name, structure_text
from ..ir.errors import ShapeError, TracegradError, need_function
from ..ir.graph import Atom, Lit
from ..ir.site import user_site
from ..ir.trees import tree_flatten, tree_leaves
from ..numpy_api.creation import stop_gradient
from ..ops.complex import put_together, taken_apart
from ..ops.custom import custom_vjp as named_anew
from ..ops.elementwise import F
from ..record.array import TracedArray, class_of, outranks, to_atom, wrap, wrap_array
from ..record.recorder import Recorder, current_recorder
from .arguments import (
    FLOAT0,
    Results,
    RuleArguments,
    SymbolicZero,
    fitted,
    leaves_like,
    positional,
    positions_of,
    refuse_tensors,
)
from .known_programs import linear_in_tangents, opened, rule_of
from .programs import FORWARD, REVERSE, Apply, Layout, OwnRule
from .symbolic_zeros import CustomVJPPrimal, by_parts

Function = Callable[..., Any]
P = ParamSpec("P")  # the parameters of a function
R_co = TypeVar("R_co", covariant=True)  # its result
Rule = TypeVar("Rule", bound=Function)
# of the call's arguments and results (and of a part of the rule: symbolic_zeros.py): what gives cotangents, or
# tangents, at the level of atoms
Maker = Callable[..., Apply]


class RuleParts(NamedTuple):
    """The functions of a rule, and what makes it of them for a call; *symbolic*: it is made by parts, one for each
    choice of what is not zero."""

    functions: Sequence[Any]
    make: Maker
    symbolic: bool = False


def with_rules(
    recorder: Recorder, label: str, function: Function, args: RuleArguments, rules: Mapping[str, RuleParts],
    strict: bool = True,
) -> Any:  # fmt: skip
    """The result of *function*, called *label*, in a recording, with *rules* by direction; *strict*: a derivative with
    respect to what they say nothing of is an error, and not zero."""
    operands = [to_atom(x) for x in args.operands]
    avals = tuple([x.aval for x in operands])
    functions = [f for rule in rules.values() for f in rule.functions]
    key = (label, *map(id, functions), args.key(), avals)
    known = opened(key)
    if known is not None and [*map(id, taken_apart(operands))] == [*map(id, taken_apart(known.operands))]:
        return known.results.tree(known.outs)
    if linear_in_tangents(recorder, operands, key):
        return function(*args.args)
    result = function(*args.over([_stopped(x, label) for x in args.operands]))
    results = Results(label, result)
    if not results.atoms or not any(type(leaf) is TracedArray for leaf in results.leaves):
        return result
    values: Any = taken_apart([_named(x, recorder) for x in results.atoms])
    made: dict[str, OwnRule] = {}
    within = None  # the program of a rule that is being recorded and calls its function
    if known is not None and known.part is None and [*known.program.layout.outs] == results.avals:
        within = known.program
    alive, site = [*args.leaves, *args.nondiff, *functions], user_site()
    for direction, rule in rules.items():
        layout = Layout(direction, avals, tuple(results.avals))
        if within is not None and direction == within.layout.direction:
            made[direction] = within
            continue

        def of(part: Any, layout: Layout = layout, rule: RuleParts = rule) -> OwnRule:
            apply = rule.make(args, results, part) if rule.symbolic else rule.make(args, results)
            return rule_of(
                recorder, label, layout, key, alive, rule.functions, apply, site, results, strict, part,
                later=within is not None,
            )  # fmt: skip

        made[direction] = by_parts(label, layout, site, of) if rule.symbolic else of(None)
    pull, push = made.get(REVERSE), made.get(FORWARD)
    consts = [x for rule in (pull, push) if rule is not None for x in rule.consts]
    outs = named_anew(values, [*taken_apart(operands), *consts, *values], pull, push)
    return results.tree(put_together(outs, results.atoms))


def _plain(fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call outside of a recording; of tensors, a tape would not know of the rule."""
    if any(outranks(type(x)) or isinstance(x, (tuple, list, dict)) for x in (*args, *kwargs.values())):
        refuse_tensors(function_name(fun), tree_leaves((args, kwargs)), plain=True)
    return fun(*args, **kwargs)


def _stopped(x: Any, label: str) -> Any:
    if type(x) is not TracedArray:
        return x
    found = stop_gradient(x)
    found._storage.owner = f"an argument of {label}"
    return found


def _named(atom: Atom, recorder: Recorder) -> Atom:
    """*atom* as a Var: a constant gets a name."""
    return recorder.const(np.asarray(atom.value)) if isinstance(atom, Lit) and not atom.aval.is_complex else atom


def traced(atom: Atom, like: Any = None) -> Any:
    """*atom* as the user's code gets it, an array or a number as *like* is."""
    array = bool(atom.aval.shape) or (class_of(like) if type(like) is TracedArray else type(like)) is np.ndarray
    return wrap_array(atom) if array else wrap(atom)


def over_atoms(args: RuleArguments, atoms: Sequence[Atom]) -> list[Any]:
    """The operands' stand-ins for *atoms*."""
    return [traced(atom, leaf) for atom, leaf in zip(atoms, args.operands, strict=True)]


# ---- custom_vjp ----------------------------------------------------------------------------------------------------


class WithVjp(Protocol[P, R_co]):
    """A function that ``custom_vjp`` has made."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def defvjp(
        self, fwd: Function, bwd: Function, symbolic_zeros: bool = False, optimize_remat: bool = False
    ) -> None: ...


def custom_vjp(fun: Callable[P, R_co], nondiff_argnums: Any = (), nondiff_argnames: Any = ()) -> WithVjp[P, R_co]:
    """*fun* with a reverse-mode derivative of its own, as ``jax.custom_vjp``.

        @tracegrad.custom_vjp
        def f(x, y): return np.sin(x) * y

        def f_fwd(x, y): return f(x, y), (np.cos(x), np.sin(x), y)
        def f_bwd(res, g): cos_x, sin_x, y = res; return (cos_x * g * y, sin_x * g)
        f.defvjp(f_fwd, f_bwd)

    ``fwd`` takes the arguments of *fun* and returns (its result, residuals); ``bwd`` takes the residuals and the
    cotangent of the result, and returns a tuple with a cotangent for each argument, None for zero.  Arguments, results
    and residuals may be trees.  The arguments *nondiff_argnums* (and *nondiff_argnames*) are settings, such as
    functions; ``bwd`` gets them first.

    The rule holds in ``compile_grad`` and in every transform; forward mode transposes it.  Called with arrays outside
    of a recording *fun* runs as it is.

    :raises ShapeError: a rule gives another structure, shape or dtype than the arguments or the result have.
    :raises DifferentiationError: a derivative with respect to what *fun* closes over.
    """
    need_function("custom_vjp", fun)
    nondiff = positions_of(fun, nondiff_argnums, nondiff_argnames)
    rules: list[Any] = []  # fwd, bwd, symbolic: in a cell, so that their code is part of what a recording looks at

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        recorder = current_recorder()
        if recorder is None:
            return _plain(fun, args, kwargs)
        if not rules:
            raise TracegradError.here(f"{function_name(fun)} is a custom_vjp without a rule: call f.defvjp(fwd, bwd)")
        fwd, bwd, symbolic = rules
        call = RuleArguments(function_name(fun), positional(fun, args, kwargs), nondiff)
        rule = RuleParts([fun, fwd, bwd], functools.partial(_reverse, fwd, bwd), symbolic)
        return with_rules(recorder, function_name(fun), fun, call, {REVERSE: rule})

    def defvjp(fwd: Function, bwd: Function, symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """Set the rule: *fwd* and *bwd* as above.

        With *symbolic_zeros* the leaves of the arguments of fwd are ``CustomVJPPrimal`` (``value``, ``perturbed``), and
        cotangents that are zero are ``tracegrad.SymbolicZero``: the rule is recorded for each argument and each result
        alone, and added up.  Without, they are arrays; what a rule computes of zeros is removed from kernels anyway.
        """
        rules[:] = [fwd, bwd, symbolic_zeros]

    wrapped.defvjp = defvjp  # type: ignore[attr-defined]
    return wrapped  # type: ignore[return-value]


def _reverse(fwd: Function, bwd: Function, args: RuleArguments, results: Results, part: Any = None) -> Any:
    """The rule of a call: fwd, then bwd; of a *part* (operand, result) with all else zero."""
    first, last = f"{function_name(fwd)}, the fwd of a custom_vjp,", f"{function_name(bwd)}, the bwd of a custom_vjp,"

    def apply(operands: list[Atom], outs: list[Atom], cotangents: list[Atom]) -> list[Atom | None]:
        given_to: list[Any] = over_atoms(args, operands)
        if part is not None:
            given_to = [CustomVJPPrimal(x, k == part[0]) for k, x in enumerate(given_to)]
            found = fwd(*args.over(given_to, lambda leaf: CustomVJPPrimal(leaf, False)))
            cts = results.cotangents(cotangents, part[1])
        else:
            found, cts = fwd(*args.over(given_to)), results.cotangents(cotangents)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise ShapeError.here(f"{first} returned {_kind(found)}, but a pair (result, residuals) was expected")
        _check_result(found[0], results, first)
        given = bwd(*args.nondiff, found[1], cts)
        count = len(args.moving)
        if not isinstance(given, (tuple, list)) or len(given) != count:
            raise ShapeError.here(
                f"{last} returned {_kind(given)}, but a tuple of {count} was expected: a cotangent for each argument "
                "that is differentiated"
            )
        leaves: list[Any] = []
        for k, (tree, structure) in enumerate(zip(given, args.structure.children(), strict=True)):
            leaves += leaves_like(tree, structure, f"the cotangent of argument {args.moving[k]} that {last} returned")
        wanted = []
        for n, (k, operand) in enumerate(zip(args.places, operands, strict=True)):
            wanted.append(
                fitted(leaves[k], operand.aval, f"a cotangent that {last} returned for argument {_owner(args, k)}")
                if operand.aval.is_inexact and (part is None or n == part[0])
                else None
            )
        return wanted

    return apply


def _owner(args: RuleArguments, leaf: int) -> int:
    """The position of the argument of which *leaf* is a part."""
    owners = [k for k, part in zip(args.moving, args.structure.children(), strict=True) for _ in range(part.num_leaves)]
    return owners[leaf]


def _check_result(found: Any, results: Results, what: str) -> list[Any]:
    """The leaves of *found*, which has to be like the result of the function."""
    leaves, structure = tree_flatten(found)
    if structure != results.structure:
        raise ShapeError.here(
            f"{what} returned a result of the structure {structure_text(structure)}, but that of the function has "
            f"{structure_text(results.structure)}"
        )
    for k, atom in zip(results.places, results.atoms, strict=True):
        fitted(leaves[k], atom.aval, f"the result that {what} returned")
    return leaves


def _kind(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return "one array" if isinstance(value, (TracedArray, np.ndarray)) else f"a {type(value).__name__}"


# ---- custom_jvp ----------------------------------------------------------------------------------------------------


class WithJvp(Protocol[P, R_co]):
    """A function that ``custom_jvp`` has made."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def defjvp(self, jvp: Rule, symbolic_zeros: bool = False) -> Rule: ...

    def defjvps(self, *jvps: Function | None) -> None: ...


def custom_jvp(fun: Callable[P, R_co], nondiff_argnums: Any = (), nondiff_argnames: Any = ()) -> WithJvp[P, R_co]:
    """*fun* with a forward-mode derivative of its own, as ``jax.custom_jvp``; reverse mode transposes it.

        @tracegrad.custom_jvp
        def f(x, y): return np.sin(x) * y

        @f.defjvp
        def f_jvp(primals, tangents):
            (x, y), (x_dot, y_dot) = primals, tangents
            return f(x, y), np.cos(x) * x_dot * y + np.sin(x) * y_dot

    The rule takes two tuples and returns (result, tangent of the result), and is linear in the tangents.
    ``f.defjvps(*jvps)`` takes a rule for each argument instead, ``jvp(tangent, result, *primals)`` or None.  The
    arguments *nondiff_argnums* are settings, which ``defjvp`` rules get first.

    :raises ShapeError: a rule gives another structure, shape or dtype than the result has.
    :raises DifferentiationError: a derivative with respect to what *fun* closes over.
    """
    need_function("custom_jvp", fun)
    nondiff = positions_of(fun, nondiff_argnums, nondiff_argnames)
    rules: list[Any] = []  # one for all arguments, or a tuple with one for each; whether with symbolic zeros

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        recorder = current_recorder()
        if recorder is None:
            return _plain(fun, args, kwargs)
        if not rules:
            raise TracegradError.here(f"{function_name(fun)} is a custom_jvp without a rule: write @f.defjvp")
        rule, symbolic = rules
        call = RuleArguments(function_name(fun), positional(fun, args, kwargs), nondiff)
        make = functools.partial(_each if isinstance(rule, tuple) else _forward, rule)
        parts = list(rule) if isinstance(rule, tuple) else [rule]
        return with_rules(recorder, function_name(fun), fun, call, {FORWARD: RuleParts([fun, *parts], make, symbolic)})

    def defjvp(jvp: Function, symbolic_zeros: bool = False) -> Function:
        """Set the rule for all arguments; usable as a decorator.  With *symbolic_zeros* tangents that are zero are
        ``tracegrad.SymbolicZero`` in place of arrays: the rule is recorded for a tangent of each argument alone, and
        added up."""
        rules[:] = [jvp, symbolic_zeros]
        return jvp

    def defjvps(*jvps: Function | None) -> None:
        """Set a rule for each argument, ``jvp(tangent, result, *primals)``; None: no derivative."""
        if nondiff:
            raise TypeError("defjvps with nondiff_argnums: write one rule for all arguments with defjvp, as in JAX")
        rules[:] = [jvps, False]

    wrapped.defjvp, wrapped.defjvps = defjvp, defjvps  # type: ignore[attr-defined]
    return wrapped  # type: ignore[return-value]


def _tangents(args: RuleArguments, operands: Sequence[Atom], given: Sequence[Atom], only: Any = None) -> list[Any]:
    """The tangents of the operands, as arrays: *given* those of the floating ones; *only* that of one operand, where
    the others are zero."""
    rest = iter(given)
    found = [
        traced(next(rest), leaf) if atom.aval.is_inexact else np.zeros(atom.aval.shape, FLOAT0)
        for atom, leaf in zip(operands, args.operands, strict=True)
    ]
    if only is None:
        return found
    return [x if k == only else SymbolicZero(operands[k].aval) for k, x in enumerate(found)]


def _forward(jvp: Function, args: RuleArguments, results: Results, part: Any = None) -> Any:
    """The rule of a call that one function gives; a *part*: the tangent of this operand alone."""
    what = f"{function_name(jvp)}, the jvp of a custom_jvp,"

    def apply(operands: list[Atom], outs: list[Atom], tangents: list[Atom]) -> list[Atom | None]:
        primals = args.trees(over_atoms(args, operands))
        found = jvp(*args.nondiff, primals, args.tangents(_tangents(args, operands, tangents, part)))
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise ShapeError.here(f"{what} returned {_kind(found)}, but a pair (result, tangent) was expected")
        _check_result(found[0], results, what)
        leaves = leaves_like(found[1], results.structure, f"the tangent that {what} returned")
        return [fitted(leaves[k], out.aval, f"a tangent that {what} returned") for k, out in _floating(results, outs)]

    return apply


def _floating(results: Results, outs: Sequence[Atom]) -> Any:
    return zip(results.places, outs, strict=True)


def _each(jvps: tuple[Function | None, ...], args: RuleArguments, results: Results) -> Any:
    """The rule of a call that a function for each argument gives: the sum of theirs."""
    if len(jvps) != len(args.moving):
        raise TypeError(f"defjvps got {len(jvps)} rules for {len(args.moving)} arguments: give None for no derivative")

    def apply(operands: list[Atom], outs: list[Atom], tangents: list[Atom]) -> list[Atom | None]:
        primals = args.over(over_atoms(args, operands))
        parts = args.tangents(_tangents(args, operands, tangents))
        answer = results.tree(outs)
        total: list[Any] = [None] * len(outs)
        inexact = {_owner(args, k) for k, x in zip(args.places, operands, strict=True) if x.aval.is_inexact}
        for jvp, position, tangent in zip(jvps, args.moving, parts, strict=True):
            if jvp is None or position not in inexact:
                continue
            what = f"{function_name(jvp)}, the jvp of argument {position} of a custom_jvp,"
            leaves = leaves_like(jvp(tangent, answer, *primals), results.structure, f"the tangent that {what} returned")
            for n, (k, out) in enumerate(_floating(results, outs)):
                term: Any = fitted(leaves[k], out.aval, f"a tangent that {what} returned")
                if term is not None:
                    total[n] = term if total[n] is None else F.add(total[n], term)
        return total

    return apply


__all__ = ["custom_jvp", "custom_vjp"]
