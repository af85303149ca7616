"""Values with a user-defined derivative: ``custom_vjp`` gives values new names and a rule of their own.

The rule has a reverse form, a forward form, or both.  Both are linear, in the cotangents or in the tangents, so one
follows from the other: derivation transposes the one that there is (``codegen/derive/transpose.py``).

The one primitive here is no row of the registry: its rules are Python callables, which have no text form and must
never be part of a signature.  It lives only between recording and differentiation; ``simplify`` puts the values in
its place, so code generation never meets it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.aval import Aval
from ..ir.axes import unrelated
from ..ir.graph import Atom, Node, Var, current_builder
from ..ir.primitive import CUSTOM, Primitive

# (cotangents of the values or None, the values under their new names, operands) -> for each operand its cotangent, or
# None, or a function that gives it, which is called where it is wanted
Rule = Callable[[Sequence[Atom | None], Sequence[Var], Sequence[Atom]], Sequence[Any]]
# (tangents of the operands or None, the values under their new names, operands) -> for each value its tangent or None
Push = Callable[[Sequence[Atom | None], Sequence[Var], Sequence[Atom]], Sequence[Atom | None]]


def _values(*atoms: Any, count: int, rule: Rule | None, push: Push | None) -> Any:
    return atoms[0] if count == 1 else atoms[:count]


def _infer(*avals: Aval, count: int, rule: Rule | None, push: Push | None) -> tuple[Aval, ...]:
    return avals[:count]


def _vjp(
    cotangents: Sequence[Atom | None], outs: Sequence[Var], *atoms: Atom, count: int, rule: Rule | None,
    push: Push | None,
) -> list[Any] | None:  # fmt: skip
    return None if rule is None else [*[None] * count, *rule(cotangents, outs, atoms[count:])]


def _jvp(
    tangents: Sequence[Atom | None], outs: Sequence[Var], *atoms: Atom, count: int, rule: Rule | None,
    push: Push | None,
) -> Sequence[Atom | None] | None:  # fmt: skip
    return None if push is None else push(tangents[count:], outs, atoms[count:])


# masking: the rule may send exact zeros to some elements, and nobody can tell
CUSTOM_VJP = Primitive(
    "custom_vjp", CUSTOM, _values, _infer, vjp=_vjp, jvp=_jvp, axes=unrelated, joint=True, masking=True
)


def custom_vjp(
    values: Sequence[Var], operands: Sequence[Atom], rule: Rule | None, push: Push | None = None
) -> tuple[Var, ...]:
    """*values* under new names, with the cotangents that *rule* gives for *operands*, and the tangents that *push*
    gives for them, in place of their own derivative.

    The values must be floating.  The rules are called while a derivative is derived and append to the builder in force;
    they must be functions of their arguments (and of constants), so that they can be derived again, and linear: *rule*
    in the cotangents, *push* in the tangents.  Where one is None it is the transpose of the other.
    """
    params = {"count": len(values), "rule": rule, "push": push}
    return current_builder().emit(CUSTOM_VJP, (*values, *operands), params)


def derived_from(node: Node) -> Sequence[Atom]:
    """The operands of *node* on which its derivative depends: not the values that a rule is given for."""
    return node.inputs[node.params["count"] :] if node.prim.kind == CUSTOM else node.inputs


def runs_python(node: Node) -> bool:
    """Whether the derivative of *node*, or of something in its body, runs Python: it has a rule that is no program
    (``closed``), and so belongs to the recording in which it was made."""
    if node.prim.kind == CUSTOM:
        rules = [node.params[name] for name in ("rule", "push")]
        return not all(rule is None or getattr(rule, "closed", False) for rule in rules)
    return "body" in node.params and any(map(runs_python, node.params["body"].nodes))
