"""The recorder: a builder that knows the user's line, the real inputs, and the guards of control flow.

Nothing is computed while recording.  Shapes and dtypes are known, so errors rise at the user's line; a *value* is
computed only when Python asks for one (``if``, ``float()``, ``while``), and becomes a guard.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ..ir.aval import Aval, check_dtype
from ..ir.errors import TracegradError, UnsupportedError, unrecordable
from ..ir.evaluate import HOST, Env, Producers, as_held, as_stored, demand, params_of
from ..ir.graph import (
    Atom,
    Builder,
    Graph,
    Guard,
    Lit,
    Node,
    Pair,
    Var,
    any_complex,
    building,
    lanes,
    live_nodes,
    pairs_exist,
    read_vars,
)
from ..ir.interrupts import kept
from ..ir.primitive import LEAKING, PRIMITIVES, Primitive
from ..ir.refusals import Reason, Refusal
from ..ir.site import Site, user_site
from ..ops.complex import real_atoms
from ..ops.control import CAPACITY
from ..ops.host_call import HOST_CALL, unrecorded
from ..ops.loop_pruning import prune_loops
from .float_errors import UNWATCHED, raising, settings
from .python_numbers import Number, note_number, numbers_of
from .recorder_parts import (
    CallersObjects,
    Chosen,
    Constants,
    Dependents,
    Drawn,
    Left,
    LoopState,
    OutsideAnswers,
    Premise,
    Question,
    StandIns,
    Taught,
    copied,
)
from .retry import Options, Retry, chosen_anew
from .run_settings import RunSettings

_TRUE = Lit(True, np.dtype(bool), structural=True)
_PRESUMED = "what an operation presumes holds", "what an operation presumes does not hold"


@dataclass(slots=True)
class Origin:
    """The making of atoms that depend on no argument: ``nodes`` over the inputs ``sources`` and ``constants``.
    ``captured``: the arrays from outside behind it all."""

    nodes: list[Node]
    sources: list[Var]
    constants: dict[Var, np.ndarray]
    captured: frozenset[Var]


class Recorder(RunSettings, Builder):
    """One recording.  ``env`` holds the inputs' values and whatever was computed on demand, where *backend* has it."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0  # and questions, those that were recorded before, too
        self.entered: Site | None = None  # the line of the user's operation that is being recorded, if known
        self.inputs: list[Var] = []
        self.input_names: list[str] = []
        self.env: Env = {}
        self.integers: set[Var] = set()  # inputs that stand for ints, which have no gradient
        self.guards: list[Guard] = []
        self.consts: list[tuple[Var, np.ndarray]] = []
        self.constants = Constants()
        self.captured: dict[int, Any] = {}  # id(outside array) -> its traced stand-in
        self.outside: dict[Var, frozenset[Var]] = {}  # inputs that no gradient is taken of -> the captured ones behind
        self.answered = OutsideAnswers()
        self.guessed: list[Any] = []  # calls whose arrays are traced ones by a guess (made_arrays.py)
        self.made: list[Any] = []  # weak references to plain arrays that such a run has made (made_arrays.py)
        self.needed: Retry | None = None  # raised in the function, whatever became of it
        self._producers = Producers()
        self._guarded: dict[tuple[Atom, str], Guard] = {}
        self.numbers: dict[Var, Number] | None = None  # known values of Python's numbers, once one was asked for
        self._from_outside = Dependents()  # values that depend on no argument
        self.premise: Premise | None = None
        self.capacities: list[int] = []  # capacities of the loops whose adjoint was taken
        self.reasons: list[Reason] = []  # reasons why this run can't be replayed
        self.caller = CallersObjects()
        self.chosen = Chosen()
        self.symbols: set[Var] = set()  # aliases that stand for their values in an iteration of a loop
        self.arms: list[Any] = []  # the arms that run now, the outermost first, which plain Python may not take
        self.left = Left()
        self.differentiated: set[Var] = set()  # constants with respect to which a derivative is being taken
        self.stand_ins = StandIns()
        self.drawn = Drawn()
        self.active = True
        self.thread = threading.get_ident()  # the one in which all of the recording happens
        self.handed: list[Any] = []  # objects that libraries were given, with traced values in them
        self.parent: Recorder | None = None  # the recording around that of a loop's body (body_recorder.py)
        self.open_loops: list[Any] = []  # marked iterations of the user's loops, the innermost last (loops/for_loop.py)
        self.loops = LoopState()
        self.taught = Taught()

    def in_another_thread(self) -> UnsupportedError:
        """The error for an operation in a thread that is not the recording's, which may have no order with its own. The
        function is refused even where nobody looks at what becomes of that thread."""
        error = UnsupportedError.here(
            "this computes with an array of a compiled function in another thread than the one that called it; "
            "compute it in that one (`map(g, xs)` in place of `pool.map(g, xs)`), or compile g and call that in "
            "the threads, outside of any compiled function"
        )
        unrecordable.add(error, self.thread)
        return error

    def site(self) -> Site | None:
        return self.site_override or self.entered or user_site()

    def emit(self, prim: Primitive, inputs: tuple[Atom, ...], params: dict[str, Any]) -> tuple[Var, ...]:
        if pairs_exist and any_complex(inputs):
            return self.emit_apart(prim, inputs, params)
        if self.arms and prim.kind in LEAKING:
            if prim is HOST_CALL:  # which may raise
                self.arms[-1].asked()
            inputs = tuple(map(self.arms[-1].masked, inputs))
        node = self.node(prim, inputs, params)
        self.operations += 1
        if settings(None) is not self.float_settings and self.float_settings is not UNWATCHED and raising():
            self._raise_float_errors(node)
        if self.numbers is not None and len(node.outs) == 1:
            note_number(self.numbers, prim, inputs, params, node.out)
        aval = node.outs[0].aval
        if aval.weak and aval.dtype.kind == "i" and (self.open_loops or self.loops.int_ranges):
            self.loops.made_int(self, node)
        return node.outs

    def _raise_float_errors(self, node: Node) -> None:
        """Compute *node* by NumPy under the user's settings, which may raise."""
        if all(out.aval.weak for out in node.outs):  # Python's own numbers
            return
        if self.arms:
            self.arms[-1].asked()
        self.unrepeatable(Refusal.CALLS_FLOAT_ERRORS)
        values = [as_held(self.backend.download(self.demand(x)), x) for x in node.inputs]
        node.prim.impl(*values, **params_of(node))

    def copy(self) -> Recorder:
        """A copy of the recording that can be rewritten independently."""
        other = copied(self)
        other._producers = Producers()
        return other

    # ---- what is taken back, and rewritten ------------------------------------------------------------------------

    def withdraw(self, guards: Collection[Guard]) -> None:
        """Take *guards* back, on which the run does not rest any more."""
        ids = {id(g) for g in guards}
        self.guards[:] = [g for g in self.guards if id(g) not in ids]
        self._guarded = {key: g for key, g in self._guarded.items() if id(g) not in ids}

    def drop_guards(self) -> None:
        """Remove all guards but those that the memory of a loop relies on."""
        self.guards[:] = [guard for guard in self.guards if guard.kind == CAPACITY]

    def forget(self, nodes: int) -> None:
        """Remove the nodes from this number on."""
        gone = set(self.nodes[nodes:])
        self._seen = {key: node for key, node in self._seen.items() if node not in gone}
        del self.nodes[nodes:]

    def rewrite(self, nodes: int, guards: int, kept: Sequence[Node], asked: Sequence[Guard]) -> None:
        """Put the nodes *kept* and the guards *asked* in the place of those from these numbers on.  Equal operations
        and questions find them from now on."""
        self.nodes[nodes:], self.guards[guards:] = kept, asked
        for node in kept:
            self.claim(node.outs)
            self.know(node)
        for guard in asked:
            self._guarded.setdefault((guard.atom, guard.kind), guard)
        self._producers.renew(nodes)
        for dependents in (self._from_outside, self.stand_ins.of_rows):
            dependents.looked = min(dependents.looked, nodes)

    def disown(self, nodes: Sequence[Node], guards: Sequence[Guard] = ()) -> None:
        """Let later operations and questions equal to these, which stay, be recorded anew."""
        for node in nodes:
            if self._seen.get(key := self.key(node)) is node:
                del self._seen[key]
        for guard in guards:
            if self._guarded.get(question := (guard.atom, guard.kind)) is guard:
                del self._guarded[question]

    def part_behind(self, roots: Sequence[Atom], nodes: int, guards: int) -> list[Node]:
        """The nodes behind *roots* and the guards, of a part that begins after so many *nodes* and *guards*, for a
        transform of it: what is equal to another node of the part is recorded anew from now on."""
        part = self.nodes[nodes:]
        found = live_nodes(part, [*roots, *[guard.atom for guard in self.guards[guards:]]])
        own = set(map(id, found))
        self.disown([node for node in part if id(node) not in own])  # a transform of the others would miss them
        return found

    def add_input(self, value: Any, name: str, *, weak: bool = False) -> Var:
        """A new graph input that stands for *value* (an array, or a float)."""
        array = self.backend.asarray(value)
        dtype = check_dtype(array.dtype, name)
        var = Var(Aval(dtype, array.shape, weak))
        self.inputs.append(var)
        self.input_names.append(name)
        self.env[var] = array
        return var

    def without_values(self, inputs: dict[Var, str]) -> None:
        """Let these inputs, by name, have no values: that one is asked for is an error."""
        self.abstract = True
        self.env = _NotAll({var: value for var, value in self.env.items() if var not in inputs})
        self.env.names = inputs

    def const(self, array: np.ndarray) -> Var:
        """An array that the user's Python made: its contents travel with the recording."""
        found, kept = self.constants.of(array, self.repeatable)  # elsewhere equal ones may be so by chance
        if found not in self.env:
            self.consts.append((found, kept))
            self.env[found] = kept
        return found

    def value(self, atom: Atom) -> Any:
        """The value of *atom* in this run as a NumPy array, computed now if need be."""
        if atom.aval.dtype.kind == "c":
            return as_complex([self.value(x) for x in lanes(atom)], atom.aval)
        return as_stored(self.backend.download(self.value_there(atom)), atom)

    def values(self, atoms: Sequence[Atom]) -> list[Any] | None:
        """The values of *atoms* in this run; None where they differ from step to step of a loop, or from row to row."""
        if any(self.stand_ins.hide(x, self.nodes) for x in atoms):
            return None
        if any(known.behind(real_atoms(atoms)) for known in self.stand_ins.tangents):
            return None
        return [self.value(x) for x in atoms]

    def value_there(self, atom: Atom) -> Any:
        """The value of *atom* in this run as an array of the backend."""
        if atom.aval.dtype.kind == "c":
            return self.backend.asarray(self.value(atom))
        for known in self.stand_ins.tangents:
            if known.behind([atom]):
                known.refuse()
        if self.stand_ins.hide(atom, self.nodes):
            raise UnsupportedError.here(
                "this needs the value of an argument of vmap, which is another one in each row of the batch; compute "
                "it outside and pass it with in_axes=None, or write it as operations on the array"
            )
        return self.demand(atom)

    def demand(self, atom: Atom) -> Any:
        """As ``value_there``, where nodes define all that *atom* depends on."""
        return demand([atom], self.nodes, self.env, self._producers, self.backend)[0]

    def presume(self, condition: Atom, *operands: Atom, evaluate: bool = True) -> bool:
        """Whether the 0-d *condition* on *operands* holds in this run, which then rests on it.  Not *evaluate*: whether
        it is known to hold.

        There is one guard for all that is presumed between two questions, so that a loop goes on without a question of
        its own in each turn."""
        if self.numbers is None:
            weak = [var for var in self.inputs if var.aval.weak] if self.backend is HOST else []
            self.numbers = numbers_of(self.nodes, {var: self.env[var].item() for var in weak})
        if self.arms:
            self.suppose(self._where_taken(condition), self.arms[0].place)
            return True
        if isinstance(condition, Lit):
            return bool(condition.value)
        if self.open_loops and self.open_loops[-1].answer(condition, False):
            return True
        known = self.numbers.get(condition)
        if known is None and evaluate:
            with self.stand_ins.asking():
                known = bool(self.value(condition))
            for x in operands:
                if isinstance(x, Var) and x in self.env and self.backend is HOST:
                    self.numbers[x] = self.env[x].item()
        if not known:
            return False
        self._add_premise(condition)
        return True

    def suppose(self, condition: Atom, place: Any) -> None:
        """Let the run rest on *condition*, without a look at it before the next question; where it does not hold, the
        choice at *place* is to be a question."""
        self._add_premise(condition, lambda: self.refuse_choice(place, Refusal.CHOICE_RAISES()))

    def rely(self, condition: Atom, error: Callable[[], Exception]) -> None:
        """Let the run rest on the 0-d *condition*: where it does not hold, *error* is raised here.

        As long as that is not so, nothing is asked here and now: there is one guard for all that is relied on between
        two questions.  Where it turns out that one does not hold the run is made again, and asks each time."""
        if self.abstract:
            return
        condition = self._where_taken(condition)
        trusts = self.trusts and self.repeatable
        with self.stand_ins.asking():
            holds = not trusts and self.repeatable and self.value(condition)
        if not trusts and not holds:
            if not self.guard(condition, "linalg"):
                raise error()
            return
        self._add_premise(condition, error if trusts else None)

    def within(self) -> Atom:
        """The predicate of the arm that runs."""
        return self.arms[-1].holds()

    def refuse_choice(self, place: Any, reason: Reason) -> NoReturn:
        """End the run, which is made again with a question at the *place* of a choice."""
        self.choices.refused.setdefault(place, reason)
        self._choose_anew()

    def written_choice(self) -> Any:
        """The choice between plain arrays of which one has been written into since; None where there is none."""
        for array, place, before in self.chosen.frozen.values():
            if before is not None and array.tobytes() != before:
                return place
        return None

    def _where_taken(self, condition: Atom) -> Atom:
        """*condition*, which need not hold where the arm that runs is not taken."""
        if not self.arms:
            return condition
        (other,) = self.emit(PRIMITIVES["logical_not"], (self.within(),), {})
        return self.emit(PRIMITIVES["logical_or"], (other, condition), {})[0]

    def _add_premise(self, condition: Atom, unmet: Callable[[], Exception] | None = None) -> None:
        before = self.premise or Premise(_TRUE, self.site())
        (atom,) = self.emit(PRIMITIVES["logical_and"], (before.atom, condition), {})
        self.premise = Premise(atom, before.site, before.unmet or unmet)

    def settle_premise(self) -> None:
        """Make a guard of what is presumed."""
        if self.premise is not None:
            (premise, site, unmet), self.premise = self.premise, None
            with self.stand_ins.asking():
                holds = unmet is None or self.value(premise)
            if unmet is not None and not holds:
                error = unmet()
                note = "a condition that the run relied on does not hold: it is made again"
                self.again(Retry(Options(note, trusts=False), error))
                raise error
            self.add_guard(Guard(premise, np.True_, "bool", site, len(self.nodes), said=_PRESUMED))

    def holds(self, flag: Atom, conditions: Sequence[Atom]) -> bool:
        """Whether *flag*, on which a guard is put, says that the *conditions* hold in all iterations of a loop."""
        with self.stand_ins.asking():
            return bool(self.value(flag))

    def add_guard(self, guard: Guard) -> None:
        """Let the run rest on *guard*, which holds in it."""
        self.operations += 1
        if self._guarded.setdefault((guard.atom, guard.kind), guard) is guard:
            self.guards.append(guard)

    def guard(self, atom: Atom, kind: str) -> Any:
        """The value of a 0-d *atom* as a NumPy scalar, with a guard on it."""
        if self.arms and not isinstance(atom, Lit):
            self.arms[-1].asked()
        if atom.aval.dtype.kind == "c":
            return as_complex([self.guard(x, kind) for x in lanes(atom)], atom.aval)[()]
        if self.open_loops and (known := self.open_loops[-1].answer(atom)) is not None:
            return np.bool_(known)
        if self.abstract and kind == "bool" and self.choices is not None and self.choices.every:
            self._want_choice()
        self.settle_premise()
        with self.stand_ins.asking():
            value = np.asarray(self.value(atom))[()]
        if not isinstance(atom, Lit):
            self.add_guard(Guard(atom, value, kind, self.site(), len(self.nodes)))
        return value

    def keep_as_key(self) -> None:
        """Note that a traced number has been hashed: what holds it is given the plain one when the run is over."""
        if self.open_loops:  # whose plain iterations have plain integers
            self.open_loops[-1].give_up("an integer of a loop is a key: the run is made again, iteration by iteration")
        recorder: Recorder | None = self
        while recorder is not None:
            recorder.left.hashed, recorder = True, recorder.parent

    def _want_choice(self) -> None:
        """End the run, which is made again with the question that is asked now as a choice, unless it can't be one."""
        site = self.site()
        if site is not None and self.choices.want((site.file, site.line)):
            self._choose_anew()

    def _choose_anew(self) -> NoReturn:
        found = chosen_anew()
        self.again(found)
        raise found.error or found

    @contextmanager
    def differentiating(self, variables: Iterable[Var]) -> Iterator[None]:
        """A context in which a derivative with respect to *variables* is being taken, be they constants."""
        before = self.differentiates, self.differentiated
        self.differentiates, self.differentiated = True, self.differentiated.union(variables)
        try:
            yield
        finally:
            self.differentiates, self.differentiated = before

    def has_gradient(self, atom: Atom) -> bool:
        """Whether *atom* may have a derivative with respect to an input."""
        if self.of_tensors:
            return False
        makers = {out: node for node in self.nodes for out in node.outs}
        stack, seen = [atom], {atom}
        while stack:
            current = stack.pop()
            if isinstance(current, Pair):
                stack += [current.re, current.im]
                continue
            if current in self.stand_ins:
                return True
            if isinstance(current, Lit) or not current.aval.is_float:
                continue
            if current in self.differentiated:
                return True
            node = makers.get(current)
            given = current in self.outside or current in self.integers
            if node is None and not given and not any(current is var for var, _ in self.consts):
                return True
            if node is not None and node.prim.name != "stop_gradient":
                stack += [x for x in node.inputs if x not in seen]
                seen.update(node.inputs)
        return False

    def ask_again(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(*args)``, a plain value that a replay asks for again."""
        found = Question(function, args, function(*args))
        if found not in self.answered.questions:
            self.answered.questions.append(found)
        return found.answer

    def origin(self, atoms: Sequence[Atom]) -> Origin | None:
        """The origin of *atoms*; None where one of them may depend on an argument, or is another one in each iteration
        of a loop."""
        recorders = [self]
        while recorders[-1].parent is not None:
            recorders.append(recorders[-1].parent)
        makers = {out: node for recorder in recorders for node in recorder.nodes for out in node.outs}
        outside = {var: captured for recorder in recorders for var, captured in recorder.outside.items()}
        consts = {var: array for recorder in recorders for var, array in recorder.consts}
        found = Origin([], [], {}, frozenset())
        stack, seen, nodes = list(atoms), set(atoms), set()
        while stack:
            current = stack.pop()
            if isinstance(current, Pair):
                stack += [current.re, current.im]
                continue
            if isinstance(current, Lit):
                continue
            node = makers.get(current)
            if any(recorder.varies(current) for recorder in recorders):
                return None
            if current in outside:
                found.sources.append(current)
                found.captured |= outside[current]
            elif current in consts:
                found.constants[current] = consts[current]
            elif node is None:
                return None
            elif node not in nodes:
                nodes.add(node)
                stack += [x for x in node.inputs if x not in seen]
                seen.update(node.inputs)
        found.nodes = [node for recorder in reversed(recorders) for node in recorder.nodes if node in nodes]
        found.sources.sort(key=list(outside).index)
        return found

    def varies(self, atom: Atom) -> bool:
        """Whether *atom* stands for another value in each row of a batch, or iteration of an open loop."""
        return atom in self.stand_ins or (bool(self.open_loops) and atom in self.symbols)

    def outside_alone(self, atoms: Sequence[Atom]) -> bool:
        """Whether *atoms* are known to depend on arrays from outside and on no argument."""
        if not self.outside or not atoms:
            return False

        def joins(node: Node, known: set[Atom]) -> bool:
            every = bool(node.inputs) and all(type(x) is Lit or x in known for x in node.inputs)
            return every and node.out not in self.stand_ins

        known = self._from_outside.of([*self.outside, *[var for var, _ in self.consts]], self.nodes, joins)
        return all(x in known for x in atoms) and not all(any(x is var for var, _ in self.consts) for x in atoms)

    def need_contents(self, origin: Origin, error: UnsupportedError) -> NoReturn:
        """End the run, which is to be made again over plain arrays; *error* tells why."""
        note = "arrays or numbers from outside are asked for as they are: the run is made again with these"
        self.again(Retry(Options(note, captured=origin.captured), error))
        raise error

    def outermost(self) -> Recorder:
        """The recording around all others."""
        return self if self.parent is None else self.parent.outermost()

    def in_force(self) -> Recorder:
        """The recorder of what is recorded now: this one, or that of a body within it."""
        current = current_recorder()
        return current if current is not None and current.outermost() is self else self

    def again(self, raised: Retry) -> None:
        """End the run by *raised*, if it is one that can be made again."""
        outermost = self.outermost()
        if outermost.repeatable and outermost.active and outermost.thread == threading.get_ident():
            outermost.needed = outermost.needed or raised
            if isinstance(raised.error, TracegradError):
                unrecordable.discard(raised.error)
            raise raised

    def refused(self, atom: Atom, error: UnsupportedError) -> UnsupportedError:
        """*error*, of code that needs the array itself; where that depends on no argument, the code can have it."""
        origin = self.origin([atom])
        if origin is not None and origin.sources:
            self.need_contents(origin, error)
        return error

    @property
    def live(self) -> bool:
        """Whether the run is made in each call, and can't be made again."""
        return self.outermost().code is not None

    def range_of(self, atom: Atom) -> tuple[int, int] | None:
        """Bounds (least, greatest) of the integer *atom*, where they are known."""
        return self.open_loops[-1].range_of(atom) if self.open_loops else None

    def unrepeatable(self, refusal: Refusal, **fields: object) -> None:
        """Note that the run must not be replayed, by a *refusal*: it does something that no guard covers.  A run that
        is dropped for that ends here, before it does this outside."""
        reason = refusal(site=user_site(), **fields)
        if reason not in self.reasons:
            self.reasons.append(reason)
        if self.ends is not None and not self.arms:
            raise self.ends(reason)

    def finish(self, outputs: list[Atom]) -> Graph:
        """The recorded program without dead nodes and constants."""
        self.settle_premise()
        self.active = False
        roots = [*outputs, *[g.atom for g in self.guards]]
        graph = Graph(list(self.inputs), live_nodes(self.nodes, roots), list(outputs), list(self.guards), self.consts)
        used = _read(graph)
        if self._reads_rows(used):  # or a loop does that is read for others of its results
            graph = prune_loops(graph, lambda body: body)
            used = _read(graph)
        if self._reads_rows(used):
            error = UnsupportedError.here(
                "a value of one row of the batch was kept by the function given to vmap, in a list, an attribute or a "
                "global, and is read outside of it: return it from the function"
            )
            error.final = True
            raise error
        graph.consts = [c for c in self.consts if c[0] in used]
        return graph

    def _reads_rows(self, used: set[Var]) -> bool:
        return any(not used.isdisjoint(batch) for batch in self.stand_ins.rows)


def _read(graph: Graph) -> set[Var]:
    return read_vars(graph.nodes, [*graph.outputs, *[g.atom for g in graph.guards]])


class _NotAll(dict[Var, Any]):
    """Values of a run some of whose inputs, by name, have none."""

    names: dict[Var, str]

    def __missing__(self, var: Var) -> NoReturn:
        name = self.names.get(var)
        if name is None:
            raise KeyError(var)
        raise UnsupportedError.here(
            f"a value is needed here that depends on `{name}`, of which only shape and dtype are given (a "
            "ShapeDtypeStruct); pass an array, or say it without a value: np.where, cond, while_loop in place of `if` "
            "and `while`"
        )


_current = threading.local()


def as_complex(values: Sequence[Any], aval: Aval) -> Any:
    """The array with these values of its lanes."""
    found = np.empty(aval.shape, aval.dtype)
    found.real, found.imag = values
    return found


def current_recorder() -> Recorder | None:
    """The recording in progress in this thread, if any."""
    return getattr(_current, "recorder", None)


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Make *recorder* the one that NumPy calls on traced arrays write to."""
    previous = getattr(_current, "recorder", None)
    _current.recorder = recorder
    try:
        with building(recorder):
            yield recorder
    finally:
        _current.recorder = previous
        recorder.active = False


def _put_back(before: Recorder | None) -> None:
    """Make *before* the recording of this thread again; those that were begun since are over."""
    recorder = current_recorder()
    while recorder is not None and recorder is not before:
        recorder.active = False
        recorder = recorder.parent
    _current.recorder = before


kept(current_recorder, _put_back)


@contextmanager
def nothing_recorded() -> Iterator[None]:
    """Code that runs as it would outside of a recording, which keeps what it makes."""
    previous = getattr(_current, "recorder", None)
    _current.recorder = None
    try:
        yield
    finally:
        _current.recorder = previous


@contextmanager
def host_code() -> Iterator[None]:
    """A context in which code of the host's runs, so that a recording knows what it gives: nothing of it is recorded,
    and what it draws of NumPy's own stream is drawn again by the call."""
    generator = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
    drawn = None if generator is None else generator.get_state()
    try:
        with nothing_recorded():
            yield
    finally:
        if generator is not None:
            generator.set_state(drawn)


def _run_unrecorded(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    if getattr(_current, "recorder", None) is None:
        return function(*args)
    with host_code():
        return function(*args)


unrecorded.append(_run_unrecorded)


def require_recorder(what: str) -> Recorder:
    recorder = current_recorder()
    if recorder is None:
        raise TracegradError.here(f"{what} works only inside a function that tracegrad is recording")
    return recorder
