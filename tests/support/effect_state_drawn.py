"""Programs with effects, drawn at random from the grammar in ``effect_state_grammar.py``, and their source."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from effect_state_grammar import COMMON, HEAD, RESULTS, STATE_RESULTS, Kind
from effect_state_python import EVERY_KIND, FAMILIES

CALLS = 8
POINTS = ([0.5, 1.0, 1.5], [1.2, 0.3, 0.9], [0.1, 2.0, 0.7], [1.5, 1.1, 0.4])
FORMS = "longer", "ints"
HOLE = re.compile(r"\b(NUM|INT|ARR|TEST)\b")
PLACES = {
    "function": "def f(x, k, log, cache):\n{body}",
    "method": "class Owner:\n    def f(self, x, k, log, cache):\n{body4}\nowner = Owner()\nf = owner.f\n",
    "called": "class Caller:\n    def __call__(self, x, k, log, cache):\n{body4}\nf = Caller()\n",
    "helper": "def helper(x, k, log, cache):\n{body}\ndef f(x, k, log, cache):\n    return helper(x, k, log, cache)\n",
    "closure": "",  # the state is in cells
}


@dataclass
class Node:
    text: str
    blocks: list[list[Node]] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        for line in self.text.split("\n"):
            if line.strip() in ("{0}", "{1}"):
                inside = self.blocks[int(line.strip()[1])] or [Node("pass")]
                margin = line.partition("{")[0] + "    "
                yield from (margin + part for node in inside for part in node.lines())
            else:
                yield line


@dataclass
class Call:
    point: int
    k: int
    mode: str  # "value", "grad", "value_and_grad"
    change: str = ""
    alias: bool = False  # h and st are the arguments, too
    form: str = ""  # of x, instead of three floats: "longer", "ints"


@dataclass
class EffectProgram:
    seed: int
    kinds: list[str]
    place: str
    body: list[Node]
    result: str
    calls: list[Call]
    steps: bool = False

    @property
    def used(self) -> list[str]:
        text = "\n".join([*self.body_lines(), *(call.change for call in self.calls)])
        aliased = {"lists", "keys"} if any(call.alias for call in self.calls) else set()
        return [
            k
            for k in self.kinds
            if k in aliased or any(re.search(rf"\b{n}\b", text) for n in EVERY_KIND[k].names.split())
        ]

    def body_lines(self) -> list[str]:
        lines = [line for node in self.body for line in node.lines()] + [f"return {self.result}"]
        text = "\n".join(lines)
        starts = {"s": "np.sum(x * x)", "y": "x * 2", "n": "0", "j": "1", "t": "x[0] + 0.5"}
        first = [f"{name} = {value}" for name, value in starts.items() if re.search(rf"\b{name}\b", text)]
        return first + lines

    def source(self, side: str = "") -> str:
        """The text of the program; *side* tells the modules of the two apart."""
        used = self.used
        setup = "\n".join(EVERY_KIND[k].setup for k in used)
        rebound = " ".join(EVERY_KIND[k].rebound for k in used if k != "arguments").split()
        rebound += ["log", "cache"] if "arguments" in used else []
        inside = [name for name in rebound if name not in ("log", "cache")]
        declared = [f"GLOBAL {', '.join(inside)}"] if inside else []
        body = "".join(f"    {line}\n" for text in declared + self.body_lines() for line in text.split("\n"))
        changes = ""
        for index, text in enumerate(call.change for call in self.calls):
            if text:
                head = f"    GLOBAL {', '.join(rebound)}\n" if rebound else ""
                changes += f"def change_{index}():\n{head}    {text}\n"
        if self.place == "closure":
            inner = f"{setup}\ndef f(x, k, log, cache):\n{body}\n{changes}"
            # what the caller needs of it
            names = [f"change_{i}" for i, call in enumerate(self.calls) if call.change]
            names += [n for n in ("log", "cache", "h", "st") if re.search(rf"^(.*, )?{n}\b.* = ", setup, re.M)]
            inner += "\ndef see(): return {" + ", ".join(f"{n!r}: {n}" for n in names) + "}\nreturn f, see"
            code = "def make():\n" + "".join(f"    {line}\n" for line in inner.split("\n") if line.strip())
            code = code.replace("GLOBAL", "nonlocal") + "f, see = make()\n"
        else:
            text = PLACES[self.place].format(
                body=body, body4="".join(f"    {line}\n" for line in body.rstrip("\n").split("\n"))
            )
            code = f"{setup}\n{text}\n{changes}".replace("GLOBAL", "global")
        library = "tracegrad" if self.steps else "numpy"
        return f"import {library} as np\n{HEAD}{code}".replace("NUMPY", library).replace("MOD", f"made_mod{side}")

    @property
    def text(self) -> str:
        calls = "".join(f"# {call}\n" for call in self.calls)
        return self.source().replace(HEAD, "") + calls


# ---- drawing ---------------------------------------------------------------------------------------------------------


class _Draw:
    def __init__(self, choose: random.Random, kinds: list[Kind], blocks: list[str], inner: list[str]) -> None:
        self.choose, self.kinds, self.blocks, self.inner, self.loops = choose, kinds, blocks, inner, 0

    def fill(self, text: str, depth: int = 0) -> str:
        return HOLE.sub(lambda hole: self.expression(hole[0], depth), text)

    def expression(self, hole: str, depth: int) -> str:
        name = {"NUM": "nums", "INT": "ints", "ARR": "arrs", "TEST": "tests"}[hole]
        own = [e for k in self.kinds for e in getattr(k, name)]
        pool = own if own and self.choose.random() < 0.45 else getattr(COMMON, name)
        if depth > 1:
            pool = [e for e in pool if not HOLE.search(e)] or [e for e in getattr(COMMON, name) if not HOLE.search(e)]
        found = self.fill(self.choose.choice(pool), depth + 1)
        return f"({found})" if re.search(r" (if|and|or|in|is|==|[-+*/%<>]) |^not ", found) else found

    def node(self, depth: int = 0) -> Node:
        roll = self.choose.random()
        if roll < 0.22 and depth < 2:
            self.loops += 1
            text = self.fill(self.choose.choice(self.inner if depth else self.blocks)).replace("LOOP", f"w{self.loops}")
            count = sum(f"{{{k}}}" in text for k in (0, 1))
            return Node(text, [self.nodes(self.choose.randint(1, 2), depth + 1) for _ in range(count)])
        own = [s for k in self.kinds for s in k.statements]
        text = self.fill(self.choose.choice(own if roll < 0.85 else COMMON.statements))
        return Node(text)

    def nodes(self, count: int, depth: int = 0) -> list[Node]:
        return [self.node(depth) for _ in range(count)]


def drawn(
    choose: random.Random, seed: int, steps: bool, without: Collection[str] = (), family: str = ""
) -> EffectProgram:  # fmt: skip
    """A program of a *family* whose state is of no kind in *without*, where "results" are those that are no number."""
    known, blocks, inner = FAMILIES[family]
    pool = [k for k in known if k not in without and EVERY_KIND[k].only != ("arrays" if steps else "tensors")]
    kinds = choose.sample(pool, choose.choice([1, 1, 2, 2, 3]))
    draw = _Draw(choose, [EVERY_KIND[k] for k in kinds], blocks, inner)
    body = draw.nodes(choose.randint(1, 6))
    reads = [e for k in kinds for e in EVERY_KIND[k].nums]
    if choose.random() < 0.7:
        body.append(Node(draw.fill(f"s = s + 0.1 * {draw.fill(choose.choice(reads))}" if reads else "s = s + NUM")))
    result = "s"
    if choose.random() < 0.3 and "results" not in without:
        names = {n for k in kinds for n in EVERY_KIND[k].names.split()}
        own = [r for r in STATE_RESULTS if set(re.findall(r"\b[A-Za-z]\w*", r)) & names]
        result = choose.choice(own) if own and choose.random() < 0.5 else choose.choice(RESULTS)
    modes = (
        choose.choice([["value"], ["value_and_grad"], ["value", "value_and_grad", "grad"]])
        if result == "s" and not steps
        else ["value"]
    )
    changes = [c for k in kinds for c in EVERY_KIND[k].changes]
    points, ks = choose.sample(range(len(POINTS)), 2), choose.choice([[1], [1, 2], [0, 1, 2, 3]])
    calls = []
    for index in range(CALLS):
        change = choose.choice(changes) if changes and index > 1 and choose.random() < 0.3 else ""
        alias = {"lists", "keys"} <= set(kinds) and choose.random() < 0.3
        calls.append(Call(choose.choice(points), choose.choice(ks), choose.choice(modes), change, alias))
        if family and not steps and calls[-1].mode == "value" and choose.random() < 0.1:
            calls[-1].form = choose.choice(FORMS)
    kinds = list(dict.fromkeys([*kinds, "arguments"]))
    return EffectProgram(seed, kinds, choose.choice(list(PLACES)), body, result, calls, steps)
