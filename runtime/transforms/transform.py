"""Transforms: functions that are made of functions by rewriting what these have recorded.

A ``TransformRule`` is one transform with its settings (``jacobian`` by rows with respect to argument 1).  It runs the
function within the recording in force (``record/inner.py``) and appends ordinary nodes, made of those recorded.  A
``Transform`` is a compiled function whose Python is such a run, so it is recorded, compiled, cached and explained like
any other, and can be transformed, too, in any order and to any depth.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ...tracer.ir.errors import DifferentiationError
from ...tracer.record.recorder import Recorder, current_recorder
from ..compiled import BoundFunction, CompiledFunction, explained
from ..memo import kept
from ..mode import Mode
from ..record.call_key import Call, flatten
from ..record.differentiable import differentiated, leaf_names, name_of
from ..record.inner import InnerRun, run_within
from ..tensor_library import TENSORS
from ..wrapper import Wrapper

Function: TypeAlias = Callable[..., Any]


class TransformRule:
    """A transform with its settings, a frozen dataclass.  Made by :func:`rule_of`."""

    @property
    def name(self) -> str:
        """The name of the transform, as users call it."""
        raise NotImplementedError

    def __call__(self, fn: Function, recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result for arguments that are traced in *recorder*, in which *fn* is run."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return rule_of, (type(self), *[getattr(self, field.name) for field in fields])


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
        recorder = current_recorder()
        if recorder is None:  # a call over tensors, which are recorded in another way
            raise _given_tensors(self.rule.name)
        with recorder.in_full():
            return self.rule(self.__wrapped__, recorder, args, kwargs)

    def __repr__(self) -> str:
        return f"{self.rule.name} of {name_of(self.__wrapped__)}"

    def _tracegrad_settings(self) -> tuple[Any, ...]:
        return self.rule, self.parameters


class Transform(CompiledFunction):
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


def transformed(rule: TransformRule, fn: Function, parameters: Sequence[str] | None = None) -> Transform:
    """*fn* transformed by *rule*: the same object for the same function and rule, for as long as the function lives.
    *parameters*: the names of its arguments, where they are not those of the function."""
    if not callable(fn):
        raise TypeError(f"{rule.name} needs a function, not {type(fn).__name__}")
    return kept(fn, rule, lambda: Transform(RuleApplied(fn, rule, parameters)))


# ---- for rules -----------------------------------------------------------------------------------------------------


def call_of(
    name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], apart: Sequence[int]
) -> Call:
    """The call of the inner function; plain objects among the positional arguments *apart* are taken apart."""
    call = flatten(args, kwargs, fn=fn, differentiated=apart)
    if any(isinstance(leaf, TENSORS.types) for leaf in call.leaves):
        raise _given_tensors(name)
    return call


def run_along(
    name: str, fn: Callable[..., Any], recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any], mode: Mode,
    has_aux: bool = False,
) -> InnerRun:  # fmt: skip
    """The run of *fn* within *recorder* for *name*, with variables for the arguments that *mode* names."""
    call = call_of(name, fn, args, kwargs, mode.positions)
    return run_within(fn, call, differentiated(call, mode, leaf_names(fn, call)), recorder, has_aux=has_aux)


def _given_tensors(name: str) -> DifferentiationError:
    return DifferentiationError.here(
        f"{name} is for functions of arrays, and was given a Tensor: tracegrad.autograd.functional has the functions "
        "for tensors; or pass x.numpy()"
    )


def arguments_of(mode: Mode, args: Sequence[Any]) -> Any:
    """The arguments that *mode* names: one, or a tuple of them."""
    return args[mode.argnums] if isinstance(mode.argnums, int) else tuple([args[k] for k in mode.argnums])
