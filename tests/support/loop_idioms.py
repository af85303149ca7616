"""Loops in which what is alike in every step is hard to tell: parts that ``loop_grammar.py`` puts together at random.

A part is lines before a loop, in its body, and after it.  In them {i} is the step's number, {x}, {x1} and {x0} are this
row, the next and the one before, {k} is a small number, {f} a float, {q} belongs to this loop's own names.  They use
what the grammar's programs have: a, b, h (vectors), s, t, c (scalars), xs, DATA, ys, gains, n, k.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

HELPERS = """
def relax(v, u, k):
    for m in range(k):
        v = np.tanh(0.8 * v + 0.1 * u - 0.01 * m)
    return v

def chain(v, k):
    out = []
    for m in range(k):
        v = np.sin(v * 0.9 + 0.1)
        out.append(v)
    return out

def halves(v, u):
    if np.sum(u) > 0.4:
        return np.tanh(v - 0.5 * u)
    return np.tanh(v + 0.5 * u) * 0.9
"""

HEADERS = [  # (header, this row, the next, the one before)
    ("for {i} in range(n):", "xs[{i}]", "xs[({i} + 1) % n]", "xs[{i} - 1]"),
    ("for {i} in range(n):", "xs[{i}]", "xs[({i} + 1) % n]", "xs[{i} - 1]"),
    ("for {i} in range(n - 1):", "xs[{i}]", "xs[{i} + 1]", "xs[{i} - 1]"),
    ("for {i} in range(1, n):", "xs[{i}]", "xs[{i} - n]", "xs[{i} - 1]"),
    ("for {i} in range(n - 1, -1, -1):", "xs[{i}]", "xs[{i} - n]", "xs[{i} - 1]"),
    ("for {i} in range(0, n, 2):", "xs[{i}]", "xs[n - 1 - {i}]", "xs[{i} - 1]"),
    ("for {i} in range(20):", "DATA[{i} % 4]", "DATA[({i} + 1) % 4]", "DATA[{i} % 3]"),
    ("for {i} in range(18):", "(DATA[1] * {i})", "(DATA[1] * ({i} + 1))", "(DATA[1] * ({i} - 1))"),
    ("for {i}, x{q} in enumerate(xs):", "x{q}", "xs[-{i}]", "xs[{i} - 1]"),
    ("for {i}, (x{q}, y{q}) in enumerate(zip(xs, xs[1:])):", "x{q}", "y{q}", "(x{q} - y{q})"),
]


class Part(NamedTuple):
    before: str
    body: str
    after: str = ""
    forks: bool = False  # data decides something in each step


PARTS = [
    # what one step makes and the next one makes again
    Part("", "a = np.tanh(a * 0.5 + np.sin({x1} * c) - np.sin({x} * c))"),
    Part("", "b = np.sin(b + {x0} * {f} + {x} * {f})"),
    Part("", "a = np.tanh(a + h * {x}); b = np.tanh(b - h * {x1})"),
    Part("", "s = 0.5 * s + np.sum({x} * {x1}) - np.sum({x0} * {x}) * np.sum(xs[0] * xs[0])"),
    Part("", "a = np.tanh(a + {x} * xs[0] + np.cos(xs[{k} % n]))"),
    Part("", "t = np.sin(t + np.sum(xs[:{k}] * c) + np.sum({x}[:2] * c))"),
    # numbers
    Part("", "a = np.tanh(a * (0.5 if {i} % 3 else {f}) + gains[{i} % 3])"),
    Part("", "s = np.tanh(s + [0.5, 0.5, 0.25, 0.5][{i} % 4] * c) + ({f} if {i} == {k} else {f})"),
    Part("", "s = np.sin(s + (-0.0 if {i} % 2 else 0.0) * c) + c * -0.0"),
    Part("", "b = np.where(b > 1.0 / (c * 0.0 + {i} + 1.0), b * 0.5, np.minimum(b, float('inf')))"),
    Part("", "b = np.where(b == b, b, float('nan')) * (1.0 - 0.01 * {i})"),
    Part("", "b = np.tanh(b + float(-{i}) * 0.1 * h) - {i}**2 * 0.001"),
    Part("m{q} = 0", "m{q} = m{q} + {i}; s = np.sin(s + 0.1 * m{q})", "s = s + 0.01 * m{q}"),
    Part("m{q} = 0", "m{q} = m{q} + np.sum({x}) * c", "t = np.sin(t + m{q})"),
    Part("m{q} = 1", "m{q} = m{q} * np.tanh(a * 0.1 + 1.0)", "b = b + m{q} * 0.1"),
    Part("m{q} = 0 * h", "m{q} = m{q} + 0.1; a = np.tanh(a - m{q})"),
    Part("r{q} = 0.9", "r{q} = r{q} * 0.95; a = a * r{q} + np.tanh(b) * (1 - r{q})", "s = s + r{q}"),
    # the same in every step
    Part("", "a = np.tanh(a + np.sin(h * 0.3) + c * 2.0)"),
    Part("", "b = np.tanh(b * (np.exp(c * 0.1) + 0.5) - np.sum(np.cos(h)) / 3.0)"),
    Part("", "b = np.tanh(b + np.where(h > {f}, h, 0.5)) + np.max(h) * 0.1"),
    # steps back
    Part("p{q}, r{q}, v{q} = a, b, h", "p{q}, r{q}, v{q} = r{q}, v{q}, np.sin(p{q} - 0.5 * v{q} + {x})",
         "a = np.tanh(p{q} + r{q} * 0.5 - v{q})"),
    Part("p{q}, r{q} = c, s", "p{q}, r{q} = r{q}, np.sin(p{q} + 0.3 * r{q})", "t = t + p{q} * r{q}"),
    Part("v{q} = [h, a, b]", "v{q}.append(np.tanh(v{q}[-1] * 0.5 + v{q}[-3]))",
         "a = v{q}[-2] * v{q}[len(v{q}) // 2]"),
    Part("v{q} = [c]", "v{q}.append(np.sin(v{q}[-1] + v{q}[len(v{q}) // 2]))", "s = s + v{q}[-1] + v{q}[0]"),
    Part("", "a, b = np.tanh(b + {x}), a"),
    Part("", "s, t = t, np.sin(s + {f})"),
    # inner loops
    Part("", "for j{q} in range({i} % 3):\n    a = np.tanh(a * 0.9 + 0.1 * j{q})"),
    Part("", "for j{q} in range(5):\n    a = np.tanh(a * 0.9 + 0.1 * j{q} * DATA[{i} % 3])"),
    Part("", "for j{q} in range(len(a)):\n    s = np.sin(s + a[j{q}] * 0.5)"),
    Part("", "for j{q} in range(len(a)):\n    for m{q} in range(len(b)):\n        t = np.sin(t + a[j{q}] * b[m{q}])"),
    Part("", "for j{q} in range({i}, min({i} + 4, n)):\n    b = np.sin(b - xs[j{q}])"),
    Part("", "a = relax(a, {x}, {k})"),
    Part("", "a = relax(a, b, {i} % 4)"),
    Part("", "b = sum(chain(b, {k} + 1)) * 0.3"),
    Part("", "b = np.sum(np.stack(chain(a, 5)[::-1]) * c, axis=0) * 0.2"),
    # lists
    Part("v{q} = []", "v{q}.append(np.sin(a * {f} + {x}))", "a = np.tanh(sum(v{q}[::-1]) + a)"),
    Part("v{q} = [h]", "v{q}.append(a * 0.5)", "s = s + np.sum(np.stack(v{q})[::2] ** 2)"),
    Part("v{q} = []", "v{q}.append(np.tanh(h * {x}))", "s = s + np.sum(np.stack(v{q}[::-1])[:3]) if v{q} else s"),
    Part("v{q} = [c]", "v{q}.append(s * {f})", "t = t + np.sum(np.stack(v{q}[::2]) ** 2) + v{q}[-1]"),
    Part("v{q} = [a]", "v{q}.append({x} * c)", "t = t + np.sum(np.sin(np.concatenate(v{q}[1:] + [h])))"),
    Part("v{q} = [a]", "v{q} = [np.tanh(v + {x}) for v in v{q}][-2:] + [b * 0.5]", "a = sum(v{q}) * 0.3"),
    Part("v{q} = []", "v{q} += [a * 0.5, {x} * c]", "s = s + np.sum(np.sin(np.stack([h] + v{q})))"),
    Part("v{q} = []", "v{q}.insert(0, b * {f})", "s = s + np.sum(v{q}[0] * v{q}[-1]) if v{q} else s"),
    Part("v{q} = []", "v{q}.append(np.sum(a) * {x})", "for m{q} in v{q}:\n    b = np.tanh(b * 0.5 + m{q})"),
    Part("v{q} = []", "v{q}.append(np.sin(h + {x}))",
         "for m{q}, y{q} in zip(v{q}, reversed(v{q})):\n    b = np.tanh(b * 0.5 + m{q} * y{q})"),
    Part("v{q} = []", "v{q}.append(c * {i} + {x}[0])",
         "for m{q}, y{q} in zip(v{q}[1:], v{q}):\n    s = np.sin(s + m{q} - y{q})"),
    Part("v{q} = {{}}", "v{q}[{i} % 3] = np.tanh(a + {x})", "a = sum(v{q}.values()) * 0.3 + a"),
    # arrays made and written
    Part("", "a = np.tanh(a + np.arange(len(h)) * 0.1 * {i})"),
    Part("", "b = np.tanh(b * np.linspace(0.5, 1.0, len(h)) + np.ones(len(h)) * {i} * 0.01)"),
    Part("", "b = np.tanh(b + np.array([float({i}) * 0.1] * len(h)))"),
    Part("z{q} = zeros((len(xs) + 1, len(h)))", "z{q}[{i} % len(xs)] = np.tanh(z{q}[{i} - 1] * 0.5 + {x} * c)",
         "s = s + np.sum(z{q} * z{q}) * 0.1"),
    Part("z{q} = zeros(40)", "z{q}[{i}] = np.sin(np.sum({x}) * c + z{q}[{i} - 1])",
         "s = s + np.sum(z{q}[::2] * z{q}[1::2])"),
    Part("z{q} = zeros(44)", "z{q}[{i} : {i} + 3] += np.sum({x}) * c * 0.1", "s = s + np.sum(np.sin(z{q}))"),
    Part("z{q} = zeros((len(h), 40))", "z{q}[:, {i}] = {x} * c; z{q}[0, {i}] *= 0.5",
         "a = np.tanh(a + np.sum(z{q}, axis=1))"),
    Part("z{q} = h * 1.0", "z{q}[{i} % len(h)] = np.tanh(z{q}[{i} % len(h)] + c)", "a = a + z{q} * 0.1"),
    Part("z{q} = h * 0.5", "z{q} *= 0.9; z{q}[0] += 0.1 * c; a = a * 0.9 + 0.1 * z{q}"),
    Part("z{q} = np.outer(h, np.sin(xs[:, 0]))", "a = np.tanh(a + z{q}[:, {i} % n] * z{q}[{i} % len(h), 0])"),
    Part("z{q} = np.outer(h, h)",
         "a = np.tanh(z{q} @ a + z{q}[{i} % len(h)]); t = t + z{q}[{i} % len(h), {i} % len(h)]"),
    Part("", "b = np.concatenate([b[1:], np.sin(b[:1] + c)])"),
    Part("", "b = np.append(np.tanh(b[1:] * 0.9), c * 0.1)"),
    Part("z{q} = a", "z{q} = np.append(z{q}, np.sum({x}) * c)", "t = t + np.sum(np.sin(z{q}))"),
    Part("z{q} = np.stack([a, b, h])", "z{q} = np.concatenate([z{q}[1:], np.tanh(z{q}[:1] + {x})])",
         "a = z{q}[0] * z{q}[2]"),
    # comparisons and questions
    Part("", "a = np.where(a > b, a * 0.9, np.tanh(b + {x}))"),
    Part("", "a = np.tanh(a + (b > {f}) * {x}); t = t + float({i} == {k})"),
    Part("m{q} = 0", "if np.sum(a) > {f}:\n    m{q} += 1\na = np.sin(a + 0.1 * m{q} + {x})", "", True),
    Part("", "if s < {f}:\n    s = s + 0.5\nelse:\n    s = np.sin(s) * 0.5", "", True),
    Part("", "m{q} = int(np.abs(np.sin(s)) * 3) % 3\ns = np.sin(s + 0.1 * m{q} + c)", "", True),
    Part("", "a = halves(a, {x})", "", True),
    Part("", "if h[0] > {f}:\n    a = np.tanh(a + {x})"),
    Part("", "if not np.sum(h) > 100.0:\n    b = np.sin(b + h * {x})"),
    # ends in the middle
    Part("", "a = np.tanh(a + {x})\nif {i} == {k} * 4:\n    break\nb = np.sin(b + a)"),
    Part("", "b = np.sin(b - {x})\nif {i} % 7 == 6:\n    continue\na = np.tanh(a + b)"),
    Part("", "a = np.sin(a + {x})\nif {i} == {k} * 5:\n    return np.sum(a * b) + s"),
    Part("", "if {i} == 0:\n    a = a * 2.0\na = np.tanh(a - {x})\nif {i} == n - 1:\n    a = np.exp(a * 0.1)"),
    # functions of functions
    Part("", "a = np.tanh(a - 0.1 * slope(a))"),
    Part("", "s = np.sin(s + energy(b) + energy({x} * c))"),
    Part("", "a = np.tanh(a - 0.1 * slope({x} * c) - 0.1 * slope(h)); s = s + 0.1 * energy(h)"),
    Part("",
         "a, e{q} = scan(lambda v, u: (np.sin(v * 0.5 + u * c), np.sum(v)), a, DATA[:3])\n"
         "s = np.sin(s + np.sum(e{q}))"),
    Part("", "b = np.tanh(b + scan(lambda v, u: (np.sin(v + u * {i} * 0.1), v[0]), {x}, xs[:2])[0])"),
    Part("",
         "a, e{q} = scan(lambda v, u: (relax(v, u, 18) * c, chain(v, 5)[3]), a, DATA[:3])\ns = s + 0.1 * np.sum(e{q})"),
]  # fmt: skip


def idioms(draw: random.Random, *, forks: bool) -> Iterator[str]:
    """The lines of a loop put together from parts, sometimes of two in a row that have parts in common."""
    parts = draw.choices(PARTS, k=draw.randint(1, 3))
    for loop in range(draw.choice([1, 1, 1, 2])):
        if draw.random() < 0.3:
            parts = [draw.choice(PARTS), *parts][:3]
        if not forks or sum(part.forks for part in parts) > 1:
            parts = [part for part in parts if not part.forks] or [PARTS[0]]
        header, *rows = draw.choice(HEADERS)
        own = {"i": f"i{loop}", "q": f"_{loop}"}
        x, x1, x0 = (row.format(**own) for row in rows)
        own |= {"x": x, "x1": x1, "x0": x0}
        texts = [
            [t.format(**own | {"q": f"_{loop}{n}", "k": draw.randint(1, 4), "f": round(draw.uniform(-1.2, 1.2), 2)})
             for t in part[:3]]
            for n, part in enumerate(parts)
        ]  # fmt: skip
        yield from (line for before, _, _ in texts for line in before.splitlines())
        yield header.format(**own)
        yield from ("    " + line for _, body, _ in texts for line in body.splitlines())
        yield from (line for _, _, after in texts for line in after.splitlines())


__all__ = ["HELPERS", "idioms"]
