"""Draws from generators that the run has seeded itself, which every run repeats.

A generator that a run makes is its own affair, as a list is.  Those that the process has one of (``np.random.seed(0)``,
``random.seed(0)``) are left in a state, in which a replay has to leave them, too.  Python's generators are C code whose
calls the watch sees; NumPy's draw unseen (they are Cython): what they were drawn from shows in the state.
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Callable, Container, Iterator
from types import FrameType, MethodType, ModuleType
from typing import Any, NamedTuple

_WORDS = 2500  # bytes of the state of a Mersenne twister: 624 words and a position
_STATES = frozenset(("get_state", "set_state", "getstate", "setstate", "get_bit_generator", "set_bit_generator"))
# Names by which a draw may be hidden from who compares the state before a run with that after it.
_HIDING = _STATES | {"mtrand", "_rand", "_inst", "__self__"}
_MAKERS = frozenset(("seed", "default_rng", "Generator", "RandomState", "Random"))
_PYTHON: Any = random.seed.__self__  # type: ignore[attr-defined]


class LeftState(NamedTuple):
    """A state in which a run has left a generator: ``leave()`` does it again; ``key`` is equal for the same one."""

    key: Any
    leave: Callable[[], None]


def _numpy() -> Any:
    """NumPy's global generator; None where it isn't loaded."""
    module = sys.modules.get("numpy.random.mtrand")
    return getattr(module, "_rand", None)


def _state(generator: Any, whole: bool) -> Any:
    """The state of NumPy's global generator: all of it, or but for half of a pair of normal numbers."""
    if generator is None:
        return None
    try:
        bits = generator._bit_generator
        if type(bits).__name__ != "MT19937":
            return repr(bits.state)
        words = ctypes.string_at(bits.ctypes.state_address, _WORDS)
        return (words, *generator.get_state()[3:]) if whole else words
    except Exception:
        return None


def is_seeded(value: Any) -> bool:
    """Whether a function seeds or draws from a generator that the process has one of."""
    if getattr(value, "__name__", None) in _STATES:
        return False
    module = sys.modules.get("numpy.random.mtrand")
    owner = value.__self__ if type(value) is MethodType or hasattr(value, "__self__") else None
    return owner is _PYTHON or (module is not None and (owner is module._rand or value is module.seed))


def is_watched(module: ModuleType, names: Container[str]) -> bool:
    """Whether a run shows what code with these attribute *names* draws from a module that it hands around."""
    return module.__name__ in ("random", "numpy.random") and not any(name in names for name in _HIDING)


def may_seed(names: Container[str]) -> bool:
    """Whether code with these attribute *names* may make or seed generators."""
    return any(name in names for name in _MAKERS)


class SeededDraws:
    """The draws of one run.  *seeds*: the code may seed generators."""

    def __init__(self, seeds: bool) -> None:
        self._seeds = seeds
        self._numpy = _numpy()
        self._before = _state(self._numpy, seeds)
        self._numpy_seeded = False
        self._python: dict[int, Any] = {}  # Python's generators that the run has seeded, by id

    def seed_numpy(self) -> None:
        """NumPy's global generator is about to be seeded."""
        known = self._numpy is not None
        self._numpy_seeded |= known and self._seeds and _state(self._numpy, True) == self._before

    def unseeded(self) -> bool:
        """Whether NumPy's global generator has been drawn from before it was seeded, or perhaps so: it was not there
        when the run began."""
        if self._numpy is None:
            return _numpy() is not None
        return not self._numpy_seeded and _state(self._numpy, self._seeds) != self._before

    def allows(self, frame: FrameType, owner: Any, name: str) -> bool:
        """Whether a call by *frame* of the method *name* of one of Python's generators gives the same in each run."""
        if name == "seed" and frame.f_code is random.Random.seed.__code__ and frame.f_locals.get("a") is not None:
            self._python[id(owner)] = owner
        return id(owner) in self._python

    def ends(self) -> Iterator[LeftState]:
        """The states in which the run leaves generators that others draw from, too."""
        if self._numpy_seeded:
            key = _state(self._numpy, True)
            state = self._numpy.get_state()
            yield LeftState(key, lambda: self._numpy.set_state(state))
        if id(_PYTHON) in self._python:
            pythons = random.getstate()
            yield LeftState(pythons, lambda: random.setstate(pythons))
