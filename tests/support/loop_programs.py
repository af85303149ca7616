"""Random Python programs with loops (``loop_grammar.py``) run, judged and shrunk.

    python tests/support/loop_programs.py 0 10000    # hunt, in child processes: a crash is a finding
    python tests/support/loop_programs.py 4711 1     # one seed again, with its source and what it shrinks to
    python tests/support/loop_programs.py 0 10000 eager     # with short loops rolled, too (see CONFIGURATIONS)
    python tests/support/loop_programs.py 0 10000 eager -O0 # kernels as LLVM gets them: a third faster

A program runs in four namespaces: plain NumPy, compiled, compiled without rolled loops, and with dual numbers
(``dual.py``).  Several calls hit recording, verification, replay, other branches and other trip counts, and what the
program reads from outside changes in between.  Every value must be plain NumPy's, every gradient that of the dual
numbers, both those of the same program with its loops unrolled, every exception of plain NumPy's kind.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import gc
import linecache
import os
import pickle
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from dual import Dual, array, numpy_for_duals, with_tangents, zeros
from loop_grammar import Program, program

import tracegrad
from tracegrad import compile_grad, config
from tracegrad.runtime.inspection import see
from tracegrad.runtime.logged.record import Logged
from tracegrad.runtime.paths.paths import interpret
from tracegrad.tracer.ir.settings import optimiser
from tracegrad.tracer.loops import for_loop
from tracegrad.tracer.loops.iteration import FEW_TRIPS

VALUE, GRADIENT = 1e-9, 1e-7
SAME_PROGRAM = 1e-9  # rolled and unrolled

# ---- which loops are rolled ---------------------------------------------------------------------------------------

NEVER = 1 << 60
CONFIGURATIONS: dict[str, Callable[[int], dict[Any, dict[str, Any]]]] = {  # for a seed: settings by module
    "as_is": lambda seed: {},
    "eager": lambda seed: {for_loop: {"MIN_TRIPS": FEW_TRIPS}},
    "live": lambda seed: {Logged: {"takes": lambda logged, call: False}, for_loop: {"MIN_TRIPS": FEW_TRIPS}},
    "unrolled": lambda seed: {for_loop: {"MIN_TRIPS": NEVER, "MANY_TRIPS": NEVER, "LONG": NEVER}},
}


@contextlib.contextmanager
def configured(name: str, seed: int) -> Iterator[None]:
    """Within: loops are rolled as the configuration of that name says."""
    settings = [
        (m, key, v, getattr(m, key)) for m, pairs in CONFIGURATIONS[name](seed).items() for key, v in pairs.items()
    ]
    try:
        for module, key, value, _ in settings:
            setattr(module, key, value)
        yield
    finally:
        for module, key, _, before in settings:
            setattr(module, key, before)


# ---- what programs are called with -------------------------------------------------------------------------------

SAME, OTHER_VALUES, OTHER_TRIPS = range(3)
CALLS = (SAME, SAME, SAME, OTHER_VALUES, OTHER_TRIPS, SAME)
AFTER_A_CHANGE = (SAME, SAME, OTHER_VALUES, SAME)


def arguments(case: Program, variant: int) -> list[Any]:
    """Arguments for ``f``: a first set, others of the same shapes, or others with which loops run other times."""
    rng = np.random.default_rng([case.seed, variant])
    rows = trips = case.trips
    if variant == OTHER_TRIPS:
        rows, trips = [(rows + 1, rows + 1), (max(rows - 1, 0),) * 2, (rows, max(rows - 2, 0))][int(rng.integers(3))]
    d = case.d
    w = rng.normal(size=(d, d)) * 0.5 if case.matrix else rng.normal(size=d)
    made = {
        "w": float(w[0]) if case.seed % 2 and not case.matrix else w,
        "h": rng.normal(size=d),
        "c": float(rng.normal()),
        "xs": rng.normal(size=(rows, d)),
        "cs": rng.normal(size=rows),
        "ps": [rng.normal(size=d) for _ in range(rows)],
        "ids": rng.integers(0, max(rows, 1), size=rows),
        "n": trips,
    }
    return [made[name] for name in case.names]


def argnums(case: Program) -> tuple[int, ...]:
    """What the gradient is asked of: the parameters, and in every other program the data too."""
    wanted = {"w", "h", "c", "xs", "cs", "ps"} if case.seed % 2 else {"w", "h", "c"}
    return tuple(i for i, name in enumerate(case.names) if name in wanted)


@dataclass(slots=True)
class Outcome:
    """What one run gave: a value and the derivative in one direction, or an exception."""

    value: Any = None
    slope: Any = None
    error: Exception | None = None


@dataclass(slots=True)
class Verdict:
    """What was found, nothing where all was right; and how many of the calls could be compared."""

    found: str = ""
    compared: int = 0
    delicate: int = 0
    raised: int = 0
    live: str = ""

    @property
    def kind(self) -> str:
        """The first word of what was found, and the line where an exception of ours was raised."""
        first, *lines = self.found.partition(": ")[2].split("\n")
        raised = [line.strip() for line in lines if line.startswith("  File ")]
        return " ".join([first.split(" ")[0], *raised[-1:]])


def namespace(case: Program, tier: str) -> dict[str, Any]:
    """The program's globals, with ``f``, for ``plain``, ``compiled``, ``unrolled`` or ``dual``."""
    name = f"<loop program {case.seed}, {tier}>"
    linecache.cache[name] = (len(case.source), None, case.source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "loop_program"}
    if tier in ("plain", "dual"):
        own = {"np": np, "zeros": np.zeros, "array": np.array}
        space |= own if tier == "plain" else {"np": numpy_for_duals, "zeros": zeros, "array": array}
        space |= {"scan": _scan, "energy": _energy, "slope": lambda v: np.cos(v) * v + np.sin(v)}
    else:
        energy = compile_grad(_energy)
        space |= {"np": np, "zeros": tracegrad.zeros, "array": tracegrad.array}  # tensors, outside a recording
        space |= {"scan": tracegrad.scan, "energy": energy, "slope": energy.grad}
    exec(compile(case.source, name, "exec"), space)
    return space


