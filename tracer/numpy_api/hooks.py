"""Functions of NumPy and SciPy that are plain Python: ``hook`` sends calls with traced arguments to another function.

NumPy's protocols never see a call of these: they convert their arguments at once.  So that ``from scipy.special
import logsumexp`` traces unchanged, even where it ran before tracegrad was imported, the *code* of each such function
object is replaced by a few instructions that look at the types of the arguments: a traced array among them goes to
our implementation, anything else to the function's own code, unchanged.  Signature, documentation, name and identity of
the function stay as they are.  Where that cannot be done (it is no function of Python) nothing is changed, and a traced
argument raises as in any code that wants a plain array.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from ..ir.forks import lock
from ..ir.late_modules import imported
from ..ir.own_attributes import dict_of
from ..ops.elementwise import cast
from ..record.array import TracedArray, is_traced, to_atom, unsupported, wrap_array
from ..record.recorder import current_recorder
from .assemble import nested_atom
from .from_source import HOOKED, source_of
from .series import Elementwise

HOOK = "_tracegrad_hook"


@lru_cache
def _shim_code(cells: int, generates: bool) -> CodeType:
    """The shim's code for a function with *cells* in its closure, which may be a generator.  It copies them to its
    frame, as code with cells has to: who looks at the locals of the frame reads them."""
    names = ", ".join([f"cell{k}" for k in range(cells)])
    given = "(yield from _tracegrad_hook_NAME(args, kwargs))" if generates else "_tracegrad_hook_NAME(args, kwargs)"
    source = f"def make({names}):\n def shim(*args, **kwargs):\n  return {given}\n  {names or None}\n return shim"
    space: dict[str, Any] = {}
    exec(source, space)
    return space["make"](*range(cells)).__code__


def _given_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(is_traced(x) or isinstance(x, Elementwise) for x in (*args, *kwargs.values()))


def _without_labels(value: Any) -> Any:
    return value.array if isinstance(value, Elementwise) else value


def key_of(function: Any) -> str:
    """The global name under which calls of *function* look first: decorated functions share their globals."""
    return f"{HOOK}_{function.__module__}_{function.__qualname__}"


def copy_of(function: FunctionType) -> FunctionType:
    """*function* as it is now, before its calls are hooked."""
    found = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    found.__kwdefaults__ = function.__kwdefaults__
    return found


def hook(
    function: Any, implementation: Callable[..., Any],
    applies: Callable[[tuple[Any, ...], dict[str, Any]], bool] = _given_traced,
) -> bool:  # fmt: skip
    """Send calls of *function* with a traced argument to *implementation*, columns of pandas as arrays (or those to
    which it *applies*); every other call goes on as before."""
    if not isinstance(function, FunctionType):
        return False
    name = key_of(function)
    space = function.__globals__
    if name in space:
        return True
    original = copy_of(function)
    signature = inspect.signature(function)

    def dispatch(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if current_recorder() is not None and applies(args, kwargs):
            if applies is _given_traced:
                args, kwargs = tuple(map(_without_labels, args)), {k: _without_labels(v) for k, v in kwargs.items()}
            return implementation(*args, **kwargs)
        return original(*args, **kwargs)

    dispatch.__wrapped__ = original  # type: ignore[attr-defined]
    space[name] = dispatch
    code = _shim_code(len(function.__code__.co_freevars), inspect.isgeneratorfunction(function))
    names = tuple(name if n == "_tracegrad_hook_NAME" else n for n in code.co_names)
    function.__code__ = code.replace(
        co_names=names,
        co_freevars=function.__code__.co_freevars,
        co_name=function.__name__,
        co_qualname=function.__qualname__,
        co_filename=HOOKED,
    )
    function.__signature__ = signature  # type: ignore[attr-defined]
    return True


@dataclass(slots=True)
class _Waiting:
    """The *hooks* for functions of a *module* that may be imported later; it is loaded once it has these *names*."""

    module: str
    names: tuple[str, ...]
    hooks: Callable[[Any], None]
    sought: bool
    done: bool = False

    def is_named(self, codes: Iterable[CodeType]) -> bool:
        """Whether code has the name of the module in it."""
        names = {self.module, self.module.rpartition(".")[2]}
        return any(not names.isdisjoint(code.co_names) or self.module in code.co_consts for code in codes)


_waiting: list[_Waiting] = []
_lock = lock()


def when_loaded(
    module: str, *names: str, sought: bool = False
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Decorate what hooks the functions of *module*, which nothing here imports; the first recording after it has been
    loaded, up to these *names*, calls it with the module.  *sought*: the module is imported for code that names it,
    since calls of its functions must not go unnoticed, or can't be made again."""

    def note(hooks: Callable[[Any], None]) -> Callable[[Any], None]:
        _waiting.append(_Waiting(module, names, hooks, sought))
        return hooks

    return note


