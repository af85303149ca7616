"""Plans of logged runs: kept by one call, found by what the run has read, and never where any of that is another.

Another process is the same files loaded anew.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import random
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selection import TIMES

from tracegrad import compile_grad
from tracegrad.runtime.config import config

HELPER = """
import numpy as np
RATE = 0.5
class Unit:
    gain = 1.25
def squash(z, k=1.5, *, more=0.25):
    return np.tanh(z) * k + more
def outer(x):
    return middle(x)
def middle(x):
    return inner(x) * Unit.gain
def inner(x):
    return x * 0.5
def unused(x):
    return x
"""
MODEL = """
import enum
from dataclasses import dataclass
from functools import wraps
from typing import NamedTuple
import numpy as np
import helper
from helper import squash as squashed
SCALE = 2.0
CFG = {"power": 2, "names": ("a", "b"), "deep": {"rate": 0.5}}
SHIFTS = [np.arange(3.0), np.ones(3)]
NAMES = ["one", "two"]
ALLOWED = {"one", "two", "three"}
PLOT = False
class Kind(enum.Enum):
    FLAT = 1
    ROUND = 2
class Base:
    bias = 0.25
    def shape(self, x):
        return np.tanh(x)
    def __call__(self, x):
        return self.shape(x) * self.scale + self.bias
class Layer(Base):
    def __init__(self, scale, weights):
        self.scale, self.weights, self.kind = scale, weights, Kind.ROUND
    @property
    def double(self):
        return 2.0 * self.scale
    @staticmethod
    def half(x):
        return 0.5 * x
    @classmethod
    def named(cls, x):
        return x * cls.bias
    def __len__(self):
        return 3
class Slots:
    __slots__ = ("rate", "other")
    def __init__(self):
        self.rate = 0.5
class Data(NamedTuple):
    power: int
    offset: float
class Scale(float):
    pass
class Config:
    def __init__(self, rate):
        self.rate = rate
SHARED = Config(0.75)
@dataclass
class Settings:
    decay: float = 0.125
    config: Config = SHARED
    def penalty(self, x):
        return self.decay * np.sum(x * x) * self.config.rate
layer, slots, data = Layer(2.0, np.array([1.0, 2.0])), Slots(), Data(2, 0.5)
shape = layer.shape
def twice(fn):
    @wraps(fn)
    def call(x):
        return fn(x) * FACTOR
    return call
FACTOR = 2.0
@twice
def wrapped(x):
    return np.sum(x)
def penalty(w, rate=0.25):
    return rate * np.sum(w * w)
def make(A, c):
    state = {"c": c}
    def loss(w, X, b=0.5):
        if PLOT:
            import matplotlib.pyplot as plt
            plt.plot(w)
        import math
        z = squashed(X @ w) * state["c"] + math.pi
        for s in SHIFTS:
            z = z + s
        if hasattr(helper, "EXTRA"):
            z = z * helper.EXTRA
        if hasattr(slots, "other"):
            z = z * slots.other
        if "bonus" in CFG:
            z = z + CFG["bonus"]
        z = z * len(NAMES) if NAMES[0] in ALLOWED else z
        z = z + getattr(layer, "extra", 1.0) * helper.outer(np.sum(w))
        if layer.kind is Kind.ROUND:
            z = z * Kind.FLAT.value
        z = z + layer.double + Layer.half(w[0]) + layer.named(w[1]) + len(layer)
        z = z + slots.rate * np.sum(w) ** data.power * data.offset + shape(w)[0]
        out = np.mean((z * SCALE - b) ** CFG["power"]) + penalty(w) * helper.RATE + np.sum(np.sin(A * w))
        return out + CFG["deep"]["rate"] * np.sum(layer(w) * layer.weights) + Settings().penalty(w) + wrapped(w)
    return loss
