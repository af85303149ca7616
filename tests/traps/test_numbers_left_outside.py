"""Traps: numbers of a run as keys, members, defaults and arguments of what stays outside are plain ones afterwards.

Each case is a program: objects that are there before, and the body of ``f(x, y, k)``, which leaves numbers of the run
in them: counts of a loop that data ends, counters, int arguments, sizes, scalars.  Values, what is left outside and
types are compared with plain Python after every call, and nothing of ours may be found there (``leftovers.py``).
"""

from __future__ import annotations

import functools
import linecache
import types
from collections import ChainMap, UserDict, deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest
from leftovers import leftovers

import tracegrad
from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")

HEAD = """
import array, bisect, contextvars, dataclasses, functools, heapq, logging, math, operator, types
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque, namedtuple
import numpy as np
Pair = namedtuple("Pair", "a b")
@dataclasses.dataclass(frozen=True)
class Key:
    a: object
class Own:
    by, total = {}, 0
class Keep(logging.Handler):
    def __init__(self):
        super().__init__()
        self.kept = []
    def emit(self, record):
        self.kept.append((record.getMessage(), record.args, record.msg))
s = types.SimpleNamespace(n=0, seen={1}, calls=[], heap=[])
st, counts, log = {}, Counter(), logging.Logger("kept")
table, indices = {0: "zero", 3: "three", 7: "seven"}, np.array([1, 2, 3])
log.handlers = [Keep()]
variable = contextvars.ContextVar("variable", default=0)
@functools.lru_cache(None)
def cached(n):
    return n * 2
@functools.lru_cache(maxsize=2)
def forgetful(n):
    return (n, n + 1)
"""
TURNS = "n, t = 0, {} + 2.0\nwhile t > 0.5:\n    t = t * 0.8; n += 1\n"
NUMBERS = {  # statements before, the number
    "turns over an element": (TURNS.format("x[0]"), "n"),
    "turns over a float": (TURNS.format("float(y)"), "n"),
    "turns until a break": ("for n in range(9):\n    if y < n * 0.2: break\n", "n"),
    "counter": ("s.n += 1\n", "s.n"),
    "rest of a counter": ("s.n += 1\n", "(s.n % 4)"),
    "argument": ("", "k"),
    "of an argument": ("", "(k * 2 - 1)"),
    "size": ("", "(x.size + k)"),
    "count": ("", "np.count_nonzero(x > 0.5)"),
    "sum of truths": ("", "(x > 0.5).sum()"),
    "item": ("", "(x > 0.5).sum().item()"),
    "position": ("", "int(np.argmax(x))"),
    "part of a float": ("", "int(y * 4)"),
    "element": ("", "indices[k % 3]"),
    "truth": ("", "bool(y > 0.5)"),
}
PLACES = {
    "key": "st[N] = st.get(N, 0) + 1",
    "key and value": "st[N] = N",
    "part of a key": "st[N, 'a'] = 1; st[(N, (N, 2))] = N",
    "key of a dict in a dict": "st.setdefault('in', {})[N] = 3",
    "keys all the way": "st.setdefault(N, {}).setdefault(N, []).append(N)",
    "key of a new dict": "s.new = {N: {N: {N}}}",
    "key of a frozen set": "st[frozenset([N])] = 1",
    "key of a named tuple": "st[Pair(N, 1)] = Pair(N, N)",
    "key of a class": "st[Key(N)] = 1",
    "update": "st.update({N: 1}); st.update([(N, N)])",
    "union": "s.new = {**st, N: 1} | {N: 2}",
    "fromkeys": "st.update(dict.fromkeys([N, 5], 0))",
    "comprehension": "st.update({a: 1 for a in (N, 1)})",
    "pop": "st[N] = st.pop(N, 0) + 1",
    "member": "s.seen.add(N)",
    "members by an operator": "s.seen |= {N, 7}; s.seen ^= {N}",
    "members of a new set": "s.seen = s.seen | {a + 1 for a in (N, 3)}",
    "members of a frozen set": "s.frozen = frozenset([N, (N, 1)])",
    "counter of items": "counts[N] += 1; counts.update([N, N])",
    "ordered": "s.order = OrderedDict({N: 1}); s.order.move_to_end(N)",
    "chain and user's dict": "s.new = ChainMap({N: 1}), UserDict({N: 1})",
    "default": "def g(a=N, *, b={N: 1}): return a, b\ns.calls.append(g)",
    "default of a lambda": "s.calls.append(lambda a=N: a)",
    "closure": "c = N\ns.calls.append(lambda: {c: 1})",
    "partial": "s.calls.append(functools.partial(max, N)); s.p = functools.partial(dict, a={N: N})",
    "name of an attribute": "setattr(s, f'a{N}', N)",
    "text": "s.text = f'{N} {N:>3}' + '%d' % N + '{}'.format(N) + ','.join([str(N)])",
    "text as a key": "st[f'k{N}'] = str(N); st['%s' % N] = repr([N])",
    "range and slice": "s.range = range(N + 9); s.list = [1, 2, 3][: N % 3]",
    "attribute of a class": "Own.by[N] = 1; Own.total = N",
    "deque": "s.last = deque([N, {N: 1}], maxlen=2)",
    "heap": "heapq.heappush(s.heap, N)",
    "heap of pairs": "heapq.heappush(s.heap, (N, 'a'))",
    "sorted": "bisect.insort(s.calls, N); s.sorted = sorted({N, 3, 1}), max({N, 2})",
    "array": "s.array = array.array('l', [N])",
    "cache": "s.found = cached(N)",
    "cache that forgets": "forgetful(N)",
    "table": "s.found = table.get(N, 'none'), N in table",
    "caught": "try: table[N + 90]\nexcept KeyError as e: s.error = e.args",
    "arguments of an exception": "s.error = ValueError(N, {N: 1})",
    "log": "log.warning('at %d', N); log.info('of %s', {N: 1}); log.info(f'{N}')",
    "context variable": "variable.set(N)",
    "method of ints": "s.bits = int(N).bit_length(), (N + 0).real",
}
RAISES = {
    "own": "if k == 2: raise ValueError(N, {N: 1})",
    "of a dict": "if y > 0.7: {}[N]",
    "with a cause": "if k == 2: raise ValueError(f'bad {N}') from KeyError(N)",
}
X = [np.array(row) for row in ([0.1, 0.9, 0.4], [0.7, 0.2, 0.8], [0.6, 0.6, 0.1])]
CALLS = [(X[0], 0.3, 3), (X[1], 0.75, 1), (X[2], 0.1, 2)]
ORDER = [0, 0, 0, 1, 1, 1, 0, 2, 2, 0, 1, 2]


