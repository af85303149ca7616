"""Eager tensors: they compute at once with NumPy, and remember how, in the manner of PyTorch. ``op.py`` is the first
file to read: an operation is a function over raw arrays, and its derivative is compiled from a recording of it. Then
``apply.py`` (an operation run and put on the tape), ``node.py`` (the tape), ``backward_pass.py`` (reverse mode, node
by node), ``compiled_backward.py`` (a tape that comes again, as one kernel), ``inplace.py`` (views, and
writing into them), ``capture.py`` (eager code recorded instead of computed). The ``ops_*.py`` files are the
operations, by subject.
"""

import importlib

# Whichever part of the library is imported first, the compiler knows of all of it.
importlib.import_module("..steps", __name__)
