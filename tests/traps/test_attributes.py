"""Traps: an attribute is read in some way, and its owner, its class or the way itself changes between calls."""

from __future__ import annotations

import abc
import collections
import collections.abc
import enum
import functools
import math
import operator
import string
import types
import typing
from operator import attrgetter, methodcaller

import numpy as np
import pytest

from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")

X = np.ones(3)


def follows(plain, *changes, args=(), live=None):
    """Compiled, *plain* gives in each call what it gives now: three times, then twice after each change."""
    f = compile_grad(plain)
    seen = []
    for change in (lambda: None, *changes):
        change()
        for _ in range(3):
            want = plain(X, *args)
            assert float(f(X, *args)) == float(want)
        seen.append(float(want))
    assert len(set(seen)) > 1, "the changes change nothing"
    if live is not None:
        assert bool(f.stats.live) is live, f.stats.live
    return f


class Plain:
    pass


def setting(obj, name, value):
    return lambda: setattr(obj, name, value)


def deleting(obj, name):
    return lambda: delattr(obj, name)


# ---- an attribute that is not there ------------------------------------------------------------------------------


def a_function():
    def helper():
        return 1.0

    return helper


def a_module():
    module = types.ModuleType("of_the_user")
    module.__file__ = "of_the_user.py"
    return module


def a_bound_method():
    class C:
        def go(self):
            return 1.0

    return C().go


class Colour(enum.Enum):
    RED = 1


OWNERS = {
    "function": a_function,
    "class": lambda: type("C", (), {}),
    "module": a_module,
    "partial": lambda: functools.partial(max, 1.0),
    "instance": lambda: Plain(),
    "slots": lambda: type("C", (), {"__slots__": ("scale",)})(),
    "namespace": types.SimpleNamespace,
    "enum member": lambda: enum.Enum("E", "A").A,
    "exception class": lambda: type("E", (Exception,), {}),
    "abstract class": lambda: abc.ABCMeta("C", (), {}),
}


def with_default(obj):
    return lambda x: np.sum(x) * getattr(obj, "scale", 1.0)


def with_hasattr(obj):
    return lambda x: np.sum(x) * (obj.scale if hasattr(obj, "scale") else 1.0)


def with_except(obj):
    def f(x):
        try:
            scale = obj.scale
        except AttributeError:
            scale = 1.0
        return np.sum(x) * scale

    return f


def with_vars(obj):
    return lambda x: np.sum(x) * vars(obj).get("scale", 1.0)


@pytest.mark.parametrize("read", [with_default, with_hasattr, with_except], ids=lambda f: f.__name__)
@pytest.mark.parametrize("owner", OWNERS)
def test_absent_attribute(owner, read):
    obj = OWNERS[owner]()
    follows(read(obj), setting(obj, "scale", 2.0), deleting(obj, "scale"), setting(obj, "scale", 3.0), live=False)


@pytest.mark.parametrize("owner", sorted(OWNERS.keys() - {"slots"}))
def test_absent_entry_of_vars(owner):
    obj = OWNERS[owner]()
    follows(with_vars(obj), setting(obj, "scale", 2.0), deleting(obj, "scale"))


def test_absent_attribute_of_a_method():
    method = a_bound_method()
    follows(
        with_default(method), setting(method.__func__, "scale", 2.0), deleting(method.__func__, "scale"), live=False
    )


def test_absent_attribute_appears_in_a_base():
    class A:
        pass

    class B(A):
        pass

    follows(with_default(B()), setting(A, "scale", 2.0), setting(B, "scale", 3.0), deleting(A, "scale"), live=False)


# ---- getattr under another name ----------------------------------------------------------------------------------

