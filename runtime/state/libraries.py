"""The table of libraries: which are pure, which have settings that can be compared in each call, which make Python run.

One table of dotted names, ``verdict(name)`` looks up the longest prefix that it has. There are four verdicts:

- ``PURE``: the answer depends on the arguments alone, and the code is not looked into;
- a ``LibrarySetting``: pure but for a setting of the library, which is read again and compared in each call;
- a ``Refusal``: the answer depends on what can't be compared, so that Python has to run;
- ``UNKNOWN``, not in the table: the module's code runs as the user's own does, and what is compiled makes Python run.

So a package that is merely installed is no library here: only what is known to be pure is trusted.
"""

from __future__ import annotations

import _locale
import decimal
import functools
import os
import sys
import time
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from ...tracer.ir.refusals import Refusal
from .values import IdentityKey

_RANDOM, _CLOCK, _SYSTEM = Refusal.CALLS_RANDOM, Refusal.CALLS_CLOCK, Refusal.CALLS_SYSTEM
_FILES, _THREADS, _NAMES = Refusal.CALLS_FILES, Refusal.CALLS_THREADS, Refusal.CALLS_NAMES
_INTERPRETER = Refusal.CALLS_INTERPRETER


class LibrarySetting(NamedTuple):
    """A setting of a library that its functions read: ``read()`` gives hashable values, and is called in each call.

    ``quick()``, where there is one, gives an object that is another one whenever the setting is; or, *pinned*, a dict,
    whose contents are the setting: ``Pins`` compares them.
    """

    label: str
    read: Callable[[], Hashable]
    quick: Callable[[], Any] | None = None
    pinned: bool = False


# ---- settings


def _decimal_context() -> Hashable:
    """All of the context but its flags, which are an effect of computing."""
    *settings, _flags, traps = decimal.getcontext().__reduce__()[1]  # type: ignore[misc]
    return (*settings, tuple(traps))


def _numpy_errors() -> Hashable:
    return (*np.geterr().values(), IdentityKey(np.geterrcall()))


def _print_options() -> Hashable:
    return repr(sorted(np.get_printoptions().items(), key=lambda item: item[0]))


def _special_errors() -> Hashable:
    return tuple(sys.modules["scipy.special"].geterr().values())


def _context_variable(module: str, name: str) -> Callable[[], Any] | None:
    """The reader of a context variable in which NumPy keeps settings (since 2.2)."""
    return getattr(getattr(sys.modules.get(f"numpy._core.{module}"), name, None), "get", None)


def _environment() -> dict[Any, Any]:
    return getattr(os.environ, "_data", os.environ)  # type: ignore[arg-type]


ENVIRONMENT = LibrarySetting("os.environ", lambda: tuple(_environment().items()), _environment, pinned=True)
DECIMAL = LibrarySetting("the decimal context", _decimal_context)
LOCALE = LibrarySetting("the locale", functools.partial(_locale.setlocale, _locale.LC_ALL, None))
PRINT_OPTIONS = LibrarySetting(
    "np.get_printoptions()", _print_options, _context_variable("printoptions", "format_options")
)
ERRORS = LibrarySetting("np.geterr()", _numpy_errors, _context_variable("umath", "_extobj_contextvar"))
TIME_ZONE = LibrarySetting("the time zone", lambda: (time.timezone, time.altzone, time.tzname))
_BUFFER = LibrarySetting("np.getbufsize()", np.getbufsize)
_SPECIAL_ERRORS = LibrarySetting("scipy.special.geterr()", _special_errors)
_FFT_WORKERS = LibrarySetting("scipy.fft.get_workers()", lambda: sys.modules["scipy.fft"].get_workers())
_RECURSION = LibrarySetting("sys.getrecursionlimit()", sys.getrecursionlimit)
_DIGITS = LibrarySetting("sys.get_int_max_str_digits()", lambda: getattr(sys, "get_int_max_str_digits", int)())
_SWITCH = LibrarySetting("sys.getswitchinterval()", sys.getswitchinterval)


