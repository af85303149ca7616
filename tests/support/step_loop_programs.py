"""Random steps of tensors with loops: what a compiled one gives, and leaves outside, is what the eager one does."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
from with_source import code_of

import tracegrad as torch
from tracegrad import nn

N, D = 3, 4  # rows and columns of a state
_UNARY = ["torch.tanh({})", "torch.sigmoid({})", "{} * 0.5", "{}.abs()", "-{}", "({} @ w)", "({} @ v)", "cell({})"]
_BINARY = ["{} + {}", "{} - {}", "{} * {}", "torch.maximum({}, {})"]


class Drawn:
    """One program, drawn from *seed*."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.fresh = 0
        self.depth = 0
        self.turns = self.r.choice([16, 17, 23])
        self.backward = self.r.random() < 0.7
        self.inner = self.r.random() < 0.25
        self._program()

    def say(self, line: str) -> None:
        self.lines.append("    " * (1 + self.depth) + line)

    def one(self, values: list[str], most: int = 2) -> str:
        r = self.r
        found = r.choice(values)
        for _ in range(r.randint(0, most)):
            if r.random() < 0.5:
                found = r.choice(_UNARY).format(found)
            else:
                found = f"({r.choice(_BINARY).format(found, r.choice(values))})"
        return f"torch.tanh({found})" if r.random() < 0.6 else f"{found} * 0.3"

    def _program(self) -> None:
        r = self.r
        self.say("w.grad = v.grad = None")
        if r.random() < 0.5:
            self.say("optimizer.zero_grad()")
        starts = ["torch.zeros(3, 4, dtype=x.dtype)", "x[0]", "h0", "h0 * 1.0", "x[0].clone()", "h0.detach()"]
        self.say(f"h = {r.choice(starts)}")
        self.say(f"g = {r.choice(['h', 'torch.ones(3, 4, dtype=x.dtype)', 'x[1] * 0.5', 'torch.tanh(h @ w)'])}")
        self.say(f"loss = {r.choice(['0.0', '0', 'torch.zeros((), dtype=x.dtype)', '(h * w[0]).sum()'])}")
        self.say("ys, zs, count, scale = [], [], 0, 1.0")
        self.say(f"out = torch.zeros({self.turns + 1}, 3, 4, dtype=x.dtype)")
        self.say("box.h, box.n = h, 0")
        self.loop()
        if r.random() < 0.3:
            self.loop()
        self._end()

    def loop(self) -> None:
        r, turns = self.r, self.turns
        kind = r.choice(["range", "rows", "enumerate", "zip", "reversed", "while", "list"])
        heads = {
            "range": f"for t in range({turns}):", "rows": f"for row in x[:{turns}]:", "list": "for row in xs:",
            "enumerate": f"for t, row in enumerate(x[:{turns}]):", "while": f"while count < {turns}:",
            "zip": f"for row, other in zip(x[:{turns}], u[:{turns}]):",
            "reversed": f"for t in reversed(range({turns})):",
        }  # fmt: skip
        if kind == "while":
            self.say("count = 0")
        context = r.random() < 0.1
        if context:
            self.say("with torch.no_grad():")
            self.depth += 1
        self.say(heads[kind])
        self.depth += 1
        values = ["h", "g", "box.h"]
        values += ["row"] if kind in ("rows", "enumerate", "zip", "list") else []
        values += ["other"] if kind == "zip" else []
        if kind in ("range", "enumerate", "reversed"):
            values += ["x[t]", "u[t]"]
        numbered = "t" if kind in ("range", "enumerate", "reversed") else "count" if kind == "while" else None
        for _ in range(r.randint(2, 6)):
            self.statement(values, numbered)
        if kind == "while":
            self.say("count += 1")
        self.depth -= 1 + context

    def statement(self, values: list[str], numbered: str | None) -> None:
        r, say = self.r, self.say
        kind = r.choice(
            "h h h g both loss loss append append2 box inplace out detach nograd number local swap inner kept buffer "
            "optimizer nested view if scale aug".split()
        )
        if kind == "h":
            say(f"h = {self.one(values)}")
        elif kind == "g":
            say(f"g = {self.one(values)}")
        elif kind == "both":
            say(f"h, g = {self.one(values)}, {self.one(values)}")
        elif kind == "loss":
            form = r.choice(
                ["loss = loss + ({} ** 2).mean()", "loss += ({} * {}).mean()", "loss = loss + {}.sum() * scale"]
            )
            say(form.format(r.choice(values), r.choice(values)))
        elif kind == "append":
            say(f"ys.append({r.choice(values)})")
        elif kind == "append2":
            say(f"zs.append(({r.choice(values)} ** 2).mean())")
        elif kind == "box":
            say(f"box.h = {self.one(values)}")
        elif kind == "inplace":
            say(
                f"{r.choice(['total', 'acc'])}.{r.choice(['add_', 'mul_'])}(({self.one(['h', 'g'], 1)}).detach() * 0.1)"
            )
        elif kind == "out" and numbered:
            at = r.choice([numbered, f"{numbered} + 1"])
            say(f"out[{at}] {r.choice(['=', '=', '+='])} {self.one([*values, f'out[{numbered}]'], 1)}")
        elif kind == "detach":
            say(f"h = {r.choice(['h', 'g'])}.detach()")
        elif kind == "nograd":
            say("with torch.no_grad():")
            say(f"    {r.choice(['g', 'h', 'mean'])} = {self.one([*values, 'mean'], 1)}")
        elif kind == "number":
            say(r.choice(["count += 1", "box.n += 1", "scale = scale * 0.9"]))
        elif kind == "local":
            say(f"q = {self.one(values)}")
            say(f"h = torch.tanh(q) + {r.choice(values)} * 0.1")
        elif kind == "swap":
            say("h, g = g, h")
        elif kind == "inner":
            say("q = h.detach().requires_grad_()" if r.random() < 0.5 else "q = (g * 1.0).detach().requires_grad_()")
            say("(dq,) = torch.autograd.grad((torch.tanh(q @ w) ** 2).sum(), q)")
            say(f"{r.choice(['h', 'g'])} = h - 0.1 * dq")
        elif kind == "kept":
            say(f"last = {self.one(values)}")
        elif kind == "buffer":
            say("with torch.no_grad():")
            say(f"    kept.{r.choice(['add_', 'copy_'])}(torch.tanh({r.choice(values)}))")
        elif kind == "optimizer" and self.inner:
            say("optimizer.zero_grad()")
            say(f"((torch.tanh({r.choice(['h.detach()', 'x[0]', 'g.detach()'])} @ w) - 0.3) ** 2).mean().backward()")
            say("optimizer.step()")
        elif kind == "nested" and self.depth < 3 and r.random() < 0.5:
            name = f"i{self.depth}"
            say(f"for {name} in range({r.choice([5, 17])}):")
            self.depth += 1
            for _ in range(r.randint(1, 2)):
                self.statement([*values, f"x[{name}]"], None)
            say(f"h = torch.tanh(h) * 0.7 + x[{name}] * 0.1")
            self.depth -= 1
        elif kind == "view":
            say(f"h = torch.cat([h[:, :2], {r.choice(values)}[:, 2:]], 1)")
        elif kind == "if" and numbered:
            say(f"if {r.choice([f'{numbered} > 3', f'{numbered} % 2 == 0', f'{numbered} == 0'])}:")
            say(f"    h = {self.one(values, 1)}")
        elif kind == "scale":
            say("scale = float(h.detach().mean()) * 0.1 + 0.5")
        elif kind == "aug":
            say(f"{r.choice(['h', 'g'])} = {r.choice(['h', 'g'])} * 1.0")
            say(f"{r.choice(['h', 'g'])} += {self.one(values, 1)}")

    def _end(self) -> None:
        r, say = self.r, self.say
        say("loss = loss + (h * h).sum() * 0.1 + (g * 0.2).sum() + box.h.mean()")
        if r.random() < 0.6:
            say("loss = loss + (torch.stack(ys).mean() if ys else 0.0)")
        if r.random() < 0.3:
            say("loss = loss + (torch.cat(ys, 1) ** 2).sum() * 0.1 if ys else loss")
        if r.random() < 0.4:
            say("loss = loss + (sum(zs) if zs else 0.0)")
        if r.random() < 0.3:
            say("loss = loss + (ys[-1] * ys[0]).sum() * 0.1 if ys else loss")
        if r.random() < 0.5:
            say("loss = loss + (out ** 2).mean()")
        if r.random() < 0.3:
            say("for y in ys:")
            say("    g = torch.tanh(g @ v + y)")
            say("loss = loss + g.sum()")
        if self.backward:
            say("if isinstance(loss, torch.Tensor) and loss.requires_grad:")
            say("    loss.backward()")
            if r.random() < 0.4:
                say("optimizer.step()")
        say("result = [h.detach(), g.detach(), float(loss), out.detach(), mean, count, scale, box.n]")
        say("result.append(last.detach())" if r.random() < 0.5 else "result += [y.detach() for y in ys[-2:]]")
        say("box.h = box.h.detach()")
        say("return result")

    @property
    def text(self) -> str:
        return "\n".join(["def step(x):", "    last = mean = x[0]", *self.lines])


