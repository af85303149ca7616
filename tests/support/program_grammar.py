"""Random functions: statements and expressions of every kind, with closures, loops, exceptions and generators.

``program(seed)`` is the text of a module whose ``make()`` gives the function; each has an end, and small values.
"""

from __future__ import annotations

import random

HEAD = """\
LOG = []
PLAIN = int, str, float, list, tuple, dict
g, h = 3, [1, 2]
def cut(x):
    return x % 13 if isinstance(x, int) else x[:6] if isinstance(x, (str, list, tuple)) else x
def note(x):
    if len(LOG) < 200: LOG.append(repr(x)[:80])
    return x
class Box:
    def __init__(self): self.p, self.q, self.__r = 1, [4, 5], 2
    def __hash__(self): return 7
    def __repr__(self): return f"Box({self.__dict__})"
    def add(self, x=1, *more, k=0): self.p = cut([self.p, x, more, k]); return self
    def hidden(self, x):
        self.__r = cut((self.__r, x))
        return [self.__r for _ in range(2)]
    def __enter__(self): note("enter"); return self.q
    def __exit__(self, kind, e, tb): note(kind); return kind is KeyError
def each(n):
    try:
        for i in range(n): yield i
    finally: note("closed")
"""
NAMES = "a b c d".split()
FREE = "u v".split()