def _energy(v: Any) -> Any:
    return np.sum(np.sin(v) * v)


def _scan(step: Callable[[Any, Any], tuple[Any, Any]], carry: Any, xs: Any) -> tuple[Any, Any]:
    ys = []
    for x in xs:
        carry, y = step(carry, x)
        ys.append(y)
    return carry, np.stack(ys) if ys else 0.0


def disturb(spaces: Sequence[dict[str, Any]], seed: int) -> None:
    """The same change of what programs read from outside, in every namespace."""
    for space in spaces:
        kind = seed % 7
        if kind == 0:
            space["scale"] = 0.35
        elif kind == 1:
            space["DATA"][:1] += 0.25
        elif kind == 2:
            space["cell"].gain *= -0.5
        elif kind == 3:
            space["gains"][1] = 0.125
        elif kind == 4:
            space["perm"].reverse()
        elif kind == 5:
            space["cell"].count = 1
        else:
            space["DATA"] = space["DATA"][::-1].copy() * 0.5


# ---- three ways to run a call ------------------------------------------------------------------------------------


def attempt(call: Callable[[], tuple[Any, Any]]) -> Outcome:
    try:
        return Outcome(*call())
    except Exception as error:
        return Outcome(error=error)


def leaves(x: Any) -> list[Any]:
    return [leaf for item in x for leaf in leaves(item)] if isinstance(x, (list, tuple)) else [x]


def like(x: Any, draw: Callable[..., Any]) -> Any:
    """*x* with other numbers."""
    return [like(item, draw) for item in x] if isinstance(x, list) else draw(x)


def by_duals(f: Callable[..., Any], args: list[Any], nums: Sequence[int], directions: list[Any]) -> Outcome:
    def call() -> tuple[Any, Any]:
        moves = dict(zip(nums, directions, strict=True))
        duals = [copy.deepcopy(a) for a in args]
        for i, a in enumerate(args):
            if all(
                np.asarray(leaf).dtype.kind == "f" for leaf in leaves(a)
            ):  # data, too: dual numbers are written there
                duals[i] = with_tangents(a, moves[i] if i in moves else like(a, np.zeros_like))
        result = f(*duals)
        return (result.value, result.tangent) if isinstance(result, Dual) else (result, 0.0)

    return attempt(call)


def plainly(f: Callable[..., Any], args: list[Any]) -> Outcome:
    return attempt(lambda: (f(*copy.deepcopy(args)), None))


