"""Settings, read from the environment when tracegrad is imported and changeable afterwards."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..tracer.ir.settings import SETTINGS_CHANGED, checks, loop_memory
from .threads import threads

TOPICS = ("recompiles", "compiles", "fusion", "all")  # of the log


def _number(name: str, default: int) -> int:
    """The whole number that the environment has for a setting."""
    text = os.environ.get(f"TRACEGRAD_{name}", "")
    if not text:
        return default
    if not text.strip().isdecimal():
        raise ValueError(f"TRACEGRAD_{name}={text!r} in the environment: a whole number, 0 or more, is needed")
    return int(text)


def topics(text: str, where: str = "config.log") -> str:
    """The topics of the log in *text*, checked.

    Raises:
        ValueError: there is no such topic; it names *where* the text comes from.
    """
    found = [topic.strip() for topic in text.split(",") if topic.strip()]
    wrong = [topic for topic in found if topic not in TOPICS]
    if wrong:
        raise ValueError(f"{where}={text!r}: there is no topic {wrong[0]!r}; topics are {', '.join(TOPICS)}")
    return ",".join(found)


class DefaultDtype:
    """The dtype of tensors made from Python floats, and a part of every call key."""

    __slots__ = ("dtype",)

    def __init__(self) -> None:
        self.dtype = np.dtype(np.float64)

    def set(self, dtype: np.dtype) -> None:
        """Make *dtype* the default of the process (one assignment, which threads see at once)."""
        if dtype != self.dtype:
            self.dtype = dtype
            SETTINGS_CHANGED()


default_dtype = DefaultDtype()


class Config:
    """``check``: run every call in the interpreter too and compare, and look over every graph
    (``TRACEGRAD_CHECK=1``). ``max_kernels``: kernels kept in memory. ``max_paths``: branches kept for one kind of
    call before Python runs each time. ``select_branches``: whether both arms of an `if` on data may run, so that it
    needs no branch. ``max_variants``: kinds of call (types, shapes) remembered by one function; ``max_states``:
    states of the outside for each of them.
    ``max_segments``: kernels of segments that one kind of call keeps ready, where its Python runs each time.
    ``max_derivatives``: kinds of operands whose derivative each eager operation remembers; ``max_tapes``: shapes of
    eager graphs that are remembered. ``loop_memory``: bytes that the reverse mode may store of the steps of one
    loop (a quarter of the free memory). ``num_threads``: threads that a kernel may use, which is all cores that the
    process may where it is set to 0. ``progress``: whether a line on the terminal says what takes longer than a second
    to record or compile; ``explain_lines``: lines of a section of ``explain()``, whose repeats are folded where it has
    more (0: all). ``cache``: whether compiled kernels are kept on disk, and ``cache_recordings`` whether recordings
    are, too; ``disk_answers``: calls of one kind that these answer before one is recorded, which verifies them;
    ``cache_dir``: where (empty: the user's directory for caches); ``cache_size``: the bytes of all its files.
    ``log``: topics that are told on standard error, with commas; ``perf_map``: whether ``perf`` is told the names of
    kernels."""

    def __init__(self) -> None:
        self.check = os.environ.get("TRACEGRAD_CHECK", "0") not in ("", "0")
        self.max_kernels = _number("MAX_KERNELS", 1024)
        self.max_paths = _number("MAX_PATHS", 32)
        self.select_branches = bool(_number("SELECT_BRANCHES", 1))
        self.max_variants = _number("MAX_VARIANTS", 256)
        self.max_states = _number("MAX_STATES", 64)
        self.max_segments = _number("MAX_SEGMENTS", 1024)
        self.max_derivatives = _number("MAX_DERIVATIVES", 256)
        self.max_tapes = _number("MAX_TAPES", 256)
        self.loop_memory = _number("LOOP_MEMORY", loop_memory.budget)
        self.num_threads = _number("NUM_THREADS", 0)
        self.progress = bool(_number("PROGRESS", 1))
        self.explain_lines = _number("EXPLAIN_LINES", 200)
        self.cache = (os.environ.get("TRACEGRAD_CACHE") or "1") != "0"
        self.cache_recordings = bool(_number("CACHE_RECORDINGS", 1))
        self.disk_answers = _number("DISK_ANSWERS", 64)
        self.cache_dir = os.environ.get("TRACEGRAD_CACHE_DIR", "")
        self.cache_size = _number("CACHE_SIZE", 1 << 30)
        self.log = topics(os.environ.get("TRACEGRAD_LOG", ""), "TRACEGRAD_LOG")
        self.perf_map = bool(_number("PERF_MAP", 0))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in Config.__annotations__:
            raise AttributeError(f"there is no setting {name!r}; there are {', '.join(Config.__annotations__)}")
        if name == "num_threads":
            value = threads.set(int(value))
        if name == "log":
            value = topics(value)
        super().__setattr__(name, value)
        if name == "loop_memory":
            loop_memory.budget = int(value)
        if name == "check":
            checks.every_graph = bool(value)
            SETTINGS_CHANGED()

    def __repr__(self) -> str:
        return "Config(" + ", ".join(f"{n}={getattr(self, n)!r}" for n in Config.__annotations__) + ")"

    check: bool
    max_kernels: int
    max_paths: int
    select_branches: bool
    max_variants: int
    max_states: int
    max_segments: int
    max_derivatives: int
    max_tapes: int
    loop_memory: int
    progress: bool
    explain_lines: int
    num_threads: int
    cache: bool
    cache_recordings: bool
    disk_answers: int
    cache_dir: str
    cache_size: int
    log: str
    perf_map: bool


config = Config()


def set_num_threads(count: int) -> None:
    """Let a kernel use *count* threads; 0: all cores that the process may use.  Results do not depend on it.

    BLAS has threads of its own, whose number its own settings decide (``OPENBLAS_NUM_THREADS``, threadpoolctl).
    """
    config.num_threads = count


def get_num_threads() -> int:
    """The number of threads that a kernel may use."""
    return config.num_threads
