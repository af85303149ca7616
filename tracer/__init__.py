"""The tracer: what was run. It knows the program (``ir/``) and the primitives that it is made of (``ops/``), records
plain NumPy code as such a program (``record/``, ``numpy_api/``, ``control/``, ``random/``), and finds the loops that
Python went through (``reroll/``, with what ``bytecode/`` proves of the user's code).

Start reading at ``ir/graph.py`` (what a program is), then ``ir/primitive.py`` and ``ops/elementwise.py`` (what it is
made of), then ``record/array.py`` (how plain NumPy code becomes one), then ``reroll/roll.py`` (how loops are found).
"""
