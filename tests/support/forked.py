"""Programs that start from one process: what they have in common runs once, then each is a fork of it.

No program sees what another one imports, or does otherwise, as if each had a process of its own: at a fraction of the
price.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
FROM = "from tracegrad import compile_grad\n"
ORDERS = {  # when a program does its imports: after how much, and what follows
    "before tracegrad": ("", "{imports}\n" + FROM + "{definition}"),
    "after tracegrad": (FROM, "{imports}\n{definition}"),
    "after a call": (FROM + "compile_grad(lambda t: np.sum(t * t)).grad(x)\n", "{imports}\n{definition}"),
    "in the function": (FROM, "{inside}"),
}
_STATUS, _END = "\1", "\0"
# in the namespace of programs no other name stands, and nothing but what Python's start needs is imported
_DRIVER = """
import atexit as _atexit, os as _os, sys as _sys
exec(compile(open({beginning!r}).read(), {beginning!r}, "exec"))
for _program in {programs!r}:
    _sys.stdout.flush()
    if not (_child := _os.fork()):
        _failed = 1
        try:
            exec(compile(open(_program).read(), _program, "exec"))
            _failed = 0
        except BaseException:
            _sys.excepthook(*_sys.exc_info())
        _atexit._run_exitfuncs()
        _sys.stdout.flush()
        _os._exit(_failed)
    _status = _os.waitpid(_child, 0)[1]
    print({before!r}, _status, {after!r}, sep="", end="")
"""


def outputs(beginning: str, programs: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """What each of *programs* prints, by its name: each goes on where *beginning*, which prints nothing, has ended.
    All are files, so that functions in them have a source."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"program_{k}.py") for k in range(len(programs) + 1)]
        for file, text in zip(files, (beginning, *programs.values()), strict=True):
            file.write_text(text)
        first, *others = map(str, files)
        script = _DRIVER.format(beginning=first, programs=others, before=_STATUS, after=_END)
        command, variables = [sys.executable, "-c", script], {**os.environ, **environment}
        done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    texts = [text.split(_STATUS) for text in done.stdout.split(_END)[:-1]]
    assert (done.returncode, len(texts)) == (0, len(programs)), done.stderr
    failed = [name for name, (_, status) in zip(programs, texts, strict=True) if status != "0"]
    assert not failed, f"{failed}\n{done.stderr}"
    return {name: text for name, (text, _) in zip(programs, texts, strict=True)}
