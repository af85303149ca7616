"""Arguments that are one object: ``x is y`` in a recorded function.

Where a function asks (``tracer/bytecode/identity.py``), arguments that are one object are one traced array, and which
are is part of the call's key.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...tracer.ir.errors import DifferentiationError, UnsupportedError
from ..state.values import partition
from .call_key import DATA, FLOAT, Call
from .differentiable import fields_of


def first_of_each(call: Call, wrt: Sequence[int], names: Sequence[str]) -> dict[int, int]:
    """For each leaf that is data, the first leaf that is the same object; an error if there is another one, and a
    gradient with respect to one of them is wanted.  Floats that are attributes of plain objects are values, each one
    its own: `body is other` is asked of the objects, and two masses that are one constant of the code mean nothing."""
    data = [k for k, kind in enumerate(call.kinds) if kind in DATA]
    found = {k: data[first] for k, first in zip(data, partition(call.data), strict=True)}
    in_object = fields_of(call.tree)
    alone = {k for k in data if call.kinds[k] == FLOAT and in_object[k] is not None}
    found = {k: k if k in alone or first in alone else first for k, first in found.items()}
    for k in wrt:
        others = [j for j in data if found[j] == found[k] and j != k and call.repeated.get(j) != k]
        if others:
            raise DifferentiationError.here(
                f"`{names[k]}` and `{names[others[0]]}` are the same object, and the function may ask whether they "
                "are (`is`): there it has no derivative with respect to one of them alone; pass a copy"
            )
    return found


def captured_refusal(name: str) -> UnsupportedError:
    """The error for an argument that is also read from outside, where Python runs in each call."""
    return UnsupportedError.here(
        f"an argument is the array `{name}`, which the function also reads from outside, and it may ask whether "
        "they are the same (`is`): pass a copy"
    )


def refuse_floats(call: Call, compared: dict[str, float], names: Sequence[str]) -> None:
    """An error where an argument is one of the floats that the function may ask for by identity."""
    for name, known in compared.items():
        for k, leaf in enumerate(call.leaves):
            if leaf is known and name not in names:  # (a default is none where the argument is given)
                raise UnsupportedError.here(
                    f"`{names[k]}` is the very object `{name}`, and the function may ask whether it is (`is`), "
                    f"which a traced number can't be: compare by `==`, or by np.isnan, or pass float(str({name}))"
                )
