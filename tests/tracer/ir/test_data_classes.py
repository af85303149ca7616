"""Our data classes and named tuples are those of the standard library, as far as ours go."""

from __future__ import annotations

import ast
import copy
import dataclasses
import itertools
import pickle
from collections.abc import Callable
from dataclasses import dataclass as standard
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar
from typing import NamedTuple as StandardTuple

import pytest

from tracegrad.tracer.ir.data_classes import NamedTuple
from tracegrad.tracer.ir.data_classes import dataclass as ours

ROOT = Path(__file__).resolve().parents[3]
OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq}
    for frozen, slots, eq in itertools.product((False, True), (False, True), (False, True))
]


def classes(made: Callable[..., Any], options: dict[str, Any]) -> tuple[type, ...]:
    @made(**options)
    class Point:
        """Has every kind of field."""

        x: float
        names: list[str] = field(default_factory=list)
        label: str = "point"
        hidden: int = field(default=3, repr=False, compare=False)
        kind: ClassVar[str] = "kind"
        extra: Any = field(default=None, kw_only=True)
        later: dict[str, int] = field(default_factory=dict, init=False)

        def moved(self, by: float) -> Any:
            return dataclasses.replace(self, x=self.x + by)

    @made(**options)
    class Named(Point):
        more: int = 7

        def __repr__(self) -> str:
            return f"Named({self.more})"

    class Plain(Named):
        pass

    @made(**options)
    class Counted:
        a: int
        b: int = 2
        sum: int = field(default=0, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "sum", self.a + self.b)

        def __hash__(self) -> int:
            return self.a

    @made(kw_only=True, **options)
    class Keywords:
        a: int
        b: tuple[int, ...] = ()

    @made(**options)
    class Empty:
        pass

    @made(**options)
    class Compared:
        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self))

    return Point, Named, Plain, Counted, Keywords, Empty, Compared


def outcome(work: Callable[[], Any]) -> Any:
    try:
        return repr(work())
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_they_are_those_of_the_standard_library(options: dict[str, Any]) -> None:
    cases: list[Callable[..., Any]] = [
        lambda *c: c[0](1.0), lambda *c: c[0](1.0, ["a"], "b", 5, extra=2), lambda *c: c[0](),
        lambda *c: c[0](1.0, y=2),
        lambda *c: c[0](1.0).names is c[0](1.0).names, lambda *c: c[0](1.0).hidden, lambda *c: c[0](1.0).later,
        lambda *c: c[0](1.0) == c[0](1.0), lambda *c: c[0](1.0) == c[0](2.0), lambda *c: c[0](1.0) == c[1](1.0),
        lambda *c: c[0](1.0, hidden=1) == c[0](1.0, hidden=2), lambda *c: c[0](1.0).__eq__(1.0),
        lambda *c: c[0](1.0).moved(2.0), lambda *c: dataclasses.replace(c[1](1.0), x=3.0),
        lambda *c: dataclasses.replace(c[4](a=1), b=(2,)), lambda *c: [f.name for f in dataclasses.fields(c[1])],
        lambda *c: [(f.type, f.kw_only, f.init) for f in dataclasses.fields(c[0])], lambda *c: c[1].__match_args__,
        lambda *c: dataclasses.astuple(c[1](1.0)), lambda *c: c[1](1.0, [], "b", 1, 9), lambda *c: c[2](1.0).more,
        lambda *c: c[3](1), lambda *c: c[3](1).sum, lambda *c: {c[3](1), c[3](1)}, lambda *c: c[4](1),
        lambda *c: c[4](a=1), lambda *c: {c[4](a=1), c[4](a=1)}, lambda *c: hash(c[0](1.0)) and 0, lambda *c: c[5](),
        lambda *c: c[5]() == c[5](), lambda *c: c[6](1) == c[6](2), lambda *c: len({c[6](1), c[6](1)}),
        lambda *c: setattr(c[0](1.0), "x", 2.0), lambda *c: delattr(c[0](1.0), "x"), lambda *c: c[0].kind,
        lambda *c: vars(c[4](a=1)), lambda *c: [getattr(x, "__slots__", None) for x in c],
        lambda *c: [x.__qualname__ for x in c], lambda *c: copy.deepcopy(c[0](1.0, ["a"])), lambda *c: c[0].__init__,
        lambda *c: copy.copy(c[4](a=1)), lambda *c: [x.__doc__ for x in c[:1]], lambda *c: c[0].label,
        lambda *c: c[0](1.0, [c[0]]) == 1,
    ]  # fmt: skip
    theirs, mine = classes(standard, options), classes(ours, options)
    for case in cases:
        expected, found = outcome(lambda case=case: case(*theirs)), outcome(lambda case=case: case(*mine))
        if " at 0x" in str(expected):
            expected, found = (str(text).partition(" at 0x")[0] for text in (expected, found))
        assert found == expected


@ours(frozen=True, slots=True)
class Frozen:
    a: int
    b: Any = None


def test_they_can_be_pickled_and_have_cycles() -> None:
    made = Frozen(1, [2])
    assert pickle.loads(pickle.dumps(made)) == made == copy.deepcopy(made)
    made.b.append(made)
    assert repr(made) == "Frozen(a=1, b=[2, ...])"


def tuples(base: Any) -> type:
    class Row(base):
        """A row."""

        name: str
        values: list[int]
        more: Any = None

        @property
        def first(self) -> int:
            return self.values[0]

        def longer(self) -> Any:
            return self._replace(values=[*self.values, 1])

    return Row


def test_named_tuples_are_those_of_the_standard_library() -> None:
    cases: list[Callable[[Any], Any]] = [
        lambda row: row("a", [1]), lambda row: row("a", [1], more=2).longer(), lambda row: row("a", [1]).first,
        lambda row: row("a"), lambda row: row("a", [1]) == ("a", [1], None), lambda row: row._fields,
        lambda row: row("a", [1])._asdict(), lambda row: row._field_defaults, lambda row: row.__doc__,
        lambda row: row.__qualname__, lambda row: row.__module__, lambda row: row.__match_args__,
        lambda row: row.__slots__, lambda row: row.__bases__, lambda row: list(row.__annotations__),
    ]  # fmt: skip
    theirs, mine = tuples(StandardTuple), tuples(NamedTuple)
    for case in cases:
        assert outcome(lambda case=case: case(mine)) == outcome(lambda case=case: case(theirs))


MADE_HERE = {"dataclasses": "dataclass", "typing": "NamedTuple"}


def test_ours_are_all_made_so() -> None:
    own = {ROOT / "tracer/ir/data_classes.py", ROOT / "tracegrad/tracer/ir/data_classes.py"}
    for layer in ("tracer", "codegen", "runtime", "tracegrad"):
        for path in {*(ROOT / layer).rglob("*.py")} - own:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module in MADE_HERE and not node.level:
                    assert MADE_HERE[node.module] not in [name.name for name in node.names], path