def compiled(f: Any, args: list[Any]) -> Outcome:
    """The slope is the gradient itself."""
    return attempt(lambda: f.value_and_grad(*args))


def unrolled(f: Any, args: list[Any]) -> Outcome:
    """The recording alone, run by the interpreter: compiling long programs takes too long."""

    def run() -> tuple[Any, Any]:
        seen = see(f.value_and_grad, tuple(args), {}, as_recorded=True, what="a test")
        recording, call = seen.recording, seen.call
        results = interpret(recording, call, recording.values(call, recording.captured))
        return recording.output.function()(results, call.leaves)

    return attempt(run)


# ---- judging -----------------------------------------------------------------------------------------------------


def far(x: Any, y: Any, tolerance: float, scale: float = 0.0) -> bool:
    if x is None or y is None:
        return x is not y
    if not np.all(np.isfinite(x)):
        return not np.array_equal(np.isfinite(x), np.isfinite(y))
    return not abs(x - y) <= tolerance * (1.0 + scale + abs(y))


def judge_call(judged: Judged, variant: int, verdict: Verdict) -> str:
    """What is wrong with one call, or nothing."""
    expected = judged.expected(variant)
    plain, exact, again, directions = expected.plain, expected.exact, expected.again, expected.directions
    args = arguments(judged.case, variant)
    before = copy.deepcopy(args)
    with configured(judged.configuration, judged.case.seed):
        ours = compiled(judged.f, args)
    if not all(np.array_equal(a, b) for a, b in zip(leaves(before), leaves(args), strict=True)):
        return "an argument was changed"
    if plain.error is not None:
        verdict.raised += 1
        if ours.error is None:
            return f"{type(plain.error).__name__}({plain.error}) was not raised"
        if not isinstance(ours.error, type(plain.error)):
            return f"plain NumPy raises {plain.error!r}, compiled: {_text(ours.error)}"
        return ""
    if exact.error is not None or again.error is not None:
        return f"the oracle fails: {_text(exact.error or again.error)}"
    delicate = far(again.value, exact.value, VALUE / 10) or far(again.slope, exact.slope, GRADIENT / 10)
    if ours.error is not None:
        if delicate and "kernel and interpreter disagree" in str(ours.error):  # nor need two orders of adding agree
            verdict.delicate += 1
            return ""
        return f"compiled: {_text(ours.error)}"
    if far(exact.value, plain.value, VALUE):
        return f"the oracle is wrong: {exact.value!r}, plain NumPy: {plain.value!r}"
    if delicate:
        verdict.delicate += 1
        return ""
    verdict.compared += 1
    if far(ours.value, plain.value, VALUE):
        return f"value {ours.value!r}, plain NumPy: {plain.value!r}"
    pairs = list(zip(leaves(list(ours.slope)), leaves(directions), strict=True))
    slope, scale = sum(np.sum(g * v) for g, v in pairs), sum(np.sum(np.abs(g * v)) for g, v in pairs)
    if far(slope, exact.slope, GRADIENT, scale):
        return f"gradient in a random direction {slope!r}, by dual numbers {exact.slope!r}"
    other = judged.without_loops(variant)
    if other.error is not None:
        return f"unrolled: {_text(other.error)}"
    # what the nudge has changed says how much rounding can change
    if far(ours.value, other.value, SAME_PROGRAM, 100 * abs(again.value - exact.value) / SAME_PROGRAM):
        return f"rolled: value {ours.value!r}, unrolled {other.value!r}"
    theirs = sum(np.sum(g * v) for g, v in zip(leaves(list(other.slope)), leaves(directions), strict=True))
    if far(slope, theirs, SAME_PROGRAM, scale + 100 * abs(again.slope - exact.slope) / SAME_PROGRAM):
        return f"rolled: gradient in a random direction {slope!r}, unrolled {theirs!r}"
    return ""


def _text(error: BaseException | None) -> str:
    assert error is not None
    return "".join(traceback.format_exception(error, limit=-4))


@dataclass(slots=True)
class Expected:
    """What the oracles say of one call: plain NumPy, and dual numbers in *directions*, also of nudged arguments."""

    plain: Outcome
    exact: Outcome
    again: Outcome
    directions: list[Any]


