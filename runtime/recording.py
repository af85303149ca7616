"""One run of the user's Python: recorded, differentiated, and ready to be given a kernel.

``record`` runs the function on traced arguments and returns a ``Recording``: the simplified graph (results, then gradients), its
canonical form, and how the results are put together again.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optree

from ..codegen.adjoint import vjp
from ..codegen.canonical import Canonical, canonicalise
from ..codegen.simplify import simplify
from ..tracer import npapi  # noqa: F401  (fills the tables of NumPy functions)
from ..tracer.array import TracedArray, to_atom
from ..tracer.errors import DifferentiationError
from ..tracer.ir import Atom, Graph, Lit, Var, structural
from ..tracer.recorder import Recorder, recording
from ..tracer.site import at_site
from .calls import ARRAY, FLOAT, OBJECT, SCALAR, Call
from .state import Snapshot, StatePlan

VALUE, GRAD, VALUE_AND_GRAD = "value", "grad", "value_and_grad"


@dataclass(slots=True, frozen=True)
class Mode:
    """What is asked of a function: its value, its gradient with respect to *argnums*, or both."""

    kind: str
    argnums: int | tuple[int, ...] = 0
    has_aux: bool = False

    @property
    def positions(self) -> tuple[int, ...]:
        return (self.argnums,) if isinstance(self.argnums, int) else self.argnums


@dataclass(slots=True)
class Recording:
    graph: Graph
    canonical: Canonical
    arguments: int                # graph inputs that are arguments or captured arrays; the rest are constants
    captured: list[np.ndarray]    # the captured arrays among them, as they were
    assemble: Callable[[Sequence[Any]], Any] | None  # results -> what the user gets; None: the tuple (or the only result) as it is
    single: bool                  # one result, handed over bare
    statics: tuple[Any, ...]      # results that are no data, compared when a recording is verified
    changes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    forward: int = 0              # nodes of the forward program, the rest are the adjoint

    def same_program(self, other: Recording) -> bool:
        """Do two recordings denote the same computation, constants included?"""
        a, b = self.canonical, other.canonical
        return (
            a.key == b.key
            and a.sizes.tobytes() == b.sizes.tobytes()
            and a.consts.tobytes() == b.consts.tobytes()
            and len(self.graph.consts) == len(other.graph.consts)
            and all(x.tobytes() == y.tobytes() for (_, x), (_, y) in zip(self.graph.consts, other.graph.consts, strict=True))
            and _equal_statics(self.statics, other.statics)
        )


def _equal_statics(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(type(x) is type(y) and _equal(x, y) for x, y in zip(a, b, strict=True))


def _equal(x: Any, y: Any) -> bool:
    if x is y:
        return True
    if isinstance(x, np.ndarray):
        return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()
    if isinstance(x, float):
        return np.float64(x).tobytes() == np.float64(y).tobytes()
    return isinstance(x, (int, str, bytes, bool, np.generic)) and bool(x == y)


def record(fn: Callable[..., Any], call: Call, mode: Mode, plan: StatePlan, snapshot: Snapshot, frozen: bool) -> Recording:
    """Run *fn* on traced arguments.  With *frozen*, captured arrays become inputs and branches become guards, so that the result can be
    replayed; otherwise Python runs each time and only the kernel is kept."""
    clock = time.perf_counter()
    recorder = Recorder()
    names = _leaf_names(fn, call)
    leaves, wrt_vars = list(call.leaves), {}
    for k, (leaf, kind) in enumerate(zip(call.leaves, call.kinds, strict=True)):
        if kind in (ARRAY, FLOAT, SCALAR):
            var = recorder.add_input(leaf, f"the argument `{names[k]}`", weak=kind == FLOAT)
            leaves[k] = TracedArray(var, recorder, owner=f"the argument `{names[k]}`")
            wrt_vars[k] = var
    wrt = _differentiated(call, mode, names) if mode.kind != VALUE else []
    arguments = len(recorder.inputs)
    stand_ins: dict[int, TracedArray] = {}
    if frozen:
        for array, name in zip(snapshot.arrays, snapshot.array_names, strict=True):
            stand_in = TracedArray(recorder.add_input(array, f"`{name}`"), recorder, owner=f"`{name}`, an array from outside the function")
            stand_ins[id(array)] = recorder.captured[id(array)] = stand_in
    captured = list(snapshot.arrays) if frozen else []
    changes: list[str] = []
    with recording(recorder):
        with plan.watch():
            if frozen:
                substitution = plan.substitute(lambda array, name: stand_ins[id(array)], call.objects, snapshot)
                _replace_objects(call, leaves, substitution.objects)
                args, kwargs = call.rebuild(leaves)
                out = substitution.fn(*args, **kwargs)
                changes = list(substitution.changes())
                if changes:
                    substitution.writeback(lambda value: recorder.value(value.atom).copy() if isinstance(value, TracedArray) else value)
            else:
                args, kwargs = call.rebuild(leaves)
                out = fn(*args, **kwargs)
        ran = time.perf_counter()
        forward = len(recorder.nodes)
        atoms, assemble, single, statics = _outputs(fn, out, mode, call, recorder, wrt, wrt_vars)
    if frozen and not changes:
        changes = plan.changes(snapshot, plan.snapshot(call.objects))
    if not frozen:
        recorder.guards.clear()
    graph = simplify(recorder.finish(atoms))
    derived = time.perf_counter()
    canonical = canonicalise(graph)
    done = time.perf_counter()
    return Recording(
        graph, canonical, arguments + len(captured), captured, assemble, single, statics, changes,
        {"record": ran - clock, "derive": derived - ran, "sign": done - derived}, forward,
    )  # fmt: skip


def _replace_objects(call: Call, leaves: list[Any], objects: Sequence[Any]) -> None:
    replaced = iter(objects)
    for k, kind in enumerate(call.kinds):
        if kind == OBJECT:
            leaves[k] = next(replaced)


def _leaf_names(fn: Callable[..., Any], call: Call) -> list[str]:
    """How the user would write each leaf: ``w``, ``params['b1']``."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = []
    for accessor in optree.treespec_accessors(call.tree):
        path = list(accessor)
        if path[0].entry == 0:
            position = path[1].entry
            named = position < len(parameters) and parameters[position].kind is not inspect.Parameter.VAR_POSITIONAL
            root = parameters[position].name if named else f"argument {position}"
        else:
            root = str(path[1].entry)
        names.append(root + "".join(f".{p.entry}" if hasattr(p, "field") else f"[{p.entry!r}]" for p in path[2:]))
    return names


