"""The exceptions that users meet.  Each message names the user's line, what was found and what to write instead."""

from __future__ import annotations


class TracegradError(Exception):
    """Base of every error that tracegrad raises on purpose."""


class UnsupportedError(TracegradError, TypeError):
    """An operation that has no recorded form: naming it beats a value without a gradient."""


class ShapeError(TracegradError, ValueError):
    """Operands that do not fit together."""


class DifferentiationError(TracegradError, TypeError):
    """A gradient that does not exist: of an integer input, or of a non-scalar result."""


class MutationError(TracegradError, ValueError):
    """A write that the caller would see (or would wrongly not see): into an input or a captured array."""


class BadIndexError(TracegradError, IndexError):
    """An index out of bounds, or of a kind that NumPy does not accept."""


class GraphError(TracegradError, ValueError):
    """A malformed graph: a defect of tracegrad or of hand-written IR text."""
