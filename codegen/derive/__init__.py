"""Derivatives, graph to graph: ``adjoint.py`` is reverse and forward mode, ``loop_adjoint.py`` that of loops.

What the reverse mode of a loop stores and what it computes again is ``residuals.py`` over ``residual_cut.py``;
``checkpoints.py`` and ``capacity.py`` are for loops that are too long to store or whose length data decides.
"""
