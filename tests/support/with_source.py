"""Code of texts whose lines Python finds, as it does those of files: its functions have a source, and are converted.

Each text has a file name of its own.  Only the lines of the last texts are kept, since hunts make many of them.
"""

from __future__ import annotations

import linecache
import types
import zlib
from collections import OrderedDict

_MOST = 256  # texts whose lines are kept
_kept: OrderedDict[str, types.CodeType] = OrderedDict()


def code_of(text: str, name: str) -> types.CodeType:
    """The code of a module's *text*, whose file is called *name* and what the text is known by."""
    file = f"<{name}, {zlib.crc32(text.encode()):08x}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    known = _kept.get(file)
    if known is None:
        known = _kept[file] = compile(text, file, "exec")
        if len(_kept) > _MOST:
            linecache.cache.pop(_kept.popitem(last=False)[0], None)
    _kept.move_to_end(file)
    return known