def world(text: str, seed: int) -> tuple[Any, Any, list[Any]]:
    """(the step, its argument of a call, the tensors and objects outside)"""
    rng = np.random.default_rng(seed)

    def tensor(*shape: int, grad: bool = False) -> Any:
        return torch.tensor(rng.normal(size=shape) * 0.5, requires_grad=grad)

    w, v, h0 = nn.Parameter(tensor(D, D)), tensor(D, D, grad=True), tensor(N, D, grad=seed % 2 == 0)
    linear = nn.Linear(D, D).to(torch.float64)
    with torch.no_grad():
        linear.weight.copy_(tensor(D, D))
        linear.bias.copy_(tensor(D))
    names = {
        "torch": torch, "w": w, "v": v, "h0": h0, "u": tensor(24, N, D), "kept": tensor(N, D), "total": tensor(N, D),
        "acc": tensor(N, D), "cell": lambda h: torch.tanh(linear(h)), "box": SimpleNamespace(h=tensor(N, D), n=0),
        "xs": [tensor(N, D) for _ in range(18)], "optimizer": torch.optim.SGD([w, v], lr=0.01, momentum=seed % 3 * 0.4),
    }  # fmt: skip
    exec(code_of(text, "step"), names)
    step = names["step"]
    args = [tensor(24, N, D) for _ in range(4)]
    return step, args, [w, v, h0, *linear.parameters(), names["kept"], names["total"], names["acc"], names["box"]]


