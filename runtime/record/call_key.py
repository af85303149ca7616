"""Calls: flattened arguments, and the key under which recordings are cached.

An argument tree is flattened with optree (dicts, lists, tuples, namedtuples, registered dataclasses).  A leaf is data
(a float array, a Python float: traced), a value (int, bool, str: part of the key), or an object (``self``, settings,
a function: outside state, guarded by value).

Data on a CUDA device is unwrapped here to CuPy arrays over the same memory; ``Call.device`` tells of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ...tracer.ir.aval import COMPLEX, HALF, SUPPORTED, check_dtype
from ...tracer.ir.errors import DeviceError, UnsupportedError
from ...tracer.ir.settings import AUTOCAST
from ...tracer.ir.trees import NAMESPACE, OBJECTS, tree_unflatten
from ...tracer.record.array import STAND_INS, TracedArray
from ...tracer.record.float_errors import raising
from ...tracer.record.integers import TracedInt
from ...tracer.record.made_arrays import MadeArray
from ..config import default_dtype
from ..cuda.arrays import as_device, on_device
from ..cuda.availability import require_cuda
from ..launch.comparisons import distinct
from ..state.data_objects import plain_form
from ..state.libraries import is_moment, leaf_setting
from ..state.values import is_leaf, partition, token
from ..tensor_library import TENSORS
from .arguments import Arguments, positional_names
from .complex_data import lanes_of
from .plain_objects import is_plain, is_registered, objects_in, take_apart
from .trees import flatten_tree, mutable_containers, repeated_leaves

ARRAY, FLOAT, SCALAR, VALUE, OBJECT, TRACED = "array", "float", "scalar", "value", "object", "traced"
INTEGER = "int"  # one that is a number of the run; others are of kind VALUE
COMPLEX_DATA = "complex"  # an array or a number
TENSOR = "tensor"
CONVERTED = "converted"  # an array in a form that no kernel takes
DEVICE = "device"  # data on a CUDA device; an array once it is unwrapped
DATA = frozenset((ARRAY, FLOAT, SCALAR, INTEGER, COMPLEX_DATA))


@dataclass(frozen=True, slots=True)
class OnDevice:
    """Flags of a call on a CUDA device: *stays*, some argument lies there, so the results stay; *linked*, some
    argument is a tensor that requires gradients."""

    stays: bool
    linked: bool


@dataclass(slots=True)
class Call:
    """One call's arguments.  ``tree`` is the structure of ``arguments``, which are (args, kwargs)."""

    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    leaves: list[Any]
    tree: Any
    kinds: tuple[str, ...]
    key: tuple[Any, ...]
    device: OnDevice | None = None
    containers: tuple[Any, ...] = ()  # lists, dicts, registered objects among the arguments, each where it occurs
    by_value: Call | None = None  # the same call without ints as numbers of the run, if it has any
    # For each leaf of a plain object that occurs a second time in its argument, the leaf where it occurs first.
    repeated: Mapping[int, int] = field(default_factory=dict)
    # Leaves as the caller has given them, where `leaves` has them in another form.
    given: Mapping[int, Any] = field(default_factory=dict)

    @property
    def shares(self) -> bool:
        """Whether one of the containers occurs twice."""
        return not distinct(*self.containers)

    @property
    def shares_only_objects(self) -> bool:
        """Whether those that occur twice, if there are any, are plain objects."""
        return distinct(*[c for c in self.containers if not is_registered(type(c))])

    @property
    def plain_objects(self) -> list[Any]:
        """The plain objects that are taken apart, each where it occurs."""
        return [c for c in self.containers if is_registered(type(c))] if self.tree.namespace == OBJECTS else []

    @property
    def leaves_as_given(self) -> list[Any]:
        """The leaves, each the very object that the caller has given."""
        return [unwrap(self.given.get(k, leaf)) for k, leaf in enumerate(self.leaves)]

    @property
    def objects(self) -> tuple[Any, ...]:
        return tuple([unwrap(x) for x, k in zip(self.leaves, self.kinds, strict=True) if k == OBJECT])

    @property
    def data(self) -> list[Any]:
        """The leaves that are data, ints as floats."""
        return [float(x) if k == INTEGER else x for x, k in zip(self.leaves, self.kinds, strict=True) if k in DATA]

    @property
    def operands(self) -> list[Any]:
        """The leaves that are data, as a kernel takes them."""
        kinds = [k for k in self.kinds if k in DATA]
        return [lanes_of(x) if k == COMPLEX_DATA else x for x, k in zip(self.data, kinds, strict=True)]

    def with_numbers(self, limits: Mapping[int, int]) -> Call:
        """This call with the ints of *limits*, by leaf, as numbers of the run."""
        kinds = [INTEGER if k in limits else kind for k, kind in enumerate(self.kinds)]
        parts = [(INTEGER, limits[k]) if k in limits else part for k, part in enumerate(self.key[1])]
        key = (self.key[0], tuple(parts), *self.key[2:])
        return replace(self, kinds=tuple(kinds), key=key, by_value=self)

    @property
    def positional(self) -> Sequence[Any]:
        """The structure of each positional argument."""
        return _positional(self.tree)

    @property
    def owners(self) -> Sequence[int]:
        """For each leaf the positional argument that it belongs to (-1: a keyword argument)."""
        return _owners(self.tree)

    def rebuild(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(args, kwargs) over other leaves."""
        args, kwargs = tree_unflatten(self.tree, [unwrap(x) for x in leaves])
        return args, kwargs

    def arguments_over(
        self, leaves: Sequence[Any], names: Sequence[str] = (), differentiated: Collection[int] = ()
    ) -> Arguments:
        """The arguments of a run over other leaves, in containers that keep their identity."""
        return Arguments(self.arguments, self.tree, [unwrap(x) for x in leaves], names, differentiated)


@lru_cache(maxsize=1024)
def _positional(tree: Any) -> tuple[Any, ...]:
    return tuple(tree.child(0).children())


@lru_cache(maxsize=1024)
def _owners(tree: Any) -> tuple[int, ...]:
    owners = [position for position, spec in enumerate(_positional(tree)) for _ in range(spec.num_leaves)]
    return (*owners, *[-1] * (tree.num_leaves - len(owners)))


class Static:
    """A static argument: one leaf whatever it is, compared by value."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value


def unwrap(x: Any) -> Any:
    return x.value if type(x) is Static else x


def flatten(
    args: tuple[Any, ...], kwargs: dict[str, Any], static: frozenset[int | str] = frozenset(), target: str = "cpu",
    opaque: Collection[int] = (), fn: Callable[..., Any] | None = None, differentiated: Sequence[int] = (),
) -> Call:  # fmt: skip
    """Flatten and classify the arguments of a call that is to run on *target*: "cpu", "cuda", or "auto", where the
    arguments are; "step" is "auto" that takes tensors as they are, and other arrays on a device not at all.
    Containers whose ids are in *opaque* are objects; *fn* is named in errors.  Plain objects in the *differentiated*
    positional arguments are taken apart."""
    arguments = args, kwargs
    if static:
        args = tuple([Static(a) if i in static else a for i, a in enumerate(args)])
        kwargs = {k: Static(v) if k in static else v for k, v in kwargs.items()}
    try:
        leaves, tree = flatten_tree((args, kwargs), opaque)
        if differentiated and any(map(is_plain, set(map(type, leaves)))):
            leaves, tree = _with_objects(args, kwargs, leaves, tree, opaque, differentiated)
    except RecursionError:
        raise _nested_too_deeply(arguments, positional_names(fn), differentiated) from None
    if MadeArray in map(type, leaves):  # of a function that is being recorded
        leaves = [leaf.plain() if type(leaf) is MadeArray else leaf for leaf in leaves]
    containers = mutable_containers(tree, (args, kwargs))
    kinds, parts = [], []
    as_given = list(leaves)
    for k, leaf in enumerate(leaves):
        kind, part = classify(leaf)
        if kind is CONVERTED:
            leaves[k] = plain_form(leaf)
            kind, part = classify(leaves[k])
        kinds.append(kind)
        parts.append(part)
    device = None
    if target == "step":
        _keep_tensors(leaves, kinds, parts)
    elif target == "cuda" or DEVICE in kinds:
        device = _unwrap_device(leaves, kinds, parts, target)
    key = (tree, tuple(parts), default_dtype.dtype.char, device, AUTOCAST.dtype, raising())
    given = {k: leaf for k, leaf in enumerate(as_given) if leaf is not leaves[k]}
    call = Call(arguments, leaves, tree, tuple(kinds), key, device, containers, given=given)
    if call.shares:
        call.key = (*key, partition(containers))
        call.repeated = _repeated(call)
    return call


def _repeated(call: Call) -> dict[int, int]:
    found: dict[int, int] = {}
    start = 0
    for spec, value in zip(call.positional, call.arguments[0], strict=True):
        within = repeated_leaves(spec, value) if spec.namespace == OBJECTS else {}
        found |= {start + k: start + first for k, first in within.items()}
        start += spec.num_leaves
    return found


def _with_objects(
    args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any], tree: Any, opaque: Collection[int],
    differentiated: Sequence[int],
) -> tuple[list[Any], Any]:  # fmt: skip
    """(leaves, structure) where plain objects in these positional arguments are taken apart."""
    apart = tuple([args[p] for p in differentiated if -len(args) <= p < len(args)])
    found = set(map(id, objects_in(apart)))
    if not found:
        return leaves, tree
    opaque = {*opaque, *[id(x) for x in objects_in(apart) if on_device(x)]}  # arrays, by an attribute of theirs
    take_apart(apart, opaque)
    others = set(map(id, objects_in((args, kwargs)))) - found
    return flatten_tree((args, kwargs), others | opaque, OBJECTS)


