"""Templates of LLVM IR.

Functions and objects of this process are symbols of the code, so it is the same in each process; offsets in objects are
numbers of the text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from string import Template
from typing import Any

from ...codegen.cpu.cpython import python_api
from .native_code import NativeText

_FIELD = re.compile(r"^( *)(.*\b(?:load|store) .*, ptr )(%[\w.]+)\[(\w+) ([^\]]+)\]", re.MULTILINE)


def filled(text: str, numbers: Mapping[str, Any], addresses: Mapping[str, int], functions: Iterable[str]) -> NativeText:
    """*text* with ``$name`` replaced: by numbers, by symbols, of functions of CPython's API among them; and fields,
    ``%x = load i64, ptr %table[ptr 3]``, by the two instructions that load or store them."""
    pointers = {**addresses, **{name: python_api(name) for name in functions}}
    first = {address: name for name, address in reversed(pointers.items())}  # LLVM takes two symbols for two places
    symbols = {f"here:{name}": address for address, name in first.items()}
    fields: dict[str, Any] = {name: f'@"here:{first[address]}"' for name, address in pointers.items()}
    declared = "\n".join(f'@"{symbol}" = external global %somewhere' for symbol in symbols)
    place = itertools.count()

    def in_two(m: re.Match[str]) -> str:
        at = f"%field.{next(place)}"
        return f"{m[1]}{at} = getelementptr {m[4]}, ptr {m[3]}, i64 {m[5]}\n{m[1]}{m[2]}{at}"

    body = _FIELD.sub(in_two, Template(text).substitute(fields | dict(numbers)))
    return NativeText(f"%somewhere = type opaque\n{declared}\n{body}", symbols)
