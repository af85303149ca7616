"""The compiler's interface to a library of tensors on top of it.

The compiler answers calls over NumPy and CuPy arrays without one. A library registers its functions in ``TENSORS``:
recognition and unwrapping of tensors, wrapping of device arrays, and the form of a compiled function that takes
tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .stats import Stats


class TensorForm(Protocol):
    """One compiled function as it is called with tensors."""

    def answer(self, mode: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The value, gradient or both, as *mode* (``record/recording.py``) asks."""


class MetTensorsError(BaseException):
    """A run of a function of arrays has come to *found*, a tensor or what may hold one: the function has another form
    for such calls, and the run has done nothing outside."""

    def __init__(self, label: str, found: Any) -> None:
        super().__init__(label)
        self.label, self.found = label, found


def _none(*given: Any) -> Any:
    raise AssertionError("no library of tensors is registered")


def _never() -> bool:
    return False


@dataclass(slots=True)
class TensorLibrary:
    """Functions over tensors. The defaults are those of a process without tensors."""

    types: tuple[type, ...] = ()  # classes of tensors, subclasses included
    kinds: tuple[type, ...] = ()  # these, and classes of objects that hold tensors
    within: Callable[[Any], dict[str, Any]] = (
        _none  # the tensors in an object of such a class, by what follows its name
    )
    data: Callable[[Any], Any] = _none  # the array in a tensor: NumPy's, CuPy's or a TracedArray
    requires_grad: Callable[[Any], bool] = _none
    wrap: Callable[[Any], Any] = lambda array: array  # wraps a result that stays on a device
    grad_enabled: Callable[[], bool] = _never  # whether gradients are enabled in this thread
    capturing: Callable[[], bool] = _never  # whether a step is being recorded in this thread
    form: Callable[[Callable[..., Any], frozenset[int | str], str, Stats], TensorForm] = (
        _none  # (fn, static, target, stats) -> the form of fn for tensors
    )


TENSORS = TensorLibrary()
