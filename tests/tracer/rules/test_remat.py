"""``checkpoint``: the same derivatives with less memory, counted in the memory plan and in the loop's residuals."""

from __future__ import annotations

import re

import numpy as np
import pytest
from agreement import agree

import tracegrad as tg
from tracegrad import autograd, checkpoint_policies, compile_grad

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 12))
WEIGHTS = RNG.normal(size=(24, 12, 12)) / 4
V3 = np.array([0.3, -1.2, 2.0])
POLICIES = (
    None, checkpoint_policies.nothing_saveable, checkpoint_policies.dots_saveable,
    lambda prim, *avals, **params: prim.name == "tanh", checkpoint_policies.everything_saveable,
)  # fmt: skip


def block(x, weights):
    for w in weights:
        x = np.tanh(x @ w)
    return x


def deep(layers):
    def loss(weights):
        x = X
        for k in range(0, 24, 6):
            x = layers(x, [weights[k + j] for j in range(6)])
        return np.sum(x**2)

    return loss


def scanned(layers):
    weights = WEIGHTS.reshape(8, 3, 12, 12)
    return lambda x: np.sum(tg.scan(lambda c, w: (layers(c, [w[0], w[1], w[2]]), None), x, weights)[0] ** 2)


def workspace(compiled, *args):
    """(bytes of the workspace, matrix products) of a gradient."""
    text = compiled.explain(*args, level="all")
    (found,) = re.findall(r"workspace (\d+) bytes", text)
    return int(found), len(re.findall(r"= matmul \w", text))


@pytest.mark.slow
@pytest.mark.parametrize(("make", "argument"), [pytest.param(deep, WEIGHTS, marks=pytest.mark.slow), (scanned, X)])
def test_memory(make, argument, monkeypatch) -> None:
    """Values are not kept, but computed once more; gradients are equal to the last bit."""
    monkeypatch.setattr(tg.config, "explain_lines", 0)  # nothing is folded
    plain = compile_grad(make(block))
    remat = compile_grad(make(tg.checkpoint(block)))
    dots = compile_grad(make(tg.remat(block, policy=checkpoint_policies.dots_saveable)))
    expected = plain.grad(argument)
    for other in (remat, dots):
        np.testing.assert_array_equal(other.grad(argument), expected)
    (most, few), (least, more), (_, same) = (workspace(f, argument) for f in (plain, remat, dots))
    assert least < 0.75 * most, (least, most)
    assert more > few and (same == few or make is scanned)


def test_everything_saved_is_the_function() -> None:
    same = tg.checkpoint(block, policy=checkpoint_policies.everything_saveable)
    programs = [str(tg.make_graph(autograd.grad(deep(f)))(WEIGHTS)) for f in (block, same)]
    assert len(programs[0].splitlines()) == len(programs[1].splitlines())


def closure(f):
    return lambda x: np.sum(f(lambda y: np.sin(y) * np.exp(x * y))(x))