def hook_loaded(codes: Collection[CodeType] = ()) -> bool:
    """Hook the functions of modules that have been loaded since the last call, or which the *codes* name; whether there
    are any."""
    found = False
    for library in _waiting:
        if library.done:
            continue
        if library.sought and library.module not in sys.modules and library.is_named(codes):
            imported(library.module)
        module = sys.modules.get(library.module)
        if module is not None and all(hasattr(module, name) for name in library.names):
            with _lock:
                found |= _hook(library, module)
    return found


def _hook(library: _Waiting, module: Any) -> bool:
    if library.done:  # by another thread, just now
        return True
    try:
        library.hooks(module)
    except AttributeError as error:  # a release in which its parts have other names
        warnings.warn(
            f"this release of {library.module} is not one that tracegrad knows ({error}): some of its "
            "functions raise where they are given traced values",
            RuntimeWarning,
            stacklevel=3,
        )
    finally:
        library.done = True
    return True


def hook_to_source(function: Any, applies: Callable[..., bool] = _given_traced) -> None:
    """Record *function* through its own source, where an argument is traced (or it *applies*)."""
    if isinstance(function, FunctionType):
        own = copy_of(function)
        hook(function, lambda *args, **kwargs: source_of(own)(*args, **kwargs), applies)


def over_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an argument is traced, or the first one holds what is."""
    return _given_traced(args, kwargs) or (bool(args) and holds_traced(args[0]))


def holds_traced(instance: Any) -> bool:
    """Whether an attribute of *instance*, or a part of one, is traced."""
    found = (dict_of(instance) or {}).values()
    return any(map(is_traced, found)) or any(
        is_traced(getattr(instance, name, None))
        for name in _slots(type(instance))  # type: ignore[arg-type]
    )


@lru_cache(maxsize=256)
def _slots(cls: type) -> tuple[str, ...]:
    return tuple([name for base in cls.__mro__ for name in vars(base).get("__slots__", ())])


def hook_class(cls: type, **own: Callable[..., Any]) -> None:
    """Record the methods of *cls* through their source, where an argument or an attribute is traced; those named in
    *own* by these functions."""
    for name, value in list(vars(cls).items()):
        function = getattr(value, "__func__", getattr(value, "fget", value))
        if name in own:
            hook(function, own[name], over_traced)
        elif not isinstance(value, type):
            hook_to_source(function, over_traced)
        if isinstance(value, property) and isinstance(value.fset, FunctionType):
            value.fset.__qualname__ += ".setter"  # told apart from the getter
            hook_to_source(value.fset, over_traced)


#: (func, args, otypes, signature) -> the results for all elements at once, or None where Python asks for one's value
BATCHED: list[Callable[..., Any]] = []


def _vectorized(self: Any, func: Callable[..., Any], args: Any) -> Any:
    """``np.vectorize(func)(*args)``: all elements at once, or *func* of each one, as a Python number."""
    if not args:
        raise unsupported("np.vectorize of a function without arguments")
    found = BATCHED[0](func, args, self.otypes, self.signature) if BATCHED else None
    if found is not None:
        return found
    if self.signature is not None:
        return self._vectorize_call_with_signature(func, args)
    arrays: Any = np.broadcast_arrays(*[wrap_array(to_atom(x)) for x in args])
    shape, found = arrays[0].shape, []
    for index in np.ndindex(shape):
        found.append(func(*[_element(array[index]) for array in arrays]))
    if not found:
        raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
    if type(found[0]) is tuple:
        parts = list(zip(*found, strict=True))
        return tuple([_filled(part, shape, self.otypes and self.otypes[k]) for k, part in enumerate(parts)])
    return _filled(found, shape, self.otypes)


def _element(value: TracedArray) -> Any:
    return value.number() if value.aval.is_inexact else value.item()


def _filled(values: Any, shape: tuple[int, ...], dtype: Any) -> TracedArray:
    atom = nested_atom(values)
    return wrap_array(atom if not dtype else cast(atom, np.dtype(dtype))).reshape(shape)


hook(vars(np.vectorize)["_vectorize_call"], _vectorized)
hook_to_source(vars(np.vectorize)["_vectorize_call_with_signature"])
hook_to_source(vars(np.poly1d)["__init__"])
hook_to_source(vars(type(np.r_).__mro__[1])["__getitem__"])


def _kaiser(M: Any, beta: Any) -> Any:
    if M == 1:
        return np.ones(1)
    middle = (M - 1) / 2.0
    ends = 1 - ((np.arange(0, M) - middle) / middle) ** 2.0
    return np.i0(beta * np.sqrt(ends)) / np.i0(beta)


hook(np.kaiser, _kaiser)


@when_loaded("numpy.polynomial", "Polynomial", "set_default_printstyle")
def _hook_polynomials(package: Any) -> None:
    for name in "polyutils chebyshev hermite hermite_e laguerre legendre polynomial".split():
        module = getattr(package, name)
        for function in list(vars(module).values()):
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                hook_to_source(function)
