# ruff: noqa: E731, UP031  (odd code is the subject)
"""Each way in which CPython code can read what is no argument: read it, change it, and compare with plain Python.

A case is a function that returns ``(function, change)``.  Its name is the name of a row of docs/internals/soundness.md,
which says what is done: those in ``REPLAYED`` run no Python before the change, those in ``LIVE`` run it in each call.
"""

from __future__ import annotations

import abc
import asyncio
import builtins
import collections
import contextlib
import contextvars
import ctypes
import dataclasses
import decimal
import dis
import enum
import functools
import gc
import importlib
import itertools
import logging
import operator
import os
import random
import re
import sys
import threading
import time
import types
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest
from with_source import code_of

import tracegrad
from tracegrad import compile_grad
from tracegrad.runtime.config import config
from tracegrad.runtime.launch.kernel_cache import kernels

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([0.5, 1.5])
REPLAYED, LIVE = {}, {}
PAGE = Path(__file__).parents[2] / "docs" / "internals" / "soundness.md"


def case(table):
    def add(make):
        table[make.__name__.strip("_").replace("_", " ")] = make
        return make

    return add


replayed, live = case(REPLAYED), case(LIVE)


def in_module(source, **names):
    """A module of the user's with this source."""
    module = types.ModuleType("ways_of_reading")
    module.__dict__.update(names, np=np)
    exec(code_of(source, "ways.py"), module.__dict__)
    return module


class Box:
    def __init__(self, **values):
        self.__dict__.update(values)


# ---- names ----------------------------------------------------------------------------------------------------------


@replayed
def a_global():
    m = in_module("k = 1.0\ndef f(x): return x.sum() * k")
    return m.f, lambda: setattr(m, "k", 2.0)


@replayed
def a_builtin():
    m = in_module("def f(x): return x.sum() * len('ab')")
    return m.f, lambda: setattr(m, "len", lambda text: 5.0)


@replayed
def a_builtin_of_all():
    m = in_module("def f(x): return x.sum() * abs(-2)")
    m.__builtins__ = dict(vars(builtins))
    m.f = types.FunctionType(m.f.__code__, m.__dict__)
    return m.f, lambda: m.__builtins__.update(abs=lambda v: 7.0)


@replayed
def a_closure_cell():
    k = 1.0

    def change():
        nonlocal k
        k = 2.0

    return lambda x: x.sum() * k, change


@live
def a_cell_that_is_empty():
    def fill():
        nonlocal late
        late = 3.0

    def f(x):
        try:
            return x.sum() * late
        except NameError:
            return x.sum()

    if False:
        late = 0.0
    return f, fill


@replayed
def a_default():
    f = lambda x, k=1.0: x.sum() * k
    g = lambda x: f(x)
    return g, lambda: setattr(f, "__defaults__", (2.0,))


@replayed
def a_keyword_default():
    f = lambda x, *, k=1.0: x.sum() * k
    return lambda x: f(x), lambda: f.__kwdefaults__.update(k=2.0)


@replayed
def the_code_of_a_function():
    f = lambda x: x.sum()
    return lambda x: f(x), lambda: setattr(f, "__code__", (lambda x: x.sum() * 2.0).__code__)


@live
def a_name_in_a_class_body():
    m = in_module("k = 1.0\ndef f(x):\n class C:\n  v = k\n return x.sum() * C.v")
    return m.f, lambda: setattr(m, "k", 2.0)


@live
def names_looked_up_by_text():
    m = in_module("k = 1.0\ndef f(x): return x.sum() * globals()['k'] * eval('k')")
    return m.f, lambda: setattr(m, "k", 2.0)


@live
def names_of_a_frame():
    k = Box(v=1.0)
    return lambda x: x.sum() * sys._getframe().f_back.f_globals.get("SECRET", k.v), lambda: setattr(k, "v", 2.0)


# ---- attributes -----------------------------------------------------------------------------------------------------


@replayed
def an_attribute():
    box = Box(v=1.0)
    return lambda x: x.sum() * box.v, lambda: setattr(box, "v", 2.0)


@replayed
def a_slot():
    class Slotted:
        __slots__ = ("v",)

    s = Slotted()
    s.v = 1.0
    return lambda x: x.sum() * s.v, lambda: setattr(s, "v", 2.0)


