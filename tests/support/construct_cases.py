# ruff: noqa
# fmt: off
"""Functions with every construct that a copy has: each is (function, arguments ...) in ``CASES``."""

import contextlib
import functools
import os.path
import sys
import weakref

CASES = []
LOG = []
counter = 0
shared = [1, 2, 3]


def case(*calls):
    def add(f):
        CASES.append((f, calls or ((),)))
        return f

    return add


def noted(x, text=None):
    LOG.append(x if text is None else text)
    return x


class Noisy:
    """Everything that is done to it is noted."""

    def __init__(self, name="n", true=True): object.__setattr__(self, "name", name); object.__setattr__(self, "true", true)
    def __repr__(self): return f"Noisy({self.name})"
    def __bool__(self): LOG.append(f"bool {self.name}"); return self.true
    def __getattr__(self, key):
        LOG.append(f"get {self.name}.{key}")
        if key.startswith("no"): raise AttributeError(key)
        return Noisy(f"{self.name}.{key}")
    def __setattr__(self, key, value): LOG.append(f"set {self.name}.{key} {value!r}")
    def __delattr__(self, key): LOG.append(f"del {self.name}.{key}")
    def __getitem__(self, key): LOG.append(f"item {self.name} {key!r}"); return Noisy(f"{self.name}[{key!r}]")
    def __setitem__(self, key, value): LOG.append(f"setitem {self.name} {key!r} {value!r}")
    def __delitem__(self, key): LOG.append(f"delitem {self.name} {key!r}")
    def __call__(self, *args, **kwargs): LOG.append(f"call {self.name} {args} {kwargs}"); return Noisy(f"{self.name}()")
    def __iter__(self): LOG.append(f"iter {self.name}"); return iter([Noisy(self.name + "0"), Noisy(self.name + "1", False)])
    def __contains__(self, x): LOG.append(f"in {self.name} {x!r}"); return True
    def __format__(self, spec): LOG.append(f"format {self.name} {spec}"); return f"<{self.name}:{spec}>"
    def __enter__(self): LOG.append(f"enter {self.name}"); return self
    def __exit__(self, *e): LOG.append(f"exit {self.name} {e[0]}"); return self.name == "swallows"
    def __index__(self): LOG.append("index"); return 1
    def __hash__(self): LOG.append("hash"); return 1


for _op in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift lt le gt ge eq ne".split():
    def _method(self, other, _op=_op):
        LOG.append(f"{_op} {self.name} {other!r}")
        return Noisy(f"({self.name} {_op} {other!r})")
    setattr(Noisy, f"__{_op}__", _method)
for _op in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    def _method(self, other, _op=_op):
        LOG.append(f"i{_op} {self.name} {other!r}")
        return self
    setattr(Noisy, f"__i{_op}__", _method)
for _op in "neg pos invert".split():
    def _method(self, _op=_op):
        LOG.append(f"{_op} {self.name}")
        return self
    setattr(Noisy, f"__{_op}__", _method)

N = Noisy


def log():
    found = list(LOG)
    LOG.clear()
    return found


# ---- expressions

