"""Questions of identity in bytecode: ``x is y``, ``np.shares_memory(x, y)``, ``operator.is_``."""

from __future__ import annotations

import builtins
import dis
import itertools
from functools import lru_cache
from types import CodeType

from .concretize import instructions_of

_NAMES = frozenset(("shares_memory", "may_share_memory", "is_", "is_not", "id"))
_IS_OP = dis.opmap["IS_OP"]
_VALUES = frozenset(vars(builtins))


@lru_cache(maxsize=4096)
def asks_truth_identity(code: CodeType) -> bool:
    """Whether *code* asks if a value is the object True or False."""
    if _IS_OP not in code.co_code[::2]:
        return False
    found = instructions_of(code).all
    return any(b.opname == "IS_OP" and isinstance(a.argval, bool) for a, b in itertools.pairwise(found))


@lru_cache(maxsize=4096)
def asks_identity(code: CodeType) -> bool:
    """Whether *code* may ask if two of its values are one object, other than None, a constant or a builtin class."""
    if not _NAMES.isdisjoint(code.co_names):
        return True
    if _IS_OP not in code.co_code[::2]:
        return False
    found = instructions_of(code)
    for k, instruction in enumerate(found.all):
        if instruction.opname == "IS_OP":
            sides = [found.loads_below(k, above, 0) for above in (0, 1)]
            if not any(side is not None and (side[0][0] == "const" or side[0][1] in _VALUES) for side in sides):
                return True
    return False