def _keep_tensors(leaves: list[Any], kinds: list[str], parts: list[Any]) -> None:
    """Keep tensors on a device as tensors, and other device arrays of their kind."""
    for k, kind in enumerate(kinds):
        leaf = leaves[k]
        if kind == DEVICE and isinstance(leaf, TENSORS.types):
            array = as_device(TENSORS.data(leaf))
            kinds[k] = TENSOR
            parts[k] = (DEVICE, array.dtype.char, array.shape, TENSORS.requires_grad(leaf), array.flags.c_contiguous)


def _unwrap_device(leaves: list[Any], kinds: list[str], parts: list[Any], target: str) -> OnDevice | None:
    """Put CuPy arrays in place of data on a device."""
    places = [k for k, kind in enumerate(kinds) if kind == DEVICE]
    if target == "cpu":
        name = type(leaves[places[0]]).__name__
        raise DeviceError.here(
            f'an argument of type {name} is on a CUDA device, but the function was compiled with target="cpu": '
            'use target="auto" or target="cuda", or copy it to the host'
        )
    if TRACED in kinds:  # becomes part of the recording around it
        return None
    if target == "cuda":
        require_cuda('target="cuda"')
    linked = False
    for k in places:
        leaf = leaves[k]
        is_tensor = isinstance(leaf, TENSORS.types)
        linked |= is_tensor and TENSORS.requires_grad(leaf)
        array = as_device(TENSORS.data(leaf) if is_tensor else leaf)
        leaves[k], kinds[k] = array, COMPLEX_DATA if array.dtype.kind == "c" else ARRAY
        parts[k] = (DEVICE, array.dtype.char, array.shape, array.ndim <= 1 or array.flags.c_contiguous)
    return OnDevice(bool(places), linked)