@replayed
def a_class_attribute():
    class C:
        v = 1.0

    c = C()
    return lambda x: x.sum() * c.v, lambda: setattr(C, "v", 2.0)


@replayed
def a_method():
    class C:
        def g(self):
            return 1.0

    c = C()
    return lambda x: x.sum() * c.g(), lambda: setattr(C, "g", lambda self: 2.0)


@replayed
def a_property():
    class C:
        v = property(lambda self: self.w)
        w = 1.0

    c = C()
    return lambda x: x.sum() * c.v, lambda: setattr(C, "v", property(lambda self: 3.0))


@replayed
def a_descriptor_of_functions():
    class C:
        @staticmethod
        def s():
            return 1.0

        @classmethod
        def c(cls):
            return cls.k

        k = 2.0

    one = C()
    return lambda x: x.sum() * one.s() * one.c(), lambda: setattr(C, "k", 3.0)


@live
def a_descriptor_of_ones_own():
    class D:
        def __get__(self, obj, cls=None):
            return held.v

    class C:
        v = D()

    held, c = Box(v=1.0), C()
    return lambda x: x.sum() * c.v, lambda: setattr(held, "v", 2.0)


@live
def a_getattr_hook():
    class C:
        def __getattr__(self, name):
            return held.v

    held, c = Box(v=1.0), C()
    return lambda x: x.sum() * c.anything, lambda: setattr(held, "v", 2.0)


@live
def a_getattribute_hook():
    class C:
        def __getattribute__(self, name):
            return held.v

    held, c = Box(v=1.0), C()
    return lambda x: x.sum() * c.anything, lambda: setattr(held, "v", 2.0)


@replayed
def an_attribute_that_is_absent():
    box = Box()
    return lambda x: x.sum() * getattr(box, "v", 1.0), lambda: setattr(box, "v", 2.0)


@replayed
def hasattr_():
    box = Box()
    return lambda x: x.sum() * (2.0 if hasattr(box, "v") else 1.0), lambda: setattr(box, "v", 2.0)


@replayed
def an_attribute_error_that_is_caught():
    box = Box()

    def f(x):
        try:
            return x.sum() * box.v
        except AttributeError:
            return x.sum()

    return f, lambda: setattr(box, "v", 2.0)


@replayed
def a_computed_attribute():
    box = types.SimpleNamespace(a=1.0, b=2.0)
    return lambda x: x.sum() * getattr(box, "".join(["a"])), lambda: setattr(box, "a", 3.0)


@replayed
def attrgetter_and_methodcaller():
    box = Box(a=1.0)
    box.g = lambda: box.a
    get, call = operator.attrgetter("a"), operator.methodcaller("g")
    return lambda x: x.sum() * get(box) * call(box), lambda: setattr(box, "a", 3.0)


@replayed
def super_():
    class A:
        def g(self):
            return 1.0

    class B(A):
        def g(self):
            return super().g()

    b = B()
    return lambda x: x.sum() * b.g(), lambda: setattr(A, "g", lambda self: 2.0)


@replayed
def the_bases_of_a_class():
    class A:
        v = 1.0

    class Other:
        v = 2.0

    class B(A):
        pass

    b = B()
    return lambda x: x.sum() * b.v, lambda: setattr(B, "__bases__", (Other,))


@replayed
def the_class_of_an_object():
    class A:
        v = 1.0

    class B:
        v = 2.0

    a = A()
    return lambda x: x.sum() * a.v, lambda: setattr(a, "__class__", B)


@live
def a_metaclass():
    class M(type):
        v = 1.0

    class C(metaclass=M):
        pass

    return lambda x: x.sum() * C.v, lambda: setattr(M, "v", 2.0)


@replayed
def an_attribute_of_a_function():
    def g(x):
        return x.sum()

    g.rate = 1.0
    return lambda x: g(x) * g.rate, lambda: setattr(g, "rate", 2.0)


@replayed
def an_attribute_of_a_partial():
    g = functools.partial(lambda k, x: x.sum() * k, 2.0)
    g.rate = 1.0
    return lambda x: g(x) * g.rate, lambda: setattr(g, "rate", 2.0)


@replayed
def an_attribute_of_an_enum_member():
    class E(enum.Enum):
        A = 1.0

    E.A.rate = 1.0
    return lambda x: x.sum() * E.A.rate, lambda: setattr(E.A, "rate", 2.0)


