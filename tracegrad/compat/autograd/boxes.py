"""The class of traced arrays, as ``autograd.numpy.numpy_boxes`` has it: ``isinstance(x, ArrayBox)``, ``x._value``."""

from ...tracer.numpy_api.creation import stop_gradient
from ...tracer.record.array import OF_TRACED
from ...tracer.record.array import TracedArray as ArrayBox

ArrayBox._value = property(stop_gradient)  # type: ignore[attr-defined]
OF_TRACED.add("_value")

__all__ = ["ArrayBox"]
