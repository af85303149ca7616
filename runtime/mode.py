"""Modes: the requested results of a compiled function; and the answer of whoever does not know a call."""

from __future__ import annotations

from typing import Any

from ..tracer.ir.data_classes import dataclass

VALUE, GRAD, VALUE_AND_GRAD = "value", "grad", "value_and_grad"
MISS: Any = object()  # the answer of a slot that does not know the call


@dataclass(slots=True, frozen=True)
class Mode:
    """The requested results: a function's value, its gradient with respect to *argnums*, or both; *holomorphic*: the
    derivative of a complex function."""

    kind: str
    argnums: int | tuple[int, ...] = 0
    has_aux: bool = False
    holomorphic: bool = False

    @property
    def positions(self) -> tuple[int, ...]:
        return (self.argnums,) if isinstance(self.argnums, int) else self.argnums

    @property
    def differentiated(self) -> tuple[int, ...]:
        """The positions of arguments that gradients are taken of."""
        return () if self.kind == VALUE else self.positions

    def __str__(self) -> str:
        return "f(...)" if self.kind == VALUE else f"f.{self.kind}(...)"