def facts(outside: list[Any]) -> list[Any]:
    """What a call has left outside."""
    found: list[Any] = []
    for x in outside:
        if isinstance(x, SimpleNamespace):
            found += [_plain(x.h), x.n]
        else:
            found += [_plain(x), None if x.grad is None else _plain(x.grad), x.requires_grad]
    return found


def _plain(x: Any) -> Any:
    return (x.detach().numpy().copy(), x.requires_grad) if isinstance(x, torch.Tensor) else x


def called(run: Any, args: list[Any], outside: list[Any]) -> list[Any]:
    """What each call gives and leaves, or its error."""
    found: list[Any] = []
    for x in args:
        try:
            found.append([_plain(r) for r in run(x)])
        except (RuntimeError, TypeError, UnboundLocalError, IndexError, AttributeError) as error:
            found.append((type(error), str(error)[:60]))
        found.append(facts(outside))
    return found


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return (
            a.shape == b.shape and a.dtype == b.dtype and bool(np.allclose(a, b, rtol=1e-8, atol=1e-10, equal_nan=True))
        )
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return type(b) is float and bool(np.isclose(a, b, rtol=1e-8, atol=1e-10, equal_nan=True))
    return bool(a == b) and type(a) is type(b)


def compared(seed: int) -> tuple[bool, Any, str]:
    """(whether the compiled step is the eager one, the compiled one, the text)"""
    text = Drawn(seed).text
    (eager, args, there), (step, given, outside) = world(text, seed), world(text, seed)
    compiled = torch.compile(step)
    return same(called(compiled, given, outside), called(eager, args, there)), compiled, text
