"""``vectorize``: a function of elements, or of the core axes that a signature names, for arrays with any axes in front.

NumPy's ``np.vectorize`` with its signatures and broadcasting, as one ``vmap`` for each axis that is looped over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...tracer.ir.aval import broadcast_shapes
from ...tracer.ir.errors import ShapeError, UnsupportedError, unrecordable
from ...tracer.numpy_api.hooks import BATCHED
from ...tracer.ops.complex import by_lane
from ...tracer.ops.elementwise import cast
from ...tracer.ops.shape import reshape
from ...tracer.record.array import to_atom, wrap_array
from ...tracer.record.recorder import Recorder, require_recorder
from ..record.differentiable import leaf_names, name_of
from .inner_run import call_of
from .transform import TransformRule, rule_of, transformed
from .vmap import Vmap, row_axes

Core = tuple[str, ...]  # the names of the core axes of one array

_NAMES = r"\((?:\w+(?:,\w+)*)?\)"
_SIGNATURE = re.compile(f"(?:{_NAMES}(?:,{_NAMES})*)?->{_NAMES}(?:,{_NAMES})*")


def parse_signature(signature: str) -> tuple[list[Core], list[Core]]:
    """The core axes of the arguments and of the results: ``"(m,n),(n)->(m)"``.  ValueError where it is none."""
    text = re.sub(r"\s+", "", signature)
    if not _SIGNATURE.fullmatch(text):
        raise ValueError(f"not a valid signature: {signature!r}; write for instance '(m,n),(n)->(m)'")
    given, results = [[tuple(re.findall(r"\w+", one)) for one in re.findall(_NAMES, side)] for side in text.split("->")]
    return given, results


@dataclass(frozen=True, eq=False)
class Vectorize(TransformRule):
    """The function for all elements at once.  *excluded*: arguments by position or name that are passed on as they
    are; *signature*: of the core axes; *otypes*: dtypes of the results."""

    excluded: frozenset[int | str]
    signature: str | None
    otypes: tuple[str, ...] | None
    name = "vectorize"

    def __call__(
        self, fn: Callable[..., Any], recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        call = call_of("vectorize", fn, args, {}, ())
        named = leaf_names(fn, call)
        names = [named[call.owners.index(k)] if k in call.owners else f"argument {k}" for k in range(len(args))]
        places: list[int | str] = [k for k in range(len(args)) if k not in self.excluded]
        places += [name for name in kwargs if name not in self.excluded]
        arrays = [wrap_array(to_atom(args[k] if isinstance(k, int) else kwargs[k])) for k in places]
        shown = [names[k] if isinstance(k, int) else k for k in places]
        cores, results = self._cores(fn, len(arrays))
        sizes: dict[str, int] = {}
        for array, core, name in zip(arrays, cores, shown, strict=True):
            _fit(f"the argument `{name}`", array.shape[max(array.ndim - len(core), 0) :], core, sizes)
        fronts = [array.shape[: array.ndim - len(core)] for array, core in zip(arrays, cores, strict=True)]
        loops = broadcast_shapes(*fronts, what="the axes that vectorize loops over")

        def element(*values: Any) -> tuple[Any, ...]:
            given, named = list(args), dict(kwargs)
            for place, value in zip(places, values, strict=True):
                if isinstance(place, int):
                    given[place] = value
                else:
                    named[place] = value
            out = fn(*given, **named)
            found = out if isinstance(out, tuple) else (out,)
            if results is not None and len(found) != len(results):
                raise ShapeError.here(
                    f"{name_of(fn)} returned {len(found)} results, and the signature {self.signature!r} has "
                    f"{len(results)}"
                )
            wrapped = tuple([wrap_array(to_atom(x)) for x in found])
            for k, x in enumerate(wrapped):
                core = () if results is None else results[k]
                _fit(f"result {k} of {name_of(fn)}", x.shape, core, sizes, results is not None)
            several.append(isinstance(out, tuple) and (results is None or len(results) != 1))
            return wrapped

        several: list[bool] = []
        function: Callable[..., Any] = element
        looped = [axis for axis, size in enumerate(loops) if size != 1]
        fitted = [_without_ones(x, front, loops) for x, front in zip(arrays, fronts, strict=True)]
        for axis in reversed(looped):  # the innermost first
            mapped = [len(front) - len(loops) + axis for front in fronts]
            axes = [0 if at >= 0 and front[at] != 1 else None for at, front in zip(mapped, fronts, strict=True)]
            function = _mapped(function, axes, recorder)
        outs = [self._shaped(x, loops, len(looped), k) for k, x in enumerate(function(*fitted))]
        return tuple(outs) if several[0] else outs[0]

    def _cores(self, fn: Callable[..., Any], count: int) -> tuple[Sequence[Core], Sequence[Core] | None]:
        if self.signature is None:
            return [()] * count, None
        given, results = parse_signature(self.signature)
        if len(given) != count:
            raise ShapeError.here(
                f"the signature {self.signature!r} is of {len(given)} arguments, but {name_of(fn)} was given {count}"
            )
        return given, results

    def _shaped(self, x: Any, loops: Sequence[int], looped: int, k: int) -> Any:
        shape = (*loops, *x.shape[looped:])
        atom = x.atom if x.shape == shape else by_lane(reshape, x.atom, shape)
        if self.otypes is not None:
            if k >= len(self.otypes):
                raise UnsupportedError.here(f"otypes has {len(self.otypes)} dtypes, but there are more results")
            atom = cast(atom, np.dtype(self.otypes[k]))
        return wrap_array(atom)


def _mapped(function: Callable[..., Any], axes: Sequence[int | None], recorder: Recorder) -> Callable[..., Any]:
    rule = Vmap(row_axes(tuple(axes), "in_axes"), row_axes(0, "out_axes"))
    return lambda *values: rule(function, recorder, values, {})


def _without_ones(x: Any, front: Sequence[int], loops: Sequence[int]) -> Any:
    """*x* without the axes of size 1 in *front* that others loop over, or nobody."""
    kept = [size for size in front if size != 1]
    shape = (*kept, *x.shape[len(front) :])
    return x if x.shape == shape else wrap_array(by_lane(reshape, x.atom, shape))


def _fit(what: str, shape: Sequence[int], core: Core, sizes: dict[str, int], known: bool = True) -> None:
    """Check the core axes of one array against the *sizes* that are known of their names; *known*: by a signature."""
    if len(shape) != len(core):
        raise ShapeError.here(
            f"the signature gives {what} the core axes ({','.join(core)}), but it has {len(shape)} axes of its own"
            if known
            else f"{what} has shape {tuple(shape)}, but without a signature it has to be a number: for a function of "
            "vectors that returns a vector write signature='(n)->(n)'"
        )
    for name, size in zip(core, shape, strict=True):
        if sizes.setdefault(name, size) != size:
            raise ShapeError.here(
                f"the core axis {name} of the signature has {sizes[name]} elements in what comes before, and {size} in "
                f"{what}, whose core shape is {tuple(shape)}"
            )


def _batched(func: Callable[..., Any], args: Sequence[Any], otypes: Any, signature: str | None) -> Any:
    """``np.vectorize`` within a recording; None where Python asks for the value of an element, and all is as before."""
    recorder = require_recorder("np.vectorize")
    nodes, guards = len(recorder.nodes), len(recorder.guards)
    clean = unrecordable.last() is None

    def element(*values: Any) -> Any:
        return func(*[x.number() if x.aval.is_inexact and not x.shape else x for x in values])

    types = None if otypes is None else tuple([np.dtype(x).str for x in otypes])
    try:
        return Vectorize(frozenset(), signature, types)(element, recorder, tuple(args), {})
    except UnsupportedError as error:
        if clean:
            unrecordable.clear()
        else:
            unrecordable.discard(error)
        recorder.withdraw(recorder.guards[guards:])
        recorder.forget(nodes)
        return None


BATCHED.append(_batched)


def vectorize(
    pyfunc: Callable[..., Any] | None = None, otypes: str | Sequence[Any] | None = None, doc: str | None = None,
    excluded: Collection[int | str] | None = None, cache: bool = False, signature: str | None = None,
) -> Any:  # fmt: skip
    """``np.vectorize`` as a compiled function: *pyfunc*, a function of numbers, for arrays, which are broadcast.

    :param otypes: the dtypes of the results, as a string of type codes or a list; by default those of *pyfunc*.
    :param excluded: positions and names of arguments that are passed on as they are.
    :param signature: ``"(m,n),(n)->(m)"``: *pyfunc* is a function of arrays with these last axes; axes of one name have
        one size.
    :param doc: the docstring; *cache* is accepted as NumPy has it, and is of no effect.
    :returns: a compiled function; without *pyfunc* a decorator.
    :raises ShapeError: where core axes, or the axes that are looped over, do not fit.
    :raises UnsupportedError: where Python asks for a value of one element, as an ``if`` does.
    """
    if pyfunc is None:
        return lambda fn: vectorize(fn, otypes, doc, excluded, cache, signature)
    if signature is not None:
        parse_signature(signature)
    types = None if otypes is None else tuple([np.dtype(x).str for x in otypes])
    found = transformed(rule_of(Vectorize, frozenset(excluded or ()), signature, types), pyfunc)
    if doc is not None:
        found.__doc__ = doc
    return found