@replayed
def an_attribute_of_a_users_module():
    m = in_module("v = 1.0")
    return lambda x: x.sum() * m.v, lambda: setattr(m, "v", 2.0)


@replayed
def an_attribute_of_a_librarys_module():
    old = np.tanh
    return lambda x: np.sum(np.tanh(x)), lambda: setattr(np, "tanh", np.sin), lambda: setattr(np, "tanh", old)


@live
def a_getattr_hook_of_a_module():
    held = Box(v=1.0)
    m = in_module("")
    m.__getattr__ = lambda name: held.v
    return lambda x: x.sum() * m.anything, lambda: setattr(held, "v", 2.0)


@replayed
def a_counter():
    box = Box(n=0)

    def f(x):
        box.n += 1
        return np.sum(x) * 2.0 if box.n % 100 > 50 else np.sum(x)

    return f, lambda: setattr(box, "n", 60)


@live
def the_dict_of_an_object():
    box = Box(v=1.0)
    return lambda x: x.sum() * box.__dict__["v"] * vars(box)["v"], lambda: setattr(box, "v", 2.0)


@live
def a_dict_that_has_the_names_of_an_object():
    box = Box(v=1.0, last=0.0)
    names = box.__dict__

    def f(x):
        box.last = x[0]
        return x.sum() * names["v"]

    return f, lambda: setattr(box, "v", 2.0)


# ---- items and iteration --------------------------------------------------------------------------------------------


@replayed
def an_item_of_a_list():
    items = [1.0, 2.0]
    return lambda x: x.sum() * items[0], lambda: items.__setitem__(0, 3.0)


@replayed
def an_item_of_a_dict():
    items = {"a": 1.0}
    return lambda x: x.sum() * items["a"], lambda: items.update(a=3.0)


@replayed
def a_key_that_is_absent():
    items = {"a": 1.0}
    return lambda x: x.sum() * items.get("b", 1.0) * (2.0 if "b" in items else 1.0), lambda: items.update(b=3.0)


@replayed
def a_default_factory():
    items = collections.defaultdict(lambda: held.v)
    held = Box(v=1.0)

    def f(x):
        return x.sum() * (items["a"] if "a" in items else items.default_factory())

    return f, lambda: setattr(held, "v", 2.0)


@replayed
def the_order_of_a_dict():
    items = {"a": 1.0, "b": 2.0}
    return lambda x: x.sum() * next(iter(items.values())), lambda: items.update(a=items.pop("a"))


@replayed
def the_elements_of_a_set():
    items = {1.0}
    return lambda x: x.sum() * sum(items), lambda: items.add(3.0)


@replayed
def the_length_of_a_deque():
    items = collections.deque([1.0])
    return lambda x: x.sum() * len(items), lambda: items.append(2.0)


@replayed
def iteration_in_a_for():
    items = [1.0, 2.0]

    def f(x):
        total = 0.0
        for item in items:
            total = total + x.sum() * item
        return total

    return f, lambda: items.append(3.0)


@replayed
def comprehensions_and_unpacking():
    items, pairs = [1.0, 2.0], {"k": 2.0}

    def g(x, k=1.0):
        return x.sum() * k

    def f(x):
        first, *rest = items
        return g(x, **pairs) * sum([v * 1.0 for v in rest]) * sum([*items]) * first

    return f, lambda: (items.append(3.0), pairs.update(k=5.0))


@replayed
def special_methods_of_items():
    class C:
        def __init__(self):
            self.v = [1.0, 2.0]

        def __getitem__(self, k):
            return self.v[k]

        def __len__(self):
            return len(self.v)

        def __iter__(self):
            return iter(self.v)

        def __contains__(self, k):
            return k in self.v

    c = C()
    return lambda x: x.sum() * c[0] * len(c) * sum(c) * (2.0 if 3.0 in c else 1.0), lambda: c.v.append(3.0)


@live
def an_iterator_that_is_kept():
    numbers = itertools.count(1)
    twin = itertools.count(1)
    return lambda x, which=None: x.sum() * 0.0 + (next(numbers) and 1.0), lambda: next(twin)


@live
def a_generator_that_is_kept():
    numbers = (1.0 for _ in range(100))
    return lambda x: x.sum() * next(numbers), lambda: None