@case()
def operators():
    a, b = N("a"), N("b")
    x = [a + b, a - b, a * b, a / b, a // b, a % b, a ** b, a @ b, a & b, a | b, a ^ b, a << b, a >> b, -a, +a, ~a, not a]
    y = [a < b, a <= b, a > b, a >= b, a == b, a != b, a is b, a is not b, a in b, a not in b]
    return x, y, log()


@case((1, 2), ("a", 2), ([], ()), (1j, 2))
def errors_of_operators(a, b):
    found = []
    for f in [lambda: a + b]:
        found.append(f() if isinstance(a, int) else None)
    return [found,
            a
            + b,
            a < b]


@case((1, 0), (2, 3), ("x", "y"), (0.5, None))
def chains(a, b):
    return a < b < 3, a < noted(b) <= noted(5) != noted(7), 1 < 2 < a if a else b, (a < b) < 3, log()


@case((0,), (1,), (2,), ([],), ("",))
def choices(a):
    x = a and 1 or 2
    y = a or [] or "last"
    z = (a or noted(0)) and (noted("q") or a) and not (a or 3)
    w = 1 if a else 2 if not a and x else 3
    if a and x or z:
        x = 10
    elif not (a or w):
        x = 11
    else:
        x = 12
    return x, y, z, w, not (a and x), (a and x) is a, log()


@case()
def order():
    a = N("a")
    a.f(noted(1), *noted([2, 3]), k=noted(4), **noted({"z": 5}))
    noted(a).g(noted(1))(noted(2)).h()
    noted(a)[noted(1):noted(2), noted(3)] = noted(9)
    noted(a).x = noted(8)
    noted(a).y, noted(a)[noted(1)] = noted((1, 2))
    noted(a)[noted(0)].z += noted(7)
    noted(a).z[noted("i")] -= noted(6)
    del noted(a).q, noted(a)[noted(4)], (a.r, a.s)
    x = {noted("k"): noted("v"), **noted({"m": 1})}
    y = [noted(1), *noted([2]), noted(3)], (noted(1), *noted([2])), {noted(1)}
    return x, y, log()


@case()
def method_is_looked_up_first():
    a = N("a")
    try:
        a.nothing(noted("argument"))
    except AttributeError as e:
        LOG.append(str(e))
    try:
        a.nothing(1)
    except AttributeError as e:
        LOG.append(str(e))
    return log()


@case((3,), ("u",), ([1, 2],))
def texts(x):
    w = 10
    return f"{x}", f"a{x!r}b{x!s:>{w}}c{x!a}", f"{x=}", f"{x = !r:^{w + 2}}", f"{{}}{x}" "y", f"{N('n'):{w}.{w}}", f"", f"{'nested'!r}", log()


@case((1.5,))
def failing_text(x):
    return f"{x:d}"


@case(([1, 2, 3, 4],), ("abcd",), (N("s"),))
def slices(x):
    i, j = 1, 3
    found = [x[i], x[-1], x[i:j], x[:], x[::2], x[i:], x[:j], x[::-1]]
    if isinstance(x, N):
        found += [x[i, j], x[i:j, ...], x[i:j, None, ::2], x[()], x[*[i, j]]]
    return repr(found), log()


@case()
def slices_stored():
    x = list(range(10))
    x[2:4] = [7, 8, 9]
    x[::3] = "abcd"
    del x[1:3], x[-1]
    x[0:1] += [5]
    x[0] *= 2
    return x


@case()
def displays():
    xs, d = [1, 2], {"a": 1}
    return [], [1, *xs], (), (1,), (*xs, 3), {1, *xs}, {}, {"b": 2, **d}, {**d, "a": 3}, [[xs]], {(1, 2): [3]}


@case((5,), ([1],), (None,))
def failing_displays(x):
    return [[*x], {**x}]


def target(a, b=2, *args, c=3, **kwargs):
    return a, b, args, c, kwargs


@case()
def calls():
    xs, kw = [1, 2, 3], {"c": 4, "d": 5}
    return [target(1), target(*xs), target(1, *xs, *xs), target(*xs, **kw), target(a=1), target(1, c=9, **{"e": 1}),
            target(*xs, c=1), target(1, **kw, f=noted(3)), print.__name__, (lambda: 3)(), (lambda x, *y, z=2: (x, y, z))(1, 2),
            "a-b".upper().replace("-", "+"), "{} {x}".format(*xs[:1], x=2), dict(self=1, f=2, name=3, a=4)]


@case((1,), (2,), (3,), (4,), (5,), (6,), (7,), (8,))
def failing_calls(k):
    if k == 1:
        return target()
    if k == 2:
        return target(1, a=2)
    if k == 3:
        return k(1)
    if k == 4:
        return shared.missing(1)
    if k == 5:
        return [].append()
    if k == 6:
        return len(1, 2)
    if k == 7:
        return (lambda x: x)(y=1)
    return undefined_name(k)


@case(*((k,) for k in range(8)))
def failing_stars(k):
    kw = {"a": 1}
    if k == 0: return target(*k)
    if k == 1: return target(**k)
    if k == 2: return target(*[1], **kw)
    if k == 3: return target(a=2, **kw)
    if k == 4: return target(**kw, **kw)
    if k == 5: return target(1, **{2: 3})
    if k == 6: return [].append(*[1, 2], *k)
    return functools.partial(target)(*k, key=undefined_name)


@case((1,), (2,), (3,), (4,))
def failing_over_lines(k):
    s = "text"
    if k == 1:
        return (s
                .upper()
                .missing()
                .lower())
    if k == 2:
        return target(
            1,
            s
            .upper(
                5,
            ),
        )
    if k == 3:
        return (s
                .upper
                .missing)
    return [
        1,
        2 / (
            k - 4),
    ]


@case()
def walrus():
    if (n := len(shared)) > 2:
        m = [y := n + 1, y * 2]
    while (k := n) > 0:
        n -= 1
    found = [last := v for v in shared if (seen := v) < 3]
    nested = [[(deep := a * b) for a in shared] for b in shared]
    return n, m, y, k, found, last, seen, nested, deep, any((hit := v) > 1 for v in shared), hit


@case()
def lambdas():
    k = 3
    fs = [lambda: k, lambda x=k, *, y=noted(2): x + y + k, lambda *a, **b: (a, b)]
    k = 4
    return [f() for f in fs], [f.__code__.co_name for f in fs], [f.__qualname__ for f in fs], fs[1].__defaults__, fs[1].__kwdefaults__, log()


# ---- comprehensions

@case((4,), (0,))
def comprehensions(n):
    a = [i * j for i in range(n) for j in range(i) if j % 2 if i]
    b = {i % 3 for i in range(n)}
    c = {i: [j for j in range(i)] for i in range(n) if i}
    d = sum(i for i in range(n))
    e = [(x, y) for x, (y, *z) in [(1, (2, 3)), (4, (5,))]]
    f = [[k for k in row] for row in [[1, n], [n]]]
    g = [x if x > 1 else -x for x in range(n)]
    h = [fn() for fn in [lambda: i for i in range(n)]]
    return a, b, c, d, e, f, g, h, {noted(("k", i)): noted(("v", i)) for i in range(2)}, log()


@case((1,), (2,), (3,), (4,), (5,))
def failing_comprehensions(k):
    if k == 1:
        return [1 / x for x in [1, 0]]
    if k == 2:
        return list(
            y
            for y in
            5
        )
    if k == 3:
        return [[
            z.missing
            for z in [1]]
            for w in [2]]
    if k == 4:
        return {
            x: 1
            for x in [[]]
        }
    return [
        a + b
        for a, b in [
            (1, 2), (3,)]]


@case()
def generator_expressions():
    g = (noted(x) for x in noted(shared))
    before = log()
    first = next(g)
    try:
        bad = (x for x in 5)
    except TypeError as e:
        bad = str(e)
    return before, first, list(g), bad, log(), g.__name__, g.__qualname__, g.gi_code.co_name


@case()
def targets_of_comprehensions():
    d, l = {}, [0, 0]
    x = [None for d["k"] in range(3)]
    y = [None for l[0], l[1] in [(1, 2), (3, 4)]]
    return d, l, x, y


@case()
def closures_of_comprehensions():
    n = 2
    fs = [lambda: (i, n) for i in range(3)]
    gs = list(lambda i=i: (i, n) for i in range(3))
    n = 5
    return [f() for f in fs], [g() for g in gs], [f.__qualname__ for f in fs][0] if not hasattr(fs, "x") else 0


# ---- assignment

@case()
def assignments():
    a = b = c = [1]
    x, y = 1, 2
    x, y = y, x
    (p, q), *r = [(1, 2), 3, 4]
    [s, [t, u]] = 5, (6, 7)
    *v, w = "abc"
    o = N("o")
    o.a = o.b = z = noted(3)
    o.c, (o[1], k), *o.rest = 1, (2, 3), 4, 5
    first, = [9]
    return a is b is c, x, y, p, q, r, s, t, u, v, w, z, k, first, log()


@case(([1, 2],), ([1, 2, 3, 4],), (5,), ([],))
def failing_unpacking(v):
    a, b, c = v


@case(([1],), (5,))
def failing_starred(v):
    a, b, *c = v
    return a


@case()
def augmented():
    a, l, d = 5, [1, 2], {"k": 3}
    a += 1; a -= 2; a *= 3; a //= 2; a **= 2; a %= 7; a <<= 3; a >>= 1; a |= 8; a &= 12; a ^= 3
    b = a
    a /= 2
    l += [3]; l[0] += 5; l[-1] *= 2; l[1:2] += [8]
    d["k"] -= 1; d["n"] = d["k"]; d[noted("n")] **= 2
    m = l
    m *= 2
    o = N("o")
    o += 1; o -= 1; o *= 1; o /= 1; o //= 1; o %= 1; o **= 1; o @= 1; o &= 1; o |= 1; o ^= 1; o <<= 1; o >>= 1
    o.x.y += noted(1)
    return a, b, l, d, m is l, log()


@case(("a", 1), (1, "a"), ([], 1), (None, None))
def failing_augmented(a, b):
    a += b
    return a


@case()
def annotated():
    a: int = 3
    b: undefined_name_in_annotation
    o = N("o")
    o.x: int = 4
    noted(o).y: int
    noted(o)[noted(1)]: int
    (c): int = 5
    try:
        return a, c, log(), b
    except UnboundLocalError as e:
        return a, c, log(), str(e)


@case()
def deletions():
    x, y, d, o = 1, 2, {"a": 1, "b": 2}, N("o")
    del x, d["a"], (y, o.z)
    try:
        x
    except UnboundLocalError as e:
        return d, str(e), log()


@case((0,), (1,))
def unbound(k):
    if k:
        later = 1
    return later


@case((0,), (1,), (2,))
def unbound_elsewhere(k):
    def inner():
        return outer + k
    if k == 1:
        outer = 1
        del outer
    elif k == 2 and sys.version_info < (3, 12):  # where a comprehension is a function, as it is in copies
        return [outer for _ in range(2)], [outer := 1]
    return inner()


# ---- statements

@case((0,), (1,), (2,), (5,))
def loops(n):
    out = []
    for i in range(5):
        if i == n:
            out.append("break")
            break
        if i == 1:
            continue
        out.append(i)
    else:
        out.append("else")
    for i, (a, *b) in enumerate([(1, 2), (3, 4, 5)]):
        for j in range(n):
            if j > i: break
            for k in b:
                if k == n:
                    return out, i, j, k
                out.append((i, j, k))
            else:
                continue
            break
        else:
            out.append("inner")
    k = 0
    while k < n:
        k += 1
        if k == 4: break
        if k == 2: continue
        out.append(k)
    else:
        out.append("while else")
    while True:
        if not out: return "empty"
        out.pop()
        if len(out) < 2: break
    return out, i, k


@case()
def targets_of_loops():
    o, d, found = N("o"), {}, []
    for o.x in [1, 2]: pass
    for d["k"], d["j"] in [(1, 2), (3, 4)]: found.append(dict(d))
    for noted(o)[noted(0)] in [1]: pass
    for (a, b), c in [((1, 2), 3)]: found.append((a, b, c))
    for x in []: pass
    try:
        x
    except UnboundLocalError as e:
        found.append(str(e))
    return found, log()


@case((5,), ([1, (2, 3)],), ([(1, 2), 3],))
def failing_loops(it):
    for a, b in it:
        found = a
    return found


def one_and_error():
    yield 1
    raise ValueError


@case((1,), (2,), (3,), (4,), (5,), (6,))
def failing_iterators(k):
    if k == 1:
        for x in (
            one_and_error()
        ):
            y = x
    if k == 2:
        return [
            x
            for x in
            one_and_error()]
    if k == 3:
        return sum(
            x
            for x in [1]
            for y in
            one_and_error()
            if
            y)
    if k == 4:
        return [
            x
            for x in [1]
            for y in
            5]
    if k == 5:
        for x in (
            k
        ):
            y = x
    while (
        k.missing
    ):
        pass


@case()
def iterators_end_with_their_loops():
    def numbers(name):
        try:
            yield 1
            yield 2
        finally:
            LOG.append(f"closed {name}")
    for x in numbers("first"):
        break
    noted("after the first")
    for x in numbers("second"):
        noted(x)
    noted("after the second")
    try:
        for x in numbers("third"):
            raise ValueError
    except ValueError:
        noted("caught")
    y = [v for v in numbers("fourth")]
    noted("after the fourth")
    z = next(v for v in numbers("fifth"))
    noted("after the fifth")
    return log()


@case()
def temporaries_end_with_their_statements():
    class_ = type("Kept", (), {"__del__": lambda self: LOG.append("gone"), "__lt__": lambda a, b: True, "__getitem__": lambda a, b: 1, "__setitem__": lambda *a: None})
    x = class_() and 1
    noted("and")
    x = 0 < class_() < 1 if False else None
    x = class_() < class_() < class_()
    noted("chain")
    class_()[0] += 1
    noted("item")
    (x, shared[0]) = class_(), shared[0]
    x = None
    noted("parts")
    a, [b] = [class_(), [class_()]]
    del a, b
    noted("nested")
    for a, b[0] in []: pass
    for (a, b) in [(class_(), class_())]: pass
    del a, b
    noted("loop")
    return log()


@case((0,), (1,), (2,), (3,), (4,), (5,))
def tries(k):
    out = []
    for turn in range(3):
        try:
            out.append("try")
            if k == 0: [][1]
            if k == 1: return out
            if k == 2: break
            if k == 3: continue
            if k == 4: raise KeyError(turn) from None
        except (IndexError, noted(ValueError)) as e:
            out.append(str(e))
        except KeyError as e:
            out.append(repr(e))
            if turn: raise RuntimeError("second") from e
        else:
            out.append("else")
        finally:
            out.append("finally")
            log()
    else:
        out.append("loop else")
    return out


@case((0,), (1,), (2,))
def finally_in_loops(k):
    out = []
    for i in range(4):
        try:
            if i == k: return ("returned", out)
            while True:
                try:
                    if i == 1: break
                    raise ValueError(i)
                except ValueError:
                    break
                finally:
                    out.append(("inner", i))
        finally:
            out.append(i)
            if k == 2 and i == 2: break
    return out


@case()
def nested_exceptions():
    try:
        try:
            1 / 0
        except ZeroDivisionError as e:
            e.add_note("a note")
            undefined_name
    except NameError:
        raise ValueError("text")


@case()
def names_of_exceptions():
    e = 1
    try:
        raise ValueError
    except ValueError as e:
        pass
    return e


@case((0,), (1,))
def groups(k):
    found = []
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)] + [OSError(3)] * k)
    except* ValueError as g:
        found.append(g.exceptions)
    except* KeyError:
        found.append("key")
    return repr(found)


