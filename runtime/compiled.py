"""``compile_grad``: functions whose value and gradient are compiled kernels.

The first calls may be answered by recordings on disk (``stored/first_call.py``).  Otherwise a call is answered by the
first *slot* of its mode (value, gradient or both) that knows it: a family of the paths that
answered last, with a check of the outside state and a native launch (under 1 µs).  Calls that no slot answers go to
the dispatcher (``paths/dispatcher.py``).
"""

from __future__ import annotations

import functools
import os
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NoReturn, ParamSpec, Protocol, TypeVar, overload

from ..tracer.ir import forks
from ..tracer.ir.gc_pause import imported_to_stay
from ..tracer.ir.tracebacks import for_users, shorten
from .ahead_of_time import AheadOfTime
from .declare import check_function, positions, refuse_arguments, shifted_positions, static_positions
from .memo import OWNERS
from .mode import GRAD, MISS, VALUE, VALUE_AND_GRAD, Mode
from .stats import Stats, short_name
from .stored.first_call import HOST_TARGETS, First, FirstCalls
from .wrapper import P, R, Wrapper

if TYPE_CHECKING:
    from .paths.dispatcher import FunctionDispatcher
    from .paths.entry import Endpoint

S = TypeVar("S")  # the instance that a method is of
Q = ParamSpec("Q")  # the parameters of a method behind it


