"""Endpoints: the caches of one function for one mode (value, gradient, both).

*Slots* answer without looking at the call first: each belongs to a family of paths, its *owner*.  The ``first`` of them
stands apart, because a loop over them would cost more than all else that a cached call does in Python.  *Variants* are
the recordings by call key, *live* the call keys whose Python runs each time.  Methods that change slots are called with
the function's lock.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ..config import config
from ..mode import MISS, Mode
from ..recent import Recent
from .fallback import Live
from .family import Family, Variant
from .fast_path import Slot
from .int_arguments import IntArguments
from .paths import Path

MAX_TRANSIENT = 6  # recordings of one call key that change the state they are kept under
MAX_SLOTS = 4  # families of paths that are tried without looking at the call first


def _none(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The first slot where there are none."""
    return MISS


def _by_call_key() -> Recent[Any, Any]:
    return Recent(lambda: config.max_variants)


@dataclass(eq=False, slots=True)
class Endpoint:
    mode: Mode
    integers: IntArguments
    first: Slot = _none
    slots: tuple[Slot, ...] = ()
    owners: tuple[Family, ...] = ()  # the families of the slots
    variants: Recent[Any, list[Variant]] = field(default_factory=_by_call_key)
    transient: Recent[Any, int] = field(default_factory=_by_call_key)  # recordings that changed their own state
    live: Recent[Any, Live] = field(default_factory=_by_call_key)  # call keys whose Python runs each time

    def install(self, slot: Slot, family: Family) -> None:
        """Put *slot* first, in place of those that *family* takes paths from."""
        self.drop_families(family.members)
        self._set((slot, *self.slots)[:MAX_SLOTS], (family, *self.owners)[:MAX_SLOTS])

    def forget(self, variant: Variant, paths: Collection[Path]) -> None:
        """Remove *paths* from *variant* and the slots."""
        variant.forget(paths)
        self.drop_families(paths)

    def drop_families(self, paths: Collection[Path]) -> None:
        """Remove the families of *paths* from the slots."""
        gone = set(paths)
        kept = [(s, f) for s, f in zip(self.slots, self.owners, strict=True) if gone.isdisjoint(f.members)]
        self._set(tuple([s for s, _ in kept]), tuple([f for _, f in kept]))

    def drop_slots(self) -> None:
        """Remove all slots, so that every call goes to the dispatcher."""
        self._set((), ())

    def _set(self, slots: tuple[Slot, ...], owners: tuple[Family, ...]) -> None:
        self.first, self.slots, self.owners = slots[0] if slots else _none, slots, owners

    @property
    def paths(self) -> list[Path]:
        """All paths that are kept."""
        return [
            path
            for variants in tuple(self.variants.values())
            for variant in tuple(variants)
            for path in tuple(variant.paths)
        ]
