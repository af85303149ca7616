"""Devices.  This build computes on the CPU; the names are there so that scripts which ask for a device run."""

from __future__ import annotations

from typing import Any


class device:  # noqa: N801
    """``device("cpu")``.  Compares equal to its name.

    :raises RuntimeError: for any device but the CPU.
    """

    __slots__ = ("index", "type")

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        name = str(type)
        kind, _, number = name.partition(":")
        if kind != "cpu":
            raise RuntimeError(f"device {name!r}: this build of tracegrad computes on the CPU only; use 'cpu'")
        self.type = kind
        self.index = int(number) if number else index

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def cuda_is_available() -> bool:
    """False: there is no CUDA target in this build."""
    return False
