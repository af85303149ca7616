"""What is recorded when: ``no_grad`` and its relatives as contexts, decorators and calls, nested, in generators, where
exceptions pass, in threads.  The log of each test is what PyTorch gives (bar the reuse of one instance)."""

from __future__ import annotations

import contextlib
import gc
import inspect
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import tracegrad as torch

ON, OFF, INFERENCE, BOTH = (True, False), (False, False), (False, True), (True, True)


def now() -> tuple[bool, bool]:
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled()


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    assert now() == ON
    yield
    left = now()
    torch.set_grad_enabled(True)
    assert left == ON


MODES = {
    "no_grad": (torch.no_grad, OFF),
    "enable_grad": (torch.enable_grad, ON),
    "set_grad_enabled": (lambda: torch.set_grad_enabled(False), OFF),
    "inference_mode": (torch.inference_mode, INFERENCE),
    "inference_mode(False)": (lambda: torch.inference_mode(False), ON),
}
EACH = pytest.mark.parametrize("name", MODES)


# ---- contexts ----------------------------------------------------------------------------------------------------


@EACH
def test_as_a_context(name):
    mode, inside = MODES[name]
    with mode() as given:
        assert now() == inside
    assert now() == ON and given is None


@EACH
def test_exceptions_pass_and_the_mode_is_undone(name):
    mode, _ = MODES[name]
    with pytest.raises(ValueError, match="mine"), mode():
        raise ValueError("mine")
    assert now() == ON

    @mode()
    def fails() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert now() == ON


def test_nested():
    log = []
    with torch.no_grad():
        with torch.enable_grad():
            log.append(now())
            with torch.no_grad():
                log.append(now())
            log.append(now())
        log.append(now())
        with torch.inference_mode(False):
            log.append(now())
        with torch.inference_mode():
            log.append(now())
        log.append(now())
    assert log == [ON, OFF, ON, OFF, ON, INFERENCE, OFF]


def test_within_inference_mode():
    log = []
    with torch.inference_mode():
        with torch.enable_grad():
            log.append(now())
        with torch.no_grad():
            log.append(now())
        with torch.inference_mode(False):
            log.append(now())
        with torch.inference_mode(mode=True):
            log.append(now())
    assert log == [BOTH, INFERENCE, ON, INFERENCE]


def test_one_instance_many_times():
    mode = torch.no_grad()
    with mode:
        with mode:
            assert now() == OFF
        assert now() == OFF
    assert now() == ON
    with mode:
        assert now() == OFF
    assert now() == ON


def test_set_grad_enabled_as_a_call():
    torch.set_grad_enabled(False)
    assert now() == OFF
    torch.set_grad_enabled(mode=True)
    assert now() == ON
    with torch.set_grad_enabled(True):
        torch.set_grad_enabled(False)
        assert now() == OFF
    assert now() == ON
    pending = torch.set_grad_enabled(False)
    assert now() == OFF
    with pending:
        assert now() == OFF
    assert now() == ON


# ---- decorators --------------------------------------------------------------------------------------------------


@EACH
def test_as_a_decorator(name):
    mode, inside = MODES[name]

    @mode()
    def f(a: int, *, b: int = 2) -> Any:
        """What it does."""
        return a + b, now()

    assert now() == ON
    assert f(1) == (3, inside) and f(1, b=5) == (6, inside)
    assert now() == ON
    assert (f.__name__, f.__doc__) == ("f", "What it does.")


@pytest.mark.parametrize("name", ["no_grad", "enable_grad", "inference_mode"])
def test_as_a_bare_decorator(name):
    mode, inside = MODES[name]

    @mode
    def f(a: int) -> Any:
        return a, now()

    with torch.no_grad():
        assert f(1) == (1, inside)
    assert f(1) == (1, inside)


def test_decorated_in_another_mode():
    with torch.no_grad():

        @torch.set_grad_enabled(True)
        def f() -> Any:
            return now()

        assert now() == OFF and f() == ON and now() == OFF
    assert f() == ON

    @torch.set_grad_enabled(False)
    def g() -> Any:
        torch.set_grad_enabled(True)
        return now()

    assert now() == ON and g() == ON and now() == ON


def test_decorated_methods_lambdas_and_recursion():
    class A:
        @torch.no_grad()
        def method(self, y: int) -> Any:
            return y, now()

        @staticmethod
        @torch.no_grad()
        def static() -> Any:
            return now()

        @classmethod
        @torch.no_grad()
        def of_class(cls) -> Any:
            return cls, now()

    assert A().method(3) == (3, OFF) and A.static() == OFF and A.of_class() == (A, OFF)
    assert torch.no_grad()(lambda: now())() == OFF

    @torch.no_grad()
    def recursive(n: int) -> list[Any]:
        return [now(), *(recursive(n - 1) if n else [])]

    assert recursive(2) == [OFF] * 3


# ---- generators --------------------------------------------------------------------------------------------------


