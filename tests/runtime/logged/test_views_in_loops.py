"""Parts of arrays in loops over symbols are views, as NumPy's: what is written into one is written into the array."""

from __future__ import annotations

import time

import numpy as np
import pytest
from along_one_way import check
from with_source import code_of

from tracegrad import compile_grad
from tracegrad.runtime.inspection import see
from tracegrad.tracer.ir.primitive import LOOP

N = 20
WRITES = [
    "w = {z}[j : j + 2]; w += t", "w = {z}[j : j + 1]; w *= 0.5", "{z}[j : j + 3].fill(1.5)", "{z}[j : j + 3].fill(t)",
    "w = {z}[j : j + 2]; w[0] = t", "w = {z}[j : j + 2]; w[:] = t", "np.add({z}[j : j + 2], t, out={z}[j : j + 2])",
    "np.copyto({z}[j : j + 2], t)", "{z}[j : j + 2].put([0], [t])", "{z}[j : j + 2].flat[0] = t",
    "w = {z}[j : j + 4 : 2]; w += t", "w = {z}[j : j + 2].reshape(2, 1); w += t", "w = {z}[j : j + 2][None]; w += t",
    "np.putmask({z}[j : j + 2], [True, False], t)", "np.add.at({z}[j : j + 2], [0, 0], t)",
    "{z}[j] = t; {z}[j : j + 2].sort()", "w = {z}[j : j + 2]; {z}[:] = {z} + 0.1; t = t + w[0] * 0.01",
    "w = {m}[j]; np.add({m}, 1.0, out={m}); t = t + w[0] * 0.01", "w = {m}[j]; {m}.fill(2.0); t = t + w[0] * 0.01",
    "w = {z}[j : j + 2]; {z}[j] = t; t = t + w[0] * 0.01", "w = {z}[j : j + 2]; {z} += 0.1; t = t + w[0] * 0.01",
    "w = {m}[j]; w += t", "w = {m}[j]; w += 1.0", "w = {m}[j]; w[0] = t", "{m}[j].fill(t)", "{m}[j][1:] = t",
    "{m}[j, 1:][:] = 2.0",
    "w = {m}[j : j + 2]; w += t", "w = {m}[j : j + 2, 1]; w += t", "w = {m}[1, j % 2 : j % 2 + 2]; w += t",
    "w = {m}[j : j + 2, j % 3]; w += t", "for v in {m}[j : j + 2]: v += t", "w = {m}[j : j + 1][0]; w += t",
    "w = {m}[:, j % 3]; w[j] = t", "np.fill_diagonal({m}[j : j + 3], t)", "w = {m}.reshape(-1)[j : j + 2]; w += t",
    "w = {m}[(j * j) % 20]; w += t", "np.put_along_axis({m}[j : j + 1], np.zeros((1, 1), int), t, 1)",
]  # fmt: skip
AFTERWARDS = [  # in the loop, after it
    ("w = {z}[j : j + 2]", "w += 1.0"), ("w = {z}[j : j + 2]", "w += t"),
    ("w = {z}[j : j + 2]", "{z}[19] = 7.0; t = t + w[0]"),
    ("w = {m}[j]", "w += t"), ("w = {m}[j]", "{m}[19, 0] = 7.0; t = t + w[0]"), ("w = {m}[(j * j) % 20]", "w += t"),
    ("w = {m}[(j * j) % 20]", "{m}[1, 0] = 7.0; t = t + w[0]"), ("w = {z}[(j * 3) % 7 : (j * 3) % 7 + 2]", "w += t"),
    ("w = {m}[j : j + 2, 1]", "{m}[19:, 1] = t; t = t + w[0] - w[1]"),
    ("w = {m}[j]\n        if t < 0.1: break", "w += t"),
    ("w = {z}[j : j + 2]\n        if t < 0.1: break", "{z} += 1.0; t = t + w[0]"),
]  # fmt: skip
MADE = {
    "traced": "z = np.linspace(0, 1, 24) + x[0]; m = np.outer(z, x)",
    "plain": "z = np.linspace(0, 1, 24); m = np.ones((24, 3))",
}


