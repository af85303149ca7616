"""The runtime: compiled functions as users call them. ``compiled.py`` is the first file to read (``compile_grad`` and
its functions), then ``paths/dispatcher.py`` (the slow path of a call). Rooms: ``record`` (recording of a call),
``paths`` (dispatch to recorded paths), ``state`` (outside state of a function), ``launch`` (binding, the native
launcher, the kernel cache), ``cuda`` (devices), ``ahead`` (kernels and files without Python). ``explain.py``,
``stats.py`` and ``config.py`` are for users; ``tensor_library.py`` is the compiler's interface to tensors.
"""

from ..tracer.ir.late_modules import LateModule
from . import ahead_of_time

ahead_of_time.lowering = LateModule(f"{__name__}.ahead.lowering")
