"""Int arguments: which are compared by value, and which are numbers of the run.

An int is part of the program at first, as bools and texts are.  One that has come with a second value becomes a number
that the kernel takes (``tracer/record/integers.py``), unless the function asks for its value: as a length, an index, a
text.  Then it is compared by value for good, and each of its values has a recording.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...tracer.convert.uses import uses
from ...tracer.ir.site import Site
from ...tracer.record.integers import limit_of
from ..config import config
from ..recent import Recent
from ..record.call_key import VALUE, Call, unwrap
from ..record.differentiable import leaf_names, leaf_rows
from ..state.values import same

FIRST = "first call with arguments of these types and shapes"


@dataclass(slots=True)
class _Form:
    """Calls that differ in the values of their arguments alone; *first*: the values of the first one, by leaf."""

    first: dict[int, Any]
    varying: set[int] = field(default_factory=set)  # ints that have had several values
    asked: dict[int, Site | None] = field(default_factory=dict)  # those that are compared by value for good
    settled: bool = False  # whether all are
    unseen: str = ""  # why Python runs for ints by value


@dataclass(slots=True)
class IntArguments:
    """Knowledge about the int arguments of the function *fn*; used under the dispatcher's lock."""

    fn: Callable[..., Any]
    forms: Recent[Any, _Form] = field(default_factory=lambda: Recent(lambda: config.max_variants))

    def numbers(self, call: Call) -> Call:
        """*call* with the ints that are numbers of the run as such."""
        if VALUE not in call.kinds:
            return call
        form = self._form(call)
        if form.settled:
            return call
        ints = _ints(call)
        if new := [k for k in ints.keys() - form.varying if ints[k] and call.leaves[k] != form.first.get(k)]:
            rows = leaf_rows(call.tree)  # the others of a list are likely to vary, too
            form.varying.update({k for k in ints if rows[k] in {rows[n] for n in new}})
        found = {k: limit for k, limit in ints.items() if limit and k in form.varying - form.asked.keys()}
        return call.with_numbers(found) if found else call

    def refuse(self, call: Call, asked: Mapping[int, Site | None]) -> None:
        """Compare the ints of *call* by value from now on: those that are *asked* for, or all if there are none."""
        form = self._form(call)
        form.asked.update(asked)
        form.settled |= not asked

    def are_no_matter(self, call: Call, why: str) -> bool:
        """Whether Python runs for ints by value for the same reason, *why*, as for the numbers of *call*.  A heuristic:
        Python may run in any call."""
        return bool(why) and self._form(call).unseen == why

    def runs_python(self, call: Call, why: str) -> None:
        """Note *why* Python runs for the ints of *call*."""
        if call.by_value is None and VALUE in call.kinds:
            self._form(call).unseen = why

    def reason(self, call: Call) -> str:
        """The reason to record a call whose key is new."""
        if VALUE not in call.kinds and call.by_value is None:
            return FIRST
        form, names = self._form(call), leaf_names(self.fn, call)
        if call.by_value is not None:
            told = [f"`{names[k]}`" for k in sorted(form.varying - form.asked.keys())]
            return now_numbers(told)
        values = _values(call)
        others = [k for k, value in values.items() if not same(form.first.get(k), value)]
        if not others:
            return FIRST
        return "; ".join([f"another value of `{names[k]}`{_asked(form, k)}" for k in others])

    def _form(self, call: Call) -> _Form:
        origin = call.by_value or call
        limits = _ints(origin)
        parts = [
            (type(unwrap(leaf)), limits.get(k)) if kind == VALUE else part
            for k, (leaf, kind, part) in enumerate(zip(origin.leaves, origin.kinds, origin.key[1], strict=True))
        ]
        key = (origin.key[0], tuple(parts), *origin.key[2:])
        known = self.forms.find(key)
        return known or self.forms.keep(key, _Form(_values(origin), asked=self._asked(origin, limits)))

    def _asked(self, call: Call, ints: Collection[int]) -> dict[int, Site | None]:
        """Those of the *ints* whose value the function is sure to ask for."""
        code = getattr(self.fn, "__code__", None)
        if code is None or "range" not in code.co_names:
            return {}
        known = uses(code).ranges
        names = leaf_names(self.fn, call) if known else []
        return {k: Site(code.co_filename, known[names[k]], code.co_name) for k in ints if known and names[k] in known}


def now_numbers(names: Sequence[str]) -> str:
    """The reason to record a call because numbers have other values than before."""
    return f"another value of {', '.join(names)}: from now on a number of the run"


def _asked(form: _Form, leaf: int) -> str:
    site = form.asked.get(leaf)
    return f", which is asked for at {site}" if site is not None else ", which is compared by value"


def _ints(call: Call) -> dict[int, int]:
    """The limits of the magnitudes of the int arguments, by leaf; 0 for those that no number of a run can be."""
    return {k: limit_of(x) for k, (x, kind) in enumerate(zip(call.leaves, call.kinds, strict=True))
            if kind == VALUE and type(x) is int}  # fmt: skip


def _values(call: Call) -> dict[int, Any]:
    return {k: unwrap(x) for k, (x, kind) in enumerate(zip(call.leaves, call.kinds, strict=True)) if kind == VALUE}
