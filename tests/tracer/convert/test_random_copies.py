"""Random functions and their copies do the same."""

from __future__ import annotations

import linecache
import types
import warnings

import pytest
from converted import copied, deeply, outcome, rebound
from program_grammar import program
from selection import seeds

BLOCK = 40
FORMS = (copied, deeply, rebound)


def module_of(seed):
    """The namespace of a program, whose source is known."""
    text, file = program(seed), f"<program {seed}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    space = {"__name__": "program"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, file, "exec", dont_inherit=True), space)
    return space


def run(space, form):
    """The outcome of a call, with all that was noted and left behind."""
    space.update(g=3, h=[1, 2])
    f = form(space["make"]())
    space["LOG"].clear()
    found = outcome(f, 1)
    if isinstance(found[1], types.GeneratorType):
        found = outcome(list, found[1])
    # A generator that an exception comes from lives as long as the frames in the traceback, some of which are not the
    # user's: when it is closed may differ.
    return repr((found, [entry for entry in space["LOG"] if entry != "'closed'"], space["g"], space["h"]))


def compare(seed):
    """How a function and its copies differ; None if they don't, or if it can't be compiled."""
    try:
        space = module_of(seed)
    except SyntaxError:
        return None
    want = run(space, lambda f: f)
    for form in FORMS:
        got = run(space, form)
        if got != want and " at 0x" not in want + got and "RecursionError" not in want + got:
            return f"{form.__name__}\n{program(seed)}\n{want}\n{got}"
    linecache.cache.pop(f"<program {seed}>")
    return None


@pytest.mark.parametrize("start", seeds(800, quick=BLOCK, block=BLOCK))
def test_copies_of_random_functions_do_the_same(start):
    for seed in range(start, start + BLOCK):
        assert compare(seed) is None