@replayed
def a_generator_function():
    items = [1.0, 2.0]

    def g(x):
        for item in items:
            yield x.sum() * item
        yield from (x[0] * k for k in items)

    return lambda x: sum(g(x)), lambda: items.append(3.0)


# ---- operators, calls, contexts -------------------------------------------------------------------------------------


@replayed
def operators_of_objects():
    class C:
        k = 1.0

        def __mul__(self, other):
            return other * self.k

        def __eq__(self, other):
            return self.k == 2.0

        def __hash__(self):
            return 1

        def __bool__(self):
            return self.k > 0

        def __call__(self, x):
            return x.sum() * self.k

        def __neg__(self):
            return self.k

    c = C()
    return lambda x: c(x) * (c * 2.0) * (3.0 if c == 1 else 1.0) * -c if c else x.sum(), lambda: setattr(C, "k", 2.0)


@replayed
def a_with_statement():
    class C:
        k = 1.0

        def __enter__(self):
            return self.k

        def __exit__(self, *error):
            return None

    c = C()

    def f(x):
        with c as k, contextlib.nullcontext(2.0) as two:
            return x.sum() * k * two

    return f, lambda: setattr(C, "__enter__", lambda self: 5.0)


@replayed
def a_match_statement():
    class P:
        __match_args__ = ("a", "b")

        def __init__(self):
            self.a, self.b = 1.0, 2.0

    p, table, row = P(), {"k": 1.0}, [1.0, 2.0]

    def f(x):
        match p, table, row:
            case P(first, second), {"k": k}, [one, *_]:
                return x.sum() * first * 2 * second * k * one
        return x.sum()

    return f, lambda: setattr(P, "__match_args__", ("b", "a")) or table.update(k=3.0)


@replayed
def format_specs():
    class C:
        k = "1"

        def __format__(self, spec):
            return self.k

    c, box = C(), Box(v=1.0)
    return lambda x: x.sum() * float(f"{c:>3}") * float(f"{box.v}"), lambda: (
        setattr(C, "k", "2"), setattr(box, "v", 3.0),
    )  # fmt: skip


@replayed
def text_of_objects():
    class C:
        k = "1"

        def __str__(self):
            return self.k

        __repr__ = __str__

    c = C()
    return lambda x: x.sum() * float(str(c)) * float(f"{c!r}") * float("%s" % c), lambda: setattr(C, "k", "2")


@live
def the_creation_of_a_class():
    held = Box(v=1.0)

    class Base:
        def __init_subclass__(cls):
            cls.v = held.v

    def f(x):
        class C(Base):
            pass

        return x.sum() * C.v

    return f, lambda: setattr(held, "v", 2.0)


@replayed
def the_creation_of_an_object():
    @dataclasses.dataclass
    class C:
        a: float
        b: float = 1.0

    return lambda x: x.sum() * C(2.0).b * C(3.0).a, lambda: setattr(
        C, "__init__", lambda self, a: setattr(self, "a", 7.0)
    )


@replayed
def isinstance_and_issubclass():
    class A:
        pass

    class Kind(abc.ABC):  # noqa: B024
        pass

    a = A()
    return lambda x: x.sum() * (2.0 if isinstance(a, Kind) else 1.0), lambda: Kind.register(A)


@replayed
def the_class_of_an_exception():
    class WideError(Exception):
        pass

    class NarrowError(WideError):
        pass

    m = in_module(
        "def f(x):\n try:\n  raise E()\n except W:\n  return x.sum() * 2.0\n except Exception:\n  return x.sum()",
        E=NarrowError, W=WideError,
    )  # fmt: skip
    return m.f, lambda: setattr(m, "W", KeyError)


@replayed
def an_assertion():
    m = in_module("limit = 5.0\ndef f(x):\n assert limit > 1.0, 'limit'\n return x.sum() * limit")
    return m.f, lambda: setattr(m, "limit", 2.0)


@live
def an_exception_in_flight():
    return lambda x: x.sum() * (2.0 if sys.exc_info()[0] else 1.0), lambda: None


@live
def a_coroutine():
    held = Box(v=1.0)

    async def inner(x):
        return x.sum() * held.v

    return lambda x: asyncio.run(inner(x)), lambda: setattr(held, "v", 2.0)


