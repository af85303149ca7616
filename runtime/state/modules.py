"""Modules in the outside state: guarded attribute by attribute; what is read from a library's is judged, too.

Start reading at ``visit``. A module counts with the attribute chains that the code reads from it (``config.lr``,
``np.random.rand``), which the bytecode scan has collected. In a library the chain is followed to its end, and the
function found there is pure or not (``libraries.py``). What stands under each name is part of the state in any module,
since anyone can put something else there.
"""

from __future__ import annotations

import abc
import sys
import types
from collections.abc import Set
from typing import Any

from ...tracer.bytecode.records import dict_of
from ...tracer.bytecode.settled_text import LOG_METHODS
from ...tracer.ir.refusals import Refusal
from ...tracer.record.reports import STREAMS
from . import readers
from .code_scan import CodeFacts
from .libraries import PURE, Contents, LibrarySetting, reading_module, reads_by_itself, verdict
from .pins import covered
from .seeded_draws import is_seeded, is_watched
from .state_graph import Chains, Leaf, StateNode
from .trust import IMPURE_METHODS, hidden_state, impurity, setting_of
from .values import is_leaf
from .walker import Walker

_CONTENTS = list | dict | set
_REFUSED, _NOTED, _PLAIN, _SEEDED = range(4)  # judgements of a chain
_REPORTS = frozenset((*LOG_METHODS, "getLogger"))  # functions of `logging`
_NUMERICAL = ("numpy", "scipy", "math")  # libraries with no functions that read attributes by names
# What was judged before to be a library's own function or a number: (id of the module, chain) -> (module, value).
_plain: dict[tuple[int, tuple[str, ...]], tuple[types.ModuleType, Any]] = {}


def placed(facts: CodeFacts, kind: str, name: str) -> Chains:
    """The attribute chains that the code reads from a name, with their sites."""
    return {chain: facts.at(line) for chain, line in facts.chains.get((kind, name), {}).items()}


def visit(walker: Walker, module: types.ModuleType, label: str, site: str, chains: Chains) -> Leaf | StateNode:
    """The node of a module, with edges for the attributes that ``chains`` read."""
    library = walker.trust.module(module)
    if not library and type(module) is not types.ModuleType and not walker.trust.cls(type(module)):
        return walker.unknown(Refusal.STATE_HOOK, module, label, site, hook="a class of its own")
    known = walker.memo.get(id(module))
    node = known or walker.node("library" if library else "module", module, label, site, extra=set())
    if library:
        chains = {chain: at for chain, at in chains.items() if not _settled(walker, module, node, chain, at)}
    if () in chains:
        if () in node.extra:  # met on a way through modules that import each other
            chains = {chain: at for chain, at in chains.items() if chain}
        node.extra.add(())
    absent: set[str] = set()
    around = walker.within
    if not library:
        walker.enter(module, site)
    for name, rest in _first_names(walker, module, label, chains, library).items():
        at = next(iter(rest.values()))
        if name in module.__dict__:
            value = module.__dict__[name]
            if name not in node.extra or isinstance(value, types.ModuleType):  # a module may get more chains
                path = f"{label.removeprefix('global ')}.{name}"
                child = _library_part(walker, value, path, at, rest) if library else walker.visit(value, path, at, rest)
                if name not in node.extra:
                    node.edge("attr", name, child, fixed=library)
            node.extra.add(name)
        else:
            if "__getattr__" in module.__dict__ and not library:
                walker.refuse(Refusal.STATE_MODULE, f"{label}.{name}", at)
            absent.add(name)
    walker.within = around
    if absent:
        _note_absence(node, absent | ({"__getattr__"} - module.__dict__.keys()))
    return node


def _note_absence(node: StateNode, names: set[str]) -> None:
    """Have a module's getting one of these attributes noticed: one edge for all of them."""
    if names <= node.extra:
        return
    node.extra |= names
    known = next((edge for edge in node.edges if edge.how == "noitems"), None)
    if known is None:
        node.edge("noitems", names, Leaf(None, False))
    else:
        known.arg |= names


def _settled(walker: Walker, module: types.ModuleType, node: StateNode, chain: tuple[str, ...], site: str) -> bool:
    """Whether nothing is left to do for a chain that starts at a library's module: it is refused, or it is a function
    or number that was judged before."""
    if module is sys and walker.names.effects and chain and chain[0] in STREAMS:
        if chain[0] not in node.extra:
            node.extra.add(chain[0])
            part = walker.node("logger", STREAMS[chain[0]], f"sys.{chain[0]}", site)
            node.edge("stream", chain[0], part)
        return True
    key = id(module), chain
    known = _plain.get(key)
    value = module.__dict__.get(chain[0]) if chain else None
    if known is None or known[0] is not module or known[1] is not value:
        judgement = _judge(walker, module, chain, site)
        if judgement == _PLAIN and len(chain) == 1:
            _plain[key] = module, value
        if judgement != _SEEDED or len(chain) > 1:
            return judgement == _REFUSED
    if chain[0] not in node.extra:
        node.extra.add(chain[0])
        node.edge("attr", chain[0], walker.leaf(value, is_leaf(value)), fixed=True)
    return True


def _library_part(walker: Walker, value: Any, label: str, site: str, chains: Chains) -> Leaf | StateNode:
    """A library's own functions, classes and objects stand for themselves; data and what is not its own is state."""
    if not (_owned(walker, value) or is_seeded(value)):
        return walker.visit(value, label, site, chains)
    if isinstance(value, type):
        walker.pin_class(value)
    elif type(dict_of(value)) is dict and not isinstance(value, types.FunctionType):
        absent = frozenset([rest[0] for rest in chains if rest and rest[0] not in value.__dict__])
        if absent:  # `scipy.stats.norm.pdf`, a method that anyone can replace
            walker.stores.append((value, value.__dict__, absent))
            walker.pin_class(type(value))
    return walker.leaf(value, False)