def _nested_too_deeply(
    arguments: tuple[tuple[Any, ...], dict[str, Any]], names: Sequence[str], differentiated: Sequence[int]
) -> UnsupportedError:
    """The error for arguments that optree can't flatten, with the name of the first such."""
    args, kwargs = arguments
    named = [(names[k] if k < len(names) else f"argument {k}", value) for k, value in enumerate(args)]
    for name, value in [*named, *kwargs.items()]:
        try:
            flatten_tree(value, namespace=OBJECTS if differentiated else NAMESPACE)
        except RecursionError:
            return UnsupportedError.here(
                f"the argument `{name}` contains itself, or is nested too deeply to be taken apart; pass its parts "
                "as arguments of their own, or the whole in an attribute of an object"
            )
    raise AssertionError("an argument that is nested too deeply is not any more")


_HALF_SCALARS = {d.type for d in HALF}


def classify(leaf: Any) -> tuple[str, Any]:
    """(kind of the leaf, its part of the call key)."""
    kind = type(leaf)
    if kind is np.ndarray:
        if leaf.dtype not in SUPPORTED or not leaf.dtype.isnative:
            check_dtype(leaf.dtype.newbyteorder("="), "an array argument")
            return CONVERTED, None
        # the layout counts: whether a reshape is a view depends on it
        form = COMPLEX_DATA if leaf.dtype.kind == "c" else ARRAY
        return form, (leaf.dtype.char, leaf.shape, leaf.ndim <= 1 or leaf.flags.c_contiguous)
    if kind is float:
        return FLOAT, float
    if kind is complex or (issubclass(kind, np.complexfloating) and leaf.dtype in COMPLEX):
        return COMPLEX_DATA, kind
    if kind is TracedArray or kind is TracedInt or kind in STAND_INS:
        return TRACED, None
    if issubclass(kind, TENSORS.types):
        return _of_tensor(leaf)
    if kind is Static:
        return _of_static(leaf.value)
    if kind in _HALF_SCALARS:
        raise UnsupportedError.here(
            f"a scalar argument of {np.dtype(kind)}: pass a number, float(x), or an array without axes"
        )
    if issubclass(kind, np.floating) and kind is leaf.dtype.type:
        check_dtype(leaf.dtype, "a scalar argument")
        return SCALAR, leaf.dtype.char
    return _of_value(leaf) if is_leaf(leaf) else _of_object(leaf)


