"""Object code into memory without LLVM: relocatable ELF files for x86-64, as LLVM writes them for kernels.

A kernel is code, the constants beside it and a list of places that want an address (System V ABI, AMD64 supplement,
section 4.4). :func:`image` puts the sections one after the other, writes the addresses, and makes the memory executable
when nothing is written into it any more. What it does not know exactly (another machine, thread-local variables,
constructors, other relocations) it refuses: LLVM loads that. Tables for unwinding are left out, since no exception goes
through a kernel.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_WRITE, _ALLOC, _TLS = 0x1, 0x2, 0x400
_PROGBITS, _SYMTAB, _RELA, _NOBITS = 1, 2, 4, 8
_REL, _INIT, _FINI, _PREINIT = 9, 14, 15, 16
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1
_FUNCTION = 2
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_IDENTITY = b"\x7fELF\x02\x01\x01"  # 64 bits, little endian, version 1
_RELOCATABLE, _X86_64 = 1, 62
_WORD_MASK = (1 << 64) - 1
_PAGE = mmap.PAGESIZE
_HERE = sys.platform == "linux" and sys.maxsize > 2**32


class UnsupportedObjectError(Exception):
    """Object code that is not loaded here."""


class Image:
    """Loaded code; its memory is given back with it. The methods that finalisers call use no globals."""

    __slots__ = ("_functions", "_memory")

    def __init__(self, functions: Mapping[str, int], memory: mmap.mmap) -> None:
        self._functions, self._memory = functions, memory

    def get_function_address(self, name: str) -> int:
        """As of LLVM's engines: 0 where there is none."""
        return self._functions.get(name, 0)


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class _Symbol(NamedTuple):
    name: str
    info: int
    section: int
    value: int
    size: int


class _Object(NamedTuple):
    """The parts of a file: all sections, the symbols, and (section, places) of relocations."""

    data: bytes
    sections: list[_Section]
    symbols: list[_Symbol]
    relocations: list[tuple[int, list[tuple[int, int, int]]]]


def undefined_symbols(object_code: bytes) -> list[str]:
    """The names that *object_code* wants addresses for.

    Raises:
        UnsupportedObjectError: it is none for this machine.
    """
    return [s.name for s in _parsed(object_code).symbols if s.section == _UNDEFINED and s.name]


def functions_of(object_code: bytes) -> list[tuple[str, int, int, int]]:
    """The functions in *object_code*: (name, section, place there, size).

    Raises:
        UnsupportedObjectError: it is none for this machine.
    """
    symbols = _parsed(object_code).symbols
    return [(s.name, s.section, s.value, s.size) for s in symbols if s.info & 0xF == _FUNCTION and s.name]


def image(object_code: bytes, address_of: Callable[[str], int]) -> Image:
    """*object_code* in memory, ready to run; *address_of* gives the addresses that it wants.

    Raises:
        UnsupportedObjectError: something of it is not known here.
        LookupError: *address_of* knows no such name.
    """
    try:
        return _loaded(_parsed(object_code), address_of)
    except (struct.error, IndexError) as error:  # places outside of the file, or of their section
        raise UnsupportedObjectError(str(error)) from error


def _parsed(data: bytes) -> _Object:
    """The parts of *data* that are loaded."""
    if not _HERE or not data.startswith(_IDENTITY):
        raise UnsupportedObjectError("not a little-endian ELF file of 64 bits, or another platform")
    head = _HEADER.unpack_from(data)
    if (head[1], head[2], head[11]) != (_RELOCATABLE, _X86_64, _SECTION.size):
        raise UnsupportedObjectError("not relocatable code for x86-64")
    start, count = head[6], head[12]
    sections = [_Section(*_SECTION.unpack_from(data, start + k * _SECTION.size)) for k in range(count)]
    tables = [s for s in sections if s.type == _SYMTAB]
    if len(tables) != 1:
        raise UnsupportedObjectError("one table of symbols is expected")
    names = sections[tables[0].link]
    strings = data[names.offset : names.offset + names.size]
    symbols = []
    for at in range(tables[0].offset, tables[0].offset + tables[0].size, _SYMBOL.size):
        name, info, _, section, value, size = _SYMBOL.unpack_from(data, at)
        symbols.append(_Symbol(strings[name : strings.index(0, name)].decode(), info, section, value, size))
    relocations = []
    for s in sections:
        if s.type in (_REL, _INIT, _FINI, _PREINIT) or (s.flags & _ALLOC and s.flags & _TLS):
            raise UnsupportedObjectError(f"a section of type {s.type}, flags {s.flags:#x}")
        if s.type == _RELA and _is_loaded(sections[s.info]):
            rows = range(s.offset, s.offset + s.size, _RELOCATION.size)
            relocations.append((s.info, [_RELOCATION.unpack_from(data, at) for at in rows]))
    return _Object(data, sections, symbols, relocations)


