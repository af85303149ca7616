"""Trees of arrays in compiled loops and branches: flattening, rebuilding, names in errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.aval import Aval
from ..ir.errors import ShapeError
from ..ir.graph import Atom, structural
from ..ir.trees import NAMESPACE, tree_leaves, tree_map
from ..ops.elementwise import F, cast
from ..record.array import TracedArray, outranks, to_atom, wrap, wrap_array
from ..record.recorder import Recorder, current_recorder


def array_recorder(*trees: Any) -> Recorder | None:
    """The recording in progress, if it is one of arrays: eager Tensors go through the loop step by step."""
    recorder, everything = current_recorder(), list[Any](trees)
    leaves = tree_leaves(everything)
    return None if any(outranks(type(leaf)) for leaf in leaves) else recorder


def copied(init: Any) -> Any:
    """*init* as a recording sees it: arrays of its own, which a body may write into, and numbers with a dtype."""

    def own(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return x.copy()
        return np.asarray(x)[()] if isinstance(x, (bool, int, float, complex)) else x

    return tree_map(own, init)


def strong(value: Any) -> Atom:
    """*value* as an atom with a dtype of its own: a Python float is a float64."""
    atom = to_atom(value)
    return cast(atom, atom.aval.dtype)


def as_result(atom: Atom) -> TracedArray:
    return wrap_array(atom) if atom.aval.shape else wrap(atom)


def check_truth(value: Any, what: str, f: Any = None) -> None:
    """Raise ShapeError unless *value* (which *f* returned) is one bool or number."""
    if isinstance(value, (TracedArray, np.ndarray)) and value.shape:
        found = f"{value.dtype}[{','.join(map(str, value.shape))}]: reduce it with np.any(...) or np.all(...)"
    elif value is None or isinstance(value, (str, list, tuple, dict)):
        found = f"{type(value).__name__}: return a comparison of numbers, such as np.sum(x) > 1"
    else:
        return
    given = "is" if f is None else f"{function_name(f)} returned"
    raise ShapeError.here(f"{what} has to be one bool, but {given} {found}")


def truth(value: Any) -> Atom:
    """One bool or number as a 0-d bool, as ``if`` sees it."""
    atom = to_atom(value)
    return atom if atom.aval.dtype.kind == "b" else F.ne(cast(atom, atom.aval.dtype), structural(0, atom.aval.dtype))


# ---- words ---------------------------------------------------------------------------------------------------------


def named(root: str, accessor: Any) -> str:
    """The user's expression for a leaf: ``state['x']``."""
    return f"`{root}{''.join(f'.{p.entry}' if hasattr(p, 'field') else f'[{p.entry!r}]' for p in accessor)}`"


def function_name(f: Any) -> str:
    code = getattr(f, "__code__", None)
    name = getattr(f, "__name__", None) or type(f).__name__
    return name if code is None else f"{name} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"


def shown(aval: Aval) -> str:
    return f"{aval.dtype}[{','.join(str(n) for n in aval.shape)}]"


def structure_text(spec: Any) -> str:
    found = str(spec).removeprefix("PyTreeSpec(")[:-1].removesuffix(f", namespace={NAMESPACE!r}")
    return found.removesuffix(", NoneIsLeaf")


def remedy(before: Aval, after: Aval) -> str:
    if before.shape != after.shape:
        return "its shape has to stay the same; start with an array of the final shape"
    if before.dtype.kind in "iub" and after.is_float:
        return "start with a float, such as 0.0 or np.zeros(...)"
    return f"its dtype has to stay the same; convert it with .astype(np.{before.dtype})"