# ---- arrays ---------------------------------------------------------------------------------------------------------


@replayed
def an_array():
    w = np.ones(2)
    return lambda x: np.sum(x * w), lambda: w.__setitem__(0, 5.0)


@replayed
def an_array_that_numpy_works_on():
    m = np.diag([1.0, 2.0])
    return lambda x: np.sum(np.linalg.inv(m) @ x), lambda: m.__setitem__((0, 1), 5.0)


@replayed
def an_array_that_is_needed_as_it_is():
    w = np.ones(2)
    return lambda x: np.sum(x) * np.array(sorted(w))[0], lambda: w.__setitem__(slice(None), 5.0)


@replayed
def an_array_of_complex_numbers():
    z = np.array([1.0, 1j])
    return lambda x: np.sum(x * np.abs(z)), lambda: z.__setitem__(0, 5j)


@replayed
def an_array_that_a_class_holds():
    class C:
        w = np.ones(2)

    return lambda x: np.sum(x * C.w), lambda: C.w.__setitem__(0, 5.0)


@replayed
def an_array_of_text():
    names = np.array(["a", "b"])
    return lambda x: x.sum() * (2.0 if names[0] == "z" else 1.0), lambda: names.__setitem__(0, "z")


@live
def an_array_of_objects():
    objects = np.array([1.0, None], dtype=object)
    return lambda x: x.sum() * objects[0], lambda: objects.__setitem__(0, 5.0)


@live
def a_subclass_of_ndarray():
    class A(np.ndarray):
        pass

    w = np.ones(2).view(A)
    return lambda x: np.sum(x) * float(np.asarray(w)[0]), lambda: w.__setitem__(0, 5.0)


# ---- imports --------------------------------------------------------------------------------------------------------


@replayed
def an_import():
    m = in_module("v = 1.0")
    sys.modules["ways_of_reading_imported"] = m

    def f(x):
        import ways_of_reading_imported
        from ways_of_reading_imported import v

        return x.sum() * v * ways_of_reading_imported.v

    def undo():
        del sys.modules["ways_of_reading_imported"]

    return f, lambda: setattr(m, "v", 2.0), undo


@live
def importlib_():
    m = in_module("v = 1.0")
    sys.modules["ways_of_reading_imported"] = m

    def undo():
        del sys.modules["ways_of_reading_imported"]

    get = lambda x: x.sum() * importlib.import_module("ways_of_reading_imported").v
    return get, lambda: setattr(m, "v", 2.0), undo


# ---- calls into C, and contexts -------------------------------------------------------------------------------------


@replayed
def a_setting_of_numpy():
    f = lambda x: x.sum() * (2.0 if np.geterr()["under"] == "warn" else 1.0)
    return f, lambda: np.seterr(under="warn"), lambda: np.seterr(under="ignore")


@replayed
def the_decimal_context():
    def restore():
        decimal.getcontext().prec = 28

    return (
        lambda x: x.sum() * float(decimal.Decimal(1) / 3), lambda: setattr(decimal.getcontext(), "prec", 3), restore,
    )  # fmt: skip


@replayed
def print_options():
    f = lambda x: x.sum() * len(f"{np.array([1 / 3])}")
    return f, lambda: np.set_printoptions(precision=3), lambda: np.set_printoptions(precision=8)


@replayed
def a_setting_of_the_interpreter():
    def change():
        sys.set_int_max_str_digits(5000)

    return lambda x: x.sum() * sys.get_int_max_str_digits(), change, lambda: sys.set_int_max_str_digits(4300)


@replayed
def the_filters_of_warnings():
    filters = warnings.filters
    before = list(filters)
    return (
        lambda x: x.sum() * len(warnings.filters), lambda: warnings.filterwarnings("ignore", "ways of reading"),
        lambda: filters.__setitem__(slice(None), before),
    )  # fmt: skip


@replayed
def a_warning():
    def f(x):
        try:
            warnings.warn("each time", stacklevel=1)
        except UserWarning:
            return x.sum() * 2.0
        return x.sum()

    kept = warnings.filters[:]
    return f, lambda: warnings.simplefilter("error"), lambda: warnings.filters.__setitem__(slice(None), kept)