# ---- differentiation -----------------------------------------------------------------------------------------------


def positions_of(call: Call) -> list[int]:
    """For each leaf the positional argument that it belongs to (-1: a keyword argument)."""
    return [list(path)[1] if list(path)[0] == 0 else -1 for path in optree.treespec_paths(call.tree)]


def _differentiated(call: Call, mode: Mode, names: Sequence[str]) -> list[int]:
    """The leaves that gradients are taken of."""
    owners = positions_of(call)
    count = len(optree.treespec_children(optree.treespec_children(call.tree)[0]))
    result = []
    for position in mode.positions:
        actual = position + count if position < 0 else position
        if not 0 <= actual < count:
            raise DifferentiationError(at_site(f"argnums={mode.argnums}: the call has {count} positional arguments; pass what is differentiated by position"))
        mine = [k for k, o in enumerate(owners) if o == actual]
        for k in mine:
            leaf, kind = call.leaves[k], call.kinds[k]
            dtype = getattr(leaf, "dtype", None)
            if kind in (FLOAT, SCALAR) or (kind == ARRAY and leaf.dtype.kind == "f"):
                continue
            what = f"an array of {dtype}" if kind == ARRAY else f"{type(leaf).__name__} {leaf!r}" if kind != OBJECT else f"an object of type {type(leaf).__name__}"
            remedy = "x.astype(float)" if kind == ARRAY else f"{leaf}.0" if isinstance(leaf, int) and not isinstance(leaf, bool) else "a float or a float array"
            raise DifferentiationError(
                at_site(f"cannot differentiate with respect to `{names[k]}`, {what}: only floats have gradients; pass {remedy}, or choose other argnums")
            )
        result += mine
    return result


