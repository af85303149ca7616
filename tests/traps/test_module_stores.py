"""Traps: what a function stores in a module, however it spells that, is what functions find among their globals in the
same run; the module is left as plain Python leaves it.
"""

from __future__ import annotations

import numpy as np
import pytest
from worlds import MODES, World, disagreement

from tracegrad import compile_grad

pytestmark = [pytest.mark.usefixtures("fresh_kernels"), pytest.mark.filterwarnings("ignore")]

MODULE = """
import numpy as np
W, S, L, table, n = np.ones(3), 2.0, [1.0], {"k": 1.0}, 0
class H: w, s = np.ones(3), 1.0
def energy(x): return np.sum(W ** 2 * x) * S + L[0] + table["k"]
def of_class(x): return np.sum(H.w * x) * H.s
def of_itself(x): return np.sum(of_itself.w * x)
of_itself.w = np.ones(3)
def put(w):
    global W
    W = w
"""
USER = """
import contextlib, functools, sys, types
import numpy as np
import MODULE as m
ME, W0, NAMES, data = sys.modules[__name__], np.ones(3), ["W"], np.array([1.0, 2.0, 3.0])
by_name, holder, inner = {"m": m}, types.SimpleNamespace(m=m), types.SimpleNamespace(h=types.SimpleNamespace(m=m))
class Front:
    @property
    def W(self): return m.W
    @W.setter
    def W(self, value): m.W = value
front = Front()
def store(module, value): module.W = value
def store_named(module, name, value): setattr(module, name, value)
stored = functools.partial(setattr, m, "W")
@contextlib.contextmanager
def instead(value):
    before, m.W = m.W, value
    yield
    m.W = before
def own(x): return np.sum(W0 ** 3 * x)
def f(x):
    r = 0.0
    BODY
    return m.energy(data) + m.of_class(data) + m.of_itself(data) + own(data) + np.sum(x) + r
"""
STORES = {
    "an attribute": "m.W = x",
    "setattr": "setattr(m, 'W', x)",
    "setattr of an object": "object.__setattr__(m, 'W', x)",
    "the module's own setattr": "m.__setattr__('W', x)",
    "a partial of setattr": "stored(x)",
    "a computed name": "setattr(m, NAMES[0], x)",
    "sys.modules": "sys.modules[m.__name__].W = x",
    "the dict": "m.__dict__['W'] = x",
    "vars": "vars(m).update(W=x)",
    "globals of a function": "m.energy.__globals__['W'] = x",
    "another name": "q = m; q.W = x",
    "a loop": "for q in (m,): q.W = x",
    "an import inside": "import MODULE as q; q.W = x",
    "importlib": "import importlib; importlib.import_module('MODULE').W = x",
    "a helper": "store(m, x)",
    "a helper by name": "store_named(m, 'W', x)",
    "an object that holds it": "holder.m.W = x",
    "an object within an object": "inner.h.m.W = x",
    "a dict that holds it": "by_name['m'].W = x",
    "getattr": "getattr(holder, 'm').W = x",
    "a property": "front.W = x",
    "its own function": "m.put(x)",
    "its own function, and back": "m.put(x); r = m.energy(data); m.W = np.ones(3)",
    "a context": "\n    with instead(x): r = m.energy(data)",
    "try and finally": "\n    before, m.W = m.W, x\n    try: r = m.energy(data)\n    finally: m.W = before",
    "an inner function": "\n    def inside(): m.W = x\n    inside()",
    "a lambda": "(lambda v: setattr(m, 'W', v))(x)",
    "a target of for": "for m.W in (x, 2 * x): pass",
    "unpacking": "m.W, m.S = x, np.sum(x)",
    "a starred target": "[m.W, *rest] = [x, 1, 2]",
    "a number": "m.S = np.sum(x)",
    "a number that is added to": "m.S += np.sum(x)",
    "a counter": "m.n += 1; m.S = m.n * 1.0",
    "an item": "m.L[0] = np.sum(x)",
    "another list": "m.L = [np.sum(x)]",
    "an entry": "m.table['k'] = np.sum(x)",
    "another dict": "m.table = {'k': np.sum(x)}",
    "a class in it": "m.H.w = x; setattr(m.H, 's', np.sum(x))",
    "a function in it": "m.of_itself.w = x",
    "its own module": "ME.W0 = x",
    "its own module by name": "sys.modules[__name__].W0 = x",
    "its own globals": "globals()['W0'] = x",
    "its own globals, all": "globals().update(W0=x)",
    "exec": "exec('m.W = x', {'m': m, 'x': x})",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", STORES)
def test_stores(name, mode):
    assert disagreement(USER.replace("BODY", STORES[name]), MODULE, mode=mode, calls=4) is None


@pytest.mark.parametrize("name", ["an attribute", "unpacking", "an entry", "a class in it", "a function in it"])
def test_what_functions_find_among_their_globals_is_replayed(name):
    def look(compiled):
        logged = compiled._dispatcher.logged
        assert not compiled.stats.live and not logged.refused and compiled.stats.traces <= 2

    assert disagreement(USER.replace("BODY", STORES[name]), MODULE, look=look) is None


def test_such_a_function_says_why_its_python_runs():
    with World(USER.replace("BODY", "vars(m).update(W=x)"), MODULE) as world:
        f = compile_grad(world.user.f)
        f.value_and_grad(np.ones(3))
        assert "vars" in f.stats.live and "calls/names" in f.stats.live


@pytest.mark.parametrize("body", ["m.S = np.sum(x)", "m.n += 1", "m.table['k'] = np.sum(x)", "m.L.append(np.sum(x))"])
def test_what_no_function_finds_among_its_globals_is_replayed(body):
    user = USER.replace("BODY", body).replace("m.energy(data) + ", "").replace("r = m.energy(data)", "")

    def look(compiled):
        assert not compiled.stats.live and compiled.stats.traces < compiled.stats.calls

    assert disagreement(user, MODULE, calls=6, look=look) is None