# ---- the table


class _Pure:
    def __repr__(self) -> str:
        return "PURE"


PURE = _Pure()
Verdict = _Pure | LibrarySetting | Refusal | None
UNKNOWN: Verdict = None

# Modules of the standard library; `_name` is the compiled part of `name`.
_PURE_MODULES = """
    __future__ abc _abc _py_abc _collections_abc array ast base64 binascii bisect builtins cmath _codecs codecs
    collections contextlib copy copyreg dataclasses datetime _pydatetime decimal _pydecimal difflib dis
    encodings enum errno fnmatch fractions functools graphlib hashlib _blake2 _md5 _sha1 _sha2 _sha3 heapq hmac html
    ipaddress itertools json keyword math numbers opcode operator pathlib pprint re reprlib _sre sre_compile
    sre_constants sre_parse stat statistics string _string struct textwrap token tokenize tomllib types typing
    unicodedata warnings zlib
""".split()
_IMPURE_MODULES: dict[Refusal, str] = {
    _RANDOM: "random secrets uuid",
    _CLOCK: "time timeit sched",
    _SYSTEM: "os posix nt posixpath ntpath genericpath subprocess socket select shutil tempfile glob platform "
    "locale _strptime urllib http signal pwd grp getpass site sysconfig resource",
    _FILES: "io _pyio shelve sqlite3 fileinput linecache",
    _THREADS: "threading _thread _threading_local multiprocessing concurrent asyncio queue",
    _INTERPRETER: "contextvars gc inspect sys traceback weakref _weakrefset ctypes tracemalloc faulthandler atexit "
    "code codeop pdb bdb cProfile profile trace symtable",
    _NAMES: "importlib pkgutil runpy zipimport",
    Refusal.CALLS_LOG: "logging",
}  # fmt: skip
_IMPURE_FUNCTIONS: dict[Refusal, str] = {
    _FILES: "numpy.load numpy.loadtxt numpy.genfromtxt numpy.fromfile numpy.memmap numpy.save numpy.savez "
    "numpy.savez_compressed numpy.savetxt numpy.tofile numpy.fromregex scipy.io scipy.datasets scipy.misc "
    + " ".join(f"pandas.{module}read_{kind}" for module in ("", "io.parsers.readers.")
               for kind in "csv table excel parquet feather hdf json sql pickle html xml fwf".split()),
    _RANDOM: "numpy.random pandas.Timestamp.now os.urandom posix.urandom nt.urandom",
    Refusal.CALLS_PRINT: "numpy.show_config numpy.show_runtime numpy.info scipy.show_config pprint.pprint pprint.pp",
    _NAMES: "codecs.register codecs.lookup_error codecs.register_error",
}  # fmt: skip
# Generators of random numbers: what one gives depends on its seed alone; that of no seed is a call of the system's.
_GENERATORS = """
    random.Random numpy.random.default_rng numpy.random._generator.default_rng
    numpy.random._generator.Generator numpy.random.Generator
    numpy.random.mtrand.RandomState numpy.random.RandomState
    numpy.random.bit_generator.SeedSequence numpy.random.SeedSequence numpy.random._mt19937.MT19937 numpy.random.MT19937
    numpy.random._pcg64.PCG64 numpy.random.PCG64 numpy.random._pcg64.PCG64DXSM numpy.random.PCG64DXSM
    numpy.random._philox.Philox numpy.random.Philox numpy.random._sfc64.SFC64 numpy.random.SFC64
""".split()
_PURE_FUNCTIONS = (
    """
    uuid.UUID io.StringIO io.BytesIO posix.fspath nt.fspath os.fspath posix.PathLike os.PathLike
    sys.getsizeof sys.intern sys.is_finalizing sys.float_info sys.int_info sys.hash_info sys.flags sys.version_info
    sys.implementation sys.thread_info
    inspect.isfunction inspect.isclass inspect.ismethod inspect.isbuiltin inspect.isgeneratorfunction
""".split()
    + [
        f"{paths}.{name}"
        for paths in ("posixpath", "ntpath")
        for name in "join basename dirname splitext split normpath isabs commonprefix".split()
    ]
    + _GENERATORS
)
_SETTINGS: dict[LibrarySetting, str] = {
    DECIMAL: "decimal _pydecimal",
    ERRORS: "numpy.geterr numpy.seterr numpy.geterrcall numpy.seterrcall",
    _BUFFER: "numpy.getbufsize numpy.setbufsize",
    PRINT_OPTIONS: "numpy.get_printoptions numpy.set_printoptions numpy.printoptions numpy.array2string "
    "numpy.array_repr numpy.array_str numpy.format_float_positional numpy.format_float_scientific",
    _SPECIAL_ERRORS: "scipy.special.geterr scipy.special.seterr scipy.special._ufuncs.geterr "
    "scipy.special._ufuncs.seterr",
    _FFT_WORKERS: "scipy.fft.get_workers scipy.fft.set_workers",
    _RECURSION: "sys.getrecursionlimit sys.setrecursionlimit",
    _DIGITS: "sys.get_int_max_str_digits sys.set_int_max_str_digits",
    ENVIRONMENT: "os.environ os.getenv",
    _SWITCH: "sys.getswitchinterval sys.setswitchinterval",
}
# Packages whose functions are known to depend on their arguments alone, but for the parts named in `_UNKNOWN`.
PACKAGES = ("numpy", "scipy", "cupy", "cupyx", "numba", "llvmlite", "optree", "typing_extensions", "tracegrad")
# Classes of plain objects (whose validators are the user's code), and of data, which is guarded by its contents.
_RECORDS = ("attr", "attrs", "pydantic", "pydantic_core", "pandas", "xarray", "torch._tensor")
# `value(name)`, `default_fill_value(x)` read dicts that anyone can change; numba's objects lie in memory of its own.
_UNKNOWN = "scipy.constants numpy.ma numba.typed numba.experimental numba.cuda"

