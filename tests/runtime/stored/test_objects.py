"""Recordings on disk of functions that read objects and classes of the user's: kept by what the code names of them, and
never found where any of that is something else."""

from __future__ import annotations

import sys
import textwrap
import types
from typing import Any

import numpy as np
import pytest
from with_source import code_of

from tracegrad import compile_grad
from tracegrad.autograd import grad, hessian
from tracegrad.runtime.config import config

MODEL = """
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar
import numpy as np
T = TypeVar("T")
class Base:
    bias = 0.25
    def shape(self, x):
        return np.tanh(x)
    def __call__(self, x):
        return self.shape(x) * self.scale + self.bias
    def unused(self):
        print("never called")
class Layer(Base, Generic[T]):
    "A layer."
    def __init__(self, scale, weights):
        self.scale, self.weights, self.log = scale, weights, open("/dev/null")
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
    def __getitem__(self, k):
        return self.weights[k] * 1.5
class Slots:
    __slots__ = ("rate", "shift", "other")
    def __init__(self):
        self.rate, self.shift = 0.5, np.ones(2)
class Data(NamedTuple):
    power: int
    offsets: np.ndarray
    @property
    def more(self):
        return self.power + 1
@dataclass
class Settings:
    decay: float = 0.125
    steps: int = 2
    def penalty(self, x):
        return self.decay * np.sum(x * x)
layer = Layer(2.0, np.array([1.0, 2.0]))
slots = Slots()
data = Data(2, np.array([0.5, 0.25]))
settings = Settings()
shape = layer.shape
def loss(x):
    z = layer(x) * layer.weights + layer.double + Layer.half(x) + layer.named(x)
    z = z + slots.rate * slots.shift + (x + data.offsets) ** data.power * data.more
    for _ in range(settings.steps):
        z = np.sin(z)
    return np.sum(z) + settings.penalty(x) + len(layer) * np.sum(x) + layer[1] * x[0] + np.sum(shape(x))
"""
X = np.array([0.3, -0.2])


def process(source: str = MODEL) -> types.ModuleType:
    """A module called "model", as another process has it."""
    module = sys.modules["model"] = types.ModuleType("model")
    try:
        exec(code_of(textwrap.dedent(source), "model.py"), module.__dict__)
    finally:
        del sys.modules["model"]
    return module


