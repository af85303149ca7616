"""``checkpoint``: values of a function are computed again for its derivative, and not kept until then.

The function is recorded as a graph, whose pullback is a graph too (``codegen/derive/pullback.py``): it computes the
function's values again from the operands, but for those that the policy saves, which are operands of the rule.  The
operands have new names there, so that no value is the one from before.  In the body of a loop the residuals of a step
are then the operands and what was saved (``codegen/derive/residual_cut.py``), elsewhere buffers end with the function.

What is inside a kernel's loop is computed again anyway, where that costs less than memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from ..control.sub_program import FunctionRecorder
from ..ir.aval import Aval
from ..ir.equality import same_graph
from ..ir.errors import BadIndexError, DifferentiationError, UnsupportedError, need_function, unrecordable
from ..ir.graph import Atom, Graph, Lit, Node, Var, building, current_builder, live_nodes, structural
from ..ir.primitive import LOOP, PRIMITIVES, PRODUCT
from ..ir.site import user_site
from ..ir.trees import tree_flatten, tree_map, tree_unflatten
from ..numpy_api.hooks import holds_traced
from ..ops.closure_conversion import closed, inlined
from ..ops.complex import by_lane, put_together, taken_apart
from ..ops.custom import custom_vjp as named_anew
from ..ops.elementwise import F, broadcast_to
from ..ops.host_call import derivatives
from ..ops.shape import zeros
from ..record.array import TracedArray, to_atom
from ..record.recorder import Recorder, current_recorder, recording
from .arguments import P, R, is_data, positional, positions_of
from .custom_rules import traced

Function = Callable[..., Any]
# of a primitive, the avals of its operands and its params: whether its results are saved
Policy = Callable[..., bool]


# ---- policies --------------------------------------------------------------------------------------------------------


def everything_saveable(prim: Any, *avals: Any, **params: Any) -> bool:
    """As without ``checkpoint``."""
    return True


def nothing_saveable(prim: Any, *avals: Any, **params: Any) -> bool:
    """Only the arguments: the default."""
    return False


def dots_saveable(prim: Any, *avals: Any, **params: Any) -> bool:
    """Results of matrix products."""
    return prim.kind == PRODUCT


def dots_with_no_batch_dims_saveable(prim: Any, *avals: Any, **params: Any) -> bool:
    """Results of products of matrices and vectors, not of batches of them."""
    return prim.kind == PRODUCT and all(len(a.shape) <= 2 for a in avals)


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Whatever one of two policies saves."""
    return lambda prim, *avals, **params: policy_1(prim, *avals, **params) or policy_2(prim, *avals, **params)


def save_only_these_names(*names: str) -> Policy:
    """Values that ``checkpoint_name`` has given one of *names*."""
    return lambda prim, *avals, **params: params.get("name") in names and prim.name == "alias"


def save_any_names_but_these(*names: str) -> Policy:
    """Values that ``checkpoint_name`` has given a name that is none of *names*."""
    return lambda prim, *avals, **params: prim.name == "alias" and params.get("name") not in (None, *names)


def save_anything_except_these_names(*names: str) -> Policy:
    """All values but those that ``checkpoint_name`` has given one of *names*."""
    return lambda prim, *avals, **params: params.get("name") not in names or prim.name != "alias"


checkpoint_policies = SimpleNamespace(
    everything_saveable=everything_saveable, nothing_saveable=nothing_saveable, dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable, dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=dots_with_no_batch_dims_saveable,
    save_from_both_policies=save_from_both_policies, save_only_these_names=save_only_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_anything_except_these_names=save_anything_except_these_names,
)  # fmt: skip


# ---- checkpoint ------------------------------------------------------------------------------------------------------


def checkpoint(
    fun: Callable[P, R], *, prevent_cse: bool = True, policy: Policy | None = None, static_argnums: Any = ()
) -> Callable[P, R]:
    """*fun*, whose values are computed again where its derivative is, and are not kept until then, as
    ``jax.checkpoint``; ``remat`` is another name of it.

    :param policy: which values are kept nevertheless, one of ``tracegrad.checkpoint_policies`` or a function of a
    primitive (with ``name`` and ``kind``), the avals of its operands and its params; by default none are.
    :param prevent_cse: taken for compatibility: values of the derivative are never those from before.
    :param static_argnums: positions of arguments that are settings.  Other settings than numbers in arrays are found.
    """
    need_function("checkpoint", fun)
    static = positions_of(fun, static_argnums, ())
    if policy is not None and not callable(policy):
        raise TypeError(f"policy is one of tracegrad.checkpoint_policies or a function, not {policy!r}")

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        recorder = current_recorder()
        if recorder is None or policy is everything_saveable:
            return fun(*args, **kwargs)
        given = positional(fun, args, kwargs) if static else args
        moving = [x for k, x in enumerate(given) if k not in static]
        leaves, structure = tree_flatten((moving, {} if static else kwargs))
        places = [k for k, leaf in enumerate(leaves) if is_data(leaf)]
        if not any(type(leaf) is TracedArray for leaf in leaves):
            return fun(*args, **kwargs)

        def call(values: Sequence[Any]) -> Any:
            filled = dict(zip(places, values, strict=True))
            moved, named = tree_unflatten(structure, [filled.get(k, leaf) for k, leaf in enumerate(leaves)])
            rest = iter(moved)
            return fun(*[x if k in static else next(rest) for k, x in enumerate(given)], **named)

        name = getattr(fun, "__name__", "a function")
        return _Region(recorder, f"checkpoint of {name}", call, [leaves[k] for k in places]).result(
            policy or nothing_saveable
        )

    return wrapped