def _outputs(
    fn: Any, out: Any, mode: Mode, call: Call, recorder: Recorder, wrt: Sequence[int], wrt_vars: dict[int, Var]
) -> tuple[list[Atom], Any, bool, tuple[Any, ...]]:
    """(atoms of the graph's outputs, assembler, single, static results)."""
    if mode.kind == VALUE:
        atoms, build, statics = _tree_outputs(out)
        bare = len(atoms) == 1 and build is None
        return atoms, build, bare, statics
    aux: Any = None
    if mode.has_aux:
        if not (isinstance(out, tuple) and len(out) == 2):
            raise DifferentiationError(at_site(f"has_aux=True needs a function that returns (loss, aux), but {_name(fn)} returned {type(out).__name__}"))
        out, aux = out
    loss = scalar_loss(fn, out)
    gradients = vjp(list(recorder.nodes), loss, structural(1, loss.aval.dtype), [wrt_vars[k] for k in wrt])
    aux_atoms, build_aux, statics = _tree_outputs(aux) if mode.has_aux else ([], None, ())
    unflatten = gradient_builder(call, mode, wrt)
    n, with_value = len(gradients), mode.kind == VALUE_AND_GRAD
    if not mode.has_aux:
        if with_value:
            plain = unflatten is None and n == 1
            assemble = None if plain else lambda r: (r[0], unflatten(r[1:]) if unflatten else r[1])
            return [loss, *gradients], assemble, False, statics
        assemble = None if unflatten is None else lambda r: unflatten(r)
        return list(gradients), assemble, n == 1 and unflatten is None, statics

    def with_aux(r: Sequence[Any]) -> Any:
        tail = r[n + 1 :] if with_value else r[n:]
        extra = build_aux(tail) if build_aux else tail[0]
        grads = r[1 : n + 1] if with_value else r[:n]
        tree = unflatten(grads) if unflatten else grads[0]
        return ((r[0], extra), tree) if with_value else (tree, extra)

    return [*([loss] if with_value else []), *gradients, *aux_atoms], with_aux, False, statics


def scalar_loss(fn: Any, out: Any) -> Atom:
    """*out* as the scalar that is differentiated, or a clear error."""
    if isinstance(out, (TracedArray, float, int, np.generic)) and not isinstance(out, bool):
        atom = to_atom(out)
        if atom.aval.shape == () and atom.aval.dtype.kind == "f":
            return atom
        if atom.aval.shape == () and isinstance(atom, Lit):
            return Lit(atom.value, np.dtype("float64"))
        if atom.aval.shape == ():
            raise DifferentiationError(at_site(f"{_name(fn)} returned {atom.aval.dtype}, which has no gradient; return a float"))
        found = f"an array of shape {atom.aval.shape}"
    else:
        found = type(out).__name__
    hint = "return (loss, aux) with has_aux=True" if isinstance(out, tuple) else "reduce it with np.sum(...) or np.mean(...)"
    raise DifferentiationError(at_site(f"a gradient needs a scalar loss, but {_name(fn)} returned {found}: {hint}"))


def _name(fn: Any) -> str:
    return getattr(fn, "__qualname__", None) or repr(fn)


def gradient_builder(call: Call, mode: Mode, wrt: Sequence[int]) -> Callable[[Sequence[Any]], Any] | None:
    """How flat gradients become trees like the arguments; None where there is one, for a bare array or float."""
    children = optree.treespec_children(optree.treespec_children(call.tree)[0])
    trees = [children[p] for p in mode.positions]
    if isinstance(mode.argnums, int):
        tree = trees[0]
        if optree.treespec_is_leaf(tree):
            return None
        return lambda flat: optree.tree_unflatten(tree, flat)
    if all(optree.treespec_is_leaf(t) for t in trees):
        return tuple
    counts = [t.num_leaves for t in trees]

    def build(flat: Sequence[Any]) -> Any:
        result, at = [], 0
        for tree, count in zip(trees, counts, strict=True):
            result.append(optree.tree_unflatten(tree, flat[at : at + count]))
            at += count
        return tuple(result)

    return build


def _tree_outputs(out: Any) -> tuple[list[Atom], Callable[[Sequence[Any]], Any] | None, tuple[Any, ...]]:
    """(atoms, builder or None for a bare traced result, static leaves) of a result tree."""
    if isinstance(out, TracedArray):
        return [out.atom], None, ()
    leaves, tree = optree.tree_flatten(out, none_is_leaf=True)
    atoms: list[Atom] = []
    statics: list[Any] = []
    slots: list[tuple[bool, int]] = []
    for leaf in leaves:
        if isinstance(leaf, TracedArray):
            slots.append((True, len(atoms)))
            atoms.append(leaf.atom)
        elif isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fiub":
            slots.append((True, len(atoms)))
            atoms.append(to_atom(leaf))
        else:
            slots.append((False, len(statics)))
            statics.append(leaf)
    fixed = tuple(statics)

    def build(results: Sequence[Any]) -> Any:
        return optree.tree_unflatten(tree, [results[i] if data else fixed[i] for data, i in slots])

    return atoms, build, fixed