def _is_loaded(s: _Section) -> bool:
    """Whether a section is a part of the program that is needed; tables for unwinding have a type of their own."""
    return bool(s.flags & _ALLOC) and s.type in (_PROGBITS, _NOBITS) and s.size > 0


def _loaded(parts: _Object, address_of: Callable[[str], int]) -> Image:
    """Sections that are written at run time begin at a page of their own, behind the others. Constants share pages, and
    their protection, with code: a process may have some 65,000 stretches of pages of unlike protection."""
    place: dict[int, int] = {}
    at = 0
    fixed = 0
    for written in (False, True):
        if written:
            at = fixed = -(-at // _PAGE) * _PAGE
        for k, s in enumerate(parts.sections):
            if _is_loaded(s) and bool(s.flags & _WRITE) == written:
                align = max(s.align, 1)
                if align > _PAGE:
                    raise UnsupportedObjectError(f"a section aligned to {align} bytes")
                at = place[k] = -(-at // align) * align
                at += s.size
    memory = mmap.mmap(-1, max(at, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
    base = _address(memory)
    for k, start in place.items():
        s = parts.sections[k]
        if s.type == _PROGBITS:
            if s.offset + s.size > len(parts.data):
                raise UnsupportedObjectError("a section outside of the file")
            memory[start : start + s.size] = parts.data[s.offset : s.offset + s.size]

    @functools.cache
    def value(number: int) -> int:
        symbol = parts.symbols[number]
        if symbol.section == _UNDEFINED:
            return address_of(symbol.name)
        if symbol.section == _ABSOLUTE:
            return symbol.value
        if symbol.section not in place:
            raise UnsupportedObjectError(f"{symbol.name!r} stands in a section that is not loaded")
        return base + place[symbol.section] + symbol.value

    for section, rows in parts.relocations:
        start, size = place[section], parts.sections[section].size
        for offset, info, addend in rows:
            code, length, relative = _KINDS.get(info & 0xFFFFFFFF, ("", 0, False))
            if not code or not 0 <= offset <= size - length:
                raise UnsupportedObjectError(f"a relocation of type {info & 0xFFFFFFFF} at {offset}")
            found = value(info >> 32) + addend - (base + start + offset if relative else 0)
            if length == 4 and not -(1 << 31) <= found < 1 << 31:
                raise UnsupportedObjectError("an address too far away")
            struct.pack_into(code, memory, start + offset, found if length == 4 else found & _WORD_MASK)
    _protect(base, fixed, mmap.PROT_READ | mmap.PROT_EXEC)
    public = [s for s in parts.symbols if s.name and s.section in place and s.info >> 4]
    functions = {s.name: base + place[s.section] + s.value for s in public}
    return Image(functions, memory)


# type -> (how it is written, bytes, whether relative to its own place)
_KINDS = {
    1: ("<Q", 8, False),  # R_X86_64_64
    24: ("<Q", 8, True),  # R_X86_64_PC64
    2: ("<i", 4, True),  # R_X86_64_PC32
    4: ("<i", 4, True),  # R_X86_64_PLT32
}


def _address(memory: mmap.mmap) -> int:
    """The address of *memory*, which stays where it is."""
    view = ctypes.c_char.from_buffer(memory)
    try:
        return ctypes.addressof(view)
    finally:
        del view


def _protect(address: int, size: int, protection: int) -> None:
    if size and _mprotect()(address, size, protection):
        raise UnsupportedObjectError(f"the memory can't be made executable (errno {ctypes.get_errno()})")


@functools.cache
def _mprotect() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return function