PARTLY = functools.partial(getattr)
GETTERS = {
    "alias": lambda ga=getattr: lambda o: ga(o, "rate"),
    "attrgetter": lambda: lambda o: attrgetter("rate")(o),
    "module.attrgetter": lambda: lambda o: operator.attrgetter("rate")(o),
    "captured attrgetter": lambda get=attrgetter("rate"): lambda o: get(o),
    "partial": lambda get=PARTLY: lambda o: get(o, "rate"),
    "map": lambda: lambda o: next(map(getattr, [o], ["rate"])),
    "reduce": lambda: lambda o: functools.reduce(getattr, ["rate"], o),
    "object.__getattribute__": lambda: lambda o: object.__getattribute__(o, "rate"),
    "its alias": lambda og=object.__getattribute__: lambda o: og(o, "rate"),
    "in a list": lambda tools=[getattr]: lambda o: tools[0](o, "rate"),
    "methodcaller": lambda: lambda o: methodcaller("go")(o),
    "captured methodcaller": lambda go=methodcaller("go"): lambda o: go(o),
    "__dict__": lambda: lambda o: o.__dict__["rate"],
    "format": lambda: lambda o: float("{0.rate}".format(o)),  # noqa: UP030, UP032
    "nested format": lambda: lambda o: float("{0.rate:{1.width}.3f}".format(o, o)),
    "format_map": lambda: lambda o: float("{o.rate}".format_map({"o": o})),
    "str.format": lambda: lambda o: float(str.format("{0.rate}", o)),
    "bound format": lambda fmt="{0.rate}".format: lambda o: float(fmt(o)),
    "Formatter": lambda: lambda o: float(string.Formatter().format("{0.rate}", o)),
    "f-string": lambda: lambda o: float(f"{o.rate:.3f}"),
    "percent": lambda: lambda o: float("%(rate)s" % vars(o)),  # noqa: UP031
}


class Config:
    def __init__(self):
        self.rate, self.width = 1.0, 5

    def go(self):
        return self.rate


@pytest.mark.parametrize("way", GETTERS)
def test_getattr_under_another_name(way):
    get, cfg = GETTERS[way](), Config()
    follows(lambda x: np.sum(x) * get(cfg), setting(cfg, "rate", 2.0), setting(cfg, "rate", 1.0))


def test_an_attrgetter_is_replayed():
    cfg, get = Config(), attrgetter("rate")
    follows(lambda x: np.sum(x) * get(cfg), setting(cfg, "rate", 2.0), live=False)
    follows(lambda x: np.sum(x) * float("{0.rate}".format(cfg)), setting(cfg, "rate", 3.0), live=False)  # noqa: UP030, UP032


# ---- attributes of what is called --------------------------------------------------------------------------------


def test_partials():
    p = functools.partial(lambda a, k=1.0: a * k, 1.0, k=2.0)
    p.scale = 1.0
    f = lambda x: np.sum(x) * p() * p.scale  # noqa: E731
    changes = [
        setting(p, "scale", 2.0),
        lambda: p.keywords.update(k=3.0),
        lambda: p.__setstate__((p.func, (5.0,), {"k": 2.0}, {"scale": 1.0})),
        lambda: p.__setstate__((lambda a: a + 1.0, (5.0,), {}, {"scale": 1.0})),
        lambda: setattr(p, "__dict__", {"scale": 7.0}),
    ]
    follows(f, *changes, live=False)


def test_attributes_of_functions():
    helper = a_function()
    helper.calls = [1.0]
    f = lambda x: np.sum(x) * helper.calls[0] * len(helper.__name__)  # noqa: E731
    follows(
        f, lambda: helper.calls.__setitem__(0, 2.0), setting(helper, "calls", [3.0]), setting(helper, "__name__", "h")
    )
    follows(lambda x: np.sum(x) * len(helper.__doc__ or "n"), setting(helper, "__doc__", "text"))


def test_attributes_of_methods():
    method = a_bound_method()
    method.__func__.scale = 1.0
    f = lambda x: np.sum(x) * method.scale  # noqa: E731
    follows(f, setting(method.__func__, "scale", 2.0), setting(method.__func__, "scale", [4.0][0]), live=False)


def test_attributes_of_enum_members():
    class E(enum.Enum):
        A = 1
        B = 2

        def __init__(self, v):
            self.rate = float(v)

        def go(self):
            return self.rate

    rate = lambda x: np.sum(x) * E.A.rate  # noqa: E731
    total = lambda x: np.sum(x) * sum(member.rate for member in E)  # noqa: E731
    called = lambda x, e: np.sum(x) * e.go()  # noqa: E731
    follows(rate, setting(E.A, "rate", 2.0), setting(E.A, "rate", 3.0), live=False)
    follows(total, setting(E.B, "rate", 2.5), setting(E.A, "rate", 5.0))
    follows(called, setting(E.A, "rate", 4.0), setting(E.A, "go", lambda: 9.0), deleting(E.A, "go"), args=(E.A,))


def test_enum_members_that_hold_a_list():
    class E(enum.Enum):
        A = [1.0]  # noqa: RUF012

    follows(lambda x: np.sum(x) * E.A.value[0], lambda: E.A.value.__setitem__(0, 2.0), live=False)


