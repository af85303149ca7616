"""NumPy under other names: as a parameter, in objects, classes, dicts and closures, whole or function by function."""

import functools
import sys
import types

import numpy as np
import pytest
from numpy import array as from_numpy

import tracegrad as tg
from tracegrad import compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")
X = np.array([1.0, 2.0, 3.0])
TABLE = {"xp": np, "array": np.array, "makers": {"z": np.zeros}}
backend = types.ModuleType("backend")
backend.np, backend.make = np, np.array
settings = types.SimpleNamespace(xp=np, lib=types.SimpleNamespace(xp=np))


def of(xp, x):
    return xp.sum(xp.array([x[0] * x[1], x[2]]) * xp.asarray([x[2], 1.0]))


def default(x, xp=np):
    return of(xp, x)


def default_in_place(x, xp=np):
    return xp.sum(xp.array([x[0] * x[1], x[2]]))


def keyword_default(x, *, xp=np):
    return xp.sum(xp.array([[x[0], x[1]], [x[2], 1.0]]) @ xp.array([x[1], 2.0]))


def fallback(x, xp=None):
    xp = xp or np
    return xp.sum(xp.array([x[0] * x[1], x[2]]))


def written(x, xp=np):
    out = xp.zeros(3)
    out[0], out[1:] = x[0] * x[1], x[1:] ** 2
    like = xp.empty_like(xp.ones(2))
    like[:] = x[2]
    return xp.sum(out) + like[0]


def linear_algebra(x, xp=np):
    m = xp.array([[x[0], 1.0], [x[1], x[2]]])
    return xp.linalg.norm(xp.array([x[0], x[1]])) + xp.linalg.det(m) + xp.linalg.solve(m, xp.array([x[2], 1.0]))[0]


def compared(x, xp=np):
    if xp is np and xp == np and xp in (np, None) and xp.__name__ == "numpy" and isinstance(xp, types.ModuleType):
        return xp.sum(xp.array([x[0] * x[1], x[2]]))
    return x[0]


def by_function(x, make=np.array, zeros=np.zeros, from_import=from_numpy):
    out = zeros(2)
    out[1] = x[2]
    return np.sum(make([x[0] * x[1], x[2]]) * out + from_import([x[0], x[1]]))


def in_dict(x):
    return TABLE["xp"].sum(TABLE["array"]([x[0] * x[1], x[2]]) * TABLE["xp"].array([x[1], x[2]]))


def in_dict_of_dicts(x):
    out = TABLE["makers"]["z"](2)
    out[0] = x[0] * x[1]
    return np.sum(out)


def in_module(x):
    return backend.np.sum(backend.np.array([x[0], x[1]]) * backend.make([x[2], x[0]]))


def in_namespace(x):
    return settings.lib.xp.sum(settings.xp.array([x[0] * x[1], x[2]]))


def by_getattr(x, name="array"):
    return np.sum(getattr(np, "array")([x[0] * x[1], x[2]]) * getattr(settings.xp, name)([x[1], x[0]]))  # noqa: B009


def in_closure():
    xp, make = np, np.array
    return lambda x: xp.sum(xp.array([x[0] * x[1], x[2]]) * make([x[1], x[0]]))


class Base:
    xp, array = np, staticmethod(np.array)


class Model(Base):
    def __init__(self):
        self.np, self.op, self.parts = np, np.array, [np, np.array]

    def by_attribute(self, x):
        return self.np.sum(self.np.array([x[0] * x[1], x[2]]) * self.op([x[1], x[0]]))

    def by_item(self, x):
        return self.parts[0].sum(self.parts[1]([x[0] * x[1], x[2]]) * self.parts[0].stack([x[1], x[0]]))

    def by_class(self, x):
        return self.xp.sum(self.xp.array([x[0] * x[1], x[2]]) * self.array([x[1], x[0]]))

    @classmethod
    def by_class_method(cls, x):
        return cls.xp.sum(cls.xp.array([x[0] * x[1], x[2]]))

    @property
    def namespace(self):
        return self.np

    def by_property(self, x):
        return self.namespace.sum(self.namespace.array([x[0] * x[1], x[2]]))


class Slots:
    __slots__ = ("xp",)

    def __init__(self):
        self.xp = np

    def loss(self, x):
        return self.xp.sum(self.xp.array([x[0] * x[1], x[2]]))


PROGRAMS = [
    default, default_in_place, keyword_default, fallback, written, linear_algebra, compared, by_function, in_dict,
    in_dict_of_dicts, in_module, in_namespace, by_getattr, in_closure(), Model().by_attribute, Model().by_item,
    Model().by_class, Model.by_class_method, Model().by_property, Slots().loss, functools.partial(of, np),
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: getattr(p, "__qualname__", "partial"))
def test_a_namespace_is_numpy_wherever_it_is_held(program):
    f = compile_grad(program)
    for k in range(4):
        x, traces = X + k, f.stats.traces
        value, gradient = f.value_and_grad(x)
        slopes = [(program(x + e) - program(x - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
        assert np.allclose(value, program(x)) and np.allclose(gradient, slopes, atol=1e-5)
    assert not f.stats.live and f.stats.traces == traces


def test_a_namespace_of_tensors_takes_its_turn():
    """The flag is what `xp` is: another one is another recording."""

    class Model:
        xp = np

        def loss(self, x):
            return self.xp.sum(self.xp.array([x[0] * x[1], x[2]])) if self.xp is np else x[0]

    model = Model()
    f = compile_grad(model.loss)
    for xp in (np, np, None, None, np, np):
        model.xp = xp
        assert np.allclose(f.grad(X), [2, 1, 1] if xp is np else [1, 0, 0])
    assert model.xp is np and Model.xp is np


def test_namespaces_that_are_kept_are_numpy_itself():
    kept = []

    def fn(x, xp=np):
        kept.append(xp)
        return xp.sum(xp.array([x[0], x[1]]))

    f = compile_grad(fn)
    for _ in range(4):
        f.grad(X)
    assert all(xp is np for xp in kept) and fn.__defaults__ == (np,) and fn.__defaults__[0] is np


def test_no_comparison_of_what_may_be_numpy_itself_is_wrong():
    def fn(x, xp=np):
        if xp is sys.modules["numpy"]:
            return np.sum(x) * 2
        return xp.sum(xp.array([x[0], x[1]]))

    f = compile_grad(fn)
    for _ in range(3):
        assert np.allclose(f.grad(X), 2)


def test_a_step_of_tensors():
    class Model:
        def __init__(self):
            self.xp, self.w = np, tg.tensor(np.ones(2), requires_grad=True)

        def step(self, x):
            scale = self.xp.sum(self.xp.array([2.0, 3.0]))
            return tg.sum(self.w * x) * scale

    model = Model()
    step = tg.compile(model.step)
    for _ in range(3):
        assert float(step(tg.tensor(X[:2]))) == 15.0
