"""Random numbers as functions of keys, given or taken from a default stream: the same in plain NumPy code and inside
compiled functions."""

from .tracer.random import stream as _stream
from .tracer.random.keys import fold_in, key
from .tracer.random.stream import *  # noqa: F403

__all__ = ["fold_in", "key", *_stream.__all__]
__all__.sort()