class Writer:
    """Writes one function."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.counters = 0
        self.generator = self.r.random() < 0.2
        self.depth = 0
        self.loops = 0
        self.inner = 0
        self.names = list(NAMES)

    def one_of(self, *choices):
        return self.r.choice(choices)

    # ---- expressions

    def atom(self):
        r = self.r.random()
        if r < 0.5:
            return self.r.choice(self.names)
        if r < 0.6:
            return self.r.choice([*FREE, "g", "h"])
        return self.one_of(
            "0", "1", "2", "-3", "7", "True", "None", "'s'", "'xyz'", "1.5", "()", "[]", "missing", "box", "l", "m"
        )

    def expression(self, depth=0):
        if depth > 2 or self.r.random() < 0.2:
            return self.atom()
        kind = self.r.choice(self.KINDS)
        return getattr(self, "e_" + kind)(lambda: self.expression(depth + 1))

    KINDS = (
        "binary binary compare chain boolean boolean negation choice call method attribute item slice display text "
        "lambda listcomp genexp dictcomp nested walrus starred unary"
    ).split()

    def e_binary(self, e):
        return f"({e()} {self.one_of('+', '-', '+', '*', '%', '//', '/', '&', '|', '^', '@')} {e()})"

    def e_unary(self, e):
        return f"({self.one_of('-', '+', '~')}{e()})"

    def e_compare(self, e):
        return f"({e()} {self.one_of('<', '<=', '>', '>=', '==', '!=', 'is', 'is not', 'in', 'not in')} {e()})"

    def e_chain(self, e):
        return f"({e()} {self.one_of('<', '==', '!=')} {e()} {self.one_of('<=', '!=', 'is not')} {e()})"

    def e_boolean(self, e):
        word = self.one_of(" and ", " or ")
        return f"({word.join(e() for _ in range(self.r.randint(2, 3)))})"

    def e_negation(self, e):
        return f"(not {e()})"

    def e_choice(self, e):
        return f"({e()} if {e()} else {e()})"

    def e_call(self, e):
        f = self.one_of(
            "note", "cut", "len", "str", "int", "list", "abs", "range", "sorted", "repr", "isinstance", "fn"
        )
        args = [e() for _ in range(self.r.choice([1, 1, 1, 0, 2]))]
        if self.r.random() < 0.2:
            args.append(f"*{e()}")
        if self.r.random() < 0.15:
            args.append(self.one_of(f"key={e()}", f"k={e()}"))
        return f"{f}({', '.join(args)})"

    def e_method(self, e):
        return self.one_of(
            f"box.add({e()})",
            f"box.add({e()}, {e()}, k={e()})",
            f"box.hidden({e()})",
            f"l.index({e()})",
            f"m.get({e()}, {e()})",
            f"({e()}).upper()",
            f"str({e()}).replace('1', {e()})",
            f"({e()}).count({self.atom()})",
        )

    def e_attribute(self, e):
        return self.one_of("box.p", "box.q", f"({e()}).real", f"({self.atom()}).missing", "box.__class__.__name__")

    def e_item(self, e):
        return self.one_of(f"l[{e()}]", f"m[{e()}]", f"{e()}[{e()}]", "box.q[0]", f"{e()}[0]")

    def e_slice(self, e):
        part = lambda: self.one_of("", e())  # noqa: E731
        return f"{self.one_of('l', e())}[{part()}:{part()}{self.one_of('', ':2', ':-1')}]"

    def e_display(self, e):
        return self.one_of(
            f"[{e()}, {e()}]", f"({e()}, {e()})", f"{{{e()}: {e()}}}", f"{{{e()}, {e()}}}", f"{{'k': {e()}, **m}}"
        )

    def e_starred(self, e):
        return self.one_of(f"[*{e()}, {e()}]", f"(*{e()},)", f"{{*{e()}}}")

    def e_text(self, e):
        inside = [self.atom(), "l[0]", "len(l)"]
        x = self.r.choice([i for i in inside if "'" not in i])
        return self.one_of(f'f"{{{x}}}"', f'f"<{{{x}!r:>5}}>"', f'f"{{{x}=}}{{1:{{g}}}}"', f'f"{{{x}:d}}"')

    def e_lambda(self, e):
        x = self.r.choice(self.names)
        return self.one_of(
            f"(lambda: {x})()", f"(lambda x, y={e()}: (x, y, {x}))({e()})", f"(lambda *x: note(x))({e()})"
        )

    def e_listcomp(self, e):
        x = self.one_of("x", self.r.choice(self.names))
        test = self.one_of("", f" if {x}", f" if {e()}")
        body = self.one_of(x, f"({x}, {e()})", f"note({x})", e())
        return f"[{body} for {x} in {self.iterable(e)}{test}]"

    def e_genexp(self, e):
        x = self.one_of("x", self.r.choice(self.names))
        f = self.one_of("list", "sum", "any", "next", "sorted", "tuple", "dict")
        return f"{f}({self.one_of(x, f'({x}, {e()})')} for {x} in {self.iterable(e)}{self.one_of('', f' if {e()}')})"

    def e_dictcomp(self, e):
        body = self.one_of("x: y", f"{e()}: x", "y")
        return f"{{{body} for x, y in {self.one_of('enumerate(l)', 'm.items()', e())}{self.one_of('', ' if x')}}}"

    def e_nested(self, e):
        return self.one_of(
            f"[[x, y, {e()}] for x in range(2) for y in {self.iterable(e)} if x]",
            f"[[x for x in range(y)] for y in {self.iterable(e)}]",
            f"[f() for f in [lambda: (x, {self.r.choice(self.names)}) for x in range(2)]]",
            f"[({self.r.choice(self.names)} := x) for x in {self.iterable(e)}]",
        )

    def e_walrus(self, e):
        return f"({self.r.choice(self.names)} := {e()})"

    def iterable(self, e):
        return self.one_of("range(3)", "l", "m", "each(2)", "'ab'", f"[{e()}, {e()}]", e(), "enumerate(l)", "zip(l, l)")

    # ---- targets

    def target(self):
        r = self.r.random()
        if r < 0.6:
            return self.r.choice(self.names)
        return self.one_of("box.p", "l[0]", "m['k']", f"m[{self.atom()}]", "u", "g")

    def targets(self):
        r = self.r.random()
        if r < 0.7:
            return self.target()
        if r < 0.8:
            return f"{self.target()}, {self.target()}"
        return self.one_of(
            f"{self.target()}, *{self.target()}",
            f"({self.target()}, {self.target()}), {self.target()}",
            f"*{self.r.choice(self.names)}, {self.target()}",
        )

    # ---- statements

    def line(self, text):
        self.lines.append("    " * (self.depth + 2) + text)

    def block(self, n=None):
        self.depth += 1
        for _ in range(n or self.r.randint(1, 3)):
            self.statement()
        self.depth -= 1

    def statement(self):
        kinds = self.SIMPLE if self.depth > 3 else self.SIMPLE + self.COMPOUND
        getattr(self, "s_" + self.r.choice(kinds))()

    SIMPLE = (
        "assign assign assign assign augmented augmented expression chained spread delete leave leave raise_ "
        "assertion yield_ import_"
    ).split()
    COMPOUND = "if_ if_ for_ for_ while_ try_ try_ with_ define".split()

    def s_assign(self):
        self.line(f"{self.target()} = cut({self.expression()})")

    def s_chained(self):
        self.line(f"{self.targets()} = {self.target()} = {self.expression()}")

    def s_spread(self):
        self.line(
            f"{self.targets()} = {self.one_of('l', f'{self.expression(1)}, {self.expression(1)}', self.expression())}"
        )

    def s_augmented(self):
        t = self.target()
        op = self.one_of("+=", "-=", "%=", "//=", "|=", "&=", "/=", *(["*="] if t in self.names else []))
        self.line(f"{t} {op} {self.expression(1)}")
        if "[" not in t:
            self.line(f"{t} = cut({t})")
        else:
            self.line("l[:] = cut(l)")

    def s_expression(self):
        self.line(
            self.one_of(f"note({self.expression()})", f"l.append({self.expression()}); l[:] = l[:5]", self.expression())
        )

    def s_delete(self):
        self.line(f"del {self.one_of(self.r.choice(self.names), 'l[0]', 'm[0]', 'l[1:]', 'box.p')}")

    def s_leave(self):
        if self.r.random() < 0.35:
            self.line(f"return {self.expression(1)}" if self.r.random() < 0.8 else "return")
        elif self.loops:
            self.line(self.one_of("break", "continue"))
        else:
            self.line("pass")

    def s_raise_(self):
        if self.r.random() < 0.5:
            self.line(f"note({self.atom()})")
        else:
            self.line(
                self.one_of("raise KeyError(a)", "raise ValueError from None", "raise", f"raise {self.expression(2)}")
            )

    def s_assertion(self):
        self.line(f"assert {self.expression(1)}, {self.expression(2)}")

    def s_import_(self):
        self.line(
            f"import math as {self.r.choice(self.names)}" if self.r.random() < 0.2 else "from math import floor as c"
        )

    def s_yield_(self):
        if self.generator:
            self.line(
                self.one_of(
                    f"yield {self.expression(1)}",
                    f"{self.r.choice(self.names)} = yield {self.atom()}",
                    "yield from each(2)",
                )
            )
        else:
            self.line(f"note({self.expression(1)})")

    def s_if_(self):
        self.line(f"if {self.expression(1)}:")
        self.block()
        if self.r.random() < 0.3:
            self.line(f"elif {self.expression(1)}:")
            self.block()
        if self.r.random() < 0.5:
            self.line("else:")
            self.block()

    def s_for_(self):
        e = lambda: self.expression(1)  # noqa: E731
        self.line(f"for {self.targets()} in {self.iterable(e)}:")
        self.in_loop()

    def s_while_(self):
        self.counters += 1
        k = f"k{self.counters}"
        self.line(f"{k} = 0")
        test = self.one_of(
            f"({k} := {k} + 1) < 4", f"({k} := {k} + 1) < 4 and {self.expression(1)}", f"not ({k} := {k} + 1) > 3"
        )
        self.line(f"while {test}:")
        self.in_loop()

    def in_loop(self):
        self.loops += 1
        self.block()
        self.loops -= 1
        if self.r.random() < 0.3:
            self.line("else:")
            self.block()

    def s_try_(self):
        self.line("try:")
        self.block()
        handled = self.r.random() < 0.8
        if handled:
            kind = self.one_of(
                "Exception", "TypeError", "(KeyError, IndexError)", "ValueError", "NameError", "ArithmeticError"
            )
            self.line(f"except {kind}{self.one_of('', ' as e', ' as a')}:")
            self.block()
            if self.r.random() < 0.3:
                self.line("except Exception as e:")
                self.depth += 1
                self.line("note(repr(e))")
                self.depth -= 1
            if self.r.random() < 0.3:
                self.line("else:")
                self.block()
        if not handled or self.r.random() < 0.4:
            self.line("finally:")
            self.block(1)

    def s_with_(self):
        self.line(f"with box{self.one_of('', ' as b', ' as l[0]', ' as (c, d)', f', {self.expression(1)}')}:")
        self.block()

    def s_define(self):
        self.inner += 1
        f = self.one_of("fn", f"fn{self.inner}")
        if self.r.random() < 0.2:
            self.line("@note")
        names = self.r.sample(NAMES, 2)
        self.line(f"def {f}({names[0]}={self.expression(2)}, *x):")
        self.depth += 1
        if self.r.random() < 0.4:
            self.line(f"nonlocal {names[1]}")
        self.line(f"{names[1]} = cut(({names[0]}, x))")
        self.line(f"return cut([{self.expression(1)}])")
        self.depth -= 1
        self.line(f"{self.r.choice(self.names)} = {f}({self.expression(2)})")

    def function(self):
        self.lines = [
            "def make():",
            "    box, l, m, u, v = Box(), [1, 2, 3], {0: 1, 'k': 2}, 5, [6]",
        ]
        self.lines += ["    def f(a, b=2, *c, d=4):", "        nonlocal u", "        global g", "        fn = note"]
        self.depth = 0
        for _ in range(self.r.randint(3, 8)):
            if self.r.random() < 0.8:  # most errors end one statement
                self.line("try:")
                self.block()
                self.line("except Exception as error:")
                self.line("    note(error)")
            else:
                self.statement()
        if self.generator:
            self.line("yield 0")
        self.line("return [x if isinstance(x, PLAIN) else type(x) for x in (a, b, c, d, u, l, m)]")
        self.lines.append("    return f")
        return "\n".join(self.lines) + "\n"


def program(seed: int) -> str:
    return HEAD + Writer(seed).function()
