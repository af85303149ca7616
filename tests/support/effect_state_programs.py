"""Random programs with effects on state of many kinds, as plain Python and compiled, call after call.

    python tests/support/effect_state_programs.py 0 1000            # hunt: each failing program, made minimal
    python tests/support/effect_state_programs.py 4711 1            # one seed again, with its source
    python tests/support/effect_state_programs.py 0 1000 steps      # the same as tracegrad.compile steps of tensors
    python tests/support/effect_state_programs.py 0 1000 python     # of a family (``effect_state_python.FAMILIES``)
    python tests/support/effect_state_programs.py 0 1000 -nan,texts,results    # without these kinds

A program is a function of a few random statements over state of one to three kinds (``effect_state_grammar.py`` and
``effect_state_drawn.py``).  It runs in two namespaces of its own, eight calls with changing arguments and changes by
others in between.  Every value, exception and gradient is plain Python's; after every call the whole state is, with
which names share an object (``same_state.py``), and nothing of a recording stands anywhere in it (``leftovers.py``).
The gradient that is right comes of plain Python, which goes through all calls again with the last one's argument moved
a little.
"""

from __future__ import annotations

import contextlib
import io
import random
import signal
import sys
import time
import types
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from effect_state_drawn import POINTS, Call, EffectProgram, Node, drawn
from effect_state_python import FAMILIES
from leftovers import leftovers
from same_state import difference
from with_source import code_of

import tracegrad
from tracegrad import TracegradError, compile_grad, config
from tracegrad.tracer.ir.settings import optimiser

DIRECTION = np.array([0.6, -0.3, 0.7])
LARGEST = 1e8  # numbers beyond say little


def program(seed: int, steps: bool = False, without: Collection[str] = (), family: str = "") -> EffectProgram:
    """The program of a seed: one whose first calls plain Python does not refuse."""
    choose = random.Random(f"{family}steps {seed}" if steps else f"{family} {seed}" if family else seed)
    for attempt in range(60):
        made = drawn(choose, seed, steps, without, family)
        quiet = contextlib.redirect_stdout(io.StringIO())
        with quiet, contextlib.suppress(SyntaxError), contextlib.closing(World.of(made, "_0")) as world:  # f-strings
            if attempt > 40 or not isinstance(world.call(made.calls[0], world.f), Exception):
                return made
    raise AssertionError(f"no program for seed {seed}")


# ---- running ---------------------------------------------------------------------------------------------------------


class World:
    """A namespace of the program's, a module of its own."""

    def __init__(self, case: EffectProgram, side: str, module: types.ModuleType) -> None:
        self.case, self.space, self.module = case, vars(module), module
        self.f: Any = self.space["f"]
        self.side = side
        self.printed = io.StringIO()  # in the last call

    @classmethod
    def of(cls, case: EffectProgram, side: str) -> World:
        module = types.ModuleType(f"made_main{side}")
        sys.modules[module.__name__] = module
        exec(code_of(case.source(side), f"effect program {case.seed}{side}"), vars(module))
        return cls(case, side, module)

    def close(self) -> None:
        for name in (self.module.__name__, f"made_mod{self.side}"):
            sys.modules.pop(name, None)

    def named(self, name: str) -> Any:
        return self.space["see"]().get(name) if "see" in self.space else self.space.get(name)

    def call(self, call: Call, run: Callable[..., Any], point: Any = None) -> Any:
        """The result of a call, or the exception."""
        x = np.array(POINTS[call.point]) if point is None else point
        if call.form:
            x = np.append(x, 0.6) if call.form == "longer" else (x * 2).astype(int)
        if self.case.steps:
            x = tracegrad.tensor(x)
        names = ("h", "st") if call.alias else ("log", "cache")
        found = [self.named(n) for n in names]
        log, cache = ([] if found[0] is None else found[0]), ({} if found[1] is None else found[1])
        try:
            with contextlib.redirect_stdout(io.StringIO()) as self.printed:
                result = run(x, call.k, log, cache)
                return _taken(result)
        except Exception as error:
            return error

    def change(self, index: int) -> None:
        if self.case.calls[index].change:
            with contextlib.suppress(Exception):
                self.named(f"change_{index}")()

    def state(self, result: Any = None) -> dict[str, Any]:
        hidden = {
            "np",
            "sys",
            "made_mod",
            "bisect",
            "code_of",
            "collections",
            "contextlib",
            "enum",
            "heapq",
            "copy",
            "dataclasses",
            "functools",
            "inspect",
            "itertools",
            "math",
            "operator",
            "types",
        }
        return {
            **{n: v for n, v in self.space.items() if n not in hidden},
            "see": self.space.get("see"),
            "result": result,
        }


