"""Python's own: lists, tuples and dicts of traced arrays are plain ones, and ``isinstance`` and ``type`` answer as for
arrays."""

from builtins import dict, isinstance, list, tuple, type  # noqa: UP029

isinstance_, type_, tuple_, list_, dict_ = isinstance, type, tuple, list, dict

__all__ = ["dict", "dict_", "isinstance", "isinstance_", "list", "list_", "tuple", "tuple_", "type", "type_"]