# ---- classes -----------------------------------------------------------------------------------------------------


def test_hooks_that_are_added():
    class A:
        pass

    a = A()
    f = lambda x: np.sum(x) * getattr(a, "rate", 1.0)  # noqa: E731
    changes = [
        setting(A, "__getattr__", lambda self, name: 2.0),
        deleting(A, "__getattr__"),
        setting(A, "__getattribute__", lambda self, name: 3.0),
        deleting(A, "__getattribute__"),
        setting(A, "rate", property(lambda self: 4.0)),
    ]
    follows(f, *changes)


def test_a_module_gets_a_hook():
    module = a_module()
    f = lambda x: np.sum(x) * getattr(module, "rate", 1.0)  # noqa: E731
    follows(f, setting(module, "__getattr__", lambda name: 2.0), deleting(module, "__getattr__"))

    class Lazy(types.ModuleType):
        rate = property(lambda self: 5.0)

    follows(f, lambda: setattr(module, "__class__", Lazy))


def test_bases_change():
    class A:
        def go(self, x):
            return x

        rate = 1.0

    class B:
        def go(self, x):
            return 3.0 * x

        rate = 2.0

    class S(A):
        def go(self, x):
            return super().go(x) * super().rate

    class T(S):
        pass

    def bases(*new):
        return lambda: setattr(S, "__bases__", new)

    for s in (S(), T()):
        follows(lambda x, s=s: np.sum(s.go(x)), bases(B), bases(A, B), bases(B, A), bases(A), live=False)
    super_of = super
    follows(lambda x: np.sum(super_of(S, s).go(x)), bases(B), bases(A))
    follows(lambda x: np.sum(x) * s.rate, bases(B), bases(A), live=False)
    follows(lambda x: np.sum(s.go(x)), setting(A, "rate", 5.0), setting(A, "go", lambda self, x: x * 7.0), live=False)


def test_another_class():
    class A:
        rate = 1.0

    class B:
        rate = 2.0

    a = A()
    follows(lambda x: np.sum(x) * a.rate, setting(a, "__class__", B), setting(a, "__class__", A), live=False)


