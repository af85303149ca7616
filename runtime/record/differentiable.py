"""Selection of the loss and of the arguments to differentiate, with errors in the user's names.

The loss is what the function returned; the arguments are leaves of the call, which ``leaf_names`` names as the user
would write them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import optree

from ...tracer.ir.aval import COMPLEX, FLOAT_KINDS, INEXACT_KINDS
from ...tracer.ir.errors import DifferentiationError
from ...tracer.ir.graph import Atom, Lit, Node, Var, lanes, live_nodes, read_vars
from ...tracer.ops.elementwise import cast
from ...tracer.record.array import TracedArray, to_atom
from ...tracer.record.undecided import Undecided
from ..mode import Mode
from ..stats import short_name
from .arguments import positional_names
from .call_key import ARRAY, COMPLEX_DATA, FLOAT, OBJECT, SCALAR, TRACED, Call
from .outputs import Whole
from .plain_objects import is_object
from .trees import Source, packing


def leaf_names(fn: Callable[..., Any], call: Call) -> Sequence[str]:
    """The user's expression for each leaf: ``w``, ``params['b1']``."""
    return _leaf_names(tuple(positional_names(fn)), call.tree)


@lru_cache(maxsize=1024)
def _leaf_names(parameters: Sequence[str], tree: Any) -> Sequence[str]:
    names = []
    for accessor in optree.treespec_accessors(tree):
        path = list(accessor)
        if path[0].entry == 0:
            position = path[1].entry
            root = parameters[position] if position < len(parameters) else f"argument {position}"
        else:
            root = str(path[1].entry)
        names.append(root + "".join(f".{p.entry}" if _is_attribute(p) else f"[{p.entry!r}]" for p in path[2:]))
    return tuple(names)


@lru_cache(maxsize=1024)
def leaf_rows(tree: Any) -> Sequence[tuple[Any, ...]]:
    """The ways to the leaves, without places in lists: equal for one list, or for one place of the records in it."""
    ways = optree.treespec_accessors(tree)
    return tuple([tuple([None if p.type is list else p.entry for p in way]) for way in ways])


def _is_attribute(entry: Any) -> bool:
    return hasattr(entry, "field") or isinstance(entry, optree.GetAttrEntry)


def differentiated(call: Call, mode: Mode, names: Sequence[str]) -> list[int]:
    """The leaves that gradients are taken of."""
    owned = _owned(call)
    in_object = fields_of(call.tree)
    specs = call.positional  # asked once: to find them, all arguments are hashed
    count = len(specs)
    result, before = [], set[int]()
    for position in mode.positions:
        actual = position + count if position < 0 else position
        if not 0 <= actual < count:
            raise DifferentiationError.here(
                f"argnums={mode.argnums}: the call has {count} positional argument{'s' * (count != 1)}; "
                "pass what is differentiated by position"
            )
        if actual in before:
            raise DifferentiationError.here(f"argnums={mode.argnums} names argument {actual} twice: name it once")
        before.add(actual)
        mine = owned.get(actual, [])
        taken = []
        for k in mine:
            leaf, kind = call.leaves[k], call.kinds[k]
            takes = _has_gradient(leaf, kind)
            is_complex = kind == COMPLEX_DATA or (type(leaf) is TracedArray and leaf.aval.is_complex)
            if mode.holomorphic and (takes or in_object[k] is None) and not is_complex:
                raise DifferentiationError.here(
                    f"holomorphic=True needs complex arguments, but `{names[k]}` is not: pass it + 0j"
                )
            if takes:
                taken += [k] if k not in call.repeated else []
                continue
            owner = in_object[k]
            if owner is not None and not _meant_as_float(leaf, *owner):
                continue
            what, remedy = _not_a_float(leaf, kind)
            raise DifferentiationError.here(
                f"cannot differentiate with respect to `{names[k]}`, {what}: "
                f"only floats have gradients; pass {remedy}, or choose other argnums"
            )
        spec = specs[actual]
        if not taken and (mine or is_object(spec)):
            what = f", an object of type {spec.type.__name__}" if is_object(spec) else ""
            raise DifferentiationError.here(
                f"cannot differentiate with respect to argument {actual}{what}: it has no attribute of its own that is "
                "a float or a float array; choose other argnums, or make floats of its numbers"
            )
        result += taken
    return result


def _has_gradient(leaf: Any, kind: str) -> bool:
    return kind in (FLOAT, SCALAR, COMPLEX_DATA) or (kind in (ARRAY, TRACED) and leaf.dtype.kind in INEXACT_KINDS)


@lru_cache(maxsize=1024)
def fields_of(spec: Any, field: tuple[type, str] | None = None) -> tuple[tuple[type, str] | None, ...]:
    """For each leaf the attribute of a plain object that it is of, as (class, name); None outside of such objects."""
    if spec.kind == optree.PyTreeKind.LEAF:
        return (field,)
    if spec.kind == optree.PyTreeKind.NONE:
        return ()
    own = [(spec.type, name) if is_object(spec) else field for name in spec.entries()]
    return tuple([x for child, one in zip(spec.children(), own, strict=True) for x in fields_of(child, one)])


def _meant_as_float(leaf: Any, cls: type, name: str) -> bool:
    """Whether a leaf that is an int stands in an attribute that is declared to be a float."""
    annotations = [vars(c).get("__annotations__", {}) for c in cls.__mro__]
    declared = next((found[name] for found in annotations if name in found), None)
    return type(leaf) is int and declared in (float, "float", np.float64, "np.float64")