_TABLE: dict[str, Verdict] = {
    **dict.fromkeys([*_PURE_MODULES, *PACKAGES, *_RECORDS, *_PURE_FUNCTIONS], PURE),
    **{name: why for why, names in [*_IMPURE_MODULES.items(), *_IMPURE_FUNCTIONS.items()] for name in names.split()},
    **{name: setting for setting, names in _SETTINGS.items() for name in names.split()},
    **dict.fromkeys(_UNKNOWN.split(), UNKNOWN),
    **dict.fromkeys(_PURE_FUNCTIONS, PURE),
}

LOCAL_TIME = {"fromtimestamp", "timestamp", "astimezone"}  # methods of `datetime` that read the time zone
# Names of NumPy's that make dates, of text too; and text that is a clock to them.
_MOMENTS = ("now", "today")


@functools.lru_cache(1 << 14)
def verdict(name: str) -> Verdict:
    """The verdict on a dotted name: that of its longest prefix in the table."""
    while name:
        if name in _TABLE:
            return _TABLE[name]
        if name.startswith("_") and "." not in name and name[1:] in _TABLE:  # the compiled part of a module
            return _TABLE[name[1:]]
        name = name.rpartition(".")[0]
    return UNKNOWN


def known(name: str) -> bool:
    """Whether the table judges a module, so that its code is not followed."""
    return verdict(name) is not UNKNOWN


def impure(name: str) -> Refusal | None:
    """The reason why what has this dotted name is impure, or None."""
    found = verdict(name)
    return found if isinstance(found, Refusal) else None


def leaf_setting(value: Any) -> LibrarySetting | None:
    """The setting on which computing with an immutable value depends."""
    if type(value) is decimal.Decimal:
        return DECIMAL
    if type(value) in (tuple, frozenset):
        return next(filter(None, map(leaf_setting, value)), None)
    return None


def is_moment(value: Any) -> bool:
    """Whether a text is the present time to NumPy."""
    return type(value) is str and len(value) < 6 and value.lower() in _MOMENTS
