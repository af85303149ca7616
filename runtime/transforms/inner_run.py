"""Runs of functions within the recording in force, for the rules of transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...tracer.ir.errors import DifferentiationError
from ...tracer.record.recorder import Recorder, current_recorder
from ..mode import Mode
from ..record.call_key import Call, flatten
from ..record.differentiable import differentiated, leaf_names
from ..record.inner import InnerRun, run_within
from ..tensor_library import TENSORS


def run_rule(rule: Any, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of *rule*, a ``TransformRule`` with which *fn* is run in the recording in force."""
    recorder = current_recorder()
    if recorder is None:  # a call over tensors, which are recorded in another way
        raise _given_tensors(rule.name)
    return rule(fn, recorder, args, kwargs)


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
