"""Early checks of guards: the steps they need are moved to the front, where that saves work.

A kernel of a path that doesn't hold should end early, since another one takes its place (``runtime/paths/family.py``).
The steps that the first guards need go first, then those guards are checked, and so on; results that a kernel has begun
are private until it answers.  Guards are checked in their order whatever the steps.  The check itself is written in
``codegen/cpu/assemble.py`` (``_Assembler._native``).

Only whole steps are moved.  A loop that a guard needs keeps what else it does in the same pass: to split it would cost
every call a second pass over the arrays, up to half of its time, for the sake of the calls that end early.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..lower.canonical import Canonical, Operand, Sym
from .functions import functions_of
from .loop_tree import LibraryCall, Schedule, ScheduleItem, Statement, item_buffers, produces


def guards_of(program: Canonical) -> list[Sym]:
    return [x for x in program.outputs[program.results :] if isinstance(x, Sym)]


def check_early(program: Canonical, schedule: Schedule) -> None:
    """Move the items that guards need to the front, and list the checks in ``schedule.checks``."""
    items, guards = schedule.body, guards_of(program)
    home = {sym: position for position, item in enumerate(items) for sym in produces(item)}
    order: list[int] = []
    checks: list[tuple[int, int]] = []
    done: set[int] = set()
    for number, guard in enumerate(guards):
        needed = _closure(program, schedule, home, home[guard], done)
        if order and _heavy(items, needed):
            checks.append((len(order), number))
        order += sorted(needed)
        done |= needed
    rest = [position for position in range(len(items)) if position not in done]
    if order and _heavy(items, rest):
        checks.append((len(order), len(guards)))
    if not checks:
        return
    schedule.body = [items[position] for position in (*order, *rest)]
    schedule.checks = checks
    schedule.functions = functions_of(schedule.body, schedule.reads, {position for position, _ in checks})
    schedule.notes.append(f"{checks[-1][1]} of {len(guards)} guards are checked before other loops run")


def steps_before(schedule: Schedule, guard: int) -> int:
    """The number of items that run before guard number *guard* is checked."""
    return next((position for position, guards in schedule.checks if guard < guards), len(schedule.body))


def is_heavy(item: ScheduleItem) -> bool:
    """Whether *item* is more than scalar arithmetic."""
    return not isinstance(item, Statement)


def _heavy(items: Sequence[ScheduleItem], positions: Iterable[int]) -> bool:
    return any(is_heavy(items[position]) for position in positions)


def _closure(program: Canonical, schedule: Schedule, home: dict[Sym, int], start: int, done: set[int]) -> set[int]:
    """Positions of the items that the item at *start* depends on, itself included, without those that are *done*."""
    found: set[int] = set()
    todo = [start]
    while todo:
        position = todo.pop()
        if position in done or position in found:
            continue
        found.add(position)
        todo += {home[sym] for sym in stored_reads(program, schedule, schedule.body[position]) if sym in home} - found
    return found


def stored_reads(program: Canonical, schedule: Schedule, item: ScheduleItem) -> Iterable[Sym]:
    """Stored values that *item* reads (and those that it makes)."""
    if not isinstance(item, LibraryCall):
        return item_buffers(schedule.reads, item)
    return stored_behind(program, schedule.stored, item.op.ins)


def stored_behind(program: Canonical, stored: set[Sym], operands: Iterable[Operand]) -> set[Sym]:
    """The stored values that *operands* are computed from, themselves among them."""
    found: set[Sym] = set()
    seen: set[Sym] = set()
    todo = [x for x in operands if isinstance(x, Sym)]
    while todo:
        x = todo.pop()
        if x in seen:
            continue
        seen.add(x)
        if x in stored:
            found.add(x)
        elif x in program.producers:
            todo += [y for y in program.producers[x].ins if isinstance(y, Sym)]
    return found
