"""The row of the primitive table, and the registry that the tests, the adjoint and the code generators read.

A primitive is one ``Primitive``: its implementation (the interpreter), its shape rule, its derivative, its lowering
and its test domain.  How much of that a row must spell depends on its ``kind``:

=============  ==============================================================================================
elementwise    local ``partials`` (one per operand, None where it has no derivative) and a scalar ``lower``
linear views   ``transpose`` (the adjoint of the map); forward mode applies the primitive to the tangent
others         ``vjp`` and ``jvp`` by hand
=============  ==============================================================================================

``impl(*operands, **params)`` computes with NumPy.  It serves a device too, where the array module is CuPy: of a ufunc
of NumPy or SciPy CuPy has one of the same name, and a function takes the module, ``lambda x, axes, xp=np: xp.sum(x,
axes)``.  There *operands* are arrays of the device; those of elementwise primitives, and the first of a recurrence,
may be NumPy scalars.  A function without *xp* is for NumPy alone: on a device NumPy does it, at the price of a
transfer, unless ``codegen/evaluate/cupy_exceptions.py`` has something.  No ``impl`` may wait for the device.

All but the elementwise ones say in ``axes`` which axis of an operand is which axis of the result (``axes.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from .axes import AxesRule, same_axes
from .data_classes import dataclass

PRIMITIVES: dict[str, Primitive] = {}

# kinds, as code generation sees them
ELEMENTWISE = "elementwise"  # one scalar out per scalar in: inlined into any loop
VIEW = "view"  # an index map: inlined into any loop
REDUCE = "reduce"  # closes an inner loop
RECURRENCE = "recurrence"  # a loop-carried value along one axis
PRODUCT = "product"  # matrix products, by BLAS
LAPACK = "lapack"  # work on each matrix of a batch: linear algebra by LAPACK, transforms by NumPy's code, filters
SCATTER = "scatter"  # indexed writes
HOST = "host"  # runs in NumPy between kernels, and explain() says so
LOOP = "loop"  # a body run once for each row (ops/control.py): a step of its own, like a library call
CUSTOM = "custom"  # a derivative of its own (ops/custom.py): joint over its results, gone before code generation
# whose derivatives multiply zeros by what may be infinite or NaN; those of the others know `mulz`
LEAKING = frozenset((PRODUCT, LAPACK, HOST, LOOP, CUSTOM))


@dataclass(frozen=True, eq=False, slots=True)
class Primitive:
    """One operation.  ``infer`` maps avals and params to the aval of the result."""

    name: str
    kind: str
    impl: Callable[..., Any]
    infer: Callable[..., Any]
    partials: tuple[Callable[..., Any] | None, ...] = ()
    vjp: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    transpose: Callable[..., Any] | None = None
    # of the result and the operands: moves whose effects on the cotangent the vjp is told, as *rates* (linalg_gaps.py)
    parting: Callable[..., Any] | None = None
    lower: Any = None
    axes: AxesRule = same_axes
    sizes: tuple[str, ...] = ()  # params that hold sizes: lifted out of the signature
    singular: bool = False  # a partial is infinite at points where the value is finite
    masking: bool = False  # its vjp sends exact zeros to some elements
    joint: bool = False  # its vjp takes the cotangents of all results (or None), and all results
    cost: int = 1  # rough flops; a transcendental is 20
    domain: tuple[tuple[float, float], ...] = ()  # test inputs are drawn from here
    # for the tests: params, shapes, kinds (a letter per operand: "bff"), index, bool
    test: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


def register(row: Primitive) -> Primitive:
    if row.name in PRIMITIVES:
        raise ValueError(f"primitive {row.name} is registered twice")
    PRIMITIVES[row.name] = row
    return row


def differentiable(row: Primitive) -> bool:
    return bool(row.transpose or row.vjp or any(row.partials))
