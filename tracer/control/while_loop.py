"""``while_loop``, a loop whose trip count depends on its values, with JAX's argument order.

While a function is recorded it is one node of the program; otherwise it is a plain Python loop over NumPy arrays.  The
value needs nothing of earlier steps, so the trip count is unlimited.  The residuals of the reverse mode need a
capacity, which is found when the derivative is taken (``codegen/derive/capacity.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..ops.control import UNLIMITED
from .loop_recording import LoopRecording
from .trees import array_recorder, check_truth, copied

Carry = TypeVar("Carry")


def while_loop(cond_fun: Callable[[Carry], Any], body_fun: Callable[[Carry], Carry], init: Carry) -> Carry:
    """The carry after ``while cond_fun(carry): carry = body_fun(carry)``.

    The carry is an array, a number or a tree of them; it keeps its structure, shapes and dtypes.  *cond_fun* gives one
    bool.  Gradients flow through all steps that were taken.
    """
    recorder = array_recorder(init)
    if recorder is not None:
        return LoopRecording(recorder, "while_loop", body_fun, init, UNLIMITED, False).run_while(cond_fun)
    carry = copied(init)
    while True:
        go_on = cond_fun(carry)
        check_truth(go_on, "the condition of while_loop", cond_fun)
        if not go_on:
            return carry
        carry = body_fun(carry)
