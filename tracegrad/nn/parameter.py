"""Parameters."""

from ..runtime.nn.parameter import Parameter

__all__ = [
    "Parameter",
]
