"""Rules that call functions with rules on tangents: ``return f(x), f(t)``, the usual rule of a linear function.

Such a call has no rule of its own there, as in JAX: its transpose would ask for itself. Every function here is what its
body says, so that derivatives are those of ``plain``, of which no rule is known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tracegrad import autograd, compile_grad

FUNCTIONS: dict[str, Callable[[], tuple[Any, Any]]] = {}


def function(make):
    FUNCTIONS[make.__name__] = make
    return make


def with_rule(body, rule=None, **options):
    """*body* with the rule ``f(x), f(t)``, or with ``rule(f, primals, tangents)``."""
    f = tg.custom_jvp(body, **options)
    f.defjvp(partial(rule, f) if rule else lambda primals, tangents: (f(*primals), f(*tangents)))
    return f


@function
def scaled():
    body = lambda x: -2.0 * x  # noqa: E731
    return with_rule(body), body


@function
def cumulated():
    body = lambda x: 3 * np.cumsum(x, -1)  # noqa: E731
    return with_rule(body), body


@function
def of_two_arguments():
    body = lambda x, y: x + 2.0 * y  # noqa: E731
    f = with_rule(body)
    return lambda x: f(x, np.sin(x)), lambda x: body(x, np.sin(x))


@function
def bilinear():
    f = with_rule(lambda x, y: x * y, lambda f, p, t: (f(*p), f(t[0], p[1]) + f(p[0], t[1])))
    return lambda x: f(np.cos(x), f(x, x)), lambda x: np.cos(x) * x * x


@function
def each_calls_the_other():
    f, g = tg.custom_jvp(lambda x: 2.0 * x), tg.custom_jvp(lambda x: 2.0 * x)
    f.defjvp(lambda p, t: (g(*p), g(*t)))
    g.defjvp(lambda p, t: (f(*p), f(*t)))
    return lambda x: f(x) * g(x * x), lambda x: 4.0 * x**3


@function
def a_circle_of_three():
    fs = [tg.custom_jvp(lambda x: 2.0 * x) for _ in range(3)]
    for k, f in enumerate(fs):
        f.defjvp(lambda p, t, g=fs[(k + 1) % 3]: (g(*p), g(*t)))
    return lambda x: fs[0](x) * x, lambda x: 2.0 * x * x


@function
def sine_and_cosine_with_a_product():
    sin, cos = tg.custom_jvp(np.sin), tg.custom_jvp(np.cos)
    times = with_rule(lambda x, y: x * y, lambda f, p, t: (f(*p), f(p[0], t[1]) + f(t[0], p[1])))
    sin.defjvps(lambda t, ans, x: times(cos(x), t))
    cos.defjvps(lambda t, ans, x: -times(t, sin(x)))
    return lambda x: times(sin(x), cos(x)), lambda x: np.sin(x) * np.cos(x)


@function
def with_a_setting():
    f = tg.custom_jvp(lambda n, x: n * x, nondiff_argnums=(0,))
    f.defjvp(lambda n, p, t: (f(n, *p), f(n, *t)))
    return lambda x: f(3, x) * f(4, x), lambda x: 12.0 * x * x


@function
def of_trees():
    body = lambda d: {"a": 2.0 * d["b"], "b": 3.0 * d["a"]}  # noqa: E731
    f = with_rule(body)
    over = lambda f: lambda x: (lambda d: d["a"] * d["b"])(f({"a": x, "b": x * x}))  # noqa: E731
    return over(f), over(body)


@function
def rule_for_each_argument():
    f = tg.custom_jvp(lambda x, y: x + 2.0 * y)
    f.defjvps(lambda t, ans, x, y: f(t, 0.0 * y), lambda t, ans, x, y: f(0.0 * x, t))
    return lambda x: f(x, x * x), lambda x: x + 2.0 * x * x


@function
def twice_in_the_rule():
    f = with_rule(lambda x: 2.0 * x, lambda f, p, t: (f(*p), f(f(*t)) / 2.0))
    return lambda x: f(x) * x, lambda x: 2.0 * x * x


@function
def scan_in_the_rule():
    rule = lambda f, p, t: (f(*p), tg.scan(lambda c, _: (f(c), None), t[0], None, length=2)[0] / 1.5)  # noqa: E731
    f = with_rule(lambda x: 1.5 * x, rule)
    return lambda x: f(x) * x, lambda x: 1.5 * x * x


@function
def branch_in_the_rule():
    rule = lambda f, p, t: (f(*p), tg.cond(np.sum(p[0]) > 0, f, lambda t: 1.5 * t, t[0]))  # noqa: E731
    f = with_rule(lambda x: 1.5 * x, rule)
    return lambda x: f(x) * x, lambda x: 1.5 * x * x


@function
def scan_in_the_function():
    body = lambda x: tg.scan(lambda c, _: (1.5 * c, None), x, None, length=3)[0]  # noqa: E731
    f = with_rule(body)
    return lambda x: f(x) * x, lambda x: body(x) * x


@function
def method_of_an_object():
    class Operator:
        def __init__(self, scale):
            self.scale = scale
            self.apply = tg.custom_jvp(lambda x: self.scale * x)
            self.apply.defjvp(self.rule)

        def rule(self, primals, tangents):
            return self.apply(*primals), self.push(*tangents)

        def push(self, t):
            return self.apply(t)

    op = Operator(2.5)
    return lambda x: op.apply(x) * op.apply(x * x), lambda x: 6.25 * x**3


@function
def reverse_rule():
    f = tg.custom_vjp(lambda x: 5.0 * x)
    f.defvjp(lambda x: (f(x), None), lambda _, g: (f(g),))
    return lambda x: f(x) * x, lambda x: 5.0 * x * x


@function
def reverse_rules_of_two():
    f, g = tg.custom_vjp(lambda x, y: x * y), tg.custom_vjp(lambda x, y: x * y)
    f.defvjp(lambda x, y: (g(x, y), (x, y)), lambda r, ct: (g(ct, r[1]), g(r[0], ct)))
    g.defvjp(lambda x, y: (f(x, y), (x, y)), lambda r, ct: (f(ct, r[1]), f(r[0], ct)))
    return lambda x: f(x, np.cos(x)), lambda x: x * np.cos(x)


@function
def forward_rule_by_way_of_a_reverse_rule():
    g = tg.custom_vjp(lambda x: 4.0 * x)
    f = with_rule(lambda x: 4.0 * x, lambda f, p, t: (f(*p), g(*t)))
    g.defvjp(lambda x: (g(x), None), lambda _, ct: (f(ct),))
    return lambda x: f(x) * g(x), lambda x: 16.0 * x * x


@function
def symbolic_zeros():
    f = tg.custom_jvp(lambda x, y: 2.0 * x + 3.0 * y)

    def rule(primals, tangents):
        parts = [0.0 * primals[0], 0.0 * primals[1]]
        return f(*primals), sum(
            f(*[t if j == k else parts[j] for j in range(2)])
            for k, t in enumerate(tangents) if type(t) is not tg.SymbolicZero
        )  # fmt: skip

    f.defjvp(rule, symbolic_zeros=True)
    return lambda x: f(x, x * x) * x, lambda x: (2.0 * x + 3.0 * x * x) * x


@function
def of_several_results():
    f = with_rule(lambda x: (2.0 * x, -x))
    return lambda x: f(x)[0] * f(x)[1], lambda x: -2.0 * x * x


X = np.array([0.3, 0.5, 0.7])
TRANSFORMS = {
    "value": lambda f, x: f(x),
    "grad": lambda f, x: autograd.grad(lambda x: np.sum(f(x)))(x),
    "jvp": lambda f, x: autograd.jvp(f, (x,), (1.5 * x,))[1],
    "hessian": lambda f, x: autograd.hessian(lambda x: np.sum(f(x) ** 2))(x),
    "jvp of jvp": lambda f, x: autograd.jvp(lambda x: autograd.jvp(f, (x,), (x,))[1], (x,), (x,))[1],
    "grad of jvp": lambda f, x: autograd.grad(lambda x: np.sum(autograd.jvp(f, (x,), (x * x,))[1]))(x),
    "compiled": lambda f, x: [compile_grad(lambda x: np.sum(f(x))).grad(x) for _ in range(2)][-1],
    "batch": lambda f, x: tg.vmap(autograd.grad(lambda x: np.sum(f(x))))(np.stack([x, 2 * x])),
    "scan": lambda f, x: autograd.grad(lambda x: np.sum(tg.scan(lambda c, _: (f(c), c), x, None, length=3)[0]))(x),
    "loop": lambda f, x: autograd.grad(lambda x: np.sum(f(f(f(x)))))(x),
    "checkpoint": lambda f, x: autograd.grad(lambda x: np.sum(tg.checkpoint(lambda x: f(f(x)))(x)))(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_the_function_without_a_rule(name, transform):
    f, plain = FUNCTIONS[name]()
    np.testing.assert_allclose(TRANSFORMS[transform](f, X), TRANSFORMS[transform](plain, X), rtol=1e-12)


@pytest.mark.parametrize("name", ["scaled", "bilinear", "each_calls_the_other", "branch_in_the_rule", "with_a_setting"])
def test_of_python_numbers(name):
    f, plain = FUNCTIONS[name]()
    for transform in ("grad", "jvp", "hessian", "grad of jvp"):
        assert TRANSFORMS[transform](f, 0.5) == pytest.approx(TRANSFORMS[transform](plain, 0.5), rel=1e-12)


def test_a_rule_on_primals_is_still_used():
    """The wrong rule of g shows that it is asked, in second derivatives too: its argument is no tangent."""
    g = tg.custom_jvp(np.sin)
    g.defjvps(lambda t, ans, x: 7.0 * t)
    h = with_rule(lambda x: 2.0 * x, lambda h, p, t: (h(*p), g(p[0]) * t[0]))
    assert autograd.grad(h)(0.5) == pytest.approx(np.sin(0.5))
    assert autograd.grad(autograd.grad(h))(0.5) == pytest.approx(7.0)