class _Once:
    """``functools.cached_property``, which up to Python 3.11 holds a lock of all instances, in a forked child for
    ever."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def __get__(self, instance: Any, owner: type) -> Any:
        found = instance.__dict__[self._make.__name__] = self._make(instance)
        return found


class _Other:
    """An attribute that compiled functions do not have, under a name of other libraries."""

    def __init__(self, name: str, ours: str) -> None:
        self._name, self._ours = name, ours

    def __get__(self, owner: Any, cls: Any = None) -> NoReturn:
        text = f"a compiled function has no attribute {self._name!r}: write {self._ours}"
        with for_users:
            raise AttributeError(text, name=self._name, obj=owner)


# What other libraries call it -> what to write.
_NEAR = {
    **dict.fromkeys(("gradient", "gradients", "get_grad", "backward", "derivative", "deriv", "diff"), "f.grad(...)"),
    **dict.fromkeys(
        ("value_grad", "val_and_grad", "value_and_gradient", "value_and_gradients", "grad_and_value"),
        "f.value_and_grad(...)",
    ),
    **dict.fromkeys(("jac", "jacobi", "jacrev", "jacfwd"), "f.jacobian(...)"),
    **dict.fromkeys(("hess", "hessians"), "f.hessian(...)"),
    **dict.fromkeys(("forward", "apply", "value"), "f(...)"),
}


class CompiledFunction(Wrapper, AheadOfTime, Generic[P, R]):
    """A function with compiled value and gradient.  Made by :func:`compile_grad`."""

    def __init__(
        self, fn: Callable[P, R], argnums: int | Sequence[int] = 0, has_aux: bool = False,
        static_argnames: str | Iterable[str] = (), target: str = "cpu",
    ):  # fmt: skip
        check_function(fn, target)
        functools.update_wrapper(self, fn, updated=())
        self.__wrapped__ = fn
        self._fn = fn
        self._argnums = positions(argnums)
        self._has_aux = has_aux
        self._names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        self.stats = Stats(short_name(fn))
        self._target, self._static = target, static_positions(fn, self._names)
        self._calls = FirstCalls(fn, target in HOST_TARGETS and not self._static, self.stats, weakref.ref(self))
        self._set_endpoints()
        self._transforms: dict[tuple[str, bool], Any] = {}

    def endpoint(self, mode: Mode) -> Endpoint | First:
        """The endpoint of *mode*, or what stands in its place until there is a dispatcher."""
        made = self.__dict__.get("_dispatcher")
        return First(self._calls, mode) if made is None else made.endpoint(mode)

    def _set_endpoints(self) -> None:
        endpoint = self.endpoint
        self._value, self._grad, self._both = (endpoint(Mode(k, self._argnums, self._has_aux)) for k in _KINDS)
        shifted = shifted_positions(self._argnums)  # of a method, argnums count the arguments after self
        self._bound = tuple([endpoint(Mode(k, shifted, self._has_aux)) for k in _KINDS])

    @_Once
    def _dispatcher(self) -> FunctionDispatcher:
        """The slow path, which is made, and the tracer imported, when a call is to be recorded."""
        with _making:
            made = self.__dict__.get("_dispatcher")
            if made is None:
                made = module_of_runtime("paths.dispatcher").FunctionDispatcher(
                    self._fn, self._static, self._target, self.stats
                )
                made.answered = self._calls.answered
                made.count_paths()
                self.__dict__["_dispatcher"] = made
                self._set_endpoints()
        return made

    def count_for(self, stats: Stats) -> None:
        """Have the *stats* of another copy of the function count what comes."""
        stats.live, stats.not_kept = self.stats.live, self.stats.not_kept
        self.stats = self._calls.stats = stats
        made = self.__dict__.get("_dispatcher")
        if made is not None:
            made.stats = stats
            made.count_paths()

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _NEAR]

    # The body of `run` stands in each of these three: a cached call is so short that one Python call less shows. Each
    # is the outermost frame of the library's, which shortens the tracebacks of errors.

    # ---- what users call ---------------------------------------------------------------------------------------

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's value, from a compiled forward kernel."""
        endpoint = self._value
        self.stats.calls += 1
        try:
            found = endpoint.first(args, kwargs)
            return found if found is not MISS else self._dispatcher.others(endpoint, args, kwargs)
        except Exception as error:
            shorten(error)
            raise

    def grad(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Gradient with respect to ``argnums``, in the structure of those arguments (with ``has_aux``: (gradient,
        aux)).

        Raises DifferentiationError where an argument is not floating point or the result not a scalar.
        """
        endpoint = self._grad
        self.stats.calls += 1
        try:
            found = endpoint.first(args, kwargs)
            return found if found is not MISS else self._dispatcher.others(endpoint, args, kwargs)
        except Exception as error:
            shorten(error)
            raise

    def value_and_grad(self, *args: P.args, **kwargs: P.kwargs) -> tuple[R, Any]:
        """(value, gradient) from one kernel; with ``has_aux`` ((value, aux), gradient).

        ``scipy.optimize.minimize(f.value_and_grad, x0, jac=True)`` takes it as it is.
        """
        endpoint = self._both
        self.stats.calls += 1
        try:
            found = endpoint.first(args, kwargs)
            return found if found is not MISS else self._dispatcher.others(endpoint, args, kwargs)
        except Exception as error:
            shorten(error)
            raise

    def jacobian(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The Jacobian with respect to ``argnums``: :func:`tracegrad.autograd.jacobian`.

        ``scipy.optimize.least_squares(f, x0, jac=f.jacobian)`` takes it as it is.
        """
        with for_users:
            return self.transform("jacobian")(*args, **kwargs)

    def hessian(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """The second derivatives with respect to ``argnums``: :func:`tracegrad.autograd.hessian`.

        ``scipy.optimize.minimize(f.value_and_grad, x0, jac=True, hess=f.hessian)`` takes it as it is.
        """
        with for_users:
            return self.transform("hessian")(*args, **kwargs)

    def hvp(self, *args: Any, **kwargs: Any) -> Any:
        """``f.hvp(x, v)``, the product of the Hessian with a vector: :func:`tracegrad.autograd.hvp`.

        ``scipy.optimize.minimize(f.value_and_grad, x0, jac=True, hessp=f.hvp)`` takes it as it is.
        """
        with for_users:
            return self.transform("hvp")(*args, **kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """A report on ``value_and_grad(*args)``, which runs the function's Python once: a summary of some ten lines.

        ``level="program"`` is the recorded program with your lines, the adjoint and the guards; ``"kernels"`` its loops
        and why each fusion was or wasn't made; ``"memory"`` the memory plan; ``"all"`` all of it.  ``format="html"``
        gives one page of HTML.  A function with a parameter of such a name gets it itself: then
        ``f.explain(*args).at(level)`` and ``.html()`` do the same.
        """
        with for_users:
            return explained(self, self._both.mode, args, kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> CompiledFunction[P, R]: ...

    @overload
    def __get__(
        self: CompiledFunction[Concatenate[S, Q], R], instance: S, owner: type | None = None
    ) -> BoundFunction[Q, R]: ...

    @overload  # of a static or a class method, whose first argument is another one
    def __get__(self, instance: Any, owner: type | None = None) -> BoundFunction[..., R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundFunction(self, instance)

    def __repr__(self) -> str:
        return f"<compiled {self.stats.name}>"

    def _repr_html_(self) -> str:
        return module_of_runtime("notebook").function_html(self, "compiled function")

    def _tracegrad_settings(self) -> tuple[Any, ...]:
        return self._argnums, self._has_aux, self._names, self._target

    def transform(self, name: str, bound: bool = False) -> Any:
        """The transform called *name* with respect to ``argnums``; *bound*: of a method, as a function of the instance,
        too."""
        found = self._transforms.get((name, bound))
        if found is None:
            argnums = shifted_positions(self._argnums) if bound else self._argnums
            make = getattr(module_of_runtime("transforms.jacobians"), name)
            found = self._transforms[name, bound] = make(self, argnums, self._has_aux)
        return found

    # ---- dispatch ----------------------------------------------------------------------------------------------

    def run(self, endpoint: Endpoint | First, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer a call."""
        self.stats.calls += 1
        found = endpoint.first(args, kwargs)
        return found if found is not MISS else self._dispatcher.others(endpoint, args, kwargs)

    def drop_slots(self) -> None:
        """Send every call to the dispatcher, until it has answered a call of the kind."""
        self._dispatcher.drop_slots()


_KINDS = (VALUE, GRAD, VALUE_AND_GRAD)
_making = forks.lock()  # of dispatchers
if hasattr(os, "register_at_fork"):  # a child must not begin in the middle of an import, whose locks stay as they are
    os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)


def module_of_runtime(name: str) -> Any:
    """A module of the runtime's that a first call from disk does without."""
    return imported_to_stay(f".{name}", __package__)


OWNERS.append(CompiledFunction)


def explained(function: CompiledFunction, mode: Mode, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The report on a call of *function* in *mode*."""
    return module_of_runtime("report.explain").explain_call(function._dispatcher, mode, args, kwargs)


class BoundFunction(AheadOfTime, Generic[P, R]):
    """A compiled method of one instance.  argnums do not count ``self``."""

    __slots__ = ("__func__", "__self__")

    def __init__(self, function: CompiledFunction, instance: Any):
        self.__func__ = function
        self.__self__ = instance

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """As :meth:`CompiledFunction.__call__`."""
        function = self.__func__
        try:
            return function.run(function._bound[0], (self.__self__, *args), kwargs)
        except Exception as error:
            shorten(error)
            raise

    def grad(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """As :meth:`CompiledFunction.grad`."""
        function = self.__func__
        try:
            return function.run(function._bound[1], (self.__self__, *args), kwargs)
        except Exception as error:
            shorten(error)
            raise

    def value_and_grad(self, *args: P.args, **kwargs: P.kwargs) -> tuple[R, Any]:
        """As :meth:`CompiledFunction.value_and_grad`."""
        function = self.__func__
        try:
            return function.run(function._bound[2], (self.__self__, *args), kwargs)
        except Exception as error:
            shorten(error)
            raise

    def jacobian(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """As :meth:`CompiledFunction.jacobian`."""
        with for_users:
            return self.__func__.transform("jacobian", True)(self.__self__, *args, **kwargs)

    def hessian(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """As :meth:`CompiledFunction.hessian`."""
        with for_users:
            return self.__func__.transform("hessian", True)(self.__self__, *args, **kwargs)

    def hvp(self, *args: Any, **kwargs: Any) -> Any:
        """As :meth:`CompiledFunction.hvp`."""
        with for_users:
            return self.__func__.transform("hvp", True)(self.__self__, *args, **kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """As :meth:`CompiledFunction.explain`."""
        function = self.__func__
        with for_users:
            return explained(function, function._bound[2].mode, (self.__self__, *args), kwargs)

    @property
    def stats(self) -> Stats:
        return self.__func__.stats

    @property
    def __wrapped__(self) -> types.MethodType:
        return types.MethodType(self.__func__._fn, self.__self__)

    @property
    def __name__(self) -> str:
        return getattr(self.__func__, "__name__", "method")

    @property
    def __doc__(self) -> Any:  # type: ignore[override]
        return self.__func__.__doc__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundFunction) and self.__func__ is other.__func__ and self.__self__ is other.__self__

    def __hash__(self) -> int:
        return hash((id(self.__func__), id(self.__self__)))

    def __repr__(self) -> str:
        return f"<compiled method {self.stats.name} of {self.__self__!r}>"

    def _repr_html_(self) -> str:
        return module_of_runtime("notebook").function_html(self, "compiled method")

    def __reduce__(self) -> Any:
        instance, name = self.__self__, self.__name__
        if getattr(instance, name, None) == self:
            return getattr, (instance, name)  # as methods are pickled
        return BoundFunction, (self.__func__, instance)

    def _tracegrad_rebuild(self, method: types.MethodType) -> BoundFunction:
        return BoundFunction(self.__func__._tracegrad_rebuild(method.__func__), method.__self__)


for _name, _ours in _NEAR.items():
    for _class in (CompiledFunction, BoundFunction):
        setattr(_class, _name, _Other(_name, _ours))


class _ClassMethod(classmethod):  # type: ignore[type-arg]
    """A class method that is a compiled method of the class.  (A ``classmethod`` of a compiled function is a plain
    method, without a gradient, from Python 3.13 on.)"""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.__func__.__get__(type(instance) if owner is None else owner)


class _Settings(Protocol):
    """``compile_grad`` with settings."""

    def __call__(self, fn: Callable[P, R], /) -> CompiledFunction[P, R]: ...


@overload
def compile_grad(
    fn: None = None, *, argnums: int | Sequence[int] = 0, has_aux: bool = False,
    static_argnames: str | Iterable[str] = (), target: str = "cpu",
) -> _Settings: ...  # fmt: skip


@overload
def compile_grad(
    fn: Callable[P, R], *, argnums: int | Sequence[int] = 0, has_aux: bool = False,
    static_argnames: str | Iterable[str] = (), target: str = "cpu",
) -> CompiledFunction[P, R]: ...  # fmt: skip


def compile_grad(
    fn: Any = None, *, argnums: int | Sequence[int] = 0, has_aux: bool = False,
    static_argnames: str | Iterable[str] = (), target: str = "cpu", **unknown: Any,
) -> Any:  # fmt: skip
    """Compile *fn*, a function of NumPy arrays and floats, and its gradient.

    Usable as ``compile_grad(fn)``, ``@compile_grad`` and ``@compile_grad(argnums=(0, 1))``, on functions and methods,
    and above ``@classmethod`` and ``@staticmethod``.

    :param argnums: the positional argument or arguments that gradients are taken of; of a method, ``self`` does not
    count.
    :param has_aux: the function returns ``(loss, aux)``; aux is handed through.
    :param static_argnames: arguments that are settings: compared by value, never traced.
    :param target: where it runs: ``"cpu"``, ``"cuda"``, or ``"auto"``: on the device if an argument lies there.
    :returns: a :class:`CompiledFunction` with ``grad``, ``value_and_grad``, ``explain`` and ``stats``.
    """
    if fn is None:
        return lambda f: compile_grad(
            f, argnums=argnums, has_aux=has_aux, static_argnames=static_argnames, target=target, **unknown
        )
    with for_users:
        if unknown:
            refuse_arguments("compile_grad", unknown, fn)
        if isinstance(fn, (classmethod, staticmethod)):
            made = CompiledFunction(fn.__func__, argnums, has_aux, static_argnames, target)
            return _ClassMethod(made) if isinstance(fn, classmethod) else staticmethod(made)
        return CompiledFunction(fn, argnums, has_aux, static_argnames, target)