def function(body, after, made, head=f"for j in range({N}):", counts="pass"):
    text = f"""
def f(x):
    {made}
    t, j, w = x[0], 0, np.ones(2)
    {head}
        t = t * 0.9
        {body.format(z="z", m="m")}
        {counts}
    {after.format(z="z", m="m")}
    return t + z @ np.cos(np.arange(24.0)) + np.sum(m * np.sin(np.arange(72.0)).reshape(24, 3))
"""
    space = {"np": np}
    exec(code_of(text, f"views {body} {after} {made}"), space)
    return space["f"]


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.parametrize("body, after", [*[(body, "pass") for body in WRITES], *AFTERWARDS])
def test_a_part_is_a_view(body, after, made):
    f = function(body, after, made)
    compiled = compile_grad(f)
    check(f, compiled, rtol=1e-10, atol=1e-7)
    assert not compiled.stats.live


@pytest.mark.parametrize("condition", [f"j < {N}", "t > 0.1"])
@pytest.mark.parametrize("body, after", [*AFTERWARDS, ("w = {z}[19 - j : 21 - j][::-1]", "z[:3] = t; t = t + w.sum()")])
def test_a_part_is_a_view_after_a_loop_that_may_have_no_iteration(body, after, condition):
    f = function(body, after, MADE["traced"], f"while {condition}:", "j += 1")
    compiled = compile_grad(f)
    for k in range(3):
        x = np.array([0.5, 1.0, 1.5]) + 0.1 * k
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-10)


@pytest.mark.parametrize("body", [WRITES[k] for k in (0, 3, 5, 10, 21, 27, 30)])
def test_loops_that_write_into_views_are_loop_nodes(body):
    seen = see(
        compile_grad(function(body, "pass", MADE["traced"])), (np.ones(3),), {}, as_recorded=False, what="a test"
    )
    assert any(node.prim.kind == LOOP for node in seen.recording.graph.nodes)
    assert len(seen.recording.graph.nodes) < 2 * N


SWAPS = ["u[5] = t", "u[j] = t * t", "u += z * 0.1", "z[1:] = u[:-1] * t"]
SHOWN = {"a": "a = z[:2]", "a whole one": "a = z", "in a list": "a = [z[:2], u[3:]][0]", "reversed": "a = u[::-1]"}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
@pytest.mark.parametrize("body", SWAPS)
def test_what_shows_one_of_two_arrays_that_are_swapped_goes_on_showing_it(body, shown):
    f = function(
        f"t = t + a.sum() * 0.01; {body}; z, u = u, z", "t = t + a[0]", f"{MADE['traced']}; u = z * 0.5; {shown}"
    )
    check(f, compile_grad(f), rtol=1e-10, atol=1e-7)


@pytest.mark.parametrize("body", SWAPS[:3])
def test_loops_that_swap_arrays_are_loop_nodes(body):
    f = function(f"{body}; z, u = u, z", "pass", f"{MADE['traced']}; u = z * 0.5").__code__
    f = compile_grad(type(function)(f, {"np": np}))
    seen = see(f, (np.ones(3),), {}, as_recorded=False, what="a test")
    assert len(seen.recording.graph.nodes) < 2 * N


def test_windows_of_an_argument_are_rows():
    def f(x, series):
        rows = []
        for j in range(40):
            rows.append(series[j : j + 3])
        return np.sum(np.stack(rows) @ x)

    series = np.linspace(0, 1, 50)
    compiled = compile_grad(f)
    np.testing.assert_allclose(compiled(np.ones(3), series), f(np.ones(3), series))
    seen = see(compiled, (np.ones(3), series), {}, as_recorded=False, what="a test")
    assert len(seen.recording.graph.nodes) < 40


