"""Kernels that were compiled are kept for later tests, behind the kernel cache.

Many tests start from an empty kernel cache (``fresh_kernels``), since they count what is compiled, or since other tests
must not have compiled it before.  That LLVM does the same work again is no part of what they show: so ``kernels`` asks
as ever, and counts, but a program of the same signature is one, and tests of a file share theirs.  Tests of how code is
made (tests/codegen, and those that take ``compiled_anew``) compile what they ask for.

Kernels of the files under ``UNOPTIMISED`` are compiled without LLVM's optimiser, which takes half of the time of such a
file: they are about what is recorded, when it is run again, derivatives, and tensors, modules and steps of Python. So
are those of the slow cases in ``SAMPLED``, of which the quick tier's are what users run. Of the rooms in ``ONE_OF``,
one case of so many is optimised all the same: kernels there have every form. (Of each row of the registry the optimised
derivatives are run by test_targets_agree.py, value and both derivatives in one kernel.) Codegen but for these, the
registry, what launches and keeps kernels, and ``make test-long`` and ``make test-matrix`` in full, run what users run.
No kernel of one level serves the other: here they are forgotten at the change, and on disk the level is in the key.

Behind that stand the files of ``runtime/disk``, in a directory of this run's own, or the one that
``TRACEGRAD_CACHE_DIR`` names: with that a second run compiles nothing but what it must.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from zlib import crc32

import pytest
from selection import TIMES

from tracegrad.codegen.cpu.program import Program, compile_canonical
from tracegrad.codegen.lower.canonical import Canonical
from tracegrad.runtime.launch import kernel_cache
from tracegrad.runtime.launch.kernel_cache import kernels
from tracegrad.runtime.recent import Recent
from tracegrad.tracer.ir.settings import optimiser

KEPT = 1_000  # programs: those of a file or two
programs: Recent[tuple, Program] = Recent(itertools.repeat(KEPT).__next__)
_compile = kernels._compile
CODE = "tests/codegen/"
UNOPTIMISED = (
    *(
        f"tests/tracer/{room}/"
        for room in ("control", "convert", "loops", "numpy_api", "random", "record", "rules", "scipy_api")
    ),
    *(f"tests/runtime/{room}/" for room in ("logged", "paths", "record", "state", "stored", "transforms")),
    *(f"tests/runtime/test_{subject}.py" for subject in ("compiled", "constructs", "errors", "explain", "traps")),
    *(
        f"tests/{room}/"
        for room in ("array_api", "autograd", "check", "compat", "interop", "nn", "optim", "steps", "tensors", "traps")
    ),
    *(f"tests/programs/test_{what}_fuzz.py" for what in ("alias", "eager", "effect", "effect_state", "state")),
    "tests/codegen/derive/",
    "tests/codegen/lower/test_half_precision.py::test_derivatives_are_those_in_float32_rounded",
    "tests/codegen/lower/test_joined_pads.py::test_code_of_the_gradient_grows",  # before LLVM sees it
    "tests/codegen/schedule/test_cuts.py",
    "tests/codegen/schedule/test_likeness.py",  # which functions are written
    "tests/runtime/launch/test_result_tree.py",
    "tests/tracer/ops/test_complex.py",
    "tests/tracer/ops/test_linalg_complex.py",
    "tests/tracer/ops/test_primitives.py::test_derivatives_in_the_kernel",
    "tests/tracer/ops/test_primitives.py::test_edges_of_the_gradient_in_the_kernel",
)
SAMPLED = (
    "tests/programs/", "tests/science/",
    "tests/codegen/cpu/test_many_nests.py", "tests/codegen/cpu/test_rolls.py", "tests/codegen/cpu/test_tiled_sums.py",
    "tests/codegen/lower/test_joined_pads.py", "tests/codegen/lower/test_long_concats.py",
    "tests/codegen/lower/test_strips.py",
    "tests/codegen/schedule/test_schedule.py::test_what_is_put_together_from_parts_is_right",
)  # fmt: skip
ONE_OF = {
    "tests/science/": 3,
    "tests/codegen/lower/test_half_precision.py": 4,
    "tests/runtime/logged/": 20,
    "tests/tracer/loops/": 20,
}
OPTIMISED = optimiser.level
IN_FULL = TIMES > 1 or bool(os.environ.get("TRACEGRAD_TESTS_OPTIMISED"))


def once(canonical: Canonical, arguments: int) -> Program:
    """The program of *canonical*, compiled where no test did before."""
    key = (optimiser.level, arguments, canonical.key)
    program = programs.find(key) or programs.keep(key, _compile(canonical, arguments))
    program.from_disk = False  # tests count what is compiled, whatever an earlier one has left there
    return program


# where a call is watched, frames of the library are told from those of users
once.__code__ = once.__code__.replace(co_filename=kernel_cache.__file__)


def level_of(item: pytest.Item) -> int:
    name = item.nodeid
    unoptimised = name.startswith(UNOPTIMISED) or (name.startswith(SAMPLED) and item.get_closest_marker("slow"))
    many = next((many for room, many in ONE_OF.items() if name.startswith(room)), None)
    drawn = many is not None and crc32(name.encode()) % many == 0
    return 0 if unoptimised and not drawn and not IN_FULL else OPTIMISED


@pytest.hookimpl(tryfirst=True)  # fixtures of a module may compile, too
def pytest_runtest_setup(item: pytest.Item) -> None:
    if optimiser.level != level_of(item):
        optimiser.level = level_of(item)
        kernels.clear()
    kernels._compile = compile_canonical if item.nodeid.startswith(CODE) else once


@pytest.fixture
def compiled_anew() -> Iterator[None]:
    """Nothing that is compiled before the test, or in it, is kept."""
    kernels.clear()
    kept, kernels._compile = kernels._compile, compile_canonical
    yield
    kernels._compile = kept


__all__ = ["compiled_anew", "pytest_runtest_setup"]
