"""Traps: an exception of the user's comes back as it was raised: its attributes, notes, arguments, what is behind it,
and each line of its traceback once."""

from __future__ import annotations

import functools
import gc
import traceback

import numpy as np
import pytest

import tracegrad
from tracegrad import autograd, compile_grad

pytestmark = pytest.mark.usefixtures("fresh_kernels")


class BadError(Exception):
    def __init__(self, *args, code=3):
        super().__init__(*args)
        self.code = code


class SlottedError(Exception):
    __slots__ = ("value",)


KEPT = BadError("kept", code=9)


def helper(x):
    raise BadError("no", 1)


def simple(x):
    raise BadError("no")


def within(x):
    return helper(x * 2)


def chained(x):
    try:
        return {}["a"]
    except KeyError as error:
        raise BadError("chained") from error


def in_context(x):
    try:
        return {}["a"]
    except KeyError:
        raise BadError("context")  # noqa: B904


def from_none(x):
    try:
        return {}["a"]
    except KeyError:
        raise BadError("alone") from None


def with_a_note(x):
    error = BadError("noted")
    error.add_note("mine")
    raise error


def kept(x):
    raise KEPT


def of_python(x):
    return 1 / 0


def of_an_array(x):
    return np.array(["a", "b", "c"]).reshape(2, 2)


def in_a_group(x):
    raise ExceptionGroup("group", [ValueError(1), BadError("inner")])


def again(x):
    try:
        return helper(x)
    except BadError:
        raise


def again_by_name(x):
    try:
        return helper(x)
    except BadError as error:
        raise error


def in_a_generator(x):
    return sum(helper(v) for v in range(3))


def with_slots(x):
    error = SlottedError("slots")
    error.value = 1
    raise error


def deeper(x, n=3):
    return deeper(x, n - 1) if n else helper(x)


inner = compile_grad(simple)


def of_a_compiled_function(x):
    return inner(x)


def picture(error, depth=0):
    if error is None or depth > 4:
        return None
    lines = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__) if f.filename == __file__]
    own = [line for line in lines if line[0] not in ("raised_by", "<lambda>", "test_as_it_was_raised")]
    behind = [picture(one, depth + 1) for one in (error.__cause__, error.__context__)]
    notes = getattr(error, "__notes__", None)
    return type(error), repr(error.args), vars(error).copy(), notes, own, behind, error.__suppress_context__


def raised_by(call):
    try:
        call()
    except Exception as error:
        found = picture(error)
        error.__traceback__ = error.__context__ = None
        return found
    return None


FUNCTIONS = [
    simple, within, chained, in_context, from_none, with_a_note, kept, of_python, of_an_array, in_a_group, again,
    again_by_name, in_a_generator, with_slots, deeper, of_a_compiled_function,
]  # fmt: skip
WAYS = {
    "value": lambda f: lambda: f(np.ones(2)),
    "value_and_grad": lambda f: lambda: f.value_and_grad(np.ones(2)),
    "grad": lambda f: lambda: autograd.grad(f.__wrapped__)(np.ones(2)),
    "jacobian": lambda f: lambda: autograd.jacobian(f.__wrapped__)(np.ones(2)),
    "vmap": lambda f: lambda: autograd.vmap(f.__wrapped__)(np.ones((2, 2))),
    "step": lambda f: functools.partial(tracegrad.compile(f.__wrapped__), tracegrad.ones(2)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_it_was_raised(function, way):
    call = WAYS[way](compile_grad(function))
    expected = raised_by(lambda: function(np.ones(2)))
    for _ in range(4):
        assert raised_by(call) == expected


def of_zeros(x):
    return np.zeros(3).reshape(2, 2)


@pytest.mark.parametrize("way", WAYS)
def test_of_an_array_that_holds_traced_values(way):
    """Its error is NumPy's, too, by its class and words."""
    call, expected = WAYS[way](compile_grad(of_zeros)), raised_by(lambda: of_zeros(np.ones(2)))
    for _ in range(4):
        kind, text, _, *rest = raised_by(call)
        words = expected[1].strip("(',)").replace(" ", "")
        assert issubclass(kind, expected[0]) and words in text.replace(" ", "")
        assert rest == list(expected[3:])


PLAIN_ARRAYS = """
import types
A, M = np.zeros(3), np.ones((2, 3))
s = types.SimpleNamespace(own=np.ones(3))
class Caller:
    def __call__(self, x):
        A[:] = s.own
        {}
        return A
f = Caller()
"""


@pytest.mark.parametrize("store", ["M[0, 1] = np.sum(x)", "M[0] = x", "M[:] = np.sum(x)", "A[0] = x[0]"])
def test_a_refusal_in_numpys_code_is_what_the_user_gets(store):
    """NumPy says of it what it says of each object that is no number."""
    space = {"np": np}
    exec(PLAIN_ARRAYS.format(store), space)
    with pytest.raises(tracegrad.TracegradError) as caught:
        compile_grad(space["f"])(np.ones(3))
    assert caught.value.__cause__ is None or not type(caught.value.__cause__).__module__.startswith("tracegrad.")


def test_an_exception_keeps_no_frame_once_it_is_dropped():
    """A generator that the frame has begun comes to its end then, as in plain Python."""
    ended = []

    def begun():
        try:
            yield 1.0
        finally:
            ended.append(True)

    def f(x, fails):
        values = begun()
        scale = next(values)
        if fails:
            raise BadError("no")
        return np.sum(x) * scale

    compiled = compile_grad(f)
    gc.disable()
    try:
        for count, fails in enumerate((False, True, True, False, True), 1):
            try:
                compiled(np.ones(3), fails)
            except BadError:
                assert fails
            assert len(ended) == count
    finally:
        gc.enable()