loss = make(np.array([1.0, 2.0]), 3.0)
"""
W, X = np.array([0.3, -0.2]), np.arange(6.0).reshape(3, 2)

# What of the helper or the model is another in the second process, and runs in the first.
EDITS = {
    "the code of the function": (None, ("z + CFG", "z - CFG")),
    "its default": (None, ("b=0.5", "b=0.75")),
    "a global": (None, ("SCALE = 2.0", "SCALE = 2.5")),
    "a global of another type": (None, ("SCALE = 2.0", "SCALE = 2")),
    "a global that is an array now": (None, ("SCALE = 2.0", "SCALE = np.full(3, 2.0)")),
    "a cell": (None, ("2.0]), 3.0)", "2.0]), 4.0)")),
    "an array in a cell": (None, ("make(np.array([1.0, 2.0])", "make(np.array([1.0])")),
    "a branch that runs now": (None, ("PLOT = False", "PLOT = ''")),
    "a callee": (None, ("rate * np.sum(w * w)", "rate * np.sum(w * w * w)")),
    "a default of a callee": (None, ("rate=0.25", "rate=0.5")),
    "a callee in another module": (("np.tanh(z) * k", "np.arctan(z) * k"), None),
    "a keyword's default": (("more=0.25", "more=0.5"), None),
    "a callee two levels down": (("return x * 0.5", "return x * 0.75"), None),
    "a callee three levels down that calls": (("return middle(x)", "return middle(x) + 1.0"), None),
    "a class attribute in another module": (("gain = 1.25", "gain = 1.5"), None),
    "an attribute of a module": (("RATE = 0.5", "RATE = 0.75"), None),
    "a name of a module that was absent": (("RATE = 0.5", "RATE = 0.5\nEXTRA = 2.0"), None),
    "a function under another's name": (("def unused", "def inner(x):\n    return x\ndef unused"), None),
    "a key that was absent": (None, ('"power": 2,', '"power": 2, "bonus": 1.0,')),
    "an item of a dict": (None, ('"power": 2', '"power": 3')),
    "a dict in a dict": (None, ('"rate": 0.5', '"rate": 0.75')),
    "the order of keys": (None, ('"power": 2, "names": ("a", "b")', '"names": ("a", "b"), "power": 2')),
    "the length of a list": (None, ('["one", "two"]', '["one", "two", "x"]')),
    "an item of a list": (None, ('["one", "two"]', '["four", "two"]')),
    "a set": (None, ('{"one", "two", "three"}', '{"two", "three"}')),
    "a list of arrays": (None, ("np.ones(3)]", "np.ones(3), np.ones(3)]")),
    "an array of another shape": (None, ("np.ones(3)]", "np.ones(1)]")),
    "an array of another dtype": (None, ("np.ones(3)]", "np.ones(3, np.float32)]")),
    "one array in two places": (None, ("[np.arange(3.0), np.ones(3)]", "[np.ones(3)] * 2")),
    "a method": (None, ("return np.tanh(x)\n", "return np.arctan(x)\n")),
    "a method of the subclass": (
        None,
        ("    def __len__", "    def shape(self, x):\n        return x\n    def __len__"),
    ),
    "a class attribute": (None, ("bias = 0.25", "bias = 0.5")),
    "a class attribute of the subclass": (None, ("    def __len__", "    bias = 0.75\n    def __len__")),
    "a special method": (None, ("return 3", "return 4")),
    "a property": (None, ("2.0 * self.scale", "2.5 * self.scale")),
    "a static method": (None, ("0.5 * x", "0.75 * x")),
    "a class method": (None, ("x * cls.bias", "x * cls.bias * 2")),
    "an attribute": (None, ("Layer(2.0,", "Layer(3.0,")),
    "an attribute's type": (None, ("Layer(2.0,", "Layer(2,")),
    "an attribute that hides the class's": (None, ("shape = layer.shape", "layer.bias = 2.0\nshape = layer.shape")),
    "an attribute that hides a method": (None, ("shape = layer.shape", "shape = layer.shape\nlayer.shape = np.cos")),
    "an attribute that was absent": (None, ("shape = layer.shape", "layer.extra = 2.0\nshape = layer.shape")),
    "a class's entry that was absent": (None, ("bias = 0.25", "bias = 0.25\n    extra = 2.0")),
    "a data descriptor": (None, ("bias = 0.25", "bias = 0.25\n    weights = property(lambda s: 2.0, lambda s, v: 1)")),
    "an attribute hook": (None, ("bias = 0.25", "bias = 0.25\n    def __getattr__(self, name):\n        return 2.0")),
    "another base": (None, ("class Layer(Base)", "class Other(Base):\n    bias = 9.0\nclass Layer(Other)")),
    "the class of an object": (
        None,
        ("shape = layer.shape", "class More(Layer):\n    bias = 3.0\nlayer.__class__ = More\nshape = layer.shape"),
    ),
    "a slot": (None, ("self.rate = 0.5", "self.rate = 0.75")),
    "a slot that was empty": (None, ("self.rate = 0.5", "self.rate, self.other = 0.5, 2.0")),
    "a field of a named tuple": (None, ("Data(2, 0.5)", "Data(3, 0.5)")),
    "the order of its fields": (None, ("power: int\n    offset: float", "offset: float\n    power: int")),
    "the value of a member": (None, ("FLAT = 1", "FLAT = 3")),
    "the member that it is": (None, ("weights, Kind.ROUND", "weights, Kind.FLAT")),
    "a member that is another's alias": (None, ("FLAT = 1\n    ROUND = 2", "FLAT = 1\n    ROUND = 1")),
    "a default of a dataclass": (None, ("decay: float = 0.125", "decay: float = 0.25")),
    "an object that is a default of a dataclass": (None, ("SHARED = Config(0.75)", "SHARED = Config(0.5)")),
    "a global of a decorator": (None, ("FACTOR = 2.0", "FACTOR = 3.0")),
    "the code of a decorator": (None, ("fn(x) * FACTOR", "fn(x) + FACTOR")),
    "a function in a cell": (None, ("return np.sum(x)\n", "return np.prod(x)\n")),
    "a bound method's object": (None, ("shape = layer.shape", "shape = Layer(1.0, 1.0).shape")),
    "a library's function": (None, ("SCALE = 2.0", "SCALE = 2.0\nclass np(np.__class__):\n    pass\nnp = helper.np")),
}  # fmt: skip
# What may be another, since the run has not read it; or it reads it anew.
HARMLESS = {
    "nothing": (("", ""), None),
    "data of an array": (None, ("np.ones(3)]", "np.full(3, 4.0)]")),
    "a function that is not called": (("def unused(x):\n    return x", "def unused(x):\n    return 2 * x"), None),
    "a branch that does not run": (("", ""), None),
    "a key that is not read": (None, ('("a", "b")', '("a", "c")')),
    "a global that is not read": (None, ("PLOT = False", "PLOT = False\nNEW = 1.0")),
    "a method that is not called": (None, ("    def __len__", "    def more(self):\n        pass\n    def __len__")),
    "a description of a class": (None, ("class Base:", "class Base:\n    'A base.'")),
    "a class that is not met": (None, ("class Scale(float):\n    pass", "class Scale(int):\n    pass")),
}


class Processes:
    """Modules called "helper" and "model", each time made anew of files of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, itertools.count()

    def __call__(self, model: str = MODEL, helper: str = HELPER) -> types.ModuleType:
        folder = self._folder / str(next(self._count))
        folder.mkdir()
        made = []
        try:
            for name, text in (("helper", helper), ("model", model)):
                (folder / f"{name}.py").write_text(text)
                spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
                assert spec is not None and spec.loader is not None
                module = sys.modules[name] = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                made.append(module)
        finally:
            sys.modules.pop("helper", None), sys.modules.pop("model", None)
        return made[1]


