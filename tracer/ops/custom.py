"""Values with a user-defined derivative: ``custom_vjp`` gives values new names and a rule of their own.

The one primitive here is no row of the registry: its ``rule`` is a Python callable, which has no text form and must
never be part of a signature.  It lives only between recording and differentiation; ``simplify`` puts the values in
its place, so code generation never meets it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.aval import Aval
from ..ir.axes import unrelated
from ..ir.graph import Atom, Var, current_builder
from ..ir.primitive import CUSTOM, Primitive

# (cotangents of the values or None, the values under their new names, operands) -> for each operand its cotangent, or
# None, or a function that gives it, which is called where it is wanted
Rule = Callable[[Sequence[Atom | None], Sequence[Var], Sequence[Atom]], Sequence[Any]]


def _values(*atoms: Any, count: int, rule: Rule) -> Any:
    return atoms[0] if count == 1 else atoms[:count]


def _infer(*avals: Aval, count: int, rule: Rule) -> tuple[Aval, ...]:
    return avals[:count]


def _vjp(
    cotangents: Sequence[Atom | None], outs: Sequence[Var], *atoms: Atom, count: int, rule: Rule
) -> list[Atom | None]:
    return [*[None] * count, *rule(cotangents, outs, atoms[count:])]


# masking: the rule may send exact zeros to some elements, and nobody can tell
CUSTOM_VJP = Primitive("custom_vjp", CUSTOM, _values, _infer, vjp=_vjp, axes=unrelated, joint=True, masking=True)


def custom_vjp(values: Sequence[Var], operands: Sequence[Atom], rule: Rule) -> tuple[Var, ...]:
    """*values* under new names, with the cotangents that *rule* gives for *operands* in place of their own derivative.

    The values must be floating.  *rule* is called while an adjoint is derived and appends to the builder in force; it
    must be a function of its arguments (and of constants), so that it can be derived again.
    """
    return current_builder().emit(CUSTOM_VJP, (*values, *operands), {"count": len(values), "rule": rule})