PASSED_ON = {  # in the loop, after it
    "exchanged before": ("z, u = u, z; a = z[-3:]", "pass"),
    "exchanged after": ("a = z[-3:]; z, u = u, z", "a += t"),
    "in turn": ("a = z[-3:]; b = u[1:4]; z, u, v = u, v, z", "a += 1.0; b *= t"),
    "all of it": ("z, u = u, z; a = z.reshape(4, 6)", "a[2] = t"),
    "at the iteration": ("z, u = u, z; a = z[j : j + 3]", "z[19:] = t"),
    "made anew": ("a = z[-3:]; z = z * 0.9", "pass"),
    "made anew, then written": ("a = z[-3:]; z = z * 0.9", "a += t; z += 1.0"),
    "made anew, and named": ("a = z[-3:]; b = z; z = z * 0.9", "b[22] = t; a += 1.0"),
    "made anew and exchanged": ("a = z[-3:]; z, u = u, z * 0.9", "u[23] = t"),
    "complex": ("a = (z * 1j)[-3:]; z = z * 0.9; b = a.real", "b *= 2.0"),
    "a part of a part": ("a = z[2:]; b = a[1:5]; z, u = u, z", "b[0] = t; a[3] = 2.0"),
    "and appended": ("h.append(z); a = z[-3:]; z = z * 0.9", "a += t"),
    "left by data": ("a = z[-3:]; z, u = u, z * 0.9\n        if t < 0.2: break", "a += t"),
    "exchanged and left": ("z, u = u, z; a = z[-3:]\n        if t < 0.2: break", "z += t"),
    "two names of one": ("a = y[-3:]; y = z; z, u = u, z", "a += t"),
    "in a tuple": ("p = (z[:3], u[2:4]); z, u = u, z * 0.9; a = p[0]", "p[1][0] = t"),
}


@pytest.mark.parametrize(("made", "iterations"), [("traced", 17), ("traced", 20), ("plain", 20)])
@pytest.mark.parametrize("name", PASSED_ON)
def test_a_part_of_an_array_that_is_passed_on_is_one_of_the_last_iteration(name, made, iterations):
    body, after = PASSED_ON[name]
    made = f"{MADE[made]}; u = np.linspace(1, 3, 24); v = u * x[1]; y = z; a = b = z[:3]; h = []; p = ()"
    after = f"{after}; t = t + np.sum(a).real + 2 * np.sum(b) + np.sum(u * z * v) + u[3] + 3 * sum(r[22] for r in h)"
    f = function(body, after, made, f"for j in range({iterations}):")
    check(f, compile_grad(f), rtol=1e-10, atol=1e-7)


AT_PLACES = [  # of a plain array, at a place that data decides
    "m[k][0] = t", "m[k][0] = 3.0", "r = m[k]; r *= 2.0", "m[k].fill(t)", "r = m[:, k - 2]; r += t",
    "m[k, :2][1] = 2.0", "np.add(m[k], 1.0, out=m[k + 2])", "np.multiply(m[0], t, out=m[k])",
    "r = m[k]; m[2] *= 3.0; t = t + r[0]", "r = m[k]; m[:] = 5.0; t = t * r[1]", "r = m[k]; m += 1.0; r[:] = t",
    "h.append(m[k]); m *= 2.0; t = t + h[0][1]", "for j in range(20): r = m[PLACES[j % 3]]; r += 0.1",
    "for j in range(20): h.append(m[PLACES[j % 3]])\n    m[:] = 5.0; t = t + h[1][0]",
    "for j in range(20): r = m[(k + j) % 5]; r[0] = t",
]  # fmt: skip