@pytest.fixture
def process(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


def plans(cache: Path) -> list[str]:
    return sorted(name for name in os.listdir(cache) if name.startswith("plan-")) if cache.exists() else []


def check(fn: Any, *args: Any) -> Any:
    """The statistics of a function of which one call has been right."""
    f = compile_grad(fn)
    value, gradient = f.value_and_grad(*args)
    np.testing.assert_allclose(value, fn(*args), rtol=1e-12)
    slopes = [(fn(args[0] + e, *args[1:]) - fn(args[0] - e, *args[1:])) / 2e-6 for e in 1e-6 * np.eye(args[0].size)]
    np.testing.assert_allclose(np.ravel(gradient), slopes, rtol=1e-5, atol=1e-6)
    return f.stats


def test_a_closed_log_is_kept_by_the_first_call(cache, process, monkeypatch) -> None:
    monkeypatch.setattr(config, "disk_answers", 2)
    stats = check(process().loss, W, X)
    assert (stats.traces, stats.from_disk, stats.not_kept) == (1, 0, "")
    assert len(plans(cache)) == 1
    fn = process().loss
    f = compile_grad(fn)
    for turn in range(4):
        value, _ = f.value_and_grad(W + turn, X)
        np.testing.assert_allclose(value, fn(W + turn, X), rtol=1e-12)
        assert (f.stats.from_disk, f.stats.traces) == (min(turn + 1, 2), int(turn > 1))
    assert len(plans(cache)) == 1


@pytest.mark.parametrize("name", EDITS)
def test_no_edit_of_what_was_read_gives_a_stale_answer(name, cache, process) -> None:
    assert check(process().loss, W, X).not_kept == ""
    texts = [HELPER, MODEL]
    for k, edit in enumerate(EDITS[name]):
        if edit is not None:
            assert edit[0] in texts[k], name
            texts[k] = texts[k].replace(*edit)
    other = process(texts[1], texts[0]).loss
    harmless = name == "a library's function"
    assert check(other, W, X).from_disk == harmless
    assert check(process().loss, W, X).from_disk == 1  # which is still there
    assert check(process(texts[1], texts[0]).loss, W, X).from_disk == 1


@pytest.mark.parametrize("name", HARMLESS)
def test_what_was_not_read_does_not_count(name, cache, process) -> None:
    assert check(process().loss, W, X).not_kept == ""
    texts = [HELPER, MODEL]
    for k, edit in enumerate(HARMLESS[name]):
        if edit is not None:
            assert edit[0] in texts[k], name
            texts[k] = texts[k].replace(*edit)
    assert check(process(texts[1], texts[0]).loss, W, X).from_disk == 1


@pytest.mark.parametrize("seed", [0, *[pytest.param(k, marks=pytest.mark.slow) for k in range(1, 4 * TIMES)]])
def test_many_processes_with_several_edits_each(seed, cache, process) -> None:
    """Whatever the processes before have kept, each is right."""
    rng = random.Random(seed)
    texts = [(HELPER, MODEL)]
    for _ in range(8):
        helper, model = rng.choice(texts)
        for of_helper, of_model in rng.sample(list({**EDITS, **HARMLESS}.values()), rng.randrange(1, 4)):
            helper = helper.replace(*of_helper) if of_helper else helper
            model = model.replace(*of_model) if of_model else model
        texts.append((helper, model))
    known: set[tuple[str, str]] = set()
    for helper, model in rng.choices(texts, k=16):
        try:
            fn = process(model, helper).loss
            fn(W, X)
        except Exception:  # edits that exclude each other
            continue
        stats = check(fn, W, X)
        assert stats.from_disk or (helper, model) not in known or stats.not_kept or len(known) > 7
        known.add((helper, model))


# Small models: (source, an edit that changes the answer, why they are not kept if they are not).
SMALL = {
    "a lambda in a dict": (
        "ACT = {'a': lambda x: x * x}\ndef f(x): return np.sum(ACT['a'](x))", ("x * x}", "x + x}"), "",
    ),
    "a function in a list": (
        "def g(x): return x * 2\nFS = [g, g]\ndef f(x): return sum(np.sum(h(x)) for h in FS)", ("x * 2", "x * 3"), "",
    ),
    "a generator": (
        "def each(x):\n    for k in range(3):\n        yield x * k\ndef f(x): return sum(np.sum(y) for y in each(x))",
        ("x * k", "x * k * k"), "",
    ),
    "which class it is": (
        "class A: pass\nclass B(A): pass\nobj = B()\ndef f(x): return np.sum(x) * (2 if isinstance(obj, A) else 3)",
        ("class B(A)", "class B"), "",
    ),
    "the type of an object": (
        "class A: rate = 2.0\nobj = A()\ndef f(x): return np.sum(x) * type(obj).rate", ("= 2.0", "= 3.0"), "",
    ),
    "super": (
        "class A:\n    def g(self, x): return x * 2\nclass B(A):\n    def g(self, x): return super().g(x) + 1\n"
        "obj = B()\ndef f(x): return np.sum(obj.g(x))",
        ("x * 2", "x * 3"), "",
    ),
    "what an exception is": (
        "class E(ValueError): pass\ndef g(x): raise E\ndef f(x):\n    try:\n        return g(x)\n"
        "    except ValueError:\n        return np.sum(x)\n    except KeyError:\n        return 2 * np.sum(x)",
        ("E(ValueError)", "E(KeyError)"), "",
    ),
    "a text that is made of a list": (
        "NAMES = ['a', 'b']\ndef f(x): return np.sum(x) * len(f'{NAMES}')", ("'a', 'b'", "'a', 'cde'"), "",
    ),
    "an object that is made": (
        "class A:\n    def __init__(self): self.rate = 2.0\ndef f(x): return np.sum(x) * A().rate",
        ("= 2.0", "= 3.0"), "",
    ),
    "a metaclass's instance": (
        "import abc\nclass A(abc.ABC):\n    rate = 2.0\nclass B(A): pass\nobj = B()\n"
        "def f(x): return np.sum(x) * obj.rate if isinstance(obj, A) else x[0]",
        ("rate = 2.0", "rate = 3.0"), "",
    ),
    "a registered class": (
        "from collections.abc import Sequence\nclass A: pass\nobj = A()\n"
        "def f(x): return np.sum(x) * (2 if isinstance(obj, Sequence) else 3)",
        ("obj = A()", "obj = Sequence.register(A)()"), "registered",
    ),
    "a class's item": (
        "class A:\n    def __class_getitem__(cls, k): return RATES[k]\nRATES = [2.0]\n"
        "def f(x): return np.sum(x) * A[0]",
        ("[2.0]", "[3.0]"), None,
    ),
    "the number of members": (
        "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\ndef f(x): return np.sum(x) * len(E)",
        ("B = 2", "B = 2\n    C = 3"), "",
    ),
    "the order of texts in a set": (
        "def f(x):\n    s = 0.0\n    for k, n in enumerate({'a', 'bc', 'def'}):\n"
        "        s = s + np.sum(x) * k * len(n)\n    return s",
        ("'a', ", "'ax', "), "a set",
    ),
    "texts in order": (
        "ALL = {'a', 'bc'}\ndef f(x): return sum(np.sum(x) ** k * len(n) for k, n in enumerate(sorted(ALL)))",
        ("'a', ", "'ax', "), "",
    ),
    "a text among texts": (
        "ALL = {'a', 'bc'}\ndef f(x): return np.sum(x) * (2 if 'a' in ALL and 'a' in {'a', N} else 3)\nN = 'b'",
        ("'a', ", "'q', "), "",
    ),
    "numbers in a set": (
        "ALL = {3, 1, 2}\ndef f(x):\n    s = 0.0\n    for n in ALL:\n        s = s * n + np.sum(x)\n    return s",
        ("1, 2}", "1, 4}"), "",
    ),
    "a hash": ("def f(x): return np.sum(x) * (1 + hash('a') % 3)", ("'a'", "'b'"), "a hash"),
    "a hash of a number": ("def f(x): return np.sum(x) * hash(N)\nN = 2", ("N = 2", "N = 3"), ""),
    "which text it is": (
        "A = 'x y'\nB = ''.join(['x', ' y'])\ndef f(x): return np.sum(x) * (2 if A is B else 3)",
        ("''.join(['x', ' y'])", "A"), "one object",
    ),
    "which object it is": (
        "class A: pass\na, b = A(), A()\ndef f(x): return np.sum(x) * (2 if a is b else 3)",
        ("A(), A()", "[A()] * 2"), "",
    ),
    "a sentinel": (
        "NO = object()\nVALUE = NO\ndef f(x): return np.sum(x) * (2 if VALUE is NO else 3)", ("= NO", "= object()"), "",
    ),
    "NaN": (
        "N = float('nan')\nALL = [1.0, N]\ndef f(x): return np.sum(x) * (2 if N in ALL else 3)",
        ("[1.0, N]", "[1.0, float('nan')]"), "",
    ),
    "a module of Python's": ("import math\ndef f(x): return np.sum(x) * math.pi", ("math.pi", "math.e"), ""),
    "an import in it": ("def f(x):\n    import math as m\n    return np.sum(x) * m.pi", ("m.pi", "m.e"), ""),
    "an import of a name": ("def f(x):\n    from math import pi as n\n    return np.sum(x) * n", ("pi as", "e as"), ""),
    "a part of SciPy": (
        "def f(x):\n    import scipy.special\n    return np.sum(scipy.special.expit(x))", ("expit", "erf"), "",
    ),
    "a dtype": ("T = np.float32\ndef f(x): return np.sum(x.astype(T)) * 1.0", ("float32", "float64"), ""),
    "contents of an array": (
        "N = np.array([1, 2])\ndef f(x):\n    for _ in range(int(N[1])):\n        x = x * x\n    return np.sum(x)",
        ("[1, 2]", "[1, 3]"), "",
    ),
    "a mutable default": ("def f(x, d=[2.0]): return np.sum(x) * d[0]", ("[2.0]", "[3.0]"), ""),
    "a default of a named tuple": (
        "from typing import NamedTuple\nclass R:\n    rate = 2.0\nclass N(NamedTuple):\n    r: type = R\n"
        "def f(x): return np.sum(x) * N().r.rate",
        ("rate = 2.0", "rate = 3.0"), "",
    ),
    "a factory of a dataclass": (
        "from dataclasses import dataclass, field\n@dataclass\nclass D:\n"
        "    items: object = field(default_factory=list)\ndef f(x): return np.sum(x) * (2 if D().items == [] else 3)",
        ("=list", "=tuple"), "",
    ),
    "the function's name": ("def f(x): return np.sum(x) * len(f.__name__)\nf.__name__ = 'a'", ("'a'", "'ab'"), ""),
    "a global of the decorator's module": (
        "import helper\ndef f(x): return np.sum(helper.squash(x, more=helper.RATE))", ("helper.RATE", "2.0"), "",
    ),
    "a dict with objects as keys": (
        "class A: pass\na, b = A(), A()\nD = {a: 2.0, b: 3.0}\nKEY = a\ndef f(x): return np.sum(x) * D[KEY]",
        ("KEY = a", "KEY = b"), "objects among the keys",
    ),
    "a dict with members as keys": (
        "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\nD = {E.A: 2.0, E.B: 3.0}\nKEY = E.A\n"
        "def f(x): return np.sum(x) * D[KEY]",
        ("KEY = E.A", "KEY = E.B"), "",
    ),
    "a partial": (
        "from functools import partial\ndef g(k, x, n=1): return x * k * n\nh = partial(g, 2.0, n=3)\n"
        "def f(x): return np.sum(h(x))",
        ("n=3", "n=4"), "",
    ),
    "the function in a partial": (
        "from functools import partial\ndef g(k, x): return x * k\nh = partial(g, 2.0)\ndef f(x): return np.sum(h(x))",
        ("x * k", "x + k"), "",
    ),
    "a namespace": (
        "from types import SimpleNamespace\nN = SimpleNamespace(rate=2.0)\ndef f(x): return np.sum(x) * N.rate",
        ("2.0", "3.0"), "",
    ),
    "a dict with a default": (
        "from collections import defaultdict\nD = defaultdict(float, a=2.0)\ndef f(x): return np.sum(x) * D['a']",
        ("2.0", "3.0"), "",
    ),
    "a getter": (
        "import operator\nclass A: rate, other = 2.0, 3.0\na = A()\nget = operator.attrgetter('rate')\n"
        "def f(x): return np.sum(x) * get(a)",
        ("('rate')", "('other')"), "",
    ),
    "a descriptor that takes the place of an attribute": (
        "class D:\n    def __get__(self, obj, cls): return 2.0\nclass A: rate = D()\na = A()\n"
        "a.__dict__['rate'] = 3.0\ndef f(x): return np.sum(x) * a.rate",
        ("class A", "D.__set__ = lambda self, obj, value: None\nclass A"), "the class D",
    ),
    "a compiled function": (
        "from tracegrad import compile_grad\nRATE = 2.0\n@compile_grad\ndef g(x): return np.sum(x * x) * RATE\n"
        "def f(x): return g(x) + 1.0",
        ("RATE = 2.0", "RATE = 3.0"), "",
    ),
    "a derivative": (
        "from tracegrad.autograd import grad\ndef g(x, k): return np.sum(x * x * k)\nslope = grad(g)\n"
        "def f(x): return np.sum(slope(x, 2.0) * x)",
        ("grad(g)", "grad(lambda x, k: np.sum(x * k))"), "",
    ),
    "which argument a derivative is of": (
        "from tracegrad.autograd import grad\ndef g(x, y): return np.sum(x * x * y)\nslope = grad(g, 0)\n"
        "def f(x): return np.sum(slope(x, x * 3))",
        ("grad(g, 0)", "grad(g, 1)"), "",
    ),
    "effects": ("COUNT = [0]\ndef f(x):\n    COUNT.append(1)\n    return np.sum(x)", ("np.sum(x)", "x[0]"), "effects"),
    "draws": ("def f(x): return np.sum(x) * np.random.rand()", None, None),
    "the time": ("import time\ndef f(x): return np.sum(x) * (time.time() > 5)", ("> 5", "< 5"), None),
    "the environment": (
        "import os\ndef f(x): return np.sum(x) * (2 if os.environ.get('HOME') else 3)", ("2 if", "4 if"), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_each_kind_of_read_is_told_or_not_kept(name, cache, process) -> None:
    source, edit, why = SMALL[name]
    source = "import numpy as np\n" + source
    kept = check_value(process(source).f)
    if why is not None:
        assert (why in kept.not_kept) if why else kept.not_kept == "", kept.not_kept
        assert kept.traces == 1, kept
    assert check_value(process(source).f).from_disk == (why == "")
    if edit is not None:
        assert edit[0] in source
        assert check_value(process(source.replace(*edit)).f).from_disk == 0
        assert check_value(process(source).f).from_disk == (why == "")


def check_value(fn: Any) -> Any:
    """The statistics of a function of which one call has been right."""
    f = compile_grad(fn)
    x = np.array([0.5, -1.5, 2.0])
    if "random" in fn.__code__.co_names:
        f(x)
    else:
        np.testing.assert_allclose(f(x), fn(x), rtol=1e-6)
    return f.stats


def test_where_a_function_finds_its_names_counts(cache, process) -> None:
    """Two functions may read one global, or two of the same name and code."""
    penalty = "RATE = {}\ndef penalty(x): return np.sum(x) * RATE\n"
    own = "def f(x): return penalty(x) + RATE"
    for rate, found in ((2.0, 0), (2.0, 1), (3.0, 0)):
        helper = f"import numpy as np\n{penalty.format(rate)}"
        for model in (f"{helper}{own}", f"import numpy as np\nfrom helper import penalty\nRATE = 2.0\n{own}"):
            stats = check_value(process(model, helper).f)
            assert stats.from_disk == found and not stats.not_kept
    cells = """
import numpy as np
def make(k):
    def a(x): return x * k
    def b(x): return x + k
    return a, b
a, b = make(2.0)
def f(x): return np.sum(a(x)) + np.sum(b(x))
"""
    for edit, found in (("make(2.0)", 0), ("make(2.0)", 1), ("make(2.0)[0], make(3.0)[1]", 0), ("make(2.0)", 1)):
        assert check_value(process(cells.replace("make(2.0)", edit)).f).from_disk == found


NUMBERS = """
import numpy as np
RATE, COUNT, STATE = 0.5, 3, {"decay": 0.25}
def f(x):
    return np.sum(x * x) * RATE + np.sum(x) * COUNT - x[0] * STATE["decay"]
"""


def test_numbers_of_the_run_are_read_anew(cache, process) -> None:
    """Once a number has been another one in two calls, recordings hold for all its values."""
    module = process(NUMBERS)
    f = compile_grad(module.f)
    x = np.array([0.5, -1.5])
    for turn in range(3):
        module.RATE, module.COUNT, module.STATE["decay"] = 0.5 + turn, 3 + turn, 0.25 * turn
        assert f(x) == pytest.approx(module.f(x))
    assert f.stats.not_kept == ""
    for rate, count, found in ((7.5, 11, 1), (-0.0, -2, 1), (2.5, 2**40, 0), (2, 3, 0), (float("nan"), 3, 0)):
        module = process(NUMBERS)
        module.RATE, module.COUNT = rate, count
        f = compile_grad(module.f)
        np.testing.assert_allclose(f(x), module.f(x), rtol=1e-12)
        assert f.stats.from_disk == found, (rate, count)


ARGUMENTS = """
import numpy as np
class Model:
    power = 2
    def __init__(self, rate):
        self.rate, self.unused = rate, object()
    def inner(self, x):
        return np.tanh(x) ** self.power
def double(x):
    return 2.0 * x
def triple(x):
    return 3.0 * x
def f(x, model, act, p):
    return np.sum(act(model.inner(x))) * model.rate + np.sum(p["w"][0] * x)
"""


def test_objects_and_functions_among_the_arguments_are_read(cache, process) -> None:
    x, p = np.array([0.5, -1.5]), {"w": [np.array([1.0, 2.0])]}
    for edit, found in (
        ("", 0), ("", 1), ("Model.power = 3", 0), ("Model.inner = lambda self, x: x", 0), ("double = triple", 0),
        ("Model.unused = 1", 1), ("Model.rate = property(lambda self: 5.0, lambda self, value: None)", 0), ("", 1),
    ):  # fmt: skip
        module = process(ARGUMENTS)
        exec(edit, module.__dict__)
        for rate, again in ((0.5, found), (0.75, 0)):
            model = module.Model(rate)
            f = compile_grad(module.f)
            value, _ = f.value_and_grad(x, model, module.double, p)
            np.testing.assert_allclose(value, module.f(x, model, module.double, p), rtol=1e-12)
            assert f.stats.not_kept == "" and (f.stats.from_disk or not again), edit
            if rate == 0.5:
                assert f.stats.from_disk == found, edit


@pytest.mark.slow
def test_processes_with_other_hashes_answer_each_other(cache, tmp_path) -> None:
    for name, text in (("helper", HELPER), ("model", MODEL)):
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "script.py").write_text("""
import sys
import numpy as np
import model
from tracegrad import compile_grad
before = set(sys.modules)
f = compile_grad(model.loss)
value, gradient = f.value_and_grad(np.array([0.3, -0.2]), np.arange(6.0).reshape(3, 2))
if f.stats.traces == 0:  # neither tracer nor compiler is needed
    assert not [m for m in set(sys.modules) - before if m.partition(".")[0] in ("tracegrad", "numba", "llvmlite")]
print(value.hex(), [x.hex() for x in gradient.tolist()], f.stats.from_disk, f.stats.traces)
""")
    root = Path(__file__).resolve().parents[3]
    settings = {"TRACEGRAD_CACHE": "1", "TRACEGRAD_CACHE_DIR": str(cache), "TRACEGRAD_LOG_READS": "1"}
    found = []
    for seed in ("1", "2", "3"):
        env = os.environ | settings | {"PYTHONPATH": f"{root}{os.pathsep}{tmp_path}", "PYTHONHASHSEED": seed}
        command = [sys.executable, str(tmp_path / "script.py")]
        found.append(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    numbers = [line.split("]")[0] for line in found]
    assert numbers[0] == numbers[1] == numbers[2]
    assert [line.split()[-2:] for line in found] == [["0", "1"], ["1", "0"], ["1", "0"]]