@replayed
def a_level_of_a_logger():
    log = logging.getLogger("tracegrad.tests.ways")
    log.setLevel(logging.ERROR)

    def f(x):
        log.info("sum %s", x.sum())
        return x.sum() * (2.0 if log.isEnabledFor(logging.INFO) else 1.0)

    return f, lambda: log.setLevel(logging.INFO), lambda: log.setLevel(logging.NOTSET)


@live
def a_warning_within_catch_warnings():
    def f(x):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            warnings.warn("again", stacklevel=1)
        return x.sum() * len(seen)

    return f, lambda: None


@replayed
def a_context_variable():
    var = contextvars.ContextVar("var", default=1.0)
    return lambda x: x.sum() * var.get(), lambda: var.set(2.0)


@live
def an_attribute_of_a_thread():
    local = threading.local()
    local.v = 1.0
    return lambda x: x.sum() * local.v, lambda: setattr(local, "v", 2.0)


@live
def a_lock():
    lock = threading.Lock()
    return lambda x: x.sum() * (2.0 if lock.locked() else 1.0), lock.acquire


@live
def a_clock():
    return lambda x: x.sum() * (1.0 if time.time() > 0 else 2.0), lambda: None


@live
def text_that_is_a_clock():
    start = np.datetime64("2020-01-01")
    return lambda x: x.sum() * float(np.datetime64("today") > start), lambda: None


@replayed
def a_global_generator_that_is_seeded():
    seeds = [0]

    def f(x):
        random.seed(seeds[0])
        return x.sum() * random.random()

    return f, lambda: seeds.append(seeds.pop() + 1)


@replayed
def random_numbers():
    seeds = [0]

    def f(x, generator):
        return x.sum() * generator.random()

    return lambda x: f(x, np.random.default_rng(seeds[0])), lambda: seeds.append(seeds.pop() + 1)


@replayed
def the_environment():
    def restore():
        os.environ.pop("WAYS_OF_READING", None)

    f = lambda x: x.sum() * float(os.environ.get("WAYS_OF_READING", "1"))
    return f, lambda: os.environ.update(WAYS_OF_READING="2"), restore


@live
def the_working_directory():
    return lambda x: x.sum() * (1.0 if os.getcwd() else 2.0), lambda: None


@live
def an_address_in_memory():
    box = Box()
    return lambda x: x.sum() * (1.0 if id(box) else 2.0), lambda: None


@live
def memory_by_ctypes():
    number = ctypes.c_double(1.0)
    return lambda x: x.sum() * number.value, lambda: setattr(number, "value", 2.0)


@live
def a_weak_reference():
    box = Box()
    ref = weakref.ref(box)
    kept = [box]
    del box
    return lambda x: x.sum() * (1.0 if ref() is not None else 2.0), kept.clear


@live
def the_end_of_an_object():
    class Ended:
        def __del__(self):
            ended.append(1)

    ended, box, held = [], Box(last=0.0), [Ended()]

    def f(x):
        box.last = x[0]
        return x.sum() * (1.0 if len(held) > len(ended) else 2.0)

    return f, held.clear


@live
def the_garbage_collector():
    return lambda x: x.sum() * (1.0 if gc.isenabled() else 2.0), lambda: None


@replayed
def results_of_earlier_calls():
    held = Box(v=1.0)
    cached = functools.lru_cache(lambda: held.v)

    def change():
        held.v = 2.0
        cached.cache_clear()

    return lambda x: x.sum() * cached(), change


@live
def the_subclasses_of_a_class():
    class A:
        pass

    kept = []
    return lambda x: x.sum() * (1 + len(A.__subclasses__())), lambda: kept.append(type("B", (A,), {}))


@live
def compiled_code_that_no_one_knows():
    import csv

    before = csv.field_size_limit()
    return (
        lambda x: x.sum() * csv.field_size_limit(),
        lambda: csv.field_size_limit(99),
        lambda: csv.field_size_limit(before),
    )


# ---- the tests ------------------------------------------------------------------------------------------------------


def prepared(make):
    function, change, *undo = make()
    return compile_grad(function), function, change, undo[0] if undo else lambda: None


@pytest.mark.parametrize("name", REPLAYED)
def test_what_is_replayed_notices_the_change(name):
    f, plain, change, undo = prepared(REPLAYED[name])
    try:
        for _ in range(3):
            np.testing.assert_allclose(f(X), plain(X), rtol=1e-12)
        assert not f.stats.live
        recorded = f.stats.traces
        before = f(X)
        assert f.stats.traces == recorded
        change()
        after = plain(X)
        assert not np.allclose(before, after, rtol=1e-12)  # the change counts
        for _ in range(3):
            np.testing.assert_allclose(f(X), after, rtol=1e-12)
    finally:
        undo()