def test_a_generator_has_its_mode_only_while_it_runs():
    log: list[Any] = []

    @torch.no_grad()
    def numbers() -> Any:
        log.append(now())
        log.append((yield 1, now()))
        try:
            yield 2, now()
        except ValueError:
            log.append(now())
        torch.set_grad_enabled(True)  # of its own: until the next yield
        log.append(now())
        yield 3, now()
        log.append(now())
        return "done"

    assert inspect.isgeneratorfunction(numbers)
    running = numbers()
    assert log == []
    assert next(running) == (1, OFF) and now() == ON
    assert running.send("sent") == (2, OFF) and now() == ON
    assert running.throw(ValueError()) == (3, ON) and now() == ON
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert stop.value.value == "done"
    assert log == [OFF, "sent", OFF, ON, OFF]


def test_closing_generators():
    log: list[Any] = []

    @torch.no_grad
    def two() -> Any:
        try:
            yield now()
            yield now()
        finally:
            log.append(now())

    running = two()
    assert next(running) == OFF
    running.close()
    assert log == [OFF] and now() == ON
    with pytest.raises(StopIteration):
        next(running)
    assert list(two()) == [OFF, OFF]
    running = two()
    next(running)
    del running
    gc.collect()
    assert log == [OFF] * 3
    two().close()  # never started
    assert log == [OFF] * 3


def test_exceptions_in_generators():
    @torch.no_grad()
    def fails() -> Any:
        yield now()
        raise RuntimeError("from inside")

    running = fails()
    next(running)
    with pytest.raises(RuntimeError, match="from inside"):
        next(running)
    assert now() == ON
    for started in (False, True):
        running = fails()
        if started:
            next(running)
        with pytest.raises(KeyError, match="from outside"):
            running.throw(KeyError("from outside"))
        assert now() == ON

    @torch.no_grad()
    def swallows() -> Any:
        while True:
            with contextlib.suppress(ValueError):
                yield now()

    running = swallows()
    assert [next(running), running.throw(ValueError()), running.throw(ValueError()), next(running)] == [OFF] * 4
    running.close()


def test_generators_that_delegate_end_early_or_cross_modes():
    @torch.no_grad()
    def outer() -> Any:
        got = yield from inner()
        yield got, now()

    def inner() -> Any:
        return (yield now())

    running = outer()
    assert next(running) == OFF and running.send(7) == (7, OFF)

    @torch.no_grad()
    def empty() -> Any:
        return 5
        yield

    with pytest.raises(StopIteration) as stop:
        next(empty())
    assert stop.value.value == 5

    @torch.enable_grad()
    def enabled() -> Any:
        yield now()
        yield now()

    with torch.no_grad():
        running = enabled()
        assert next(running) == ON and now() == OFF
    assert next(running) == ON

    @torch.inference_mode()
    def inferring() -> Any:
        yield now()
        yield now()

    running = inferring()
    assert next(running) == INFERENCE and now() == ON and next(running) == INFERENCE and now() == ON


# ---- threads -----------------------------------------------------------------------------------------------------


def test_threads_have_modes_of_their_own():
    log: list[Any] = []
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        log.append(now())
        with torch.no_grad():
            log.append(now())
            inside.set()
            assert done.wait(10)
        torch.set_grad_enabled(False)  # never undone, and nobody's business

    with torch.inference_mode():
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(10)
        log.append(now())
    log.append(now())
    done.set()
    thread.join()
    log.append(now())
    assert log == [ON, OFF, INFERENCE, ON, ON]


# ---- what tensors are like ---------------------------------------------------------------------------------------


def leaf() -> Any:
    return torch.tensor([1.0, 2.0], requires_grad=True)


def test_tensors_made_without_gradients():
    x = leaf()
    with torch.no_grad():
        y = x * 2
        assert not y.requires_grad and y.grad_fn is None and y.is_leaf
        assert torch.ones(2, requires_grad=True).requires_grad
        x.mul_(2)  # a leaf may be written here
        with torch.enable_grad():
            assert (x * 2).requires_grad
    assert x.tolist() == [2.0, 4.0] and (y * x).requires_grad


def test_backward_within_no_grad():
    x = leaf()
    y = (x * x).sum()
    with torch.no_grad():
        y.backward()
    assert x.grad.tolist() == [2.0, 4.0] and not x.grad.requires_grad


def test_inference_tensors():
    x = leaf()
    with torch.inference_mode():
        a = x * 2
        assert not a.requires_grad and a.is_inference() and torch.ones(2).is_inference()
        a.add_(1)
    assert a.tolist() == [3.0, 5.0] and not x.is_inference()
    with pytest.raises(RuntimeError, match=r"^Inference tensors cannot be saved for backward"):
        a * x
    with pytest.raises(RuntimeError, match=r"^Inplace update to inference tensor outside InferenceMode is not allowed"):
        a.add_(1)
    message = r"^Setting requires_grad=True on inference tensor outside InferenceMode is not allowed"
    with pytest.raises(RuntimeError, match=message):
        a.requires_grad_()
    copy = a.clone()
    assert not copy.is_inference() and (copy * x).requires_grad and not (a + 1).is_inference()