remat = checkpoint


def checkpoint_name(x: Any, name: str) -> Any:
    """*x*, an array, a number or a tree of them, whose values have a *name* for policies
    (``checkpoint_policies.save_only_these_names``), as ``jax.ad_checkpoint.checkpoint_name``.

        def layer(w, x): return np.tanh(checkpoint_name(w @ x, "product"))
        layer = tracegrad.checkpoint(layer, policy=tracegrad.checkpoint_policies.save_only_these_names("product"))
    """

    def named(leaf: Any) -> Any:
        if type(leaf) is not TracedArray:
            return leaf
        return traced(by_lane(functools.partial(F.alias, name=name), leaf.atom), leaf)

    return tree_map(named, x)


_HOLDS = (
    "the {} returned an object of {}, which holds values that are to be computed again: return them in "
    "tuples, lists and dicts, and make the object of them outside"
)


class _Region:
    """A checkpointed call as a graph of the lanes of its operands, then of what it closes over."""

    def __init__(self, recorder: Recorder, what: str, call: Function, operands: Sequence[Any]) -> None:
        self.recorder, self.what = recorder, what
        self.error: Callable[[], Exception] | None = None
        atoms = [to_atom(x) for x in operands]
        try:
            self._record(call, operands, atoms)
        except UnsupportedError as error:
            if recorder.parent is not None or recorder.arms:
                raise
            unrecordable.discard(error)  # it asks for values: the nodes of the run
            self._run(call, operands, atoms)

    def _record(self, call: Function, operands: Sequence[Any], atoms: Sequence[Atom]) -> None:
        body = FunctionRecorder(self.recorder, 0, self.what)
        given = [body.fresh(x.aval) if x.aval.is_complex else body.variable(x.aval) for x in atoms]
        with recording(body):
            outputs = self._flattened(call([traced(v, x) for v, x in zip(given, operands, strict=True)]))
            if body.checks:
                site, what = user_site(), self.what
                held = [functools.reduce(_both, body.checks)]
                index = lambda: BadIndexError.here(f"an index in the {what} is out of bounds", site)  # noqa: E731
                self.error = body.error(index)
            else:
                held = []
        with building(self.recorder):
            found = body.close(taken_apart(given), {}, [*outputs, *held])  # type: ignore[arg-type]
        self.graph, self.inputs, self.consts = found.graph, [*found.consts, *taken_apart(atoms)], len(found.consts)

    def _run(self, call: Function, operands: Sequence[Any], atoms: Sequence[Atom]) -> None:
        recorder = self.recorder
        start = len(recorder.nodes)
        given = [recorder_alias(recorder, x) for x in taken_apart(atoms)]
        values = put_together(given, atoms)
        outputs = self._flattened(call([traced(v, x) for v, x in zip(values, operands, strict=True)]))
        nodes = live_nodes(recorder.nodes[start + len(given) :], outputs)
        self.graph, consts = closed(nodes, outputs, given)
        self.inputs, self.consts = [*consts, *taken_apart(atoms)], len(consts)

    def _flattened(self, result: Any) -> list[Atom]:
        self.leaves, self.structure = tree_flatten(result)
        self.places = [k for k, leaf in enumerate(self.leaves) if is_data(leaf)]
        for k in {*range(len(self.leaves))}.difference(self.places):
            if holds_traced(self.leaves[k]):
                raise UnsupportedError.here(_HOLDS.format(self.what, type(self.leaves[k]).__name__))
        self.outs = [to_atom(self.leaves[k]) for k in self.places]
        return taken_apart(self.outs)

    def result(self, policy: Policy) -> Any:
        """The result of the call, with its derivative."""
        graph, known = self.graph, dict[Atom, Atom](zip(self.graph.inputs, self.inputs, strict=True))
        saved: list[Var] = []
        for node in graph.nodes:
            inputs = tuple([known.get(a, a) for a in node.inputs])
            known.update(zip(node.outs, self.recorder.emit(node.prim, inputs, node.params), strict=False))
            if node.prim.kind != LOOP and policy(node.prim, *[a.aval for a in node.inputs], **node.params):
                saved += node.outs
        found = [known.get(a, a) for a in graph.outputs]
        if self.error is not None:
            self.recorder.rely(found.pop(), self.error)
            graph = Graph(graph.inputs, graph.nodes, graph.outputs[:-1])
        floats = [k for k, x in enumerate(found) if x.aval.is_float and isinstance(x, Var)]
        if floats:
            graph = Graph(graph.inputs, graph.nodes, [graph.outputs[k] for k in floats])
            rule, push = (of(self.what, graph, tuple(saved), self.consts) for of in (Recomputed, Pushed))
            operands = [*self.inputs, *[known[v] for v in saved]]
            for k, out in zip(floats, named_anew([found[k] for k in floats], operands, rule, push), strict=True):  # type: ignore[misc]
                found[k] = out
        leaves = list(self.leaves)
        for k, atom in zip(self.places, put_together(found, self.outs), strict=True):
            leaves[k] = traced(atom, leaves[k])
        return tree_unflatten(self.structure, leaves)


