"""The class of traced arrays, as ``autograd.numpy.numpy_boxes`` has it: ``isinstance(x, ArrayBox)``."""

from ...tracer.record.array import TracedArray as ArrayBox

__all__ = ["ArrayBox"]