@case((0,), (1,))
def contexts(k):
    o = N("o")
    with N("a") as a, noted(N("b")), N("c") as o.c, N("d") as (p, q), N(f"{o.c}") as o[1]:
        noted("body")
    with N("swallows"):
        raise ValueError
    with contextlib.suppress(KeyError) as nothing:
        {}[1]
    if k:
        with N("fails"):
            1 / 0
    return a, p, q, nothing, log()


@case((0,), (1,))
def assertions(k):
    assert k or 1
    assert k and True, f"message {k} {noted(2)}"
    return k


@case((0,), (1,), (2,))
def raising(k):
    if k == 0: raise ValueError
    if k == 1: raise KeyError("a") from ValueError("b")
    raise


@case()
def imports():
    import os.path
    import os.path as p, collections as c
    from os import path as q, sep
    from collections.abc import Mapping
    from . import nothing_here
    return os


@case()
def more_imports():
    import os.path, json.decoder as d
    from math import pi as number, inf
    return os.path.join("a", "b"), d.__name__, number, inf


@case((3,))
def global_variables(n):
    global counter, other_counter
    counter = n
    counter += 1
    other_counter = counter
    for counter in range(3): pass
    (counter, x), other_counter = (7, 8), 9
    found = [counter, x, other_counter, globals()["counter"]]
    del other_counter
    try:
        other_counter
    except NameError as e:
        found.append(str(e))
    import math as counter
    found.append(counter.__name__)
    def counter(): return 5
    found.append(counter())
    [counter := v for v in "ab"]
    found.append((counter, (counter := 3), counter))
    with N("g") as counter: pass
    log()
    return found