SPECIAL = {
    "__bool__": (lambda o: 3.0 if o else 1.0, lambda self: False),
    "__len__": (lambda o: 3.0 if o else 1.0, lambda self: 0),
    "__eq__": (lambda o: 3.0 if o == 2 else 1.0, lambda self, other: True),
    "__float__": (lambda o: 3.0 if isinstance(o, typing.SupportsFloat) else 1.0, lambda self: 2.0),
    "__call__": (lambda o: 3.0 if callable(o) else 1.0, lambda self: 2.0),
    "__doc__": (lambda o: float(len(type(o).__doc__ or "")), "text"),
    "__name__": (lambda o: float(len(type(o).__name__)), "a longer name"),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_methods_that_are_added(name):
    class C:
        pass

    c, (read, value) = C(), SPECIAL[name]
    follows(lambda x: np.sum(x) * read(c), setting(C, name, value))


REPLACED = {
    "__len__": (lambda o: len(o), lambda self: 2, lambda self: 3),
    "__iter__": (lambda o: sum(o), lambda self: iter([1.0]), lambda self: iter([1.0, 2.0])),
    "__getitem__": (lambda o: o["k"], lambda self, k: 1.0, lambda self, k: 2.0),
    "__call__": (lambda o: o(), lambda self: 1.0, lambda self: 2.0),
    "__float__": (lambda o: float(o), lambda self: 1.0, lambda self: 2.0),
    "__index__": (lambda o: operator.index(o), lambda self: 1, lambda self: 2),
    "__format__": (lambda o: float(f"{o:x}"), lambda self, spec: "1.0", lambda self, spec: "2.0"),
    "__str__": (lambda o: float(str(o)), lambda self: "1.0", lambda self: "2.0"),
    "__repr__": (lambda o: float(f"{o!r}"), lambda self: "1.0", lambda self: "2.0"),
    "__add__": (lambda o: o + 1, functools.partial(lambda v: v), functools.partial(lambda v: 2.0 * v)),
    "__hash__": (lambda o: hash(o), lambda self: 1, lambda self: 2),
    "__trunc__": (lambda o: math.trunc(o), lambda self: 1, lambda self: 2),
}


@pytest.mark.parametrize("name", REPLACED)
def test_special_methods_that_are_replaced(name):
    read, first, second = REPLACED[name]
    C = type("C", (), {name: first})
    c = C()
    follows(lambda x: np.sum(x) * read(c), setting(C, name, second), setting(C, name, first))


def test_abstract_classes():
    class Marker(abc.ABC):  # noqa: B024
        pass

    class Thing:
        pass

    class Other:
        pass

    def f(x, c):
        return np.sum(x) * (2.0 if isinstance(c, Marker) else 1.0)

    def of_module(x, c):
        return np.sum(x) * (2.0 if issubclass(type(c), collections.abc.Sized) else 1.0)

    def by_pattern(x, c):
        match c:
            case {}:
                return np.sum(x) * 2.0
        return np.sum(x)

    follows(f, lambda: Marker.register(Thing), args=(Thing(),), live=False)
    follows(of_module, lambda: collections.abc.Sized.register(Thing), args=(Thing(),))
    follows(by_pattern, lambda: collections.abc.Mapping.register(Other), args=(Other(),))


def test_patterns():
    class P:
        __match_args__ = ("a", "b")

        def __init__(self):
            self.a, self.b = 1.0, 2.0

    p = P()

    def positional(x):
        match p:
            case P(u, v):
                return np.sum(x) * u + 10 * v
            case P(u):
                return np.sum(x) * u

    def named(x):
        match p:
            case P(a=3.0):
                return np.sum(x)
            case object(c=c):
                return np.sum(x) * c
        return np.sum(x) * 9.0

    follows(positional, setting(P, "__match_args__", ("b", "a")), setting(P, "__match_args__", ("a", "b")))
    follows(named, setting(p, "a", 3.0), setting(p, "a", 1.0), setting(P, "c", 4.0), setting(p, "c", 5.0))


def test_a_class_that_changes_in_other_ways_is_not_recorded_again():
    class C:
        rate = 2.0
        made = 0

    c = C()
    f = follows(lambda x: np.sum(x) * c.rate, setting(C, "rate", 3.0), live=False)
    before = f.stats.traces
    for k in range(5):
        C.made = k
        assert float(f(X)) == 9.0
    assert f.stats.traces == before


#: How an attribute of the instance goes, so that the one of the class is found.
LOST = {
    "pop": lambda m: m.__dict__.pop("rate"),
    "del": lambda m: delattr(m, "rate"),
    "clear": lambda m: m.__dict__.clear(),
    "another dict": lambda m: setattr(m, "__dict__", {}),
}


class Base:
    rate = 0.5


class Derived(Base):
    pass


@pytest.mark.parametrize("how", LOST)
@pytest.mark.parametrize("cls", [Base, Derived])
@pytest.mark.parametrize("writes", [False, True])
def test_the_class_has_one_of_that_name(how, cls, writes):
    """A number that runs store in an instance is found there, even if that of the class would be as good."""

    def made():
        class Model(cls):
            total = 0.5

            def step(self, v):
                type(self).total = self.total * 0.5 + v
                return self.total

        m = Model()

        def f(x):
            if writes:
                m.total = m.step(1.0)
            m.rate = m.rate
            return np.sum(x * x) * m.rate

        return Model, m, f

    (a, m, f), (b, n, g) = made(), made()
    f = compile_grad(f)
    for k in range(9):
        if k % 3 == 2:
            LOST[how](m)
            LOST[how](n)
        assert f(np.ones(2) + k) == g(np.ones(2) + k)
        assert (a.total, vars(m)) == (b.total, vars(n))


@pytest.mark.parametrize("way", ["global", "partial"])
@pytest.mark.parametrize("value", [1.5, [1.5]])
def test_a_member_that_lost_its_name(way, value):
    """The text of it, which files are found by and messages have, can't be made."""
    kind = enum.Enum("Kind", {"A": value})
    member = kind.A

    def read(o, x):
        return np.sum(x) * (3.0 if "rate" in dir(o) else 7.0)

    plain = functools.partial(read, member) if way == "partial" else lambda x: read(member, x)
    compiled = compile_grad(plain)
    assert compiled(X) == plain(X) == 21.0
    member.__dict__ = {"rate": 0.5}
    assert compiled(X) == compile_grad(plain)(X) == plain(X) == 9.0


class _Answers:
    """Has an answer to every name that it lacks."""

    def __getattr__(self, name):
        ASKED.append(name)
        return 0.5


class _AnswersOfClass(type):
    __getattr__ = _Answers.__getattr__


class _Pair(_Answers, tuple):
    rate = 1.5


class _Slots(_Answers):
    __slots__ = ("v",)
    rate = 1.5


class _Own(_Answers):
    rate = 1.5


class _OfClass(metaclass=_AnswersOfClass):
    rate = 1.5


class _Watched:
    rate = 1.5

    def __getattribute__(self, name):
        ASKED.append(name)
        return object.__getattribute__(self, name)


ASKED = []
KEPT = []
USES = {
    "read": lambda x, o: np.sum(x) * o.rate,
    "asked": lambda x, o: np.sum(x) * (2.0 if isinstance(o, _Pair) else 3.0) * (1.0 if o else 2.0),
    "kept": lambda x, o: (KEPT.append(o), np.sum(x))[1],
    "kept with a traced value": lambda x, o: (KEPT.append([o, x]), np.sum(x))[1],
    "its class": lambda x, o: np.sum(x) * len(type(o).__name__),
    "in a loop": lambda x, o: sum([v * o.rate for v in x]),
    "missing": lambda x, o: np.sum(x) * getattr(o, "none", 2.0),
    "unpacked": lambda x, o: np.sum(x) * [o, 2.0][1],
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("of", [_Pair, _Slots, _Own, _OfClass, _Watched])
def test_hooks_are_asked_what_python_asks(of, use):
    """No question of the library's own gets to `__getattr__`, of an object or a class, or to `__getattribute__`."""
    o = of((1.0, 2.0)) if of is _Pair else of()
    function = USES[use]

    def f(x):
        return function(x, o)

    compiled = compile_grad(f)
    for k in range(3):
        said = []
        for g in (f, compiled):
            ASKED.clear()
            said.append((float(g(X + k)), ASKED[:]))
        assert said[0] == said[1]
    KEPT.clear()


#: what is read -> (how it is made, a function that takes it into a dict of its own)
TAKEN = {
    "a dict": (lambda: {"rate": 1.5}, lambda x, o, d: operator.ior(d, o)),
    "an ordered dict": (lambda: collections.OrderedDict(rate=1.5), lambda x, o, d: operator.ior(d, o)),
    "a dict, by a statement": (lambda: {"rate": 1.5}, lambda x, o, d: _joined(d, o)),
    "pairs": (lambda: [("rate", 1.5)], lambda x, o, d: _joined(d, o)),
    "pairs that are lists": (lambda: [["rate", 1.5]], lambda x, o, d: _joined(d, o)),
    "counts": (lambda: collections.Counter(rate=2), lambda x, o, d: _joined(collections.Counter(d), o)),
    "counts that are added": (lambda: collections.Counter(rate=2), lambda x, o, d: _added(collections.Counter(d), o)),
    "into an ordered dict": (lambda: {"rate": 1.5}, lambda x, o, d: _joined(collections.OrderedDict(d), o)),
    "into a defaultdict": (lambda: {"rate": 1.5}, lambda x, o, d: _joined(collections.defaultdict(int, d), o)),
}


def _joined(d, o):
    d |= o
    return d


def _added(d, o):
    d += o
    return d


@pytest.mark.parametrize("name", TAKEN)
def test_what_a_dict_is_joined_with_is_read(name):
    make, take = TAKEN[name]
    o = make()

    def more():
        if isinstance(o, dict):
            o["rate"] += 1
        else:
            o[0] = type(o[0])(("rate", o[0][1] + 1))

    def inside():
        if isinstance(o, dict):
            o["rate"] += 2
        elif isinstance(o[0], list):
            o[0][1] += 2
        else:
            o[:] = [("rate", 9.0)]

    follows(lambda x: np.sum(x) * take(x, o, {"rate": 1})["rate"], more, inside)


@pytest.mark.parametrize("made", ["an instance", "an enum member"])
def test_a_hook_that_answers_for_an_attribute_is_not_asked_by_object(made):
    class Hooked:
        def __init__(self, value=1):
            self.rate = 1.5

        def __getattr__(self, name):
            return 1.5

    class Member(Hooked, enum.Enum):
        A = 1

    o = Hooked() if made == "an instance" else Member.A

    def f(x):
        return np.sum(x) * object.__getattribute__(o, "rate")

    compiled = compile_grad(f)
    for _ in range(3):
        assert compiled(np.ones(3)) == 4.5
    del o.__dict__["rate"]
    for _ in range(2):
        with pytest.raises(AttributeError):
            compiled(np.ones(3))