def slopes(f: Any, x: np.ndarray) -> np.ndarray:
    return np.array([(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(len(x))])


def check(module: types.ModuleType, name: str = "loss") -> int:
    """How many calls were answered from disk, of one that has to be right."""
    fn = getattr(module, name)
    f = compile_grad(fn)
    value, gradient = f.value_and_grad(X)
    np.testing.assert_allclose(value, fn(X), rtol=1e-12)
    np.testing.assert_allclose(gradient, slopes(fn, X), rtol=1e-6, atol=1e-7)
    return f.stats.from_disk


def keep(source: str = MODEL, name: str = "loss") -> None:
    f = compile_grad(getattr(process(source), name))
    for _ in range(2):
        f.value_and_grad(X)
    assert f.stats.not_kept == ""


EDITS = {
    "the code of a method": ("np.tanh(x)", "np.arctan(x)"),
    "a method of the subclass": (
        "    @property\n    def double",
        '    def shape(self, x):\n'
        '        return x\n'
        '    @property\n'
        '    def double'
    ),
    "a class attribute": ("bias = 0.25", "bias = 0.5"),
    "a class attribute in the subclass": ('    "A layer."', '    "A layer."\n    bias = 0.75'),
    "a class attribute's type": ("bias = 0.25", "bias = 1"),
    "an attribute": ("Layer(2.0,", "Layer(3.0,"),
    "an attribute's type": ("Layer(2.0,", "Layer(2,"),
    "an array of another dtype": ("np.array([1.0, 2.0])", "np.array([1.0, 2.0], np.float32)"),
    "an attribute that hides the class's": ("shape = layer.shape", "layer.bias = 2.0\nshape = layer.shape"),
    "a method that is an attribute": ("shape = layer.shape", "layer.shape = np.cos\nshape = layer.shape"),
    "a property": ("2.0 * self.scale", "2.5 * self.scale"),
    "a static method": ("0.5 * x", "0.75 * x"),
    "a class method": ("x * cls.bias", "x * cls.bias * 2"),
    "a special method": ("return 3", "return 4"),
    "another special method": ("self.weights[k] * 1.5", "self.weights[k] * 2.5"),
    "another base": ("class Layer(Base, ", "class Other(Base):\n    bias = 9.0\nclass Layer(Other, "),
    "the class of the object": (
        "slots = Slots()",
        'class More(Layer):\n'
        '    def shape(self, x):\n'
        '        return x * x\n'
        'layer.__class__ = More\n'
        'slots = Slots()'
    ),
    "a slot": ("self.rate, self.shift = 0.5,", "self.rate, self.shift = 0.75,"),
    "an array in a slot": ("np.ones(2)", "np.ones(1)"),
    "a property in the place of a slot": (
        '("rate", "shift", "other")',
        '("shift", "other", "_rate")\n'
        '    rate = property(lambda self: 3.0, lambda self, value: None)'
    ),
    "a field of a named tuple": ("Data(2,", "Data(3,"),
    "a property of a named tuple": ("self.power + 1", "self.power + 2"),
    "a default of a dataclass": ("steps: int = 2", "steps: int = 3"),
    "a method of a dataclass": ("self.decay * np.sum(x * x)", "self.decay * np.sum(x * x * x)"),
    "a bound method's object": (
        "shape = layer.shape",
        'shape = Layer(1.0, 1.0).shape\n'
        'Layer.shape = lambda self, x: x * self.scale'
    ),
    "the module of a class": ("slots = Slots()", "Slots.__module__ = 'other'\nslots = Slots()"),
    "a descriptor": ("slots = Slots()", "Base.scale = property(lambda self: 7.0)\nslots = Slots()"),
    "an attribute hook": (
        "slots = Slots()",
        "Base.__getattribute__ = lambda self, name: 2.0 if name == 'scale' else object.__getattribute__(self, name)\n"
        'slots = Slots()'
    ),
}  # fmt: skip
HARMLESS = {
    "nothing": ("", ""),
    "contents of arrays": ("np.array([1.0, 2.0])", "np.array([5.0, -2.0])"),
    "a description": ("A layer.", "Another."),
    "an attribute that no code names": ("shape = layer.shape", "layer.memo = {}\nshape = layer.shape"),
    "a method that is not called": ('print("never called")', 'print("still not")'),
}


def test_an_object_counts_by_what_the_code_names(cache) -> None:
    keep()
    for name, edit in HARMLESS.items():
        assert edit[0] in MODEL
        assert check(process(MODEL.replace(*edit))) == 1, name


@pytest.mark.parametrize("name", EDITS)
def test_no_edit_of_a_class_or_an_object_gives_a_stale_answer(name, cache) -> None:
    keep()
    assert EDITS[name][0] in MODEL
    assert check(process(MODEL.replace(*EDITS[name]))) == 0
    assert check(process()) == 1


CHOICES = """
from dataclasses import dataclass
import enum
import numpy as np
class Kind(enum.Enum):
    "A kind."
    FLAT = 1
    ROUND = 2
    EVEN = 2
    @property
    def power(self):
        return self.value + 1
    def bend(self, x):
        return np.tanh(x) if self == Kind.ROUND else np.sin(x)
    @classmethod
    def all(cls):
        return [cls.FLAT.value, cls.ROUND.value]
class Order(enum.IntEnum):
    FIRST = enum.auto()
    SECOND = enum.auto()
class Parts(enum.Flag):
    LEFT = enum.auto()
    RIGHT = enum.auto()
    BOTH = LEFT | RIGHT
class Masked(enum.Flag, boundary=enum.CONFORM):
    LOW, HIGH = 1, 2
class Planet(enum.Enum):
    EARTH = (1.5, 2.5)
    def __init__(self, mass, radius):
        self.mass, self.radius = mass, radius
@dataclass(frozen=True)
class Frozen:
    kind: Kind = Kind.ROUND
    decay: float = 0.125
    def penalty(self, x):
        return self.decay * np.sum(self.kind.bend(x))
@dataclass(frozen=True, slots=True, order=True)
class Slotted:
    rate: float
    def __post_init__(self):
        assert self.rate > 0.0, f"not {self.rate}"
frozen, slotted, parts = Frozen(), Slotted(0.5), Parts.LEFT | Parts.RIGHT
def loss(x):
    z = frozen.penalty(x) + slotted.rate * np.sum(x) ** frozen.kind.power + x[Order.FIRST] * Kind.FLAT.value
    if Parts.LEFT in parts:
        z = z * Planet.EARTH.mass + Masked(9).value
    return z * len(Kind.all()) + Kind.EVEN.value * len(frozen.kind.name) + Planet.EARTH.radius
"""
CHOICE_EDITS = {
    "the value of a member": ("FLAT = 1", "FLAT = 3"),
    "the value's type": ("FLAT = 1", "FLAT = 1.0"),
    "the name of a member": ("ROUND = 2\n    EVEN", "SPHERE = 2\n    ROUND = 2\n    EVEN"),
    "an alias": ("EVEN = 2", "EVEN = 3"),
    "a property of members": ("self.value + 1", "self.value"),
    "a method of members": ("np.tanh(x) if", "np.cos(x) if"),
    "a class method of an enumeration": ("[cls.FLAT.value, ", "["),
    "how members are equal": (
        "    @property\n    def power",
        "    def __eq__(self, other):\n        return False\n    def __hash__(self):\n        return hash(self.value)\n"
        "    @property\n    def power",
    ),
    "other flags than those": ("enum.CONFORM", "enum.KEEP"),
    "how values are numbered": (
        "    FIRST = enum.auto()",
        "    _generate_next_value_ = staticmethod(lambda name, start, count, last: count)\n    FIRST = enum.auto()",
    ),
    "the kind of an enumeration": ("class Order(enum.IntEnum)", "class Order(enum.IntFlag)"),
    "a flag": ("Parts.LEFT | Parts.RIGHT\n", "Parts.RIGHT\n"),
    "an attribute of a member": ("= mass, radius", "= 2.0 * mass, radius"),
    "an attribute that is set later": ("frozen, slotted", "Planet.EARTH.mass = 3.0\nfrozen, slotted"),
    "a member of a frozen dataclass": ("Frozen(),", "Frozen(Kind.FLAT),"),
    "a field of a frozen dataclass": ("decay: float = 0.125", "decay: float = 0.25"),
    "a field that is set by force": ("def loss", "object.__setattr__(frozen, 'decay', 0.25)\ndef loss"),
    "a method of a frozen dataclass": ("self.decay * np.sum", "self.decay + np.sum"),
    "a frozen dataclass that can change": ("frozen=True)\nclass Frozen", "frozen=False)\nclass Frozen"),
    "a slot of a frozen dataclass": ("Slotted(0.5)", "Slotted(0.75)"),
}


def test_members_of_enumerations_and_frozen_dataclasses(cache) -> None:
    keep(CHOICES)
    assert check(process(CHOICES)) == 1
    for edit in (("A kind.", "Kinds."), ("frozen, slotted", "Planet.EARTH.note = 3.0\nfrozen, slotted")):
        assert edit[0] in CHOICES
        assert check(process(CHOICES.replace(*edit))) == 1, edit


@pytest.mark.parametrize("name", CHOICE_EDITS)
def test_no_edit_of_an_enumeration_or_a_frozen_dataclass_gives_a_stale_answer(name, cache) -> None:
    keep(CHOICES)
    assert CHOICE_EDITS[name][0] in CHOICES
    assert check(process(CHOICES.replace(*CHOICE_EDITS[name]))) == 0
    assert check(process(CHOICES)) == 1


HASHES = """
import numpy as np
class Named:
    def __init__(self, name):
        self.name = name
    def __hash__(self):
        return hash(self.name)
    def __eq__(self, other):
        return self.name == other.name
    number = __hash__
one, two = Named("a"), Named("b")
def in_lookups(x):
    return np.sum(x * x) * (2.0 if one == two else 3.0)
def by_name(x):
    return np.sum(x * x) * (1.0 + one.__hash__() % 2)
def by_builtin(x):
    return np.sum(x * x) * (1.0 + hash(one) % 2)
def by_helper(x):
    return np.sum(x * x) * (1.0 + Named.__hash__(one) % 2)
def by_another_name(x):
    return np.sum(x * x) * (1.0 + one.number() % 2)
digest = Named.__hash__
def by_global(x):
    return np.sum(x * x) * (1.0 + digest(one) % 2)
START = "__ha"
def by_parts(x):
    return np.sum(x * x) * (1.0 + getattr(one, START + "sh__")() % 2)
def by_text(x):
    return np.sum(x * x) * (1.0 + getattr(one, "__hash__")() % 2)
"""


def test_hashes_are_those_of_one_process(cache) -> None:
    """A method that makes one does no harm, as long as nobody looks at it."""
    module = process(HASHES)
    keep(HASHES, "in_lookups")
    assert check(process(HASHES), "in_lookups") == 1
    for name, fn in vars(module).items():
        if name.startswith("by_"):
            f = compile_grad(fn)
            assert [f(X), f(X)] == pytest.approx([fn(X)] * 2)
            assert f.stats.not_kept or f.stats.live, name
            assert check(process(HASHES), name) == 0


def test_a_change_between_two_calls_is_seen(cache, monkeypatch) -> None:
    monkeypatch.setattr(config, "disk_answers", 100)
    keep()
    module = process()
    f = compile_grad(module.loss)
    f.value_and_grad(X)
    for edit in (
        "layer.scale = 3.0", "Base.bias = 1.0", "slots.rate = 2.0", "settings.steps = 1",
        "Base.shape = lambda self, x: x",
        "layer.weights = np.array([2.0, 3.0, 4.0])[:2].copy(); slots.shift = np.ones(1)",
    ):  # fmt: skip
        assert f.stats.from_disk == 1
        exec(edit, module.__dict__)
        np.testing.assert_allclose(f(X), module.loss(X), rtol=1e-12)


ABSTRACT = """
import abc
import numpy as np
class Model(abc.ABC):
    rate = 2.0
    @abc.abstractmethod
    def inner(self, x): ...
    def outer(self, x):
        return np.sum(self.inner(x)) * self.rate
class Sine(Model):
    def inner(self, x):
        return np.sin(x)
model = Sine()
def loss(x):
    return model.outer(x)
"""


def test_an_object_of_an_abstract_class(cache) -> None:
    keep(ABSTRACT)
    assert check(process(ABSTRACT)) == 1
    for edit in (("np.sin", "np.cos"), ("rate = 2.0", "rate = 3.0"), ("self.rate\n", "self.rate + 1.0\n")):
        assert check(process(ABSTRACT.replace(*edit))) == 0


NAMES = """
import helper_of_names as helper
class Thing:
    rate = 2.0
thing = Thing()
def by_getattr(x):
    return (x * x).sum() * getattr(thing, "rate") + 1.0
def by_hasattr(x):
    return (x * x).sum() * (2.0 if hasattr(thing, "extra") else 1.0)
def by_default(x):
    return (x * x).sum() * getattr(helper, "extra", 1.0)
def by_module(x):
    return (x * x).sum() * getattr(helper, "rate")
def has_module(x):
    return (x * x).sum() * (2.0 if hasattr(helper, "extra") else 1.0)
def by_dict(x):
    return (x * x).sum() * thing.__dict__.get("extra", 1.0)
def by_format(x):
    return (x * x).sum() * len("{0.rate}".format(thing))
"""


@pytest.mark.parametrize(
    "name", ["by_getattr", "by_hasattr", "by_default", "by_module", "has_module", "by_dict", "by_format"]
)
def test_attributes_that_are_read_by_other_ways_count(name, cache, monkeypatch) -> None:
    """Beside the names in instructions: numbers that stand elsewhere in the text, too, so that they have been met."""
    helper = types.ModuleType("helper_of_names")
    helper.rate = 2.0
    monkeypatch.setitem(sys.modules, "helper_of_names", helper)
    for _ in range(2):
        f = compile_grad(getattr(process(NAMES), name))
        for _ in range(2):
            f.value_and_grad(X)
    for edit in ("thing.rate = 1.0", "thing.extra = 3.0", "helper.rate = 1.0", "helper.extra = 3.0"):
        module = process(NAMES)
        before = dict(vars(helper))
        exec(edit, module.__dict__)
        check(module, name)
        vars(helper).clear()
        vars(helper).update(before)


METHODS = """
import numpy as np
from tracegrad import compile_grad
class Model:
    power = 2
    def __init__(self, w, rate):
        self.w, self.rate = w, rate
    def inner(self, x):
        return np.tanh(x * self.w)
    @compile_grad
    def loss(self, x):
        return np.sum(self.inner(x) ** self.power) * self.rate
def of_object(x, model):
    return np.sum(model.inner(x)) * model.rate
"""


def test_methods_and_objects_among_the_arguments(cache) -> None:
    edits = ("", "Model.power = 3", "model.rate = 1.5", "Model.inner = lambda self, x: x * self.w", "model.w = 2.0")
    calls = ("model.loss.grad", "hessian(model.loss)", "compile_grad(of_object).grad")
    for call in calls:
        for turn, edit in enumerate(("", *edits)):
            if edit == edits[1] and call == calls[2]:  # which does not read it
                continue
            module = process(METHODS)
            space = vars(module) | {"hessian": hessian}
            exec(code_of(f"model = Model(np.array([1.0, 2.0]), 0.5)\n{edit}", "edit.py"), space)
            f, model, of_object = eval(call, space), space["model"], space["of_object"]
            args = (X, model) if call == calls[2] else (X,)
            plain = model.loss.__wrapped__ if call != calls[2] else lambda x, m=model, f=of_object: f(x, m)
            stats = (f.__self__ if hasattr(f, "__self__") else f).stats
            for _ in range(2):
                found = f(*args)
                if call != calls[1]:
                    np.testing.assert_allclose(found, slopes(plain, X), rtol=1e-6, atol=1e-7)
            assert (stats.from_disk, stats.not_kept) == (turn == 1, ""), (edit, call)
    module = process(METHODS)
    model = module.Model(np.array([1.0, 2.0]), 0.5)
    found = grad(model.loss)(X)  # which is the gradient of the method
    np.testing.assert_allclose(found, slopes(model.loss.__wrapped__, X), rtol=1e-6, atol=1e-7)
    assert model.loss.stats.from_disk == 1


NOT_KEPT = """
import types
import numpy as np
class Hook:
    def __getattr__(self, name):
        return 2.0
class Items(dict):
    rate = 2.0
class Descriptor:
    def __get__(self, instance, owner):
        return 2.0
class Described:
    rate = Descriptor()
class Holder:
    def __init__(self):
        self.rate, self.names = 2.0, {"a", "b"}
hook, items, described, holder, space = Hook(), Items(), Described(), Holder(), types.SimpleNamespace(rate=2.0)
def by_hook(x): return np.sum(x * hook.rate)
def by_items(x): return np.sum(x * items.rate)
def by_descriptor(x): return np.sum(x * described.rate)
def by_set(x): return np.sum(x * holder.rate) * len(holder.names)
def by_namespace(x): return np.sum(x * space.rate)
"""


def test_objects_that_may_hold_more_are_not_kept_and_say_so(cache) -> None:
    module = process(NOT_KEPT)
    for name, fn in vars(module).items():
        if name.startswith("by_") and name != "by_set":
            # which are code like any other where they are converted
            kept = name in ("by_hook", "by_descriptor", "by_namespace")
            for turn in range(2):
                f = compile_grad(fn)
                assert [f(X), f(X)] == pytest.approx([fn(X)] * 2)
                assert f.stats.from_disk == (kept and turn == 1), name
            assert f.stats.not_kept or f.stats.live or kept, name


MEMBERS = """
import enum
import numpy as np
class Plain(enum.Enum):
    ONE, TWO = 1.0, 2.0
class Int(enum.IntEnum):
    ONE, TWO = 1, 2
class Text(enum.StrEnum):
    ONE, TWO = "1.0", "2.0"
class Flags(enum.Flag):
    ONE, TWO = 1, 2
def loss(x, k):
    return np.sum(x * x) * float(k.value) + (x[0] if k == type(k).TWO else x[1])
"""


@pytest.mark.parametrize(
    ("name", "values"), [("Plain", "1.0, 2.0"), ("Int", "1, 2\n"), ("Text", '"1.0", "2.0"'), ("Flags", "1, 2\ndef")]
)
def test_members_of_enumerations_among_the_arguments(name, values, cache) -> None:
    def answer(source: str, member: str) -> int:
        module = process(source)
        argument = module.__dict__[name][member]
        f = compile_grad(module.loss)
        for _ in range(2):
            assert f(X, argument) == pytest.approx(module.loss(X, argument), rel=1e-12)
        return f.stats.from_disk

    assert [answer(MEMBERS, "ONE") for _ in range(2)] == [0, 1]
    assert answer(MEMBERS, "TWO") == 0
    assert values in MEMBERS
    for edit in ("ONE, TWO", "TWO, ONE"), (values, values.replace("1", "3", 1)), ("type(k).TWO", "type(k).ONE"):
        assert answer(MEMBERS.replace(*edit), "ONE") == 0, edit
    assert answer(MEMBERS, "ONE") == 1


def test_objects_of_all_kinds_among_the_arguments(cache) -> None:
    module = process()
    for other in (object(), module.Layer, module, len, np.int64(3), module.layer, module.data, {1, 2}, b"text", 1j):
        f = compile_grad(lambda x, other: np.sum(x * x))
        assert [f(X, other), f(X, other)] == pytest.approx([np.sum(X * X)] * 2)