@case((3,))
def free_variables(n):
    total, items, late = 0, [], None
    def add(k):
        nonlocal total, late
        total += k
        items.append(total)
        late = total
        def deeper():
            nonlocal total
            total = -total
            return total
        return deeper()
    def drop():
        nonlocal late
        del late
        try:
            late
        except NameError as e:
            return str(e)
    return [add(k) for k in range(n)], total, items, late, drop(), deeply_free()


def deeply_free():
    x = 1
    def middle():
        def inner():
            nonlocal x
            x += 1
            return [x + y for y in range(x)], (lambda: x)()
        return inner
    return middle()(), x


@case((4,))
def recursion(n):
    def fact(k):
        return 1 if k < 2 else k * fact(k - 1)
    return fact(n), recursion(n - 1) if n else None


@case()
def inner_functions():
    def plain(a, b=noted(2), *c, d=noted(3), **e) -> noted("returns"):
        "documented"
        return a, b, c, d, e
    def annotated(a: noted("a"), *b: noted("b"), c: noted("c") = 1): pass
    @functools.wraps(plain)
    @noted
    def decorated(*a): return a
    return plain(1), plain.__doc__, plain.__name__, plain.__qualname__, plain.__defaults__, sorted(annotated.__annotations__.items()), decorated(1, 2), decorated.__name__, len(log())


