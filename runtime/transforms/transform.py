"""Transforms: functions that are made of functions by rewriting what these have recorded.

A ``TransformRule`` is one transform with its settings (``jacobian`` by rows with respect to argument 1).  It runs the
function within the recording in force (``inner_run.py``) and appends ordinary nodes, made of those recorded.  A
``Transform`` is a compiled function whose Python is such a run, so it is recorded, compiled, cached and explained like
any other, and can be transformed, too, in any order and to any depth.

A first call that a recording on disk answers needs no more than the settings.  So what users call and the settings
stand in ``forward.py``, ``vmap.py`` and so on, and how a rule rewrites a recording in ``forward_rewrite.py``,
``vmap_rewrite.py`` and so on, which are imported with the first run.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ...tracer.ir.errors import need_function
from ...tracer.ir.late_modules import imported
from ..compiled import BoundFunction, CompiledFunction, explained, module_of_runtime
from ..memo import kept
from ..wrapper import P, R, Wrapper

if TYPE_CHECKING:
    from ...tracer.record.recorder import Recorder

Function: TypeAlias = Callable[..., Any]

_REWRITES: dict[type, Callable[..., Any]] = {}


class TransformRule:
    """A transform with its settings, a frozen dataclass.  Made by :func:`rule_of`."""

    @property
    def name(self) -> str:
        """The name of the transform, as users call it."""
        raise NotImplementedError

    def __call__(self, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result for arguments that are traced in *recorder*, in which *fn* is run."""
        if type(self) not in _REWRITES:
            imported(f"{type(self).__module__}_rewrite")
        return _REWRITES[type(self)](self, fn, recorder, args, kwargs)

    def __reduce__(self) -> Any:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return rule_of, (type(self), *[getattr(self, field.name) for field in fields])


def rewrites(rule: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function is how rules of the class *rule* rewrite recordings."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _REWRITES[rule] = function
        return function

    return register


@functools.lru_cache(maxsize=4096)
def rule_of(cls: Callable[..., Any], *settings: Any) -> Any:
    """The rule ``cls(*settings)``: one object for equal settings, so that it is found by its identity."""
    return cls(*settings)


class RuleApplied(Wrapper):
    """A rule and its function, as the Python function that is recorded.  *parameters*: its signature, where that is not
    the one of the function."""

    def __init__(self, fn: Callable[..., Any], rule: TransformRule, parameters: Sequence[str] | None = None) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.rule, self.__wrapped__, self.parameters = rule, fn, parameters
        if parameters is not None:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            self.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in parameters])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return imported(f"{__package__}.inner_run").run_rule(self.rule, self.__wrapped__, args, kwargs)

    def __repr__(self) -> str:
        return f"{self.rule.name} of {module_of_runtime('record.differentiable').name_of(self.__wrapped__)}"

    def _tracegrad_settings(self) -> tuple[Any, ...]:
        return self.rule, self.parameters


class Transform(CompiledFunction[P, R]):
    """A transformed function.  Made by :func:`transformed`."""

    def __init__(self, applied: RuleApplied) -> None:
        fn, target = applied.__wrapped__, "auto"
        names: tuple[str, ...] = ()
        inner = fn.__func__ if isinstance(fn, BoundFunction) else fn
        if isinstance(inner, CompiledFunction):
            target, names = inner._target, inner._names if applied.parameters is None else ()
        super().__init__(applied, 0, False, names, target)
        self.stats.name = f"{applied.rule.name} of {getattr(fn, '__qualname__', None) or self.stats.name}"

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """As :meth:`CompiledFunction.explain`, for the transformed function."""
        return explained(self, self._value.mode, args, kwargs)

    def __repr__(self) -> str:
        return f"<{self.stats.name}>"

    def _tracegrad_settings(self) -> tuple[Any, ...]:
        return ()

    def _tracegrad_parts(self) -> Any:
        applied = self.__wrapped__
        return transformed, (applied.rule, applied.__wrapped__, applied.parameters)  # which is kept on the function


def transformed(
    rule: TransformRule, fn: Callable[P, Any], parameters: Sequence[str] | None = None
) -> Transform[P, Any]:
    """*fn* transformed by *rule*: the same object for the same function and rule, for as long as the function lives.
    *parameters*: the names of its arguments, where they are not those of the function."""
    need_function(rule.name, fn)
    return kept(fn, rule, lambda: Transform(RuleApplied(fn, rule, parameters)))