def _taken(result: Any) -> Any:
    """A result with what iterates taken to its end, which is part of the call."""
    if hasattr(result, "__next__"):
        return ["iterator", type(result).__name__, *[v for _, v in zip(range(12), result, strict=False)]]
    return result


@dataclass
class Verdict:
    # "identity": what is returned shares other objects with the state; "grown": numbers that are too large to tell
    kind: str = ""  # "wrong", "state", "leak", "gradient", "error", "identity", "printed", "refused", "grown"
    text: str = ""
    live: str = ""
    calls: int = 0

    @property
    def failed(self) -> bool:
        return self.kind not in ("", "refused", "grown")


def judge(case: EffectProgram) -> Verdict:
    with contextlib.closing(World.of(case, "_1")) as plain, contextlib.closing(World.of(case, "_2")) as mine:
        return _judged(case, plain, mine)


def _judged(case: EffectProgram, plain: World, mine: World) -> Verdict:
    f: Any = tracegrad.compile(mine.f) if case.steps else compile_grad(mine.f)
    verdict = Verdict()
    for index, call in enumerate(case.calls):
        plain.change(index)
        mine.change(index)
        run = f if call.mode == "value" else getattr(f, call.mode)
        want, got = plain.call(call, plain.f), mine.call(call, run)
        if isinstance(want, RecursionError):  # how deep it went is the interpreter's business
            verdict = Verdict("grown")
            break
        gradient = None
        if call.mode != "value" and not isinstance(got, Exception):
            (got, gradient) = got if call.mode == "value_and_grad" else (want, got)
            if call.mode == "value_and_grad" and type(want) is int:
                want = np.float64(want)  # a loss is a float
        verdict = _compared(plain, mine, want, got, f"call {index + 1}")
        if not verdict.kind and gradient is not None:
            verdict = _slope(case, index, gradient)
        if verdict.kind:
            break
        if _large(want):
            verdict = Verdict("grown")
            break
    verdict.live, verdict.calls = str(f.stats.live or ""), index + 1
    return verdict


def _compared(plain: World, mine: World, want: Any, got: Any, where: str) -> Verdict:
    failed = isinstance(got, Exception)
    left = leftovers({**mine.state(None if failed else got), "error": got if failed else None})
    if left:
        return Verdict("leak", f"{where}: {left[0]}")
    if failed and not isinstance(want, Exception):
        said = f"{where}: {type(got).__name__}: {str(got)[:300]}"
        return Verdict(_error_kind(got), said)
    if isinstance(want, Exception):
        if not failed or type(got).__name__ != type(want).__name__:
            kind = _error_kind(got) if failed else "wrong"
            return Verdict(kind, f"{where}: {got!r}, and plain Python raises {want!r}")
        want, got = ([e.args if type(e).__name__ == "Bad" else None, vars(e)] for e in (want, got))
    found = difference(mine.state(got), plain.state(want))
    if not found:
        said, text = mine.printed.getvalue(), plain.printed.getvalue()
        return Verdict("" if said == text else "printed", f"{where}: {said!r}, and plain Python {text!r}")
    if wrong := difference({"result": got}, {"result": want}):
        return Verdict("wrong", f"{where}: {wrong}")
    of_state = difference(mine.state(), plain.state())
    return Verdict("state" if of_state else "identity", f"{where}: {of_state or found}")


def _error_kind(error: Exception) -> str:
    if "after its function had returned" in str(error):  # of an object that stands outside
        return "leak"
    return "refused" if isinstance(error, TracegradError) else "error"


def _slope(case: EffectProgram, index: int, gradient: Any) -> Verdict:
    """Compare a gradient with central differences of plain Python, which goes through all calls before."""
    values = []
    for step in (1e-5, -1e-5, 2e-5, -2e-5, 0.0):
        with contextlib.closing(World.of(case, "_3")) as world:
            for before in range(index):
                world.change(before)
                world.call(case.calls[before], world.f)
            world.change(index)
            moved = np.array(POINTS[case.calls[index].point]) + step * DIRECTION
            values.append(world.call(case.calls[index], world.f, moved))
    if any(isinstance(v, Exception) for v in values) or not max(map(abs, values)) < LARGEST / 1000:
        return Verdict()  # of large numbers no difference is left
    near, far = (values[0] - values[1]) / 2e-5, (values[2] - values[3]) / 4e-5
    scale = 1e-4 * (1 + abs(near))
    found = float(np.asarray(gradient) @ DIRECTION)
    kink = abs(values[0] - 2 * values[4] + values[1]) / 1e-5 > scale
    if kink or abs(near - far) > scale or abs(near - found) <= scale:  # at a kink nobody can tell
        return Verdict()
    return Verdict("gradient", f"call {index + 1}: {found}, and differences {near}")