def _owned(walker: Walker, value: Any) -> bool:
    if is_leaf(value) or isinstance(value, types.ModuleType | _CONTENTS):
        return False
    if isinstance(value, types.FunctionType | type):
        return walker.trust.owns(value)
    home = sys.modules.get(getattr(value, "__module__", None) or "")
    return walker.trust.cls(type(value)) and (home is None or walker.trust.module(home))


def _first_names(
    walker: Walker, module: types.ModuleType, label: str, chains: Chains, library: bool
) -> dict[str, Chains]:
    """The attributes read, each with the chains that go on from it; all known names where the module is passed on."""
    names: dict[str, Chains] = {}
    attrs = walker.names.attrs.keys()
    absent: Set[str] = attrs if walker.names.absence else covered(types.ModuleType, attrs)
    if library:
        absent = walker.names.asked
    for chain, at in chains.items():
        if chain:
            names.setdefault(chain[0], {})[chain[1:]] = at
            continue
        if walker.names.everything:
            if library:
                walker.depends(contents(module))
            else:
                walker.refuse(Refusal.STATE_COMPUTED, label, at)
        for name in sorted(attrs & (module.__dict__.keys() | absent)):
            names.setdefault(name, {})[()] = at
    return names


def _judge(walker: Walker, module: types.ModuleType, chain: tuple[str, ...], site: str) -> int:
    """Judge the object at the end of a chain through modules (``np.random.rand``, ``time.time``) for purity."""
    obj: Any = module
    path, rest = module.__name__, chain
    while rest and isinstance(obj, types.ModuleType):
        try:
            obj = getattr(obj, rest[0])
        except Exception:
            return _NOTED  # the program will raise
        path, rest = f"{path}.{rest[0]}", rest[1:]
    _note_readers(walker, obj)
    found = verdict(path)
    setting = found if isinstance(found, LibrarySetting) else setting_of(obj)
    if setting is not None:
        walker.depends(setting)
    judged = found is PURE or isinstance(found, LibrarySetting)
    constant = judged and not callable(obj) and not isinstance(obj, types.ModuleType)
    if walker.names.effects and path.startswith("logging.") and path.removeprefix("logging.") in _REPORTS:
        return _NOTED  # where it is not an effect, the watch sees the call
    why = None if constant else impurity(obj)
    if isinstance(obj, types.ModuleType) and is_watched(obj, walker.names.attrs):
        return _NOTED
    if why is Refusal.CALLS_RANDOM and "seed" in walker.names.attrs and not rest and is_seeded(obj):
        return _SEEDED  # before it draws: the watch sees to it
    if why is None and isinstance(obj, types.ModuleType):  # the module itself is passed on
        for name in walker.names.attrs:
            inner = obj.__dict__.get(name)
            if isinstance(inner, types.ModuleType) and (reason := impurity(inner)):
                if is_watched(inner, walker.names.attrs):
                    continue
                why, path = reason, f"{path}.{name}"
    elif why is None and rest and (isinstance(obj, type) or rest[0] == "rvs"):
        why = IMPURE_METHODS.get(rest[0])
    if why is None and isinstance(found, Refusal) and not callable(obj) and not is_leaf(obj):
        why = found
    why = why or hidden_state(type(obj))
    if why is not None:
        shown = ".".join([path, *rest])
        shown = shown.replace("numpy.", "np.", 1) if shown.startswith("numpy.") else shown
        walker.refuse(why, shown, site)
        return _REFUSED
    plain = chain and setting is None and path.startswith(_NUMERICAL) and not isinstance(obj, types.ModuleType | type)
    return _PLAIN if plain and (is_leaf(obj) or _owned(walker, obj)) else _NOTED


def _note_readers(walker: Walker, obj: Any) -> None:
    """Library code that may read attributes of the user's objects by itself makes all attributes count."""
    readers.note(walker.names, obj)
    walker.abstract |= isinstance(obj, abc.ABCMeta)
    if isinstance(obj, types.ModuleType):
        reader = reading_module(obj.__name__)
    else:
        reader = isinstance(obj, types.FunctionType | type) and walker.trust.owns(obj) and reads_by_itself(obj)
    if reader:
        walker.names.everything = True


_contents: dict[str, tuple[dict[str, Any], LibrarySetting]] = {}


def contents(module: types.ModuleType) -> LibrarySetting:
    """All that stands in a library's module, as a setting."""
    known = _contents.get(module.__name__)
    space = module.__dict__
    if known is None or known[0] is not space:
        setting = LibrarySetting(f"the names of {module.__name__}", Contents(lambda: space))
        known = _contents[module.__name__] = space, setting
    return known[1]


def imported(
    walker: Walker, node: StateNode, fn: types.FunctionType, facts: CodeFacts, name: str, level: int, line: int
) -> None:
    """Add the edge of an ``import`` in the body: the module, with the names that the statement imports."""
    at = facts.at(line)
    full = name
    if level:
        package = (fn.__globals__.get("__package__") or "").rsplit(".", level - 1)[0]
        full = f"{package}.{name}" if name else package
    module = sys.modules.get(full)
    if module is None:
        walker.refuse(Refusal.STATE_IMPORT, full, at)
        return
    node.edge("import", full, walker.visit(module, full, at, placed(facts, "import", name) or {(): at}), fixed=True)