def _not_a_float(leaf: Any, kind: str) -> tuple[str, str]:
    if kind in (ARRAY, TRACED):
        return f"an array of {leaf.dtype}", "x.astype(float)"
    if kind == OBJECT:
        if hasattr(type(leaf), "__array__"):
            return f"an object of type {type(leaf).__module__}.{type(leaf).__name__}", "np.asarray(x)"
        return (
            f"an object of type {type(leaf).__name__}",
            "its arrays as arguments of their own (or register the class with optree)",
        )
    remedy = f"{leaf}.0" if isinstance(leaf, int) and not isinstance(leaf, bool) else "a float or a float array"
    return f"{type(leaf).__name__} {leaf!r}", remedy


def unlabelled(out: Any) -> Any:
    """A result, or a loss with an aux value, whose loss is the array in a ``DataArray`` of xarray."""
    if type(out) is tuple and len(out) == 2:
        return unlabelled(out[0]), out[1]
    return out.data if type(out).__module__.partition(".")[0] == "xarray" else out


def scalar_loss(fn: Any, out: Any) -> Atom:
    """*out* as the scalar that is differentiated, or a clear error."""
    out = out.of_rank(2) if type(out) is Undecided else out.value if type(out) is Whole else out
    if isinstance(out, (TracedArray, float, int, complex, np.generic, np.ndarray)) and not isinstance(out, bool):
        atom = to_atom(out)
        if atom.aval.shape == () and atom.aval.dtype.kind in FLOAT_KINDS:
            return atom
        if atom.aval.shape == () and isinstance(atom, Lit) and not isinstance(out, np.bool_):
            return Lit(atom.value, np.dtype("float64"))
        if atom.aval.shape == () and atom.aval.is_complex:
            raise DifferentiationError.here(
                f"{name_of(fn)} returned a complex number, and a gradient needs a real loss: return np.abs(z)**2, or "
                "np.real(z); of a holomorphic function grad(f, holomorphic=True) is the derivative"
            )
        if atom.aval.shape == ():
            raise DifferentiationError.here(
                f"{name_of(fn)} returned {atom.aval.dtype}, which has no gradient; return a float"
            )
        found = f"an array of shape {atom.aval.shape}"
    else:
        found = "None" if out is None else type(out).__name__
    hint = (
        "return (loss, aux) with has_aux=True" if isinstance(out, tuple)
        else "is a return missing?" if out is None
        else "reduce it with np.sum(...) or np.mean(...)" if isinstance(out, (TracedArray, np.ndarray, list))
        else "return the loss, a number or an array with one element"
    )  # fmt: skip
    raise DifferentiationError.here(f"a gradient needs a scalar loss, but {name_of(fn)} returned {found}: {hint}")


def loss_of(fn: Any, out: Any, mode: Mode) -> tuple[Atom, Atom]:
    """(the value of *out*, the scalar that is differentiated): of a holomorphic function its real part, whose gradient
    is the derivative."""
    if not mode.holomorphic:
        loss = scalar_loss(fn, out)
        return loss, loss
    atom = to_atom(out) if isinstance(out, (TracedArray, complex, np.complexfloating)) else None
    if atom is None or atom.aval.shape or not atom.aval.is_complex:
        raise DifferentiationError.here(
            f"holomorphic=True needs a function that returns one complex number, but {name_of(fn)} returned "
            + (type(out).__name__ if atom is None else f"{atom.aval.dtype} of shape {atom.aval.shape}")
        )
    return atom, cast(lanes(atom)[0], COMPLEX[atom.aval.dtype])


def unconnected(nodes: Sequence[Node], loss: Atom, wrt: Sequence[Var]) -> list[int]:
    """The positions in *wrt* of the variables that *loss* does not depend on, in any way."""
    used = read_vars(live_nodes(nodes, [loss]), [loss])
    return [k for k, var in enumerate(wrt) if var not in used]


def unconnected_text(fn: Any, names: Sequence[str]) -> str:
    """The warning about a loss that depends on none of the leaves called *names*."""
    listed = " or ".join([f"`{name}`" for name in names])
    return (
        f"the loss that {name_of(fn)} returns does not depend on {listed}, so its gradient is 0: was it made from a "
        "plain number, as int(), round(), a text or a comparison gives?"
    )


def split_aux(fn: Any, out: Any) -> tuple[Any, Any]:
    """(loss, aux) of a function with ``has_aux``."""
    if not (isinstance(out, tuple) and len(out) == 2):
        raise DifferentiationError.here(
            f"has_aux=True needs a function that returns (loss, aux), but {name_of(fn)} returned {type(out).__name__}"
        )
    return out


def name_of(fn: Any) -> str:
    """The function's name, and where it is defined."""
    code, name = getattr(fn, "__code__", None), short_name(fn)
    return name if code is None else f"{name} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"


def gradient_text(call: Call, mode: Mode, source: Source, leaves: Iterator[str]) -> str:
    """The expression for gradients in the structure of the arguments; None for what has none in a plain object."""
    specs, owned, parts = call.positional, _owned(call), []
    texts: dict[int, str] = {}
    for p in mode.positions:
        mine = owned.get(p % len(specs), [])
        for k in mine:
            known = texts.get(call.repeated.get(k, -1))
            texts[k] = known or (next(leaves) if _has_gradient(call.leaves[k], call.kinds[k]) else "None")
        parts.append(packing(source, specs[p], iter([texts[k] for k in mine])))
    return parts[0] if isinstance(mode.argnums, int) else f"({', '.join(parts)}{',' if parts else ''})"


def _owned(call: Call) -> dict[int, list[int]]:
    """The leaves of each positional argument."""
    found: dict[int, list[int]] = {}
    for k, owner in enumerate(call.owners):
        found.setdefault(owner, []).append(k)
    return found