def fails(f): raise ValueError(f.__name__)


@case()
def failing_decorators():
    @noted
    @fails
    def f(): pass


@case()
def generators():
    def numbers(n):
        got = yield "first"
        for i in range(n):
            got = yield (i, got)
        sub = yield from [1, 2]
        last = yield from inner()
        return sub, last
    def inner():
        try:
            yield "inner"
        except KeyError as e:
            yield f"caught {e}"
        return "inner result"
    g = numbers(2)
    found = [next(g), g.send(5), g.send(6), next(g), next(g), next(g), g.throw(KeyError("k"))]
    try:
        next(g)
    except StopIteration as e:
        found.append(e.value)
    return found


@case((3,), (0,), (None,))
def generator(n):
    k = yield n
    for i in range(n):
        while k is None:
            k = yield i
            if i == 1: return "early"
            break
    yield from (x for x in "ab" if x)


@case()
def variables():
    a, b = 1, [2]
    def inner(): return b
    for i in range(1): pass
    return sorted(locals()), sorted(vars()), dir(), locals() is locals(), {k: v for k, v in locals().items() if k == "a"} if False else 0


@case()
def references():
    x = type("C", (), {})()
    ref = weakref.ref(x)
    y = x or 3
    del y
    alive = ref() is x
    del x
    return alive, ref()