@dataclass(slots=True)
class Judged:
    """A program, compiled twice.

    Programs change nothing outside, so until ``disturb`` the oracles need to run only once for each set of arguments.
    """

    case: Program
    configuration: str
    spaces: dict[str, dict[str, Any]]
    f: Any
    unrolled: Any
    _expected: dict[int, Expected] = field(default_factory=dict)  # by variant
    _without_loops: dict[int, Outcome] = field(default_factory=dict)

    def expected(self, variant: int) -> Expected:
        if variant not in self._expected:
            args, nums = arguments(self.case, variant), argnums(self.case)
            rng = np.random.default_rng([self.case.seed, variant, 1])
            directions = [like(args[i], lambda a: rng.normal(size=np.shape(a))) for i in nums]
            nudged = [
                like(a, lambda v: v * (1.0 + 1e-13 * rng.normal())) if i in nums else a for i, a in enumerate(args)
            ]
            plain = plainly(self.spaces["plain"]["f"], args)
            f = self.spaces["dual"]["f"]
            exact, again = by_duals(f, args, nums, directions), by_duals(f, nudged, nums, directions)
            self._expected[variant] = Expected(plain, exact, again, directions)
        return self._expected[variant]

    def without_loops(self, variant: int) -> Outcome:
        if variant not in self._without_loops:
            with configured("unrolled", self.case.seed):
                self._without_loops[variant] = unrolled(self.unrolled, arguments(self.case, variant))
        return self._without_loops[variant]

    def disturb(self) -> None:
        """LookupError: the program does not have what would be changed."""
        self._expected.clear()
        self._without_loops.clear()
        disturb(list(self.spaces.values()), self.case.seed // 3)


def judge(case: Program, compiler: Callable[..., Any] = compile_grad, configuration: str = "as_is") -> Verdict:
    """Every call of one program; in some, the interpreter runs beside the kernel and is compared with it."""
    verdict = Verdict()
    try:
        spaces = {tier: namespace(case, tier) for tier in ("plain", "compiled", "unrolled", "dual")}
        f = compiler(spaces["compiled"]["f"], argnums=argnums(case))
        plain_loops = compile_grad(spaces["unrolled"]["f"], argnums=argnums(case))
        judged = Judged(case, configuration, spaces, f, plain_loops)
    except Exception as error:  # while shrinking
        return Verdict(found=f"program: broken: {error}")
    before = config.check
    try:
        for step, variant in enumerate((*CALLS, *(AFTER_A_CHANGE if case.seed % 3 == 0 else ()))):
            if step == len(CALLS):
                try:
                    judged.disturb()
                except LookupError:  # while shrinking
                    break
            config.check = before or step == len(CALLS) - 1
            found = judge_call(judged, variant, verdict)
            if found:
                verdict.found = f"call {step} ({['same', 'other values', 'other trips'][variant]}): {found}"
                break
        else:
            verdict.found = _value_alone(judged) if case.seed % 4 == 1 else ""
    finally:
        config.check = before
    verdict.live = getattr(getattr(f, "stats", None), "live", "")
    return verdict


def _value_alone(judged: Judged) -> str:
    """``f(...)`` has a kernel of its own."""
    for variant in (SAME, SAME, OTHER_VALUES):
        args = arguments(judged.case, variant)
        plain = plainly(judged.spaces["plain"]["f"], args)
        with configured(judged.configuration, judged.case.seed):
            ours = attempt(lambda args=args: (judged.f(*args), None))
        if (plain.error is None) != (ours.error is None):
            return f"value alone: {plain.error or ours.error!r}"
        if plain.error is None and far(ours.value, plain.value, VALUE):
            return f"value alone {ours.value!r}, plain NumPy: {plain.value!r}"
    return ""


# ---- shrinking ---------------------------------------------------------------------------------------------------


def shrink(case: Program, fails: Callable[[Program], bool], budget: int = 400) -> Program:
    """The program with fewer lines that still fails: statements are left out, blocks replaced by what is in them."""
    progress = True
    while progress and budget > 0:
        progress = False
        for source in _smaller(case.source):
            budget -= 1
            smaller = replace(case, source=source)
            if budget > 0 and "def f(" in source and fails(smaller):
                case, progress = smaller, True
                break
    return case


def _smaller(source: str) -> list[str]:
    """The source without one statement, or with a block's body in the block's place."""
    found = []
    for which in range(len(_statements(ast.parse(source)))):
        for inside in (False, True):
            changed = ast.parse(source)
            body, i, may_be_empty = _statements(changed)[which]
            removed = body[i]
            if isinstance(removed, ast.Pass) or (inside and not isinstance(removed, (ast.For, ast.If, ast.While))):
                continue
            body[i : i + 1] = removed.body if inside else []  # type: ignore[attr-defined]
            if not body and not may_be_empty:
                body.append(ast.Pass())
            found.append(ast.unparse(changed) + "\n")
    return sorted(set(found), key=len)


def _statements(tree: ast.AST) -> list[tuple[list[ast.stmt], int, bool]]:
    """Each statement as the list that holds it and its place there; and whether that list may become empty."""
    lists = [(getattr(node, name), name == "orelse") for node in ast.walk(tree) for name in ("body", "orelse")
             if isinstance(getattr(node, name, None), list)]  # fmt: skip
    return [(body, i, may_be_empty) for body, may_be_empty in lists for i in range(len(body))]


# ---- hunting -----------------------------------------------------------------------------------------------------

BLOCK = 25  # programs of one child process
PATIENCE = 60  # seconds of processor time for one of them; more is a finding, as a crash is


def run_block(seeds: range, configuration: str) -> Iterator[tuple[int, Verdict]]:
    """The verdict of each seed, from a child process; where that crashes, so does the seed that it was at."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "wb") as stream:
            for seed in seeds:
                signal.setitimer(signal.ITIMER_PROF, PATIENCE)
                pickle.dump((seed, judge(program(seed), configuration=configuration)), stream)
                stream.flush()
        os._exit(0)
    os.close(writer)
    after = seeds.start
    with os.fdopen(reader, "rb") as stream, contextlib.suppress(EOFError):
        while True:
            seed, verdict = pickle.load(stream)
            yield seed, verdict
            after = seed + 1
    _, status = os.waitpid(child, 0)
    if after < seeds.stop:
        yield after, Verdict(found=f"call ?: crashed with status {status}" + " (too long)" * (status == signal.SIGPROF))
        yield from run_block(range(after + 1, seeds.stop), configuration)


def crashes(case: Program, configuration: str) -> bool:
    """Does judging it, in a child process, end the process?"""
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        judge(case, configuration=configuration)
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def report(seed: int, verdict: Verdict, configuration: str = "as_is") -> str:
    def fails(smaller: Program) -> bool:
        if verdict.kind == "crashed":
            return crashes(smaller, configuration)
        return judge(smaller, configuration=configuration).kind == verdict.kind

    case = program(seed)
    if verdict.found.endswith("(too long)"):  # shrinking would take hours
        return f"seed {seed}: {verdict.found}\n\n{case.source}"
    small = shrink(case, fails)
    judged = verdict.found if verdict.kind == "crashed" else judge(small, configuration=configuration).found
    return f"seed {seed}: {verdict.found}\n\nshrunk: {judged}\n\n{small.source}"


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "-O0"]
    first, count = int(words[0]), int(words[1])
    configuration = words[2] if len(words) > 2 else "as_is"
    if "-O0" in sys.argv:
        optimiser.level = 0
    warnings.simplefilter("ignore")
    totals: Counter[str] = Counter()
    start = time.perf_counter()
    gc.freeze()  # nor do the children look again and again at what was imported
    for at in range(first, first + count, BLOCK):
        for seed, verdict in run_block(range(at, min(at + BLOCK, first + count)), configuration):
            totals += Counter(compared=verdict.compared, delicate=verdict.delicate, raised=verdict.raised)
            totals += Counter(programs=1, live=bool(verdict.live), found=bool(verdict.found))
            if verdict.found:
                found = report(seed, verdict, configuration) if count == 1 else f"seed {seed}: {verdict.found}"
                print(f"{'=' * 100}\n{found}", flush=True)
        if totals["programs"] % (10 * BLOCK) == 0:
            each = (time.perf_counter() - start) / totals["programs"]
            print(f"up to seed {seed}: {dict(totals)}, {each:.2f} s each", flush=True)
    if count == 1:
        print(program(first).source)
    print(dict(totals))
    return 1 if totals["found"] else 0


if __name__ == "__main__":
    sys.exit(main())
