"""Interrupts: exceptions of signal handlers, which come between any two instructions (KeyboardInterrupt).

A context manager written in Python can be torn between what it has done and the statement that would undo it. So what
a recording changes of its thread or of the process is a row here, *kept*: how it is read, and how it is put back; a
call that is interrupted puts it back as it was when the call began (:func:`state`, :func:`put_back`).  What has to be
done to its end in any case is done :func:`surely`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

_rows: list[tuple[Callable[[], Any], Callable[[Any], object], bool]] = []


def kept(read: Callable[[], Any], restore: Callable[[Any], object], users: bool = False) -> None:
    """Add a row: *restore*, given what *read* has given, does nothing where that is as it was. *users*: the user's code
    may change it, too, which only an interrupt undoes."""
    _rows.append((read, restore, users))


def state() -> list[Any]:
    """The state of this thread."""
    return [read() for read, *_ in _rows]


def put_back(before: Sequence[Any], error: BaseException) -> None:
    """Make the state of this thread what it was, after *error*."""
    every = not isinstance(error, Exception)
    surely(
        lambda: [
            restore(value) for (_, restore, users), value in zip(_rows, before, strict=False) if every or not users
        ]
    )


def surely(work: Callable[[], T]) -> T:
    """The result of *work*, which is done again from its start where an interrupt ends it; the interrupt is raised
    when it is done."""
    interrupt: BaseException | None = None
    while True:
        try:
            found = work()
            break
        except Exception:
            raise
        except BaseException as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
    return found