def _of_tensor(leaf: Any) -> tuple[str, Any]:
    """The kind and the part of the key of a tensor, by where its data is."""
    data = TENSORS.data(leaf)
    if type(data) is TracedArray:
        return TENSOR, None
    if type(data) is not np.ndarray:
        return DEVICE, None
    return TENSOR, (data.dtype.char, data.shape, TENSORS.requires_grad(leaf), data.flags.c_contiguous)


def _of_static(value: Any) -> tuple[str, Any]:
    """The kind and the part of the key of a static argument."""
    if isinstance(value, np.ndarray | TracedArray):
        raise UnsupportedError.here(
            "a static argument must not be an array: its contents would have to be compared in each call; "
            "take it out of static_argnames"
        )
    return (VALUE, token(value)) if is_leaf(value) and not _hangs_on_more(value) else (OBJECT, Static)


def _of_value(leaf: Any) -> tuple[str, Any]:
    """The kind and the part of the key of an immutable value: an int, a bool, a str, ..."""
    kind = type(leaf)
    if issubclass(kind, np.generic):
        check_dtype(leaf.dtype, "a scalar argument")
    return (OBJECT, kind) if _hangs_on_more(leaf) else (VALUE, token(leaf))


def _hangs_on_more(value: Any) -> bool:
    """Whether what is computed with *value* hangs on more than the value."""
    return leaf_setting(value) is not None or is_moment(value)


def _of_object(leaf: Any) -> tuple[str, Any]:
    """The kind and the part of the key of an object, which may be an array in another form or on a device."""
    kind = type(leaf)
    if kind is np.memmap:
        return CONVERTED, None
    if issubclass(kind, np.ndarray):
        raise UnsupportedError.here(f"a {kind.__name__} argument is not supported; pass a plain array: np.asarray(x)")
    return (DEVICE, None) if on_device(leaf) else (OBJECT, kind)
