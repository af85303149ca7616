"""Functions of ours over functions of the user's do in a logged run what they do in any other."""

import numpy as np
import pytest
from agreement import agree

import tracegrad as tg
from tracegrad import compile_grad

X = np.arange(6.0).reshape(3, 2) / 3
SCALE = np.array([2.0, 3.0])


def layer(x):
    return np.sin(np.sin(x * SCALE))


OUTSIDE = tg.checkpoint(layer)


def made_outside(x):
    return np.sum(OUTSIDE(x))


def made_inside(x):
    return np.sum(tg.checkpoint(layer)(x))


def over_an_inner_function(x):
    return np.sum(tg.checkpoint(lambda y: np.sin(np.sin(y * SCALE)))(x))


def under_a_transform(x):
    return np.sum(tg.vmap(OUTSIDE)(x))


def with_a_setting(x):
    return np.sum(tg.checkpoint(lambda y, f: f(f(y * SCALE)), static_argnums=1)(x, np.sin))


def operations(f, name):
    return compile_grad(f).explain(X, level="all").count(f"= {name} ")


@pytest.mark.parametrize("f", [made_outside, made_inside, over_an_inner_function, under_a_transform, with_a_setting])
def test_values_are_computed_again(f, monkeypatch):
    compiled = compile_grad(f)
    for _ in range(2):
        agree(compiled, f, X)
        SCALE[0] += 0.5
    assert compiled.stats.traces == 1 and not compiled.stats.live
    assert operations(f, "sin") > operations(lambda x: np.sum(layer(x)), "sin")
    monkeypatch.setitem(globals(), "SCALE", SCALE + 1)
    agree(compiled, f, X)