@pytest.mark.parametrize("policy", POLICIES)
def test_derivatives(policy) -> None:
    """With respect to arguments and to what it closes over, in loops, of order two and forward."""

    def remat(f):
        return tg.checkpoint(f, policy=policy)

    inner = remat(lambda tree, k=2: {"a": np.sin(tree[0]) ** k * tree[1], "n": 3})

    def rolled(x):
        for _ in range(6):
            x = inner((x, V3))["a"] + 0.5 * x
        return np.sum(x) * inner((x, V3), k=3)["n"]

    def ended(x):
        step = remat(lambda x: tg.while_loop(lambda c: np.sum(c) < 50, lambda c: c * 1.5 + np.cos(c), x))
        return np.sum(step(x**2 + 1) * x)

    for program in (closure(remat), rolled, ended):
        agree(compile_grad(program), program, V3)
    v = np.array([1.0, 0.5, -0.3])
    program, plain = closure(remat), closure(lambda f: f)
    np.testing.assert_allclose(autograd.hessian(program)(V3), autograd.hessian(plain)(V3), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(autograd.jvp(program, (V3,), (v,))[1], autograd.jvp(plain, (V3,), (v,))[1])
    batch = np.stack([V3, V3 + 1])
    np.testing.assert_allclose(
        autograd.vmap(autograd.grad(program))(batch), autograd.vmap(autograd.grad(plain))(batch), rtol=1e-9
    )


def test_settings_and_control_flow() -> None:
    @tg.checkpoint
    def f(x, name):
        return np.sin(x) if x > 0 and name == "sine" else np.cos(x)

    gradient = autograd.grad(lambda x, name: f(x, name) ** 2)
    for _ in range(3):
        assert gradient(0.5, "sine") == pytest.approx(np.sin(1.0))
        assert gradient(-0.5, "sine") == pytest.approx(np.sin(1.0))
    static = tg.checkpoint(lambda g, x, n: g(x) * n, static_argnums=(0, 2))
    assert autograd.grad(lambda x: static(np.sin, x, n=3))(0.5) == pytest.approx(3 * np.cos(0.5))
    assert static(np.sin, 0.5, 2) == 2 * np.sin(0.5)


def test_values_with_names() -> None:
    """``checkpoint_name``: what a policy keeps is not computed again."""

    def layer(w, x):
        h = tg.checkpoint_name(np.sin(w), "sine")
        return np.sum(np.exp(tg.checkpoint_name(h * h * x, "product")))

    names = {
        tg.checkpoint_policies.save_only_these_names("sine"): (1, 2),
        tg.checkpoint_policies.save_only_these_names("sine", "product"): (1, 1),
        tg.checkpoint_policies.save_any_names_but_these("sine"): (2, 1),
        tg.checkpoint_policies.save_anything_except_these_names("product"): (1, 1),
        None: (2, 2),
    }
    expected = autograd.grad(layer)(V3, 2.0)
    for policy, counts in names.items():
        gradient = autograd.grad(tg.checkpoint(layer, policy=policy))
        np.testing.assert_allclose(gradient(V3, 2.0), expected)
        program = str(tg.make_graph(gradient, simplify=False)(V3, 2.0))
        assert (program.count("= sin"), program.count('name="product"') + program.count("name='product'")) == counts
    tree = {"a": V3, "b": (1, 2.0)}
    assert tg.checkpoint_name(tree, "t") == tree
    lengths = compile_grad(lambda x: np.sum(np.abs(tg.checkpoint_name(x + 1j, "z"))))
    np.testing.assert_allclose(lengths.grad(V3), V3 / np.abs(V3 + 1j))


# ---- rules within ----------------------------------------------------------------------------------------------------

GAINS = np.arange(3.0) + 1


def _forward():
    f = tg.custom_jvp(lambda x: np.sin(x * GAINS))
    f.defjvp(lambda p, t: (f(*p), np.cos(p[0] * GAINS) * t[0] * (np.arange(3.0) + 1)))
    return f


def _linear():
    f = tg.custom_jvp(lambda x: x * GAINS)
    f.defjvp(lambda p, t: (f(*p), f(*t)))
    return f


def _reverse():
    f = tg.custom_vjp(lambda x: x * GAINS)
    f.defvjp(lambda x: (f(x), None), lambda _, g: (g * (np.arange(3.0) + 1),))
    return f


def _each():
    f = tg.custom_jvp(lambda x, y: x * y * GAINS)
    f.defjvps(lambda t, ans, x, y: t * y * GAINS, lambda t, ans, x, y: x * t * GAINS)
    return lambda x: f(x, np.ones(3) * 2)


RULES = {"jvp": _forward, "linear": _linear, "vjp": _reverse, "each argument": _each}
LOOPS = {
    "scan": lambda f, x: tg.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    "scan of rows": lambda f, x: np.sum(tg.scan(lambda c, s: (c, f(c) * s), x, np.arange(2.0) + 1)[1], 0),
    "while_loop": lambda f, x: tg.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1])), (0, x))[1],
    "fori_loop": lambda f, x: tg.fori_loop(0, 2, lambda i, c: f(c), x),
    "cond": lambda f, x: tg.cond(np.sum(x) > 0, f, lambda x: f(f(x)), x),
    "map": lambda f, x: np.sum(tg.map(lambda s: f(x * s), np.arange(2.0) + 1), 0),
    "vmap": lambda f, x: np.sum(tg.vmap(lambda s: f(x * s))(np.arange(2.0) + 1), 0),
    "scan in scan": lambda f, x: tg.scan(lambda c, _: (LOOPS["scan"](f, c), None), x, None, length=2)[0],
    "step": lambda f, x: tg.scan(tg.checkpoint(lambda c, _: (f(c), None)), x, None, length=2)[0],
    "checkpoint": lambda f, x: tg.checkpoint(f)(f(x)),
    "python": lambda f, x: f(f(f(x))),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("rule", RULES)
def test_rules_that_read_constants(rule, loop) -> None:
    """A rule says nothing of the constants that it reads, and nobody wants their cotangents."""
    f = lambda x: LOOPS[loop](RULES[rule](), x)  # noqa: E731
    again = tg.checkpoint(f)
    for derive in (autograd.grad, lambda g: autograd.grad(lambda x: np.sum(autograd.grad(g)(x) * x))):
        plain, kept = (derive(lambda x, g=g: np.sum(g(x) * x))(V3) for g in (f, again))
        np.testing.assert_allclose(kept, plain, rtol=1e-12)
    rows = np.stack([V3, 2 * V3])
    np.testing.assert_allclose(tg.vmap(autograd.grad(lambda x: np.sum(again(x))))(rows), [
        autograd.grad(lambda x: np.sum(f(x)))(row) for row in rows
    ])  # fmt: skip


def test_a_derivative_by_what_a_rule_closes_over_is_still_an_error() -> None:
    def loss(w, x):
        f = tg.custom_jvp(lambda x: x * w)
        f.defjvp(lambda p, t: (f(*p), w * t[0]))
        return np.sum(tg.checkpoint(lambda x: tg.scan(lambda c, _: (f(c), None), x, None, length=2)[0])(x))

    np.testing.assert_allclose(autograd.grad(loss, 1)(GAINS, V3), GAINS**2)
    with pytest.raises(tg.DifferentiationError, match="closes over"):
        autograd.grad(loss, 0)(GAINS, V3)
