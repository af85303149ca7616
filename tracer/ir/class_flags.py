"""The bits of ``cls.__flags__`` (CPython's ``Py_TPFLAGS_...``) that are asked for."""

SEQUENCE, MAPPING = 1 << 5, 1 << 6  # to a pattern of `match`; classes get them that are derived, or registered
IMMUTABLE = 1 << 8  # no attribute of the class can be set
HEAP_TYPE = 1 << 9  # Python code has made the class
MATCH_SELF = 1 << 22  # a pattern's one part is the object itself