@pytest.mark.parametrize("live", [False, True], ids=["logged", "live"])
@pytest.mark.parametrize("body", AT_PLACES)
def test_a_row_of_a_plain_array_is_a_view_at_any_place(body, live):
    space = {"np": np, "PLACES": np.array([3, 1, 0]), "time": time}
    text = f"""
def f(x):
    {"time.perf_counter()" if live else "pass"}
    m, t, h, k = np.ones((6, 3)) * 0.3, x[0], [], PLACES[0]
    {body}
    return t + np.sum(m * np.sin(np.arange(18.0)).reshape(6, 3))
"""
    exec(code_of(text, "places"), space)
    f = space["f"]
    compiled = compile_grad(f)
    for places in ([3, 1, 0], [2, 0, 3], [3, 1, 0]):
        space["PLACES"][:] = places
        x = np.array([0.5, 1.0, 1.5]) + 0.1 * places[0]
        value, gradient = compiled.value_and_grad(x.copy())
        np.testing.assert_allclose(value, f(x), rtol=1e-10)
        move = np.array([1e-6, 0.0, 0.0])
        np.testing.assert_allclose(gradient[0], (f(x + move) - f(x - move)) / 2e-6, rtol=1e-6, atol=1e-8)


CHOSEN = {  # in the loop, after it
    "by data": ("if t > 0.1: z, u = u, z", "u[1] = 7.0"),
    "by an element": ("if u[23 - j] > 0.6: z, u = u, z", "u[1] = t"),
    "by the number": ("if j % 3 == 0: z, u = u, z", "z[0] = t; u[1] = 7.0"),
    "one way": ("if t > 0.1: z = u", "z[0] = 7.0"),
    "a view of it": ("if j % 3 == 0: z, u = u, z\n        b = z[:3]", "b += t"),
}


@pytest.mark.parametrize("shown", ["a = z[:2]", "a = z", "a = u[::-1]"])
@pytest.mark.parametrize("name", CHOSEN)
def test_what_shows_one_of_two_arrays_that_an_iteration_chooses_sees_its_writes(name, shown):
    body, after = CHOSEN[name]
    made = f"{MADE['traced']}; u = np.linspace(1, 0, 24) * x[1]; b = z; {shown}"
    f = function(body, f"{after}; t = t + np.sum(u * z) + a[0] * 3.0 + b[1]", made)
    check(f, compile_grad(f), rtol=1e-10, atol=1e-7)


WINDOWS = [  # of images: what an iteration does, and what follows the loops
    ("out[i, j] = np.sum(m[i : i + 3, j : j + 3] * kernel)", ""),
    ("w = m[i : i + 3, j : j + 3]; out[i, j] = np.sum(np.exp(-((w - m[i + 1, j + 1]) ** 2)) * w)", ""),
    ("out[i : i + 2, j : j + 2] += m[18 - i : 20 - i, j : j + 4 : 2] * t", ""),
    ("out[i : i + 2, j : j + 2] = t; t = np.tanh(t + m[i, j])", ""),
    ("w = out[i : i + 2, j : j + 3]; w *= 0.9; w[0] = t", ""),
    ("w = out[i : i + 2, j : j + 3]; t = t + w[1, 1] * 0.01", "w += t"),
    ("w = out[i : i + 2, j : j + 3]", "out[19, 19] = 7.0; t = t + w.sum()"),
]


@pytest.mark.parametrize("body, after", WINDOWS)
def test_windows_of_images_are_views(body, after):
    text = f"""
def f(x):
    m, out = np.sin(np.arange(484.0)).reshape(22, 22) * x[0] + x[1], np.zeros((22, 22))
    kernel, t = np.arange(9.0).reshape(3, 3) * x[2], x[1]
    for i in range(17):
        for j in range(18):
            {body}
    {after}
    return t + np.sum(out * np.cos(np.arange(484.0)).reshape(22, 22))
"""
    space = {"np": np}
    exec(code_of(text, f"windows {body} {after}"), space)
    f, compiled = space["f"], compile_grad(space["f"])
    check(f, compiled, rtol=1e-10, atol=1e-6)
    seen = see(compiled, (np.ones(3),), {}, as_recorded=False, what="a test")
    assert len(seen.recording.graph.nodes) < 90