def _large(value: Any) -> bool:
    return isinstance(value, float) and not abs(value) < LARGEST


# ---- hunting ---------------------------------------------------------------------------------------------------------


class HangError(BaseException):
    """A program that takes longer than any should."""


def _hang(*_: Any) -> None:
    raise HangError


def within(seconds: int, work: Callable[[], Any]) -> Any:
    signal.signal(signal.SIGALRM, _hang)
    signal.alarm(seconds)
    try:
        return work()
    except HangError:
        return None
    finally:
        signal.alarm(0)


def hanging(case: EffectProgram) -> Verdict:
    """The verdict on a program that has not come to an end: of plain Python's, which has not either, there is none."""

    def plainly() -> bool:
        with contextlib.closing(World.of(case, "_3")) as world:
            for index, call in enumerate(case.calls):
                world.change(index)
                world.call(call, world.f)
        return True

    return Verdict("hang", "30 s") if within(10, plainly) else Verdict("grown")


def minimal(case: EffectProgram, kind: str) -> EffectProgram:
    """A program with fewer statements, calls and changes that fails in the same way."""

    def fails(smaller: EffectProgram) -> bool:
        try:
            return within(10, lambda: quietly(smaller)).kind == kind
        except Exception:
            return False

    improved, until = True, time.perf_counter() + 60
    while improved and time.perf_counter() < until:
        improved = False
        for smaller in _smaller(case):
            if fails(smaller):
                case, improved = smaller, True
                break
    return case


def _smaller(case: EffectProgram) -> Iterator[EffectProgram]:
    if case.place != "function":
        yield replace(case, place="function")
    for body in _fewer(case.body):
        yield replace(case, body=body)
    for index in reversed(range(len(case.calls))):
        if len(case.calls) > 1:
            yield replace(case, calls=case.calls[:index] + case.calls[index + 1 :])
        call = case.calls[index]
        for simpler in (replace(call, change=""), replace(call, alias=False), replace(call, mode="value")):
            if simpler != call:
                yield replace(case, calls=[*case.calls[:index], simpler, *case.calls[index + 1 :]])
    if case.result != "s":
        yield replace(case, result="s")


def _fewer(nodes: list[Node]) -> Iterator[list[Node]]:
    for index, node in enumerate(nodes):
        yield nodes[:index] + nodes[index + 1 :]
        for block in node.blocks:
            yield nodes[:index] + block + nodes[index + 1 :]
        for number, block in enumerate(node.blocks):
            for fewer in _fewer(block):
                blocks = [*node.blocks[:number], fewer, *node.blocks[number + 1 :]]
                yield [*nodes[:index], Node(node.text, blocks), *nodes[index + 1 :]]


def quietly(case: EffectProgram) -> Verdict:
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return judge(case)


def main() -> int:
    first, count, steps = int(sys.argv[1]), int(sys.argv[2]), "steps" in sys.argv
    family = next((word for word in sys.argv[3:] if word in FAMILIES), "")
    without = [kind for given in sys.argv[3:] if given.startswith("-") for kind in given[1:].split(",")]
    config.cache = False
    optimiser.level = 0  # what LLVM makes of kernels is no part of this
    totals: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    start = time.perf_counter()
    for seed in range(first, first + count):
        case = program(seed, steps, without, family)
        verdict = within(30, lambda case=case: quietly(case)) or hanging(case)
        totals += Counter(programs=1, calls=verdict.calls, live=bool(verdict.live), **{verdict.kind or "right": 1})
        if verdict.kind == "refused":
            print(f"seed {seed}: refused: {verdict.text.splitlines()[0][:200]}", flush=True)
        if verdict.failed:
            small = minimal(case, verdict.kind)
            by_kind[f"{verdict.kind} {'+'.join(k for k in small.used)}"] += 1
            said = within(30, lambda small=small: quietly(small)) or verdict
            print(f"{'=' * 100}\nseed {seed}: {verdict.kind}: {said.text}\n{small.text}", flush=True)
        if seed % 100 == 99:
            each = (time.perf_counter() - start) / (seed + 1 - first)
            print(f"up to seed {seed}: {dict(totals)}, {each:.3f} s each", flush=True)
    if count == 1:
        print(f"{case.text}\n{verdict}")
    for name, times in by_kind.most_common():
        print(f"{times:5} {name}")
    print(dict(totals))
    return 1 if by_kind else 0


if __name__ == "__main__":
    sys.exit(main())
