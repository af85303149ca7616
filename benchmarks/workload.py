"""What a workload is, and how one plain NumPy function is handed to a library with another namespace."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .peer import Prepared, Result

Maker = Callable[[], Callable[..., Any]]


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    `fn` is the loss as a user of NumPy writes it, in a module that says ``import numpy as np``. tracegrad gets
    it as it is; a peer gets a copy whose `np` and `special` are its own (see `rebind`), or, where that would not be
    the peer's best spelling, what `spellings[peer]()` returns. A spelling of None means that the peer has no
    sensible one; `reasons[peer]` says why; beside a spelling it says which one it is.
    """

    name: str
    group: str
    fn: Callable[..., Any]
    make_args: Callable[[], tuple[Any, ...]]
    argnums: int | tuple[int, ...] = 0
    #: more arguments beside `make_args`: one timed call then goes through all of them in turn
    more_args: Callable[[], list[tuple[Any, ...]]] | None = None
    tolerance: float = 1e-6
    #: (value, gradients) in plain NumPy, derived by hand: the reference of the cross-check and the "numpy" peer.
    hand_gradient: Callable[..., Any] | None = None
    #: `fn` to full precision, where it is an approximation itself: what the derivation by hand is held against
    exact: Callable[..., Any] | None = None
    #: makes the hand-written numba kernel, (value, gradients) from the same arguments: the limit.
    limit: Maker | None = None
    spellings: Mapping[str, Maker | None] = field(default_factory=dict)
    #: where a row is another derivative than value and gradient: how each peer that has it prepares its call, and the
    #: reference, which has no derivation by hand
    prepared: Mapping[str, Callable[[Any], Prepared]] = field(default_factory=dict)
    expected: Callable[[], Result] | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def argtuple(self) -> tuple[int, ...]:
        """The positions of the differentiated arguments."""
        return (self.argnums,) if isinstance(self.argnums, int) else self.argnums

    def all_args(self) -> list[tuple[Any, ...]]:
        """What one timed call goes through: one set of arguments, for most."""
        return [self.make_args(), *(self.more_args() if self.more_args else ())]


def rebind(fn: Callable[..., Any], **names: Any) -> Callable[..., Any]:
    """A copy of `fn` (and of the helpers from its module that it reaches) in which globals have other values.

    ``rebind(loss, np=jax.numpy)`` is `loss` as it would read with ``import jax.numpy as np``.
    """
    assert isinstance(fn, types.FunctionType)
    scope: dict[str, Any] = dict(fn.__globals__)
    scope.update({name: value for name, value in names.items() if name in scope})
    for name, value in fn.__globals__.items():
        if isinstance(value, types.FunctionType) and value.__globals__ is fn.__globals__:
            scope[name] = types.FunctionType(value.__code__, scope, name, value.__defaults__, value.__closure__)
    return types.FunctionType(fn.__code__, scope, fn.__name__, fn.__defaults__, fn.__closure__)


def leaves(tree: Any) -> list[Any]:
    """The leaves of nested dicts (by sorted key), lists and tuples, in one order for every library."""
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    if isinstance(tree, list | tuple):
        return [leaf for item in tree for leaf in leaves(item)]
    return [tree]


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same tree with `function` applied to each leaf."""
    if isinstance(tree, dict):
        return {key: map_leaves(function, tree[key]) for key in sorted(tree)}
    if isinstance(tree, list | tuple):
        return type(tree)(map_leaves(function, item) for item in tree)
    return function(tree)
