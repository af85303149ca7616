"""Exported functions, called by a program in C that reads its arguments from a file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from tracegrad.runtime.ahead.entry import parameters

MAIN = r"""
#include <stdio.h>
#include "{name}.h"
{memory}
int main(void) {{
    FILE *f = fopen("in.bin", "rb");
    if (!f) return 100;
{read}
    int status = {name}({given});
    if (status) return status & 127;
    f = fopen("out.bin", "wb");
{write}
    return fclose(f);
}}
"""


def results_in_c(compiled, values, folder: Path, runner=(), flags=(), **options):
    """The results, in the order of the C parameters, of *compiled*, exported with *options*, for *values* of its
    arguments; *runner*: a command that runs the program."""
    name = "exported"
    files = compiled.export_c(folder, name, **options)
    shown = parameters(compiled.call(options.get("mode") or compiled._most))
    own = [p for p in shown if not p.written]
    with open(folder / "in.bin", "wb") as file:
        for p, value in zip(own, values, strict=True):
            file.write(np.asarray(value, p.dtype, order="C").tobytes())
    kinds = [p.declaration.replace("const ", "").rpartition(p.name)[0].strip(" *") for p in shown]
    sizes = [max(int(np.prod(p.shape)), 1) * (1 + (p.dtype.kind == "c")) for p in shown]
    lines = {
        "memory": [f"static {kind} v{k}[{n}];" for k, (kind, n) in enumerate(zip(kinds, sizes, strict=True))],
        "read": [f"    if (fread(v{k}, 1, sizeof v{k}, f) != sizeof v{k}) return 101;" for k in range(len(own))],
        "write": [f"    fwrite(v{k}, 1, sizeof v{k}, f);" for k in range(len(own), len(shown))],
    }
    given = ", ".join([f"v{k}[0]" if p.by_value else f"v{k}" for k, p in enumerate(shown)])
    text = MAIN.format(name=name, given=given, **{key: "\n".join(part) for key, part in lines.items()})
    (folder / "main.c").write_text(text)
    subprocess.run(["gcc", "-Wall", "-Werror", "-o", "main", "main.c", files.object, *flags, *files.link],
                   cwd=folder, check=True)  # fmt: skip
    subprocess.run([*runner, "./main"], cwd=folder, check=True)
    with open(folder / "out.bin", "rb") as file:
        made = [p for p in shown if p.written]
        return [np.fromfile(file, p.dtype, max(int(np.prod(p.shape)), 1)).reshape(p.shape) for p in made]