def space(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": "numbers_left_outside"}
    exec(compile(HEAD, "<head>", "exec", dont_inherit=True), found)
    name = f"<numbers {hash(text)}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    exec(compile(text, name, "exec", dont_inherit=True), found)
    return found


def program(number: str, *places: str, ends: str = "", result: str = "np.sum(x * x) + y") -> str:
    before, n = NUMBERS[number]
    lines = before + "\n".join([*[PLACES[place] for place in places], RAISES.get(ends, ""), f"return {result}"])
    lines = lines.replace("N", n).replace(n + "amespace", "Namespace")
    return "def f(x, y, k):\n" + "".join([f"    {line}\n" for line in lines.splitlines() if line])


@functools.singledispatch
def picture(value: Any) -> Any:
    """*value* in tuples, with the types of all that is in it."""
    if isinstance(value, np.generic):
        return type(value).__name__, float(value)
    store = dict(getattr(value, "__dict__", {}))
    return type(value).__name__, picture(store) if store else ""


@picture.register(str | int | None | range | slice)
def _plain(value: Any) -> Any:
    return type(value).__name__, repr(value)


@picture.register
def _float(value: float) -> Any:
    return type(value).__name__, f"{value:.12g}"


@picture.register
def _tensor(value: tracegrad.Tensor) -> Any:
    return "Tensor", picture(value.item())


@picture.register
def _dict(value: dict) -> Any:
    return type(value).__name__, [(picture(key), picture(part)) for key, part in value.items()]


@picture.register(ChainMap | UserDict)
def _maps(value: Any) -> Any:
    return type(value).__name__, picture(dict(value))


@picture.register(set | frozenset)
def _set(value: Any) -> Any:
    return type(value).__name__, sorted(map(repr, map(picture, value)))


@picture.register(list | tuple | deque)
def _list(value: Any) -> Any:
    return type(value).__name__, [picture(part) for part in value]


@picture.register
def _function(value: types.FunctionType) -> Any:
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    return value.__name__, picture([value.__defaults__, value.__kwdefaults__, cells])


@picture.register
def _partial(value: functools.partial) -> Any:
    return picture([value.args, value.keywords, vars(value)])


@picture.register
def _error(value: BaseException) -> Any:
    return type(value).__name__, picture([part for part in value.args if not isinstance(part, str)])


@picture.register
def _variable(value: ContextVar) -> Any:
    return picture(value.get())


def state(found: dict[str, Any]) -> Any:
    kept = [*found["log"].handlers[0].kept]
    names = "s", "st", "counts", "variable"
    own = {name: part for name, part in vars(found["Own"]).items() if name[0] != "_"}
    return [picture(found[name]) for name in names], picture(own), picture(kept)


def called(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return f(*args)
    except Exception as error:
        return error


def histories(text: str, run: Callable[[Any], Any], calls: list[Any]) -> None:
    """Make the *calls* in plain Python and of ``run(f)``, and compare what is there after each."""
    plain, other = space(text), space(text)
    f = run(other["f"])
    for number, args in enumerate(calls):
        want, got = called(plain["f"], args), called(f, args)
        at = f"call {number} of\n{text}"
        assert picture(got) == picture(want), at
        left = {name: part for name, part in other.items() if not name.startswith("__")}
        assert not leftovers({**left, "result": got}), at
        assert state(other) == state(plain), at
        if isinstance(got, BaseException):
            assert type(got.__context__) is type(want.__context__), at


def in_order() -> list[Any]:
    return [(x.copy(), y, k) for x, y, k in [CALLS[number] for number in ORDER]]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", ["turns over a float", "counter", "argument", "count"])
def test_numbers_in_all_places(number: str, place: str) -> None:
    histories(program(number, place), compile_grad, in_order())


@pytest.mark.parametrize("place", ["key", "member", "default of a lambda", "log", "keys all the way"])
@pytest.mark.parametrize("number", NUMBERS)
def test_all_numbers_in_some_places(number: str, place: str) -> None:
    histories(program(number, place, "part of a key"), compile_grad, in_order())


@pytest.mark.parametrize("ends", RAISES)
@pytest.mark.parametrize("number", ["turns over an element", "rest of a counter", "of an argument", "item"])
def test_calls_that_raise(number: str, ends: str) -> None:
    text = program(number, "key", "members by an operator", "name of an attribute", ends=ends)
    histories(text, compile_grad, in_order())


@pytest.mark.parametrize("place", [*PLACES])
def test_functions_whose_python_runs_in_each_call(place: str) -> None:
    result = "(np.sum(x), {np.argmax(x)})"  # of which the caller may ask which set it is
    histories(program("sum of truths", place, "member", result=result), compile_grad, in_order())


@pytest.mark.parametrize(
    "result", ["{N: np.sum(x)}", "(np.sum(x), {N})", "(y, {(N, 1): frozenset([N])})", "[N, {N: N}]"]
)
@pytest.mark.parametrize("number", ["turns over a float", "counter", "size", "sum of truths"])
def test_numbers_in_results(number: str, result: str) -> None:
    histories(program(number, "key", result=result.replace("N", NUMBERS[number][1])), compile_grad, in_order())


@pytest.mark.parametrize("place", ["key", "members of a new set", "closure", "cache", "table", "key of a new dict"])
def test_calls_for_gradients(place: str) -> None:
    def run(f: Any) -> Any:
        compiled = compile_grad(f)
        return lambda *args: compiled.value_and_grad(*args)[0]

    for number in ("turns over an element", "counter", "argument"):
        histories(program(number, place), run, in_order())


@pytest.mark.parametrize("place", ["key", "member", "default of a lambda", "text as a key", "members by an operator"])
@pytest.mark.parametrize(
    "number", ["s.n", "(s.n % 4)", "k", "(k + x.numel())", "int((x > 0.5).sum().item())", "len(x)"]
)
def test_steps(number: str, place: str) -> None:
    text = f"def f(x, y, k):\n    s.n += 1\n    {PLACES[place]}\n    return (x * x).sum() + y".replace("N", number)
    calls = [(tracegrad.tensor(x), y, k) for x, y, k in in_order()]
    histories(text, tracegrad.compile, calls)


# ---- what was found beside it --------------------------------------------------------------------------------------


def compare(make: Callable[[], tuple[Callable[..., Any], Callable[[], Any]]]) -> None:
    """Compare ``f(x, n)`` and what ``show()`` gives after each call, of (f, show), with plain Python."""
    histories = []
    for compiled in (False, True):
        f, show = make()
        g = compile_grad(f) if compiled else f
        histories.append([(float(g(np.ones(2), n)), str(show())) for n in (3, 3, 3, 1, 1, 5, 1, 3, 0, 0, 3, 1, 0)])
        assert not leftovers({"f": g, "show": show})
    assert histories[0] == histories[1]


TABLE = {0: "a", 1: "b"}


@pytest.mark.parametrize("form", ["namespace", "in a dict", "two names", "twice", "partial", "a flag"])
def test_a_constant_is_stored_again_by_a_replay(form: str) -> None:
    def make() -> Any:
        s = types.SimpleNamespace() if form != "partial" else functools.partial(max, 1)
        d = {"s": s}

        def f(x, n):
            s.last = TABLE.get(n, "none")
            return np.sum(x)

        def in_dict(x, n):
            d["s"].last = (TABLE.get(n, "none"), 1)
            return np.sum(x)

        def two(x, n):
            s.last = s.other = None if n else 1.5
            return np.sum(x)

        def twice(x, n):
            s.last = "begins"
            value = np.sum(x)
            s.last = TABLE.get(n, "ends")
            return value

        def flag(x, n):
            s.last = n > 1
            return np.sum(x)

        found = {"in a dict": in_dict, "two names": two, "twice": twice, "a flag": flag}.get(form, f)
        return found, lambda: vars(s)

    compare(make)


@pytest.mark.parametrize("form", ["push", "by name", "pair", "heapify", "of a table", "array", "bounded"])
def test_c_code_that_reads_a_list_finds_its_items(form: str) -> None:
    import array
    import heapq

    push = heapq.heappush

    def make() -> Any:
        kept, table = [4, 5, 6], {"push": heapq.heappush}

        def f(x, n):
            heapq.heappush(kept, n)
            return np.sum(x)

        def by_name(x, n):
            push(kept, n)
            return np.sum(x) * kept[0]

        def pair(x, n):
            heapq.heappush(kept, float(np.sum(x)) * n)
            return np.sum(x)

        def heapify(x, n):
            kept.append(n)
            heapq.heapify(kept)
            return np.sum(x)

        def of_table(x, n):
            table["push"](kept, n)
            return np.sum(x)

        def in_array(x, n):
            kept.append(n)
            return np.sum(x) * len(array.array("l", kept))

        def bounded(x, n):
            heapq.heappush(kept, n)
            if len(kept) > 5:
                heapq.heappop(kept)
            return np.sum(x) * kept[0]

        forms = {
            "by name": by_name, "pair": pair, "heapify": heapify, "of a table": of_table, "array": in_array,
            "bounded": bounded,
        }  # fmt: skip
        return forms.get(form, f), lambda: kept

    compare(make)


count = 0


@pytest.mark.parametrize("form", ["global", "outer", "items", "method", "attribute", "default"])
def test_functions_that_a_run_leaves_read_the_callers_own_variables(form: str) -> None:
    def make() -> Any:
        global count
        count, outer = 0, 0
        s, items, weights = types.SimpleNamespace(n=0, calls=[]), [0], np.ones(2)

        class Reader:
            def read(self):
                return float(np.sum(weights)) + s.n

        def of_global(x, n):
            global count
            count += 1
            s.calls = [lambda: count]
            return np.sum(x)

        def of_outer(x, n):
            nonlocal outer
            outer += n
            s.calls = [lambda: outer * 2]
            return np.sum(x) * outer

        def of_items(x, n):
            items[0] += n
            s.calls.append(lambda k=n: (items[0], k))
            return np.sum(x) * items[0]

        def of_method(x, n):
            s.n += 1
            s.calls = [Reader().read]
            return np.sum(x) * weights[0]

        def of_attribute(x, n):
            s.n += 1
            s.calls = [lambda: s.n + n]
            return np.sum(x) * s.n

        def of_default(x, n):
            s.n += 1

            def g(a={n: 1}):  # noqa: B006
                return a, s.n

            s.calls = [g]
            return np.sum(x)

        forms = {
            "outer": of_outer, "items": of_items, "method": of_method, "attribute": of_attribute, "default": of_default,
        }  # fmt: skip
        return forms.get(form, of_global), lambda: [call() for call in s.calls]

    compare(make)
