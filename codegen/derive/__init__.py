"""Derivatives, graph to graph. ``adjoint.py`` is the first file to read: reverse and forward mode, as nodes appended
to the same graph. The adjoint of a loop is ``loop_adjoint.py``; its residuals are chosen in ``residuals.py`` by a
minimum cut (``residual_cut.py``). ``checkpoints.py`` is for loops that are too long to store, ``capacity.py`` for those
whose length data decides.
``pullback.py`` gives the tracer derivatives of closed graphs.
"""

from . import pullback  # noqa: F401  (registers itself)
