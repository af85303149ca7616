"""One thing that is asked of a function (its value, its gradient, both), and what is known about answering it.

*Slots* answer without looking at the call first: each belongs to a family of paths, its *owner*.  *Variants* are the
recordings by call key, *live* the call keys whose Python runs each time.  What changes slots is called with the
function's lock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ..record.recording import Mode
from ..stats import PathStats
from .fallback import Live
from .family import Family
from .fast_path import Slot
from .paths import Path, Variant

MAX_SLOTS = 4  # families of paths that are tried without looking at the call first


@dataclass(eq=False, slots=True)
class Endpoint:
    mode: Mode
    slots: tuple[Slot, ...] = ()
    owners: tuple[Family, ...] = ()  # the families of the slots
    variants: OrderedDict[Any, list[Variant]] = field(default_factory=OrderedDict)
    live: OrderedDict[Any, Live] = field(default_factory=OrderedDict)  # call keys whose Python runs each time

    def missed(self, variant: Variant, call: int) -> tuple[list[tuple[Path, int]], set[Path]]:
        """What the slots have found out in *call*, a number: the last miss of each family of *variant*, and all paths
        that can't hold."""
        misses: list[tuple[Path, int]] = []
        tried: set[Path] = set()
        for family in self.owners:
            if family.variant is variant and (missed := family.taken(call)) is not None:
                misses.append(missed)
                tried.update(family.members)
        return misses, tried

    def install(self, slot: Slot, family: Family) -> None:
        """*slot* is tried first from now on, in place of those that *family* takes paths from."""
        self.drop_families(family.members)
        self.owners = (family, *self.owners)[:MAX_SLOTS]
        self.slots = (slot, *self.slots)[:MAX_SLOTS]

    def forget(self, variant: Variant, paths: Collection[Path]) -> None:
        """*variant* forgets *paths*, and so do the slots."""
        variant.paths[:] = [p for p in variant.paths if p not in paths]
        self.drop_families(paths)

    def drop_families(self, paths: Collection[Path]) -> None:
        """No slot tries any of *paths* from now on."""
        gone = set(paths)
        kept = [(s, f) for s, f in zip(self.slots, self.owners, strict=True) if gone.isdisjoint(f.members)]
        self.slots, self.owners = tuple([s for s, _ in kept]), tuple([f for _, f in kept])

    def drop_slots(self) -> None:
        """Every call goes to the dispatcher."""
        self.owners = self.slots = ()

    def path_stats(self) -> list[PathStats]:
        return [
            path.stats(self.mode.kind)
            for variants in tuple(self.variants.values())
            for variant in tuple(variants)
            for path in tuple(variant.paths)
        ]


__all__ = ["MAX_SLOTS", "Endpoint"]