@pytest.mark.parametrize("name", LIVE)
def test_what_cannot_be_compared_runs_in_each_call(name):
    f, plain, change, undo = prepared(LIVE[name])
    try:
        for _ in range(3):
            np.testing.assert_allclose(f(X), plain(X), rtol=1e-12)
        change()
        np.testing.assert_allclose(f(X), plain(X), rtol=1e-12)
    finally:
        undo()


@pytest.mark.parametrize("name", [*REPLAYED, *LIVE])
def test_no_recording_on_disk_answers_after_the_change(name, tmp_path, monkeypatch):
    """The change is between two processes: the same function is made again, and changed before its first call."""
    for setting, value in (("cache", True), ("cache_recordings", True), ("cache_dir", str(tmp_path))):
        monkeypatch.setattr(config, setting, value)
    make = (REPLAYED | LIVE)[name]
    for changed in (False, True, False):
        kernels.clear()
        f, plain, change, undo = prepared(make)
        try:
            if changed:
                change()
            for _ in range(2):
                np.testing.assert_allclose(f(X), plain(X), rtol=1e-12)
        finally:
            undo()


def test_the_page_has_a_row_for_each_case_and_each_instruction():
    text = PAGE.read_text()
    rows = re.findall(r"^\| ([^|]+?) +\| ([\w, -]+?) +\|", text, re.MULTILINE)
    said = {name: treatment for name, treatment in rows if treatment in ("guarded", "re-read", "live")}
    assert said.keys() == REPLAYED.keys() | LIVE.keys()
    assert {name for name, treatment in said.items() if treatment == "live"} == set(LIVE)
    named = set(re.findall(r"`([A-Z][A-Z_0-9]+)`", text))
    general = {op.removesuffix("*") for op in re.findall(r"`([A-Z_]+\*)`", text)}
    unknown = [
        op for op in dis.opmap
        if op not in named and not op.startswith(tuple(general)) and not op.startswith("INSTRUMENTED")
    ]  # fmt: skip
    assert not unknown


# ---- bodies of classes that a run makes: their names are looked up in globals alone --------------------------------

SCALE, SHIFTS, SEEN = np.ones(3), [0.5], []


def twice(value):
    return 2.0 * value


def a_body_with_an_array(x):
    class Made:
        w = SCALE * 2.0

    return np.sum(Made.w * x)


def a_body_with_a_helper_and_a_list(x):
    class Made:
        w, n = twice(np.sum(SCALE)), len(SHIFTS)

    SHIFTS.append(0.5)
    return np.sum(x) * Made.w + Made.n


def a_body_in_a_helper(x):
    def made():
        class Inner:
            class Deeper:
                w = SCALE

            total = np.sum(SCALE)

        return Inner

    return np.sum(x * made().Deeper.w) + made().total


def a_body_with_methods(x):
    class Made:
        start = SHIFTS[0]

        def go(self, x, by=SCALE):
            return np.sum(x * by) + self.start * len(SEEN)

    SEEN.append(1)
    return Made().go(x)


@pytest.mark.parametrize(
    "f", [a_body_with_an_array, a_body_with_a_helper_and_a_list, a_body_in_a_helper, a_body_with_methods]
)
@pytest.mark.parametrize("library", [compile_grad, tracegrad.compile])
def test_bodies_of_classes_read_what_is_replaced(f, library, monkeypatch):
    for name, value in (("SHIFTS", [0.5]), ("SEEN", []), ("SCALE", np.arange(3.0))):
        monkeypatch.setitem(globals(), name, value)
    compiled = library(f)
    for k in range(5):
        x = np.ones(3) + k
        if k == 3:
            monkeypatch.setitem(globals(), "SCALE", np.arange(3.0) * 5)
        before = list(SHIFTS), list(SEEN)
        expected = f(x)
        after = list(SHIFTS), list(SEEN)
        SHIFTS[:], SEEN[:] = before
        assert float(compiled(x)) == expected
        assert after == (SHIFTS, SEEN)
