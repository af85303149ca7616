"""Effects of a recorded run on tensors from outside, which a replay does again once its kernel has succeeded."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ..runtime.record.complex_data import text_of
from ..runtime.record.effects import Expression
from ..runtime.record.trees import Source
from ..tracer.ir.aval import Aval
from .leaving import tensor_of
from .step_places import Place, key_of, text_at


@dataclass(frozen=True, slots=True)
class MemoryWritten:
    """The kernel has written into the memory of a tensor, whose version goes up by *times*."""

    place: Place
    times: int

    @property
    def key(self) -> Hashable:
        return "written", key_of(self.place), self.times

    def write(self, source: Source, texts: Sequence[str], recorded: bool) -> None:
        if not recorded:
            source.lines.append(f"{text_at(source, self.place, texts)}._counter[0] += {self.times}")


@dataclass(frozen=True, slots=True)
class GradAssigned:
    """A result of the kernel becomes the ``.grad`` of a tensor; None: it has none from then on."""

    place: Place
    result: int | None
    aval: Aval | None = None

    @property
    def key(self) -> Hashable:
        return "grad", key_of(self.place), self.result

    def write(self, source: Source, texts: Sequence[str], recorded: bool) -> None:
        value = "None" if self.aval is None else tensor_of(source, text_of(self.aval, source, f"r[{self.result}]"))
        source.lines.append(f"{text_at(source, self.place, texts)}._grad = {value}")


@dataclass(frozen=True, slots=True)
class TensorMade:
    """A tensor that stands in several places, or shares its memory with another one that leaves the run."""

    name: str
    made: Expression

    @property
    def key(self) -> Hashable:
        return "made", self.name

    def write(self, source: Source, texts: Sequence[str], recorded: bool) -> None:
        self.made(source, texts)