def _both(x: Any, y: Any) -> Any:
    return current_builder().emit(PRIMITIVES["logical_and"], (x, y), {})[0]


def recorder_alias(builder: Any, atom: Atom) -> Var:
    """*atom* under a name that nothing else has."""
    alias = Var(atom.aval)
    builder.append(Node(PRIMITIVES["alias"], (atom,), {}, (alias,), builder.site()))
    return alias


# ---- rules -----------------------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Recomputed:
    """The pullback of ``graph``, which computes its values again but for the ``saved`` ones; operands of the rule are
    the inputs, of which ``consts`` are what the function closes over, then these."""

    what: str
    graph: Graph
    saved: tuple[Var, ...]
    consts: int
    _pulled: dict[Any, Graph] = field(default_factory=dict)
    closed = True

    def __call__(self, cts: Sequence[Atom | None], outs: Sequence[Var], atoms: Sequence[Atom]) -> list[Any]:
        wrt = [k for k, x in enumerate(self.graph.inputs) if isinstance(atoms[k], Var) and x.aval.is_float]
        found: list[Any] = [None] * len(atoms)
        try:
            cotangents = self._cotangents(wrt, cts, atoms)
        except DifferentiationError:  # perhaps with respect to what nobody wants: a constant that a rule closes over
            operands = [k for k in wrt if k >= self.consts]
            for group in ([operands] if operands else []) + [[k] for k in wrt if k < self.consts]:
                lazy = functools.cache(functools.partial(self._cotangents, group, cts, atoms))
                for k in group:
                    found[k] = functools.partial(_one_of, lazy, k)
            return found
        for k, ct in cotangents.items():
            found[k] = ct
        return found

    def _cotangents(self, wrt: Sequence[int], cts: Sequence[Atom | None], atoms: Sequence[Atom]) -> dict[int, Atom]:
        """The cotangents of the inputs *wrt*, by number."""
        count = len(self.graph.inputs)
        inputs, saved = atoms[:count], list(atoms[count:])
        graph = derivatives[0].limited(self.graph, inputs)
        if graph is self.graph:
            pulled = self._pullback(wrt)
        else:  # loops whose capacity belongs to these values
            pulled, saved = derivatives[0].pullback(graph, wrt), []
        builder = current_builder()
        renamed = [recorder_alias(builder, x) if isinstance(x, Var) else x for x in inputs]
        seeds = [_materialised(ct, x.aval) for ct, x in zip(cts, self.graph.outputs, strict=True)]
        return dict(zip(wrt, inlined(pulled, [*renamed, *saved, *seeds]), strict=True))

    def _pullback(self, wrt: Sequence[int]) -> Graph:
        key = tuple(wrt)
        if key not in self._pulled:
            pulled, count = derivatives[0].pullback(self.graph, wrt), len(self.graph.inputs)
            kept = set(self.saved)
            nodes = [n for n in pulled.nodes if kept.isdisjoint(n.outs)]
            inputs = [*pulled.inputs[:count], *self.saved, *pulled.inputs[count:]]
            self._pulled[key] = Graph(inputs, live_nodes(nodes, pulled.outputs), pulled.outputs)
        return self._pulled[key]

    def _places(self) -> list[tuple[int, int]]:
        where = {out: (j, i) for j, node in enumerate(self.graph.nodes) for i, out in enumerate(node.outs)}
        return [where[v] for v in self.saved]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not type(self):
            return False
        return self._places() == other._places() and same_graph(self.graph, other.graph)

    def __hash__(self) -> int:
        return hash((self.what, len(self.graph.nodes), len(self.saved)))


class Pushed(Recomputed):
    """The pushforward of ``graph``: forward mode keeps nothing."""

    __slots__ = ()

    def __call__(self, tangents: Sequence[Atom | None], outs: Sequence[Var], atoms: Sequence[Atom]) -> list[Any]:
        count = len(self.graph.inputs)
        moving = [k for k in range(count) if tangents[k] is not None]
        key = tuple(moving)
        if key not in self._pulled:
            self._pulled[key] = derivatives[0].pushforward(self.graph, moving)
        given = [_materialised(tangents[k], atoms[k].aval) for k in moving]
        return inlined(self._pulled[key], [*atoms[:count], *given])


def _one_of(found: Callable[[], dict[int, Atom]], k: int) -> Atom:
    return found()[k]


def _materialised(x: Atom | None, aval: Aval) -> Atom:
    if x is None:
        return zeros(aval.shape, aval.dtype) if aval.shape else structural(0, aval.dtype)
    return broadcast_to(x, aval.shape) if isinstance(x, Lit) and aval.shape else x


__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "remat"]