def defaults(a, b=[1], /, c=2, *args, d, e=5, **rest):
    """Documented."""
    return a, b, c, args, d, e, rest


@case()
def private():
    return Private(3).all(), Derived().call(4), Derived.made(), Derived().x, Derived.static(1), Derived().both()


class Private:
    __hidden = 1
    __slots__ = ("__value", "other")

    def __init__(self, v):
        self.__value = v
        self.__value += 1

    def __method(self, __x=3):
        __y = __x
        return __y, self.__hidden

    def all(self):
        self.__value = 4
        __local = self.__method()
        def inner(): return __local, self.__value, [self.__value for _ in range(1)]
        del self.__value
        return inner.__code__.co_freevars, self.__method(4), __local, hasattr(self, "_Private__value")


class Base:
    def call(self, n): return "base", n
    @classmethod
    def made(cls): return cls.__name__
    def both(self): return 7


class Derived(Base):
    def call(self, n):
        return super().call(n + 1), __class__.__name__, super(Derived, self).call(n), (lambda: __class__.__name__)()

    @classmethod
    def made(cls):
        return super().made(), cls.static(2)

    @staticmethod
    def static(x): return x * 2

    @property
    def x(self): return [super(Derived, self).both() for _ in range(2)]

    def both(self):
        self = self
        def inner(): return super(Derived, self).both(), self
        return super().both(), inner()[0]


# methods are converted one by one, too
for _f in (Private.all, Private._Private__method, Derived.call, Derived.both):
    CASES.append((_f, ((Private(2) if "Private" in _f.__qualname__ else Derived(), *([1] if _f.__name__ == "call" else [])),)))
CASES.append((Derived.made.__func__, ((Derived,),)))
CASES.append((Derived.x.fget, ((Derived(),),)))
CASES.append((defaults, ((1,), (1, 2, 3, 4))))

two_lambdas = [lambda x: x + 1, lambda x: x * 2]; three = lambda x: [lambda: x][0]() if x else (yield)
CASES += [(f, ((3,), ("a",))) for f in two_lambdas] + [(three, ((3,),))]
multi = (lambda a,
                b=2:
         a
         / b)
CASES.append((multi, ((1, 0), (1, 2), (1,))))
