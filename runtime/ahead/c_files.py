"""A fixed call as files for C: a header, and object code that a linker puts into a program without Python.

The object calls the C library's functions, those of libm and libmvec, and, where the function has products or factors
of matrices, BLAS and LAPACK by their Fortran names.  It is compiled for the processor of this machine, with the same
vectors as here, so its results have the same bits; or for a level of x86-64.
"""

from __future__ import annotations

import os
import re
import textwrap
from typing import NamedTuple

from ...codegen.cpu import jit
from ...codegen.cpu.elf import UnsupportedObjectError, undefined_symbols
from ...codegen.cpu.fourier import BY_INNER_LOOPS
from ...codegen.cpu.native_entry import NO_MEMORY, NO_SIZE, OVERLAP
from ...tracer.ir.errors import UnsupportedError
from ...tracer.ir.graph import Graph
from ...tracer.ir.primitive import LOOP
from ...tracer.ir.site import Site, at_site
from ..disk.location import existing_folder
from .entry import CParameter, native_text, parameters
from .fixed import FixedCall
from .sizes import Size, SizedCall

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_QUOTED = re.compile(r'@"([\w-]+:[^"]+)"')
_FORTRAN = re.compile(r"(?:blas|capsule:scipy\.linalg\.cython_(blas|lapack)):(\w+):?")


class CFiles(NamedTuple):
    """Paths of what was written, and the arguments that link it: ``cc main.c files.object *files.link``."""

    header: str
    object: str
    link: tuple[str, ...]


NATIVE = "native"


def write_c_files(
    fixed: FixedCall | SizedCall, directory: str | os.PathLike[str], name: str | None = None, cpu: str = NATIVE
) -> CFiles:
    """Write ``name.h`` and ``name.o`` into *directory*; *cpu*: the processor that runs it.

    Raises:
        FileNotFoundError, NotADirectoryError: there is no such folder.
        UnsupportedError: the function needs code of NumPy's or SciPy's.
    """
    place = existing_folder(directory, "export_c")
    here = jit.target_triple().partition("-")[0]
    if cpu != NATIVE and (cpu not in jit.CPUS or here != "x86_64"):
        known = ", ".join(map(repr, (NATIVE, *(jit.CPUS if here == "x86_64" else ()))))
        raise ValueError(f"cpu: one of {known}, not {cpu!r}")
    with jit.made_for(None if cpu == NATIVE else cpu):
        return _written(fixed, place, name)


def _written(fixed: FixedCall | SizedCall, directory: str, name: str | None) -> CFiles:
    name = fixed.plain_name if name is None else name
    if not _NAME.fullmatch(name):
        raise ValueError(f"name: a name of a function in C, not {name!r}")
    made = native_text(fixed, name)
    texts = [made.text, *made.others]
    symbols = dict.fromkeys(symbol for text in texts for symbol in _QUOTED.findall(text))
    for symbol in symbols:
        known = _FORTRAN.fullmatch(symbol)
        if known is None:
            module, function = symbol.split(":")[1:3]
            message = (
                f"{fixed.name} can't be exported to C: it calls code of {module}.{function}; compute that outside and "
                "pass its result, or write it of functions of NumPy"
            )
            raise UnsupportedError(at_site(message, _line(fixed.graph, module, function)))
        texts = [text.replace(f'@"{symbol}"', f"@{known[2]}_") for text in texts]
    codes = [jit.compile_text(text, name, linked=True).code for text in texts]
    link = ["-lm"]
    try:
        names = [x for code in codes for x in undefined_symbols(code)]
    except UnsupportedObjectError:
        names = []
    if any(x.startswith("_ZGV") for x in names):
        link.insert(0, "-lmvec")
    if symbols:
        link = ["-llapack", "-lblas", *link] if any("lapack" in x for x in symbols) else ["-lblas", *link]
    root = os.path.join(directory, name)
    objects = [f"{root}.o", *[f"{root}_{k}.o" for k in range(1, len(codes))]]
    files = CFiles(f"{root}.h", objects[0], (*objects[1:], *link))
    for path, code in zip(objects, codes, strict=True):
        with open(path, "wb") as file:
            file.write(code)
    shown = [os.path.basename(path) for path in objects]
    with open(files.header, "w", encoding="utf-8") as header:
        header.write(_header(fixed, name, made.workspace, [*shown, *link]))
    return files


def _line(graph: Graph, module: str, function: str) -> Site | None:
    """The user's line that calls a *function* of another library, if it is found."""
    for node in graph.nodes:
        prim, found = node.prim, node.site
        if prim.kind == LOOP:
            found = _line(node.params["body"], module, function)
        elif function not in (getattr(prim.impl, "__name__", ""), prim.name):
            found = found if "fft" in module and prim.name in BY_INNER_LOOPS else None
        if found is not None:
            return found
    return None


def _header(fixed: FixedCall | SizedCall, name: str, workspace: int, link: list[str]) -> str:
    shown = parameters(fixed)
    guard = f"TRACEGRAD_{name.upper()}_H"
    rows = [f" *   {p.name}: {_described(p)}" for p in shown]
    sizes = ""
    if isinstance(fixed, SizedCall):
        sizes = f"; {NO_SIZE}: sizes other than\n * {fixed.listing}"
    head = f"int {name}("
    declared = (",\n" + " " * len(head)).join([p.declaration for p in shown])
    failed = "the number k of a branch (from 1) where the values take another way than those it was compiled with"
    return f"""/* {fixed.name}: {fixed.mode.replace("_", " ")}, compiled by tracegrad for {jit.processor()}.
{_needed()} *
 * Link with {" ".join(link)}. Threads may call it at once; its workspace is {workspace} bytes.
 *
{chr(10).join(rows)}
 *
 * Arrays are C-contiguous; results share no memory with other arguments.
 * Returns 0; {NO_MEMORY}: no memory for the workspace; {OVERLAP}: a result shares memory{sizes};
 * {failed}.
 * Where it does not return 0, the results are not to be read.
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{head}{declared});

#ifdef __cplusplus
}}
#endif

#endif
"""


def _needed() -> str:
    """Lines that say which features of this machine's processor the code may use."""
    if jit.cpu() is not None:
        return ""
    text = f"It needs a processor that has {' '.join(jit.features())}; f.export_c(..., cpu=...) is for others."
    return "".join([f" * {line}\n" for line in textwrap.wrap(text, 100)])


def _described(p: CParameter) -> str:
    if p.is_size:
        return "a size"
    kind = "a number" if not p.shape else f"{' x '.join([_length(x) for x in p.shape])} elements"
    if p.dtype.kind == "c":
        kind += ", complex: pairs of a real and an imaginary part"
    return f"{kind}, a result" if p.written else kind


def _length(size: Size) -> str:
    return f"({size})" if " " in str(size) else str(size)
