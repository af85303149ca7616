"""Transforms that are answered from disk: for the same function and settings alone, and with results of any kind."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
from with_source import code_of

from tracegrad import autograd, vmap
from tracegrad.runtime.memo import MEMO

X = np.linspace(0.2, 0.9, 4)
MODEL = """
import numpy as np
from tracegrad import vmap
from tracegrad.autograd import jvp
RATE = 2.0
def f(x):
    return np.sum(np.sin(x) * RATE + x[0] * x**3)
def two(x, y):
    return np.sum(np.sin(x) * y[::-1] ** 2 * RATE), 1.0
def many(x):
    return np.stack([np.cos(x) * RATE, x[::-1] * x])
def row(p):
    return f(p["a"][0] * p["b"])
def pushed(x):
    return np.sum(jvp(many, (x,), (x,))[1])
def mapped(x):
    return np.sum(vmap(f)(x[:, None] * x))
"""


def process(source: str = MODEL) -> types.ModuleType:
    """A module, as another process has it."""
    module = types.ModuleType("model")
    exec(code_of(source, "model.py"), module.__dict__)
    return module


CALLS: dict[str, Any] = {
    "hessian": lambda m: autograd.hessian(m.f)(X),
    "jacfwd": lambda m: autograd.jacfwd(m.many)(X),
    "jacrev": lambda m: autograd.jacrev(m.many)(X),
    "jacobian": lambda m: autograd.jacobian(m.many)(X),
    "jacobian of argument 1": lambda m: autograd.jacobian(m.two, 1, has_aux=True)(X, 2.0 * X),
    "jacobian of both": lambda m: autograd.jacobian(m.two, (0, 1), has_aux=True)(X, 2.0 * X),
    "hvp": lambda m: autograd.hvp(m.f)(X, X + 1.0),
    "vhp": lambda m: autograd.vhp(m.f)(X, X + 1.0),
    "hvp with aux": lambda m: autograd.hvp(m.two, has_aux=True)(X, X, X + 1.0),
    "hvp of argument 1": lambda m: autograd.hvp(m.two, 1, has_aux=True)(X, X, X + 1.0),
    "jvp": lambda m: autograd.jvp(m.many, (X,), (X + 1.0,)),
    "jvp with aux": lambda m: autograd.jvp(m.two, (X, X), (X + 1.0, X), has_aux=True),
    "derivative": lambda m: autograd.derivative(m.many)(X),
    "elementwise_grad": lambda m: autograd.elementwise_grad(m.many)(X),
    "vmap": lambda m: vmap(m.many)(np.outer(X, X)),
    "vmap over axis 1": lambda m: vmap(m.many, 1)(np.outer(X, X)),
    "vmap to axis 2": lambda m: vmap(m.many, 0, 2)(np.outer(X, X)),
    "vmap of a tree": lambda m: vmap(m.row, ({"a": [0], "b": None},))({"a": [X], "b": X}),
    "vmap of another tree": lambda m: vmap(m.row, ({"a": [None], "b": 0},))({"a": [X], "b": X}),
    "a gradient of a sum of jvps": lambda m: autograd.grad(m.pushed)(X),
    "a Hessian of a mapped function": lambda m: autograd.hessian(m.mapped)(X),
    "sparse_jacobian": lambda m: autograd.sparse_jacobian(m.many)(X),
    "sparse_hessian": lambda m: autograd.sparse_hessian(m.f)(X),
}  # fmt: skip


def plain(found: Any) -> list[np.ndarray]:
    if hasattr(found, "toarray"):
        return [found.toarray(), found.indices, found.indptr]
    return [x for part in found for x in plain(part)] if isinstance(found, tuple | list) else [np.asarray(found)]


def counted(call: Any, module: types.ModuleType) -> tuple[list[np.ndarray], int, int]:
    """(results, calls answered from disk, recordings)"""
    found = plain(call(module))
    functions = [fn for fn in vars(module).values() if isinstance(fn, types.FunctionType)]
    made = {id(made.stats): made.stats for fn in functions for made in vars(fn).get(MEMO, {}).values()}
    return found, sum(s.from_disk for s in made.values()), sum(s.traces for s in made.values())


def test_each_transform_with_each_setting_has_an_answer_of_its_own(cache) -> None:
    wanted = {}
    for name, call in CALLS.items():
        module = process()
        first, from_disk, traces = counted(call, module)
        assert from_disk == 0 and traces <= 1, name
        call(module)
        wanted[name] = first
    for name, call in CALLS.items():
        found, from_disk, traces = counted(call, process())
        assert (from_disk, traces) == (1, 0), name
        assert len(found) == len(wanted[name])
        for a, b in zip(found, wanted[name], strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b, err_msg=name)
    for name, call in CALLS.items():
        found, from_disk, _ = counted(call, process(MODEL.replace("RATE = 2.0", "RATE = 3.0")))
        assert from_disk == 0, name
        assert any(a.shape != b.shape or (a != b).any() for a, b in zip(found, wanted[name], strict=True)), name


SPARSE = """
import numpy as np
index = np.array([0, 2, 3, 1])
def f(x):
    return x[index] * x
"""


def test_positions_that_decide_the_pattern_are_compared(cache) -> None:
    def jacobian(module: types.ModuleType) -> np.ndarray:
        transform = autograd.sparse_jacobian(module.f)
        found = transform(X)
        assert type(found).__name__ == "csr_array" and found.has_canonical_format
        dense = autograd.jacfwd(module.f)(X)
        np.testing.assert_allclose(found.toarray(), dense, rtol=1e-12)
        answered.append(transform.stats.from_disk)
        found.data[:] = 7.0  # they are the caller's
        assert not found.indices.flags.writeable
        again = transform(X)
        np.testing.assert_allclose(again.toarray(), dense, rtol=1e-12)
        return dense

    answered: list[int] = []
    first = jacobian(process(SPARSE))
    np.testing.assert_array_equal(jacobian(process(SPARSE)), first)
    other = process(SPARSE)
    other.index[:] = [3, 0, 0, 2]
    assert (jacobian(other) != first).any()
    again = process(SPARSE)
    again.index[:] = [3, 0, 0, 2]
    jacobian(again)
    jacobian(process(SPARSE))
    assert answered == [0, 1, 0, 1, 1]


def test_a_linear_map_is_not_kept_and_says_so(cache) -> None:
    module = process()
    for _ in range(2):
        value, pull = autograd.vjp(module.many, X)
        np.testing.assert_allclose(pull(np.ones_like(value))[0], autograd.jacrev(module.many)(X).sum((0, 1)))
    for _ in range(2):
        value, pull = autograd.vjp(process().many, X)
        np.testing.assert_allclose(pull(np.ones_like(value))[0], autograd.jacrev(module.many)(X).sum((0, 1)))
